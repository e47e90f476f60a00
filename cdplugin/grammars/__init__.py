"""Grammars that ship: ``cd.grammars.CPP`` and others, each in a file of Lark's notation beside this one.

docs/languages.md says what each covers and how that was checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.resources import files

from cdplugin.grammars import _python, _sql
from cdplugin.specs.lark import Lark

__all__ = ["ARITHMETIC", "CPP", "CPP17", "FUNQL", "PYTHON", "SMILES", "SQL", "python", "sql"]


def _shipped(name: str) -> Lark:
    return Lark(files(__name__).joinpath(f"{name}.lark").read_text(encoding="utf-8"))


ARITHMETIC = _shipped("arithmetic")
"""Sums, products and parentheses over decimal numbers."""

CPP = _shipped("cpp")
"""C++17 as programs are written. Names are not looked up, so what is a type and what a value is left open."""

CPP17 = CPP
"""Another name of :data:`CPP`."""

FUNQL = _shipped("funql")
"""FunQL, GeoQuery's functional query language, by the types of its predicates."""

PYTHON = Lark(_python.complete(_shipped("python").grammar))
"""Python 3 as people write it: what CPython 3.11, 3.12 and 3.13 all parse, with any indentation by spaces."""

SMILES = _shipped("smiles")
"""SMILES (OpenSMILES 1.0) by its syntax: that ring closures come in pairs and valences add up is not checked."""

_SQL = _shipped("sql").grammar
SQL = _sql.common(_SQL)
"""One statement of SQL: queries, changes, definitions. Any names; :func:`sql` takes lists of them."""


def python(*, max_width: int = 96) -> Lark:
    """:data:`PYTHON` with blocks of at most so many columns. Infilling makes the rules of all widths at once: it is faster, and
    takes less memory, with few.

    >>> "max_width" in python(max_width=20).grammar
    True
    """
    return Lark(_python.narrower(PYTHON.grammar, max_width))


def sql(
    tables: Mapping[str, Iterable[str]], *, aliases: Iterable[str] = _sql.ALIASES, functions: Iterable[str] | None = None
) -> Lark:
    """:data:`SQL` over the tables and columns of a schema.

    ``tables``: names of tables with the names of their columns. ``users.id`` needs a column of that table, ``id`` alone one of
    any. ``aliases``: what a statement may call tables, columns and queries of its own. ``functions``: None allows any name.
    Names that are no plain words are written in quotes. Raises :class:`cdplugin.GrammarError` for what is no list of names.

    >>> "users" in sql({"users": ["id", "name"]}).grammar
    True
    """
    return _sql.restricted(_SQL, tables, aliases, functions)
