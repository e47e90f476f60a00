"""The three tasks of the Formatron paper (Sun et al., ICML 2025, appendix D) as texts and grammars.

- *JSON Schema*: objects as in JSON-mode-eval and in Formatron's own benchmarks. All are closed and all properties required,
  since Formatron knows no others. Texts are drawn from the schema, with a phrase for each string. (The paper lets language
  models vary the request, so the texts of one schema differ in their values, as they do here.)
- *JSON grammar*: the same texts, under the grammar of any JSON object.
- *GeoQuery*: queries in FunQL under ``cd.grammars.FUNQL`` without its ``%ignore``, so that the language is the same in all
  notations: no spaces, except one that may follow a comma.

Two things are left out because Formatron reads them differently: signs such as ``+`` in an ``enum``, which it takes for
those of a regular expression, and optional properties.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import cdplugin as cd

TASKS = ("json_schema", "json_grammar", "geoquery")
RUNS, UNSEEN = 10, 5
"""Texts that a session begins with, as in the paper's table 2, and texts that come when these are known."""


@dataclass(frozen=True)
class Session:
    """A grammar that is compiled afresh, and the texts that are followed with it one after the other.

    ``spec``: a JSON Schema, None for any JSON object, or a grammar in Lark's notation. ``texts``: :data:`RUNS` of them.
    ``unseen``: other texts of the same kind. ``wrong``: texts that the grammar refuses.
    """

    task: str
    name: str
    spec: Any
    texts: tuple[str, ...]
    unseen: tuple[str, ...]
    wrong: tuple[str, ...]

    def to_json(self) -> str:
        return json.dumps(asdict(self))


# --- JSON -----------------------------------------------------------------------------------------------------------------

_STRING, _INTEGER, _NUMBER, _BOOLEAN = ({"type": name} for name in ("string", "integer", "number", "boolean"))


