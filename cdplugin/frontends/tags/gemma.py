"""Arguments of a tool call as Gemma 4 writes them: ``{city:<|"|>Paris<|"|>,days:3,tags:[<|"|>a<|"|>]}``.

It is JSON with names that stand unquoted, and with strings between two ``<|"|>``, without escapes, at every depth. The style is
xgrammar's, and so are the rules about further members (:mod:`cdplugin.frontends.tags.xml`). Source: Gemma 4's chat template.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

from cdplugin.errors import UnsupportedError
from cdplugin.expr import Expr, cat, literal
from cdplugin.frontends.json_schema import allows_nothing
from cdplugin.frontends.json_schema.reader import Reader
from cdplugin.frontends.json_schema.schema import count_bounds
from cdplugin.frontends.json_schema.source import type_name
from cdplugin.frontends.json_schema.values import canonical
from cdplugin.frontends.repeats import either
from cdplugin.frontends.tags.xml import GEMMA_QUOTE, AnyOrder, Layout, Parameters, SchemaWriter, ways_to_write
from cdplugin.frontends.tags.xml_values import ANNOTATIONS, OF_ARRAYS, OF_OBJECTS, only, unsatisfiable, unsupported
from cdplugin.ir import GrammarIR, Symbol

_MOST_BRANCHES = 8  # of all oneOf of objects and lists; each two of them are compared
_COMPOUND = ("object", "array")


class Gemma(Parameters):
    """Writes an object in this style. Values wait in the queue of :class:`Parameters`, so nothing recurses."""

    def __init__(self, ir: GrammarIR, reader: Reader, style: str, write_schema: SchemaWriter, at: str, layout: Layout) -> None:
        super().__init__(ir, reader, style, write_schema, at, layout)
        space = self.space
        self._last = ir.lexeme(space, "whitespace")
        self._open, self._close = ir.lexeme(literal(b"{"), '"{"'), ir.lexeme(literal(b"}"), '"}"')
        self._open_list, self._close_list = ir.lexeme(literal(b"["), '"["'), ir.lexeme(literal(b"]"), '"]"')
        self._comma = ir.lexeme(cat(space, literal(b",")), '","')
        self._values: dict[int, tuple[Any, Symbol]] = {}  # the reference to the schema keeps its id unique
        self._constants: dict[int, tuple[Any, dict[str, Any]]] = {}
        self._branches = 0

    def lay_out(self, symbol: Symbol, parts: list[Symbol], needed: set[int], further: list[Symbol]) -> None:
        """Write the rules of an object, as :meth:`Parameters.lay_out`, in braces and with commas."""
        ir, comma = self.ir, self._comma
        if self.layout.any_order and len(parts) + len(further) > 1:
            family = AnyOrder(ir, parts, further, needed, self._last, comma)
            ir.rule(symbol, [self._open, ir.instance(family, family.first), self._close])
            return
        after = ir.nonterminal("further members, or none")
        first = ir.nonterminal("members")
        for one in further:
            ir.rule(first, [one, after])
            ir.rule(after, [comma, one, after])
        ir.rule(first, [self._last])
        ir.rule(after, [self._last])
        for i in range(len(parts) - 1, -1, -1):
            behind, alone = after, first
            first, after = ir.nonterminal(f"members from {i}"), ir.nonterminal(f"members from {i}, behind others")
            ir.rule(first, [parts[i], behind])
            ir.rule(after, [comma, parts[i], behind])
            if i not in needed:
                ir.rule(first, [alone])
                ir.rule(after, [behind])
        ir.rule(symbol, [self._open, first, self._close])

    def array(self, symbol: Symbol, schema: Any, at: str) -> None:
        """Write the rules of a list."""
        only(schema, OF_OBJECTS | OF_ARRAYS | {"prefixItems"}, at)
        ir = self.ir
        low, high = count_bounds(schema, "minItems", "maxItems", at, self.limits)
        first: list[Any] = schema.get("prefixItems", [])
        rest = schema.get("items", True)
        if rest is False:
            high = len(first) if high is None else min(high, len(first))
        if high is not None and high < low:
            raise unsatisfiable(at)
        end = ir.nonterminal("the end of a list")
        ir.rule(end, [self._last, self._close_list])
        here = end
        if high is None or high > len(first):
            item = self._item(rest, f"{at}/items")
            least, most = max(low - len(first), 0), None if high is None else high - len(first)
            if first:
                here = ir.nonterminal("further items")
                ir.rule(here, [self.repeats.many(either(ir, [[self._comma, item]], "an item"), least, most), end])
            else:
                here = ir.nonterminal("items")
                behind = self.repeats.many(either(ir, [[self._comma, item]], "an item"), max(least - 1, 0), most and most - 1)
                ir.rule(here, [item, behind, end])
                if not low:
                    ir.rule(here, [end])
        for i in range(min(len(first), len(first) if high is None else high) - 1, -1, -1):
            behind, here = here, ir.nonterminal(f"items from {i}")
            item = self._item(first[i], f"{at}/prefixItems/{i}")
            ir.rule(here, [*([self._comma] if i else []), item, behind])
            if i >= low:
                ir.rule(here, [end])
        ir.rule(symbol, [self._open_list, here])

    def _item(self, schema: Any, at: str) -> Symbol:
        """An item with the white space before it."""
        return either(self.ir, [[self._last, self._value(schema, at)]], "item")

    def element(self, opening: str, name: str | Expr, schema: Any, at: str, *, is_declared: bool = True) -> list[list[Symbol]]:
        """One way to write a member: its name, a colon and its value."""
        heads = ways_to_write(self.ir, [self.space, name, self.space, ":", self.space], "a name")
        return [[either(self.ir, heads), self._value(schema, at)]]

    def _value(self, given: Any, at: str) -> Symbol:
        """A value. One symbol for each schema."""
        schema = self.values.resolve(given, at)
        found = self._values.get(id(schema))
        if found is not None:
            return found[1]
        kinds = self.values.kinds(schema, at)
        ways = [] if kinds.text is None else ways_to_write(self.ir, [GEMMA_QUOTE, kinds.text, GEMMA_QUOTE], "a string")
        for kind, schemas in kinds.others.items():
            for one in schemas:
                if kind in _COMPOUND:
                    ways += [[self.body(kind, each, where)] for each, where in self._compounds(kind, one, at)]
                else:
                    ways.append([self.write_schema(self.values.with_definitions(one), at)])
        if not ways:
            raise unsatisfiable(at)
        symbol = either(self.ir, ways, "value")
        self._values[id(schema)] = (schema, symbol)
        return symbol

    def _compounds(self, kind: str, schema: Any, at: str) -> list[tuple[Any, str]]:
        """The schemas of the objects, or lists, that a schema allows, each with its location, without alternatives."""
        out: list[tuple[Any, str]] = []
        waiting = [(schema, at)]
        while waiting:
            one, where = waiting.pop()
            if "enum" in one or "const" in one:
                out += [(self._constant(value), where) for value in _listed(one, kind)]
            elif "oneOf" in one or (kind == "array" and "anyOf" in one):
                keyword = "oneOf" if "oneOf" in one else "anyOf"
                if one.keys() - ANNOTATIONS - {keyword}:
                    raise unsupported(f"{keyword} of objects and lists beside other keywords is", where, keyword, " here")
                if keyword == "oneOf":
                    self._check_apart(one[keyword], where)
                for i, branch in enumerate(one[keyword]):
                    inner = f"{where}/{keyword}/{i}"
                    waiting += [(each, inner) for each in self.values.kinds(branch, inner).others.get(kind, ())]
            elif kind == "object":
                out += self.values.ways(one, where)
            else:
                out.append((one, where))
        return out

    def _check_apart(self, branches: list[Any], at: str) -> None:
        """Raise ``UnsupportedError`` unless each two branches of ``oneOf`` provably have no value in common."""
        self._branches += len(branches)
        together = ({"allOf": list(pair)} for pair in combinations(branches, 2))
        if self._branches > _MOST_BRANCHES or not all(
            allows_nothing(self.values.with_definitions(both), self.limits) for both in together
        ):
            raise UnsupportedError(
                "oneOf of objects and lists is supported only where its branches have no value in common",
                location=f"{at}/oneOf",
                keyword="oneOf",
                expected=f"at most {_MOST_BRANCHES} branches, each two with a required member that differs; or anyOf",
            )

    def _constant(self, value: Any) -> dict[str, Any]:
        """The schema of one object or list. The same object for the same value."""
        found = self._constants.get(id(value))
        if found is None:
            if isinstance(value, dict):
                members = {name: {"const": member} for name, member in value.items()}
                one = {"type": "object", "properties": members, "required": [*value], "additionalProperties": False}
            else:
                items = [{"const": item} for item in value]
                one = {"type": "array", "prefixItems": items, "items": False, "minItems": len(value)}
            found = self._constants[id(value)] = (value, one)
        return found[1]


def _listed(schema: Any, kind: str) -> list[Any]:
    """The objects, or lists, among the listed values of a schema, which has no other keywords (:meth:`Values.kinds`)."""
    types = schema.get("type", kind)
    if kind != types and kind not in types:
        return []
    values = schema.get("enum", [schema.get("const")])
    if "enum" in schema and "const" in schema:
        values = [value for value in values if canonical(value) == canonical(schema["const"])]
    return [value for value in values if type_name(value) == kind]
