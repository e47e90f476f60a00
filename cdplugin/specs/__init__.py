"""What a user asks for: one class per kind of grammar that :meth:`cdplugin.Compiler.compile` takes.

``base`` has the simple ones and JSON Schema; ``lark``, ``text`` (GBNF, EBNF), ``tags`` (structural tags, tools) and
``template`` the others. ``kinds`` names them; ``popular`` lists what is met before a request waits for it.
"""
