"""Turn what a caller passes as a schema into a JSON value that is safe to walk: with checked size, depth and types.

Neither this module nor those that read the result recurse on the depth of the schema.
"""

from __future__ import annotations

import dataclasses
import json
import marshal
import math
import re
from typing import Any

from cdplugin.errors import GrammarError, LimitExceeded, kind_of, not_json, shown
from cdplugin.limits import Limits, at_most, check_length

MAX_INTEGER_BITS = 8_192
"""Integers of a schema beyond this size are refused: Python converts no integer of over 4,300 digits to text by default."""
_MARKS = re.compile(r'\\.|["\[\]{}]', re.DOTALL)
_SCALARS = (str, bool, int, type(None))
_MOST_WRITTEN = 1_000_000
"""A schema with more values, written out, has no key: shared parts may make it exponentially large."""
MOST_LISTED = 1_000_000
"""Parts that the values of one ``enum`` or ``const`` may have, written out."""
MOST_POINTER_BYTES = 32 << 20
"""Characters of the JSON Pointers of all subschemas together: one long name is part of the pointers of all that is below it."""
_WITHOUT_REFERENCES = 2  # the last version of `marshal` that writes equal values of the same types alike
_MOST_ON_A_LEVEL = 1_000
_ONLY_STR = frozenset((str,))
_SMALL, _CONTAINERS = frozenset((str, bool)), frozenset((dict, list))


