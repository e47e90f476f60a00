"""Regular expressions in three dialects, read into byte expressions (:mod:`cdplugin.expr`).

``scanner``, ``classes`` and ``syntax`` read a pattern into a ``tree``; ``unicode`` has sets of code points by name.
``references``, ``lookahead`` and ``lookbehind`` write out what no expression has. ``pattern`` has all that done, in an
``alphabet``: raw text or the inside of a JSON string.
"""
