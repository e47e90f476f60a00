"""``x-guidance`` of a schema after ``%json``: what cdplugin accepts beside llguidance 1.9.1, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from llguidance_peer import peer_takes, takes

import cdplugin as cd

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "integer"}}},
    "additionalProperties": False,
}


def grammar_of(guidance: dict[str, Any], schema: dict[str, Any] = SCHEMA) -> str:
    return "start: %json " + json.dumps({**schema, "x-guidance": guidance})


TEXTS = """{"a":1}|{"a": 1}|{"a":  1}|{ "a":1}|{"a":1 }|{"a":1,"b":[]}|{"a":1, "b":[]}|{"a":1 ,"b":[1,2]}|{"a":1,"b":[ ]}|{ }|{}
|{"a" :1}|{"a" : 1}|{"a":1,"b":[1 , 2 ]}|{   "a":1}|{"a":\t1}|{"a"  :  1 , "b":[2]}|{"a":1,   "b":[2]}""".replace(
    "\n", ""
).split("|")
LAYOUTS: list[dict[str, Any]] = [
    {"whitespace_pattern": None},
    {"whitespace_pattern": None, "whitespace_flexible": False, "json_allowed_escapes": None},
    {"whitespace_pattern": "[ ]{1,2}"},
    {"whitespace_pattern": "[ ]{0,2}"},
    {"whitespace_pattern": "[ ]{1,2}", "whitespace_flexible": False},
    {"item_separator": ", ", "key_separator": ": "},
    {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False},
    {"item_separator": r"\s{0,2},\s{0,2}", "key_separator": ": ?", "whitespace_flexible": True},
    {"item_separator": ", ?", "key_separator": r"\s?:", "whitespace_flexible": False},
    {"item_separator": r"\s{0,2},\s{0,2}", "key_separator": r"\s{0,2}:\s{0,2}", "whitespace_flexible": False},
    {"key_separator": ": ", "whitespace_pattern": "[ ]+"},
]


@pytest.mark.parametrize("guidance", LAYOUTS, ids=repr)
def test_white_space_and_separators_are_llguidances(guidance: dict[str, Any]) -> None:
    grammar = grammar_of(guidance)
    ours = [text for text in TEXTS if takes(grammar, text)]
    assert ours == [text for text in TEXTS if peer_takes(grammar, text)]
    assert len(ours) < len(TEXTS) or guidance == {"whitespace_pattern": None} or "s{0,2}" in str(guidance)


STRINGS = [
    r'"a"',
    r'"\n"',
    r'"\u0041"',
    r'"\u0001"',
    r'"\u001F"',
    r'"\\"',
    r'"\""',
    r'"\u00e9"',
    r'"\ud83d\ude00"',
    r'"\u007f"',
    r'"\t\n"',
]
CONTROL = {r'"\u0001"', r'"\u001F"', r'"\u007f"'}


@pytest.mark.parametrize(
    "guidance",
    [
        {"json_allowed_escapes": "nt"},
        {"json_allowed_escapes": ""},
        {"json_allowed_escapes": '\\"'},
        {"json_allowed_escapes": "u", "json_allow_general_unicode_escapes": True},
        {"json_allowed_escapes": "u", "json_allow_general_unicode_escapes": False},
        {"json_allow_general_unicode_escapes": True},
        {"json_allow_general_unicode_escapes": False},
    ],
    ids=repr,
)
def test_escapes_are_llguidances(guidance: dict[str, Any]) -> None:
    grammar = grammar_of(guidance, {"type": "string"})
    assert [text for text in STRINGS if takes(grammar, text)] == [text for text in STRINGS if peer_takes(grammar, text)]


def test_escapes_inside_any_value() -> None:
    for schema in ({"type": "object"}, {"type": "array", "items": {}}, {}):
        grammar = grammar_of({"json_allow_general_unicode_escapes": False}, schema)
        for text in (r'{"a": "\n"}', r'{"a": "\u00e9"}', r'{"\u00e9": 1}', r'["\n"]', r'["\u00e9"]', r'[["\u00e9"]]'):
            assert takes(grammar, text) == peer_takes(grammar, text), (schema, text)


def test_escapes_in_names_and_fixed_texts() -> None:
    schema = {"type": "object", "properties": {"a\n": {"enum": ["x\ty"]}}, "additionalProperties": {"type": "string"}}
    grammar = grammar_of({"json_allowed_escapes": "nt"}, schema)
    assert takes(grammar, r'{"a\n": "x\ty", "b\n": "c"}') and not takes(grammar, r'{"a\u000a": "x\ty"}')
    assert not takes(grammar, r'{"b\\": "c"}') and not takes(grammar, r'{"b": "\""}')


@pytest.mark.parametrize(
    ("guidance", "message"),
    [
        (
            {"whitespace_patern": " "},
            r"unknown option in x-guidance: expected one of .*did you mean 'whitespace_pattern'.*line 1",
        ),
        ({"whitespace_pattern": 3}, "x-guidance option whitespace_pattern: expected a regular expression, found 3 - at line 1"),
        ({"whitespace_flexible": "no"}, "whitespace_flexible: expected true or false, found"),
        ({"key_separator": None}, "key_separator: expected a regular expression, found (None|null)"),
        ({"key_separator": "="}, "option key_separator: expected what may match ':', .* found '=' - at line 1"),
        ({"item_separator": "(,"}, "option item_separator"),
        ({"json_allowed_escapes": "nq"}, r"json_allowed_escapes: expected letters of .*, found .q."),
        ({"json_allowed_escapes": ["n"]}, "json_allowed_escapes: expected a string"),
    ],
    ids=repr,
)
def test_wrong_options(guidance: dict[str, Any], message: str) -> None:
    with pytest.raises(cd.GrammarError, match=message):
        cd.Lark(grammar_of(guidance)).to_ir(cd.Limits())
