"""Saturation, and plain text found by search: masks equal stepping each token, with slices on and off.

Stepping uses no saturation, slices or bases, so it is the reference here. Some masks are compared with naive too.
"""

from __future__ import annotations

import itertools
import random
import re

import pytest
from engine_tools import (
    PLAIN,
    at_least,
    cases,
    describe,
    followed,
    ids_of,
    ir_of,
    mask,
    mask_bits,
    members,
    naive_mask,
    seeds,
    vocabulary,
    without_slices,
)
from naive import Naive
from naive_regex import accepts

import cdplugin as cd
from cdplugin import expr
from cdplugin.expr import Expr
from cdplugin.ir import GrammarIR
from cdplugin.kernels.jit import decorators as jit
from cdplugin.kernels.regex import saturate
from cdplugin.kernels.store import layout

TOKENS = [
    *(b"a", b"b", b"z", b"1", b"2", b"-", b"@", b".", b"!", b" ", b",", b'"', b"\\", b"n", b"\n", b"\xc3", b"\xa9", b"\x7f"),
    *(b"ab", b"aa", b" a", b"a ", b"  ", b"a.b", b"a@", b"@b", b"12", b"-1", b"a, b", b"1-2", b"abz", b" ab ", b"a b a"),
    *(b"aaaa", b"aaaaa", b"aaaaaa", b"aaaaab", b"      ", b"a a a ", b"ab ab ", b"a.b.a.", b"121212", b"a@b.az", b"zzzzzz"),
    *(b'a"', b'aa"', b'"a', b'","', b'a",', b'aaaaa"', b'"aaaaa', b"\\n", b'\\"', b"a\\n", b"aaaa\\", b'a"a', b'""'),
    *("é".encode(), "éé".encode(), "aé".encode(), "éa b".encode(), "🙂".encode(), "ééé é".encode(), "éé".encode()[:3]),
]
VOCAB = vocabulary(TOKENS)
LONGEST = max(map(len, TOKENS))
WORD, SPACE = expr.byte_class(b"ab1-@.z\xc3\xa9"), expr.byte_class(b" ")
ESCAPED = expr.alt(PLAIN, expr.cat(expr.literal(b"\\"), expr.byte_class(b'n"\\')))
QUOTE = expr.literal(b'"')
COMPILER = cd.Compiler(VOCAB)


def pattern(text: str) -> Expr:
    """A regular expression over plain text."""
    ir = cd.Regex(text).to_ir(cd.Limits())
    (lexeme,) = ir.lexemes
    return lexeme


def words(most: int) -> Expr:
    """``(\\S+\\s+){0,most}\\S+``"""
    word = expr.repeat(WORD, 1)
    return expr.cat(expr.repeat(expr.cat(word, expr.repeat(SPACE, 1)), 0, most), word)


PATTERNS = [
    *(
        pattern(".*ab.*"),
        pattern("[a-z]+@[a-z]+(\\.[a-z]+)*"),
        pattern("[^a]*"),
        pattern("(a|b|é)*z?"),
        pattern("[^ ]+( [^ ]+)*"),
    ),
    *(pattern("(.*, )?.*"), pattern(".*a.{3}"), pattern("([0-9]{2}-){3}.*"), pattern("(abz| )*"), pattern("aaa|aab|[^a].*")),
]


def counts(rng: random.Random) -> int:
    """Around the longest token, and far above it."""
    return max(1, rng.choice([2, LONGEST - 2, LONGEST - 1, LONGEST, LONGEST + 1, LONGEST + 2, 2 * LONGEST + 3, 100_000]))


