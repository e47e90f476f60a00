"""Checks every row of docs/dialects.md, by its first cell: the notation accepts or refuses what the row says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cdplugin as cd

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "dialects.md").read_text()
LINES = [
    re.split(r"(?<!\\) \| ", line.strip("| "))[0]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| where")
]
COMPILER = cd.Compiler(cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"</s>"], eos_token_ids=256))


def takes(spec: cd.Spec, text: str) -> bool:
    data = list(text.encode())
    matcher = COMPILER.compile(spec).matcher()
    return matcher.accept_tokens(data) == len(data) and matcher.is_accepting()


def schema(value: Any, **options: Any) -> Callable[[], cd.Spec]:
    return lambda: cd.JsonSchema(value, **options)


def regex(text: str) -> Callable[[], cd.Spec]:
    return lambda: cd.Ebnf(f"root ::= {text}")


def lark(text: str) -> Callable[[], cd.Spec]:
    return lambda: cd.Lark(text)


def fmt(name: str, **options: Any) -> Callable[[], cd.Spec]:
    return schema({"format": name, "type": "string"}, **options)


INTEGER, TEXT = {"type": "integer"}, {"type": "string"}
ASCII = 'start: %json {"type": "string", "x-guidance": {"json_allow_general_unicode_escapes": false}}'
GUIDED_TIME = 'start: %json {"type": "string", "format": "date-time", "x-guidance": {}}'
SEPARATED = 'start: %json {"type": "object", "x-guidance": {"item_separator": "-", "key_separator": "_ "}}'
APPLES = {
    "anyOf": [
        {"properties": {"apple_type": INTEGER}, "required": ["apple_type"]},
        {"properties": {"is_ripe": {"type": "boolean"}}, "required": ["is_ripe"]},
    ]
}
OVERLAP = {"type": "object", "patternProperties": {"^a": INTEGER, "b$": {"minimum": 3}}}
COUNTED = {"type": "object", "properties": {"a": INTEGER, "b": INTEGER}, "minProperties": 2, "additionalProperties": False}
TWO = {"type": "object", "properties": {"a": INTEGER, "b": INTEGER}}
ONE_OF = {"oneOf": [{"type": "integer", "minimum": 3}, {"type": "integer", "maximum": 5}]}
ENDLESS = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}
WORDS = "".join(f"word{i} " for i in range(60_000))
ADDRESS = '"::ffff:192.168.0.1"'

# By the first cell: specs, each with texts that are taken and texts that are not; None: refused at compile time.
CASES: dict[str, list[tuple[Callable[[], cd.Spec], list[str] | None, list[str]]]] = {
    "`5.0` for `integer`": [(schema(INTEGER), ["5", "5.0"], ["5.5"])],
    "`if` without `then` and `else`": [(schema({"if": {}}), ["1", "{}"], [])],
    "patterns of `patternProperties` that overlap": [
        (schema(OVERLAP), ['{"ab": 4}', '{"a": 1}'], ['{"ab": 1}', '{"ab": "x"}']),
    ],
    "`minProperties` with optional properties": [(schema(COUNTED), ['{"a": 1, "b": 2}'], ["{}", '{"a": 1}'])],
    "leap seconds": [
        (fmt("time"), ['"23:59:59Z"'], ['"23:59:60Z"']),
        (fmt("time", formats="rfc"), ['"23:59:60Z"', '"01:29:60+01:30"'], ['"22:59:60Z"']),
        (lambda: cd.Lark(GUIDED_TIME), ['"1998-12-31T23:59:60Z"'], ['"1998-12-31T22:59:60Z"']),
    ],
    "IPv6 addresses that end in an IPv4 address": [(fmt("ipv6"), [ADDRESS, '"1:2::192.168.0.1"'], ['"::192.168.0"'])],
    "`xn--` labels in `hostname`": [
        (fmt("hostname"), ['"xn--mnchen-3ya.de"'], ['"xn--aa-hka"', '"xn--a"', '"xn--4gbwdl.xn--wgbh1c"']),
    ],
    r"escapes in formats (`\u00e9` in `iri`)": [(fmt("iri-reference"), ['"/é"'], ['"/\\u00e9"'])],
    r"`\u00e9` in other strings": [
        (schema(TEXT), ['"é"', '"\\u00e9"'], []),
        (schema({**TEXT, "pattern": "^é$"}), ['"é"', '"\\u00e9"'], []),
        (lambda: cd.Lark(ASCII), ['"é"'], ['"\\u00e9"']),
    ],
    "29 February of a common year in `date`, `date-time`": [
        (fmt("date"), ['"2024-02-29"'], ['"2021-02-29"']),
        (fmt("date-time"), ['"2024-02-29T12:00:00Z"'], ['"2021-02-29T12:00:00Z"']),
    ],
    "`%regex` over a text of some 100 KB": [
        (lark(f'start: %regex {{"substring_words": {json.dumps(WORDS)}}}'), None, []),
        (lark(f'start: %regex {{"substring_words": {json.dumps(WORDS[:2000])}}}'), ["word1 word2"], ["word1 word3"]),
    ],
    "`oneOf`": [(schema(ONE_OF), ["2", "6"], ["4"])],
    "properties that are not declared": [(schema(TWO), ['{"a": 1, "c": 2}'], [])],
    "look-aheads in `Regex(…)`": [(regex('Regex("a(?=b)[a-z]c")'), ["abc"], ["axc"])],
    r"`\p{…}` in `Regex(…)`": [(regex(r'Regex("\\p{Lu}")'), ["A", "É"], ["a"])],
    'letters in `Regex(…, flags="i")`': [(regex('Regex("aé", flags="i")'), ["aé", "Aé"], ["aÉ"])],
    "letters in Lark's `/…/i`": [(lark("start: /Żółw/i"), ["żółw", "ŻÓŁW"], ["zolw"])],
    "look-aheads in Lark's `/…/`": [(lark("start: /a(?=b)bc/"), None, [])],
    "`%ignore` after the last lexeme": [(lark('start: "a" "b"\n%ignore / /'), ["ab", "a b"], ["a b "])],
    "`lazy` on what may be empty": [
        (lark('start: r "z"\nr[lazy]: /[a-y]*/'), None, []),
        (lark('start: r "z"\nr[lazy]: /[a-y]+/'), ["az"], ["z", "aaz"]),
    ],
    "`stop=` that may be empty": [
        (lark('start: r "z"\nr[stop=/x?/]: "a"'), None, []),
        (lark('start: r "z"\nr[stop=/x/]: /[a-y]*/'), ["axz"], ["aaz"]),
    ],
    "`suffix=` after any text": [(lark('start: r\nr[suffix="<end>"]: /(.|\\n)*/'), ["plain<end>"], ["plain"])],
    "`max_tokens=`, `max_chars=` on a rule of rules": [
        (lark('start: a "z"\na[max_tokens=1]: b | b "y"\nb: "x"'), None, []),
        (lark('start: a "z"\na[max_tokens=1]: B | B "y"\nB: "x"'), ["xz"], []),
    ],
    r"escapes in strings under a `pattern` (`\b`)": [(schema({**TEXT, "pattern": r"^\S+$"}), [r'"a\b"', r'"\""'], ['"a b"'])],
    "`multipleOf: 0.1` for integers": [(schema({"type": "integer", "multipleOf": 1.5}), ["3"], ["2"])],
    "the same property twice in any order": [(schema(TWO, property_order="any"), ['{"b": 1, "a": 2}'], ['{"a": 1, "a": 2}'])],
    "the year 0000 in `date`": [
        (fmt("date"), ['"0001-01-01"'], ['"0000-01-01"']),
        (fmt("date", formats="rfc"), ['"0000-01-01"'], []),
    ],
    "`{=a}`, `{%41}`, `{x:1000}` in `uri-template`": [
        (fmt("uri-template"), ['"{a}"'], ['"{=a}"', '"{%41}"', '"{x:1000}"']),
        (fmt("uri-template", formats="rfc"), ['"{=a}"', '"{%41}"', '"{x:1000}"'], []),
    ],
    "order of properties": [
        (schema(TWO), ['{"a": 1, "b": 2}'], ['{"b": 2, "a": 1}']),
        (schema(TWO, property_order="any"), ['{"a": 1, "b": 2}', '{"b": 2, "a": 1}'], []),
    ],
    "`-0` for `minimum: 0`": [(schema({"type": "integer", "minimum": 0}), ["0", "-0"], ["-1"])],
    "items that are not constrained by `type`": [(schema({"items": INTEGER}), ["[1]", '"x"'], ['["x"]'])],
    "white space": [
        (schema(TWO), ['{"a":' + " " * 40 + "1}"], ['{"a":' + " " * 41 + "1}"]),
        (schema(TWO, whitespace=" {0,2}"), ['{  "a":1}'], ['{   "a":1}']),
    ],
    "`pattern` without anchors": [(schema({**TEXT, "pattern": "b"}), ['"abc"'], ['"ac"'])],
    "`date-time` without an offset": [(fmt("date-time"), ['"2021-01-01T00:00:00Z"'], ['"2021-01-01T00:00:00"'])],
    "exponents of more than 20 digits": [(schema({"type": "number"}), ["1.05e-00001"], ["1e" + 21 * "1"])],
    "`time` with an offset other than `Z`": [(fmt("time"), ['"15:30:00+01:00"'], ['"15:30:00"'])],
    "`email` at a domain of one label": [(fmt("email"), ['"username@com"'], ['"username@"'])],
    "`minDigits` and the like": [(schema({"type": "integer", "minDigits": 3, "maxDigits": 5}), ["10", "100000"], [])],
    "values of any type inside values of any type": [(schema({"type": "array"}), ["[[[1]]]", '[{"a": {"z": {"g": 4}}}]'], [])],
    r"`\'` in strings": [(schema(TEXT), ['"I\'m"'], ['"I\\\'m"'])],
    "members that another branch of `anyOf` declares": [(schema(APPLES), ['{"apple_type": 1, "is_ripe": true}'], [])],
    "integers of more than 16 digits": [(schema({"type": "integer", "minimum": 0}), ["1" + 32 * "0"], ["-1" + 32 * "0"])],
    "leading zeros in `ipv4`": [(fmt("ipv4"), ['"128.255.0.222"'], ['"128.255.000.222"'])],
    "`item_separator` without a comma": [(lambda: cd.Lark(SEPARATED), None, [])],
    "exponents without a sign": [(schema({"type": "number"}), ["1.3e9", "1.3e+9"], ["1.3e"])],
    "`allOf` of two types": [(schema({"allOf": [TEXT, INTEGER]}), None, [])],
    "names in `required` that no property has": [
        (schema({**TWO, "required": ["c"]}), ['{"a": 1, "c": null}'], ["{}", '{"a": 1}']),
    ],
    "arrays shorter or longer than `prefixItems`": [
        (schema({"type": "array", "prefixItems": [TEXT, INTEGER]}), ["[]", '["a", 1]', '["a", 1, 1]'], ['["a", "b"]']),
    ],
    "definitions that need each other without end": [(schema(ENDLESS), None, [])],
    '`type: "float"`': [(schema({"type": "float"}), None, [])],
    "`uri` without slashes": [(fmt("uri"), ['"mailto:a@b.c"', '"http:/example.com"'], ['"example.com"'])],
    "arrays without `maxItems`": [(schema({"type": "array", "items": INTEGER}), [json.dumps(list(range(99)))], [])],
    "exponents of numbers under a bound": [(schema({"type": "number", "minimum": 3}), ["4e20", "4.5e20"], ["45e20"])],
}  # fmt: skip


@pytest.mark.parametrize("line", CASES)
def test_line(line: str) -> None:
    for spec, taken, refused in CASES[line]:
        if taken is None:
            with pytest.raises(cd.GrammarError):
                COMPILER.compile(spec())
            continue
        for text in taken:
            assert takes(spec(), text), text
        for text in refused:
            assert not takes(spec(), text), text


def test_every_line_has_a_case() -> None:
    assert sorted(LINES) == sorted(CASES)


def peer_schema(value: Any) -> Callable[[str], bool]:
    """Whether llguidance accepts a text for a schema. It may refuse the schema."""
    peer = pytest.importorskip("llguidance_peer")
    matcher_class = peer.llguidance.LLMatcher

    def accepts(text: str) -> bool:
        matcher = matcher_class(peer.PEER, matcher_class.grammar_from_json_schema(json.dumps(value)), log_level=0)
        return not matcher.is_error() and bool(peer.taken(matcher, text))

    return accepts


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (INTEGER, "5.0"),
        ({"if": {}, "type": "integer"}, "1"),
        (OVERLAP, '{"ab": 4}'),
        (COUNTED, '{"a": 1, "b": 2}'),
        ({**TEXT, "format": "ipv6"}, '"1:2::192.168.0.1"'),
        (TEXT, '"\\u00e9"'),
        (ONE_OF, "2"),
    ],
)
def test_llguidance_refuses_what_is_taken_here(value: Any, text: str) -> None:
    assert takes(cd.JsonSchema(value), text) and not peer_schema(value)(text)


def test_llguidance_takes_what_is_refused_here() -> None:
    text = '"22:59:60Z"'
    assert peer_schema({**TEXT, "format": "time"})(text) and not takes(fmt("time")(), text)


def test_what_xgrammar_does_otherwise() -> None:
    xgr = pytest.importorskip("xgrammar")
    from xgrammar.testing import _is_grammar_accept_string as accepts

    assert not accepts(xgr.Grammar.from_json_schema(json.dumps(TWO)), '{"a": 1, "c": 2}')
    assert accepts(xgr.Grammar.from_json_schema(json.dumps({"type": "integer", "multipleOf": 1.5})), "2")
    assert accepts(xgr.Grammar.from_json_schema(json.dumps({**TEXT, "format": "date"})), '"0000-01-01"')
    assert accepts(xgr.Grammar.from_ebnf('root ::= Regex("a(?=b)[a-z]c")'), "axc")
    assert not accepts(xgr.Grammar.from_ebnf('root ::= Regex("aé", flags="i")'), "aÉ")
