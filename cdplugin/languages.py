"""Ask the kernels what a byte expression matches while a grammar is compiled: a given text, any text, or which texts.

Front ends use it to decide, for instance, whether an ``enum``'s value matches a ``pattern``, or whether two patterns share a
text. The questions go to an arena without rules and tokens, which keeps expressions and derivatives for the next question.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Hashable
from ctypes import addressof, c_char

import numpy as np

from cdplugin import forking
from cdplugin.engine.arena import Arena
from cdplugin.engine.base_arena import evaluate
from cdplugin.engine.programs import Program, known_words
from cdplugin.expr import Expr
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.regex.texts import MANY
from cdplugin.kernels.store import layout
from cdplugin.limits import Limits
from cdplugin.vocab.vocabulary import Vocabulary

FUEL = 6_000
"""Derivatives that one question may take."""
MOST_BYTES = 32 << 20
"""Bytes of one arena."""
_MOST_VALUES = 100_000
"""Values beyond which an arena is replaced by a fresh one; it then takes about half of its bytes."""
_LIMITS = Limits(emptiness_fuel=FUEL, max_step_work=8_000_000, max_arena_bytes=MOST_BYTES)

_lock = threading.Lock()
forking.renew(sys.modules[__name__], "_lock")
_made: Arena | None = None


def _frozen() -> Arena:
    """The empty arena from which all others are cloned."""
    global _made
    with _lock:
        if _made is None:
            arena = Arena(Vocabulary.from_bytes([b"\0", None], eos_token_ids=[1], cache=False), _LIMITS)
            arena.freeze()
            _made = arena
        return _made


class Languages:
    """Answers questions about expressions in one arena, which memoises what it computes. For one thread at a time.

    An answer does not depend on earlier questions, but whether it is found within its budget may. ``named``: expressions that
    the caller keeps here under its own keys, dropped with the arena.
    """

    def __init__(self) -> None:
        self._taken = 0
        self._begin()

    def _begin(self) -> None:
        self._arena = _frozen().clone()
        self._known: dict[int, tuple[int, ...]] = {}
        self._literals = (np.zeros(1, np.int64), np.zeros(0, np.uint8))
        self.named: dict[Hashable, Expr] = {}
        self._kept: list[Expr] = []  # keeps expressions alive, since `_known` holds the ids of their nodes

    @property
    def nbytes(self) -> int:
        """Bytes of the arena."""
        return self._arena.nbytes

    @property
    def taken(self) -> int:
        """Derivatives taken so far."""
        return self._taken + int(self._arena.header[layout.C_DERIVATIVES])

    def matches(self, expression: Expr, text: bytes) -> bool:
        """Whether an expression matches a text. Raises :class:`LimitExceeded`."""
        data = bytearray(text or b"\0")
        return bool(self._ask(kernels.OP_MATCHES, expression, addressof(c_char.from_buffer(data)), len(text)))

    def is_empty(self, expression: Expr) -> bool:
        """Whether no text matches. Raises :class:`LimitExceeded` if deciding that takes too long."""
        return self._ask(kernels.OP_STATUS, expression) & kernels.MATCHES_SOMETHING == 0

    def texts(self, expression: Expr, most: int) -> list[bytes] | None:
        """All texts that match, or None if more than ``most`` do. Raises :class:`LimitExceeded` if that takes too long."""
        n_words = self._ask(kernels.OP_TEXTS, expression, most, FUEL)
        if n_words == MANY:
            return None
        words, out = self._arena.tables[layout.STACK][:n_words].tolist(), []
        at = 0
        while at < n_words:
            end = at + 1 + words[at]
            out.append(bytes(words[at + 1 : end]))
            at = end
        return out

    def _ask(self, op: int, expression: Expr, b: int = 0, c: int = 0) -> int:
        if self._arena.header[layout.N_VALUES] > _MOST_VALUES:
            self._forget()
        try:
            return self._arena.call(op, self._number_of(expression), b, c)
        except BaseException:  # drop what cost so much, or was interrupted halfway
            self._forget()
            raise

    def _forget(self) -> None:
        self._taken = self.taken
        self._begin()

    def _number_of(self, expression: Expr) -> int:
        """The arena's id of an expression."""
        if id(expression) not in self._known:
            program = Program(_LIMITS, known=self._known, literals=self._literals)
            program.add(expression)
            self._literals = program.literal_tables()
            evaluate(self._arena, program.code(), program.n_results, self._literals)
            values = self._arena.tables[layout.VISIT_STAMPS]
            self._known |= known_words({node: int(values[result]) for node, result in program.results().items()})
            self._kept.append(expression)
        return self._known[id(expression)][1]
