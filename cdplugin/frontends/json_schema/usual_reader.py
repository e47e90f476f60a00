"""The reader of :mod:`.usual`: it reads one schema object at a time, when that is written.

Anything unusual or malformed raises :class:`UnusualError`, or an error of the general reader.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cdplugin.frontends.json_schema.dialect import (
    ALL_TYPES,
    ARRAY,
    ARRAY_BIT,
    LENIENT,
    NUMBER,
    OBJECT,
    OBJECT_BIT,
    STRING,
    STRING_BIT,
    TYPE,
    TYPE_BITS,
    VALUES,
    Dialect,
    dialect_of,
)
from cdplugin.frontends.json_schema.matching import finds
from cdplugin.frontends.json_schema.options import USUAL
from cdplugin.frontends.json_schema.reader import Reader
from cdplugin.frontends.json_schema.refs import Resource, joined
from cdplugin.frontends.json_schema.schema import Subschema
from cdplugin.frontends.json_schema.strings import pattern_text, spellings
from cdplugin.frontends.json_schema.values import WORDS, Scalars, type_bit
from cdplugin.limits import Limits
from cdplugin.memory import fixed_cache

UNUSUAL = frozenset(
    "allOf not if dependentRequired dependentSchemas dependencies unevaluatedProperties unevaluatedItems $dynamicRef "
    "$recursiveRef propertyNames minProperties maxProperties contains prefixItems".split()
)
"""Unusual keywords. A schema in which any member has such a name is not tried."""
_TAKEN = frozenset(
    "type enum const items additionalItems minItems maxItems uniqueItems properties required additionalProperties "
    "patternProperties".split()
)
"""Keywords that are read here, besides references, choices, and the strings and numbers that :class:`.Reader` reads."""
REF, _LEFT, ANY_OF, ONE_OF = (1 << i for i in range(9, 13))
"""Further groups of keywords, beside those of :mod:`.dialect`."""
_DEFINITIONS = ("definitions", "$defs")
_MOST_FOLLOWED, _MOST_UNIONS = 4, 16
"""Longest chain of references, and most choices inside each other."""
ONLY_STR = frozenset((str,))
_LISTED = frozenset((str, int, bool, type(None)))
"""Types of listed values that are handled here; a float may be valid as an integer."""

Node = tuple[dict, str, int]
"""A schema, its pointer, and the groups of its keywords."""


class UnusualError(Exception):
    """The schema has something that is left to the general modules."""


@fixed_cache(16, entry_bytes=4_000)
def _codes(dialect: Dialect) -> dict[str, int]:
    """The group of each keyword; keywords that are not handled here, or only at the root, are in ``_LEFT``."""
    left = {name: _LEFT for name, group in dialect.groups.items() if group not in (STRING, NUMBER) and name not in _TAKEN}
    return dialect.groups | left | {"$ref": REF, "anyOf": ANY_OF, "oneOf": ONE_OF}


@fixed_cache(4, entry_bytes=4_000)
def _leaf_reader(limits: Limits) -> Reader:
    """A general reader, for strings and numbers. It keeps nothing of what it reads."""
    return Reader(True, USUAL, limits)


class UsualReader:
    """Reads schemas of ``document``. ``refers``: whether a reference was followed."""

    def __init__(self, document: dict, limits: Limits) -> None:
        uri = document.get("$schema", "")
        dialect = (dialect_of(uri) if isinstance(uri, str) else None) if "$schema" in document else LENIENT
        if dialect is None:
            raise UnusualError
        self.document, self.limits = document, limits
        self.codes = _codes(dialect)
        self.resource = Resource(0, "", document, "", dialect)
        self.refers = False
        self._met: set[int] = set()

    def root(self) -> Node:
        """The root schema, or the one to which it refers."""
        root, pointer = self.document, ""
        groups = self.groups(root)
        id_keyword = self.resource.dialect.id_keyword
        if id_keyword in root and not (groups & REF and self.resource.dialect.ref_alone):
            if type(root[id_keyword]) is not str:
                raise UnusualError
            joined("", root[id_keyword], "")  # raises if it is not a URI
        return self.followed(root["$ref"]) if groups & REF else (root, pointer, groups)

    def groups(self, schema: dict) -> int:
        """The groups of a schema's keywords. Raises if some are left to the general modules."""
        codes, groups = self.codes, 0
        for keyword in schema:
            if keyword in codes:
                groups |= codes[keyword]
        if groups & _LEFT:
            id_keyword = self.resource.dialect.id_keyword
            if schema is not self.document or any(codes.get(name, 0) & _LEFT for name in schema if name != id_keyword):
                raise UnusualError
            groups &= ~_LEFT
        is_beside = groups & (REF | ANY_OF | ONE_OF) and groups.bit_count() > 1
        if is_beside and not (groups & REF and self.resource.dialect.ref_alone):
            raise UnusualError
        return groups

    def types(self, schema: dict, groups: int) -> int:
        """Bits of the types. Raises where keywords restrict other types only."""
        types = ALL_TYPES
        if groups & TYPE:
            kind = schema["type"]
            if type(kind) is str:
                types = TYPE_BITS.get(kind, 0)
            else:
                types = 0
                for name in kind if type(kind) is list else ():
                    bits = TYPE_BITS.get(name, 0) if type(name) is str else 0
                    if not bits:
                        raise UnusualError
                    types |= bits
        if not types or (groups & OBJECT and not types & OBJECT_BIT) or (groups & ARRAY and not types & ARRAY_BIT):
            raise UnusualError
        return types

    def followed(self, reference: Any) -> tuple[dict, str, int]:
        """The first schema on a chain of references that is not a reference itself, with its pointer and groups."""
        self.refers = True
        for _ in range(_MOST_FOLLOWED):
            schema, pointer = self.found(reference)
            groups = self.groups(schema)
            if not groups & REF:
                return schema, pointer, groups
            reference = schema["$ref"]
        raise UnusualError  # perhaps a loop

    def found(self, reference: Any) -> tuple[dict, str]:
        """The target of a reference to the root or into definitions, and its pointer."""
        if reference == "#":
            return self.document, ""
        if type(reference) is not str or not reference.startswith("#/") or "~" in reference or "%" in reference:
            raise UnusualError
        tokens = reference.split("/")[1:]
        if len(tokens) % 2:
            raise UnusualError
        value: Any = self.document
        id_keyword = self.resource.dialect.id_keyword
        for i, token in enumerate(tokens):
            if i % 2 == 0 and token not in _DEFINITIONS:
                raise UnusualError
            value = value.get(token) if type(value) is dict else None
            if type(value) is dict and isinstance(value.get(id_keyword), str):
                raise UnusualError
        if value is True:
            value = {}
        if type(value) is not dict:
            raise UnusualError
        return value, reference[1:]

    def branches(self, schema: dict, pointer: str, groups: int) -> list[Node]:
        """The branches of a choice, with nested choices flattened."""
        out: list[Node] = []
        unions = 0
        stack: list[Node] = [(schema, pointer, groups)]
        while stack:
            node = stack.pop()
            schema, pointer, groups = node
            if not groups & (ANY_OF | ONE_OF):
                out.append(node)
                continue
            unions += 1
            keyword = "anyOf" if groups & ANY_OF else "oneOf"
            values = schema[keyword]
            if unions > _MOST_UNIONS or type(values) is not list or not values:
                raise UnusualError
            branches = [self.branch(value, f"{pointer}/{keyword}/{i}") for i, value in enumerate(values)]
            if keyword == "oneOf" and len(branches) > 1:
                together = 0
                for branch, _, of_branch in branches:
                    types = ALL_TYPES if of_branch & (ANY_OF | ONE_OF) else self.types(branch, of_branch)
                    if types & together:
                        raise UnusualError  # an instance may be valid under two branches
                    together |= types
            stack += reversed(branches)
        return out

    def branch(self, schema: Any, pointer: str) -> Node:
        """A branch of a choice, or the schema to which it refers."""
        groups = self.groups(schema) if type(schema) is dict else 0
        if groups & REF:
            schema, pointer, groups = self.followed(schema["$ref"])
        elif groups:
            self.meet(schema)
        if not groups:
            raise UnusualError
        return schema, pointer, groups

    def meet(self, schema: dict) -> None:
        """Note a schema, which must not occur at two places: it would have two pointers."""
        if id(schema) in self._met:
            raise UnusualError
        self._met.add(id(schema))

    def one_pattern(self, patterns: dict[str, Any], names: Iterable[str]) -> str:
        """The only pattern, which must match none of the declared names."""
        if len(patterns) > 1:
            raise UnusualError
        [pattern] = patterns
        pattern_text(pattern)  # raises if it does not parse
        if any(finds(pattern, name) for name in names):
            raise UnusualError
        return pattern

    def read(self, schema: dict, pointer: str, groups: int, types: int) -> Subschema:
        """Read the keywords for strings and numbers."""
        sub = Subschema(schema, pointer, self.resource, types=types)
        if groups & STRING:
            _leaf_reader(self.limits)._read_string(sub, schema)
        if groups & NUMBER:
            _leaf_reader(self.limits)._read_number(sub, schema)
        says_nothing = not groups & ~(STRING | NUMBER) and not sub.constrains_itself()
        if sub.refused or sub.after or says_nothing:
            raise UnusualError
        return sub

    def listed(self, schema: dict, groups: int, types: int, scalars: Scalars) -> None:
        """Add the listed values."""
        if groups & ~(TYPE | VALUES):
            raise UnusualError
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        if type(values) is not list or ("enum" in schema and "const" in schema and "const" in self.codes):
            raise UnusualError
        if types & STRING_BIT and ONLY_STR.issuperset(map(type, values)):
            scalars.texts.update([spelling for value in values for spelling in spellings(value)])
            return
        kinds = _LISTED if self.resource.dialect.integral_floats else _LISTED - {int}
        if not kinds.issuperset(map(type, values)):
            raise UnusualError
        for value in values:
            if not type_bit(value, integral_floats=True) & types:
                continue
            if type(value) is int:
                scalars.numbers.setdefault(True, []).append(value)
            else:
                scalars.texts.update(spellings(value) if type(value) is str else (WORDS[value],))
