"""The BNF front end: grammars over characters, in llama.cpp's GBNF or xgrammar's EBNF.

``scan`` reads characters; ``parse`` builds a syntax tree (``tree``) for each rule; ``macros`` and ``rule_options`` parse what
only xgrammar's notation has; ``fold`` turns regular rules into expressions; ``write`` writes rules over lexemes. ``compile``
drives them, and reports undefined rules and rules that match nothing.
"""

from cdplugin.frontends.bnf.compile import compile_bnf

__all__ = ["compile_bnf"]
