"""Arguments of a tool call as XML-like parameters: ``<parameter=city>Paris</parameter><parameter=days>3</parameter>``.

The top level of the schema must be an object; its properties come in the order in which they are declared, each at most once,
the required ones always. Strings stand as they are, up to the closing tag; all other values are JSON. As in xgrammar, which
these styles are taken from, there are no further parameters unless ``additionalProperties`` (or a schema without properties)
asks for them; several further ones may share a name. What cannot be enforced is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from cdplugin.alphabet import UTF8
from cdplugin.errors import GrammarError, UnsupportedError
from cdplugin.expr import ANY_CHAR, Expr, alt, both, byte_class, cat, complement, literal, literals, repeat
from cdplugin.frontends.free_text import without
from cdplugin.grammar import GrammarIR, Symbol
from cdplugin.regex import parse

SchemaWriter = Callable[[Any, str], Symbol]


class _Style(NamedTuple):
    """``before`` and ``after`` a name (where the value is a string, and where it is JSON), and what closes the value.

    A line break stands for any white space.
    """

    before: str
    after_string: str
    after_json: str
    close: str


STYLES = {
    "qwen_xml": _Style("<parameter=", ">", ">", "</parameter>"),
    "minimax_xml": _Style('<parameter name="', '">', '">', "</parameter>"),
    "deepseek_xml": _Style('<｜DSML｜parameter name="', '" string="true">', '" string="false">', "</｜DSML｜parameter>"),
    "deepseek_v4_1_xml": _Style('<｜DSML｜ parameter name="', '" string="true">', '" string="false">', "</｜DSML｜ parameter>"),
    "glm_xml": _Style("<arg_key>", "</arg_key>\n<arg_value>", "</arg_key>\n<arg_value>", "</arg_value>"),
}
_WHITESPACE = repeat(byte_class(b" \n\r\t"), 0, 20)
_NAME = cat(
    byte_class(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"),
    repeat(byte_class(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789")),
)
_ANNOTATIONS = frozenset(
    "title description default examples deprecated readOnly writeOnly $schema $id $comment $defs definitions strict".split()
)
_OF_OBJECTS = frozenset(["type", "properties", "required", "additionalProperties"])
_OF_STRINGS = frozenset(["type", "minLength", "maxLength", "pattern"])
_TYPES = ("string", "number", "integer", "boolean", "null", "array", "object")
_MOST_REFERENCES = 32


def write_parameters(ir: GrammarIR, schema: Any, style: str, write_schema: SchemaWriter, at: str) -> Symbol:
    """The symbol of a parameter list. ``write_schema(schema, at)`` writes JSON. Raises with a JSON Pointer below ``at``."""
    return _Writer(ir, schema, STYLES[style], write_schema, at).write()


class _Writer:
    def __init__(self, ir: GrammarIR, schema: Any, style: _Style, write_schema: SchemaWriter, at: str) -> None:
        self.ir = ir
        self.root = schema
        self.style = style
        self.write_schema = write_schema
        self.at = at

    def write(self) -> Symbol:
        schema = self._resolve(self.root, self.at)
        if schema is True:
            schema = {}
        self._only(schema, _OF_OBJECTS, self.at)
        if schema.get("type", "object") != "object":
            raise GrammarError(
                "bad schema of parameters", location=f"{self.at}/type", expected='"object"', found=repr(schema["type"])
            )
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        if not isinstance(properties, dict) or not isinstance(required, list):
            raise GrammarError("bad schema of parameters", location=self.at, expected="properties: an object, required: a list")
        for name in required:
            if name not in properties:
                raise UnsupportedError(
                    f"a required parameter that is not declared, {name!r}, is not supported", location=f"{self.at}/required"
                )
        further = schema.get("additionalProperties", not properties)
        ir = self.ir
        rest: list[Symbol] = [ir.lexeme(_WHITESPACE, "whitespace")]
        if further is not False:
            more = ir.nonterminal("further parameters")
            name = both(_NAME, complement(literals(n.encode() for n in properties))) if properties else _NAME
            for one in self._parameter(name, further, f"{self.at}/additionalProperties"):
                ir.rule(more, [*one, more])
            ir.rule(more, rest)
            rest = [more]
        for name, value in reversed(properties.items()):
            part = ir.nonterminal(f"parameters from {name}")
            pointer = name.replace("~", "~0").replace("/", "~1")
            for one in self._parameter(literal(name.encode()), value, f"{self.at}/properties/{pointer}"):
                ir.rule(part, [*one, *rest])
            if name not in required:
                ir.rule(part, rest)
            rest = [part]
        return rest[0]

    def _parameter(self, name: Expr, schema: Any, at: str) -> list[list[Symbol]]:
        """The ways to write one parameter."""
        style, ir = self.style, self.ir
        text, others = self._kinds(schema, at)
        out: list[list[Symbol]] = []
        if text is not None:
            value = cat(_spaced(style.after_string), text, literal(style.close.encode()))
            out.append([ir.lexeme(cat(_WHITESPACE, literal(style.before.encode()), name, value), "a parameter")])
        for other in others:
            head = cat(_WHITESPACE, literal(style.before.encode()), name, _spaced(style.after_json), _WHITESPACE)
            tail = ir.lexeme(cat(_WHITESPACE, literal(style.close.encode())), style.close)
            out.append([ir.lexeme(head, "a parameter"), self.write_schema(other, at), tail])
        return out

    def _kinds(self, given: Any, at: str) -> tuple[Expr | None, list[Any]]:
        """The strings that a value may be, and schemas of what else it may be, as JSON."""
        schema = self._resolve(given, at)
        free = without([self.style.close])
        if schema is True or not schema.keys() - _ANNOTATIONS:
            return free, []
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema and not schema.keys() - _ANNOTATIONS - {keyword}:
                return self._union(schema[keyword], keyword, at)
        if "enum" in schema or "const" in schema:
            self._only(schema, frozenset(["enum", "const", "type"]), at)
            values = schema.get("enum", [schema.get("const")])
            texts = [v for v in values if isinstance(v, str) and self.style.close not in v and schema.get("const", v) == v]
            others = [v for v in values if not isinstance(v, str)]
            return literals(t.encode() for t in texts) if texts else None, [{**schema, "enum": others}] if others else []
        types = schema.get("type")
        listed = types if isinstance(types, list) else [types]
        if any(one not in _TYPES for one in listed):
            raise UnsupportedError(
                "a parameter whose type the schema leaves open is not supported",
                location=at,
                expected="type, enum, const, anyOf or oneOf",
            )
        others = [one for one in listed if one != "string"]
        rest = [self._with_definitions({**schema, "type": others})] if others else []
        if "string" not in listed:
            return None, rest
        if not others:
            self._only(schema, _OF_STRINGS, at)
        parts = [free]
        if "minLength" in schema or "maxLength" in schema:
            parts.append(repeat(ANY_CHAR, schema.get("minLength", 0), schema.get("maxLength")))
        if "pattern" in schema:
            parts.append(parse(schema["pattern"], "ecma").search_expr(UTF8))
        if "format" in schema:
            raise UnsupportedError(
                "format of a parameter that is no JSON is not supported", location=f"{at}/format", keyword="format"
            )
        return both(*parts), rest

    def _union(self, branches: Any, keyword: str, at: str) -> tuple[Expr | None, list[Any]]:
        texts: list[Expr] = []
        others: list[Any] = []
        for i, branch in enumerate(branches if isinstance(branches, list) else []):
            text, more = self._kinds(branch, f"{at}/{keyword}/{i}")
            others += more
            if text is not None:
                texts.append(text)
        if keyword == "oneOf" and len(texts) > 1:
            raise UnsupportedError("oneOf with several strings is not supported here", location=f"{at}/oneOf", keyword="oneOf")
        if keyword == "oneOf" and len(others) > 1:
            others = [self._with_definitions({"oneOf": others})]
        return alt(*texts) if texts else None, [self._with_definitions(other) for other in others]

    def _with_definitions(self, schema: Any) -> Any:
        """``schema`` with what ``#/$defs`` and ``#/definitions`` of the whole hold."""
        whole = self.root if isinstance(self.root, dict) else {}
        return {**{name: whole[name] for name in ("$defs", "definitions") if name in whole}, **schema}

    def _resolve(self, schema: Any, at: str) -> Any:
        """``schema`` without ``$ref`` at its top."""
        for _ in range(_MOST_REFERENCES):
            if not isinstance(schema, (dict, bool)):
                raise GrammarError("bad schema", location=at, expected="an object, true or false", found=type(schema).__name__)
            if schema is False:
                raise GrammarError("nothing satisfies the schema of a parameter", location=at)
            if schema is True or "$ref" not in schema:
                return schema
            if schema.keys() - _ANNOTATIONS - {"$ref"}:
                raise UnsupportedError(
                    "$ref beside other keywords is not supported here", location=f"{at}/$ref", keyword="$ref"
                )
            schema = self._target(schema["$ref"], at)
        raise GrammarError("$ref leads back to itself", location=f"{at}/$ref", keyword="$ref")

    def _target(self, reference: Any, at: str) -> Any:
        if reference == "#":
            return self.root
        target: Any = self.root
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise UnsupportedError(
                "$ref to another document is not supported here", location=f"{at}/$ref", keyword="$ref", found=repr(reference)
            )
        for part in reference[2:].split("/"):
            part = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, dict) or part not in target:
                raise GrammarError("$ref leads nowhere", location=f"{at}/$ref", keyword="$ref", found=reference)
            target = target[part]
        return target

    def _only(self, schema: dict[str, Any], known: frozenset[str], at: str) -> None:
        """Refuse keywords that are not enforced."""
        for keyword in schema:
            if keyword not in known and keyword not in _ANNOTATIONS:
                raise UnsupportedError(f"{keyword} is not supported here", location=f"{at}/{keyword}", keyword=keyword)


def _spaced(text: str) -> Expr:
    """``text`` with white space at its line breaks."""
    parts = [literal(part.encode()) for part in text.split("\n")]
    return cat(parts[0], *(one for part in parts[1:] for one in (_WHITESPACE, part)))
