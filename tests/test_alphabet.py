"""Alphabets beside ``json.loads``, Unicode tables beside Python's; and the front ends of regular expressions and choices."""

from __future__ import annotations

import doctest
import importlib
import json
import re
import unicodedata

import pytest
from engine_tools import cases
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_regex import accepts

from cdplugin.errors import GrammarError, LimitExceeded
from cdplugin.expr import EMPTY
from cdplugin.frontends.literals import compile_choice, compile_regex
from cdplugin.limits import Limits
from cdplugin.regex.alphabet import JSON_CANONICAL, JSON_STRING, UTF8
from cdplugin.regex.pattern import parse, text_set
from cdplugin.regex.unicode import difference, fold_case, intersection, property_ranges, union

# --- alphabets ---------------------------------------------------------------------------------------------------------------


def spellings(char):
    """Every spelling of one character inside a JSON string, from the grammar of RFC 8259 section 7."""
    units = [int.from_bytes(char.encode("utf-16-be")[i : i + 2], "big") for i in range(0, 2 * (1 + (char > "\uffff")), 2)]
    out = [] if char < " " or char in '"\\' else [char]
    out += ["\\" + e for e, c in zip('"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True) if c == char]
    hexes = "".join(f"\\u{u:04x}" for u in units)
    return [*out, hexes, hexes.upper().replace("\\U", "\\u")]


@settings(max_examples=cases(150, 20), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 0x10FFFF), st.integers(0, 300)), max_size=4),
    st.lists(st.characters(exclude_categories=["Cs"]), max_size=6),
)
def test_json_characters_are_exactly_the_spellings(pairs, chars):
    ranges = tuple((low, min(low + more, 0x10FFFF)) for low, more in pairs)
    edges = [
        chr(c)
        for low, high in ranges
        for c in (low - 1, low, high, high + 1)
        if 0 <= c <= 0x10FFFF and not 0xD800 <= c <= 0xDFFF
    ]
    for char in [
        *chars,
        *edges,
        '"',
        "\\",
        "/",
        "\n",
        "\x7f",
        "\x1f",
        "\ud7ff",
        "\ue000",
        "\uffff",
        "\U00010000",
        "\U0010ffff",
    ]:
        inside = any(low <= ord(char) <= high for low, high in ranges)
        for spelling in spellings(char):
            assert json.loads(f'"{spelling}"') == char
            assert accepts(JSON_STRING.chars(ranges), spelling.encode()) == inside, (char, spelling)
        canonical = json.dumps(char, ensure_ascii=False)[1:-1]
        for spelling in spellings(char):
            expected = inside and spelling == canonical
            assert accepts(JSON_CANONICAL.chars(ranges), spelling.encode()) == expected, (char, spelling)
        assert accepts(UTF8.chars(ranges), char.encode()) == inside
        assert JSON_STRING.literal(char).args == JSON_CANONICAL.literal(char).args == (canonical.encode(),)


PIECES = [
    "a",
    "é",
    "🐲",
    "\\",
    '"',
    "/",
    "u",
    "n",
    "\\n",
    '\\"',
    "\\/",
    "\\u0061",
    "\\ud83d",
    "\\uDC32",
    "\\uD83D\\udc32",
    "\\u00e",
    "\x1f",
    "\x7f",
    "\n",
    "x",
]


@settings(max_examples=cases(400, 40), deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=5))
def test_json_text_is_what_json_loads_reads(pieces):
    """Text over JSON_STRING is what ``json.loads`` takes between quotes, less lone surrogates; patterns see it decoded."""
    inner = "".join(pieces)
    try:
        text = json.loads(f'"{inner}"')
        text.encode()
    except (json.JSONDecodeError, UnicodeEncodeError):
        text = None
    data = inner.encode()
    assert accepts(JSON_STRING.any_text, data) == (text is not None)
    for pattern in ("a", "^[^\\n]*$", "🐲|é", '^"', "^(?!.*a)", "^.?$", r'[/"\\]'):
        expected = text is not None and re.search(pattern.replace("$", r"\Z"), text) is not None
        assert accepts(parse(pattern).search_expr(JSON_STRING), data) == expected, pattern
    if text is not None:
        assert accepts(JSON_STRING.literal_any(text), data)
        assert accepts(JSON_CANONICAL.any_text, data) == (json.dumps(text, ensure_ascii=False)[1:-1] == inner)