def _object(**properties: Any) -> dict[str, Any]:
    """A closed object with all members required."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _matching(pattern: str, *examples: str) -> dict[str, Any]:
    return {"type": "string", "pattern": f"^{pattern}$", "examples": list(examples)}


_NODE = _object(value=_INTEGER, next={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]})
SCHEMAS: dict[str, dict[str, Any]] = {
    "access point": _object(ssid=_STRING, securityProtocol=_STRING, bandwidth=_STRING),  # the paper's example
    "address": _object(
        street=_STRING, city=_STRING, state=_STRING, postal_code=_matching("[0-9]{5}", "97201", "01108"), country=_STRING
    ),
    "order": _object(
        id=_INTEGER,
        customer=_object(id=_INTEGER, name=_STRING, phone=_STRING, loyalty_points=_INTEGER, is_active=_BOOLEAN),
        items=_list(_object(product_id=_INTEGER, variant_id=_INTEGER, quantity=_INTEGER, price=_NUMBER)),
        total_amount=_NUMBER,
        status={"enum": ["pending", "paid", "shipped", "delivered", "cancelled"]},
    ),
    "linked list": {**_object(name=_STRING, head={"$ref": "#/$defs/node"}), "$defs": {"node": _NODE}},
    "patient": _object(
        patientId=_matching("[A-Z]{2}-[0-9]{6}", "PT-204817", "NH-000391"),
        fullName=_STRING,
        age=_INTEGER,
        allergies=_list(_STRING),
        bloodType={"enum": ["A", "B", "AB", "0"]},
        emergencyContact=_object(
            name=_STRING, phone=_matching(r"\+[0-9]{2} [0-9]{3} [0-9]{4}", "+44 207 1234", "+49 305 5510")
        ),
    ),
    "recipe": _object(
        title=_STRING,
        servings=_INTEGER,
        ingredients=_list(_object(name=_STRING, amount=_NUMBER, unit={"enum": ["g", "ml", "cup", "tbsp", "tsp", "piece"]})),
        steps=_list(_STRING),
        vegetarian=_BOOLEAN,
    ),
    "event": _object(
        name=_STRING,
        date=_matching("[0-9]{4}-[0-9]{2}-[0-9]{2}", "2024-05-17", "2023-11-02"),
        location=_object(venue=_STRING, city=_STRING, latitude=_NUMBER, longitude=_NUMBER),
        attendees=_list(_STRING),
        capacity=_INTEGER,
    ),
    "function call": _object(
        function={"enum": ["search_flights", "book_hotel", "get_weather", "convert_currency"]},
        arguments=_object(origin=_STRING, destination=_STRING, passengers=_INTEGER, max_price=_NUMBER, direct_only=_BOOLEAN),
    ),
    "review": _object(
        product=_STRING, rating={"enum": [1, 2, 3, 4, 5]}, title=_STRING, text=_STRING, pros=_list(_STRING), cons=_list(_STRING)
    ),
    "server": _object(
        hostname=_STRING,
        environment={"enum": ["development", "staging", "production"]},
        ports=_list(_INTEGER),
        tls=_object(enabled=_BOOLEAN, certificate=_STRING, profile={"enum": ["modern", "intermediate", "old"]}),
        replicas=_INTEGER,
    ),
    "article": _object(
        headline=_STRING, author=_object(name=_STRING, email=_STRING), tags=_list(_STRING), words=_INTEGER, summary=_STRING
    ),
    "sensor": _object(
        device=_matching("[a-f0-9]{8}", "3fa85f64", "00c0ffee"),
        readings=_list(_object(metric={"enum": ["temperature", "humidity", "pressure"]}, value=_NUMBER, valid=_BOOLEAN)),
        battery=_NUMBER,
        firmware=_STRING,
    ),
}
PHRASES = (
    "OfficeNetSecure", "WPA2-Enterprise", "1300 Mbps", "Maria Gonzalez", "42 Wallaby Way", "Portland", "Oregon",
    "United States", "a fine pinch of salt", "Bring to the boil, then simmer for ten minutes.", "+1 (503) 555-0147",
    "penicillin", "Dr. J. Okafor", "The keyboard is quiet, but the \"F\" keys are too small.",
    "https://example.org/docs?id=7&lang=en", "web-03.internal", "/etc/ssl/certs/server.pem", "lightweight",
    "Zürich Hauptbahnhof", "São Paulo", "José Ramírez", "editor@example.com",
    "It took three weeks to arrive\nand nobody answered my mails.", "machine learning", "v2.14.0-rc1", "Royal Albert Hall",
    "olive oil", "LHR", "Charles de Gaulle (CDG)", "Great value for the price; I would buy it again", "none",
    "Q3 report, second draft",
)  # fmt: skip


def sample(schema: dict[str, Any], rng: random.Random, root: dict[str, Any] | None = None, depth: int = 0) -> Any:
    """A value of one of :data:`SCHEMAS`."""
    root = schema if root is None else root
    if "$ref" in schema:
        return sample(root["$defs"][schema["$ref"].rpartition("/")[2]], rng, root, depth + 1)
    if "anyOf" in schema:
        return sample(schema["anyOf"][-1 if depth > 3 else rng.randrange(2)], rng, root, depth)
    if "enum" in schema or "examples" in schema:
        return rng.choice(schema.get("enum") or schema["examples"])
    kind = schema["type"]
    if kind == "object":
        return {name: sample(value, rng, root, depth) for name, value in schema["properties"].items()}
    if kind == "array":
        return [sample(schema["items"], rng, root, depth) for _ in range(rng.randint(1, 2))]
    scalars = {"string": rng.choice(PHRASES), "integer": rng.randint(0, 99_999), "number": round(rng.uniform(-50, 500), 2)}
    return {**scalars, "boolean": rng.random() < 0.5, "null": None}[kind]


def written(value: Any, pretty: bool) -> str:
    """JSON as models write it: on one line, or indented by two as in the paper's example."""
    return json.dumps(value, ensure_ascii=False, indent=2 if pretty else None)


