"""A schema in which equal parts are one object, for schemas whose alternatives multiply.

The reader takes the same object, at the same base, for the same subschema. Only then is it plain that a property cannot be
valid under one branch of a ``oneOf`` and invalid under what another branch says of it in the same words.
"""

from __future__ import annotations

from typing import Any

from cdplugin.frontends.json_schema.refs import SCHEMA_MAPS

_ANNOTATIONS = frozenset(("title", "description", "examples", "default", "$comment", "readOnly", "writeOnly", "deprecated"))
_DATA = frozenset(("enum", "const"))
_SCHEMA, _MAP, _VALUE = range(3)
"""What stands in a place: a schema (or a list of them), schemas by name, instance data."""


def share_equal_parts(document: dict | bool) -> Any:
    """A copy of a schema without its annotations, in which equal parts are the same object. Linear in the size of the schema,
    parts that are shared already counted once; nothing recurses.
    """
    shared: dict[tuple[int, int], Any] = {}  # (id of a part, what it stands for) -> its copy
    copies: dict[tuple, Any] = {}
    pending: list[tuple[Any, int, bool]] = [(document, _SCHEMA, False)]
    while pending:
        part, place, is_ready = pending.pop()
        if (id(part), place) in shared:
            continue
        children = [(member, below) for _, member, below in _members(part, place)]
        if not is_ready and children:
            pending.append((part, place, True))
            pending += [(member, below, False) for member, below in children]
            continue
        parts = [shared[id(member), below] for member, below in children]
        key: tuple
        copy: Any
        if isinstance(part, dict):
            names = [name for name, _, _ in _members(part, place)]
            copy, key = dict(zip(names, parts, strict=True)), (dict, *names, *map(id, parts))
        elif isinstance(part, list):
            copy, key = parts, (list, *map(id, parts))
        else:
            copy, key = part, (type(part), part)
        shared[id(part), place] = copies.setdefault(key, copy)
    return shared[id(document), _SCHEMA]


def _members(part: Any, place: int) -> list[tuple[Any, Any, int]]:
    """Name or index, value, and what it stands for, of each member that matters."""
    if isinstance(part, list):
        return [(i, member, place) for i, member in enumerate(part)]
    if not isinstance(part, dict):
        return []
    if place != _SCHEMA:
        below = _SCHEMA if place == _MAP else _VALUE
        return [(name, member, below) for name, member in part.items()]
    return [
        (name, member, _VALUE if name in _DATA else _MAP if name in SCHEMA_MAPS else _SCHEMA)
        for name, member in part.items()
        if name not in _ANNOTATIONS or isinstance(member, dict)
    ]
