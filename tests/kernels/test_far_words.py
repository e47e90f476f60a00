"""Far words (:mod:`cdplugin.kernels.masks.far_words`) and spelled runs (:mod:`cdplugin.kernels.lexer.spelled_run`).

A far word is a name that no token reads to its end; a spelled run takes a token inside a name at once. Masks and cursors
equal those of another grammar that is stepped byte by byte.
"""

from __future__ import annotations

import itertools
import random
import re
from typing import Any, TypeVar

import pytest
from engine_tools import PLAIN as TEXT
from engine_tools import at_least, cases, describe, followed, ir_of, mask, vocabulary

import cdplugin as cd
from cdplugin import expr
from cdplugin.ir import EXACT, LAZY, LONGEST, GrammarIR

NAMES = [
    "id",
    "ids",
    "name",
    "nameSpace",
    "names",
    "default",
    "description",
    "declaration",
    "x-a",
    "x-able",
    "é",
    "éa",
    "n",
    "",
]
TOKENS = [
    *(name.encode()[i:j] for name in NAMES for i in range(3) for j in range(i + 1, len(name.encode()) + 1)),
    *(name.encode()[-3:] + end for name in NAMES for end in (b'"', b'":', b'": ')),
    *(b'"' + name.encode()[:k] for name in NAMES for k in (1, 3)),
    *(b'"id":', b'{"', b'{"n', b'"id"', b'", "', b'": ', b"\\", b"\\u", b"\\u00", b"\\u006", b"\\u0069", b"d\\u", b"u0064"),
    *(b"escription", b"pace", b"nam", b"other", b"na\\", b'\\"', b"x-", b" ", b"  ", b"1", b"12", b", ", b"}", b"1}", b"  \n"),
    *(name.encode()[1:] + end for name in NAMES[:6] for end in (b"1", b"id", b"names", b", n", b"i")),
]
VOCAB = vocabulary(list(dict.fromkeys(t for t in TOKENS if len(t) > 1)))
COMPILER = cd.Compiler(VOCAB)


def random_schema(rng: random.Random) -> dict[str, Any]:
    """An object with some names, open or closed, beside patterns, in any order or that of the schema, perhaps one of two."""
    names = rng.sample(NAMES, rng.randrange(1, 6))
    schema: dict[str, Any] = {"type": "object", "properties": {name: {"type": "integer"} for name in names}}
    schema["required"] = rng.sample(names, rng.randrange(len(names) + 1))
    schema["additionalProperties"] = rng.choice([False, True, {"type": "integer"}, {"type": "integer"}])
    if rng.random() < 0.3:
        schema["patternProperties"] = {rng.choice(["^x-", "^[a-m]+$", "s$"]): {"type": "integer"}}
    if rng.random() < 0.2:
        return {"anyOf": [schema, {"type": "object", "properties": {rng.choice(NAMES): {"enum": [1, "names"]}}}]}
    return schema if rng.random() < 0.7 else {"enum": [*NAMES, *rng.sample(NAMES, 2), 12]}


def random_spec(rng: random.Random) -> cd.Spec:
    """Such a schema, or names in front of others, of which some begin like others."""
    if rng.random() < 0.7:
        return cd.JsonSchema(random_schema(rng), property_order=rng.choice(["any", "schema"]))
    names = "|".join(rng.sample(NAMES[:-1], rng.randrange(2, 7)))
    return cd.Regex(
        rng.choice([f"({names})[0-9]*", f"({names})(, ({names}))*", f"({names}|[a-z]+-)1?", f"({names})(s2|S3|ble4)?"])
    )


def stepped(matcher: cd.Matcher) -> set[int]:
    """The mask by following the bytes of each token, one by one."""
    allowed = {token for token in VOCAB.eos_token_ids if matcher.is_accepting()}
    for token, text in enumerate(VOCAB.tokens):
        if text:
            fork = matcher.fork()
            if all(fork.accept_token(byte) for byte in text):
                allowed.add(token)
    return allowed


