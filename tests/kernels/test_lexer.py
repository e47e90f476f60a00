"""The lexer's transitions, and what a gap or a token does to a state (closures, effects), beside sets of derivatives."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from engine_tools import cases, seeds
from naive import Derivatives, random_expr

import cdplugin as cd
from cdplugin.engine.arena import Arena
from cdplugin.errors import GrammarError
from cdplugin.ir import GrammarIR
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.infill import entry as infill_kernels
from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.store import layout

TOKENS = [bytes([b]) for b in range(256)] + [b"xy", b"yx", b"xxy", b"yyyy", b"xz"]
COMPILER = cd.Compiler(cd.Vocabulary.from_bytes([*TOKENS, b"<end>"], eos_token_ids=len(TOKENS)))
BYTES = b"xyz"
Words = frozenset[tuple[str, int]]  # of a naive state: (name of a lexeme, number of a derivative)


class NaiveLexer:
    """A state is the set of the lexemes that are open, each with what is left of its expression."""

    def __init__(self, ir: GrammarIR) -> None:
        self.of = Derivatives()
        self.start: Words = frozenset((f"l{t}", self.of.convert(e)) for t, e in enumerate(ir.lexemes))

    def step(self, state: Words, byte: int) -> tuple[Words, frozenset[str]]:
        """The state after a byte, without what cannot go on; and the lexemes that end with it."""
        after = {(name, self.of.step(n, byte)) for name, n in state}
        ended = frozenset(name for name, n in after if self.of.nullable(n))
        return frozenset((name, n) for name, n in after if any(self.of.alive(self.of.step(n, b)) for b in range(256))), ended


def grammars(seed: int) -> Iterator[tuple[NaiveLexer, cd.Grammar, list[str]]]:
    """Grammars that are any one of up to three random lexemes; the lexemes' names by number."""
    rng = random.Random(seed)
    for _ in range(cases(12, 4)):
        ir = GrammarIR()
        ir.start = ir.nonterminal("s")
        for t in range(rng.randint(1, 3)):
            ir.rule(ir.start, [ir.lexeme(random_expr(rng), f"l{t}")])
        naive = NaiveLexer(ir)
        try:
            grammar = COMPILER.compile_ir(ir)
        except GrammarError:
            continue
        names = grammar._tables.lexemes.names
        if set(names[:-1]) == {name for name, _ in naive.start}:  # no prefix was split off, none was left out
            yield naive, grammar, names


def ended_in(arena: Arena, names: list[str], accepted: int) -> frozenset[str]:
    return frozenset(names[lexeme] for lexeme in arena.sequence(accepted)) if accepted else frozenset()


def states(naive: NaiveLexer, arena: Arena, names: list[str]) -> dict[int, Words]:
    """All states that a few bytes lead to, each beside its naive twin: transitions, ends and rests are compared on the way."""
    found = {arena.start & lexer_layout.STATE_MASK: naive.start}
    pending = list(found)
    while pending and len(found) < 60:
        state = pending.pop()
        for byte in BYTES:
            arena.call(kernels.OP_STEP, (arena.start >> 32 << 32) | state, byte)
            after = int(arena.transitions(np.array([state]))[0, byte])
            rest, ended = naive.step(found[state], byte)
            first = (after & lexer_layout.STATE_MASK) * lexer_layout.LEXER_WORDS
            record = arena.tables[layout.LEXER_STATES][first : first + lexer_layout.LEXER_WORDS]
            assert (after == 0) == (not rest and not ended)
            assert bool(after & lexer_layout.ENDS_BIT) == bool(ended)
            next_state = after & lexer_layout.STATE_MASK
            if ended:
                assert ended_in(arena, names, int(record[lexer_layout.L_ACCEPTED])) == ended
                next_state = int(record[lexer_layout.L_REST])
            assert next_state or not rest  # a state that only an exact search shows to be at its end has dead transitions
            if next_state and next_state not in found:
                found[next_state] = rest
                pending.append(next_state)
            assert next_state == 0 or {name for name, _ in found[next_state]} == {name for name, _ in rest}
    return found


@pytest.mark.parametrize("seed", seeds(6, 2))
def test_transitions(seed: int) -> None:
    compared = sum(len(states(naive, grammar._current(), names)) for naive, grammar, names in grammars(seed))
    assert compared > 4


@pytest.mark.parametrize("seed", seeds(3, 1))
def test_closures_and_effects(seed: int) -> None:
    """A closure names the lexemes that end with some string, an effect the sets of lexemes that end with some token."""
    compared = 0
    for naive, grammar, names in grammars(100 + seed):
        infill = cd.Infill(grammar)
        infill.new([cd.GAP, cd.Slots(1)]).completable()
        tables = infill._tables
        arena, work = tables.arena, tables.workspace
        for state, words in list(states(naive, arena, names).items())[:12]:
            record = work.call(infill_kernels.OP_CLOSURE, state)
            pool = work.tables[ws.POOL]
            first = record + ws.C_FIRST + int(pool[record + ws.C_STATES])
            lexemes = pool[first : first + int(pool[record + ws.C_LEXEMES])]
            assert {names[t] for t in lexemes.tolist()} == {name for name, n in words if alive_later(naive, n)}
            record = work.call(infill_kernels.OP_EFFECT, state)
            pool = work.tables[ws.POOL]
            first = record + ws.E_FIRST + int(pool[record + ws.E_STATES])
            found = {ended_in(arena, names, v) for v in pool[first : first + int(pool[record + ws.E_ENDS])].tolist()}
            assert found == {ended for token in TOKENS if (ended := run(naive, words, token))}
            compared += 1
    assert compared > 0


def alive_later(naive: NaiveLexer, n: int) -> bool:
    """Whether some string of at least one byte matches what is left."""
    return any(naive.of.alive(naive.of.step(n, byte)) for byte in range(256))


def run(naive: NaiveLexer, words: Words, token: bytes) -> frozenset[str]:
    """The lexemes that end with a token's last byte, none having been left at an end before it."""
    ended: frozenset[str] = frozenset()
    for byte in token:
        words, ended = naive.step(words, byte)
    return ended


def test_the_twin_can_fail() -> None:
    ir = GrammarIR()
    ir.lexeme(cd.Regex("x+y").to_ir(cd.Limits()).lexemes[0], "l0")
    naive = NaiveLexer(ir)
    rest, ended = naive.step(naive.start, ord("x"))
    assert rest and not ended
    assert naive.step(rest, ord("y")) == (frozenset(), frozenset({"l0"})) and not naive.step(rest, ord("z"))[0]
    assert np.array_equal(sorted(run(naive, naive.start, b"xxy")), ["l0"])
