"""The keyword map beside the code: which keywords are read, by what code, enforced in which draft, and which are refused."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from json_schema_tools import dumps, grammar

from cdplugin.cli import main as cli
from cdplugin.errors import GrammarError, LimitExceeded, UnsupportedError
from cdplugin.frontends import json_schema
from cdplugin.frontends.json_schema import compile_schema, dialect, reader
from cdplugin.frontends.json_schema.keyword_map import DRAFTS, ENFORCED, KEYWORDS, NO_DRAFT, Keyword, as_json, of_draft

FOLDER = Path(json_schema.__file__).parent
DIALECTS = {
    "4": dialect.DRAFT_4,
    "6": dialect.DRAFT_6,
    "7": dialect.DRAFT_7,
    "2019-09": dialect.DRAFT_2019,
    "2020-12": dialect.DRAFT_2020,
    NO_DRAFT: dialect.LENIENT,
}
URIS = {
    "4": "http://json-schema.org/draft-04/schema#",
    "6": "http://json-schema.org/draft-06/schema#",
    "7": "http://json-schema.org/draft-07/schema#",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
}
NUMBER = {"$defs": {"n": {"type": "number"}}, "definitions": {"n": {"type": "number"}}}

# keyword → a schema, a value that only this keyword makes invalid, and a valid one
EXAMPLES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "type": ({"type": "null"}, 1, None),
    "enum": ({"enum": [1]}, 2, 1),
    "const": ({"const": 1}, 2, 1),
    "minimum": ({"type": "integer", "minimum": 3}, 2, 3),
    "maximum": ({"type": "integer", "maximum": 3}, 4, 3),
    "exclusiveMinimum": ({"type": "integer", "exclusiveMinimum": 3}, 3, 4),
    "exclusiveMaximum": ({"type": "integer", "exclusiveMaximum": 3}, 3, 2),
    "multipleOf": ({"type": "integer", "multipleOf": 3}, 4, 6),
    "minLength": ({"minLength": 2}, "a", "ab"),
    "maxLength": ({"maxLength": 1}, "ab", "a"),
    "pattern": ({"pattern": "^a"}, "b", "a"),
    "format": ({"format": "ipv4"}, "a", "1.2.3.4"),
    "contentEncoding": ({"contentEncoding": "base64"}, "a", "YQ=="),
    "items": ({"items": {"type": "null"}}, [1], [None]),
    "prefixItems": ({"prefixItems": [{"type": "null"}]}, [1], [None, 1]),
    "additionalItems": ({"items": [{}], "additionalItems": {"type": "null"}}, [1, 1], [1, None]),
    "minItems": ({"minItems": 1}, [], [1]),
    "maxItems": ({"maxItems": 1}, [1, 1], [1]),
    "contains": ({"contains": {"const": 1, "enum": [1]}}, [2], [2, 1]),
    "minContains": ({"contains": {"enum": [1]}, "minContains": 2}, [1], [1, 1]),
    "maxContains": ({"contains": {"enum": [1]}, "maxContains": 1}, [1, 1], [1]),
    "uniqueItems": ({"type": "array", "uniqueItems": True, "items": {"type": "boolean"}}, [True, True], [True, False]),
    "properties": ({"properties": {"a": {"type": "null"}}}, {"a": 1}, {"a": None}),
    "required": ({"required": ["a"]}, {}, {"a": 1}),
    "additionalProperties": ({"properties": {"a": {}}, "additionalProperties": False}, {"b": 1}, {"a": 1}),
    "patternProperties": ({"patternProperties": {"^a": {"type": "null"}}}, {"ab": 1}, {"b": 1}),
    "propertyNames": ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, {"a": 1}),
    "minProperties": ({"minProperties": 1}, {}, {"a": 1}),
    "maxProperties": ({"maxProperties": 1}, {"a": 1, "b": 1}, {"a": 1}),
    "allOf": ({"allOf": [{"type": "null"}]}, 1, None),
    "anyOf": ({"anyOf": [{"type": "null"}, {"type": "string"}]}, 1, None),
    "oneOf": ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, 1, 1.5),
    "not": ({"not": {"type": "integer"}}, 1, None),
    "if": ({"if": {"type": "integer"}, "then": {"maximum": 3}}, 4, 3),
    "then": ({"if": {"type": "integer"}, "then": {"maximum": 3}}, 4, 3),
    "else": ({"if": {"type": "string"}, "else": {"maximum": 3}}, 4, 3),
    "dependentRequired": ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, {"a": 1, "b": 1}),
    "dependentSchemas": ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1}, {"a": 1, "b": 1}),
    "dependencies": ({"dependencies": {"a": ["b"]}}, {"a": 1}, {"a": 1, "b": 1}),
    "unevaluatedProperties": ({"properties": {"a": {}}, "unevaluatedProperties": False}, {"b": 1}, {"a": 1}),
    "unevaluatedItems": ({"unevaluatedItems": False}, [1], []),
    "$ref": ({"allOf": [{"$ref": "#/$defs/n"}], **NUMBER}, "a", 1),
    "$defs": ({"allOf": [{"$ref": "#/$defs/n"}], **NUMBER}, "a", 1),
    "definitions": ({"allOf": [{"$ref": "#/definitions/n"}], **NUMBER}, "a", 1),
    "$id": ({"allOf": [{"$ref": "http://e.org/n"}], "definitions": {"n": {"$id": "http://e.org/n", "type": "null"}}}, 1, None),
    "id": ({"allOf": [{"$ref": "http://e.org/n"}], "definitions": {"n": {"id": "http://e.org/n", "type": "null"}}}, 1, None),
    "$anchor": ({"allOf": [{"$ref": "#x"}], "definitions": {"n": {"$anchor": "x", "type": "null"}}}, 1, None),
    "$dynamicAnchor": ({"allOf": [{"$ref": "#x"}], "definitions": {"n": {"$dynamicAnchor": "x", "type": "null"}}}, 1, None),
    "$dynamicRef": (
        {"items": {"$dynamicRef": "#x"}, "definitions": {"n": {"$dynamicAnchor": "x", "type": "null"}}},
        [1],
        [None],
    ),
    "$recursiveRef": ({"type": "array", "items": {"$recursiveRef": "#"}}, [1], [[]]),
    "$recursiveAnchor": (
        {
            "$id": "http://e.org/outer",
            "$recursiveAnchor": True,
            "maxItems": 1,
            "allOf": [{"$ref": "inner"}],
            "$defs": {
                "inner": {"$id": "inner", "$recursiveAnchor": True, "type": "array", "items": {"$recursiveRef": "#"}},
            },
        },
        [[[], []]],
        [[[]]],
    ),
}
ARBITRARY = {"title": 1, "$vocabulary": 1}  # annotations may hold anything; others hold False
CHOOSES_THE_DRAFT = {"$schema"}  # every other example shows it


def with_draft(schema: dict[str, Any], draft: str) -> dict[str, Any]:
    return schema if draft == NO_DRAFT else {"$schema": URIS[draft], **schema}


def example(name: str, draft: str) -> tuple[dict[str, Any], Any, Any]:
    """The example of a keyword in the form that a draft has for it."""
    schema, wrong, right = EXAMPLES[name]
    if draft == "4" and name in ("exclusiveMinimum", "exclusiveMaximum"):
        closed = name.replace("exclusiveM", "m")
        schema = {"type": "integer", closed: schema[name], name: True}
    if draft == "2020-12" and name == "additionalItems":  # `items` must not be an array any more
        schema = {name: schema[name]}
    return with_draft(schema, draft), wrong, right


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("name", sorted(set(KEYWORDS) - CHOOSES_THE_DRAFT))
def test_status_is_what_happens(name: str, draft: str) -> None:
    """Enforced: a value that only this keyword forbids is refused. Otherwise it is accepted, or what it names is not found."""
    keyword = KEYWORDS[name]
    if not keyword.reader:
        assert grammar(with_draft({name: ARBITRARY.get(name, False)}, draft)).accepts(b"[1]")
        return
    schema, wrong, right = example(name, draft)
    if keyword.status(draft) == ENFORCED:
        followed = grammar(schema)
        assert followed.accepts(dumps(right)) and not followed.accepts(dumps(wrong))
        return
    lost = ""  # the keyword that names what is not found
    try:
        accepts = grammar(schema).accepts(dumps(wrong))
    except GrammarError as error:
        accepts, lost = False, error.keyword
    assert accepts or (lost == "$ref" and name.startswith(("$", "id")))


@pytest.mark.parametrize("draft", DRAFTS)
def test_dialects(draft: str) -> None:
    """The keywords that the dialect reads by its groups are those enforced in that draft."""
    enforced = {keyword.name for keyword, status in of_draft(draft).items() if status == ENFORCED}
    assert set(DIALECTS[draft].groups) <= enforced
    assert set(dialect._GROUPS) <= set(KEYWORDS)


# --- who reads what -----------------------------------------------------------------------------------------------------------


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(FOLDER.glob("*.py")):
        if path.name != "keyword_map.py":
            yield path.name, ast.parse(path.read_text())


def texts_in(node: ast.AST) -> set[str]:
    return {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def keywords_read(tree: ast.AST) -> set[str]:
    """Texts by which members of a schema are looked up: ``schema["x"]``, ``"x" in schema``, ``schema.get("x")``, arguments."""
    out: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("schema"):
            out |= texts_in(node.slice)
        elif isinstance(node, ast.Compare) and ast.unparse(node.comparators[0]).endswith(
            ("schema", "document", "known", "groups")
        ):
            out |= texts_in(node.left)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of_schema = node.func.attr == "get" and ast.unparse(node.func.value).endswith(("schema", "document"))
            if of_schema or node.func.attr in ("_counts", "_bound"):
                out |= set().union(*(texts_in(argument) for argument in node.args))
        elif isinstance(node, ast.comprehension) and isinstance(node.iter, ast.Tuple):
            out |= {text for text in texts_in(node.iter) if re.fullmatch(r"\$?[a-zA-Z]+", text)}
    return out


def test_every_keyword_that_is_read_is_in_the_map() -> None:
    read = {name: keywords_read(tree) for name, tree in trees() if name in ("reader.py", "refs.py")}
    assert {"then", "minContains", "maximum", "multipleOf", "properties", "format"} <= read["reader.py"], "the scan finds them"
    assert {"$schema", "$anchor", "$dynamicAnchor", "$recursiveAnchor"} <= read["refs.py"]
    assert read["reader.py"] | read["refs.py"] <= set(KEYWORDS)
    assert set(reader._COMBINATORS) <= set(KEYWORDS)


def resolved(name: str) -> Any:
    """The function or class that a name of the map leads to."""
    module, *names = name.split(".")
    value: Any = import_module(f"{json_schema.__name__}.{module}")
    for part in names:
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("keyword", [k for k in KEYWORDS.values() if k.reader], ids=lambda k: k.name)
def test_functions_exist_and_the_reader_reads_it(keyword: Keyword) -> None:
    assert keyword.enforcers
    for name in (keyword.reader, *keyword.enforcers):
        value = resolved(name)
        assert callable(value) and not isinstance(value, ModuleType), name
    if reader._COMBINATORS.get(keyword.name) is resolved(keyword.reader):
        return
    if keyword.name in ("id", "$id"):  # by the dialect's word for it
        assert {d.id_keyword for d in DIALECTS.values()} == {"id", "$id"}
    elif keyword.name in ("$defs", "definitions"):  # by whatever a JSON Pointer names
        assert keyword.reader.endswith("_walk")
    else:
        source = ast.parse(textwrap.dedent(inspect.getsource(resolved(keyword.reader))))
        assert keyword.name in texts_in(source), f"{keyword.reader} does not name it"


# --- what is refused ----------------------------------------------------------------------------------------------------------

REFUSING = ("refuse", "_refuse", "_refusal", "UnsupportedError", "LimitExceeded", "ValueReader")


def refused_in_code() -> set[str]:
    """Keywords that calls name which raise, or note, a refusal; and those of ``sub.refused += (Refused(keyword, …),)``."""
    out: set[str] = set()
    for _, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.AugAssign) and ast.unparse(node.target).endswith(".refused"):
                out |= texts_in(node.value) & KEYWORDS.keys()
            elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in REFUSING:
                out |= {a.value for a in node.args if isinstance(a, ast.Constant) and a.value in KEYWORDS}
                out |= set().union(*(texts_in(k.value) for k in node.keywords if k.arg == "keyword"))
    return out


def test_every_keyword_that_is_refused_is_marked_so() -> None:
    found = refused_in_code()
    assert {"uniqueItems", "multipleOf", "format", "contains", "$schema", "items"} <= found, "the scan finds them"
    assert not {name for name in found if not KEYWORDS[name].refusals}


@cache
def cases() -> list[tuple[str, Any]]:
    return [(k.name, r.example) for k in KEYWORDS.values() for r in k.refusals if r.example is not None]


@pytest.mark.parametrize(("name", "schema"), cases(), ids=[f"{name}-{i}" for i, (name, _) in enumerate(cases())])
def test_what_is_marked_refused_is_refused(name: str, schema: Any) -> None:
    with pytest.raises((UnsupportedError, LimitExceeded)) as caught:
        compile_schema(schema)
    assert caught.value.keyword.split("/")[0] == name or (name == "not" and "complements" in caught.value.message)


def test_reasons_are_told_apart() -> None:
    for keyword in KEYWORDS.values():
        reasons = [refusal.why for refusal in keyword.refusals]
        assert len(set(reasons)) == len(reasons) and all(reasons), keyword.name


# --- the page and the command -------------------------------------------------------------------------------------------------


def test_the_page_names_every_keyword_that_is_enforced() -> None:
    page = (FOLDER.parents[2] / "docs" / "json-schema.md").read_text()
    missing = {name for name, keyword in KEYWORDS.items() if keyword.reader and f"`{name}`" not in page}
    assert missing <= {"then", "else"}, "`if`/`then`/`else`"


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["keywords", "--draft", "7", "contentEncoding", "title", "unevaluatedItems"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "draft 7"
    assert lines[1].split()[:3] == ["contentEncoding", "enforced", "refused:"]
    assert lines[-1].split() == ["title", "annotation"] and "unevaluatedItems" not in "".join(lines)
    assert cli.main(["keywords", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == as_json(DRAFTS)
    assert cli.main(["keywords", "minimun"]) == 1
    assert "minimun: in no draft from 4 to 2020-12" in capsys.readouterr().out
    assert cli.main(["keywords", "--draft", "3"]) == 2
    assert "--draft: expected one of 4, 6, 7, 2019-09, 2020-12, none, found '3'" in capsys.readouterr().err
