"""Transition rows: each of the three kinds agrees with the derivatives of a state's expressions."""

from __future__ import annotations

import numpy as np
import pytest

import cdplugin as cd
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.rows import BESIDE, MOST_SHORT
from cdplugin.kernels.store import layout

pytestmark = pytest.mark.kernel

TOKENS = [bytes([b]) for b in range(256)] + [b'"name', b'"na', b'": "', b"nam", b"</s>"]
VOCAB = cd.Vocabulary.from_bytes(TOKENS, eos_token_ids=len(TOKENS) - 1)
PROPERTIES = {"name": {"type": "string"}, "size": {"enum": ["a", "b", "c1"]}, "n": {"type": "integer"}}
SCHEMA = {"type": "object", "properties": PROPERTIES}
TEXT = b'{"name": "x\\n", "size": "c1", "n": 12, "nam": [1, "siz"]}'


def kind_of(arena, state: int) -> str:
    heads = arena.of_state(state, lexer_layout.L_N_HEADS)
    return "short" if heads <= MOST_SHORT else "beside" if heads >= BESIDE else "long"


def next_words(arena, state: int, byte: int) -> set[tuple[int, int]]:
    """What goes on after a byte, by the derivatives of the expressions alone."""
    found = set()
    for word in arena.sequence(arena.of_state(state, lexer_layout.L_VALUE)):
        child = arena.call(kernels.OP_DERIVE, word & layout.LOW_32, byte)
        if arena.call(kernels.OP_STATUS, child):
            found.add((arena.of_lexeme(word >> 32, layout.X_BEGUN), child))
    return found


def test_rows_of_all_kinds_say_what_the_derivatives_say() -> None:
    grammar = cd.Compiler(VOCAB).compile(cd.JsonSchema(SCHEMA))
    matcher, arena = grammar.matcher(), grammar._arena
    mask = np.zeros((1, (VOCAB.size + 31) // 32), np.int32)
    for byte in TEXT:
        matcher.fill_next_token_bitmask(mask)
        assert matcher.accept_token(byte)
    states = [s for s in range(1, int(arena.header[layout.N_LEXER_STATES])) if arena.of_state(s, lexer_layout.L_ROW) >= 0]
    assert {kind_of(arena, state) for state in states} == {"short", "beside", "long"}
    for state, row in zip(states, arena.transitions(np.array(states)), strict=True):
        for byte in range(256):
            if row[byte] < 0:  # not asked for yet
                continue
            after = int(row[byte]) & lexer_layout.STATE_MASK
            words = arena.sequence(arena.of_state(after, lexer_layout.L_VALUE)) if after else []
            assert {(word >> 32, word & layout.LOW_32) for word in words} == next_words(arena, state, byte), (state, byte)


def test_what_a_state_has_in_common_with_its_simplified_one_is_stored_once() -> None:
    """Of a state beside another one only its own bytes have entries."""
    grammar = cd.Compiler(VOCAB).compile(cd.JsonSchema(SCHEMA))
    matcher, arena = grammar.matcher(), grammar._arena
    mask = np.zeros((1, (VOCAB.size + 31) // 32), np.int32)
    for byte in b'{"':
        matcher.fill_next_token_bitmask(mask)
        assert matcher.accept_token(byte)
    matcher.fill_next_token_bitmask(mask)
    beside = [
        s
        for s in range(1, int(arena.header[layout.N_LEXER_STATES]))
        if arena.of_state(s, lexer_layout.L_ROW) >= 0 and kind_of(arena, s) == "beside"
    ]
    assert beside
    for state in beside:
        own = arena.of_state(state, lexer_layout.L_N_HEADS) - BESIDE
        simplified = arena.of_state(state, lexer_layout.L_SIMPLIFIED)
        row, other = arena.transitions(np.array([state, simplified]))
        assert 0 < np.count_nonzero(row != other) <= own <= MOST_SHORT
