"""A shortcut for usual schemas: write their rules directly, without merging.

Most of the time from a schema to its first mask is Python code that runs once. If every place is described by one schema
object, or by a plain choice of such objects (no other combinators, nothing that needs a memory), then nothing needs merging.
:func:`write_usual` then visits each object once, reads it and writes its rules, in the order in which the general modules do
(:mod:`.reader`, :mod:`.shapes`, :mod:`.objects`, :mod:`.arrays`). The result equals theirs, symbol by symbol.

It gives up at the first thing that is unusual, malformed or unsatisfiable, and the general modules start over, so that they
raise the errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cdplugin import tally
from cdplugin.errors import GrammarError
from cdplugin.expr import Expr, cat
from cdplugin.frontends.json_schema.barren import drop_barren
from cdplugin.frontends.json_schema.dialect import ARRAY, ARRAY_BIT, NUMBER, OBJECT, OBJECT_BIT, STRING, TYPE, VALUES
from cdplugin.frontends.json_schema.names import key_text
from cdplugin.frontends.json_schema.repetition import Commas, Declared, sequence
from cdplugin.frontends.json_schema.scalars import merged_scalars, typed_scalar
from cdplugin.frontends.json_schema.schema import count_bounds
from cdplugin.frontends.json_schema.source import MOST_POINTER_BYTES, escape_token
from cdplugin.frontends.json_schema.strings import QUOTE, other_text
from cdplugin.frontends.json_schema.usual_reader import ANY_OF, ONE_OF, ONLY_STR, REF, Node, UnusualError, UsualReader
from cdplugin.frontends.json_schema.values import Scalars
from cdplugin.frontends.json_schema.writing import Writing
from cdplugin.ir import EXACT, GrammarIR, Symbol
from cdplugin.limits import Limits

_Where = tuple[str, ...] | None
_Found = tuple[Symbol, _Where]
_NOWHERE = ("",)
_NONE: list[str] = []
_NO_PATTERNS: dict[str, Any] = {}


def write_usual(document: dict, limits: Limits, ir: GrammarIR, first: Writing) -> bool:
    """Write the rules of ``document``, for the default options, into ``ir``, which must be empty. Returns False if it gave up;
    ``ir`` is then useless.

    ``first``: a writer that has written any JSON value.
    """
    charged = tally.current()
    if charged is not None and charged.kept:  # part of a larger grammar, whose tally could not be reset after giving up
        return False
    try:
        _Usual(document, limits, ir, first).write()
    except (UnusualError, GrammarError):
        if charged is not None:
            charged.clear()
        return False
    return True


class _Content:
    """The content of a place: scalars, and the schemas of objects and arrays (None: any)."""

    __slots__ = ("arrays", "objects", "scalar")

    def __init__(self) -> None:
        self.scalar: Expr | None = None
        self.objects: list[Node | None] = []
        self.arrays: list[Node | None] = []


class _Usual(UsualReader):
    """The state of writing: a worklist, so nothing recurses."""

    def __init__(self, document: dict, limits: Limits, ir: GrammarIR, first: Writing) -> None:
        super().__init__(document, limits)
        ir.begin(first.ir)
        level = first._levels[0]
        self._ir, self._first = ir, first
        self._level, self._layout, self._comma = level, level.layout, first._comma
        any_object, any_array = (first._bodies[kind, frozenset(), 0] for kind in ("object", "array"))
        assert any_object is not None and any_array is not None
        self._any_object, self._any_array = any_object, any_array
        self._braces = (level.empty_brace, level.close_brace)
        self._anything: _Found = (first._shaper.place(()).symbols[0], _NOWHERE)
        self._repeats: Commas | None = None
        self._pointer_bytes = 0
        self._keys: dict[str, Symbol] = {}
        self._scalars: dict[Expr, Symbol] = {}
        self._plain: dict[str, Symbol] = {}
        self._unions: dict[frozenset[Expr], Expr] = {}
        self._targets: dict[str, _Found] = {}  # by reference
        self._of_schema: dict[int, _Found] = {}
        self._bodies: dict[tuple[int, int], Symbol] = {}
        self._pending: list[tuple[Symbol, bool, str, _Content]] = []

    def write(self) -> None:
        """Write everything and set the start symbol."""
        ir, pending, most = self._ir, self._pending, self.limits.max_rules
        root, pointer, groups = self.root()
        content = self._content(root, pointer, groups) if groups else None
        if content is None:
            raise UnusualError
        if content.objects or content.arrays:
            start = ir.start = ir.nonterminal(pointer, ir.at(pointer))
            pending.append((start, True, pointer, content))
        elif content.scalar is None:
            raise UnusualError
        else:
            symbol = ir.lexeme(content.scalar, "value")
            ir.locate(symbol, ir.at(pointer))
            start = ir.start = ir.nonterminal("value")
            ir.rule(start, (symbol,))
        while pending:
            self._write_place(*pending.pop())
            if len(ir.rules) > most:
                raise UnusualError
        ir.json_values.add(start)
        if self.refers and drop_barren(ir) is not None:
            raise UnusualError

    # References

    def _target(self, reference: Any) -> _Found:
        """The symbol of the place to which a reference leads."""
        if type(reference) is not str:
            raise UnusualError
        found = self._targets.get(reference)
        if found is not None:
            return found
        schema, pointer, groups = self.followed(reference)
        found = self._of_schema.get(id(schema))
        if found is None:
            found = self._of_schema[id(schema)] = self._symbol(schema, pointer, groups) if groups else self._anything
        self._targets[reference] = found
        return found

    # Places

    def _child(self, schema: Any, pointer: str) -> _Found:
        """The symbol of the place of a nested schema, and its location in the spec."""
        if schema is True:
            return self._anything
        if type(schema) is not dict:
            raise UnusualError
        groups = self.groups(schema)
        if not groups:
            return self._anything
        if groups & REF:
            return self._target(schema["$ref"])
        return self._symbol(schema, pointer, groups)

    def _symbol(self, schema: dict, pointer: str, groups: int) -> _Found:
        """The symbol of a place with assertions."""
        ir = self._ir
        self._pointer_bytes += len(pointer)
        if self._pointer_bytes > MOST_POINTER_BYTES:
            raise UnusualError
        where = ir.at(pointer)
        kind = schema["type"] if groups == TYPE else None
        if type(kind) is str:
            known = self._plain.get(kind)
            if known is not None:
                ir.locate(known, where)
                return known, where
        content = self._content(schema, pointer, groups)
        if not content.objects and not content.arrays:
            if content.scalar is None:
                raise UnusualError
            symbol = self._lexeme(content.scalar)
            if type(kind) is str:
                self._plain[kind] = symbol
            ir.locate(symbol, where)
            return symbol, where
        self.meet(schema)
        symbol = ir.nonterminal(pointer, where)
        self._pending.append((symbol, False, pointer, content))
        return symbol, where

    def _content(self, schema: dict, pointer: str, groups: int) -> _Content:
        """The content of the place of a schema."""
        if groups & (ANY_OF | ONE_OF):
            return self._union(schema, pointer, groups)
        content = _Content()
        types = self.types(schema, groups)
        content.scalar = self._scalar_of(schema, pointer, groups, types)
        if not groups & VALUES:
            self._add_structures(content, schema, pointer, groups, types)
        return content

    @staticmethod
    def _add_structures(content: _Content, schema: dict, pointer: str, groups: int, types: int) -> None:
        if types & OBJECT_BIT:
            content.objects.append((schema, pointer, groups) if groups & OBJECT else None)
        if types & ARRAY_BIT:
            content.arrays.append((schema, pointer, groups) if groups & ARRAY else None)

    # Choices

    def _union(self, schema: dict, pointer: str, groups: int) -> _Content:
        """The content of a choice between schemas."""
        content, scalars = _Content(), Scalars()
        met: set[int] = set()
        for branch, at, of_branch in self.branches(schema, pointer, groups):
            if id(branch) in met:
                continue
            met.add(id(branch))
            types = self.types(branch, of_branch)
            if of_branch & VALUES:
                self.listed(branch, of_branch, types, scalars)
                continue
            self._add_structures(content, branch, at, of_branch, types)
            scalars.parts.update(merged_scalars((self.read(branch, at, of_branch, types),), types))
        content.scalar = scalars.union(self._unions)
        return content

    def _scalar_of(self, schema: dict, pointer: str, groups: int, types: int) -> Expr | None:
        """The scalars of a place, or None."""
        if groups == TYPE:
            return typed_scalar(types, self.resource.dialect.integral_floats)
        scalars = Scalars()
        if groups & VALUES:
            self.listed(schema, groups, types, scalars)
        elif types in (ARRAY_BIT, OBJECT_BIT):
            if groups & (STRING | NUMBER):
                raise UnusualError
        else:
            scalars.parts = merged_scalars((self.read(schema, pointer, groups, types),), types)
        return scalars.union(self._unions)

    def _lexeme(self, scalar: Expr) -> Symbol:
        """The lexeme of an expression for scalars."""
        symbol = self._scalars.get(scalar)
        if symbol is None:
            known = self._level.scalars.get((scalar, False))
            symbol = self._ir._new_lexeme(self._layout.value(scalar), "value", EXACT) if known is None else known
            self._scalars[scalar] = symbol
        return symbol

    def _write_place(self, symbol: Symbol, bare: bool, pointer: str, content: _Content) -> None:
        """Write the rules of a place that may hold arrays or objects."""
        ir, layout, scalar = self._ir, self._layout, content.scalar
        if scalar is not None:
            lexeme = ir.lexeme(scalar, "value") if bare else self._lexeme(scalar)
            ir.locate(lexeme, ir.at(pointer))
            ir.rule(symbol, (lexeme,))
        if content.objects:
            opening = ir.lexeme(layout.bare_brace if bare else layout.open_brace, "{")
            for node in content.objects:
                ir.rule(symbol, (opening, self._any_object if node is None else self._body(OBJECT_BIT, node, pointer)))
        if content.arrays:
            opening = ir.lexeme(layout.bare_bracket if bare else layout.open_bracket, "[")
            for node in content.arrays:
                ir.rule(symbol, (opening, self._any_array if node is None else self._body(ARRAY_BIT, node, pointer)))

    def _body(self, kind: int, node: Node, pointer: str) -> Symbol:
        """The symbol for what follows an opening bracket; one for each schema."""
        schema, own, _ = node
        body = self._bodies.get((id(schema), kind))
        if body is None:
            write = self._object if kind == OBJECT_BIT else self._array
            body = self._bodies[id(schema), kind] = write(schema, own, pointer)
        return body

    def _object(self, schema: dict, pointer: str, place: str) -> Symbol:
        """The members and the closing brace. ``pointer``: of the schema; ``place``: of the place, which names the symbols."""
        ir, keys, layout, child, locate = self._ir, self._keys, self._layout, self._child, self._ir.locate
        properties, required = schema.get("properties", {}), schema.get("required", _NONE)
        others = schema.get("additionalProperties", True)
        pattern, patterns = "", schema.get("patternProperties", _NO_PATTERNS)
        if type(properties) is not dict or type(required) is not list or type(patterns) is not dict:
            raise UnusualError
        if type(others) is dict and not others:
            others = True
        names = dict.fromkeys(properties, False)
        if required:
            if not ONLY_STR.issuperset(map(type, required)):
                raise UnusualError
            names.update(dict.fromkeys(required, True))
        if patterns:
            pattern = self.one_pattern(patterns, names)
        rest: _Found | None = (self._anything[0], None) if others is True else None
        entries: list[Declared] = []
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
        further: list[tuple[Symbol, Symbol]] = []
        if others is not False:
            if rest is None:
                rest = self._rest(others, pointer)
            if patterns:
                key = self._key_of([*names], (), (pattern,))
            elif names:
                key = ir._new_lexeme(layout.quoted_key(cat(QUOTE, other_text(names), QUOTE)), "key", EXACT)
            else:
                key = ir.lexeme(layout.any_key, "key")
            further.append((key, rest[0]))
        if patterns:
            value, _ = child(patterns[pattern], f"{pointer}/patternProperties/{escape_token(pattern)}")
            further.append((self._key_of([*names], (pattern,), ()), value))
        return sequence(ir, entries, further, self._comma, self._braces, place)

    def _key_of(self, names: list[str], matched: tuple[str, ...], others: tuple[str, ...]) -> Symbol:
        """The lexeme of names other than ``names`` that all patterns of ``matched`` and none of ``others`` match."""
        quoted = key_text(names, matched, others)
        assert quoted is not None
        return self._ir._new_lexeme(self._layout.quoted_key(quoted), "key", EXACT)

    def _rest(self, others: Any, pointer: str) -> _Found:
        """The symbol of the values of undeclared names."""
        if others is False:
            raise UnusualError
        return self._child(others, pointer + "/additionalProperties")

    def _array(self, schema: dict, pointer: str, place: str) -> Symbol:
        """The items and the closing bracket."""
        ir, empty, closing = self._ir, self._level.empty_bracket, self._level.close_bracket
        if "uniqueItems" in schema and schema["uniqueItems"] is not False:
            raise UnusualError
        low, high = 0, None
        if "minItems" in schema or "maxItems" in schema:
            low, high = count_bounds(schema, "minItems", "maxItems", pointer, self.limits)
        item, _ = self._child(schema.get("items", True), pointer + "/items")
        if high is not None and low > high:
            raise UnusualError
        body = ir.nonterminal(place, ir.at(place))
        if low == 0:
            ir.rule(body, (empty,))
        if high == 0:
            return body
        after: Sequence[Symbol] = (closing,)
        if high is None or high > 1:
            if self._repeats is None:
                self._repeats = self._first._repeats.copy(ir)
            after = self._repeats.many(item, max(low - 1, 0), None if high is None else high - 1, closing)
        ir.rule(body, (item, *after))
        return body
