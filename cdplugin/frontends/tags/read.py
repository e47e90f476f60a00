"""Read structural tags of xgrammar and vLLM, and check that they are well formed.

Sources: xgrammar 0.2.8, ``structural_tag.py`` and ``docs/structural_tag/structural_tag.md``. Fields that are not listed here
are refused, so nothing is dropped silently.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NoReturn, TypeGuard

from cdplugin.errors import GrammarError, LimitExceeded, not_json, shown
from cdplugin.frontends.json_schema.source import escape_token
from cdplugin.limits import BEYOND_TEXT, Limits, check_length

_REQUIRED = object()
MOST_DEPTH = 64
"""Nesting depth of formats."""
_MOST_COUNT = 2**31 - 1
_MOST_VALUES = 1_000_000


class Format:
    """A well-formed format. ``kind``: its type; ``at``: its JSON Pointer; its fields, or their defaults, are attributes.

    ``kind`` is ``"spec"`` for a cdplugin spec in the place of a format.
    """

    def __init__(self, kind: str, at: str, fields: dict[str, Any]) -> None:
        self.kind = kind
        self.at = at
        self.__dict__.update(fields)

    def __getattr__(self, name: str) -> Any:  # fields; for the type checker
        raise AttributeError(name)


def fail(at: str, message: str, *, expected: str = "", found: Any = None) -> NoReturn:
    """Raise :class:`GrammarError` at a JSON Pointer."""
    shown = "" if found is None else found if isinstance(found, str) else _show(found)
    raise GrammarError(message, location=at or "/", expected=expected, found=shown)


def _show(value: Any) -> str:
    text = shown(value)
    return text if len(text) <= 60 else text[:57] + "…"


def dumped(value: Any) -> Any:
    """The data of a pydantic model; anything else unchanged."""
    return value.model_dump(by_alias=True) if hasattr(value, "model_dump") and not isinstance(value, type) else value


def _check_fields(value: dict[Any, Any], known: Iterable[str], at: str, message: str, expected: str) -> None:
    """Refuse unknown fields."""
    for name in value:
        if name not in known:
            key = name if isinstance(name, str) else shown(name)
            fail(f"{at}/{escape_token(key)}", message, expected=expected, found=shown(name))


def read_tag(tag: Any, limits: Limits) -> Format:
    """The format of a structural tag, given as a dict, JSON text or pydantic model, with ``"format"`` or ``"structures"``."""
    tag = dumped(tag)
    if isinstance(tag, str):
        check_length("the structural tag", len(tag), limits)
        try:
            tag = json.loads(tag)
        except RecursionError:
            raise LimitExceeded("formats are nested too deeply", expected=f"at most {MOST_DEPTH}") from None
        except ValueError as problem:
            raise not_json("the structural tag", problem) from None
    if not isinstance(tag, dict):
        fail("", "bad structural tag", expected="an object", found=type(tag).__name__)
    if _written_size(tag) > _MOST_VALUES:
        raise LimitExceeded("the structural tag is too large, written out", expected=f"at most {_MOST_VALUES} values")
    if "structures" in tag or "triggers" in tag:
        return read_format(_from_structures(tag), "", 0)
    if tag.get("type", "structural_tag") != "structural_tag":
        fail("/type", "bad structural tag", expected='"structural_tag"', found=tag["type"])
    _check_fields(tag, ("type", "format"), "", "unknown field of a structural tag", "type and format")
    if "format" not in tag:
        fail("", "bad structural tag", expected="a format", found="none")
    return read_format(tag["format"], "/format", 0)


def _written_size(root: Any) -> int:
    """The number of values of a tag as a tree: a shared part counts at each occurrence."""
    sizes: dict[int, int] = {}
    pending: list[tuple[Any, bool]] = [(root, False)]
    while pending:
        value, is_done = pending.pop()
        children = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
        if is_done:
            sizes[id(value)] = 1 + sum(sizes.get(id(child), 1) for child in children)
        elif children and id(value) not in sizes:
            sizes[id(value)] = 1  # a value inside itself is refused later, for its depth
            pending.append((value, True))
            pending += [(child, False) for child in children]
    return sizes.get(id(root), 1)


def _from_structures(tag: dict[str, Any]) -> dict[str, Any]:
    """Convert the older form of a tag to the newer one."""
    known = ("type", "structures", "triggers")
    _check_fields(tag, known, "", "unknown field of a structural tag", "structures and triggers")
    structures = tag.get("structures")
    if not isinstance(structures, (list, tuple)):
        fail("/structures", "bad structures", expected="a list", found=type(structures).__name__)
    if not structures:
        fail("/structures", "bad structures", expected="at least one", found="none")
    tags = []
    for i, item in enumerate(structures):
        item = dumped(item)
        if not isinstance(item, dict) or not {"begin", "end"} <= item.keys() or item.keys() - {"begin", "schema", "end"}:
            fail(f"/structures/{i}", "bad structure", expected="begin, schema and end", found=item)
        content = {"type": "json_schema", "json_schema": item.get("schema", True)}
        tags.append({"type": "tag", "begin": item["begin"], "content": content, "end": item["end"]})
    return {"type": "triggered_tags", "triggers": tag.get("triggers"), "tags": tags}


def read_format(value: Any, at: str, depth: int, default: str = "") -> Format:
    """Check a format and all inside it. ``default``: its type if it names none. Nesting is bounded by :data:`MOST_DEPTH`."""
    if depth > MOST_DEPTH:
        raise LimitExceeded("formats are nested too deeply", location=at, expected=f"at most {MOST_DEPTH}")
    if hasattr(value, "to_ir") and not isinstance(value, type):
        return Format("spec", at, {"spec": value, "depth": depth})
    value = dumped(value)
    if not isinstance(value, dict):
        fail(at, "bad format", expected="an object with a type", found=type(value).__name__)
    kind = value.get("type", default)
    fields = FIELDS.get(kind) if isinstance(kind, str) else None
    if fields is None:
        fail(f"{at}/type", "unknown type of format", expected="one of " + ", ".join(FIELDS), found=kind if kind else "none")
    _check_fields(value, {"type", *fields}, at, f"unknown field of {kind}", f"one of {', '.join(fields)}")
    out = {}
    for name, (read, default) in fields.items():
        if name not in value or (value[name] is None and default is not _REQUIRED):
            if default is _REQUIRED:
                fail(at, f"bad {kind}", expected=f"a field {name!r}", found="none")
            out[name] = default
        else:
            out[name] = read(value[name], f"{at}/{name}", depth)
    return Format(str(kind), at, out)


Reader = Callable[[Any, str, int], Any]
"""Reads a field's value. Arguments: the value, its JSON Pointer, the nesting depth of the format."""