@pytest.mark.parametrize("seed", range(6))
def test_masks_and_cursors_are_what_bytes_say(seed: int) -> None:
    rng = random.Random(seed)
    compared = 0
    for _ in range(cases(30, 2)):
        spec = random_spec(rng)
        grammars = [COMPILER.compile(spec), cd.Compiler(VOCAB).compile(spec)]
        for _ in range(cases(3, 1)):
            whole, bytewise = (grammar.matcher() for grammar in grammars)
            for _ in range(cases(12, 5)):
                # not at each place: a token is taken at once only where no mask has followed its bytes
                allowed = mask(whole) if rng.random() < 0.7 else None
                expected = stepped(bytewise)
                if allowed is not None:
                    assert allowed == expected, describe(VOCAB, VOCAB.decode(whole.tokens), allowed, expected)
                compared += 1
                choices = sorted(expected - set(VOCAB.eos_token_ids))
                if not choices:
                    break
                long = [token for token in choices if len(VOCAB.tokens[token] or b"") > 1]
                token = rng.choice(long if long and rng.random() < 0.8 else choices)
                assert whole.accept_token(token)
                assert all(bytewise.accept_token(byte) for byte in VOCAB.tokens[token] or b"")
                assert whole.is_accepting() == bytewise.is_accepting()
    assert compared > at_least(300, 5)


LETTER, QUOTE = expr.byte_range(97, 122), expr.literal(b'"')
NOT_ID = expr.both(expr.repeat(LETTER), expr.complement(expr.literals([b"id"])))


@pytest.mark.parametrize(
    ("text", "alternatives"),
    [
        (b"i", [[expr.literal(b"id"), expr.literal(b"1")], [expr.cat(expr.repeat(LETTER), QUOTE)]]),
        (b"", [[expr.cat(NOT_ID, QUOTE)]]),
        (b"", [[expr.cat(QUOTE, NOT_ID, QUOTE)]]),
        (b"", [[expr.cat(expr.both(expr.repeat(LETTER, 0, 3), expr.complement(expr.literals([b"nam"]))), QUOTE)]]),
    ],
    ids=["a word beside a text", "an exception of a text", "an exception behind a quote", "an exception of a short text"],
)
def test_a_token_that_reads_it_to_its_end(text: bytes, alternatives: list[list[str | expr.Expr]]) -> None:
    """The word, or the exception, is all that allows or forbids the token."""
    grammars = [cd.Compiler(VOCAB).compile_ir(ir_of({"S": alternatives})) for _ in range(2)]
    whole, bytewise = (grammar.matcher() for grammar in grammars)
    assert whole.accept_tokens(text) == bytewise.accept_tokens(text) == len(text)
    allowed, expected = mask(whole), stepped(bytewise)
    assert allowed == expected, describe(VOCAB, text, allowed, expected)


@pytest.mark.parametrize("text", [b"ids2", b"idss2", b"names2", b"namess2", b"id", b"names", b"description2", b"names3"])
def test_a_name_that_another_begins_with(text: bytes) -> None:
    """A token reads the longer name, or the shorter one and what may follow it: both ways are kept."""
    pattern = "(id|ids|name|names|description)(s2|3)"
    names = expr.literals([b"id", b"ids", b"name", b"names", b"description"])
    ir = ir_of({"S": [[expr.cat(names, expr.alt(expr.literal(b"s2"), expr.literal(b"3")))]]})
    for token in (b"ids", b"names", b"descr", b"des", b"id", text):
        if text.startswith(token) and token in VOCAB.tokens:
            matcher = cd.Compiler(VOCAB).compile_ir(ir).matcher()
            assert matcher.accept_token(VOCAB.tokens.index(token))
            followed = matcher.accept_tokens(text[len(token) :]) == len(text) - len(token)
            assert (followed and matcher.is_accepting()) == bool(re.fullmatch(pattern, text.decode()))


