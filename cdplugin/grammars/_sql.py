"""SQL over given tables and columns: replaces the rules below ``// Names.`` in ``sql.lark`` by lists of names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from cdplugin.errors import GrammarError
from cdplugin.specs.lark import Lark

ALIASES = ("t1", "t2", "t3", "t4", "c1", "c2", "c3", "c4")
_MARK = "// Names.\n"
_MARK_OF_WORDS = "// Words.\n"


def spaced(text: str) -> str:
    """``sql.lark`` with words next to white space defined: ``_AS_`` is ``AS`` with white space on both sides, ``AS_`` after
    it.
    """
    defined = set(re.findall(r"^(\w+): ", text, re.MULTILINE))
    lines = []
    for name in sorted(set(re.findall(r"\b(?:_[A-Z]\w*|[A-Z]\w*_)\b", text)) - defined):
        word = name.strip("_")
        if word in defined:
            lines.append(f"{name}: {'WHITE ' * name.startswith('_')}{word}{' WHITE' * name.endswith('_')}\n")
    return text.replace(_MARK_OF_WORDS, _MARK_OF_WORDS + "".join(lines))


def common(text: str) -> Lark:
    """``sql.lark`` without the rules for SQLite only."""
    return Lark(_without("own", text))


def restricted(text: str, tables: Mapping[str, Iterable[str]], aliases: Iterable[str], functions: Iterable[str] | None) -> Lark:
    """``sql.lark`` with names from the given lists, and without what SQLite does not support.

    Raises :class:`cdplugin.GrammarError` for anything but non-empty lists of printable names.
    """
    if not isinstance(tables, Mapping) or not tables:
        raise GrammarError(
            "wrong tables",
            location="/tables",
            expected="a mapping of table names to column names, not empty",
            found=repr(tables),
        )
    fixed, names = text.split(_MARK)
    fixed = _without("extra", fixed)
    reserved = _reserved(fixed) | {"match"}  # SQLite accepts that word as a name, but not after an expression
    aliases = _listed(aliases, "/aliases")
    given = {table: _listed(listed, f"/tables/{table}") for table, listed in tables.items()}
    columns = {table: [_spelled(name, reserved) for name in listed] for table, listed in given.items()}
    qualified = (f'({table}) "." COLUMNS_{number}' for number, table in enumerate(_names(tables, "/tables", reserved)))
    lines = [
        "table: TABLES | ALIASES",
        "local_table: TABLES",
        "created: ALIASES",
        "column: " + " | ".join(["COLUMNS | ALIASES | ALIASES _DOT (COLUMNS | ALIASES)", *qualified]),
        "quoted_column: QUOTED",
        "qualifier: TABLES | ALIASES",
        "column_name: COLUMNS | ALIASES",
        "dropped_name: COLUMNS | ALIASES",
        "new_table: ALIASES",
        "window_name: ALIASES",
        "new_column: ALIASES",
        "_NEW_TABLE: WHITE ALIASES",
        "_NEW_COLUMN: WHITE ALIASES",
        "TABLES: " + " | ".join(_names(tables, "/tables", reserved)),
        "ALIASES: " + " | ".join(_spelled(name, reserved) for name in aliases),
        "COLUMNS: " + " | ".join(dict.fromkeys(name for listed in columns.values() for name in listed)),
        "QUOTED: " + " | ".join(dict.fromkeys(_quoted(name) for listed in (aliases, *given.values()) for name in listed)),
        *(f"COLUMNS_{number}: " + " | ".join(listed) for number, listed in enumerate(columns.values())),
    ]
    if functions is None:
        lines.append("function: FUNCTION")
        lines.append(names[names.index("FUNCTION: ") : names.index("SET_FUNCTION")].rstrip())
    else:
        fixed, others = _with_functions(fixed, functions)
        lines += ["function: FUNCTION", "FUNCTION: " + " | ".join(others)] if others else []
    return Lark(fixed + _MARK + "\n".join(lines).replace("_DOT", '"."') + "\n")


def _with_functions(text: str, functions: Iterable[str]) -> tuple[str, list[str]]:
    """The rules restricted to calls of the given functions, and the spellings of those that have no rule for
    their arguments.
    """
    functions = _listed(functions, "/functions")
    given = {name.lower() for name in functions}
    counted: set[str] = set()
    for kind, terminal in (("one", "OF_ONE"), ("ranking", "RANKING"), ("trim", "TRIM")):
        listed = re.search(rf"^{terminal}: /\(\?i-u:([\w|]+)\)/$", text, re.MULTILINE)
        assert listed is not None
        names = listed[1].split("|")
        counted.update(names)
        kept = [name for name in names if name in given]
        if kept:
            text = re.sub(rf"^{terminal}: .*", f"{terminal}: /(?i-u:{'|'.join(kept)})/", text, flags=re.MULTILINE)
        else:
            text = _without(kind, text)
    if "count" not in given:
        text = _without("count", text)
    others = [_spelled(name, frozenset()) for name in functions if name.lower() not in counted]
    if not others:
        text = _without("plain", text)
        if "one_call" not in text:
            text = _without("windowed", text)
    return text, others


def _without(kind: str, text: str) -> str:
    """The rules without those whose names begin with ``kind``, and without the alternatives and optional parts that name
    these.
    """
    text = re.sub(rf"^{kind}_.*\n(?:    .*\n)*", "", text, flags=re.MULTILINE)
    name = rf"{kind}_\w+(?:\{{[^{{}}]*\}})?"
    return re.sub(rf"\s+\| {name}|\b{name} \| | {name}\?", "", text)


def _names(listed: Iterable[str], location: str, reserved: frozenset[str]) -> list[str]:
    """The spellings of each name, in Lark's notation: quoted, and in any case without quotes if it is a plain word."""
    return [_spelled(name, reserved) for name in _listed(listed, location)]


def _listed(listed: Iterable[str], location: str) -> list[str]:
    """The names as a checked list. Raises :class:`cdplugin.GrammarError`."""
    if isinstance(listed, str) or not isinstance(listed, Iterable):
        raise GrammarError("wrong names", location=location, expected="a list of names", found=repr(listed))
    names = list(listed)
    if not names:
        raise GrammarError("no names", location=location, expected="at least one", found="none")
    for name in names:
        if not isinstance(name, str) or not name.isprintable() or not name:
            raise GrammarError("wrong name", location=location, expected="text without control characters", found=repr(name))
    return names


def _spelled(name: str, reserved: frozenset[str]) -> str:
    quoted = _quoted(name)
    plain = re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) and name.lower() not in reserved
    return f"/(?i-u:{name})/ | {quoted}" if plain else quoted


def _quoted(name: str) -> str:
    return json.dumps('"' + name.replace('"', '""') + '"', ensure_ascii=False)


def _reserved(text: str) -> frozenset[str]:
    """The words in the grammar's terminal ``RESERVED``."""
    block = re.search(r"^RESERVED:(.*(?:\n    .*)*)", text, re.MULTILINE)
    assert block is not None
    return frozenset(word for words in re.findall(r"\(\?i-u:([\w|]+)\)", block[1]) for word in words.split("|"))
