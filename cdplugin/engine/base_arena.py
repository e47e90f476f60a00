"""The base arena of a vocabulary, from which every grammar's arena is cloned: expressions that most grammars share, evaluated
once.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

import numpy as np

from cdplugin import expr, forking
from cdplugin.bits import members
from cdplugin.engine.arena import Arena
from cdplugin.engine.programs import Program, characters_code, known_words
from cdplugin.engine.shared_bases import LEAST_BYTES, SharedBases
from cdplugin.expr import Expr
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.jit.decorators import is_cached, is_loaded
from cdplugin.kernels.parser import rules
from cdplugin.kernels.store import layout
from cdplugin.limits import Limits
from cdplugin.memory import fixed_cache
from cdplugin.vocab.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class BaseArena:
    """A frozen arena: clone it, never step it.

    ``known``: the words (:func:`known_words`) of the nodes of ``kept``; ``literals``: its table of literals; ``characters``:
    see :class:`Program`.
    """

    arena: Arena
    known: dict[int, tuple[int, ...]]
    literals: tuple[np.ndarray, np.ndarray]
    kept: list[Expr]
    characters: np.ndarray | None

    def program(self) -> Program:
        """Return an empty program for a clone of the arena."""
        return Program(self.arena.limits, spellable_bytes(self.arena.vocab), self.known, self.literals, self.characters)


def spellable_bytes(vocab: Vocabulary) -> bytes:
    """Return the bytes that some token contains."""
    return _spellable(vocab.absent_bytes)


@fixed_cache(64, entry_bytes=700)
def _spellable(absent: int) -> bytes:
    return bytes(members(~absent & expr.ALL_BYTES))


_lock = threading.Lock()
forking.renew(sys.modules[__name__], "_lock")
_base_arenas: WeakValueDictionary[tuple[int, Limits], BaseArena] = WeakValueDictionary()


def base_arena_of(
    vocab: Vocabulary, limits: Limits, shared: Sequence[Expr], characters: Sequence[Expr] | None = None
) -> BaseArena:
    """Return the base arena of ``vocab``, which knows ``shared`` and ``characters``.

    ``shared``: expressions that live as long as the process; ``characters``: those of the printable ASCII characters in every
    spelling. The result is the same object as long as somebody holds it, and goes with the last compiler that does; it keeps
    its vocabulary alive.
    """
    key = (id(vocab), limits)  # a base arena keeps its vocabulary alive, so the id stays unique
    with _lock:
        found = _base_arenas.get(key)
        if found is None:
            found = _base_arenas[key] = _make(vocab, limits, shared, characters)
        return found


def _make(vocab: Vocabulary, limits: Limits, shared: Sequence[Expr], characters: Sequence[Expr] | None) -> BaseArena:
    _load_late_kernels()
    arena = Arena(vocab, Limits())  # the caller's limits are for the caller's grammars
    program = Program(arena.limits, spellable_bytes(vocab))
    kept = [*(characters or ()), *shared]
    for node in kept:
        program.add(node)
    literals = program.literal_tables()
    evaluate(arena, program.code(), program.n_results, literals)
    values = arena.tables[layout.VISIT_STAMPS]
    known = known_words({node: int(values[result]) for node, result in program.results().items()})
    for node in shared:  # memoise plain runs and first derivatives here: otherwise 15 µs for each grammar
        for part in dict.fromkeys([known[id(node)][1], *(after for _, after in arena.derivatives(known[id(node)][1]))]):
            arena.call(kernels.OP_PLAIN_RUN, part)
    _note_characters(arena)
    arena.set_limits(limits)
    arena.freeze()
    if limits.max_learned_bytes >= LEAST_BYTES:
        arena.lender = SharedBases(arena, limits.max_learned_bytes)
    code = None if characters is None else characters_code([known[id(node)][1] for node in characters])
    return BaseArena(arena, known, literals, kept, code)


def _note_characters(arena: Arena) -> None:
    """Note the byte classes of the bodies of repetitions, mostly the characters of texts (``OP_CLASSES``)."""
    n_values = int(arena.header[layout.N_VALUES])
    kinds = arena.tables[layout.VALUES][layout.V_KIND : n_values * layout.VALUE_WORDS : layout.VALUE_WORDS]
    for part in dict.fromkeys(arena.sequence(value)[0] for value in np.flatnonzero(kinds == layout.K_REPEAT).tolist()):
        if arena.kind(part) == layout.K_ALT:
            arena.call(kernels.OP_CLASSES, part)


def evaluate(arena: Arena, program: np.ndarray, n_results: int, literals: tuple[np.ndarray, np.ndarray]) -> None:
    """Run a program, and leave its results in VISIT_STAMPS."""
    arena.set_table(layout.LITERAL_OFFSETS, literals[0], is_own=False)
    arena.set_table(layout.LITERAL_BYTES, literals[1], is_own=False)
    arena.set_table(layout.VISIT_STAMPS, np.zeros(max(n_results, 1), np.int64))
    stack = arena.tables[layout.STACK]
    if len(stack) < 2 * len(program):
        stack = np.empty(2 * len(program), np.int64)
        arena.set_table(layout.STACK, stack)
    stack[: len(program)] = program
    arena.call(kernels.OP_EVALUATE, len(program))


def _load_late_kernels() -> None:
    """Load the kernels that only families need, if they are compiled: otherwise the first grammar with a family would wait for
    it.
    """
    late = (rules.find_productive, rules.arrange, rules.lay_out)
    if not all(map(is_loaded, late)) and all(map(is_cached, late)):
        none, one = np.empty(0, np.int64), np.zeros(1, np.int64)
        no_rules = (none, one, none)
        rules.find_productive(no_rules, none, none, none, none)
        rules.arrange(no_rules, none, 0, (~one, one, none, one), none, (one.copy(), none))
        rules.lay_out(no_rules, none, (0, 0, 0), (none, none), none, none, none)
