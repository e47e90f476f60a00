"""An arena as Python owns it: how it begins or is cloned, how an operation runs until it has a result, what its
statuses mean.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from struct import pack_into
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cdplugin.bits import bitmask_words
from cdplugin.collector import gc_paused
from cdplugin.engine import pages
from cdplugin.engine.blocks import DTYPES, Block, Span, Tables, address_of, dtype_of
from cdplugin.engine.owned_tables import AT_ONCE, HASHED, IN_USE, INITIAL, ROOM, OwnedTables
from cdplugin.engine.shared_bases import SharedBases, Store
from cdplugin.errors import CdpluginError, LimitExceeded
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.jit.decorators import FirstCall
from cdplugin.kernels.store import layout, statuses
from cdplugin.limits import Limits, at_most
from cdplugin.vocab.vocabulary import Vocabulary

if TYPE_CHECKING:
    from cdplugin.engine.expander import Expander
    from cdplugin.engine.tracked import ValueTracker

_LIMIT_MESSAGES = {
    statuses.LIMIT_WIDTH: ("a regular expression grows too many alternatives", "max_expr_width"),
    statuses.LIMIT_FUEL: ("could not decide whether an expression with '&' or '~' matches anything", "emptiness_fuel"),
    statuses.LIMIT_ROW: ("the grammar is too ambiguous: too many parser items at one position", "max_row_items"),
    statuses.LIMIT_PAIRS: ("the grammar is too ambiguous: too many ways to split the text into lexemes", "max_pairs"),
}

_RULES_WORK = 10_000  # units of work for making a nonterminal's rules late, besides the work of its family
_NOTE_WORK = 5_000  # units of work for noting a value, or how a rule goes on after it
_MOST_WORK = 1 << 60  # units of a grant: infilling counts quarters of them in one word
_RESTART_WORK = 200  # units of work for restarting an operation, besides what it repeats
_LENT = 10  # 1 / _LENT of Limits.max_step_work is lent to a change, so that it is not interrupted

_PADDED = 64  # questions are padded to a multiple of so many words, since `struct` caches a hundred formats
_MOST_ANSWER = 6  # question and answer are at most about so many times as long as the question; else the operation restarts

_NO_STOPS = np.zeros(1, np.int64)


class Notes:
    """Facts about the expressions of a frozen arena. They hold in all its clones, which give these expressions the same ids.

    ``end``: the first id that is not one of them; ``measures``: see :mod:`cdplugin.queries.measures`.
    """

    def __init__(self, end: int) -> None:
        self.end = end
        self.measures: np.ndarray | None = None


class _Named(NamedTuple):
    """How an error names a budget: what took the work, the limit, and the granted units, unless those granted last."""

    what: str
    limit: str
    most: int | None = None


_STEP = _Named("one step", "max_step_work")


class OneBudget:
    """The context of :meth:`Arena.one_budget`."""

    __slots__ = ("_arena", "_held", "_named", "_work")

    def __init__(self, arena: Arena, work: int | None, named: _Named) -> None:
        self._arena, self._work, self._named = arena, work, named
        self._held = True

    def __enter__(self) -> None:
        head = self._arena.header
        self._held = bool(head[layout.HOLDS_WORK])
        if self._work is not None and not self._held:
            head[layout.WORK_DONE] += head[layout.WORK_GRANTED] - head[layout.WORK_LEFT]
            head[layout.WORK_GRANTED] = head[layout.WORK_LEFT] = min(self._work, _MOST_WORK)
            self._arena._named = self._named
        head[layout.HOLDS_WORK] = 1

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._end()
        if kind is not None and not issubclass(kind, CdpluginError) and self._arena.account is not None:
            self._arena.abandon()  # the endings that its grammar knows may be half changed

    def __del__(self) -> None:
        self._end()  # an interrupt may come as `__exit__` begins

    def _end(self) -> None:
        if not getattr(self, "_held", True):
            self._held = True
            self._arena.header[layout.HOLDS_WORK] = 0
            self._arena._named = _STEP


class Arena(OwnedTables):
    """One engine: a header and its tables. One thread at a time steps it (:attr:`lock`).

    ``is_fresh``: it replaced an arena that was over budget, and nothing has been followed in it yet. ``notes``: facts about the
    expressions that it was cloned with. ``start``: the cursor at the beginning of a text, once rules are installed. ``expand``:
    makes the rules of a nonterminal that is predicted for the first time, if the grammar has late rules. ``tracker``: knows the
    values of tracking lexemes, if there are any. ``shared``: the store whose bases it may take over, read through
    ``shared_header``; ``n_looked_at``, ``n_learned``: how many of its own bases have been offered to the store. ``lender``: in
    a template, the source of its clones' stores.

    The vocabulary's tables are shared and read-only; everything else belongs to the arena.
    """

    def __init__(self, vocab: Vocabulary, limits: Limits) -> None:
        self._begin(vocab, limits, Notes(0))
        self.hold(Tables({t: np.empty(0, dtype_of(t)) for t in range(layout.N_TABLES)}), None, ())
        self._copied = np.empty((0, 5), np.int64)  # for OP_COPY: what to copy into a clone's block
        self._opened: dict[int, Span] | None = None  # the tables of a clone's block, at the size that they may have at once
        self._fixed: dict[int, np.ndarray] = {}  # the tables that clones share
        self.header = np.zeros(layout.HEADER_WORDS, np.int64)
        self.address: int = address_of(self.header)
        for table, size in INITIAL.items():
            self.set_table(table, np.zeros(size, dtype_of(table)))
        for number in (layout.N_VALUES, layout.N_LEXER_STATES, layout.N_ROWS):
            self.header[number] = 1  # 0 means none
        for table, slots in HASHED.items():
            self.header[slots] = 1 << (INITIAL[table].bit_length() - 1)
        self._set_vocabulary()
        with FirstCall(kernels.engine):
            self.call(kernels.OP_CONSTANTS)
        kernels.note_loaded()

    def _begin(self, vocab: Vocabulary, limits: Limits, notes: Notes) -> None:
        """Set everything that a new arena needs besides its tables, whether it is made or cloned."""
        self.vocab, self.limits, self.notes = vocab, limits, notes
        self.lock = threading.Lock()
        self.over_budget = self.is_fresh = self._stretched = False
        self._broken_by = None
        self._n_growths = 0
        self._named = _STEP
        self.start = 0
        self.expand: Expander | None = None
        self.tracker: ValueTracker | None = None
        self.account = None
        self.shared: Store | None = None
        self.shared_header: np.ndarray | None = None
        self.n_looked_at = self.n_learned = 0
        self.lender: SharedBases | None = None

    def _set_vocabulary(self) -> None:
        vocab, head = self.vocab, self.header
        shared = {
            layout.TRIE_BYTE: vocab.trie.byte,
            layout.TRIE_DEPTH: vocab.trie.depth,
            layout.TRIE_SKIP: vocab.trie.skip,
            layout.TRIE_TOKEN: vocab.trie.token,
            layout.TRIE_CHILDREN: vocab.trie.children,
            layout.TRIE_FIRST_CHILD: vocab.trie.first_child,
            layout.TRIE_BELOW: vocab.trie.below,
            layout.TRIE_RANK: vocab.trie.rank,
            layout.TRIE_LISTED: vocab.trie.listed,
            layout.TRIE_REACH: vocab.trie.reach,
            layout.TRIE_CHARS: vocab.max_chars,
            layout.SLICE_MASKS: vocab.slice_masks.reshape(-1),
            layout.TOKEN_OFFSETS: vocab.token_offsets,
            layout.TOKEN_BYTES: vocab.token_bytes,
        }
        for table, array in shared.items():
            self.set_table(table, array, is_own=False)
        head[layout.WORDS] = bitmask_words(vocab.size)
        head[layout.SLICE_END] = vocab.slice_end
        head[layout.N_NODES] = len(vocab.trie.byte)
        head[layout.MAX_DEPTH] = vocab.max_token_bytes
        head[layout.N_SLICES] = len(vocab.slice_masks)
        head[layout.MAX_CHARS] = vocab.slice_chars
        head[layout.USE_SLICES] = 1
        self.set_limits(self.limits)

    @property
    def nbytes(self) -> int:
        """Bytes of the arena's own tables, including those that a clone began with, and of the state of its late rules."""
        return super().nbytes + (0 if self.expand is None else self.expand.nbytes)

    def set_limits(self, limits: Limits) -> None:
        """Apply these limits from now on."""
        self.limits = limits
        self.max_bytes = limits.max_arena_bytes
        head = self.header
        head[layout.MAX_WIDTH] = limits.max_expr_width
        head[layout.FUEL] = limits.emptiness_fuel
        head[layout.MAX_ROW_ITEMS] = limits.max_row_items
        head[layout.MAX_PAIRS] = limits.max_pairs
        head[layout.MAX_WORK] = min(limits.max_step_work, _MOST_WORK)

    def _in_use(self) -> dict[int, int]:
        """Return how many items of each table are in use."""
        counted = {table: int(self.header[counter]) * words for table, (counter, words) in IN_USE.items()}
        return counted | {table: int(self.header[slots]) for table, slots in HASHED.items()}

    def freeze(self) -> None:
        """Move everything that a clone gets a copy of into one block. The arena must not be stepped afterwards."""
        in_use = self._in_use()
        in_use[layout.STACK] = 0
        self.set_table(layout.STACK, np.empty(INITIAL[layout.STACK], np.int64))  # a large program may have enlarged it
        block = self._held.block = Block.of({table: self.tables[table] for table in INITIAL}, in_use, ROOM)
        self.set_block(block)
        self._copied = block.copied()
        self._held.kind = (len(block.memory), *sorted(block.rooms.items()))
        opened = block.opened(AT_ONCE)
        if sum([end - start for start, end, _, _ in opened.values()]) <= self._most_taken_over:
            self._opened = opened
        self._fixed = {t: array for t, array in self.tables.items() if t not in INITIAL}
        self.notes = Notes(int(self.header[layout.N_VALUES]))

    def clone(self) -> Arena:
        """Return an arena that begins with all states of this one, which is frozen. The two share only the vocabulary."""
        assert self._block is not None
        other = object.__new__(Arena)
        other._begin(self.vocab, self.limits, self.notes)
        other.max_bytes = self.max_bytes
        other.header = self.header.copy()
        other.address = address_of(other.header)
        own, kind = self._block, self._held.kind
        memory, noted = pages.acquire_room(len(own.memory), kind, self._most_taken_over)
        kernels.engine(other.address, kernels.OP_COPY, address_of(memory), address_of(self._copied), len(self._copied))
        block = Block(memory, own.spans, own.rooms)
        noted = noted or self._opened
        if noted is not None:
            block.take_over(noted)
            for table in block.rooms:
                start, end, _, _ = block.spans[table]
                other.header[2 * table + 1] = (end - start) // DTYPES[table].itemsize
        other.hold(Tables(self._fixed, (block,)), block, kind)
        if self.lender is not None:
            self.lender.lend(other)
        return other

    def call(self, op: int, a: int = 0, b: int = 0, c: int = 0) -> int:
        """Run an operation of :mod:`cdplugin.kernels.entry`, growing tables as it asks; return its result.

        Raises :class:`LimitExceeded` if a budget is crossed: what was found so far stays, and the operation has no effect. The
        caller holds :attr:`lock` if threads may share the arena.
        """
        result = kernels.run(self.address, op, a, b, c)
        return result if result >= 0 else self.finish(result, op, a, b, c)

    def call_known(self, op: int, a: int, b: int) -> int | None:
        """Do :meth:`call`; return None if that would first have to make rules of family members."""
        result = kernels.run(self.address, op, a, b, 0)
        if result < 0:
            result = self.finish(result, op, a, b, 0, statuses.NEED_RULES)
        return None if result < 0 else result

    def derivatives(self, expression: int, first: int = 0, end: int = 256) -> list[tuple[int, int]]:
        """Return the derivatives by the bytes ``first`` to ``end - 1``, as pairs (number of bytes, derivative, perhaps
        :data:`EMPTY`).

        One pair for each class of bytes that certainly share a derivative.
        """
        found = self.call(kernels.OP_DERIVATIVES, expression, first, end)
        return list(map(tuple, self.tables[layout.STACK][: 2 * found].reshape(-1, 2).tolist()))

    def ask(self, op: int, question: Sequence[int], more_bytes: int) -> np.ndarray:
        """Put a question at the bottom of the stack, run an operation on it, and return its answer (int64).

        The answer is the words above the question, as many as the result says. The arena may grow by ``more_bytes`` for it. The
        stack keeps its size.
        """
        n_words = len(question)
        before = None if layout.STACK in self._pages else self.tables[layout.STACK]
        try:
            if _MOST_ANSWER * n_words > self.header[2 * layout.STACK + 1]:
                self._lend_stack(_MOST_ANSWER * n_words)
            padding = -n_words % _PADDED
            pack_into(f"{n_words + padding}q", self.tables[layout.STACK].data, 0, *question, *(0,) * padding)
            result = kernels.run(self.address, op, n_words, 0, 0)
            if result < 0:
                most = self.max_bytes
                self.max_bytes = min(most, self.nbytes + more_bytes)
                try:
                    result = self.finish(result, op, n_words, 0, 0)
                finally:
                    self.max_bytes, self.over_budget = most, False
                    self.note_size()
            return self.tables[layout.STACK][n_words : n_words + result].copy()
        except LimitExceeded:  # nothing of the answer is kept
            self.over_budget = bool(self.header[layout.IS_BROKEN])
            raise
        finally:
            if before is not None and self.tables[layout.STACK] is not before:
                freed = [self._pages.pop(layout.STACK)] if layout.STACK in self._pages else []
                self.set_table(layout.STACK, before)
                pages.release(freed)

    def is_nonempty(self, expression: int) -> bool:
        """Return whether an expression matches any text."""
        return self.call(kernels.OP_STATUS, expression) & kernels.MATCHES_SOMETHING != 0

    def transitions(self, states: np.ndarray) -> np.ndarray:
        """Return the transitions of lexer states (int64) by each byte, int32 ``(states, 256)``, each as from
        :meth:`transition`.
        """
        states = np.ascontiguousarray(states, np.int64)
        rows = np.empty((len(states), 256), np.int32)
        self.call(kernels.OP_TRANSITIONS, states.ctypes.data, rows.ctypes.data, len(states))
        return rows

    def evaluate(self, words: Sequence[int], n_results: int) -> tuple[int, list[int]]:
        """Run a program (:mod:`cdplugin.kernels.regex.programs`) in an arena that is in use; return its expression and the
        results that it keeps.

        Raises :class:`LimitExceeded`.
        """
        self.reserve(layout.VISIT_STAMPS, n_results)
        self.reserve(layout.STACK, 2 * len(words))
        self.tables[layout.STACK][: len(words)] = words
        expression = self.call(kernels.OP_EVALUATE, len(words))
        stamps = self.tables[layout.VISIT_STAMPS]
        results = stamps[:n_results].tolist()
        stamps[:n_results] = 0
        return expression, results

    def finish(self, result: int, op: int, a: int, b: int, c: int, unless: int = 0) -> int:
        """Do what an operation's status (a negative ``result``) asks for and repeat the operation until it has a result: the
        rest of :meth:`call`.

        Matchers call the kernel themselves, and this only on a status, which saves a call at each token. ``unless``: a status
        that is returned as a result.
        """
        head = self.header
        held = head[layout.HOLDS_WORK]
        head[layout.HOLDS_WORK] = 1  # a repeated operation continues with the work that is left
        self._n_growths = 0
        try:
            while result < 0 and result != unless:
                self.recover(result)
                result = kernels.run(self.address, op, a, b, c)
        finally:
            head[layout.HOLDS_WORK] = held
        return result

    def one_budget(
        self, work: int | None, limit: str = "max_step_work", what: str = "one step", most: int | None = None
    ) -> OneBudget:
        """Return a context in which operations share one grant of work, instead of getting ``Limits.max_step_work`` each.

        They share ``work`` units; None, or inside another such context: what is left of the last grant. An error says ``what``
        took more than ``most`` units (default: ``work``), as a multiple of ``limit``.
        """
        return OneBudget(self, work, _Named(what, limit, most))

    def compile_budget(self) -> OneBudget:
        """Return :meth:`one_budget` for compiling, of ``Limits.max_compile_work``."""
        return self.one_budget(self.limits.max_compile_work, "max_compile_work", "compiling this")

    def spend(self, work: int) -> None:
        """Count work done outside the kernels. Raises :class:`LimitExceeded` if no work is left."""
        self.header[layout.WORK_LEFT] -= min(work, _MOST_WORK)
        self._check_work()

    def _check_work(self) -> None:
        if self.header[layout.WORK_LEFT] < 0:
            what, limit, most = self._named
            most = int(self.header[layout.WORK_GRANTED]) if most is None else most
            times = most / getattr(self.limits, limit)
            of_limit = f"Limits.{limit}" if times == 1 else f"{times:g} times Limits.{limit}"
            raise LimitExceeded(f"{what} takes too much work", expected=f"at most {most} units ({of_limit})")

    def recover(self, status: int) -> None:
        """Do what a negative status asks for: make room, rules or a value; or raise.

        All memory is allocated before anything is changed. If an exception interrupts a change all the same (a
        ``KeyboardInterrupt``, or a limit that late rules cross), the arena is broken, and its grammar starts a fresh one.
        """
        self._check_work()
        self.header[layout.WORK_LEFT] -= _RESTART_WORK
        if status in (statuses.GROW, statuses.NEED_RULES, statuses.NEED_VALUE, statuses.NEED_REST):
            with gc_paused():  # only here: other steps make no objects that the collector counts
                self._make(status, int(self.header[layout.REQUEST_A]), int(self.header[layout.REQUEST_B]))
        elif status == statuses.BROKEN:
            if self._broken_by is not None:  # repeat the limit to a caller that continues with the same question
                raise copy(self._broken_by)
            raise CdpluginError("an exception interrupted this grammar's engine during a change: compile it again")
        else:
            message, limit = _LIMIT_MESSAGES[status]
            raise LimitExceeded(message, expected=at_most(self.limits, limit))

    def _make(self, status: int, a: int, b: int) -> None:
        """Make room, make the rules of nonterminals predicted for the first time, or note what a lexeme's text means."""
        if status == statuses.GROW:
            self._grow(a, b)
        elif status == statuses.NEED_RULES:
            assert self.expand is not None
            for nonterminal in self.tables[layout.STACK][b:a].tolist():
                self.spend(_RULES_WORK)
                with self._making():
                    self.expand(nonterminal)
        else:
            assert self.tracker is not None
            asked = self.tables[layout.STACK][b:a].tolist()
            note: Callable[[int, int], None]
            if status == statuses.NEED_VALUE:
                note, pairs = self.tracker.note_value, [(lexeme, asked[-1]) for lexeme in asked[:-1]]
            else:
                note, pairs = self.tracker.note_rest, list(dict.fromkeys(zip(asked[::2], asked[1::2], strict=True)))
            for lexeme, ended in pairs:
                self.spend(_NOTE_WORK)
                with self._making():
                    note(lexeme, ended)

    @contextmanager
    def _making(self) -> Iterator[None]:
        """A context for a change that may do more work than is left; the debt stays afterwards.

        Otherwise a change that crosses a small budget half-way would break the arena.
        """
        lent = self.limits.max_step_work // _LENT
        self.header[layout.WORK_LEFT] += lent
        try:
            with self._changing():
                yield
        finally:
            self.header[layout.WORK_LEFT] -= lent

    def counters(self) -> dict[str, int]:
        """Return counts of what the engine has done since the arena was made."""
        head = self.header
        names = {
            "nodes_walked": layout.C_NODES,
            "derivatives": layout.C_DERIVATIVES,
            "lexer_transitions": layout.C_TRANSITIONS,
            "row_advances": layout.C_ADVANCES,
            "mask_hits": layout.C_MASK_HITS,
            "mask_misses": layout.C_MASK_MISSES,
            "bases": layout.C_BASES,
            "shared_bases": layout.C_SHARED,
            "subtree_walks": layout.C_SUBWALKS,
            "lexer_states": layout.N_LEXER_STATES,
            "rows": layout.N_ROWS,
            "values": layout.N_VALUES,
            "memo_entries": layout.MEMO_USED,
        }
        work = int(head[layout.WORK_DONE] + head[layout.WORK_GRANTED] - head[layout.WORK_LEFT])
        return {name: int(head[word]) for name, word in names.items()} | {"work": work, "bytes": self.nbytes}

    def mask(self, cursor: int, stops: np.ndarray = _NO_STOPS) -> np.ndarray:
        """Return the mask row of a cursor. ``stops``: int64, a count and the stop tokens. The caller holds the lock."""
        row = np.zeros(bitmask_words(self.vocab.size), np.int32)
        self.call(kernels.OP_FILL, cursor, row.ctypes.data, stops.ctypes.data)
        return row
