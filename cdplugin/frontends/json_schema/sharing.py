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


_Member = tuple[Any, Any, int]
"""Name or index, value, and what it stands for."""


def share_equal_parts(document: dict | bool) -> Any:
    """A copy of a schema without its annotations, in which equal parts are the same object. Linear in the size of the schema,
    parts that are shared already counted once; nothing recurses.
    """
    if isinstance(document, bool):
        return document
    shared: dict[tuple[int, int], Any] = {}  # (id of a part, what it stands for) -> its copy
    copies: dict[tuple, Any] = {}
    pending: list[tuple[Any, int, list[_Member] | None]] = [(document, _SCHEMA, None)]
    while pending:
        part, place, members = pending.pop()
        if (id(part), place) in shared:
            continue
        if members is None:
            members = _members(part, place)
            inner = [(member, below, None) for _, member, below in members if isinstance(member, (dict, list))]
            if inner:
                pending.append((part, place, members))
                pending += inner
                continue
        parts = [
            shared[id(member), below] if isinstance(member, (dict, list)) else copies.setdefault((type(member), member), member)
            for _, member, below in members
        ]
        key: tuple
        copy: Any = parts
        if isinstance(part, dict):
            names = [name for name, _, _ in members]
            copy, key = dict(zip(names, parts, strict=True)), (dict, *names, *map(id, parts))
        else:
            key = (list, *map(id, parts))
        shared[id(part), place] = copies.setdefault(key, copy)
    return shared[id(document), _SCHEMA]


def _members(part: Any, place: int) -> list[_Member]:
    """The members that matter."""
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
