"""Backus-Naur grammars over characters: GBNF as llama.cpp defines it, EBNF as xgrammar does.

``scan`` reads characters, ``parse`` makes a tree per rule (``tree``), ``macros`` and ``rule_options`` what xgrammar's notation
has besides, ``fold`` turns rules that are regular into expressions, ``write`` writes rules over lexemes. ``compile`` has all
that done, and finds what is undefined or matches nothing.
"""

from cdplugin.frontends.bnf.compile import compile_bnf

__all__ = ["compile_bnf"]
