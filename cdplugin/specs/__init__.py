"""What a user asks for: one class per kind of grammar that :meth:`cdplugin.Compiler.compile` takes."""