@pytest.mark.parametrize("is_open", [False, True])
def test_the_middle_of_a_name_makes_one_state(is_open: bool) -> None:
    """A mask in the middle of names walks no state of theirs, and a token of several bytes makes one."""
    schema = {"type": "object", "properties": {"description": {"type": "integer"}, "default": {"type": "integer"}}}
    grammar = COMPILER.compile(cd.JsonSchema({**schema, "additionalProperties": is_open}))
    if is_open:  # what any text needs is found before
        other = grammar.matcher()
        assert other.accept_tokens(b'{"other') == len(b'{"other')
        mask(other)
    matcher = grammar.matcher()
    assert matcher.accept_tokens(b'{"') == 2
    before = grammar.counters()
    assert matcher.accept_token(256 + list(VOCAB.tokens[256:]).index(b"des"))
    mask(matcher)
    after = grammar.counters()
    assert after["lexer_states"] - before["lexer_states"] == 1
    assert after["lexer_transitions"] - before["lexer_transitions"] == 0
    assert after["bases"] - before["bases"] <= (0 if is_open else 1)


SHORT = [bytes(one) for n in (2, 3) for one in itertools.product(b'ab"1', repeat=n)]
SHORT += [*(t.encode() for t in ("é", "aé", "éb", 'é"', "abab", "baba", "abba")), b"a\xc3", b"\xa9a"]
FEW = frozenset('ab"1é'.encode())
SOME = [bytes(one) for n in (1, 2, 3, 4) for one in itertools.product(b"ab", repeat=n)]
PLAIN = expr.utf8_ranges(((0x20, 0x21), (0x23, 0x10FFFF)))
T = TypeVar("T")
OTHERS = [expr.utf8_ranges(((0x61, 0x7A), (0xE9, 0xE9))), expr.alt(expr.literal(b"a"), expr.literal(b"ba"))]
TAILS = [expr.byte_class(b'"1'), expr.literal(b"1"), expr.byte_class(b"b"), expr.cat(expr.optional(expr.literal(b"1")), QUOTE)]


def random_lexeme(rng: random.Random) -> expr.Expr:
    """Words, or a text without words; by and by in a way that no front end writes."""

    def usually(usual: T, others: list[T]) -> T:
        return usual if rng.random() < 0.75 else rng.choice(others)

    def words() -> expr.Expr:
        return expr.literals(rng.sample(SOME, rng.randrange(1, 4)))

    def text() -> expr.Expr:
        return expr.repeat(usually(PLAIN, OTHERS), usually(0, [1, 2]), usually(None, [3]))

    def without() -> expr.Expr:
        excluded = usually(words(), [expr.cat(words(), text()), expr.byte_class(b"ab")])
        return expr.both(*usually([text()], [[text(), text()]]), expr.complement(excluded))

    parts = usually(
        [rng.choice([words, without])()], [[QUOTE, without()], [without(), without()], [words(), without()], [text()]]
    )
    return expr.cat(*parts, *usually([QUOTE], [[], *([tail] for tail in TAILS)]))


def by_bytes(matcher: cd.Matcher, tokens: list[bytes | None]) -> set[int]:
    """The tokens of a few bytes that a matcher takes byte by byte."""
    reached: dict[bytes, cd.Matcher | None] = {b"": matcher}

    def after(text: bytes) -> cd.Matcher | None:
        if text not in reached:
            before = after(text[:-1])
            fork = None if before is None else before.fork()
            reached[text] = fork if fork is not None and fork.accept_token(text[-1]) else None
        return reached[text]

    return {token for token, text in enumerate(tokens) if text and FEW.issuperset(text) and after(text) is not None}


@pytest.mark.parametrize("excluded", [[b"aab"], [b"aaab", b"aab", b"bbb"], [b"aa"], [b"aab", b"aa"]])
def test_an_end_inside_a_token_that_is_taken_whole(excluded: list[bytes]) -> None:
    """Of a short text whole tokens are allowed, so its base has no ends in them. What is made beside it has."""
    vocab = vocabulary([b"aab", b"aa", b"aaa", b"aabb", b"bbb"])
    lexeme = expr.both(expr.repeat(PLAIN, 2, 3), expr.complement(expr.literals(excluded)))
    for rules in ([[lexeme, lexeme]], [[lexeme, expr.literal(b"b")]], [[lexeme, expr.literal(b"bbb")], [expr.literal(b"ba")]]):
        whole, bytewise = (cd.Compiler(vocab).compile_ir(ir_of({"S": rules})).matcher() for _ in range(2))
        for byte in b"ab":
            found = {token for token in mask(whole) if FEW.issuperset(vocab.tokens[token] or b"<")}
            assert found == by_bytes(bytewise, vocab.tokens)
            assert whole.accept_token(byte) and bytewise.accept_token(byte)


