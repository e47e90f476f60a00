"""Backus-Naur grammars over characters: GBNF as llama.cpp defines it, EBNF as xgrammar does.

``scan`` reads characters, ``parse`` makes a tree per rule (``tree``), ``check`` finds what is undefined or matches nothing,
``fold`` turns rules that are regular into expressions, ``write`` writes rules over lexemes.
"""

from cdplugin.frontends.bnf.compile import compile_bnf

__all__ = ["compile_bnf"]
