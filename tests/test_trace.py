"""``Matcher.trace()``: steps beside the matcher's own answers, places beside the schema, and pages that run no script."""

from __future__ import annotations

import json
import random
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from engine_tools import mask, vocabulary

import cdplugin as cd
from cdplugin.cli import main as cli

VOCAB = vocabulary([b'{"', b'": ', b'", "', b"true", b"hello"])
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 3},
        "tags": {"type": "array", "items": {"enum": ["a", "b", 1]}},
        "inner": {"$ref": "#/$defs/inner"},
        "note": {"type": "string"},
    },
    "required": ["name"],
    "additionalProperties": False,
    "$defs": {"inner": {"type": "object", "additionalProperties": {"type": "boolean"}}},
}
VALUE = {"name": "Bo", "age": 12, "tags": ["a", 1], "inner": {"k": True}, "note": "x"}
WHERE = {
    "/name": "/properties/name",
    "/age": "/properties/age",
    "/tags/0": "/properties/tags/items",
    "/tags/1": "/properties/tags/items",
    "/inner/k": "/$defs/inner/additionalProperties",
    "/note": "/properties/note",
}
"""Instance location of each scalar → where the schema has it, as a reader of the schema would say."""


def grammar(spec: cd.Spec) -> cd.Grammar:
    return cd.Compiler(VOCAB).compile(spec)


def scalars(value: Any, at: str = "") -> list[tuple[str, str]]:
    """``(instance location, JSON text)`` of every scalar, in the order of the text."""
    if isinstance(value, dict):
        return [one for key, inner in value.items() for one in scalars(inner, f"{at}/{key}")]
    if isinstance(value, list):
        return [one for i, inner in enumerate(value) for one in scalars(inner, f"{at}/{i}")]
    return [(at, json.dumps(value))]


def test_every_scalar_is_placed_where_the_schema_has_it() -> None:
    text = json.dumps(VALUE)
    trace = grammar(cd.JsonSchema(SCHEMA)).matcher().trace(list(text.encode()))
    assert trace.accepted and not trace.stopped and len(trace) == len(text) + 1
    begin = 0
    for location, shown in scalars(VALUE):
        begin = text.index(shown, begin + (location != "/name"))
        if location != "/name":
            begin = text.index(shown, text.index(f'"{location.split("/")[1]}"'))
        inside = trace.steps[begin + len(shown) - 1]  # before the last byte of the value: only the value is open
        found = [where for place in inside.places if place.lexeme == "value" for where in place.where]
        assert found == [WHERE[location]], (location, inside)


def test_every_pointer_leads_into_the_schema() -> None:
    trace = grammar(cd.JsonSchema(SCHEMA)).matcher().trace(list(json.dumps(VALUE).encode()))
    pointers = {where for step in trace for place in step.places for where in place.where}
    assert len(pointers) == 8
    for pointer in pointers:
        here: Any = SCHEMA
        for name in pointer.split("/")[1:]:
            here = here[name]


@pytest.mark.parametrize(
    ("spec", "text", "places"),
    [
        (
            cd.Lark('start: greet " " name\ngreet: "hi"\n     | "hello"\nname: NAME\nNAME: /[a-z]+/\n'),
            "hi b",
            ["line 2, column 1"] * 2 + ["line 1, column 1"] + ["line 5, column 1"] * 2,
        ),
        (
            cd.Gbnf('root ::= "<" inner ">"\n\ninner ::= "(" inner ")" | "x"\n'),
            "<(x",
            ["line 1, column 1", "line 3, column 1", "line 3, column 1", "line 3, column 1"],
        ),
    ],
)
def test_lines_of_grammars(spec: cd.Spec, text: str, places: list[str]) -> None:
    trace = grammar(spec).matcher().trace(list(text.encode()))
    assert [step.places[0].address for step in trace] == places


def test_a_step_says_what_the_matcher_says() -> None:
    rng = random.Random(5)
    one = grammar(cd.JsonSchema(SCHEMA))
    for _ in range(5):
        matcher = one.matcher()
        while not matcher.is_terminated() and len(matcher.tokens) < 40:
            assert matcher.accept_token(rng.choice(sorted(mask(matcher))))
        trace, again = matcher.trace(), one.matcher()
        assert len(trace) == len(matcher.tokens) + (not matcher.is_terminated())
        for step in trace:
            assert step.allowed == len(mask(again)) and step.may_end == again.is_accepting()
            assert step.start == sum(len(VOCAB.tokens[token] or b"") for token in again.tokens)
            assert list(step.forced) == again.forced_tokens(canonical=True, limit=64)
            probe = again.fork()
            assert step.ending is not None and probe.accept_tokens(step.ending) == len(step.ending) and probe.is_accepting()
            if step.token_id is not None:
                assert again.accept_token(step.token_id)
        assert trace.accepted and again.tokens == matcher.tokens


def test_a_refused_token_ends_the_trace() -> None:
    matcher = grammar(cd.JsonSchema(SCHEMA)).matcher()
    assert matcher.accept_tokens(b'{"name"') == 7
    trace = matcher.trace(b": 12}")
    last = trace.steps[-1]
    assert not trace.accepted and not last.accepted and last.label == "'1'"
    probe = matcher.fork()
    probe.accept_tokens(b": ")
    assert last.reason == probe.explain(ord("1"))
    assert trace.stopped == "the token of step 2 is not allowed; 2 come after it"
    assert matcher.tokens == tuple(b'{"name"'), "the matcher stays where it is"
    assert "REFUSED" in trace.text() and "expected" in trace.text()