def _opened(level: list[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """Split values of one depth: the names in objects, the members of objects and arrays, and the other values."""
    keys: list[Any] = []
    members: list[Any] = []
    others: list[Any] = []
    for value in level:
        kind = type(value)
        if kind is dict:
            keys += value
            members += value.values()
        elif kind is list:
            members += value
        else:
            others.append(value)
    return keys, members, others


def _text_size(level: list[Any], keys: list[str], members: list[Any], others: list[Any]) -> int:
    """About the bytes of one depth as text; the arguments are those and the results of :func:`_opened`."""
    texts = [member for member in members if type(member) is str]
    n_marks = len(level) + len(keys) + len(members) + len(texts)
    return 6 * len(others) + 2 * n_marks + sum(map(len, keys)) + sum(map(len, texts))


def load_schema(schema: Any, limits: Limits, names: set[str] | None = None) -> tuple[dict | bool, int]:
    """Return the schema as a dict or bool, and about its bytes as text. The names of all members are added to ``names``.

    ``schema`` may be a dict, a bool, JSON text, anything with a ``model_json_schema`` method (a pydantic model class), or a
    dataclass or ``TypedDict``, which pydantic describes. Raises ``LimitExceeded`` beyond ``limits.max_spec_depth`` or
    ``max_spec_bytes``, ``GrammarError`` for what is not JSON.
    """
    if isinstance(schema, (str, bytes)):
        schema = _parse_text(schema, limits)
    elif not isinstance(schema, (dict, bool)) and callable(getattr(schema, "model_json_schema", None)):
        try:
            schema = schema.model_json_schema()
        except Exception as error:  # the model's own failure, whatever its type
            raise GrammarError(f"the model gives no JSON Schema: {error}") from error
    elif isinstance(schema, type) and (dataclasses.is_dataclass(schema) or hasattr(schema, "__required_keys__")):
        schema = _describe(schema)
    if not isinstance(schema, (dict, bool)):
        kinds = "a dict, a bool, JSON text, a pydantic model, a dataclass or a TypedDict"
        expected = f"{kinds} (of other types pydantic.TypeAdapter(…).json_schema())"
        raise GrammarError("a JSON Schema", expected=expected, found=kind_of(schema))
    return schema, check_value(schema, limits, names)


def _describe(kind: type) -> Any:
    """The schema of a dataclass or ``TypedDict``, from pydantic."""
    try:
        from pydantic import TypeAdapter
    except ImportError:
        raise GrammarError(f"a schema for {kind_of(kind)}", expected="pydantic to be installed") from None
    try:
        return TypeAdapter(kind).json_schema()
    except Exception as error:  # pydantic's own, of several types
        raise GrammarError(f"the class {kind.__name__} has no JSON Schema: {error}") from error


def _parse_text(text: str | bytes, limits: Limits) -> Any:
    check_length("the schema", len(text), limits)
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        if text.count("{") + text.count("[") > limits.max_spec_depth:
            depth, in_string = 0, False
            for match in _MARKS.finditer(text):
                mark = match[0]
                if mark == '"':
                    in_string = not in_string
                elif not in_string and mark in "[{":
                    depth += 1
                    if depth > limits.max_spec_depth:
                        raise _too_deep(limits)
                elif not in_string and mark in "]}":
                    depth -= 1
        return json.loads(text, parse_constant=_reject_constant)
    except RecursionError:
        raise _too_deep(limits) from None
    except UnicodeDecodeError as error:
        raise GrammarError("the schema is not UTF-8", location=f"byte {error.start}") from None
    except GrammarError:
        raise
    except ValueError as error:
        raise not_json("the schema", error) from None


def _reject_constant(name: str) -> Any:
    raise GrammarError("the schema is not JSON", expected="finite numbers", found=name)


def _too_deep(limits: Limits) -> LimitExceeded:
    return LimitExceeded("schema nested too deeply", expected=at_most(limits, "max_spec_depth"), found="more")


def check_value(root: Any, limits: Limits, names: set[str] | None = None) -> int:
    """Check that ``root`` is a finite JSON value within the limits. The names of all members are added to ``names``.

    Returns about the bytes it has as text; an object that occurs twice at one large depth counts once. Raises ``LimitExceeded``
    (a cyclic Python object is too deep) and ``GrammarError``.
    """
    budget = limits.max_spec_bytes
    met = set[str]() if names is None else names
    level: list[Any] = [root]
    depth = 0
    while level:
        if depth > limits.max_spec_depth:
            raise _too_deep(limits)
        depth += 1
        keys, members, others = _opened(level)
        converted: list[Any] = []
        for value in others:
            try:
                _check_scalar(value, converted)
            except GrammarError as error:
                raise error.amended(location=_pointer_to(root, value)) from None
        if not _ONLY_STR.issuperset(map(type, keys)) and not all(isinstance(key, str) for key in keys):
            found, owner = next(
                (key, value) for value in level if type(value) is dict for key in value if not isinstance(key, str)
            )
            where = _pointer_to(root, owner)
            raise GrammarError("the schema is not JSON", location=where, expected="keys of type str", found=shown(found))
        met.update(keys)
        budget -= _text_size(level, keys, members, others)
        if budget < 0:
            raise LimitExceeded("schema too large", expected=at_most(limits, "max_spec_bytes"), found="more")
        members += converted
        level = [member for member in members if type(member) not in _SMALL]
        if len(level) > _MOST_ON_A_LEVEL:
            # walk an object that occurs twice at one depth once: shared parts may be exponentially many
            level = [*{id(member): member for member in level}.values()]
    return limits.max_spec_bytes - budget


def _pointer_to(root: Any, part: Any) -> str:
    """The JSON Pointer of the first place of a part of ``root``; empty for the root."""
    places: list[tuple[int, str, Any]] = [(0, "", root)]  # the place that it is in, its name there, the value
    opened: set[int] = set()
    for at, (_, _, value) in enumerate(places):
        if value is part:
            names = []
            while at:
                at, name, _ = places[at]
                names.append("/" + escape_token(name))
            return "".join(reversed(names))
        if id(value) not in opened and isinstance(value, (dict, list)):
            opened.add(id(value))
            members = value.items() if isinstance(value, dict) else enumerate(value)
            places += [(at, name if isinstance(name, str) else shown(name), member) for name, member in members]
    return ""


def _check_scalar(value: Any, below: list[Any]) -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise GrammarError("the schema is not JSON", expected="finite numbers", found=shown(value))
    elif isinstance(value, int):
        bits = value.bit_length()
        if bits > MAX_INTEGER_BITS:
            expected, found = f"integers of at most {MAX_INTEGER_BITS} bits", f"one of {bits}"
            raise LimitExceeded("the schema holds an integer of too many digits", expected=expected, found=found)
    elif isinstance(value, (dict, list)):
        # A subclass (OrderedDict and the like): walk it as the plain type.
        below.append(dict(value) if isinstance(value, dict) else list(value))
    elif not isinstance(value, _SCALARS):
        raise GrammarError("the schema is not JSON", expected="JSON values", found=f"{type(value).__name__} {value!r:.40}")


def content_key(value: Any) -> bytes | None:
    """Bytes that equal JSON values with the same order of members share, and no others. None for a value that is too deep or
    too large, or that has parts of other types.

    ``marshal`` distinguishes all types, but writes shared parts again and again, so the size is found first.
    """
    met = 0
    level = [value] if type(value) in _CONTAINERS else []
    while level:
        met += len(level)
        if met > _MOST_WRITTEN:
            return None
        below: list[Any] = []
        for item in level:
            below += item.values() if type(item) is dict else item
        level = [item for item in below if type(item) in _CONTAINERS]
    try:
        return marshal.dumps(value, _WITHOUT_REFERENCES)
    except ValueError:
        return None


def is_long(values: list[Any]) -> bool:
    """Whether listed values hold more than :data:`MOST_LISTED` parts, written out: shared parts may be exponentially many."""
    met = 0
    pending = [value for value in values if isinstance(value, (dict, list))]
    while pending:
        item = pending.pop()
        met += len(item)
        if met > MOST_LISTED:
            return True
        pending += [part for part in (item.values() if isinstance(item, dict) else item) if isinstance(part, (dict, list))]
    return False


def escape_token(token: str) -> str:
    """A name as a JSON Pointer reference token (RFC 6901, section 3)."""
    if "~" in token or "/" in token:
        return token.replace("~", "~0").replace("/", "~1")
    return token


def type_name(value: Any) -> str:
    """The JSON type of a Python value, for messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    for kinds, name in (((int, float), "number"), (str, "string"), (list, "array"), (dict, "object")):
        if isinstance(value, kinds):  # type: ignore[arg-type]
            return name
    return type(value).__name__


def describe(value: Any) -> str:
    """A value as the ``found`` of a message."""
    text = shown(value)
    return f"{type_name(value)} {text if len(text) <= 60 else text[:57] + '...'}"