@settings(max_examples=cases(100, 10), deadline=None)
@given(
    st.lists(st.text("aäb\n", max_size=4), min_size=1, max_size=12),
    st.sampled_from([UTF8, JSON_STRING, JSON_CANONICAL]),
    st.text("aäb\n", max_size=4),
)
def test_text_sets(texts, alphabet, probe):
    expression = text_set(texts, alphabet)
    for text in [*texts, probe]:
        raw = text if alphabet is UTF8 else json.dumps(text, ensure_ascii=False)[1:-1]
        assert accepts(expression, raw.encode()) == (text in texts)
        if alphabet is JSON_STRING:
            assert accepts(expression, json.dumps(text)[1:-1].encode()) == (text in texts)


def test_equal_classes_are_one_object():
    for alphabet in (UTF8, JSON_STRING, JSON_CANONICAL):
        assert alphabet.chars(((97, 122),)) is alphabet.chars(((110, 122), (97, 109)))
        assert parse("[a-z]").match_expr(alphabet) is alphabet.chars(((97, 122),))


def test_lone_surrogates_have_no_spelling():
    for alphabet in (UTF8, JSON_STRING):
        assert alphabet.chars(((0xD800, 0xDFFF),)) is EMPTY
        with pytest.raises(UnicodeEncodeError):
            alphabet.literal("\ud800")
        with pytest.raises(UnicodeEncodeError):
            alphabet.literal_any("\ud800")
    for half in ("\\ud83d", "\\udc32", "\\ud83da", "\\ud83d\\ud83d"):
        assert not accepts(JSON_STRING.any_text, half.encode())


# --- Unicode -----------------------------------------------------------------------------------------------------------------


def test_case_folding_agrees_with_str():
    for code_point in range(0x20000):
        char = chr(code_point)
        folded = char.casefold()
        if not 0xD800 <= code_point <= 0xDFFF and len(folded) == 1 and folded != char:
            assert {*fold_case(((code_point, code_point),))} == {*fold_case(((ord(folded), ord(folded)),))}, hex(code_point)
    assert fold_case(((0x30, 0x39),)) == ((0x30, 0x39),)


def test_categories_agree_with_unicodedata():
    """Up to the code points that one of the two versions of Unicode does not know, and the few that changed category since."""
    changed = 0
    for category in ("Lu", "Ll", "Lo", "Nd", "Mn", "Sm", "Po", "Zs", "Cf"):
        ranges = property_ranges(category)
        here = {c for low, high in ranges for c in range(low, high + 1)}
        changed += sum(
            (unicodedata.category(chr(c)) == category) != (c in here)
            for c in range(0x3000)
            if unicodedata.category(chr(c)) != "Cn"
        )
    assert changed < 20


def test_set_operations():
    a, b = ((10, 20), (30, 40)), ((15, 35),)
    assert union(a, b) == ((10, 40),)
    assert intersection(a, b) == ((15, 20), (30, 35))
    assert difference(a, b) == ((10, 14), (36, 40))


# --- front end ---------------------------------------------------------------------------------------------------------------


def test_compile_regex():
    ir = compile_regex("[a-c&&[^b]]+")
    assert len(ir.lexemes) == 1
    assert ir.rules == [(ir.start, (~0,))]
    assert [accepts(ir.lexemes[0], t) for t in (b"ac", b"b", b"")] == [True, False, False]
    assert accepts(compile_regex("(?=a).", dialect="ecma").lexemes[0], b"a")
    with pytest.raises(GrammarError, match=r"the regular expression matches nothing: found 'a\^b'"):
        compile_regex("a^b")


def test_compile_choice():
    ir = compile_choice(["b", "a", "b", "", "é"])
    assert ir.lexemes[0].args == (b"", b"a", b"b", "é".encode())
    many = compile_choice([f"value {i}" for i in range(10_000)])
    assert len(many.lexemes) == 1
    assert len(many.lexemes[0].args) == 10_000


@pytest.mark.parametrize(
    ("choices", "text"),
    [
        ([], "bad choice: expected at least one string, found an empty list"),
        ("abc", "bad choice: expected a list of strings, found str"),
        (["a", 1], "bad choice: expected a string, found int - at index 1"),
        (["a", "b\ud800"], "bad choice: expected Unicode text, found a lone surrogate at position 1 - at index 1"),
    ],
)
def test_choice_errors(choices, text):
    with pytest.raises(GrammarError) as caught:
        compile_choice(choices)
    assert str(caught.value) == text


def test_choice_limit():
    with pytest.raises(
        LimitExceeded,
        match="the list of choices is too long: expected at most Limits.max_spec_bytes = 4, found 5 bytes - at index 2",
    ):
        compile_choice(["aa", "bb", "c"], Limits(max_spec_bytes=4))


@pytest.mark.parametrize("module", ["regex.alphabet", "regex.pattern", "regex.unicode"])
def test_examples_in_docstrings(module):
    assert doctest.testmod(importlib.import_module(f"cdplugin.{module}")).failed == 0
