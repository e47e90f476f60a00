"""Rules for what most schemas consist of, written without the machinery for all others.

From a schema to its first mask, most of the time goes into Python that runs once. Where one schema object says all of a place
(no combinators, no patterns of names, no members or items that are told apart), nothing is to be merged, and
:func:`write_usual` goes over the objects once: it reads one and writes its rules, in the order in which the modules for all
schemas do (:mod:`.reader`, :mod:`.shapes`, :mod:`.objects`, :mod:`.arrays`). What it gives is what they give, symbol by symbol.

It gives up at the first thing that is unusual, wrong or unsatisfiable, and leaves the schema to them: nothing here raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cdplugin import tally
from cdplugin.errors import GrammarError
from cdplugin.expr import Expr, alt, cat, literals
from cdplugin.frontends.json_schema.barren import drop_barren
from cdplugin.frontends.json_schema.counts import count_bounds
from cdplugin.frontends.json_schema.dialect import (
    ALL_TYPES,
    ARRAY,
    ARRAY_BIT,
    IDENTITY,
    IN_PLACE,
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
from cdplugin.frontends.json_schema.options import Options
from cdplugin.frontends.json_schema.ordered import Declared, sequence
from cdplugin.frontends.json_schema.reader import Reader
from cdplugin.frontends.json_schema.refs import Resource, joined
from cdplugin.frontends.json_schema.repetition import Commas
from cdplugin.frontends.json_schema.scalars import merged_scalars, typed_scalar
from cdplugin.frontends.json_schema.schema import Subschema
from cdplugin.frontends.json_schema.source import escape_token
from cdplugin.frontends.json_schema.strings import QUOTE, other_text, spellings
from cdplugin.frontends.json_schema.writing import Writing
from cdplugin.ir import EXACT, GrammarIR, Symbol
from cdplugin.limits import Limits
from cdplugin.memory import fixed_cache

UNUSUAL = frozenset(
    "allOf anyOf oneOf not if dependentRequired dependentSchemas dependencies unevaluatedProperties unevaluatedItems "
    "$dynamicRef $recursiveRef patternProperties propertyNames minProperties maxProperties contains prefixItems".split()
)
"""Keywords that are left to others. A schema in which any member is called so is not even begun."""
_REF, _LEFT = 1 << 9, 1 << 10
_DEFINITIONS = ("definitions", "$defs")
_MOST_ROUNDS = 4

_Where = tuple[str, ...] | None
_NOWHERE = ("",)
_ONLY_STR = frozenset((str,))
_NONE: list[str] = []


class _UnusualError(Exception):
    """Something is met that is left to others."""


@fixed_cache(16, entry_bytes=4_000)
def _codes(dialect: Dialect) -> dict[str, int]:
    """The groups of the keywords; those apart that are not written here, or not below the root."""
    left = {name: _LEFT for name, group in dialect.groups.items() if name in UNUSUAL or group in (IDENTITY, IN_PLACE)}
    return dialect.groups | left | {"$ref": _REF}


@fixed_cache(4, entry_bytes=4_000)
def _leaf_reader(limits: Limits) -> Reader:
    """Reads strings and numbers; nothing of what it has read stays in it."""
    return Reader(True, Options(), limits)


def write_usual(document: dict, limits: Limits, ir: GrammarIR, first: Writing) -> bool:
    """Write the rules of ``document``, for usual options, into ``ir``, which is empty. Whether that was all: if not, ``ir`` is
    of no use any more.

    ``first`` has written any JSON value.
    """
    charged = tally.current()
    if charged is not None and charged.kept:  # part of something larger: what is charged here could not be taken back
        return False
    try:
        _Usual(document, limits, ir, first).write()
    except (_UnusualError, GrammarError):
        if charged is not None:
            charged.clear()
        return False
    return True


class _Usual:
    """What is being written: a worklist, nothing recurses."""

    def __init__(self, document: dict, limits: Limits, ir: GrammarIR, first: Writing) -> None:
        uri = document.get("$schema", "")
        dialect = (dialect_of(uri) if isinstance(uri, str) else None) if "$schema" in document else LENIENT
        if dialect is None:
            raise _UnusualError
        ir.begin(first.ir)
        level = first._levels[0]
        self._document, self._limits, self._ir, self._first = document, limits, ir, first
        self._codes = _codes(dialect)
        self._resource = Resource(0, "", document, "", dialect)
        self._level, self._layout, self._comma = level, level.layout, first._comma
        self._any_object, self._any_array = (first._bodies[kind, frozenset(), 0] for kind in ("object", "array"))
        self._braces = (level.empty_brace, level.close_brace)
        self._anything: tuple[Symbol, _Where] = (first._shaper.place(()).symbols[0], _NOWHERE)
        self._repeats: Commas | None = None
        self._refers = False
        self._keys: dict[str, Symbol] = {}
        self._scalars: dict[Expr, Symbol] = {}
        self._plain: dict[str, Symbol] = {}
        self._unions: dict[frozenset[Expr], Expr] = {}
        self._met: set[int] = set()
        self._targets: dict[str, tuple[Symbol, _Where]] = {}  # by reference, and by the id of what it leads to
        self._of_schema: dict[int, tuple[Symbol, _Where]] = {}
        self._bodies: dict[tuple[int, int], Symbol] = {}
        self._needs: dict[Symbol, list[Symbol]] = {}  # nonterminals without which one derives nothing
        self._pending: list[tuple[Symbol, bool, dict, str, int, int, Expr | None]] = []

    def write(self) -> None:
        """Write everything and set the start symbol."""
        ir, pending, most = self._ir, self._pending, self._limits.max_rules
        root, pointer = self._document, ""
        groups = self._groups(root)
        id_keyword = self._resource.dialect.id_keyword
        if id_keyword in root and not (groups & _REF and self._resource.dialect.ref_alone):
            if type(root[id_keyword]) is not str:
                raise _UnusualError
            joined("", root[id_keyword], "")  # raises for what is no URI
        if groups & _REF:
            root, pointer, groups = self._followed(root["$ref"])
        types = self._types(root, groups)
        if not groups or groups & VALUES or not types & (ARRAY_BIT | OBJECT_BIT):
            raise _UnusualError
        scalar = self._scalar_of(root, pointer, groups, types)
        start = ir.start = ir.nonterminal(pointer, ir.at(pointer))
        pending.append((start, True, root, pointer, groups, types, scalar))
        while pending:
            self._write_place(*pending.pop())
            if len(ir.rules) > most:
                raise _UnusualError
        ir.json_values.add(start)
        if self._refers and not self._all_end() and drop_barren(ir) is not None:
            raise _UnusualError

    def _all_end(self) -> bool:
        """Whether it is soon found that all places have a value: what is inside was written later."""
        left = self._needs
        for _ in range(_MOST_ROUNDS):
            before = len(left)
            for symbol in reversed([*left]):
                if left.keys().isdisjoint(left[symbol]):
                    del left[symbol]
            if not left or len(left) == before:
                break
        return not left

    def _groups(self, schema: dict) -> int:
        """The groups of the keywords of a schema. Raises where some are left to others."""
        codes, groups = self._codes, 0
        for keyword in schema:
            if keyword in codes:
                groups |= codes[keyword]
        if groups & _LEFT:
            id_keyword = self._resource.dialect.id_keyword
            if schema is not self._document or any(codes.get(name, 0) & _LEFT for name in schema if name != id_keyword):
                raise _UnusualError
            groups &= ~_LEFT
        if groups & _REF and groups != _REF and not self._resource.dialect.ref_alone:
            raise _UnusualError
        return groups

    # References

    def _followed(self, reference: Any) -> tuple[dict, str, int]:
        """What a reference leads to that is none itself, where that stands, and its groups."""
        self._refers = True
        for _ in range(_MOST_ROUNDS):
            schema, pointer = self._found(reference)
            groups = self._groups(schema)
            if not groups & _REF:
                return schema, pointer, groups
            reference = schema["$ref"]
        raise _UnusualError  # maybe a loop

    def _found(self, reference: Any) -> tuple[dict, str]:
        """The root, or what stands in definitions, and where: nothing but references leads there."""
        if reference == "#":
            return self._document, ""
        if type(reference) is not str or not reference.startswith("#/") or "~" in reference or "%" in reference:
            raise _UnusualError
        tokens = reference.split("/")[1:]
        if len(tokens) % 2:
            raise _UnusualError
        value: Any = self._document
        id_keyword = self._resource.dialect.id_keyword
        for i, token in enumerate(tokens):
            if i % 2 == 0 and token not in _DEFINITIONS:
                raise _UnusualError
            value = value.get(token) if type(value) is dict else None
            if type(value) is dict and isinstance(value.get(id_keyword), str):
                raise _UnusualError
        if value is True:
            value = {}
        if type(value) is not dict:
            raise _UnusualError
        return value, reference[1:]

    def _target(self, reference: Any) -> tuple[Symbol, _Where]:
        """The symbol of the place that a reference leads to."""
        if type(reference) is not str:
            raise _UnusualError
        found = self._targets.get(reference)
        if found is not None:
            return found
        schema, pointer, groups = self._followed(reference)
        found = self._of_schema.get(id(schema))
        if found is None:
            found = self._of_schema[id(schema)] = self._symbol(schema, pointer, groups) if groups else self._anything
        self._targets[reference] = found
        return found

    # Places

    def _child(self, schema: Any, pointer: str) -> tuple[Symbol, _Where]:
        """The symbol of the place of a schema below another, and where the spec has it."""
        if schema is True:
            return self._anything
        if type(schema) is not dict:
            raise _UnusualError
        groups = self._groups(schema)
        if not groups:
            return self._anything
        if groups & _REF:
            return self._target(schema["$ref"])
        return self._symbol(schema, pointer, groups)

    def _symbol(self, schema: dict, pointer: str, groups: int) -> tuple[Symbol, _Where]:
        """The symbol of a place of which something is said."""
        ir = self._ir
        where = ir.at(pointer)
        kind = schema["type"] if groups == TYPE else None
        if type(kind) is str:
            known = self._plain.get(kind)
            if known is not None:
                ir.locate(known, where)
                return known, where
        types = self._types(schema, groups)
        scalar = self._scalar_of(schema, pointer, groups, types)
        if not types & (ARRAY_BIT | OBJECT_BIT) or groups & VALUES:
            if scalar is None:
                raise _UnusualError
            symbol = self._lexeme(scalar)
            if type(kind) is str:
                self._plain[kind] = symbol
            ir.locate(symbol, where)
            return symbol, where
        if id(schema) in self._met:  # it stands in two places, and would have two pointers
            raise _UnusualError
        self._met.add(id(schema))
        symbol = ir.nonterminal(pointer, where)
        self._pending.append((symbol, False, schema, pointer, groups, types, scalar))
        return symbol, where

    def _types(self, schema: dict, groups: int) -> int:
        """The bits of the types. Raises where keywords are about others."""
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
                        raise _UnusualError
                    types |= bits
        if not types or (groups & OBJECT and not types & OBJECT_BIT) or (groups & ARRAY and not types & ARRAY_BIT):
            raise _UnusualError
        return types

    def _scalar_of(self, schema: dict, pointer: str, groups: int, types: int) -> Expr | None:
        """The scalars of a place."""
        if groups & VALUES:
            return self._listed(schema, groups, types)
        if groups == TYPE:
            return typed_scalar(types, self._resource.dialect.integral_floats)
        if types in (ARRAY_BIT, OBJECT_BIT):
            if groups & (STRING | NUMBER):
                raise _UnusualError
            return None
        sub = Subschema(schema, pointer, self._resource, types=types)
        if groups & STRING:
            _leaf_reader(self._limits)._read_string(sub, schema)
        if groups & NUMBER:
            _leaf_reader(self._limits)._read_number(sub, schema)
        if sub.refused or sub.after:
            raise _UnusualError
        parts = merged_scalars((sub,), types)
        if len(parts) < 2:
            return next(iter(parts), None)
        key = frozenset(parts)
        if key not in self._unions:
            self._unions[key] = alt(*parts)
        return self._unions[key]

    def _listed(self, schema: dict, groups: int, types: int) -> Expr:
        """Texts that are listed."""
        if groups & ~(TYPE | VALUES) or not types & STRING_BIT:
            raise _UnusualError
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        if type(values) is not list or not values or not _ONLY_STR.issuperset(map(type, values)):
            raise _UnusualError
        if "enum" in schema and "const" in schema and "const" in self._codes:
            raise _UnusualError
        return literals([spelling for value in values for spelling in spellings(value)])

    def _lexeme(self, scalar: Expr) -> Symbol:
        """The lexeme of scalars."""
        symbol = self._scalars.get(scalar)
        if symbol is None:
            known = self._level.scalars.get((scalar, False))
            symbol = self._ir._new_lexeme(self._layout.value(scalar), "value", EXACT) if known is None else known
            self._scalars[scalar] = symbol
        return symbol

    def _write_place(
        self, symbol: Symbol, bare: bool, schema: dict, pointer: str, groups: int, types: int, scalar: Expr | None
    ) -> None:
        """Write the rules of a place that may hold arrays or objects."""
        ir, layout, bodies = self._ir, self._layout, self._bodies
        if scalar is not None:
            lexeme = ir.lexeme(scalar, "value") if bare else self._lexeme(scalar)
            ir.locate(lexeme, ir.at(pointer))
            ir.rule(symbol, (lexeme,))
        inside: list[Symbol] = []
        if types & OBJECT_BIT:
            opening = ir.lexeme(layout.bare_brace if bare else layout.open_brace, "{")
            body = self._any_object if not groups & OBJECT else bodies.get((id(schema), OBJECT_BIT))
            if body is None:
                body = bodies[id(schema), OBJECT_BIT] = self._object(schema, pointer)
            ir.rule(symbol, (opening, body))
            inside.append(body)
        if types & ARRAY_BIT:
            opening = ir.lexeme(layout.bare_bracket if bare else layout.open_bracket, "[")
            body = self._any_array if not groups & ARRAY else bodies.get((id(schema), ARRAY_BIT))
            if body is None:
                body = bodies[id(schema), ARRAY_BIT] = self._array(schema, pointer)
            ir.rule(symbol, (opening, body))
            inside.append(body)
        if scalar is None and not self._needs.keys().isdisjoint(inside):
            self._needs[symbol] = inside

    def _object(self, schema: dict, pointer: str) -> Symbol:
        """What follows the opening brace."""
        ir, keys, layout, child, locate = self._ir, self._keys, self._layout, self._child, self._ir.locate
        properties, required = schema.get("properties", {}), schema.get("required", _NONE)
        others = schema.get("additionalProperties", True)
        if type(properties) is not dict or type(required) is not list:
            raise _UnusualError
        if type(others) is dict and not others:
            others = True
        names = dict.fromkeys(properties, False)
        if required:
            if not _ONLY_STR.issuperset(map(type, required)):
                raise _UnusualError
            names.update(dict.fromkeys(required, True))
        rest: tuple[Symbol, _Where] | None = (self._anything[0], None) if others is True else None
        entries: list[Declared] = []
        needs: list[Symbol] = []
        prefix = pointer + "/properties/"
        for name, is_required in names.items():
            if name in properties:
                value, where = child(properties[name], prefix + escape_token(name))
            else:
                if rest is None:
                    rest = self._rest(others, pointer)
                value, where = rest
            key = keys.get(name)
            if key is None:
                key = keys[name] = ir._new_lexeme(layout.key(name), name, EXACT)
            if where is not None:
                locate(key, where)
            entries.append((key, value, is_required))
            if is_required and value >= 0:
                needs.append(value)
        further: tuple[tuple[Symbol, Symbol], ...] = ()
        if others is not False:
            if rest is None:
                rest = self._rest(others, pointer)
            if names:
                key = ir._new_lexeme(layout.quoted_key(cat(QUOTE, other_text(names), QUOTE)), "key", EXACT)
            else:
                key = ir.lexeme(layout.any_key, "key")
            further = ((key, rest[0]),)
        body = sequence(ir, entries, further, self._comma, self._braces, pointer)
        if needs:
            self._needs[body] = needs
        return body

    def _rest(self, others: Any, pointer: str) -> tuple[Symbol, _Where]:
        """The symbol of the values of names that are not declared."""
        if others is False:
            raise _UnusualError
        return self._child(others, pointer + "/additionalProperties")

    def _array(self, schema: dict, pointer: str) -> Symbol:
        """What follows the opening bracket."""
        ir, empty, closing = self._ir, self._level.empty_bracket, self._level.close_bracket
        if "uniqueItems" in schema and schema["uniqueItems"] is not False:
            raise _UnusualError
        low, high = 0, None
        if "minItems" in schema or "maxItems" in schema:
            low, high = count_bounds(schema, "minItems", "maxItems", pointer, self._limits)
        item, _ = self._child(schema.get("items", True), pointer + "/items")
        if high is not None and low > high:
            raise _UnusualError
        body = ir.nonterminal(pointer, ir.at(pointer))
        if low == 0:
            ir.rule(body, (empty,))
        elif item >= 0:
            self._needs[body] = [item]
        if high == 0:
            return body
        after: Sequence[Symbol] = (closing,)
        if high is None or high > 1:
            if self._repeats is None:
                self._repeats = self._first._repeats.copy(ir)
            after = self._repeats.many(item, max(low - 1, 0), None if high is None else high - 1, closing)
        ir.rule(body, (item, *after))
        return body
