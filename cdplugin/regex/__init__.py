"""Regular expressions in three dialects, parsed and lowered to byte expressions (:mod:`cdplugin.expr`).

``scanner``, ``classes`` and ``syntax`` parse a pattern into a ``tree``; ``unicode`` has sets of code points by name.
``references``, ``lookahead`` and ``lookbehind`` rewrite what byte expressions lack. ``pattern`` drives them all, and spells the
result in an ``alphabet``: raw text, or the inside of a JSON string.
"""
