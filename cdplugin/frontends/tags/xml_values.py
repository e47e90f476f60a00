"""The values of XML parameters: strings, which stand unquoted, and schemas of the others by type."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, NamedTuple

from cdplugin.errors import GrammarError, LimitExceeded, UnsupportedError
from cdplugin.expr import ANY_CHAR, Expr, alt, both, literals, repeat
from cdplugin.frontends.json_schema.formats import format_expr
from cdplugin.frontends.json_schema.reader import Reader
from cdplugin.frontends.json_schema.schema import count_bounds, ref_loop
from cdplugin.frontends.json_schema.source import type_name
from cdplugin.frontends.spelling import utf8
from cdplugin.regex.alphabet import UTF8
from cdplugin.regex.pattern import parse

ANNOTATIONS = frozenset(
    "title description default examples deprecated readOnly writeOnly $schema $id $anchor $comment $defs definitions"
    " strict".split()
)
OF_OBJECTS = frozenset(["type", "properties", "required", "additionalProperties", "patternProperties"])
OF_ARRAYS = frozenset(["type", "items", "minItems", "maxItems"])
_OF_STRINGS = frozenset(["type", "minLength", "maxLength", "pattern", "format"])
_OF_OTHERS = frozenset(
    "properties required additionalProperties minProperties maxProperties patternProperties propertyNames items prefixItems"
    " minItems maxItems uniqueItems contains minContains maxContains minimum maximum exclusiveMinimum exclusiveMaximum"
    " multipleOf".split()
)
OTHER_KINDS = ("number", "boolean", "null", "array", "object")
_KIND_OF = {"integer": "number", **{kind: kind for kind in OTHER_KINDS}}
_TOGETHER = (
    frozenset(["properties", "patternProperties", "additionalProperties"]),
    frozenset(["prefixItems", "items"]),
    frozenset(["contains", "minContains", "maxContains"]),
)
"""Keywords of one schema that depend on each other."""
_LISTED = frozenset(["enum", "const"])
_SAYS_TYPE = frozenset(["type", "enum", "const", "anyOf", "oneOf", "allOf"])
_MOST_REFERENCES = 32
_MOST_UNIONS = 32
_MOST_BRANCHES = 10_000
_OF_KIND = MappingProxyType({kind: {"type": kind} for kind in OTHER_KINDS})


_Within = tuple[Any, ...]
"""Nested schemas with ``anyOf``, ``oneOf`` or ``allOf``, each a branch of the one before it."""


class Kinds(NamedTuple):
    """``text``: the strings, or None; ``others``: by type, alternative schemas; ``is_any``: nothing is restricted."""

    text: Expr | None
    others: dict[str, list[Any]]
    is_any: bool = False


class Values:
    """Reads parts of the schema that ``reader`` has read. ``free``: the strings that can stand unquoted. Equal questions get
    the same objects, so that their ids can be keys.
    """

    def __init__(self, reader: Reader, free: Expr) -> None:
        self.root = reader.documents.root.root
        self._documents = reader.documents
        self._free = free
        self._limits = reader.limits
        self._branches = 0
        self._joined: dict[tuple[int, ...], tuple[list[Any], dict[str, Any]]] = {}
        self._merged: dict[int, tuple[Any, Any]] = {}
        self._inside: list[Any] = []
        self._all_known: dict[int, tuple[Any, Kinds]] = {}
        self._narrowed: dict[tuple[int, str], tuple[Any, dict[str, Any]]] = {}  # keeps the schemas alive, for their ids

    def kinds(self, given: Any, at: str, within: _Within = ()) -> Kinds:
        """The values that ``given`` allows. Raises ``UnsupportedError`` for what cannot be enforced on unquoted strings."""
        schema = self.resolve(given, at)
        if schema is True or not schema.keys() - ANNOTATIONS:
            return Kinds(self._free, {kind: [of_kind] for kind, of_kind in _OF_KIND.items()}, True)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema and not schema.keys() - ANNOTATIONS - {keyword}:
                return self._union(schema[keyword], keyword, at, _inside(within, schema, at))
        if "allOf" in schema:
            return self._all(schema, at, _inside(within, schema, at))
        if "enum" in schema or "const" in schema:
            return self._listed(schema, at)
        types = schema.get("type")
        listed = types if isinstance(types, list) else [types]
        if any(one != "string" and one not in _KIND_OF for one in listed):
            raise open_type(at)
        others: dict[str, list[Any]] = {}
        for kind in OTHER_KINDS:
            names = [one for one in listed if _KIND_OF.get(one) == kind]
            if names:
                others[kind] = [schema]
                if len(listed) > 1:
                    others[kind] = [self._narrowed.setdefault((id(schema), kind), (schema, {**schema, "type": names}))[1]]
        return Kinds(self._strings(schema, at, bool(others)) if "string" in listed else None, others)

    def ways(self, schema: dict[str, Any], at: str) -> list[tuple[dict[str, Any], str]]:
        """Alternative schemas for the objects that ``schema`` allows, each with its location: the branches of ``anyOf``, merged
        with the keywords beside it, and listed objects. Raises ``UnsupportedError`` where subschemas would have to be merged.
        """
        out: list[tuple[dict[str, Any], str]] = []
        waiting: list[tuple[dict[str, Any], str, _Within]] = [(schema, at, (schema,))]
        while waiting:
            one, where, within = waiting.pop()
            types = one.get("type", "object")
            if types != "object" and "object" not in types:
                continue
            if one.keys() & _LISTED:
                only(one, frozenset(["type", "enum" if "enum" in one else "const"]), where)
                listed = [value for value in one.get("enum", [one.get("const")]) if isinstance(value, dict)]
                out += [(_constant(value), where) for value in listed]
            elif "anyOf" in one:
                self._count(one["anyOf"], within, "anyOf of parameters", where, "anyOf")
                beside = {keyword: value for keyword, value in one.items() if keyword != "anyOf"}
                found = []
                for i, branch in enumerate(one["anyOf"]):
                    resolved = branch if isinstance(branch, bool) else self.resolve(branch, f"{where}/anyOf/{i}")
                    merged = None if resolved is False else _merge([beside, {} if resolved is True else resolved])
                    if merged is None and resolved is not False:
                        raise unsupported("anyOf that shares keywords with what is beside it is", where, "anyOf", " here")
                    if merged is not None:
                        found.append((merged, f"{where}/anyOf/{i}", _inside(within, resolved, f"{where}/anyOf/{i}")))
                waiting += reversed(found)
            else:
                out.append((one, where))
        if not out:
            raise unsatisfiable(at)
        return out

    def all_of(self, schemas: list[Any]) -> dict[str, Any]:
        """A schema that requires all of ``schemas``."""
        return self._joined.setdefault(tuple(map(id, schemas)), (schemas, {"allOf": list(schemas)}))[1]

    def _all(self, schema: dict[str, Any], at: str, within: _Within) -> Kinds:
        """The values that ``allOf`` and the keywords beside it allow together."""
        known = self._all_known.get(id(schema))
        if known is not None:
            return known[1]
        branches = schema["allOf"]
        self._count(branches, within, "allOf of parameters", at, "allOf")
        found = [self.kinds(self._typed(branch, at), f"{at}/allOf/{i}", within) for i, branch in enumerate(branches)]
        beside = {keyword: value for keyword, value in schema.items() if keyword != "allOf" and keyword not in ANNOTATIONS}
        if beside:
            found.append(self.kinds(self._typed(beside, at), at, within))
        texts = [one.text for one in found if one.text is not None]
        others = {
            kind: [self.all_of([schema, _OF_KIND[kind]])] for kind in OTHER_KINDS if all(kind in one.others for one in found)
        }
        text = both(*texts) if len(texts) == len(found) else None
        out = Kinds(text, others, all(one.is_any for one in found))
        self._all_known[id(schema)] = (schema, out)
        return out

    def _count(self, branches: list[Any], within: _Within, what: str, at: str, keyword: str) -> None:
        """Count the branches of the last schema of ``within``. Raises ``LimitExceeded``."""
        self._branches += len(branches)
        if len(within) > _MOST_UNIONS or self._branches > _MOST_BRANCHES:
            most = f"at most {_MOST_UNIONS} inside each other, and {_MOST_BRANCHES} branches"
            raise LimitExceeded(what, location=f"{at}/{keyword}", keyword=keyword, expected=most)

    def _typed(self, given: Any, at: str) -> Any:
        """A branch of ``allOf``. One that restricts no types allows all of them."""
        schema = self.resolve(given, at)
        if schema is True or schema.keys() & _SAYS_TYPE or not schema.keys() - ANNOTATIONS:
            return schema
        return {**schema, "type": ["string", *OTHER_KINDS]}

    def _listed(self, schema: dict[str, Any], at: str) -> Kinds:
        only(schema, frozenset(["enum", "const", "type"]), at)
        values = schema.get("enum", [schema.get("const")])
        types = schema.get("type", "string")
        texts = []
        if types == "string" or "string" in types:
            texts = [v for v in values if isinstance(v, str) and schema.get("const", v) == v]
        others: dict[str, list[Any]] = {}
        for value in values:
            if not isinstance(value, str):
                others.setdefault(type_name(value), [{**schema, "enum": []}])[0]["enum"].append(value)
        return Kinds(both(literals(map(utf8, texts)), self._free) if texts else None, others)

    def _strings(self, schema: dict[str, Any], at: str, more: bool) -> Expr:
        only(schema, _OF_STRINGS | _OF_OTHERS if more else _OF_STRINGS, at)
        parts = [self._free]
        if "minLength" in schema or "maxLength" in schema:
            parts.append(repeat(ANY_CHAR, *count_bounds(schema, "minLength", "maxLength", at, self._limits)))
        if "pattern" in schema:
            parts.append(parse(schema["pattern"], "ecma", limits=self._limits).search_expr(UTF8))
        form = format_expr(schema["format"], UTF8) if "format" in schema else None
        if form is not None:
            parts.append(form)
        return both(*parts)

    def _union(self, branches: list[Any], keyword: str, at: str, within: _Within) -> Kinds:
        self._count(branches, within, "anyOf and oneOf of parameters", at, keyword)
        texts: list[Expr] = []
        others: dict[str, list[Any]] = {}
        is_any = False
        for i, branch in enumerate(branches):
            found = self.kinds(branch, f"{at}/{keyword}/{i}", within)
            is_any = is_any or found.is_any
            for kind, schemas in found.others.items():
                alone = schemas if len(schemas) == 1 else [{"anyOf": schemas}]
                others.setdefault(kind, []).extend(alone if keyword == "oneOf" else schemas)
            if found.text is not None:
                texts.append(found.text)
        if keyword == "oneOf":
            if len(texts) > 1:
                raise unsupported("oneOf with several strings is", at, "oneOf", " here")
            others = {kind: [{"oneOf": s}] if len(s) > 1 else s for kind, s in others.items()}
        return Kinds(alt(*texts) if texts else None, others, is_any)

    def with_definitions(self, schema: Any) -> Any:
        """``schema`` with the ``$defs`` and ``definitions`` of the root, for references."""
        whole = self.root if isinstance(self.root, dict) else {}
        return {**{name: whole[name] for name in ("$defs", "definitions") if name in whole}, **schema}

    def resolve(self, schema: Any, at: str) -> Any:
        """``schema`` with ``$ref`` followed."""
        for _ in range(_MOST_REFERENCES):
            if not isinstance(schema, (dict, bool)):
                raise GrammarError("bad schema", location=at, expected="an object, true or false", found=type(schema).__name__)
            if schema is False:
                raise unsatisfiable(at)
            if schema is not True and "allOf" in schema and "$ref" not in schema:
                schema = self._without_all_of(schema, at)
            if schema is True or "$ref" not in schema:
                return schema
            if schema.keys() - ANNOTATIONS - {"$ref"}:
                raise unsupported("$ref beside other keywords is", at, "$ref", " here")
            schema = self._documents.resolve(schema["$ref"], self._documents.root, f"{at}/$ref").schema
        raise ref_loop(f"{at}/$ref")

    def _without_all_of(self, schema: dict[str, Any], at: str) -> Any:
        """``schema`` with the keywords of its ``allOf`` merged into its own, if that is equivalent; else unchanged."""
        known = self._merged.get(id(schema))
        if known is None:
            self._merged[id(schema)] = (schema, schema)  # the result for a schema that leads back to itself
            out: Any = schema
            if len(self._inside) < _MOST_REFERENCES:
                self._inside.append(schema)
                beside = {keyword: value for keyword, value in schema.items() if keyword != "allOf"}
                parts = [beside, *(self.resolve(branch, f"{at}/allOf/{i}") for i, branch in enumerate(schema["allOf"]))]
                merged = _merge([{} if part is True else part for part in parts])
                out = schema if merged is None else merged
                self._inside.pop()
            known = self._merged[id(schema)] = (schema, out)
        return known[1]


def _inside(within: _Within, schema: Any, at: str) -> _Within:
    """``within`` with ``schema`` added. Raises ``GrammarError`` if it is inside itself."""
    if any(one is schema for one in within):
        raise ref_loop(at)
    return (*within, schema)


def _constant(value: dict[str, Any]) -> dict[str, Any]:
    """The schema that only this object satisfies."""
    members = {name: {"const": member} for name, member in value.items()}
    return {"type": "object", "properties": members, "required": list(value), "additionalProperties": False}


def _merge(parts: list[dict[str, Any]]) -> dict[str, Any] | None:
    """One schema that requires all of ``parts``; None where subschemas would have to be merged."""
    out: dict[str, Any] = {}
    for part in parts:
        for keyword, value in part.items():
            if keyword not in out:
                out[keyword] = value
                continue
            earlier = out[keyword]
            if keyword == "required":
                out[keyword] = [*earlier, *(name for name in value if name not in earlier)]
            elif keyword == "properties" and not earlier.keys() & value.keys():
                out[keyword] = {**earlier, **value}
            elif keyword not in ANNOTATIONS and earlier != value:
                return None
    if out.keys() & _LISTED and out.keys() - _LISTED - ANNOTATIONS - {"type"}:
        return None
    for group in _TOGETHER:
        has = [group & part.keys() for part in parts if group & part.keys()]
        if len(has) > 1 and any(one != {"properties"} for one in has):
            return None
    return out


def unsupported(what: str, at: str, keyword: str, where: str = "") -> GrammarError:
    """The error for a use of a keyword that is not enforced, in the schema at ``at``."""
    return UnsupportedError(f"{what} not supported{where}", location=f"{at}/{keyword}", keyword=keyword)


def open_type(at: str) -> GrammarError:
    """The error for a parameter whose type the schema leaves open."""
    message, expected = "a parameter whose type the schema leaves open is not supported", "type, enum, const, anyOf or oneOf"
    return UnsupportedError(message, location=at, expected=expected)


def unsatisfiable(at: str) -> GrammarError:
    """The error for a parameter that has no valid value."""
    return GrammarError("nothing satisfies the schema of a parameter", location=at)


def only(schema: dict[str, Any], known: frozenset[str], at: str) -> None:
    """Raise ``UnsupportedError`` for keywords other than ``known`` ones and annotations."""
    for keyword in schema:
        if keyword not in known and keyword not in ANNOTATIONS:
            raise unsupported(f"{keyword} is", at, keyword, " here")