def random_lexeme(rng: random.Random) -> Expr:
    """Text whose length is counted, beside a pattern, less some words, in words, or in nested counts."""
    n = counts(rng)
    some = rng.choice([PLAIN, PLAIN, ESCAPED, expr.byte_class(b"ab "), expr.cat(WORD, WORD)])
    low = rng.choice([0, 0, 1, n // 2, max(n - 1, 0), n])
    shape = rng.randrange(12)
    if shape == 0:
        text = expr.repeat(some, low, n)
    elif shape in (1, 2):
        text = expr.both(expr.repeat(some, 0 if rng.random() < 0.8 else low, n), rng.choice(PATTERNS))
    elif shape == 3:
        text = expr.both(expr.repeat(some, 0, n), rng.choice(PATTERNS), rng.choice(PATTERNS))
    elif shape == 4:
        text = expr.both(expr.repeat(some, low, n), expr.complement(expr.literals([b"", b"aa", b"ab ab ", b"aaaaaa"])))
    elif shape == 5:
        text = words(rng.choice([0, 1, 2, 3, 30, n]))
    elif shape == 6:
        text = expr.both(expr.repeat(PLAIN, 0, n), words(rng.choice([1, 3, 99])))
    elif shape == 7:
        text = expr.repeat(expr.cat(expr.repeat(some, 1, rng.choice([2, 5, n])), SPACE), 0, rng.choice([2, 3, n]))
    elif shape == 8:
        text = expr.cat(expr.both(expr.repeat(PLAIN, 0, n), rng.choice(PATTERNS)), expr.literal(b","), expr.repeat(PLAIN, 0, n))
    elif shape == 9:  # what is begun of one alternative stands before its count
        turn = expr.cat(expr.literal(b"ab"), expr.repeat(WORD, 0, counts(rng)), SPACE)
        text = expr.alt(expr.EPSILON, words(n), expr.cat(expr.repeat(turn, low // 2, n), SPACE), expr.repeat(some, low, n))
    elif shape == 10:  # counts behind each other, and turns of three bytes and more
        turn = expr.cat(WORD, expr.repeat(some, 1, 2), SPACE)
        text = expr.cat(expr.repeat(turn, low // 3, max(n // 3, 1)), expr.repeat(SPACE, 0, n), expr.repeat(some, low, n))
    else:
        most = expr.repeat(PLAIN, 0, rng.choice([2 * LONGEST, 5 * LONGEST, 100_000]))
        turns = expr.repeat(expr.literal(b"ab "), low, n)
        text = expr.both(most, expr.alt(expr.EPSILON, words(rng.choice([2, 40, 99])), turns))
    return text


def random_ir(rng: random.Random) -> GrammarIR:
    """One or two such lexemes, in quotes or not, and something after them."""
    first, second = random_lexeme(rng), random_lexeme(rng)
    if rng.random() < 0.7:
        first = expr.cat(QUOTE, first, QUOTE)
    after = expr.literal(rng.choice([b",", b"\n", b"a", b'"']))
    shape = rng.randrange(3)
    if shape == 0:
        return ir_of({"S": [[first, "T"]], "T": [[after], []]})
    if shape == 1:
        return ir_of({"S": [[first, after, "S"], [first]]})
    return ir_of({"S": [[first, after], [second]]})


def compiled(ir: GrammarIR) -> cd.Grammar | None:
    """The grammar; None if it matches nothing, or if finding that out takes 100,000 derivatives."""
    try:
        return COMPILER.compile_ir(ir)
    except cd.GrammarError as error:
        if "unsatisfiable" not in str(error) and "Limits.emptiness_fuel" not in str(error):
            raise
    return None


def check(ir: GrammarIR, rng: random.Random, walks: int, steps: int) -> int:
    """At every place of some walks: mask, mask without slices, mask in a grammar that has seen nothing, each token stepped."""
    grammar = compiled(ir)
    if grammar is None:
        return 0
    plain = without_slices(COMPILER.compile_ir(ir))
    compared = 0
    for _ in range(walks):
        matcher, other = grammar.matcher(), plain.matcher()
        for _ in range(steps):
            bits = mask_bits(matcher)
            allowed = members(bits)
            expected = followed(other)
            assert allowed == expected, describe(VOCAB, VOCAB.decode(matcher.tokens), allowed, expected)
            assert mask_bits(other) == bits, "slices on differ from off"
            compared += 1
            choices = sorted(allowed - set(VOCAB.eos_token_ids))
            if not choices:
                break
            long = [t for t in choices if len(VOCAB.tokens[t] or b"") > 3]
            token = rng.choice(long if long and rng.random() < 0.6 else choices)
            assert matcher.accept_token(token) and other.accept_token(token)
    return compared


@pytest.mark.parametrize("seed", range(5))
def test_counted_text(seed: int) -> None:
    rng = random.Random(seed)
    compared = sum(check(random_ir(rng), rng, cases(3, 2, 3), cases(10, 5)) for _ in range(cases(90, 5)))
    assert compared > at_least(500, 10)


@pytest.mark.parametrize("n", [1, LONGEST - 1, LONGEST, LONGEST + 1, 2 * LONGEST])
@pytest.mark.parametrize("number", range(len(PATTERNS)))
def test_a_pattern_of_bounded_length(number: int, n: int) -> None:
    """``"`` (C{0,n} & P) ``"``: near its end the bound decides, whether or not the pattern could be ended in time."""
    if not cases(1, 0) and (number * 7 + n) % 6:
        pytest.skip("some are enough where kernels are slow")
    rng = random.Random(number)
    ir = ir_of({"S": [[expr.cat(QUOTE, expr.both(expr.repeat(PLAIN, 0, n), PATTERNS[number]), QUOTE)]]})
    check(ir, rng, cases(6, 2), cases(14, 6))


@pytest.mark.parametrize("n", [LONGEST, LONGEST + 1, LONGEST + 2])
@pytest.mark.parametrize("ending", [b"-,-,-,", b"121212-,"])
def test_a_pattern_whose_ending_takes_room(ending: bytes, n: int) -> None:
    """``C{0,n} & C* ending``: the bound counts where a token *and* the ending reach it, though no token alone does."""
    text = expr.cat(expr.repeat(PLAIN), expr.literal(ending))
    ir = ir_of({"S": [[QUOTE, expr.both(expr.repeat(PLAIN, 0, n), text), QUOTE]]})
    matcher, other = (COMPILER.compile_ir(ir).matcher() for _ in range(2))
    for byte in b'"a':
        assert matcher.accept_token(byte) and other.accept_token(byte)
        allowed = mask(matcher)
        assert allowed == followed(other)
        assert 256 + TOKENS.index(b"ab ab ") not in allowed


@pytest.mark.parametrize("number", range(len(PATTERNS)))
def test_against_naive(number: int) -> None:
    """Few characters, for naive's sake: a bound within reach of a token."""
    rng = random.Random(number)
    text = expr.both(expr.repeat(PLAIN, 0, 3), PATTERNS[number])
    ir = ir_of({"S": [[QUOTE, text, QUOTE], [expr.repeat(SPACE, 2, 3), words(1)]]})
    naive = Naive(ir)
    grammar = COMPILER.compile_ir(ir)
    for _ in range(cases(3, 1)):
        matcher = grammar.matcher()
        for _ in range(cases(5, 2)):
            prefix = VOCAB.decode(matcher.tokens)
            allowed, expected = mask(matcher), naive_mask(naive, VOCAB, prefix)
            assert allowed == expected, describe(VOCAB, prefix, allowed, expected)
            choices = sorted(allowed - set(VOCAB.eos_token_ids))
            if not choices or not matcher.accept_token(rng.choice(choices)):
                break


# --- what saturation is for --------------------------------------------------------------------------------------------------


def masks_along(ir: GrammarIR, text: bytes) -> tuple[int, int]:
    """Distinct masks and bases made while reading ``text`` byte by byte."""
    grammar = COMPILER.compile_ir(ir)
    matcher = grammar.matcher()
    mask(matcher)
    for byte in text:
        assert matcher.accept_token(byte)
        mask(matcher)
    header = grammar._arena.header  # counts of what is stored: a step that has to grow a table is done twice
    return int(header[layout.N_MASKS]), int(header[layout.N_BASES])


@pytest.mark.parametrize("high", [10 * LONGEST, 100_000, None])
@pytest.mark.parametrize("low", [0, 10 * LONGEST])
def test_as_many_masks_as_a_token_is_long(low: int, high: int | None) -> None:
    """However many characters are left, states farther from a bound than a token reaches have one mask."""
    ir = ir_of({"S": [[expr.cat(QUOTE, expr.repeat(PLAIN, low, high), QUOTE)]]})
    misses, bases = masks_along(ir, b'"' + b"a" * (6 * LONGEST))
    assert misses <= 4 and bases <= 4


def test_a_count_beside_a_pattern_is_out_of_reach() -> None:
    texts = [PATTERNS[1], pattern("[a-z]+( [a-z]+)*"), pattern("(a|b|é)*z?")]
    for text in texts:
        bounded = ir_of({"S": [[expr.cat(QUOTE, expr.both(expr.repeat(PLAIN, 0, 100_000), text), QUOTE)]]})
        free = ir_of({"S": [[expr.cat(QUOTE, text, QUOTE)]]})
        read = b'"' + b"ab" * (2 * LONGEST)
        assert masks_along(bounded, read) == masks_along(free, read)


def test_any_text_beside_a_pattern_takes_nothing_away() -> None:
    """``C* & P`` where P is made of such characters is P, whose states a walk shares with those of P alone."""
    text = expr.cat(expr.repeat(PLAIN), expr.alt(expr.literal(b"ab"), expr.literal(b"zz")), expr.repeat(PLAIN))
    states = []
    for content in (text, expr.both(expr.repeat(PLAIN), text)):
        grammar = COMPILER.compile_ir(ir_of({"S": [[expr.cat(QUOTE, content, QUOTE)]]}))
        matcher = grammar.matcher()
        assert matcher.accept_token(ord('"'))
        mask(matcher)
        states.append(int(grammar._arena.header[layout.N_LEXER_STATES]))
    assert states[1] <= states[0] + 2


@pytest.mark.parametrize("turns", [LONGEST // 2 + 1, 10 * LONGEST])
@pytest.mark.parametrize("most", [None, 100_000])
def test_counts_of_turns_are_cut_where_one_has_begun(turns: int, most: int | None) -> None:
    """Inside a turn, its rest stands before the count; and a turn of two bytes is two bytes long."""
    word, spaces = expr.repeat(expr.byte_class(b"ab"), 1), expr.repeat(SPACE, 1)
    free = expr.cat(expr.repeat(expr.cat(word, spaces)), word)
    text = expr.alt(expr.repeat(expr.literal(b"!"), 0, turns), expr.cat(expr.repeat(expr.cat(word, spaces), 0, turns), word))
    if most is not None:
        text = expr.both(expr.repeat(PLAIN, 0, most), text)
    read = b'"' + b"ab " * (turns - LONGEST // 2) + b"a"
    misses, bases = masks_along(ir_of({"S": [[expr.cat(QUOTE, free, QUOTE)]]}), read)
    found = masks_along(ir_of({"S": [[expr.cat(QUOTE, text, QUOTE)]]}), read)
    assert found <= (misses + 4, bases + 4)


@pytest.mark.parametrize("text", [pattern("([^ ]+ )*.*(ab)?.*"), expr.repeat(PLAIN)], ids=["search", "structure"])
def test_plain_text_is_not_walked(text: Expr) -> None:
    """That any text goes on is told by the structure, or found by the search over lexer states."""
    ir = ir_of({"S": [[expr.cat(QUOTE, text, QUOTE)]]})
    walked = {}
    for name, change in (("slices", lambda g: g), ("walk", without_slices)):
        grammar = change(COMPILER.compile_ir(ir))
        matcher = grammar.matcher()
        assert matcher.accept_tokens([0x22, 256 + TOKENS.index(b"ab")]) == 2
        mask(matcher)
        walked[name] = grammar.counters()["nodes_walked"]
    assert walked["slices"] <= len(VOCAB.trie) - VOCAB.slice_end < walked["walk"]


def test_saturated_states_are_kept() -> None:
    """The state itself keeps its counts: they decide what may follow a long text, though its masks are shared."""
    ir = ir_of({"S": [[expr.repeat(expr.byte_class(b"a"), 3 * LONGEST, 4 * LONGEST)]]})
    grammar = COMPILER.compile_ir(ir)
    matcher = grammar.matcher()
    a, end = ord("a"), VOCAB.eos_token_ids[0]
    for n in range(4 * LONGEST + 1):
        assert (end in mask(matcher)) == (n >= 3 * LONGEST) and (a in mask(matcher)) == (n < 4 * LONGEST)
        assert matcher.accept_token(a) == (n < 4 * LONGEST)
    assert grammar._arena.header[layout.MAX_DEPTH] == LONGEST


@pytest.mark.parametrize("seed", seeds(12, 3))
def test_tokens_of_bounded_text_are_its_characters(seed: int) -> None:
    """A token of plain characters is taken at once: ``re`` says which tokens a bounded text has room for."""
    rng = random.Random(seed)
    low = rng.randrange(5)
    high = low + rng.randrange(30)
    grammar = COMPILER.compile_ir(ir_of({"S": [[expr.cat(QUOTE, expr.repeat(PLAIN, low, high), QUOTE)]]}))
    whole = {t: text.decode() for t in range(256, 256 + len(TOKENS)) if is_text(text := TOKENS[t - 256])}
    plain = '[^"\\\\\x00-\x1f\x7f]'
    complete, begun = re.compile(f'"{plain}{{{low},{high}}}"'), re.compile(f'"{plain}{{0,{high}}}')
    for _ in range(cases(40, 4)):
        matcher, text = grammar.matcher(), '"'
        assert matcher.accept_token(ord('"'))
        while len(text) < high + 3:
            token = rng.choice(sorted(whole))
            after = text + whole[token]
            legal = bool(complete.fullmatch(after) or begun.fullmatch(after))
            assert matcher.accept_token(token) == legal, after
            if legal:
                text = after
                assert matcher.is_accepting() == bool(complete.fullmatch(text))
                assert (ord('"') in mask(matcher)) == bool(complete.fullmatch(text + '"'))
            elif rng.random() < 0.2:
                break


def is_text(text: bytes) -> bool:
    """Whether these are whole characters."""
    try:
        return bool(text.decode())
    except UnicodeDecodeError:
        return False


def random_sequence(rng: random.Random, character: Expr, depth: int = 2) -> Expr:
    """What mostly is a sequence of ``character``: some of it, in sequence, chosen from and repeated."""
    shape = rng.randrange(6 if depth else 3)
    if shape <= 1:
        return rng.choice([character, expr.byte_class(b"a"), expr.literal(b"ba"), expr.literal(b"\xc3\xa9")])
    if shape == 2:
        return rng.choice([expr.byte_class(b"\xc3"), expr.literal(b"\xa9"), expr.literals([b"ab", b"\xc3\xa9a", b"b"])])
    parts = [random_sequence(rng, character, depth - 1) for _ in range(rng.randint(1, 3))]
    if shape == 5:
        low = rng.randint(0, 1)
        return expr.repeat(parts[0], low, rng.choice([low + 1, None]))
    return expr.cat(*parts) if shape == 3 else expr.alt(*parts)


@pytest.mark.skipif(not jit.DISABLED, reason="an inner kernel is called")
def test_what_is_contained_has_no_other_words() -> None:
    rng = random.Random(11)
    texts = [bytes(text) for n in range(6) for text in itertools.product(b"ab\xc3\xa9", repeat=n)]
    n_contained = n_not = 0
    for _ in range(cases(300, 40)):
        character = rng.choice([expr.alt(expr.byte_class(b"ab"), expr.literal(b"\xc3\xa9")), expr.byte_class(b"ab")])
        tree = random_sequence(rng, character)
        arena, (e, r) = ids_of(tree, character)
        found = saturate.is_contained(arena.address, e, r)
        while found < 0:
            arena.recover(found)
            found = saturate.is_contained(arena.address, e, r)
        is_so = all(accepts(expr.repeat(character), text) for text in texts if accepts(tree, text))
        # such small parts are compared whole, so it is seen wherever it is so
        assert found == is_so, tree
        n_contained += found
        n_not += not found
    assert min(n_contained, n_not) > at_least(50, 5)


def test_what_was_contained_is_not_compared_again() -> None:
    """A pattern under a length, read byte by byte: what is left of it is made of parts that were compared (1,180 derivatives
    when each rest was compared as a whole).
    """
    pattern = (
        "^([a-z][a-z][0-9])([b-z][a-z][1-9])([c-z][a-z][0-9])(d[a-z][0-9])(e[a-z][0-9])[f-z][a-z][0-9][g-z][h-z][i-z][j-z]*$"
    )
    vocab = vocabulary([bytes([byte]) for byte in range(32, 127)])
    grammar = cd.Compiler(vocab).compile(cd.JsonSchema({"type": "string", "pattern": pattern, "maxLength": 1000}))
    matcher = grammar.matcher()
    bitmask = cd.allocate_token_bitmask(1, vocab.size)
    for byte in b'"ab1bb1cc1da1ee1ff1ghijjjj"':
        matcher.fill_next_token_bitmask(bitmask, 0)
        assert matcher.accept_token(vocab.tokens.index(bytes([byte])))
    assert grammar.counters()["derivatives"] < 600
