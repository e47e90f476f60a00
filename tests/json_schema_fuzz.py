"""Random schemas out of all keywords, randomly changed schemas of the official suite, and how both are judged.

A schema either compiles or is refused by an error of cdplugin's. If it compiles, it is compared with ``jsonschema``: on
instances, and on the texts that random walks through the masks end with. Formats are left out, as they have tests of their
own.
"""

from __future__ import annotations

import copy
import gzip
import json
import math
import random
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import numpy as np
from json_schema_tools import SCALARS, TYPES, orders, suite_groups

import cdplugin as cd
from cdplugin.errors import GrammarError

NAMES = ["a", "b", "c", "aa", "ab", "bb", "x"]
_PLAIN_PATTERNS = ["^a", "b$", "^[ab]*$", "a.b", "^.{2}$", "x|y", "^[a-z]+$", "^.$", "a", "^aa?$", "c", ""]
PATTERNS = [*_PLAIN_PATTERNS * 2, '"', "\\t", "[à-ÿ]", "^\\\\", "\\x7f"]
"""Some that only texts with escapes, or beyond ASCII, have; fewer than others, so that instances have to do with each other."""
_UNUSUAL = ["é", 'q"', "\t", "\x7f", "\\", "😀"]
_FINE = [123456789.5, 123456789.25, 0.00012345678, 10**35, 10**35 + 1]
DRAFTS = {
    "draft2020-12": jsonschema.Draft202012Validator,
    "draft2019-09": jsonschema.Draft201909Validator,
    "draft7": jsonschema.Draft7Validator,
    "draft6": jsonschema.Draft6Validator,
    "draft4": jsonschema.Draft4Validator,
}
MOST_ORDERS = 24
BYTES = cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"<end>"], eos_token_ids=256)
COMPILER = cd.Compiler(BYTES)
_END = 256


class Case(NamedTuple):
    """A schema, the draft that it is written in, and instances that concern it."""

    schema: Any
    draft: str
    instances: list[Any]


# --- schemas out of nothing ---------------------------------------------------------------------------------------------------


def value(rng: random.Random, depth: int = 2) -> Any:
    """A small value with few names, so that it concerns many schemas."""
    kind = rng.random()
    if not depth or kind < 0.45:
        return rng.choice(rng.choices([SCALARS, _UNUSUAL, _FINE], [8, 1, 1])[0])
    if kind < 0.7:
        return [value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {name: value(rng, depth - 1) for name in rng.sample(NAMES, rng.randrange(5))}


def keywords(rng: random.Random, below: Callable[[], Any], names: list[str]) -> dict[str, Callable[[], Any]]:
    """A random value for each keyword; ``below`` makes a subschema."""

    def name() -> str:
        return rng.choice(names)

    def count() -> int:
        return rng.choice([0, 1, 1, 2, 2, 3, 4])

    def number() -> float:
        return rng.choice([0, 1, -1, 2.5, 0.1, 3, 4, 10, 123456789, 10**35])

    def several(most: int) -> list[Any]:
        return [below() for _ in range(rng.randint(1, most))]

    def members(most: int, keys: list[str]) -> dict[str, Any]:
        return {key: below() for key in rng.sample(keys, rng.randint(1, min(most, len(keys))))}

    counts = ("minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength", "minContains", "maxContains")
    schemas = ("additionalProperties", "items", "contains", "not", "if", "propertyNames")
    return {
        "type": lambda: rng.choice(TYPES) if rng.random() < 0.5 else rng.sample(TYPES, rng.randint(1, 4)),
        "enum": lambda: [value(rng) for _ in range(rng.randint(1, 4))],
        "const": lambda: value(rng),
        "properties": lambda: members(3, names),
        "patternProperties": lambda: members(2, PATTERNS),
        "required": lambda: sorted({name() for _ in range(rng.randint(1, 2))}),
        "prefixItems": lambda: several(3),
        "uniqueItems": lambda: True,
        "unevaluatedProperties": lambda: False if rng.random() < 0.6 else below(),
        "unevaluatedItems": lambda: False if rng.random() < 0.6 else below(),
        "anyOf": lambda: several(3),
        "allOf": lambda: several(3),
        "oneOf": lambda: several(3),
        "dependentRequired": lambda: {name(): [name()] for _ in range(2)},
        "dependentSchemas": lambda: members(2, names),
        "pattern": lambda: rng.choice(PATTERNS),
        "multipleOf": lambda: rng.choice([2, 3, 0.5, 0.1, 1.5, 1, 5]),
        "$ref": lambda: rng.choice(["#/$defs/x", "#/$defs/y", "#"]),
        **dict.fromkeys(counts, count),
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), number),
        **dict.fromkeys(schemas, below),
    }