def test_bounds() -> None:
    matcher = grammar(cd.JsonSchema({"type": "string"})).matcher()
    text = b'"' + b"a" * 50
    assert len(matcher.trace(text, limit=10)) == 10
    assert matcher.trace(text, limit=10).stopped == "the trace has 10 steps, the most that were asked for"
    assert matcher.trace(text, limit=51).stopped == "" and len(matcher.trace(text, limit=51)) == 51
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(ValueError, match="limit: expected a positive integer"):
            matcher.trace(text, limit=wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="token id: expected an integer"):
        matcher.trace([1.5])  # type: ignore[list-item]
    outside = matcher.trace([VOCAB.size + 3])
    assert outside.steps[0].reason == f"expected a token from 0 to {VOCAB.size - 1}, found {VOCAB.size + 3}"
    trace = matcher.trace(b'"' + b"a" * 400)
    page = trace.html(max_bytes=20_000)
    assert len(page.encode()) <= 20_000 and "further steps are left out" in page and page.endswith("</html>\n")
    assert all(len(line) <= 80 for line in trace.text(80).splitlines())


def test_a_budget_that_is_crossed_ends_the_trace() -> None:
    recursive = cd.Lark('start: x*\nx: "a" x "b" | /[a-z]{3,9}/ | "(" x ")"')
    assert len(cd.Compiler(VOCAB).compile(recursive).matcher().trace(b"aab(((x")) == 8
    trace = cd.Compiler(VOCAB, cd.Limits(max_step_work=300)).compile(recursive).matcher().trace(b"aab(((x")
    assert trace.stopped.startswith("a budget was crossed at step 0: one step takes too much work")


class Reader(HTMLParser):
    """What a browser would see of a page: its elements, attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><svg/onload=alert(1)>",
    "&lt;b&gt; \x00\x1b[31m \u202e",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_the_page_holds_hostile_text_as_text(text: str) -> None:
    vocab = vocabulary([text.encode()])
    token = vocab.token_of[0][text.encode()]
    schema = {"type": "object", "properties": {text: {"const": text}}, "required": [text]}
    for spec in (
        cd.Choice([text + "!"]),
        cd.JsonSchema(schema),
        cd.Lark(f"start: {json.dumps(text)}") if text.isprintable() else cd.Choice([text]),
    ):
        matcher = cd.Compiler(vocab).compile(spec).matcher()
        page = matcher.trace([token]).html(title=text)
        reader = Reader()
        reader.feed(page)
        reader.close()
        assert not reader.open
        assert set(reader.tags) <= set(
            "html head meta title style body h1 h2 p div a details summary span code dl dt dd table tr th td".split()
        )
        names = {name for name, _ in reader.attributes}
        assert names <= {"lang", "charset", "http-equiv", "content", "name", "class", "href", "title", "id", "open"}
        assert all(value is not None and value.startswith("#step-") for name, value in reader.attributes if name == "href")
        assert "\x00" not in page and "\x1b" not in page and "\u202e" not in page
        if text.isprintable():
            assert text in reader.text


def test_to_dict_is_json() -> None:
    trace = grammar(cd.JsonSchema(SCHEMA)).matcher().trace(json.dumps(VALUE).encode()[:30])
    again = json.loads(json.dumps(trace.to_dict()))
    assert [step["token"] for step in again["steps"]] == [step.token_id for step in trace]
    assert again["accepted"] is True and again["steps"][0]["ending"]["text"].startswith("{")


def test_places_keep_no_more_than_a_few() -> None:
    schema = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(100)}}
    one = grammar(cd.JsonSchema(schema))
    assert max(map(len, one._tables.lexemes.places)) <= 16
    trace = one.matcher().trace(b'{"p57": "x')
    assert [place.where for place in trace.steps[-1].places] == [("/properties/p57",)]


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = tmp_path / "s.json"
    schema.write_text(json.dumps(SCHEMA))
    assert cli.main(["trace", str(schema), '{"name": "Bo"}']) == 0
    out = capsys.readouterr().out
    assert "#/properties/name value" in out and "the text may end here" in out
    assert cli.main(["trace", str(schema), '{"name": 1']) == 1
    assert "REFUSED: not allowed: byte 0 of token 49 ('1')" in capsys.readouterr().out
    page = tmp_path / "out.html"
    (tmp_path / "text").write_text('{"name": "<b>"}')
    assert cli.main(["trace", str(schema), f"@{tmp_path / 'text'}", "--html", str(page)]) == 0
    assert "16 steps" in capsys.readouterr().out and "&lt;" in page.read_text()
    with pytest.raises(SystemExit, match="2"):
        cli.main(["trace", str(schema), "{", "--limit", "0"])
    assert "argument --limit: expected at least 1, found 0" in capsys.readouterr().err
    assert cli.main(["trace", str(schema), "{", "--html", str(tmp_path / "no" / "x.html")]) == 2
    assert cli.main(["trace", str(schema), f"@{tmp_path / 'none'}"]) == 2


def test_table_for_a_terminal() -> None:
    rich = pytest.importorskip("rich.console")
    from cdplugin.cli.trace import table

    trace = grammar(cd.JsonSchema(SCHEMA)).matcher().trace(b'{"name": 1')
    console = rich.Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table(trace))
    text = console.export_text()
    assert "#/properties/name" in text and "REFUSED" in text
