"""What may be under way after a lexeme (:mod:`cdplugin.kernels.infill.alive`), beside a plain search over dots."""

from __future__ import annotations

import random

import numpy as np
from engine_tools import cases
from naive import Naive, random_grammar

import cdplugin as cd
from cdplugin.infill.tables import InfillGrammar
from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.store import layout

VOCAB = cd.Vocabulary.from_bytes([*(bytes([byte]) for byte in range(256)), b"</s>"], eos_token_ids=256)


def after(tables: InfillGrammar, lexeme: int) -> set[int]:
    """The dots before a symbol that may be under way after a lexeme. The last entry is for the beginning of a text."""
    n = tables.n_dots
    symbols, lefts, nullable = (
        tables.arena.tables[table][:n].tolist() for table in (layout.DOT_SYMBOL, layout.DOT_LEFT, layout.NULLABLE)
    )
    pending = [0] if lexeme == tables.n_lexemes else [dot + 1 for dot in range(n) if symbols[dot] == -2 - lexeme]
    found: set[int] = set()
    while pending:
        dot = pending.pop()
        if dot in found:
            continue
        found.add(dot)
        symbol = symbols[dot]
        if symbol == -1:
            pending += [other + 1 for other in range(n) if symbols[other] == lefts[dot]]
        elif symbol >= 0:
            pending += [other for other in range(n) if lefts[other] == symbol and (other == 0 or symbols[other - 1] == -1)]
            pending += [dot + 1] if nullable[symbol] else []
    return {dot for dot in found if symbols[dot] != -1}


def test_what_is_under_way_after_a_lexeme() -> None:
    rng = random.Random(0)
    n_known = 0
    for _ in range(cases(40, 3, 10)):
        ir = random_grammar(rng, b"abc")
        while Naive(ir).empty:
            ir = random_grammar(rng, b"abc")
        infill = cd.Infill(cd.Compiler(VOCAB).compile_ir(ir))
        tables = infill._tables
        for _ in range(4):
            infill.new([cd.GAP if rng.random() < 0.4 else bytes([rng.choice(b"abc")]) for _ in range(5)]).completable()
        work = tables.workspace
        words = int(work.header[ws.W_TURN_SET])
        for lexeme in np.flatnonzero(work.tables[ws.AFTER_KNOWN]).tolist():
            bits = np.unpackbits(work.tables[ws.AFTER][lexeme * words :][:words].view(np.uint8), bitorder="little")
            assert set(work.tables[ws.SYMBOL_DOTS][np.flatnonzero(bits)].tolist()) == after(tables, lexeme)
            n_known += 1
    assert n_known > 3
