"""The workspace of the infilling kernels: owner of the tables of :mod:`cdplugin.kernels.infill.workspace`, which it grows.

Kernels return ``W_GROW`` with a table and a size; :meth:`Workspace.call` grows the table and calls again.
"""

from __future__ import annotations

import bisect
import mmap
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cdplugin.engine.arena import Arena
from cdplugin.errors import LimitExceeded
from cdplugin.kernels.infill import entry as kernels
from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.jit.decorators import FirstCall, is_loaded
from cdplugin.kernels.store import statuses

if TYPE_CHECKING:
    from cdplugin.infill.separators import Separators

MOST_STATES = 1 << 15  # lexer states that one gap may lead to
_WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_MOST_NODES = [64 * width - 2 for width in _WIDTHS]

_GROWTH = 2.0  # factor by which a table grows
_SMALL, _MIDDLING = 1 << 13, 1 << 17  # a table with fewer items grows by the third, or second, power of that
_SPARSE = 1 << 22  # a table of so many bytes or more is in small pages; NumPy would ask for huge ones from here on

# open addressing: powers of two
_HASHES = (
    ws.COLUMN_HASH,
    ws.CHECKED_INDEX,
    ws.OUTCOME_INDEX,
    ws.WAY_HASH,
    ws.REACH_INDEX,
    ws.PUSHED,
    ws.SET_HASH,
    ws.FACT_INDEX,
    ws.EDGE_INDEX,
    ws.MEASURE_INDEX,
)

_CLEARED = (ws.COLUMN_HASH, ws.SET_HASH)  # of these, the ones without stamps: they are cleared, so they had better stay small

_INITIAL = {
    ws.POOL: 1 << 14,
    ws.QUEUE: 1 << 10,
    ws.BITS: 1 << 14,
    ws.CLASS_RECORD: 256,
    ws.CLASS_NODE: 256,
    ws.COLUMN_HASH: 1024,
    ws.CHECKED_INDEX: 1024,
    ws.CROSS_MARK: 1024,
    ws.OUTCOME_INDEX: 1024,
    ws.WAY_HASH: 1024,
    ws.REACH_INDEX: 1024,
    ws.PUSHED: 1024,
    ws.STEPS: 1 << 14,
    ws.LIVE_BITS: 1 << 14,
    ws.FACT_INDEX: 1 << 12,
    ws.FACTS: 1 << 13,
    ws.INFERENCES: 1 << 14,
    ws.EDGE_INDEX: 1 << 10,
    ws.MEASURE_INDEX: 1 << 10,
    ws.END_IN_GAPS: 0,
}

# what depends on the rules alone
_RULES = (
    ws.SYMBOL_HEADS,
    ws.SYMBOL_DOTS,
    ws.TURN_OF,
    ws.IS_FIRST,
    ws.FIRST_HEADS,
    ws.FIRST_DOTS,
    ws.FOLLOWS,
    ws.RANKS,
    ws.LAST_RANKS,
    ws.AFTER,
    ws.AFTER_KNOWN,
    ws.PASSES,
    ws.SKIPPED,
    ws.CHAIN_HEADS,
    ws.CHAIN_DOTS,
    ws.CHAIN_UPS,
    ws.NEAR_FIRST,
    ws.NEXT_OF,
)
_SIZED_BY_RULES = (ws.WORK, ws.LEXEME_MARK, ws.NT_MARK, ws.CLASS_HASH, ws.TARGET)
_MANY_DOTS = 1 << 13
# initial sizes for a grammar with so many dots; memory that is never touched costs nothing
_OF_MANY_DOTS = {
    ws.BITS: 1 << 20,
    ws.FACTS: 1 << 19,
    ws.INFERENCES: 1 << 21,
    ws.FACT_INDEX: 1 << 18,
    ws.EDGES: 1 << 13,
    ws.EDGE_INDEX: 1 << 13,
    ws.HEAP: 1 << 16,
    ws.POINTS: 1 << 16,
    ws.POINT_OF: 1 << 16,
    ws.LAYERS: 1 << 14,
    ws.TARGETS_OF: 1 << 16,
    ws.MEASURES: 1 << 13,
    ws.MEASURE_INDEX: 1 << 13,
    ws.TOUCHED: 1 << 16,
    ws.SET_STATES: 1 << 16,
    ws.STEP_OF: 1 << 17,
    ws.STEPS: 1 << 17,
    ws.MARK: 1 << 15,
    ws.SET_MARK: 1 << 13,
    ws.CLOSURE_OF: 1 << 15,
    ws.CHECKPOINTS: 1 << 14,
    ws.SPAN_OWNERS: 1 << 12,
    ws.START_SETS: 1 << 15,
    ws.POOL: 1 << 17,
}
_RULE_WORDS = (
    ws.W_N_SYMBOLS_NT,
    ws.W_N_LEXEMES,
    ws.W_N_DOTS,
    ws.W_MOST_STATES,
    ws.W_MOST_CLASSES,
    ws.W_SET,
    ws.W_DOT_SET,
    ws.W_TURN_SET,
    ws.W_HAS_CHAINS,
)


