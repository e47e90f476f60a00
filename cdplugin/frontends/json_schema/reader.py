"""Read a schema document: turn every reachable subschema into a checked :class:`Subschema` with resolved references.

Reading is eager and complete. Values of the wrong type, patterns that do not parse and references that lead nowhere raise here,
with a JSON Pointer, whether or not an instance could ever reach them. The reader works off a worklist and does not recurse.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import chain
from operator import or_
from typing import Any

from cdplugin.errors import GrammarError, LimitExceeded, shown, suggestion
from cdplugin.frontends.json_schema import strings
from cdplugin.frontends.json_schema.dialect import (
    ALL_TYPES,
    ARRAY,
    FRACTION_BIT,
    IDENTITY,
    IN_PLACE,
    NUMBER,
    NUMBER_BITS,
    OBJECT,
    OBJECT_BIT,
    STRING,
    STRING_BIT,
    TYPE,
    TYPE_BITS,
    VALUES,
)
from cdplugin.frontends.json_schema.formats import SINCE, content_encoding_expr
from cdplugin.frontends.json_schema.multiples import is_supported
from cdplugin.frontends.json_schema.numbers import Bound
from cdplugin.frontends.json_schema.options import Options
from cdplugin.frontends.json_schema.refs import Documents, Resource, Target
from cdplugin.frontends.json_schema.schema import (
    ArrayPart,
    Logic,
    ObjectPart,
    Refused,
    Scope,
    Subschema,
    count_bounds,
    ref_loop,
)
from cdplugin.frontends.json_schema.source import MOST_LISTED, MOST_POINTER_BYTES, describe, escape_token, is_long
from cdplugin.limits import Limits, at_most
from cdplugin.regex.alphabet import UTF8


class _DynamicError(Exception):
    """The document has a ``$dynamicRef``, but was read without the dynamic scope."""


class Reader:
    """Reads a schema document and the documents to which it refers; :meth:`read_all` returns the root."""

    def __init__(self, document: dict | bool, options: Options, limits: Limits) -> None:
        self.options = options
        self.limits = limits
        self.documents = Documents(document, options.registry, limits, options.on_unsupported == "relax")
        self.subschemas: list[Subschema] = []
        self.has_references = False
        self.has_unevaluated = False
        self._dynamic = False
        self._pending: list[Subschema] = []
        self._pointer_bytes = 0
        self._known: dict[tuple[int, int, Scope], Subschema] = {}
        self.anything = Subschema(True, "", self.documents.root)
        self.nothing = Subschema(False, "", self.documents.root, types=0)
        self.string = Subschema({"type": "string"}, "", self.documents.root, types=STRING_BIT)
        self.root = self.subschema(document, "", self.documents.root)

    def read_all(self) -> Subschema:
        """Read everything reachable from the root."""
        pending = self._pending
        while pending:
            try:
                self._read(pending.pop())
            except _DynamicError:  # start again, this time with the dynamic scope
                self._dynamic = True
                self._pointer_bytes = 0
                for collection in (self._known, self.subschemas, pending):
                    collection.clear()
                root = self.root
                self.root = self.subschema(root.schema, "", self.documents.root, self._entered((), self.documents.root))
        for sub in self.subschemas:
            if sub.choices or sub.logic:
                _list_texts(sub)
        return self.root

    def subschema(self, schema: Any, pointer: str, resource: Resource, scope: Scope = ()) -> Subschema:
        """The :class:`Subschema` of a schema object; one for each object, resource and dynamic scope. It is read later."""
        if schema is True or (not schema and isinstance(schema, dict)):
            return self.anything
        key = (id(schema), resource.number, scope) if schema is not False else (-len(self.subschemas), -1, ())
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Subschema(schema, pointer, resource, scope)
            self._add(found)
        return found

    # One schema

    def _read(self, sub: Subschema) -> None:
        schema = sub.schema
        if schema is False:
            sub.types = 0
            return
        if not isinstance(schema, dict):
            raise GrammarError("a schema", location=sub.pointer, expected="object or boolean", found=describe(schema))
        dialect = sub.resource.dialect
        if dialect.ref_alone and "$ref" in schema:
            sub.after = (self._reference(sub, schema["$ref"]),)
            return
        if dialect.id_keyword in schema:
            sub.resource = self.documents.enter(sub.resource, schema, sub.pointer)
            dialect = sub.resource.dialect
            sub.scope = self._entered(sub.scope, sub.resource)
        group_of = dialect.groups
        groups = 0
        for key in schema:
            groups |= group_of.get(key, 0)
        if not groups & ~IDENTITY:
            return
        if groups & TYPE:
            sub.types = self._types(sub, schema["type"])
            if not groups & ~(IDENTITY | TYPE):
                sub.is_plain = True
                return
        if groups & OBJECT:
            self._read_object(sub, schema)
        if groups & STRING:
            self._read_string(sub, schema)
        if groups & ARRAY:
            self._read_array(sub, schema)
        if groups & NUMBER:
            self._read_number(sub, schema)
        if groups & VALUES:
            self._read_values(sub, schema)
        if groups & IN_PLACE:
            self._read_in_place(sub, schema)

    def wrong(self, sub: Subschema, keyword: str, expected: str, found: Any) -> GrammarError:
        """The error for a value of the wrong form: that of a keyword, or what a JSON Pointer that begins with one leads to."""
        name = keyword.split("/")[0]
        return GrammarError(
            f"keyword {name!r}",
            location=f"{sub.pointer}/{keyword}",
            keyword=name,
            expected=expected,
            found=describe(found),
        )

    def _of(self, kind: type, expected: str, sub: Subschema, keyword: str, value: Any) -> Any:
        """A keyword's value, checked to be of a Python type."""
        if not isinstance(value, kind):
            raise self.wrong(sub, keyword, expected, value)
        return value

    def _types(self, sub: Subschema, value: Any) -> int:
        if isinstance(value, str) and value in TYPE_BITS:
            return TYPE_BITS[value]
        if isinstance(value, list) and value and all(isinstance(name, str) and name in TYPE_BITS for name in value):
            return reduce(or_, (TYPE_BITS[name] for name in value))
        error = self.wrong(sub, "type", "one of " + ", ".join(TYPE_BITS) + ", or a non-empty array of them", value)
        if isinstance(value, str):
            error = error.amended(found=error.found + suggestion(_PYTHON_TYPES.get(value, value), TYPE_BITS))
        raise error

    def _counts(self, sub: Subschema, schema: dict, low: str, high: str) -> tuple[int, int | None]:
        return count_bounds(schema, low, high, sub.pointer, self.limits)

    def _child(self, sub: Subschema, keyword: str, value: Any) -> Subschema:
        if type(value) is not bool and not isinstance(value, dict):
            raise self.wrong(sub, keyword, "a schema (object or boolean)", value)
        if value is True or (not value and value is not False):
            return self.anything
        return self.subschema(value, f"{sub.pointer}/{keyword}", sub.resource, sub.scope)

    def _add(self, fresh: Subschema) -> None:
        """Queue a new subschema for reading. Raises ``LimitExceeded`` if there are too many."""
        self.subschemas.append(fresh)
        self._pending.append(fresh)
        self._pointer_bytes += len(fresh.pointer)
        if self._pointer_bytes > MOST_POINTER_BYTES:
            expected = f"at most {MOST_POINTER_BYTES} characters in all"
            raise LimitExceeded("the JSON Pointers of the subschemas are too long", location=fresh.pointer, expected=expected)
        most = self.limits.max_rules // (_DYNAMIC_COST if self._dynamic else 1)
        if len(self.subschemas) > most:
            location = self.subschemas[most].pointer
            expected = at_most(self.limits, "max_rules")
            if self._dynamic:  # a subschema is read once for each dynamic scope
                expected = f"at most {most}, 1 / {_DYNAMIC_COST} of Limits.max_rules with $dynamicRef"
            raise LimitExceeded("too many subschemas", location=location, expected=expected)

    def _children(self, sub: Subschema, keyword: str, value: Any, empty: bool = False) -> tuple[Subschema, ...]:
        if not isinstance(value, list) or not (value or empty):
            raise self.wrong(sub, keyword, "an array of schemas" if empty else "a non-empty array of schemas", value)
        return tuple(self._child(sub, f"{keyword}/{i}", member) for i, member in enumerate(value))

    def _read_object(self, sub: Subschema, schema: dict) -> None:
        part = sub.object = ObjectPart()
        if "properties" in schema:
            members = self._of(dict, "an object", sub, "properties", schema["properties"]).items()
            part.properties = {name: self._child(sub, f"properties/{escape_token(name)}", value) for name, value in members}
        if "required" in schema:
            required = schema["required"]
            if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
                raise self.wrong(sub, "required", "an array of strings", required)
            part.required = tuple(required)
        if "additionalProperties" in schema:
            part.additional = self._child(sub, "additionalProperties", schema["additionalProperties"])
            if part.additional is self.anything:
                part.additional = None
        known = sub.resource.dialect.groups
        if "patternProperties" in schema:
            patterns = []
            for pattern, member in self._of(dict, "an object", sub, "patternProperties", schema["patternProperties"]).items():
                keyword = "patternProperties/" + escape_token(pattern)
                self._check_pattern(sub, keyword, pattern)
                patterns.append((pattern, self._child(sub, keyword, member)))
            part.patterns = tuple(patterns)
        if "propertyNames" in schema and "propertyNames" in known:
            names = self._child(sub, "propertyNames", schema["propertyNames"])
            part.names = None if names is self.anything else names
        if "minProperties" in schema or "maxProperties" in schema:
            part.low, part.high = self._counts(sub, schema, "minProperties", "maxProperties")

    def _read_string(self, sub: Subschema, schema: dict) -> None:
        low, high = 0, None
        if "minLength" in schema or "maxLength" in schema:
            low, high = self._counts(sub, schema, "minLength", "maxLength")
        patterns: tuple[str, ...] = ()
        formats: tuple[strings.Format, ...] = ()
        portable = self.options.formats != "rfc"
        if "pattern" in schema:
            pattern = schema["pattern"]
            self._check_pattern(sub, "pattern", pattern)
            patterns = (pattern,)
        if "format" in schema:
            name = self._of(str, "a string", sub, "format", schema["format"])
            if name in SINCE:
                formats += (strings.Format("format", name, portable),)
            elif self.options.unknown_formats == "error":
                sub.refused += (
                    Refused("format", STRING_BIT, f"for {shown(name)}: no such format is known{suggestion(name, SINCE)}"),
                )
        if "contentEncoding" in schema and "contentEncoding" in sub.resource.dialect.groups:
            name = self._of(str, "a string", sub, "contentEncoding", schema["contentEncoding"])
            if content_encoding_expr(name, UTF8) is not None:
                formats += (strings.Format("contentEncoding", name, portable),)
        if self.options.formats != "annotation":
            sub.formats = formats
        if low or high is not None or patterns:
            sub.text = (low, high, patterns)

    def _check_pattern(self, sub: Subschema, keyword: str, pattern: Any) -> None:
        self._of(str, "a regular expression (string)", sub, keyword, pattern)
        try:
            strings.pattern_text(pattern)
        except GrammarError as error:
            message = f"{error.message} ({error.location})" if error.location else error.message
            raise error.amended(message=message, location=f"{sub.pointer}/{keyword}", keyword=keyword.split("/")[0]) from None

    def _read_array(self, sub: Subschema, schema: dict) -> None:
        part = sub.array = ArrayPart()
        dialect = sub.resource.dialect
        known = dialect.groups
        if "prefixItems" in schema and "prefixItems" in known:
            part.prefix = self._children(sub, "prefixItems", schema["prefixItems"])
        items = schema.get("items", True)
        if isinstance(items, list) and dialect.array_items and not part.prefix:
            part.prefix = self._children(sub, "items", items, empty=True)
            if "additionalItems" in schema:
                part.rest = self._child(sub, "additionalItems", schema["additionalItems"])
        else:
            part.rest = self._child(sub, "items", items)
        if part.rest is self.anything:
            part.rest = None
        if "minItems" in schema or "maxItems" in schema:
            part.low, part.high = self._counts(sub, schema, "minItems", "maxItems")
        if "contains" in schema and "contains" in known:
            least, most = 1, None
            if dialect.contains_counts:
                low, most = self._counts(sub, schema, "minContains", "maxContains")
                least = low if "minContains" in schema else 1
            wanted = self._child(sub, "contains", schema["contains"])
            if "$dynamicRef" in known:  # since 2020-12, `contains` evaluates the items that match it
                part.matching = (wanted,)
            if least or most is not None:
                part.contains = ((wanted, least, most),)
        if "uniqueItems" in schema:
            part.unique = self._of(bool, "a boolean", sub, "uniqueItems", schema["uniqueItems"])

    def _read_number(self, sub: Subschema, schema: dict) -> None:
        sub.low = self._bound(sub, schema, "minimum", "exclusiveMinimum", 1)
        sub.high = self._bound(sub, schema, "maximum", "exclusiveMaximum", -1)
        if "multipleOf" in schema:
            self._read_multiple(sub, schema["multipleOf"])

    def _read_multiple(self, sub: Subschema, unit: Any) -> None:
        if isinstance(unit, bool) or not isinstance(unit, (int, float)) or not 0 < unit < math.inf:
            raise self.wrong(sub, "multipleOf", "a number above 0", unit)
        if unit == 1 and sub.resource.dialect.integral_floats:  # in Draft 4, 1.0 is a multiple of 1 but not an integer
            sub.after += (sub.same_place(types=ALL_TYPES & ~FRACTION_BIT),)
        elif is_supported(unit, bool(sub.types & FRACTION_BIT)):
            sub.multiples = (unit,)
        else:
            why = f"for {shown(unit)}: its automaton over the digits is too large"
            sub.refused += (Refused("multipleOf", NUMBER_BITS, why),)

    def _bound(self, sub: Subschema, schema: dict, closed: str, opened: str, sign: int) -> Bound | None:
        bound: Bound | None = None
        dialect = sub.resource.dialect
        if closed in schema:
            value = schema[closed]
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise self.wrong(sub, closed, "a number", value)
            bound = (value, False)
        if opened in schema and opened in dialect.groups:
            value = schema[opened]
            if isinstance(value, bool):
                if not dialect.boolean_bounds:
                    raise self.wrong(sub, opened, "a number", value)
                return (bound[0], True) if value and bound else bound  # Draft 4: a modifier of `minimum`
            if not isinstance(value, (int, float)) or not dialect.number_bounds:
                raise self.wrong(sub, opened, "a number" if dialect.number_bounds else "a boolean", value)
            if bound is None or (value >= bound[0] if sign > 0 else value <= bound[0]):
                bound = (value, True)
        return bound

    def _read_values(self, sub: Subschema, schema: dict) -> None:
        if "enum" in schema:
            sub.values = self._listed(sub, "enum", self._of(list, "an array", sub, "enum", schema["enum"]))
        if "const" in schema and "const" in sub.resource.dialect.groups:
            fixed = self._listed(sub, "const", [schema["const"]])
            if sub.values is None:
                sub.values = fixed
            else:  # both keywords: `enum` here, `const` as a conjunct
                sub.after += (sub.same_place(values=fixed),)

    def _listed(self, sub: Subschema, keyword: str, values: list[Any]) -> list[Any]:
        """Listed values, checked not to be too large."""
        if is_long(values):
            where, expected = f"{sub.pointer}/{keyword}", f"at most {MOST_LISTED} parts"
            raise LimitExceeded("listed values are too large", location=where, keyword=keyword, expected=expected)
        return values

    def _read_in_place(self, sub: Subschema, schema: dict) -> None:
        own_seen = False
        before: list[Subschema] = []
        after: list[Subschema] = list(sub.after)
        for keyword, value in schema.items():
            if keyword == "properties":
                own_seen = True
            elif keyword == "allOf":
                (after if own_seen else before).extend(self._children(sub, keyword, value))
            elif keyword == "$ref":
                (after if own_seen else before).append(self._reference(sub, value))
            elif keyword in ("$dynamicRef", "$recursiveRef") and keyword in sub.resource.dialect.groups:
                (after if own_seen else before).append(self._dynamic_reference(sub, keyword, value))
            elif keyword in _COMBINATORS and keyword in sub.resource.dialect.groups:
                _COMBINATORS[keyword](self, sub, keyword, value)
        sub.before = tuple(s for s in before if s is not self.anything)
        sub.after = tuple(s for s in after if s is not self.anything)

    def _read_any_of(self, sub: Subschema, keyword: str, value: Any) -> None:
        branches = self._children(sub, keyword, value)
        if self.anything not in branches:
            sub.choices += (branches,)
        elif any(branch is not self.anything for branch in branches):
            sub.logic += (Logic("any", tuple(branch for branch in branches if branch is not self.anything)),)

    def _read_one_of(self, sub: Subschema, keyword: str, value: Any) -> None:
        branches = self._children(sub, keyword, value)
        if len(branches) > 1:
            sub.logic += (Logic("oneOf", branches),)
        elif branches[0] is not self.anything:
            sub.choices += (branches,)

    def _read_not(self, sub: Subschema, keyword: str, value: Any) -> None:
        sub.logic += (Logic("not", (self._child(sub, keyword, value),)),)

    def _read_if(self, sub: Subschema, keyword: str, value: Any) -> None:
        condition = self._child(sub, keyword, value)
        schema = sub.schema
        branches = [self._child(sub, k, schema[k]) if k in schema else self.anything for k in ("then", "else")]
        if any(part is not self.anything for part in (condition, *branches)):
            sub.logic += (Logic("if", (condition, *branches)),)

    def _read_unevaluated(self, sub: Subschema, keyword: str, value: Any) -> None:
        self.has_unevaluated = True
        below = self._child(sub, keyword, value)
        properties, items = sub.unevaluated
        sub.unevaluated = (below, items) if keyword == "unevaluatedProperties" else (properties, below)

    def _read_dependent(self, sub: Subschema, keyword: str, value: Any) -> None:
        """``dependentRequired``, ``dependentSchemas``, ``dependencies`` as choices: the name is absent, or the demand holds."""
        names_allowed, schemas_allowed = keyword != "dependentSchemas", keyword != "dependentRequired"
        required: tuple[str, ...]
        after: tuple[Subschema, ...]
        for name, condition in self._of(dict, "an object", sub, keyword, value).items():
            where = f"{keyword}/{escape_token(name)}"
            required, after = (name,), ()
            if isinstance(condition, list) and names_allowed and all(isinstance(v, str) for v in condition):
                required = tuple(dict.fromkeys((name, *condition)))
            elif isinstance(condition, (dict, bool)) and schemas_allowed:
                after = (self._child(sub, where, condition),)
                if after == (self.anything,):
                    continue
            else:
                allowed = ("an array of strings",) * names_allowed + ("a schema (object or boolean)",) * schemas_allowed
                raise self.wrong(sub, where, " or ".join(allowed), condition)
            pointer = f"{sub.pointer}/{where}"
            absent = Subschema({}, pointer, sub.resource, object=ObjectPart(properties={name: self.nothing}))
            has_name = ObjectPart(required=required)
            present = Subschema({}, pointer, sub.resource, types=OBJECT_BIT, object=has_name, after=after)
            sub.choices += ((absent, present),)

    def _reference(self, sub: Subschema, reference: Any) -> Subschema:
        self._of(str, "a URI reference (string)", sub, "$ref", reference)
        self.has_references = True
        return self._target(sub, self.documents.resolve(reference, sub.resource, f"{sub.pointer}/$ref"))

    def _target(self, sub: Subschema, target: Target) -> Subschema:
        return self.subschema(target.schema, target.pointer, target.resource, self._entered(sub.scope, target.resource))

    def _dynamic_reference(self, sub: Subschema, keyword: str, reference: Any) -> Subschema:
        """Resolve ``$dynamicRef`` (Core, section 8.2.3.2): to the outermost resource in scope that has the dynamic anchor.

        ``$recursiveRef`` of 2019-09 is the same with an unnamed anchor.
        """
        self._of(str, "a URI reference (string)", sub, keyword, reference)
        if not self._dynamic:
            raise _DynamicError
        self.has_references = True
        target = self.documents.resolve(reference, sub.resource, f"{sub.pointer}/{keyword}")
        anchor = "" if keyword == "$recursiveRef" else reference.partition("#")[2]
        if self.documents.is_dynamic(target, anchor):
            for name, number in sub.scope:
                if name == anchor:
                    target = self.documents.dynamic(number, name)
                    break
        return self._target(sub, target)

    def _entered(self, scope: Scope, resource: Resource) -> Scope:
        """The dynamic scope inside ``resource``: its dynamic anchors are added unless an outer resource has the same name."""
        if not self._dynamic:
            return scope
        known = {name for name, _ in scope}
        return scope + tuple((name, resource.number) for name in self.documents.dynamic_names(resource) if name not in known)