def without_examples(schema: Any) -> Any:
    """A schema without the keywords that only :func:`sample` reads."""
    if isinstance(schema, dict):
        return {name: without_examples(value) for name, value in schema.items() if name != "examples"}
    return [without_examples(value) for value in schema] if isinstance(schema, list) else schema


def _json_sessions(count: int) -> Iterator[Session]:
    for name, schema in list(SCHEMAS.items())[:count]:
        rng = random.Random(name)
        values = [sample(schema, rng) for _ in range(RUNS + UNSEEN)]
        written_out = tuple(written(value, i % 2 == 1) for i, value in enumerate(values))
        texts, unseen = written_out[:RUNS], written_out[RUNS:]
        first = next(iter(values[0]))
        others: tuple[Any, ...] = (values[0] | {"undeclared": 1}, {k: v for k, v in values[0].items() if k != first}, [], 1)
        broken = (texts[0][:-1], texts[0].replace('"', "'"), texts[0].replace(":", "=", 1), texts[0] + "}")
        yield Session(
            "json_schema", name, without_examples(schema), texts, unseen, (*broken, *(written(o, False) for o in others))
        )
        yield Session("json_grammar", name, None, texts, unseen, broken)


# --- GeoQuery -------------------------------------------------------------------------------------------------------------

QUERIES = """\
answer(river(loc_2(stateid('colorado'))))
answer(smallest(state(all)))
answer(highest(place(loc_2(stateid('hawaii')))))
answer(loc_1(major(river(all))))
answer(intersection(state(next_to_2(stateid('texas'))), loc_1(major(river(all)))))
answer(count(exclude(river(all), traverse_2(state(loc_1(capital(cityid('albany', _))))))))
answer(population_1(cityid('washington', 'dc')))
answer(most(state(loc_1(major(city(all))))))
answer(largest_one(population_1(city(loc_2(stateid('ohio'))))))
answer(elevation_1(highest(mountain(loc_2(countryid('usa'))))))
answer(sum(area_1(state(all))))
answer(len(longest(river(traverse_2(stateid('utah'))))))
answer(high_point_1(state(next_to_2(stateid('mississippi')))))
answer(capital_1(stateid('new york')))
answer(density_1(stateid('new jersey')))
answer(population_1(stateid('south dakota')))
answer(count(river(loc_2(stateid('north carolina')))))
answer(city(loc_2(state(next_to_2(stateid('nevada'))))))
answer(longest(river(loc_2(largest(state(next_to_2(stateid('nebraska'))))))))
answer(state(traverse_1(riverid('mississippi'))))
answer(state(traverse_1(longest(river(all)))))
answer(loc_1(highest(place(all))))
answer(lowest(place(loc_2(stateid('california')))))
answer(low_point_1(stateid('death valley')))
answer(area_1(stateid('alaska')))
answer(count(state(next_to_2(stateid('tennessee')))))
answer(exclude(state(all), next_to_2(state(all))))
answer(largest_one(density_1(state(next_to_2(stateid('pennsylvania'))))))
answer(smallest_one(population_1(state(traverse_1(riverid('ohio'))))))
answer(len(riverid('rio grande')))
answer(population_1(largest_one(area_1(state(all)))))
answer(capital(city(loc_2(state(traverse_1(riverid('colorado')))))))
answer(elevation_1(placeid('mount mckinley')))
answer(state(loc_1(cityid('austin', 'tx'))))
answer(major(city(loc_2(stateid('west virginia')))))
answer(major(lake(loc_2(stateid('michigan')))))
answer(intersection(city(loc_2(stateid('georgia'))), major(city(all))))
answer(fewest(state(traverse_1(river(all)))))
answer(higher_2(highest(place(loc_2(stateid('vermont'))))))
answer(size(largest_one(population_1(city(loc_2(countryid('usa')))))))
""".replace("low_point_1(stateid('death valley'))", "low_point_1(state(loc_1(placeid('death valley'))))").splitlines()
WRONG_QUERIES = (
    "highest(place(loc_2(stateid('kansas'))))",
    "answer(major(city(loc_2(countryid('xx')))))",
    "answer(population_2(stateid('hawaii')))",
    "answer(highest(place(loc_2())))",
    "answer(longest(state(all)))",
    "answer(stateid('bavaria'))",
    "answer(intersection(state(next_to_2(stateid('texas'))), ))",
    "answer(river(loc_2(stateid('colorado')))",
    "answer( smallest(state(all)))",
    "answer(smallest(state(all))))",
)