# tables with an entry for each node and each dot or symbol: few entries are not 0, and all are reset before the next text
_ROWS_OF_NODES = (ws.REST, ws.DERIVED, ws.OUT, ws.ITEMS)
# every derivation begins with these empty
_OF_DERIVATIONS = (ws.FACTS, ws.INFERENCES, ws.FACT_INDEX, ws.HEAP)

_ARENAS = 4  # times Limits.max_arena_bytes that a workspace may take
_LEAST_GROWTH = 32  # a table grows by at least this fraction: near the limit, it would be copied again and again
_MOVED_AT_ONCE = 1 << 22  # items
_RESTART_WORK = 200  # units of work for repeating an operation, besides what it does again


@dataclass
class Rules:
    """What depends on a grammar's rules alone: tables, the sizes of others, and words of the header.

    ``end_in_gaps``: which lexemes may end in a gap of the strict lattice (:mod:`cdplugin.infill.room`); ``separators``: texts
    that separate lexemes. None until they are computed.
    """

    tables: dict[int, np.ndarray]
    sizes: dict[int, int]
    words: dict[int, int]
    end_in_gaps: np.ndarray | None = None
    separators: Separators | None = None

    @classmethod
    def of(cls, work: Workspace) -> Rules:
        """The rules of a workspace, which shares its tables."""
        tables = {table: work.tables[table] for table in _RULES}
        sizes = {table: len(work.tables[table]) for table in _SIZED_BY_RULES}
        return cls(tables, sizes, {word: int(work.header[word]) for word in _RULE_WORDS})

    def copy(self) -> Rules:
        """A copy with tables of its own."""
        return replace(self, tables={table: array.copy() for table, array in self.tables.items()})

    @property
    def nbytes(self) -> int:
        """Bytes of the tables."""
        return sum(array.nbytes for array in self.tables.values())


