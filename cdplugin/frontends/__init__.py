"""Front ends: from each kind of spec to rules over lexemes (:mod:`cdplugin.ir`).

``json_schema``, ``lark``, ``bnf`` and ``tags`` are folders; ``literals`` has regular expressions and choices, ``free_text``
text that watches for triggers. What several of them need: ``source`` (messages that point into a text), ``spelling`` and
``keywords`` (texts), ``repeats`` (counts as rules), ``regular`` (rules as expressions), ``productive`` and ``cycles`` (what
rules derive).
"""