_PAIRS = {low: low.replace("min", "max") for low in ("minItems", "minProperties", "minContains", "minLength", "minimum")}
_OFTEN = ["properties", "type", "anyOf", "oneOf", "not", "allOf", "patternProperties", "additionalProperties", "contains"]


def crowded_schema(rng: random.Random, depth: int) -> Any:
    """A schema in which keywords meet that influence each other."""
    if not depth:
        atoms = [True, {}, False, {"minLength": 2}, {"minimum": 1}, {"multipleOf": 2}, {"required": [rng.choice(NAMES)]}]
        return rng.choice(
            [*atoms, {"type": rng.choice(TYPES)}, {"const": rng.choice(SCALARS)}, {"enum": rng.sample(SCALARS, 3)}]
        )
    makers = keywords(rng, lambda: crowded_schema(rng, depth - 1), NAMES)
    schema: dict[str, Any] = {}
    for keyword in rng.sample([*makers, *_OFTEN], rng.choice([1, 2, 2, 3, 3, 4, 5])):
        wanted = [keyword]
        if keyword in _PAIRS and rng.random() < 0.5:
            wanted.append(_PAIRS[keyword])
        if keyword in ("minContains", "maxContains"):
            wanted.append("contains")
        if keyword == "if":
            wanted += ["then", "else"]
        for each in wanted:
            schema[each] = makers["not" if each in ("then", "else") else each]()
    return schema


def crowded(rng: random.Random) -> Case:
    """A random schema."""
    schema = crowded_schema(rng, rng.choice([1, 2, 2, 3]))
    schema = schema if isinstance(schema, dict) else {"not": schema}
    schema["$defs"] = {name: crowded_schema(rng, rng.choice([0, 1, 2])) for name in "xy"}
    uri = jsonschema.Draft202012Validator.META_SCHEMA["$id"]
    values = [value(rng, rng.choice([1, 2, 3])) for _ in range(20)]
    return Case(json.loads(json.dumps({"$schema": uri, **schema})), "draft2020-12", values)


# --- schemas that are changed -------------------------------------------------------------------------------------------------

_ONE = "not if then else items additionalProperties contains propertyNames unevaluatedItems unevaluatedProperties".split()
_MAPS = "properties patternProperties $defs definitions dependentSchemas dependencies".split()
_LEFT_OUT = ("refRemote", "vocabulary", "content.json", "format", "optional", "$schema")


def suite_cases() -> Iterator[Case]:
    """The groups of the official suite."""
    for path, group in suite_groups():
        draft = path.split("/")[0]
        if draft in DRAFTS and not any(part in path for part in _LEFT_OUT) and isinstance(group["schema"], dict):
            yield Case(group["schema"], draft, [test["data"] for test in group["tests"]])


