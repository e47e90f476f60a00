"""Arguments of a tool call as XML-like parameters: ``<parameter=city>Paris</parameter><parameter=days>3</parameter>``.

The schema's top level must be an object. Its properties come in the order of declaration, or in any with ``any_order``, each at
most once, and required ones always. Strings stand unquoted, up to the closing tag; other values are JSON, except in styles that
write objects and lists as elements, too. The styles are xgrammar's, and so are these rules: there are no further parameters
unless ``additionalProperties``, or a schema without properties, asks for them; several further ones may share a name. What
cannot be enforced is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from cdplugin.errors import GrammarError, UnsupportedError, shown
from cdplugin.expr import Expr, alt, both, byte_class, cat, complement, literal, literals, negate_ranges, repeat, utf8_ranges
from cdplugin.frontends.free_text import without
from cdplugin.frontends.json_schema.matching import finds
from cdplugin.frontends.json_schema.members import BitSet
from cdplugin.frontends.json_schema.reader import Reader
from cdplugin.frontends.json_schema.schema import count_bounds
from cdplugin.frontends.json_schema.source import escape_token
from cdplugin.frontends.repeats import SymbolRepeats, either
from cdplugin.frontends.spelling import pieces, spell, utf8
from cdplugin.frontends.tags.xml_values import OF_ARRAYS, OF_OBJECTS, Values, only, open_type, unsatisfiable, unsupported
from cdplugin.ir import Family, GrammarIR, Part, Productive, Symbol, TokenSet, Whole
from cdplugin.regex.alphabet import UTF8
from cdplugin.regex.pattern import Pattern, parse

NAME, KIND = "{name}", "{kind}"
GEMMA, GEMMA_QUOTE = "gemma", '<|"|>'
NO_KINDS: MappingProxyType[str, str] = MappingProxyType({})


class Style(NamedTuple):
    """The texts around a value; a line break in them stands for any white space.

    ``kinds``: the text for ``{kind}``, by JSON type; if it has ``integer``, undeclared parameters that are integers may use
    that, too. ``item``: the opening of a list element, in styles that write lists and objects as elements; else they are JSON.
    ``until``: what a string must not hold, if less than the whole closing. ``spaced``: whether white space may surround values
    other than strings. ``escape``: the escaping of names.
    """

    opening: str
    closing: str
    kinds: MappingProxyType[str, str] = NO_KINDS
    item: str = ""
    until: str = ""
    spaced: bool = True
    escape: Callable[[str], str] = str


def _xml_escape(name: str) -> str:
    return name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


_TYPES = ("number", "boolean", "null", "array", "object")
_MARKED = MappingProxyType({"string": "true"} | dict.fromkeys(_TYPES, "false"))
_NAMED = MappingProxyType({one: one for one in ("string", "integer", *_TYPES)})
_COHERE = MappingProxyType({"string": "raw", "array": "list", "object": "dict"} | dict.fromkeys(_TYPES[:3], "json"))
_MINIMAX = "]<]minimax[>["
STYLES = {
    "qwen_xml": Style("<parameter={name}>", "</parameter>"),
    "minimax_xml": Style('<parameter name="{name}">', "</parameter>"),
    "deepseek_xml": Style('<｜DSML｜parameter name="{name}" string="{kind}">', "</｜DSML｜parameter>", _MARKED),
    "deepseek_v4_1_xml": Style('<｜DSML｜ parameter name="{name}" string="{kind}">', "</｜DSML｜ parameter>", _MARKED),
    "glm_xml": Style("<arg_key>{name}</arg_key>\n<arg_value>", "</arg_value>"),
    "kimi_k3_xml": Style(
        '<|open|>argument key="{name}" type="{kind}"<|sep|>', "<|close|>argument<|sep|>", _NAMED, escape=_xml_escape
    ),
    "cohere_xml": Style(
        '<cofl:value name="{name}" type="{kind}">',
        "</cofl:value>",
        _COHERE,
        item='<cofl:value type="{kind}">',
        escape=_xml_escape,
    ),
    "minimax_m3_xml": Style(
        _MINIMAX + "<{name}>", _MINIMAX + "</{name}>", item=_MINIMAX + "<item>", until=_MINIMAX, spaced=False
    ),
    GEMMA: Style("{name}", "", until=GEMMA_QUOTE),
}
"""By name; all but :data:`GEMMA` are XML."""


def fill(template: str, name: str | Expr, kind: str, space: Expr) -> list[str | Expr]:
    """A template of :class:`Style` with its holes filled, as a list of texts and expressions."""
    out: list[str | Expr] = []
    for i, part in enumerate(template.replace(KIND, kind).split(NAME)):
        if i:
            out.append(name)
        for j, line in enumerate(part.split("\n")):
            if j:
                out.append(space)
            out.append(line)
    return out


def ways_to_write(ir: GrammarIR, parts: Iterable[Any], name: str) -> list[list[Symbol]]:
    """The ways to write a sequence of texts and expressions: as one lexeme, and if a text holds a special token, with that."""
    cut: list[tuple[Expr, str]] = []  # each with its text, if that has the form of a special token
    for is_text, run in groupby(parts, lambda part: isinstance(part, str)):
        if is_text:
            cut += [(literal(utf8(piece)), piece if is_token else "") for piece, is_token in pieces("".join(run))]
        else:
            cut += [(part, "") for part in run]
    whole = [ir.lexeme(cat(*(piece for piece, _ in cut)), name)]
    with_token: list[Symbol] = []
    first = True
    for token, same in groupby(cut, itemgetter(1)):
        if not token:
            with_token.append(ir.lexeme(cat(*(piece for piece, _ in same)), name))
            continue
        for _ in same:
            with_token += [ir.token(TokenSet(names=(token,), optional=True), token)] if first else spell(ir, token)
            first = False
    return [whole] if first else [whole, with_token]


SchemaWriter = Callable[[Any, str], Symbol]
_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
_NAME = cat(byte_class(_LETTERS), repeat(byte_class(_LETTERS + b"0123456789")))
_PLAIN = utf8_ranges(negate_ranges([(ord(char), ord(char)) for char in '\0"&<>']))
_MOST_SPACE = 20
_MOST_PATTERNS = 4


@dataclass(frozen=True)
class Layout:
    """``any_order``; ``space``: most white space characters in a row; ``excludes``: what strings and names must not hold."""

    any_order: bool = False
    space: int = _MOST_SPACE
    excludes: tuple[str, ...] = ()


class Parameters:
    """Writes a list of parameters. ``write_schema(schema, at)`` writes JSON.

    ``reader``: a reader that has read the schema (:func:`cdplugin.frontends.json_schema.check_schema`). Nested objects and
    lists wait in a queue, so nothing recurses.
    """

    def __init__(self, ir: GrammarIR, reader: Reader, style: str, write_schema: SchemaWriter, at: str, layout: Layout) -> None:
        self.ir = ir
        self.limits = reader.limits
        self.style = STYLES[style]
        self.write_schema = write_schema
        self.at = at
        self.layout = layout
        self.space = repeat(byte_class(b" \n\r\t"), 0, layout.space)
        self.values = Values(reader, without([self.style.until or self.style.closing, *layout.excludes]))
        if reader.has_references and not reader.documents.is_one:  # references are resolved against the root only
            raise unsupported("$id inside a schema of parameters that has references is", at, "$id")
        self._bodies: dict[tuple[int, str], tuple[Symbol, Any]] = {}  # the reference to the schema keeps its id unique
        self._waiting: list[tuple[Symbol, str, Any, str]] = []
        self.repeats = SymbolRepeats(ir)

    def write(self) -> Symbol:
        """Write the list; returns its symbol. Raises ``GrammarError`` with a JSON Pointer below ``at``."""
        schema = self.values.resolve(self.values.root, self.at)
        if schema is True:
            schema = {}
        if schema.get("type", "object") != "object":
            raise GrammarError(
                "bad schema of parameters", location=f"{self.at}/type", expected='"object"', found=shown(schema["type"])
            )
        ways = [[self.body("object", one, at)] for one, at in self.values.ways(schema, self.at)]
        out = either(self.ir, ways)
        while self._waiting:
            symbol, kind, waiting, at = self._waiting.pop()
            (self._object if kind == "object" else self.array)(symbol, waiting, at)
        return out

    def body(self, kind: str, schema: Any, at: str) -> Symbol:
        """The content of an object or list that is written in this style."""
        found = self._bodies.get((id(schema), kind))
        if found is None:
            found = self._bodies[id(schema), kind] = (self.ir.nonterminal(f"{kind} of parameters"), schema)
            self._waiting.append((found[0], kind, schema, at))
        return found[0]

    def _object(self, symbol: Symbol, schema: Any, at: str) -> None:
        only(schema, OF_OBJECTS if at == self.at else OF_OBJECTS | OF_ARRAYS, at)
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        for name in required:
            if name not in properties:
                message = f"a required parameter that is not declared, {name!r}, is not supported"
                raise UnsupportedError(message, location=f"{at}/required")
        patterns = self._patterns(schema, at)
        parts, needed = self._declared(properties, required, patterns, at)
        self.lay_out(symbol, parts, needed, self._further(schema, properties, patterns, at))

    def lay_out(self, symbol: Symbol, parts: list[Symbol], needed: set[int], further: list[Symbol]) -> None:
        """Write the rules of an object: ``parts`` in their order or in any, those whose index is in ``needed`` always; then any
        number of ``further`` ones.
        """
        ir = self.ir
        last = ir.lexeme(self.space, "whitespace")
        if self.layout.any_order and len(parts) + len(further) > 1:
            ir.rule(symbol, [ir.instance(AnyOrder(ir, parts, further, needed, last), AnyOrder.first)])
            return
        rest = last
        if further:
            rest = ir.nonterminal("further parameters")
            for symbols in further:
                ir.rule(rest, [symbols, rest])
            ir.rule(rest, [last])
        for i in range(len(parts) - 1, -1, -1):
            here = ir.nonterminal(f"parameters from {i}")
            ir.rule(here, [parts[i], rest])
            if i not in needed:
                ir.rule(here, [rest])
            rest = here
        ir.rule(symbol, [rest])

    def _declared(
        self, properties: dict[str, Any], required: Sequence[str], patterns: list[tuple[Pattern, str, Any]], at: str
    ) -> tuple[list[Symbol], set[int]]:
        """A symbol for each declared parameter that may be written, and the indices of the required ones."""
        parts: list[Symbol] = []
        needed: set[int] = set()
        for name, value in properties.items():
            written = self.style.escape(name)
            if any(text in written for text in self.layout.excludes):
                if name in required:
                    raise unsatisfiable(f"{at}/properties/{escape_token(name)}")
                continue
            if name in required:
                needed.add(len(parts))
            also = [one for pattern, _, one in patterns if finds(pattern.source, name)]
            value = self.values.all_of([value, *also]) if also else value
            pointer = f"{at}/properties/{escape_token(name)}"
            ways = self.element(self.style.opening, written, value, pointer)
            parts.append(either(self.ir, ways, f"parameter {name}"))
        return parts, needed

    def _patterns(self, schema: Any, at: str) -> list[tuple[Pattern, str, Any]]:
        """The patterns of ``patternProperties``, each with its JSON Pointer and its schema."""
        given = schema.get("patternProperties", {})
        where = f"{at}/patternProperties"
        if given and self.style.item and not self.style.kinds:
            raise unsupported("patternProperties with elements that bear their names is", at, "patternProperties")
        if len(given) > _MOST_PATTERNS:
            error = unsupported("so many patternProperties of parameters are", at, "patternProperties")
            raise error.amended(expected=f"at most {_MOST_PATTERNS}", found=str(len(given)))
        return [
            (parse(pattern, "ecma", "u", self.limits), f"{where}/{escape_token(pattern)}", value)
            for pattern, value in given.items()
        ]

    def _further(
        self, schema: Any, properties: dict[str, Any], patterns: list[tuple[Pattern, str, Any]], at: str
    ) -> list[Symbol]:
        """Undeclared parameters: one symbol for each set of patterns that their names may match."""
        further = schema.get("additionalProperties", not properties and not patterns)
        out: list[Symbol] = []
        for matched in product((True, False), repeat=len(patterns)):
            values = [value for (_, _, value), matches in zip(patterns, matched, strict=True) if matches]
            names = [
                pattern.search_expr(UTF8) if matches else complement(pattern.search_expr(UTF8))
                for (pattern, _, _), matches in zip(patterns, matched, strict=True)
            ]
            if not any(matched):
                out += self._undeclared(schema, properties, further, f"{at}/additionalProperties", names)
            elif False not in values:
                where = next(pointer for (_, pointer, _), matches in zip(patterns, matched, strict=True) if matches)
                value = values[0] if len(values) == 1 else self.values.all_of(values)
                out += self._undeclared(schema, properties, value, where, names)
        return out

    def _undeclared(self, schema: Any, properties: dict[str, Any], further: Any, at: str, names: list[Expr]) -> list[Symbol]:
        """Undeclared parameters whose names, as written, match all of ``names``: at most one symbol."""
        if further is False:
            return []
        if self.style.item and not self.style.kinds:
            if "additionalProperties" not in schema:
                return []  # as in xgrammar
            message = "additionalProperties with elements that bear their names is not supported"
            raise UnsupportedError(message, location=at, keyword="additionalProperties")
        name: Expr = _NAME
        if self.style.escape is not str and names:  # patterns apply to unescaped names
            name = repeat(_PLAIN, 1)
        elif self.style.escape is not str:  # any text, escaped
            name = repeat(alt(_PLAIN, *(literal(utf8(self.style.escape(one))) for one in '&<>"')), 1)
        exclusions = [complement(literals(utf8(self.style.escape(n)) for n in properties))] if properties else []
        exclusions += names
        if self.layout.excludes:
            exclusions.append(without(self.layout.excludes))
        whole = both(name, *exclusions) if exclusions else name
        ways = self.element(self.style.opening, whole, further, at, is_declared=False)
        return [either(self.ir, ways, "a further parameter")]

    def array(self, symbol: Symbol, schema: Any, at: str) -> None:
        """Write the rules of a list."""
        only(schema, OF_OBJECTS | OF_ARRAYS, at)
        low, high = count_bounds(schema, "minItems", "maxItems", at, self.limits)
        if high is not None and high < low:
            raise unsatisfiable(at)
        last = self.ir.lexeme(self.space, "whitespace")
        if high == 0:
            self.ir.rule(symbol, [last])
            return
        item = either(self.ir, self.element(self.style.item, "item", schema.get("items", True), f"{at}/items"), "item")
        self.ir.rule(symbol, [self.repeats.many(item, low, high), last])

    def element(self, opening: str, name: str | Expr, schema: Any, at: str, *, is_declared: bool = True) -> list[list[Symbol]]:
        """The ways to write one value with its opening and closing."""
        style, ir = self.style, self.ir
        text, others, is_any = self.values.kinds(schema, at)
        if is_any and not style.kinds:
            if style.item:
                raise open_type(at)
            others = {}  # a string may have any of their texts
        closing = fill(style.closing, name, "", self.space)
        out: list[list[Symbol]] = []
        if text is not None:
            head = [self.space, *fill(opening, name, style.kinds.get("string", ""), self.space)]
            out += ways_to_write(ir, [*head, text, *closing], "a parameter")
        by_kind: dict[tuple[str, bool], list[Symbol]] = {}
        for kind, schemas in others.items():
            nested = bool(style.item) and kind in ("object", "array")
            bodies = by_kind.setdefault((style.kinds.get(kind, ""), nested), [])
            if kind == "number" and not is_declared and "integer" in style.kinds:
                wholes = [{"allOf": [one, {"type": "integer"}]} for one in schemas if not {"enum", "const"} & one.keys()]
                if wholes:
                    integers = by_kind.setdefault((style.kinds["integer"], False), [])
                    integers += [self.write_schema(self.values.with_definitions(one), at) for one in wholes]
            for one in schemas:
                if not nested:
                    bodies.append(self.write_schema(self.values.with_definitions(one), at))
                    continue
                if any(keyword in one for keyword in ("enum", "const", "oneOf", "anyOf")):
                    raise UnsupportedError("enum, const and oneOf of objects and lists are not supported here", location=at)
                bodies.append(self.body(kind, one, at))
        for (kind, nested), bodies in by_kind.items():
            head = [self.space, *fill(opening, name, kind, self.space)]
            before = [] if nested or not style.spaced else [self.space]
            heads = ways_to_write(ir, [*head, *before], "a parameter")
            tails = ways_to_write(ir, [*before, *closing], "the end of a parameter")
            out.append([either(ir, heads), either(ir, ([body] for body in bodies)), either(ir, tails)])
        return out


class AnyOrder(Family[BitSet]):
    """Parameters in any order; the family's parameter is the bit set of those written, and one bit more for further ones if a
    comma depends on them. ``last``: the white space at the end; ``comma``: what stands between two of them, if anything.
    """

    name = "parameters in any order"
    first = BitSet()

    def __init__(
        self,
        ir: GrammarIR,
        parts: Sequence[Symbol],
        further: Sequence[Symbol],
        needed: set[int],
        last: Symbol,
        comma: Symbol | None = None,
    ) -> None:
        self._ir = ir
        self._parts = list(parts)
        self._further = list(further)
        self._required = sum(1 << i for i in needed)
        self._last = last
        self._commas = [] if comma is None else [comma]
        self._and_further = 0 if comma is None else 1 << len(parts)

    def uses(self) -> Iterable[Symbol]:
        """The parameters, and white space, which may be empty."""
        return [*self._parts, *self._further, self._last, *self._commas]

    def nullable(self, value: BitSet) -> bool:
        """Whether no required parameter is missing."""
        return not self._required & ~value

    def satisfiable(self, value: BitSet, productive: Productive) -> bool:
        """Whether all missing required parameters are productive."""
        missing = self._required & ~value
        return productive(self._last) and all(productive(part) for i, part in enumerate(self._parts) if missing >> i & 1)

    def expand(self, value: BitSet, productive: Productive) -> Iterable[Sequence[Part]]:
        """One more parameter, or the end."""
        commas = self._commas if value else []
        out: list[Sequence[Part]] = [
            [*commas, part, self._ir.member(self, BitSet(value | 1 << i))]
            for i, part in enumerate(self._parts)
            if not value >> i & 1 and productive(part)
        ]
        after = self._ir.member(self, BitSet(value | self._and_further))
        out += [[*commas, one, after] for one in self._further if productive(one)]
        if self.nullable(value):
            out.append([self._last])
        return out

    def whole(self, productive: Productive) -> Whole | None:
        """Each required parameter once."""
        ways = [[*self._commas, one] for one in (*self._parts, *self._further) if productive(one)]
        needed = [symbol for i, part in enumerate(self._parts) if self._required >> i & 1 for symbol in (*self._commas, part)]
        return Whole([*needed, self._last], [*ways, [self._last]])

    def remaining(self, value: BitSet) -> int:
        """How many required parameters are missing."""
        return (self._required & ~value).bit_count()

    def least_bytes(self, value: BitSet) -> int:
        """A byte for each required parameter that is missing."""
        return self.remaining(value)
