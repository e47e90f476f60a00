"""Structural tags as xgrammar and vLLM write them: which formats there are, and whether one is well formed.

Sources: xgrammar 0.2.8, ``structural_tag.py`` and ``docs/structural_tag/structural_tag.md``. Fields that are not listed here
are refused, so that nothing is dropped in silence.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NoReturn, TypeGuard

from cdplugin.errors import GrammarError, LimitExceeded, not_json, shown
from cdplugin.limits import BEYOND_TEXT, Limits, check_length

_REQUIRED = object()
MOST_DEPTH = 64
"""Formats inside each other."""
_MOST_COUNT = 2**31 - 1
_MOST_VALUES = 1_000_000

FIELDS: dict[str, dict[str, tuple[str, Any]]] = {
    "const_string": {"value": ("text", _REQUIRED)},
    "json_schema": {
        "json_schema": ("schema", _REQUIRED),
        "style": ("text", "json"),
        "any_order": ("bool", False),
        "max_whitespace_cnt": ("count?", None),
        "excludes": ("texts", ()),
    },
    "qwen_xml_parameter": {"json_schema": ("schema", _REQUIRED)},
    "any_text": {"excludes": ("texts", ()), "max_tokens": ("count?", None), "max_chars": ("count?", None)},
    "grammar": {"grammar": ("text", _REQUIRED)},
    "regex": {"pattern": ("text", _REQUIRED)},
    "token": {"token": ("token", _REQUIRED)},
    "exclude_token": {"exclude_tokens": ("tokens", ())},
    "any_tokens": {"exclude_tokens": ("tokens", ()), "max_tokens": ("count?", None)},
    "sequence": {"elements": ("formats", _REQUIRED)},
    "or": {"elements": ("formats", _REQUIRED)},
    "optional": {"content": ("format", _REQUIRED)},
    "plus": {"content": ("format", _REQUIRED)},
    "star": {"content": ("format", _REQUIRED)},
    "repeat": {"min": ("count", _REQUIRED), "max": ("bound", _REQUIRED), "content": ("format", _REQUIRED)},
    "tag": {"begin": ("begin", _REQUIRED), "content": ("format", _REQUIRED), "end": ("end", _REQUIRED)},
    "triggered_tags": {
        "triggers": ("triggers", _REQUIRED),
        "tags": ("tags", _REQUIRED),
        "at_least_one": ("bool", False),
        "stop_after_first": ("bool", False),
        "excludes": ("texts", ()),
    },
    "token_triggered_tags": {
        "trigger_tokens": ("tokens", _REQUIRED),
        "tags": ("tags", _REQUIRED),
        "exclude_tokens": ("tokens", ()),
        "at_least_one": ("bool", False),
        "stop_after_first": ("bool", False),
    },
    "tags_with_separator": {
        "tags": ("tags", _REQUIRED),
        "separator": ("text", _REQUIRED),
        "at_least_one": ("bool", False),
        "stop_after_first": ("bool", False),
    },
    "dispatch": {"rules": ("text rules", _REQUIRED), "loop": ("bool", True), "excludes": ("texts", ())},
    "token_dispatch": {"rules": ("token rules", _REQUIRED), "loop": ("bool", True), "exclude_tokens": ("tokens", ())},
}


class Format:
    """A format that is well formed. ``kind``: its type; ``at``: JSON Pointer; fields are attributes, with their defaults.

    ``kind`` is ``"spec"`` for a spec of cdplugin that stands where a format may.
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
    """A pydantic model as data; anything else as it is."""
    return value.model_dump(by_alias=True) if hasattr(value, "model_dump") and not isinstance(value, type) else value


def _check_fields(value: dict[Any, Any], known: Iterable[str], at: str, message: str, expected: str) -> None:
    """Refuse fields that are not known, so that nothing is dropped in silence."""
    for name in value:
        if name not in known:
            key = name if isinstance(name, str) else shown(name)
            fail(f"{at}/{key}", message, expected=expected, found=shown(name))


def read_tag(tag: Any, limits: Limits) -> Format:
    """The format of a structural tag of either shape, ``"format"`` or ``"structures"``: a dict, JSON text, a pydantic model."""
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
    """How many values a tag has when it is written out: parts that are one object are written as often as they occur."""
    sizes: dict[int, int] = {}
    pending: list[tuple[Any, bool]] = [(root, False)]
    while pending:
        value, is_done = pending.pop()
        children = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
        if is_done:
            sizes[id(value)] = 1 + sum(sizes.get(id(child), 1) for child in children)
        elif children and id(value) not in sizes:
            sizes[id(value)] = 1  # a value inside itself is found by its depth
            pending.append((value, True))
            pending += [(child, False) for child in children]
    return sizes.get(id(root), 1)