def _listed(read: Reader, needed: str = "") -> Reader:
    """A reader of lists. ``needed``: what the list must have at least one of, for messages; else it may be empty."""

    def read_list(value: Any, at: str, depth: int) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            fail(at, "bad value", expected="a list", found=type(value).__name__)
        found = tuple(read(item, f"{at}/{i}", depth) for i, item in enumerate(value))
        return found if found or not needed else fail(at, f"bad {needed}", expected="at least one", found="none")

    return read_list


def _any(value: Any, at: str, depth: int) -> Any:
    return value


def _bool(value: Any, at: str, depth: int) -> bool:
    return value if isinstance(value, bool) else fail(at, "bad value", expected="true or false", found=value)


def _count(value: Any, at: str, depth: int, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST_COUNT:
        fail(at, "bad value", expected=f"a whole number from {least} to {_MOST_COUNT}", found=value)
    return value


def _most(value: Any, at: str, depth: int, least: int = 0) -> int | None:
    """An upper bound. None for one that no text reaches, and for -1 where ``least`` allows it."""
    count = _count(value, at, depth, least)
    return count if 0 <= count <= BEYOND_TEXT else None


def _text(value: Any, at: str, depth: int) -> str:
    if not isinstance(value, str):
        fail(at, "bad value", expected="a string", found=type(value).__name__)
    try:
        value.encode()
    except UnicodeEncodeError:
        fail(at, "bad value", expected="Unicode text", found="a lone surrogate")
    return value


def _some_text(value: Any, at: str, depth: int) -> str:
    return _text(value, at, depth) or fail(at, "bad value", expected="a string that is not empty", found='""')


def _syntax(value: Any, at: str, depth: int) -> str:
    if value not in ("ebnf", "lark"):
        fail(at, "unknown syntax of a grammar", expected="'ebnf' or 'lark'", found=value)
    return str(value)


def is_token(value: Any) -> TypeGuard[int | str]:
    """Whether ``value`` may be a token's id or text."""
    return value != "" if isinstance(value, str) else isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _token(value: Any, at: str, depth: int) -> int | str:
    return value if is_token(value) else fail(at, "bad token", expected="a token id or the text of a token", found=value)


def _inner(value: Any, at: str, depth: int) -> Format:
    return read_format(value, at, depth + 1)


def _tag(value: Any, at: str, depth: int) -> Format:
    tag = read_format(value, at, depth + 1, "tag")
    return tag if tag.kind == "tag" else fail(at, "bad tag", expected="a format of type tag", found=tag.kind)


def _delimiter(value: Any, at: str, depth: int) -> str | Format:
    """The begin or end of a tag: a text or a token."""
    if isinstance(value, str):
        return _text(value, at, depth)
    found = read_format(value, at, depth + 1, "token") if isinstance(value, dict) else None
    if found is None or found.kind != "token":
        kind = type(value).__name__ if found is None else found.kind
        fail(at, "bad delimiter of a tag", expected="a string or a format of type token", found=kind)
    return found


def _ends(value: Any, at: str, depth: int) -> tuple[str | Format, ...]:
    if not isinstance(value, (list, tuple)):
        return (_delimiter(value, at, depth),)
    return _listed(_text)(value, at, depth) or fail(at, "bad end", expected="a text", found="[]")


def _rule(read: Reader) -> Reader:
    """A reader of pairs: a value for ``read``, and a format."""

    def read_rule(value: Any, at: str, depth: int) -> tuple[Any, Format]:
        if not isinstance(value, (list, tuple)) or len(value) != 2:
            fail(at, "bad rule", expected="a pair: pattern, format", found=value)
        return read(value[0], f"{at}/0", depth), _inner(value[1], f"{at}/1", depth)

    return read_rule


_texts, _tokens, _tags = _listed(_some_text), _listed(_token), _listed(_tag, "tags")
FIELDS: dict[str, dict[str, tuple[Reader, Any]]] = {
    "const_string": {"value": (_text, _REQUIRED)},
    "json_schema": {
        "json_schema": (_any, _REQUIRED),
        "style": (_text, "json"),
        "any_order": (_bool, False),
        "max_whitespace_cnt": (_most, None),
        "excludes": (_texts, ()),
    },
    "qwen_xml_parameter": {"json_schema": (_any, _REQUIRED)},
    "any_text": {"excludes": (_texts, ()), "max_tokens": (_most, None), "max_chars": (_most, None)},
    "grammar": {"grammar": (_text, _REQUIRED), "syntax": (_syntax, "ebnf")},
    "regex": {"pattern": (_text, _REQUIRED)},
    "token": {"token": (_token, _REQUIRED)},
    "exclude_token": {"exclude_tokens": (_tokens, ())},
    "any_tokens": {"exclude_tokens": (_tokens, ()), "max_tokens": (_most, None)},
    "sequence": {"elements": (_listed(_inner), _REQUIRED)},
    "or": {"elements": (_listed(_inner), _REQUIRED)},
    "optional": {"content": (_inner, _REQUIRED)},
    "plus": {"content": (_inner, _REQUIRED)},
    "star": {"content": (_inner, _REQUIRED)},
    "repeat": {"min": (_count, _REQUIRED), "max": (partial(_most, least=-1), _REQUIRED), "content": (_inner, _REQUIRED)},
    "tag": {"begin": (_delimiter, _REQUIRED), "content": (_inner, _REQUIRED), "end": (_ends, _REQUIRED)},
    "triggered_tags": {
        "triggers": (_listed(_some_text, "triggers"), _REQUIRED),
        "tags": (_tags, _REQUIRED),
        "at_least_one": (_bool, False),
        "stop_after_first": (_bool, False),
        "excludes": (_texts, ()),
    },
    "token_triggered_tags": {
        "trigger_tokens": (_tokens, _REQUIRED),
        "tags": (_tags, _REQUIRED),
        "exclude_tokens": (_tokens, ()),
        "at_least_one": (_bool, False),
        "stop_after_first": (_bool, False),
    },
    "tags_with_separator": {
        "tags": (_tags, _REQUIRED),
        "separator": (_text, _REQUIRED),
        "at_least_one": (_bool, False),
        "stop_after_first": (_bool, False),
    },
    "dispatch": {"rules": (_listed(_rule(_some_text)), _REQUIRED), "loop": (_bool, True), "excludes": (_texts, ())},
    "token_dispatch": {"rules": (_listed(_rule(_token)), _REQUIRED), "loop": (_bool, True), "exclude_tokens": (_tokens, ())},
}
"""For each type of format, its fields: the reader and the default of each."""
