"""Specs: what a caller wants compiled. One class for each kind of grammar that :meth:`cdplugin.Compiler.compile` takes.

``base`` has the simple ones and JSON Schema; ``lark``, ``text`` (GBNF, EBNF), ``tags`` (structural tags, tools) and
``template`` the others. ``kinds`` makes them by name; ``popular`` prepares expressions that many requests need.
"""
