"""The grammars that ship with cdplugin: ``cd.grammars.CPP`` and others, each in a Lark file beside this module.

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
"""C++17 as programs are written. Names are not looked up, so types and values are not distinguished."""

CPP17 = CPP
"""Another name of :data:`CPP`."""

FUNQL = _shipped("funql")
"""FunQL, GeoQuery's functional query language, by the types of its predicates."""

_PYTHON = _shipped("python").grammar
PYTHON = Lark(_python.complete(_PYTHON))
"""Python 3 as people write it: what CPython 3.11, 3.12 and 3.13 all parse, with any indentation by spaces."""

SMILES = _shipped("smiles")
"""The syntax of SMILES (OpenSMILES 1.0); that ring closures come in pairs and valences add up is not checked."""

_SQL = _sql.spaced(_shipped("sql").grammar)
SQL = _sql.common(_SQL)
"""One statement of SQL: queries, changes, definitions, with any names; :func:`sql` restricts the names."""


def python(*, max_width: int = 96, version: str = _python.VERSIONS[0]) -> Lark:
    """:data:`PYTHON` with blocks indented by at most ``max_width`` columns, or with what a later version of Python brought.

    Infilling makes the rules of all widths at once, so a small width makes it faster and saves memory. ``version``: "3.11";
    "3.12" with type parameters and aliases (PEP 695) and any strings and comments in the fields of f-strings (PEP 701);
    "3.13" with defaults of type parameters (PEP 696). Raises ``ValueError`` for another version.

    >>> "max_width" in python(max_width=20).grammar
    True
    """
    if version not in _python.VERSIONS:
        raise ValueError(f"version: expected one of {', '.join(map(repr, _python.VERSIONS))}, found {version!r}")
    grammar = PYTHON.grammar if version == _python.VERSIONS[0] else _python.complete(_PYTHON, version)
    return Lark(_python.narrower(grammar, max_width))


def sql(
    tables: Mapping[str, Iterable[str]], *, aliases: Iterable[str] = _sql.ALIASES, functions: Iterable[str] | None = None
) -> Lark:
    """:data:`SQL` over the tables and columns of a schema.

    ``tables``: names of tables with the names of their columns. ``users.id`` needs a column of that table, a bare ``id`` a
    column of any. ``aliases``: the names that a statement may give to tables, columns and queries. ``functions``: None allows
    any name. Names that are not plain words are written in quotes. Raises :class:`cdplugin.GrammarError` for what is not a list
    of names.

    >>> "users" in sql({"users": ["id", "name"]}).grammar
    True
    """
    return _sql.restricted(_SQL, tables, aliases, functions)