def test_ends_one_below_the_other() -> None:
    """``1`` and ``1a`` may both end the long text. Of what follows, one lexeme ends at ``1a"`` if it began behind the one, and
    another if behind the other: the token that goes on behind either is allowed.
    """
    text, words = expr.repeat(TEXT), expr.literals([b"a", b"ab"])
    without = expr.both(expr.repeat(TEXT, 0, 7), expr.complement(expr.cat(text, words, text)))
    named = expr.both(expr.repeat(OTHERS[0]), expr.complement(expr.literals([b"aba", b"abb"])))
    tokens = b'1a"" 1a"1 1a1" 1ba" 1bb" 1b"a 1b"b 1b"" 1b"1 1b1" 1"aa 1"ab'.split()
    ir = GrammarIR()
    start, rest = ir.nonterminal("S"), ir.nonterminal("T")
    word = ir.lexeme(expr.cat(words, QUOTE), lexing=LAZY)
    other = ir.lexeme(expr.cat(without, QUOTE), lexing=LONGEST)
    name = ir.lexeme(expr.cat(expr.literal(b"bbba"), named), lexing=LONGEST)
    long = ir.lexeme(expr.repeat(PLAIN, 9), lexing=EXACT)
    ir.start = start
    for right in ((word, rest), (other, rest), (long, name, rest), (long, long, rest)):
        ir.rule(start, right)
    ir.rule(rest, [other])
    ir.rule(rest, [word, rest])
    vocab = vocabulary(tokens)
    matcher = cd.Compiler(vocab).compile_ir(ir).matcher()
    for byte in b"b" * 17:
        assert matcher.accept_token(byte)
    assert mask(matcher) == followed(matcher)


@pytest.mark.parametrize("seed", range(8))
def test_words_and_texts_of_any_shape(seed: int) -> None:
    """Tokens that read words and exceptions to their ends, and beyond, of lexemes that no front end may ever make."""
    rng = random.Random(seed)
    some = vocabulary([text for text in SHORT if rng.random() < 0.5])
    compilers = [cd.Compiler(some) for _ in range(2)]
    compared = 0
    for _ in range(cases(80, 20, 40)):
        ir = GrammarIR()
        ir.start = ir.nonterminal("S")
        kinds = rng.choice([[EXACT], [EXACT], [EXACT], [LONGEST], [EXACT, LONGEST]])
        lexemes = [ir.lexeme(random_lexeme(rng), lexing=rng.choice(kinds)) for _ in range(rng.choice([1, 2, 3]))]
        for one in lexemes:
            ir.rule(ir.start, [one] if rng.random() < 0.7 else [one, rng.choice(lexemes)])
        try:
            whole, bytewise = (compiler.compile_ir(ir).matcher() for compiler in compilers)
        except cd.GrammarError:
            continue
        for step in range(4):
            allowed = mask(whole) if rng.random() < (0.6 if step else 0.3) else None
            expected = by_bytes(bytewise, some.tokens)
            if allowed is not None:
                found = {token for token in allowed if FEW.issuperset(some.tokens[token] or b"<")}
                assert found == expected, describe(some, some.decode(whole.tokens), found, expected)
                compared += 1
            assert whole.is_accepting() == bytewise.is_accepting()
            if not expected:
                break
            token = max(rng.choices(sorted(expected), k=2), key=lambda token: len(some.tokens[token] or b""))
            assert whole.accept_token(token)
            assert all(bytewise.accept_token(byte) for byte in some.tokens[token] or b"")
    assert compared > at_least(80, 10)