FUNQL = re.sub(r"^(//|%ignore).*\n?", "", cd.grammars.FUNQL.grammar, flags=re.MULTILINE).replace('","', "COMMA")
FUNQL += "COMMA: /, ?/\n"
"""The grammar that ships, without its comments and spaces."""
WARM_UP = r"""start: call
call: "warm" "(" (NAME | NUMBER) COMMA (call | "_") ")"
NAME: /'[a-z][a-z .-]*'/
NUMBER: /[0-9]+(\.[0-9]+)?/
COMMA: /, ?/
"""
"""Another grammar of the same notation, which is compiled before anything is measured."""


def _rules(grammar: str) -> dict[str, str]:
    """The rules of :data:`FUNQL` or :data:`WARM_UP`: name → right side in Lark's notation, templates written out."""
    text = re.sub(r"\n +", " ", grammar)
    rules = {m[1]: m[2] for m in re.finditer(r"^([\w{}]+): (.*)$", text, re.MULTILINE)}
    template = rules.pop("chosen{set}", "")
    for kind in sorted(set(re.findall(r"chosen\{(\w+)\}", text)) - {"set"}):
        rules[f"chosen_{kind}"] = re.sub(r"\bset\b", kind, template)
    return {name: re.sub(r"chosen\{(\w+)\}", r"chosen_\1", body) for name, body in rules.items()}


def as_lark(grammar: str) -> str:
    """The rules for llguidance, which has no templates."""
    return "".join(f"{name}: {body}\n" for name, body in _rules(grammar).items())


def as_gbnf(grammar: str) -> str:
    """The rules for xgrammar: a grammar of characters, in which terminals are rules like others."""
    by_hand = {"COMMA": '"," " "?', "NUMBER": '[0-9]+ ("." [0-9]+)?', "NAME": '"\'" [a-z] [a-z .-]* "\'"'}
    rules = {name: by_hand.get(name, body) for name, body in _rules(grammar).items()}
    return "".join(f"{'root' if name == 'start' else name} ::= {body}\n" for name, body in rules.items())


def as_kbnf(grammar: str) -> str:
    """The rules for Formatron: terminals with choices are regular expressions, as its authors write those of JSON."""
    by_hand = {"COMMA": '#", ?"', "NUMBER": '#"[0-9]+(\\\\.[0-9]+)?"', "NAME": "#\"'[a-z][a-z .-]*'\""}
    out = []
    for name, body in _rules(grammar).items():
        if name in ("STATE", "ABBREVIATION"):
            body = "#\"'(" + "|".join(re.findall(r'"([a-z ]+)"', body)) + ")'\""
        out.append(f"{name} ::= {by_hand.get(name, body)};\n")
    return "".join(out)


def _funql_sessions() -> Iterator[Session]:
    groups = [tuple(QUERIES[i :: len(QUERIES) // RUNS]) for i in range(len(QUERIES) // RUNS)]
    for i, texts in enumerate(groups):
        yield Session("geoquery", f"FunQL {i + 1}", FUNQL, texts, groups[i - 1][:UNSEEN], WRONG_QUERIES)


def sessions(schemas: int = len(SCHEMAS)) -> list[Session]:
    """The sessions of all tasks, mixed."""
    by_task: dict[str, list[Session]] = {task: [] for task in TASKS}
    for session in (*_json_sessions(schemas), *_funql_sessions()):
        by_task[session.task].append(session)
    longest = max(map(len, by_task.values()))
    return [group[i] for i in range(longest) for group in by_task.values() if i < len(group)]