def line_cases(path: Path) -> Iterator[Case]:
    """The cases of a file with ``{"schema": …, "tests": [{"data": …}]}`` per line."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
        for line in lines:
            case = json.loads(line)
            if len(line) < 20_000 and isinstance(case["schema"], dict):
                uri = str(case["schema"].get("$schema", ""))
                draft = next((d for d, cls in DRAFTS.items() if _uri(cls) == uri.rstrip("#")), "draft2020-12")
                yield Case(case["schema"], draft, [test["data"] for test in case["tests"]])


def _uri(validator: Any) -> str:
    return (validator.META_SCHEMA.get("$id") or validator.META_SCHEMA["id"]).rstrip("#")


def places(schema: Any) -> list[tuple[Any, Any, Any, str]]:
    """The places of subschemas, the root first: the container, the key in it, the subschema, and its pointer."""
    out: list[tuple[Any, Any, Any, str]] = [(None, None, schema, "#")]
    for _, _, sub, pointer in out:
        if isinstance(sub, dict):
            out += [(sub, k, sub[k], f"{pointer}/{k}") for k in _ONE if isinstance(sub.get(k), (dict, bool))]
            for k in ("allOf", "anyOf", "oneOf", "prefixItems", "items"):
                if isinstance(sub.get(k), list):
                    out += [(sub[k], i, s, f"{pointer}/{k}/{i}") for i, s in enumerate(sub[k])]
            for k in _MAPS:
                if isinstance(sub.get(k), dict):
                    out += [(sub[k], n, s, f"{pointer}/{k}/{n}") for n, s in sub[k].items() if isinstance(s, (dict, bool))]
    return out


def without_formats(schema: Any) -> Any:
    """A copy without ``format`` and ``contentEncoding``."""
    if isinstance(schema, list):
        return [without_formats(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        k: without_formats(v) for k, v in schema.items() if k not in ("format", "contentEncoding") or not isinstance(v, str)
    }


class Mutator:
    """Changes schemas: inserts, wraps, moves and removes keywords and parts of other schemas."""

    def __init__(self, cases: list[Case]) -> None:
        self.cases = cases
        parts = [sub for case in cases for _, _, sub, _ in places(case.schema) if isinstance(sub, dict) and sub]
        texts = {json.dumps(part) for part in parts}
        self.parts = sorted(t for t in texts if len(t) < 300 and not re.search(r'Ref"|\$ref|"\$?id"|\$schema|nchor"', t))

    def case(self, rng: random.Random) -> Case:
        """One of the cases, changed."""
        found = rng.choice(self.cases)
        root = {"$schema": _uri(DRAFTS[found.draft]), **copy.deepcopy(found.schema)}
        for _ in range(rng.choice([1, 1, 2, 2, 3, 4])):
            if isinstance(root, dict):
                root = self._changed(rng, root)
        root = without_formats(json.loads(json.dumps(root)))
        return Case(root, found.draft, found.instances[:8])

    def _part(self, rng: random.Random) -> Any:
        return crowded_schema(rng, 1) if rng.random() < 0.3 else json.loads(rng.choice(self.parts))

    def _changed(self, rng: random.Random, root: dict) -> Any:
        found = places(root)
        holder, key, sub, _ = rng.choice(found)
        sub = sub if isinstance(sub, dict) else {}
        kept = {k: sub[k] for k in ("$schema", "$defs", "definitions", "$id", "id") if holder is None and k in sub}
        body = {k: v for k, v in sub.items() if k not in kept}
        part = self._part(rng)
        names = sorted({n for _, _, s, _ in found if isinstance(s, dict) for n in _keys(s.get("properties"))}) or NAMES
        makers = keywords(rng, lambda: self._part(rng), names)
        makers["$ref"] = lambda: rng.choice(found)[3]
        keyword = rng.choice(list(makers))
        change = rng.choice(["keyword"] * 3 + ["wrap"] * 3 + ["merge", "drop", "replace", "move"])
        if change == "keyword":
            body[keyword] = makers[keyword]()
        elif change == "wrap":
            wraps: list[dict] = [{k: [body, part]} for k in ("allOf", "anyOf", "oneOf")]
            wraps += [{"not": {k: [body, part]}} for k in ("allOf", "anyOf", "oneOf")]
            wraps += [{"if": part, "then": body}, {"if": body, "then": part, "else": self._part(rng)}, {"not": body}]
            wraps += [{**body, "not": part}, {**body, "oneOf": [part, self._part(rng)]}, {"items": body, "contains": part}]
            wraps += [{"properties": {names[0]: body}, "additionalProperties": part}, {"anyOf": [body, part], keyword: part}]
            body = rng.choice(wraps)
        elif change == "merge":
            body = {**body, **part}
        elif change == "drop" and body:
            del body[rng.choice(list(body))]
        elif change == "replace" and holder is not None:
            body = part
        elif change == "move":
            other = rng.choice(found)[2]
            if isinstance(other, dict) and other:
                moved = rng.choice(list(other))
                body = body if moved in ("$schema", "$id", "id") else {**body, moved: copy.deepcopy(other[moved])}
        if holder is None:
            return {**kept, **body}
        holder[key] = body
        return root


def _keys(members: Any) -> list[str]:
    return list(members) if isinstance(members, dict) else []


def changed_instances(rng: random.Random, instances: list[Any], count: int) -> list[Any]:
    """The instances, and some with parts replaced, removed or added."""
    pool = [*instances, value(rng)]
    parts: list[Any] = list(pool)
    for part in parts[:200]:
        parts += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    for _ in range(count):
        found = copy.deepcopy(rng.choice(pool))
        other = copy.deepcopy(rng.choice(parts)) if rng.random() < 0.7 else value(rng, 1)
        if isinstance(found, dict) and rng.random() < 0.9:
            if found and rng.random() < 0.4:
                del found[rng.choice(list(found))]
            else:
                found[rng.choice([*found, *NAMES])] = other
        elif isinstance(found, list) and rng.random() < 0.9:
            if found and rng.random() < 0.4:
                del found[rng.randrange(len(found))]
            else:
                found.insert(rng.randint(0, len(found)), other)
        else:
            found = other
        pool.append(found)
    return pool


# --- judging ------------------------------------------------------------------------------------------------------------------


def _exactly_multiple(validator: Any, unit: Any, instance: Any, schema: Any) -> Iterator[jsonschema.ValidationError]:
    """``multipleOf`` with exact numbers, as the specification means it; ``jsonschema`` divides doubles."""
    if validator.is_type(instance, "number") and Fraction(Decimal(repr(instance))) % Fraction(Decimal(repr(unit))):
        yield jsonschema.ValidationError(f"{instance!r} is not a multiple of {unit!r}")


def _additional(validator: Any, additional: Any, instance: Any, schema: Any) -> Iterator[jsonschema.ValidationError]:
    """``additionalProperties`` that tells no patterns from an empty pattern, which ``jsonschema`` does not."""
    declared, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name in instance if validator.is_type(instance, "object") else ():
        if name not in declared and not any(re.search(pattern, name) for pattern in patterns):
            yield from validator.descend(instance[name], additional, path=name)


_EXACT = {
    d: jsonschema.validators.extend(
        cls,
        {
            "multipleOf": _exactly_multiple,
            "additionalProperties": _additional,
            # enforced in later drafts, too, as the official suite's optional tests ask for
            "dependencies": cls.VALIDATORS.get("dependencies", jsonschema.Draft7Validator.VALIDATORS["dependencies"]),
        },
    )
    for d, cls in DRAFTS.items()
}


def _is_ambiguous(schema: Any) -> bool:
    """Whether two subschemas have the same name, so that a reference to it may mean either."""
    met: set[tuple[str, str]] = set()
    for _, _, sub, _ in places(schema):
        for keyword in ("$id", "id", "$anchor", "$dynamicAnchor") if isinstance(sub, dict) else ():
            name = sub.get(keyword)
            if isinstance(name, str):
                key = ("$anchor" if "nchor" in keyword else "$id", name)
                if key in met:
                    return True
                met.add(key)
    return False


def _reference(case: Case) -> Callable[[Any], bool | None]:
    """Whether an instance is valid; None if ``jsonschema`` cannot tell. Its patterns are Python's, and in 2019-09 it counts
    as evaluated what ``contains`` matches, and not what ``additionalProperties`` does.
    """
    validator = _EXACT[case.draft](case.schema)
    is_known = case.draft != "draft2019-09" or '"unevaluated' not in json.dumps(case.schema)

    def is_valid(instance: Any) -> bool | None:
        if not is_known:
            return None
        try:
            return next(validator.iter_errors(instance), None) is None
        except Exception:  # of many types, for schemas that are wrong and for patterns
            return None

    return is_valid


def _accepts(grammar: cd.Grammar, instance: Any, ensure_ascii: bool = False) -> bool:
    matcher = grammar.matcher()
    text = json.dumps(instance, ensure_ascii=ensure_ascii).encode("utf-8", "surrogatepass")
    return matcher.accept_tokens(text) == len(text) and matcher.is_accepting()


def walk(grammar: cd.Grammar, rng: random.Random, steer: int = 40, longest: int = 150) -> bytes:
    """A text that the masks allow. After ``steer`` bytes it prefers what closes, after ``longest`` it takes a short ending."""
    matcher, text, bits = grammar.matcher(), b"", cd.allocate_token_bitmask(1, BYTES.size)
    for step in range(longest):
        matcher.fill_next_token_bitmask(bits)
        allowed = np.unpackbits(bits.numpy().view(np.uint8).ravel(), bitorder="little")[: _END + 1].astype(bool)
        assert allowed.any(), f"dead end after {text!r}"
        assert bool(allowed[_END]) == matcher.is_accepting(), text
        closing = [b for b in b'"}]' if allowed[b]]
        usual = [b for b in b'"0123456789abcx{}[],: tfn' if allowed[b]]
        if allowed[_END] and (step >= steer or rng.random() < 0.2 or not allowed[:_END].any()):
            return text
        if step >= steer and closing and rng.random() < 0.97:
            token = rng.choice(closing)
        else:
            token = rng.choice(usual) if usual and rng.random() < 0.7 else int(rng.choice(np.flatnonzero(allowed[:_END])))
        assert matcher.accept_token(token), (text, token)
        text += bytes((token,))
    ending = matcher.shortest_completion()
    assert matcher.accept_tokens(ending) == len(ending) and matcher.is_accepting(), text
    return text + bytes(ending)


def _n_orders(instance: Any) -> int:
    """The number of orders in which the members of all its objects can come."""
    out, parts = 1, [instance]
    for part in parts:
        parts += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        out *= math.factorial(len(part)) if isinstance(part, dict) else 1
    return out


def _number(text: str) -> Any:
    """The exact value of a number with a fraction or an exponent. An exponent beyond all bounds of schemas counts as 2,000:
    written out, 1e99999999 would take minutes.
    """
    digits, _, exponent = text.lower().partition("e")
    exact = Decimal(f"{digits}e{max(-2000, min(2000, int(exponent or 0)))}")
    return int(exact) if exact == exact.to_integral_value() else float(text)


def judge(rng: random.Random, case: Case, walks: int = 2) -> str:
    """Raise ``AssertionError`` if a schema is not enforced as it says. Returns what became of it."""
    order = rng.choice(["any", "any", "schema"])
    if _is_ambiguous(case.schema):
        return "ambiguous"
    try:
        grammar = COMPILER.compile(cd.JsonSchema(case.schema, property_order=order, unique_names=rng.random() < 0.1))
    except GrammarError as error:
        if "unsatisfiable" not in str(error):
            return type(error).__name__
        grammar = None
    is_valid = _reference(case)
    escaped, has_multiples = rng.random() < 0.3, "multipleOf" in json.dumps(case.schema)
    for instance in changed_instances(rng, case.instances, 16):
        expected = is_valid(instance)
        written = json.dumps(instance)
        # beside bounds and multiples: unspelt
        unspelt = r"[0-9]e[+-]|[0-9]{16,}" if has_multiples else r"[0-9]e[+-]|[0-9]{16,}\."
        if expected is None or len(written) > 2_000 or re.search(unspelt, written):
            continue
        accepted = grammar is not None and _accepts(grammar, instance, escaped)
        if expected and not accepted and grammar is not None:  # some valid instances are accepted in some orders only
            accepted = _n_orders(instance) > MOST_ORDERS or any(
                _accepts(grammar, variant, escaped) for variant in orders(instance)
            )
        assert accepted == expected, (order, instance)
    for _ in range(walks if grammar is not None else 0):
        text = walk(grammar, rng)
        repeated: list[bool] = []

        def members(pairs: list[tuple[str, Any]], repeated: list[bool] = repeated) -> dict[str, Any]:
            repeated.append(len(dict(pairs)) < len(pairs))
            return dict(pairs)

        found = json.loads(text, object_pairs_hook=members, parse_float=float if case.draft == "draft4" else _number)
        assert any(repeated) or is_valid(found) is not False, (order, text)
    return "unsatisfiable" if grammar is None else "compiled"