def _list_texts(sub: Subschema) -> None:
    """Replace an ``anyOf`` or ``oneOf`` whose branches only list texts by one list of texts."""
    lists = [(branches, _texts_listed(branches, len(branches))) for branches in sub.choices]
    sub.choices = tuple(branches for branches, texts in lists if texts is None)
    lists += [(item.members, _texts_listed(item.members, 1)) for item in sub.logic if item.kind == "oneOf"]
    listed = {branches: sub.same_place(values=texts) for branches, texts in lists if texts is not None}
    sub.logic = tuple(item for item in sub.logic if item.kind != "oneOf" or item.members not in listed)
    sub.after += tuple(listed.values())


def _texts_listed(branches: Sequence[Subschema], most: int) -> list[str] | None:
    """The texts that 1 to ``most`` of the branches list; None if a branch lists other values, or asserts more."""
    found: Counter[str] = Counter()
    for branch in branches:
        values = branch.values
        if (
            values is None
            or not branch.is_alone()
            or not branch.types & STRING_BIT
            or branch.excluded
            or branch.limited_unlisted()
        ):
            return None
        if any(type(value) is not str for value in values):
            return None
        found.update(dict.fromkeys(values, 1))
    return [text for text, n in found.items() if n <= most]


_DYNAMIC_COST = 8  # with a dynamic scope, a subschema counts this many times: it is read once for each scope
_PYTHON_TYPES = {"float": "number", "str": "string", "int": "integer", "dict": "object", "list": "array", "None": "null"}
_COMBINATORS: dict[str, Callable[[Reader, Subschema, str, Any], None]] = {
    "anyOf": Reader._read_any_of,
    "oneOf": Reader._read_one_of,
    "not": Reader._read_not,
    "if": Reader._read_if,
    "dependentRequired": Reader._read_dependent,
    "dependentSchemas": Reader._read_dependent,
    "dependencies": Reader._read_dependent,
    "unevaluatedProperties": Reader._read_unevaluated,
    "unevaluatedItems": Reader._read_unevaluated,
}


def check_loops(subschemas: Iterable[Subschema]) -> None:
    """Raise if a subschema applies itself to the same instance location, through ``$ref``, ``allOf`` or ``anyOf`` (Core,
    9.4.1).
    """
    state: dict[Subschema, int] = {}
    for root in subschemas:
        if root in state or not (root.before or root.after or root.choices or root.logic):
            continue
        stack: list[tuple[Subschema, bool]] = [(root, False)]
        while stack:
            sub, leave = stack.pop()
            if leave:
                state[sub] = 2
                continue
            if sub in state:
                continue
            below: tuple[Subschema, ...] = sub.before + sub.after
            if sub.choices or sub.logic:
                below = (*below, *chain(*sub.choices), *chain(*(item.members for item in sub.logic)))
            if not below:
                state[sub] = 2
                continue
            state[sub] = 1
            stack.append((sub, True))
            for other in below:
                mark = state.get(other)
                if mark == 1:
                    raise ref_loop(sub.pointer, found=f"a way back to {other.pointer or 'the root'}")
                if mark is None:
                    stack.append((other, False))
