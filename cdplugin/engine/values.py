"""Reading an arena from Python: its values, and the records of lexer states, rows and lexemes."""

from __future__ import annotations

import numpy as np

from cdplugin.engine.blocks import Tables
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.rows import BESIDE, MOST_SHORT
from cdplugin.kernels.parser import layout as parser_layout
from cdplugin.kernels.regex.expressions import PURE
from cdplugin.kernels.store import layout


class Values:
    """Reads an arena's tables. The caller holds its lock if threads may share it."""

    tables: Tables
    header: np.ndarray

    def sequence(self, value: int) -> list[int]:
        """Return the words of a value."""
        record = value * layout.VALUE_WORDS
        values = self.tables[layout.VALUES]
        offset, length = int(values[record + layout.V_OFFSET]), int(values[record + layout.V_LENGTH])
        return self.tables[layout.DATA][offset : offset + length].tolist()

    def kind(self, value: int) -> int:
        """Return the kind of a value, ``K_…``."""
        return int(self.tables[layout.VALUES][value * layout.VALUE_WORDS + layout.V_KIND])

    def flags(self, values: np.ndarray) -> np.ndarray:
        """Return the flags of many expressions at once (int64)."""
        return self.tables[layout.VALUES][values * layout.VALUE_WORDS + layout.V_FLAGS]

    def has_flag(self, expression: int, flag: int) -> bool:
        """Return whether an expression has a flag (:mod:`cdplugin.kernels.regex.expressions`)."""
        return bool(self.tables[layout.VALUES][expression * layout.VALUE_WORDS + layout.V_FLAGS] & flag)

    def is_pure(self, expression: int) -> bool:
        """Return whether an expression has neither ``&`` nor ``~``."""
        return self.has_flag(expression, PURE)

    def literals(self, expression: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the rest of a set of literals (``K_LITERALS``): a text (uint8), and where in it each literal's rest begins and
        ends.
        """
        low, high, depth = self.sequence(expression)
        offsets = self.tables[layout.LITERAL_OFFSETS]
        return self.tables[layout.LITERAL_BYTES], offsets[low:high] + depth, offsets[low + 1 : high + 1]

    def of_state(self, state: int, field: int) -> int:
        """Return a field ``L_…`` of a lexer state's record."""
        return int(self.tables[layout.LEXER_STATES][state * lexer_layout.LEXER_WORDS + field])

    def transition(self, state: int, byte: int) -> int:
        """Return the transition of a lexer state by a byte (:mod:`cdplugin.kernels.lexer.layout`); -1 if it is not computed."""
        while True:
            heads, row = self.of_state(state, lexer_layout.L_N_HEADS), self.of_state(state, lexer_layout.L_ROW)
            if row < 0:
                return -1
            place = byte
            if not MOST_SHORT < heads < BESIDE:
                word = self.of_state(state, lexer_layout.L_HEADS) & 0xFFFFFFFFFFFFFFFF
                place = word.to_bytes(8, "little").find(byte, 0, heads % BESIDE)
            if place >= 0:
                return int(self.tables[layout.TRANSITIONS][row + place])
            if heads < BESIDE:
                return 0
            state = self.of_state(state, lexer_layout.L_SIMPLIFIED)

    def of_row(self, row: int, field: int) -> int:
        """Return a field ``R_…`` of a row's record."""
        return int(self.tables[layout.ROWS][row * parser_layout.ROW_WORDS + field])

    def of_lexeme(self, lexeme: int, field: int) -> int:
        """Return a field ``X_…`` of a lexeme's record."""
        return int(self.tables[layout.LEXEMES][lexeme * layout.LEXEME_WORDS + field])

    @property
    def lexemes(self) -> np.ndarray:
        """The records of the lexemes that rules name (int64): a row of ``LEXEME_WORDS`` for each."""
        end = int(self.header[layout.END_SYMBOL]) * layout.LEXEME_WORDS
        return self.tables[layout.LEXEMES][:end].reshape(-1, layout.LEXEME_WORDS)

    @property
    def lexer_states(self) -> np.ndarray:
        """The records of lexer states (int64), and room for more: a row for each, of ``LEXER_WORDS``."""
        table = self.tables[layout.LEXER_STATES]
        return table[: len(table) // lexer_layout.LEXER_WORDS * lexer_layout.LEXER_WORDS].reshape(-1, lexer_layout.LEXER_WORDS)

    @property
    def is_exact(self) -> bool:
        """Whether all lexemes are EXACT."""
        return bool((self.lexemes[:, layout.X_KIND] == layout.EXACT).all())

    def open_words(self, state: int) -> list[int]:
        """Return the words of a lexer state, ``lexeme << 32 | expression`` each; none for state 0."""
        return self.sequence(self.of_state(state, lexer_layout.L_VALUE))

    def longest(self, state: int) -> list[int]:
        """Return the LONGEST lexemes that match in a lexer state, so that they end if the next byte does not go on
        with them.
        """
        return self.sequence(self.of_state(state, lexer_layout.L_LONGEST))

    def items(self, row: int) -> list[int]:
        """Return the kernel items of a row, ``dot << 32 | origin`` each."""
        return self.sequence(self.of_row(row, parser_layout.R_ITEMS))

    def lexer_state(self, state: int) -> int:
        """Return the lexer state of a cursor's pair, with or without a text."""
        return self.sequence(state & (lexer_layout.TEXT_BIT - 1))[1] & layout.LOW_32 if state & lexer_layout.TEXT_BIT else state

    def pairs(self, cursor: int) -> list[tuple[int, int]]:
        """Return the (row, lexer state) pairs of a cursor that have a lexer state, without the texts that they carry."""
        if cursor >> 32:
            found = [((cursor >> 32) - 1, cursor & lexer_layout.STATE_MASK)]
        else:
            pairs = [pair for pair in self.sequence(cursor) if pair != parser_layout.ACCEPTS_HERE]
            found = [(pair >> 32, self.lexer_state(pair & layout.LOW_32)) for pair in pairs]
        return [pair for pair in found if pair[1]]
