"""Infill by example: places, gaps, slots, canvases, undo, completions, errors."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Sequence

import numpy as np
import pytest
from engine_tools import ALL_BYTES, vocabulary

import cdplugin as cd
from cdplugin.infill.session import InfillSession
from cdplugin.ir import GrammarIR, TokenSet

TOKENS = [b"12", b"+1", b"1=", b'{"', b'": ', b'", "', b"true", b"ab"]
SUM = cd.Regex(r"[0-9]+(\+[0-9]+)*=[0-9]+")
PERSON = cd.JsonSchema(
    {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "ok": {"type": "boolean"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
)


@pytest.fixture(scope="module")
def vocab() -> cd.Vocabulary:
    return vocabulary(TOKENS)


@pytest.fixture(scope="module")
def sums(vocab: cd.Vocabulary) -> cd.Infill:
    return cd.Infill(cd.Compiler(vocab).compile(SUM))


@pytest.fixture(scope="module")
def person(vocab: cd.Vocabulary) -> cd.Infill:
    return cd.Infill(cd.Compiler(vocab).compile(PERSON))


def words(session: InfillSession, place: int) -> set[bytes]:
    """The tokens of a mask, end tokens as b"<end>"."""
    vocab = session._infill.vocab
    bits = np.unpackbits(session.mask(place).view(np.uint8), bitorder="little")
    return {b"<end>" if t in vocab.eos_token_ids else vocab.tokens[t] or b"" for t in np.flatnonzero(bits).tolist()}


DIGITS = {bytes([b]) for b in b"0123456789"} | {b"12"}


def test_gap_and_slots(sums: cd.Infill) -> None:
    s = sums.new(["1", cd.GAP, "=", cd.Slots(2)])
    assert s.completable() and s.open_places() == [0, 1, 2] and s.text() is None
    assert s.open_gaps() == [0] and s.open_slots() == [1, 2]
    assert words(s, 0) == DIGITS | {b"+", b"+1"}
    assert words(s, 1) == words(s, 2) == DIGITS
    assert s.insert(0, ord("+")) and not s.close(0), "a sum must go on"
    assert not s.insert(0, ord("="))
    assert s.insert(0, ord("2")) and s.close(0) and s.set(2, ord("9")) and s.set(1, 256)
    assert s.text() == "1+2=129" and s.open_places() == s.open_gaps() == s.open_slots() == []
    s.undo(2)
    assert s.open_places() == s.open_slots() == [1, 2] and s.text() is None
    s.undo(3)
    assert s.open_places() == [0, 1, 2]


def test_spanning_lexeme(person: cd.Infill) -> None:
    """A string may begin before a gap and end after it. The gap may be filled by members, or by nothing."""
    s = person.new(['{"name": "a', cd.GAP, 'b", "age": 3', cd.GAP, "}"])
    assert s.completable()
    assert json.loads(s.complete()) == {"name": "ab", "age": 3}
    assert not person.new(['{"name": "a', cd.GAP, '"x": 3}']).completable(), "no further names"


def test_nothing_open(sums: cd.Infill) -> None:
    assert sums.new(["1=1"]).completable() and sums.new(["1=1"]).text() == "1=1"
    assert not sums.new(["1=="]).completable()
    assert not sums.new([]).completable()
    assert sums.new(["1=1", cd.Slots(0)]).text() == "1=1"


@pytest.mark.parametrize(("length", "legal"), [(1, False), (2, True), (3, True), (9, True)])
def test_canvas_must_fit(sums: cd.Infill, length: int, legal: bool) -> None:
    """`1=` is a token, so two tokens are enough, and one is not."""
    s = sums.canvas([7] * length, 7)
    assert s.completable() == legal


def test_canvas_padding(sums: cd.Infill) -> None:
    """The text may end before the canvas does. After an end token come only end tokens."""
    vocab = sums.vocab
    end = vocab.eos_token_ids[0]
    mask = vocab.size - 2
    s = sums.canvas([mask] * 6, mask)
    assert b"<end>" not in words(s, 0) | words(s, 1) and b"<end>" in words(s, 2)
    assert s.set(3, end) and not s.set(4, ord("1")) and s.set(4, end)
    assert words(s, 2) == DIGITS | {b"<end>"}
    assert words(s, 5) == {b"<end>"} and not s.set(5, ord("1")), "behind an end token come only end tokens"
    text = s.complete(random.Random(0))
    assert "=" in text and len(text) <= 6
    assert not s.set(1, end), "nothing fits in one token"


def test_canvas_that_goes_on(sums: cd.Infill) -> None:
    mask = sums.vocab.size - 2
    assert not sums.canvas([ord("1"), mask], mask).completable()
    s = sums.canvas([ord("1"), mask], mask, end=False)
    assert s.completable() and b"+" in words(s, 1)
    assert s.text() is None and s.set(1, ord("+")) and s.text() == "1+" and not s.open_places()


@pytest.mark.parametrize("seed", range(4))
def test_random_canvases_are_finished(person: cd.Infill, seed: int) -> None:
    """Random tokens at random places: every canvas is finished, within its tokens, by a legal text."""
    rng = random.Random(seed)
    vocab = person.vocab
    mask = vocab.size - 2
    matcher = person.grammar.matcher()
    for _ in range(4):
        s = person.canvas([mask] * rng.randint(12, 30), mask)
        if not s.completable():
            continue
        while s.open_slots():
            place = rng.choice(s.open_slots())
            allowed = np.flatnonzero(np.unpackbits(s.mask(place).view(np.uint8), bitorder="little")).tolist()
            assert allowed, "a dead end"
            assert s.set(place, rng.choice(allowed))
        ids = [t for t in s.tokens() if t not in vocab.eos_token_ids]
        matcher.reset()
        assert matcher.accept_tokens(ids) == len(ids) and matcher.is_accepting(), s.text()
        json.loads(s.text() or "")


def test_complete_is_deterministic(person: cd.Infill) -> None:
    pieces = ["{", cd.GAP, "}"]
    texts = {person.new(pieces).complete(random.Random(5)) for _ in range(3)}
    assert len(texts) == 1
    with pytest.raises(ValueError, match="at most 2 tokens"):
        person.new(pieces).complete(max_tokens=2)
    with pytest.raises(ValueError, match="completable"):
        person.new(["x", cd.GAP]).complete()


@pytest.mark.filterwarnings("ignore::cdplugin.vocab.vocabulary.VocabularyWarning")
def test_a_completion_in_the_fewest_tokens() -> None:
    """The findings: tokens were counted by longest match: `xyzz` as three, and an AssertionError behind `abc`."""
    vocab = cd.Vocabulary.from_bytes([b"ab", b"abc", b"cd", b"xy", b"yz", b"x", b"yzz", b"z", b"</s>"], eos_token_ids=8)
    infill = cd.Infill(cd.Compiler(vocab).compile(cd.Regex("abcd|xyzz")))
    assert infill.new([cd.GAP]).complete(max_tokens=2) == "abcd"
    assert infill.new([cd.GAP, "z"]).complete(max_tokens=2) == "xyzz"
    whole = cd.Infill(cd.Compiler(vocab).compile(cd.Regex("xyzz")))
    assert whole.new([cd.GAP]).complete(max_tokens=2) == "xyzz"
    with pytest.raises(ValueError, match="at most 1 tokens"):
        infill.new([cd.GAP]).complete(max_tokens=1)
    unspelled = cd.Infill(cd.Compiler(vocab).compile(cd.Regex("a")))
    with pytest.raises(ValueError, match="at most 9 tokens"):
        unspelled.new([cd.GAP]).complete(max_tokens=9)


def test_what_a_rule_repeats_is_counted_before_it_is_written(vocab: cd.Vocabulary) -> None:
    """A repetition has few rules; the derivation written out may have more places than there is time for."""
    compiler = cd.Compiler(vocab)
    empty = compiler.compile(cd.Lark('start: "b" a{1000000000000}\na:'))
    assert cd.Infill(empty).new([cd.GAP]).complete() == "b"
    times = "{1000000000000}"
    for rules in (f'start: a{times}\na: "x"', f'start: a{times}\na: b{times}\nb: c{times}\nc: "x"'):
        long = compiler.compile(cd.Lark(rules))
        with pytest.raises(cd.LimitExceeded, match="takes too much work"):
            cd.Infill(long).new([cd.GAP]).complete()


def test_longest_match(vocab: cd.Vocabulary) -> None:
    """Keywords, names and what is ignored between them: `int x` needs its space, which a gap has room for."""
    lark = 'start: ("int" NAME "=" NUMBER ";")+\nNAME: /[a-z]+/\nNUMBER: /[0-9]+/\n%ignore / +/\n'
    grammar = cd.Compiler(vocab).compile(cd.Lark(lark))
    infill = cd.Infill(grammar)
    s = infill.new(["int", cd.GAP, "x", cd.GAP, ";"])
    assert s.completable()
    text = s.complete()
    matcher = grammar.matcher()
    assert matcher.accept_tokens(text.encode()) == len(text) and matcher.is_accepting(), text
    texts = ["int x = 12;int y=3;", "intx = 12;", "int x 12;", "int x = 12; ", " int x = 12;", "int x = 1 2;", "int int=1;"]
    for text in texts:
        matcher.reset()
        legal = matcher.accept_tokens(text.encode()) == len(text) and matcher.is_accepting()
        assert infill.new([text]).completable() == legal, text
    assert not infill.new(["int x = ", cd.GAP, "z;"]).completable()


def test_mask_after_a_skip(vocab: cd.Vocabulary) -> None:
    """White space that was ignored right before the place that is asked for: what was waited for before it still is."""
    lark = 'start: NUMBER ("+" NUMBER)*\nNUMBER: /[0-9]/\n%ignore " "\n'
    infill = cd.Infill(cd.Compiler(vocab).compile(cd.Lark(lark)))
    digits = {bytes([b]) for b in b"0123456789"}
    for pieces in (["1+ ", cd.GAP], ["1+  ", cd.Slots(1)], ["1 + ", cd.GAP, "+2"]):
        assert words(infill.new(pieces), 0) - {b" "} == digits, pieces


def test_skip_at_the_end(vocab: cd.Vocabulary) -> None:
    """White space may end a text where something that it may stand before could come instead: not after the last word."""
    compiler = cd.Compiler(vocab)
    sums = cd.Infill(compiler.compile(cd.Lark('start: N ("+" N)*\nN: /[0-9]/\n%ignore " "\n')))
    assert sums.new(["1+2", cd.Slots(1)]).completable() and sums.new(["1+2 "]).completable()
    s = sums.new(["1+2", cd.Slots(2), " "])
    assert b" " in words(s, 0) | words(s, 1), "no room for more than white space, and yet it may come"
    pair = cd.Infill(compiler.compile(cd.Lark('start: "(" start ")" | N\nN: /[0-9]/\n%ignore " "\n')))
    assert pair.new(["(1 )"]).completable() and not pair.new(["(1) "]).completable()
    assert not pair.new(["(1)", cd.Slots(1)]).completable()


def test_canvases_of_cpp() -> None:
    """Lexemes that compete, comments, keywords and names: random tokens finish every canvas."""
    tokens = [bytes([b]) for b in (10, *range(32, 127))] + [b"int ", b"for", b"();\n", b" = ", b"++", b"{\n", b"->", b"//"]
    vocab = cd.Vocabulary.from_bytes([*tokens, b"</s>", b"[MASK]"], eos_token_ids=len(tokens))
    infill = cd.Infill(cd.Compiler(vocab).compile(cd.grammars.CPP))
    for seed in range(3):
        rng = random.Random(seed)
        s = infill.canvas([vocab.size - 1] * (8 + seed), vocab.size - 1)
        assert s.completable()
        while s.open_slots():
            place = rng.choice(s.open_slots())
            allowed = np.flatnonzero(np.unpackbits(s.mask(place).view(np.uint8), bitorder="little")).tolist()
            rng.shuffle(allowed)
            assert any(s.set(place, token) for token in allowed), s.tokens()
        assert infill.accepts((s.text() or "").encode())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.mask(9), "place: expected 0 to 2, found 9"),
        (lambda s: s.set(0, 1), "expected a slot, found a gap"),
        (lambda s: s.insert(1, 1), "expected a gap, found a slot"),
        (lambda s: s.set(1, 10**6), "token id: expected 0 to"),
        (lambda s: s.undo(1), "expected 0 to 0 changes, found 1"),
    ],
)
def test_errors(sums: cd.Infill, call: object, message: str) -> None:
    s = sums.new(["1", cd.GAP, "=", cd.Slots(2)])
    with pytest.raises(ValueError, match=message):
        call(s)  # type: ignore[operator]
    with pytest.raises(ValueError, match="expected a text with gaps or slots, found place 0 of one without"):
        sums.new(["1=1"]).mask(0)


def test_token_terminals_are_refused() -> None:
    vocab = cd.Vocabulary.from_bytes([*ALL_BYTES, b"<end>"], eos_token_ids=256)
    ir = GrammarIR()
    ir.start = ir.nonterminal("s")
    ir.rule(ir.start, [ir.token(TokenSet(ranges=((1, 3),)))])
    with pytest.raises(cd.UnsupportedError, match="token terminals"):
        cd.Infill(cd.Compiler(vocab).compile_ir(ir))


def test_masks_of_several_places(sums: cd.Infill) -> None:
    s = sums.new(["1", cd.GAP, "=", cd.Slots(2)])
    places: Sequence[int] = s.open_places()
    rows = s.masks(places)
    assert rows.dtype == np.int32 and rows.shape == (3, (sums.vocab.size + 31) // 32)
    assert all((rows[i] == s.mask(place)).all() for i, place in enumerate(places))


def test_sessions_on_threads(person: cd.Infill) -> None:
    """Sessions on threads give the masks and answers of one after another. Two threads use two sets of tables, and an error
    stays in its session.
    """
    parallel = cd.Infill(person.grammar, threads=2)
    pieces = [['{"name": "', cd.GAP, "}"], ['{"name": "a', cd.Slots(2), cd.GAP], ['{"name": "b', cd.GAP]]
    sessions = [parallel.new(p) for p in pieces]
    assert len({id(session._tables) for session in sessions}) == 2
    expected = [person.new(p).mask(0) for p in pieces]
    masks = parallel.map(lambda session: session.mask(0), sessions)
    assert all((mask == wanted).all() for mask, wanted in zip(masks, expected, strict=True))
    assert parallel.map(lambda session: session.completable(), sessions) == [True] * len(sessions)
    threads = parallel.map(lambda session: threading.get_ident(), sessions)
    assert threads[0] == threads[2]
    done = []

    def fail(session: InfillSession) -> None:
        if session is sessions[1]:
            raise KeyError("one")
        done.append(session)

    with pytest.raises(KeyError, match="one"):
        parallel.map(fail, sessions)
    assert len(done) == len(sessions) - 1
    assert parallel.map(len, []) == []  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1"):
        cd.Infill(person.grammar, threads=0)
