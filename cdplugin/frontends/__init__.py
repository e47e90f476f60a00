"""Front ends: turn each kind of spec into rules over lexemes (:mod:`cdplugin.ir`).

``json_schema``, ``lark``, ``bnf`` and ``tags`` are folders; ``literals`` compiles regular expressions and choices,
``free_text`` text that watches for triggers. Shared helpers: ``source`` (messages that point into a text), ``spelling`` and
``keywords`` (texts), ``repeats`` (counted repetition as rules), ``regular`` (regular rules as expressions), ``productive`` and
``cycles`` (analyses of rules).
"""