class Workspace:
    """The tables and header of one workspace. An operation that needs larger tables is repeated."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.classified = False
        self.header = np.zeros(ws.WORKSPACE_WORDS, np.int64)
        self.address: int = self.header.ctypes.data
        self.tables = [np.zeros(0, np.int64) for _ in range(ws.N_WORKSPACE)]
        self._addresses = [0] * ws.N_WORKSPACE  # of the tables, in the same order
        self.nbytes = self.header.nbytes
        self._let_go = 0
        for table in range(ws.N_WORKSPACE):
            self.set(table, np.zeros(_INITIAL.get(table, 64), np.int64))
        self.header[ws.W_POOL_USED] = 1
        self.header[ws.W_BELOW_USED] = 1
        self.header[ws.W_N_CLASSES] = 1
        self.header[ws.W_WIDTH] = _WIDTHS[0]

    @classmethod
    def with_rules(cls, arena: Arena, rules: Rules) -> Workspace:
        """A new workspace for the grammar of some rules, with these very tables."""
        work = cls(arena)
        for table, array in rules.tables.items():
            work._enter(table, array)
        for table, size in rules.sizes.items():
            work.reserve(table, size)
        for word, value in rules.words.items():
            work.header[word] = value
        work.size_for_dots()
        return work

    def with_same_rules(self) -> Workspace:
        """A new workspace for the same grammar. It shares the rules' tables, also those still being filled (``AFTER``), so the
        same thread must use both.
        """
        return Workspace.with_rules(self.arena, Rules.of(self))

    def size_for_dots(self) -> None:
        """Begin with larger tables if the grammar has many dots, so that few operations are repeated."""
        if self.header[ws.W_N_DOTS] >= _MANY_DOTS:
            for table, size in _OF_MANY_DOTS.items():
                self.reserve(table, size)

    def set(self, table: int, array: np.ndarray) -> None:
        """Make a copy of ``array`` a table."""
        self._enter(table, np.array(array, np.int64))

    def _enter(self, table: int, array: np.ndarray) -> None:
        self.nbytes += array.nbytes - self.tables[table].nbytes
        self.tables[table] = array
        self.header[2 * table] = self._addresses[table] = array.ctypes.data
        self.header[2 * table + 1] = len(array)

    def reserve(self, table: int, size: int) -> None:
        """Make a table hold at least ``size`` items; new ones are 0. Raises :class:`LimitExceeded`."""
        have = int(self.header[2 * table + 1])
        if have >= size:
            return
        # each growth repeats an operation, so small tables grow fast
        power = 1 if have >= _MIDDLING or table in _CLEARED else 2 if have >= _SMALL else 3
        larger = max(size, int(_GROWTH**power * have))
        most = _ARENAS * self.arena.limits.max_arena_bytes
        if self.nbytes + 8 * (larger - have) > most:
            # take half of what is left: growing by as little as is asked for would repeat the operation without end
            half = (most - self.nbytes) // 16
            larger = size if table in _HASHES else max(size, have + half)
            is_little = table not in _HASHES and half < have // _LEAST_GROWTH
            if is_little or self.nbytes + 8 * (larger - have) > most:
                self.arena.abandon()  # tables never shrink, so everything is made anew for the next text
                raise LimitExceeded(
                    "infilling: the text takes too much memory",
                    expected=f"at most {most} bytes, {_ARENAS} times Limits.max_arena_bytes",
                )
        # the kernels swap LIVE and LIVE_NEXT in the header, so the array is found by its address
        at = self._addresses.index(int(self.header[2 * table]))
        old = self.tables[at]
        grown = _zeros(larger)
        if table in _ROWS_OF_NODES:
            used = self._entries_with_rows(table)
            grown[used] = old[used]
        else:
            try:
                _move(old, grown)
            except BaseException:  # an interrupt: the old table has lost the pages that were moved
                self.arena.abandon()
                raise
        self.nbytes += grown.nbytes - old.nbytes
        self.tables[at] = grown
        self.header[2 * table] = self._addresses[at] = grown.ctypes.data
        self.header[2 * table + 1] = len(grown)

    def _entries_with_rows(self, table: int) -> np.ndarray:
        """The entries of a table of ``_ROWS_OF_NODES`` that may not be 0. They are few; copying all would touch every page."""
        touched = self.tables[ws.TOUCHED][: self.header[ws.W_N_TOUCHED]]
        touched = touched[touched >> 40 & 0x7F == table]
        first, count = touched & 0xFFFFFFFFFF, touched >> 47
        ends = np.cumsum(count)
        return np.repeat(first - ends + count, count) + np.arange(count.sum())

    def begin_text(self, nodes: int) -> None:
        """Make rows wide enough for about ``nodes`` nodes; the kernels widen them for a text with more.

        Rows a few steps wider than needed stay as they are: facts of the last text can be reused only at the same width, and of
        a row only the words right of its node are read.
        """
        enough = min(bisect.bisect_left(_MOST_NODES, nodes), len(_WIDTHS) - 1)
        if not _WIDTHS[enough] <= int(self.header[ws.W_WIDTH]) <= _WIDTHS[min(enough + 2, len(_WIDTHS) - 1)]:
            self.header[ws.W_WIDTH] = _WIDTHS[enough]

    def forget_texts(self) -> None:
        """Forget what is kept of texts for the next one."""
        self.header[ws.W_REUSED_WIDTH] = 0

    @property
    def nbytes_at_rest(self) -> int:
        """Bytes that the tables take while nobody uses them; memory never touched, or given back, is not counted."""
        if not self.header[ws.W_ELEMENTS]:
            return sum(self.tables[table].nbytes for table in _RULES)
        return self.nbytes - self._let_go

    def rest(self) -> None:
        """Forget texts, and count all memory as in use again."""
        self.forget_texts()
        self._let_go = 0

    def let_go(self) -> None:
        """After :meth:`rest`: give back the memory of the largest tables. They keep their sizes: untouched pages are free."""
        for table in _ROWS_OF_NODES + _OF_DERIVATIONS:
            array = self.tables[table] = _zeros(len(self.tables[table]))
            self.header[2 * table] = self._addresses[table] = array.ctypes.data
            self._let_go += array.nbytes

    def give_up(self) -> None:
        """Give back the memory of all tables; the workspace must not be used again."""
        self.tables = [np.zeros(0, np.int64) for _ in self.tables]
        self.nbytes = self.header.nbytes

    def reached_from(self, state: int) -> np.ndarray:
        """The lexer states that some text leads to from a state, itself first: int64, a view. Computes their transitions."""
        record = self.call(kernels.OP_CLOSURE, state)
        first = record + ws.C_FIRST
        pool = self.tables[ws.POOL]
        return pool[first : first + pool[record + ws.C_STATES]]

    def call(self, op: int, a: int = 0, b: int = 0) -> int:
        """Run an operation, growing tables as it asks. Raises :class:`LimitExceeded`; then nothing is kept of the text.

        Repeated calls share one budget of work: ``Limits.max_step_work``, or that of the caller's context
        (:meth:`cdplugin.engine.arena.Arena.one_budget`).
        """
        engine = kernels.infill_engine
        if is_loaded(engine):
            result = int(engine(self.arena.address, self.address, op, a, b))
        else:
            with FirstCall(engine):
                result = int(engine(self.arena.address, self.address, op, a, b))
        if result >= 0:
            return result
        with self.arena.one_budget(None):
            try:
                while result < 0:
                    self._recover(result)
                    result = int(engine(self.arena.address, self.address, op, a, b))
            except LimitExceeded:
                self.forget_texts()
                raise
        return result

    def _recover(self, result: int) -> None:
        """Do what a negative status asks for, or raise."""
        self.arena.spend(_RESTART_WORK)
        if result == statuses.W_GROW:
            table, size = int(self.header[ws.W_TABLE]), int(self.header[ws.W_TO])
            if table in _HASHES:
                size = 1 << (size - 1).bit_length()
            self.reserve(table, size)
        elif result == statuses.WIDEN:
            width = int(self.header[ws.W_WIDTH])
            wider = [n for n in _WIDTHS if n > width]
            if not wider:
                raise LimitExceeded("infilling: too many lexeme boundaries", expected=f"at most {64 * width}")
            self.header[ws.W_WIDTH] = wider[0]
        elif result == statuses.LIMIT_STATES:
            raise LimitExceeded("infilling: a gap leads to too many lexer states", expected=f"at most {MOST_STATES}")
        else:
            self.arena.recover(result)


def _zeros(size: int) -> np.ndarray:
    """A zeroed int64 array, in small pages if it is large.

    NumPy asks for pages of 2 MB, and each costs 0.05 ms when it is first touched. Of a large table few entries are used, here
    and there: with small pages, it touches fewer bytes.
    """
    if 8 * size < _SPARSE or not sys.platform.startswith("linux"):
        return np.zeros(size, np.int64)
    pages = mmap.mmap(-1, 8 * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, np.int64)


def _move(old: np.ndarray, grown: np.ndarray) -> None:
    """Copy a table to the beginning of a larger one. A sparse one gives back its pages as they are copied, so memory is not
    taken twice.
    """
    pages = getattr(old.base, "obj", None)  # the base is a view of them
    if not isinstance(pages, mmap.mmap):
        grown[: len(old)] = old
        return
    for first in range(0, len(old), _MOVED_AT_ONCE):
        end = min(first + _MOVED_AT_ONCE, len(old))
        grown[first:end] = old[first:end]
        pages.madvise(mmap.MADV_DONTNEED, 8 * first, 8 * (end - first))
