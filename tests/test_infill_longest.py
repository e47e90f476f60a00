"""Canvases under grammars whose lexemes compete (longest match), beside :mod:`naive_lexing`, on small random problems.

Whatever is called completable has a legal filling, and random choices complete it: no canvas is left without a token.
``CDPLUGIN_INFILL_LONGEST=20000 pytest tests/test_infill_longest.py`` tries that many problems.
"""

from __future__ import annotations

import itertools
import os
import random

import pytest
from engine_tools import cases, members, vocabulary
from naive import random_grammar, random_tokens
from naive_lexing import NaiveLexing

import cdplugin as cd
from cdplugin import expr
from cdplugin.infill.session import InfillSession
from cdplugin.ir import EXACT, LAZY, LONGEST, GrammarIR

pytestmark = pytest.mark.kernel

KINDS = {"longest": (LONGEST,), "lazy": (LONGEST, LONGEST, LAZY), "exact": (EXACT, LONGEST)}
MOST_FILLINGS = 300
MOST_THREADS = 24


def random_longest(rng: random.Random, kinds: tuple[str, ...]) -> GrammarIR:
    """A random grammar whose lexemes end in the given ways; half of them with one or two skips before some lexemes."""
    plain = random_grammar(rng)
    ir = GrammarIR()
    for name in plain.names:
        ir.nonterminal(name)
    skips: list[int | None] = [None]
    if rng.random() < 0.5:
        for i in range(rng.choice([1, 1, 2])):
            class_ = expr.byte_class(rng.choice([b"x", b"y", b"xy"]))
            skips.append(ir.lexeme(expr.repeat(class_, 1, rng.choice([None, 1, 2])), f"SKIP{i}", lexing=LONGEST))
    named = {}
    for t, e in enumerate(plain.lexemes):
        lexing = rng.choice(kinds)
        named[~t] = ir.lexeme(e, f"L{t}", lexing=lexing, skip=None if lexing == EXACT else rng.choice(skips))
    for left, right in plain.rules:
        ir.rule(left, [named[s] if s < 0 else s for s in right])
    ir.start = plain.start
    return ir


class TooManyThreadsError(Exception):
    """Brute force follows each way to cut a text, and may take forever."""


def legal(naive: NaiveLexing, text: bytes) -> bool:
    threads = naive.start()
    for byte in text:
        threads = naive.step(threads, byte)
        if len(threads) > MOST_THREADS:
            raise TooManyThreadsError
    return naive.accepting(threads)


def fillings(canvas: list[bytes | None], tokens: list[bytes]) -> list[bytes]:
    """All texts that a canvas can become."""
    return [b"".join(parts) for parts in itertools.product(*([part] if part is not None else tokens for part in canvas))]


def session_of(infill: cd.Infill, canvas: list[bytes | None]) -> InfillSession:
    return infill.new(cd.Slots(1) if part is None else part for part in canvas)


@pytest.mark.parametrize("kinds", KINDS)
def test_canvases_are_finished(kinds: str) -> None:
    """Completable: some filling is legal, and random tokens of the masks make one. Not completable: mostly, none is."""
    done = accepted = unseen = refused = 0
    seed = 0
    most = (int(os.environ.get("CDPLUGIN_INFILL_LONGEST", "0")) or cases(400, 12)) // len(KINDS)
    while done < most:
        seed += 1
        rng = random.Random(seed)
        ir = random_longest(rng, KINDS[kinds])
        tokens = random_tokens(rng, b"xy", rng.choice([4, 6, 8]), 3)
        naive = NaiveLexing(ir)
        if naive.empty:
            continue
        vocab = vocabulary(tokens, all_bytes=False)
        infill = cd.Infill(cd.Compiler(vocab).compile_ir(ir))
        for _ in range(6):
            canvas = [None if rng.random() < 0.6 else rng.choice(tokens) for _ in range(rng.randint(1, 5))]
            if len(tokens) ** canvas.count(None) > MOST_FILLINGS:
                continue
            try:
                texts = {text for text in fillings(canvas, tokens) if legal(naive, text)}
            except TooManyThreadsError:
                break
            done += 1
            session = session_of(infill, canvas)
            where = (seed, ir.rules, canvas)
            if not session.completable():
                refused += not texts
                unseen += bool(texts)
                continue
            accepted += 1
            assert texts, where
            while session.open_slots():
                place = rng.choice(session.open_slots())
                allowed = sorted(members(session.mask(place)))
                rng.shuffle(allowed)
                assert any(session.set(place, token) for token in allowed), (*where, session.tokens())
            text = session.text()
            assert text is not None and text.encode() in texts, (*where, text)
    print(f"{kinds}: {accepted} accepted, {refused} refused, {unseen} not seen")
    if done >= 100:  # fewer say nothing about shares
        assert accepted > done // 20 and refused > done // 20 and unseen < done // 10, (accepted, refused, unseen)
