"""What of a compiled grammar never changes, and how an arena gets it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cdplugin.engine.arena import Arena
from cdplugin.engine.base_arena import evaluate
from cdplugin.engine.expander import Expander
from cdplugin.engine.lexemes import LexemeTable
from cdplugin.engine.rules import RuleSet
from cdplugin.errors import LimitExceeded
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.store import layout

_WORD_BYTES, _LITERAL_BYTES = 40, 60
"""An expression's tree is so large, by the words and literals of the program that builds it: a set of bytes takes 6 words."""


@dataclass(eq=False)
class StaticTables:
    """What of a compiled grammar never changes: its rules, and the program that builds its lexemes' expressions.

    ``searched``: the expressions of which only a search tells whether they match anything, as ids.

    A clone of the same base arena gives the expressions the same ids each time, so ``lexemes`` may name them.
    """

    program: np.ndarray
    n_results: int
    literals: tuple[np.ndarray, np.ndarray]
    lexemes: LexemeTable
    rules: RuleSet
    searched: list[int]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays and of the rules; of an arena's own copies of them, where it changes them, too."""
        offsets, text = self.literals
        tables = self.program.nbytes + offsets.nbytes + text.nbytes + self.lexemes.nbytes + self.rules.nbytes
        if not self.rules.is_lazy:
            return tables
        return tables + _WORD_BYTES * len(self.program) + _LITERAL_BYTES * len(offsets) + text.nbytes

    def evaluate(self, arena: Arena) -> None:
        """Build the lexemes' expressions in a clone of the base arena."""
        evaluate(arena, self.program, self.n_results, self.literals)
        for expression in self.searched:  # what was found then is work that the first masks are spared
            arena.call(kernels.OP_STATUS, expression)

    def install(self, arena: Arena) -> None:
        """Put the rules into an arena that has the expressions. Raises :class:`LimitExceeded` if it is too small for them."""
        records = self.lexemes.records.reshape(-1)
        arena.set_table(layout.LEXEMES, records.copy() if self.rules.is_lazy and self.rules.ir.tracked else records)
        if len(self.lexemes.ranges):
            arena.set_table(layout.TOKEN_RANGES, self.lexemes.ranges.reshape(-1))
            arena.header[layout.HAS_TERMINALS] = 1
        arena.header[layout.HAS_TRACKED] = bool(self.rules.ir.tracked)
        arena.header[layout.HAS_CLOCKS] = self.lexemes.has_clocks
        arena.set_block(self.rules.block.copy() if self.rules.is_lazy else self.rules.block)
        arena.set_table(layout.VISIT_STAMPS, np.zeros(self.rules.n_nonterminals, np.int64))
        arena.header[layout.END_SYMBOL] = self.rules.end_symbol
        if not self.lexemes.all_exact:
            arena.reserve_for_walks()
        if self.rules.is_lazy:
            arena.expand = Expander(self.rules, arena)
        arena.start = arena.call(kernels.OP_START_CURSOR)
        if arena.over_budget and arena.nbytes > arena.max_bytes:
            raise LimitExceeded(
                "the grammar's rules and lexemes take too much memory",
                expected=f"at most Limits.max_arena_bytes = {arena.max_bytes}",
                found=f"{arena.nbytes} bytes",
            )
