"""Grammars that ship: ``cd.grammars.CPP`` and others, each in a file of Lark's notation beside this one.

docs/grammars.md has a table of what each covers and how that was checked.
"""

from __future__ import annotations

from importlib.resources import files

from cdplugin.specs_lark import Lark


def _shipped(name: str) -> Lark:
    return Lark(files(__name__).joinpath(f"{name}.lark").read_text(encoding="utf-8"))


ARITHMETIC = _shipped("arithmetic")
"""Sums, products and parentheses over decimal numbers."""

CPP = _shipped("cpp")
"""C++17 as programs are written. Names are not looked up, so what is a type and what a value is left open."""

PYTHON = _shipped("python")
"""Python, with indentation kept simple. Left out: nested parentheses over several lines, f-strings, ``async``, ``match``,
``global``, ``*args``, triple quotes, comments that are indented.
"""

SMILES = _shipped("smiles")
"""SMILES (OpenSMILES 1.0) by its syntax: that ring closures come in pairs and valences add up is not checked."""