def _from_structures(tag: dict[str, Any]) -> dict[str, Any]:
    """The older shape as the newer one."""
    known = ("type", "structures", "triggers")
    _check_fields(tag, known, "", "unknown field of a structural tag", "structures and triggers")
    structures = tag.get("structures")
    if not isinstance(structures, (list, tuple)):
        fail("/structures", "bad structures", expected="a list", found=type(structures).__name__)
    tags = []
    for i, item in enumerate(structures):
        item = dumped(item)
        if not isinstance(item, dict) or not {"begin", "end"} <= item.keys() or item.keys() - {"begin", "schema", "end"}:
            fail(f"/structures/{i}", "bad structure", expected="begin, schema and end", found=item)
        content = {"type": "json_schema", "json_schema": item.get("schema", True)}
        tags.append({"type": "tag", "begin": item["begin"], "content": content, "end": item["end"]})
    return {"type": "triggered_tags", "triggers": tag.get("triggers"), "tags": tags}


def read_format(value: Any, at: str, depth: int, default: str = "") -> Format:
    """Check a format and all inside it; ``default``: its type where none is given. Depth is bounded by :data:`MOST_DEPTH`."""
    if depth > MOST_DEPTH:
        raise LimitExceeded("formats are nested too deeply", location=at, expected=f"at most {MOST_DEPTH}")
    if hasattr(value, "to_ir"):
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
    for name, (what, default) in fields.items():
        if name not in value or (value[name] is None and default is not _REQUIRED):
            if default is _REQUIRED:
                fail(at, f"bad {kind}", expected=f"a field {name!r}", found="none")
            out[name] = default
        else:
            out[name] = _read_field(what, value[name], f"{at}/{name}", depth)
    return Format(str(kind), at, out)


def _read_field(what: str, value: Any, at: str, depth: int) -> Any:
    """One field; ``what``: the kind of value that :data:`FIELDS` names."""
    if what == "text":
        return _text(value, at)
    if what == "texts":
        return tuple(_text(text, f"{at}/{i}", empty=False) for i, text in enumerate(_list(value, at)))
    if what == "triggers":
        texts = _read_field("texts", value, at, depth)
        return texts if texts else fail(at, "bad triggers", expected="at least one", found="none")
    if what == "bool":
        return value if isinstance(value, bool) else fail(at, "bad value", expected="true or false", found=value)
    if what in ("count", "count?", "bound"):
        least = -1 if what == "bound" else 0
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST_COUNT:
            fail(at, "bad value", expected=f"a whole number from {least} to {_MOST_COUNT}", found=value)
        if what != "count" and value > BEYOND_TEXT:
            return -1 if what == "bound" else None  # an upper bound that no text reaches is none
        return value
    if what == "token":
        return _token(value, at)
    if what == "tokens":
        return tuple(_token(token, f"{at}/{i}") for i, token in enumerate(_list(value, at)))
    if what == "schema":
        return value
    if what == "format":
        return read_format(value, at, depth + 1)
    if what == "formats":
        items = _list(value, at)
        return tuple(read_format(item, f"{at}/{i}", depth + 1) for i, item in enumerate(items))
    if what == "tags":
        return _tags(value, at, depth)
    if what == "begin":
        return _delimiter(value, at, depth)
    if what == "end":
        if not isinstance(value, (list, tuple)):
            return (_delimiter(value, at, depth),)
        texts = tuple(_text(text, f"{at}/{i}") for i, text in enumerate(value))
        return texts or fail(at, "bad end", expected="a text", found="[]")
    rules = []
    for i, rule in enumerate(_list(value, at)):
        if not isinstance(rule, (list, tuple)) or len(rule) != 2:
            fail(f"{at}/{i}", "bad rule", expected="a pair: pattern, format", found=rule)
        pattern = _text(rule[0], f"{at}/{i}/0", empty=False) if what == "text rules" else _token(rule[0], f"{at}/{i}/0")
        rules.append((pattern, read_format(rule[1], f"{at}/{i}/1", depth + 1)))
    return tuple(rules)


def _list(value: Any, at: str) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        fail(at, "bad value", expected="a list", found=type(value).__name__)
    return list(value)


def _text(value: Any, at: str, empty: bool = True) -> str:
    if not isinstance(value, str):
        fail(at, "bad value", expected="a string", found=type(value).__name__)
    if not value and not empty:
        fail(at, "bad value", expected="a string that is not empty", found='""')
    try:
        value.encode()
    except UnicodeEncodeError:
        fail(at, "bad value", expected="Unicode text", found="a lone surrogate")
    return value


def is_token(value: Any) -> TypeGuard[int | str]:
    """Whether ``value`` may be the id of a token, or its text."""
    return value != "" if isinstance(value, str) else isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _token(value: Any, at: str) -> int | str:
    if not is_token(value):
        fail(at, "bad token", expected="a token id or the text of a token", found=value)
    return value


def _delimiter(value: Any, at: str, depth: int) -> str | Format:
    """A tag's begin or end: a text or a token."""
    if isinstance(value, str):
        return _text(value, at)
    found = read_format(value, at, depth + 1, "token")
    if found.kind != "token":
        fail(at, "bad delimiter of a tag", expected="a string or a format of type token", found=found.kind)
    return found


def _tags(value: Any, at: str, depth: int) -> tuple[Format, ...]:
    tags = tuple(read_format(item, f"{at}/{i}", depth + 1, "tag") for i, item in enumerate(_list(value, at)))
    for tag in tags:
        if tag.kind != "tag":
            fail(tag.at, "bad tag", expected="a format of type tag", found=tag.kind)
    return tags or fail(at, "bad tags", expected="at least one", found="none")
