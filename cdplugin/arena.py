"""Owner of an engine's tables: allocates them, grows them when a kernel asks, and turns statuses into errors."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cdplugin import pages
from cdplugin.errors import LimitExceeded
from cdplugin.kernels import arena as layout
from cdplugin.kernels import engine as kernels
from cdplugin.kernels.bases import BASE_WORDS
from cdplugin.kernels.jit import Notice
from cdplugin.kernels.kept import TEXT_BIT
from cdplugin.kernels.lexer import LEXER_WORDS
from cdplugin.limits import Limits
from cdplugin.vocab import Vocabulary

_LIMIT_MESSAGES = {
    layout.LIMIT_WIDTH: ("a regular expression grows too many alternatives", "max_expr_width"),
    layout.LIMIT_FUEL: ("whether an expression with '&' or '~' can match could not be decided", "emptiness_fuel"),
    layout.LIMIT_ROW: ("the grammar is too ambiguous: too many parser items at one position", "max_row_items"),
    layout.LIMIT_PAIRS: ("the grammar is too ambiguous: too many ways to split the text into lexemes", "max_pairs"),
}

# first capacities, in items: enough for a small schema, so that most grammars never grow
_INITIAL = {
    layout.DATA: 2048,
    layout.VALUES: 768 * layout.VALUE_WORDS,
    layout.INDEX: 2048,
    layout.MEMO_KEYS: 512,
    layout.MEMO_RESULTS: 512,
    layout.STACK: 2048,
    layout.TRANSITIONS: 32 * 256,
    layout.LEXER_STATES: 64 * LEXER_WORDS,
    layout.ROWS: 256,
    layout.BASES: 64 * BASE_WORDS,
    layout.MASKS: 256,
    layout.TOKEN_LISTS: 2048,
    layout.ENDS: 512,
}

_FOR_WALKS = {
    layout.DATA: 1 << 15,
    layout.VALUES: (1 << 12) * layout.VALUE_WORDS,
    layout.STACK: 1 << 15,
    layout.TRANSITIONS: 256 * 256,
    layout.LEXER_STATES: 256 * LEXER_WORDS,
    layout.TOKEN_LISTS: 1 << 17,
    layout.ENDS: 1 << 15,
}

_IN_USE = {
    layout.DATA: (layout.DATA_USED, 1),
    layout.VALUES: (layout.N_VALUES, layout.VALUE_WORDS),
    layout.LEXER_STATES: (layout.N_LEXER_STATES, LEXER_WORDS),
    layout.TRANSITIONS: (layout.N_LEXER_STATES, 256),
    layout.TOKEN_LISTS: (layout.TOKENS_USED, 1),
    layout.ENDS: (layout.ENDS_USED, 1),
    layout.STACK: (layout.STACK_TOP, 1),
}
"""Tables that fill from the front: the word of the header that counts their records, and the items of one."""

_GROWTH_SMALL, _GROWTH_LARGE = 4.0, 2.0  # factors for tables below and above a MiB: a kernel that ran out of room starts again


_LINE = 64  # bytes of a cache line: each table of a block begins at one


def _dtype(table: int) -> type:
    if table in layout.INT32_TABLES:
        return np.int32
    return np.uint8 if table in layout.UINT8_TABLES else np.int64


@dataclass(frozen=True)
class Block:
    """Several tables in one piece of memory, so that an arena takes them over at once.

    ``memory``: uint8; ``spans``: of each table its number, where it begins and ends, where what is in use of it ends (all in
    bytes), and its dtype; ``numbers`` and ``places``: int64, the tables as the header has them: numbers, and pairs (offset in
    bytes, length in items).
    """

    memory: np.ndarray
    spans: Sequence[tuple[int, int, int, int, type]]
    numbers: np.ndarray
    places: np.ndarray

    @classmethod
    def of(cls, tables: Mapping[int, np.ndarray], in_use: Mapping[int, int]) -> Block:
        """Copies of ``tables``; ``in_use``: how many items of a table matter (default: all)."""
        at = 0
        spans, places = [], []
        for table, array in tables.items():
            used = in_use.get(table, len(array)) * array.itemsize
            spans.append((table, at, at + array.nbytes, at + used, _dtype(table)))
            places.append((at, len(array)))
            at += -(-array.nbytes // _LINE) * _LINE
        block = cls(np.zeros(at, np.uint8), spans, np.array(list(tables), np.int64), np.array(places, np.int64))
        for (_, copy), array in zip(block.tables(), tables.values(), strict=True):
            copy[:] = array
        return block

    @classmethod
    def around(cls, words: np.ndarray, sizes: Mapping[int, int]) -> Block:
        """Tables that lie in ``words`` (int64) one after the other, by their numbers of items."""
        at = 0
        spans, places = [], []
        for table, size in sizes.items():
            spans.append((table, at, at + 8 * size, at + 8 * size, np.int64))
            places.append((at, size))
            at += 8 * size
        return cls(words.view(np.uint8), spans, np.array(list(sizes), np.int64), np.array(places, np.int64))

    def copy(self) -> Block:
        """The same in memory of its own; what is not in use is not initialised."""
        old, memory = self.memory, np.empty(len(self.memory), np.uint8)
        for _, start, _, used, _ in self.spans:
            memory[start:used] = old[start:used]
        return Block(memory, self.spans, self.numbers, self.places)

    def tables(self) -> list[tuple[int, np.ndarray]]:
        """The tables by number."""
        memory = self.memory
        return [(table, memory[start:end].view(dtype)) for table, start, end, _, dtype in self.spans]


class Keeping(Protocol):
    """What :class:`cdplugin.keeping.Keeping` does for an arena."""

    def note_value(self, lexeme: int, text: int) -> None:
        """Note the value of a text (a ``K_TEXT`` value) with which a lexeme has ended."""

    def note_rest(self, lexeme: int, value: int) -> None:
        """Note how the rule goes on in which a lexeme stands, after a value."""


class Arena:
    """One engine: a header and its tables. One thread at a time steps it (:attr:`lock`).

    ``over_budget``: whether its tables have outgrown ``max_bytes`` (``Limits.max_arena_bytes``); the grammar then starts a
    fresh one. ``expand``: makes the rules of a nonterminal that is predicted for the first time, where some come late.
    ``keeping``: knows the values of lexemes that keep their text, where some do.

    The vocabulary's tables are shared and read-only; everything else belongs to the arena. ``header`` and the arrays in
    ``tables`` stay alive as long as the arena; their addresses are in the header.
    """

    def __init__(self, vocab: Vocabulary, limits: Limits) -> None:
        self.vocab = vocab
        self.limits = limits
        self.lock = threading.Lock()
        self.over_budget = False
        self.expand: Callable[[int], None] | None = None
        self.keeping: Keeping | None = None
        self._block: Block | None = None
        self._pages: dict[int, np.ndarray] = {}  # of tables that lie in pages of their own
        self.header = np.zeros(layout.HEADER_WORDS, np.int64)
        self.address: int = self.header.ctypes.data
        self.tables: list[np.ndarray] = [np.empty(0, _dtype(t)) for t in range(layout.N_TABLES)]
        for table, size in _INITIAL.items():
            self.set_table(table, np.zeros(size, _dtype(table)))
        for number in (layout.N_VALUES, layout.N_LEXER_STATES, layout.N_ROWS):
            self.header[number] = 1  # 0 means none
        self._set_vocabulary()
        with Notice(kernels.engine):
            self.call(kernels.OP_CONSTANTS)

    def _set_vocabulary(self) -> None:
        vocab, head = self.vocab, self.header
        self.set_table(layout.TRIE_BYTE, vocab.trie.byte)
        self.set_table(layout.TRIE_DEPTH, vocab.trie.depth)
        self.set_table(layout.TRIE_SKIP, vocab.trie.skip)
        self.set_table(layout.TRIE_TOKEN, vocab.trie.token)
        self.set_table(layout.TRIE_CHARS, vocab.max_chars)
        self.set_table(layout.SLICE_MASKS, vocab.slice_masks.reshape(-1))
        self.set_table(layout.TOKEN_OFFSETS, vocab.token_offsets)
        self.set_table(layout.TOKEN_BYTES, vocab.token_bytes)
        head[layout.WORDS] = (vocab.size + 31) // 32
        head[layout.SLICE_END] = vocab.slice_end
        head[layout.N_NODES] = len(vocab.trie.byte)
        head[layout.MAX_DEPTH] = vocab.max_token_bytes
        head[layout.N_SLICES] = len(vocab.slice_masks)
        head[layout.MAX_CHARS] = vocab.slice_chars
        head[layout.USE_SLICES] = 1
        self.set_limits(self.limits)

    def set_limits(self, limits: Limits) -> None:
        """Count against these limits from now on."""
        self.limits = limits
        self.max_bytes = limits.max_arena_bytes
        head = self.header
        head[layout.MAX_WIDTH] = limits.max_expr_width
        head[layout.FUEL] = limits.emptiness_fuel
        head[layout.MAX_ROW_ITEMS] = limits.max_row_items
        head[layout.MAX_PAIRS] = limits.max_pairs

    def freeze(self) -> None:
        """Bring what a clone gets a copy of into one block. The arena is not stepped after that."""
        in_use = {table: int(self.header[counter]) * words for table, (counter, words) in _IN_USE.items()}
        self._block = Block.of({table: self.tables[table] for table in _INITIAL}, in_use)
        self.set_block(self._block)

    def clone(self) -> Arena:
        """An arena that knows everything that this one, which is frozen, does, and shares only the vocabulary."""
        assert self._block is not None
        other = object.__new__(Arena)
        other.vocab, other.limits, other.lock = self.vocab, self.limits, threading.Lock()
        other.max_bytes = self.max_bytes
        other.over_budget, other.expand, other.keeping = False, None, None
        other.header = self.header.copy()
        other.address = other.header.ctypes.data
        other.tables = list(self.tables)
        other._pages = {}
        other._block = self._block.copy()
        other.set_block(other._block)
        return other

    def set_block(self, block: Block) -> None:
        """Make the tables of a block this arena's."""
        for table, array in block.tables():
            self.tables[table] = array
        entries = self.header[: 2 * layout.N_TABLES].reshape(-1, 2)
        entries[block.numbers] = block.places
        entries[block.numbers, 0] += block.memory.ctypes.data

    def set_table(self, table: int, array: np.ndarray) -> None:
        """Make ``array`` (1-D, contiguous, of the table's dtype) table ``table``."""
        if array.dtype != _dtype(table) or array.ndim != 1 or not array.flags.c_contiguous:
            raise TypeError(f"table {table}: expected contiguous 1-D {_dtype(table)}, found {array.ndim}-D {array.dtype}")
        self.tables[table] = array
        self.header[2 * table] = array.ctypes.data
        self.header[2 * table + 1] = len(array)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        """Hand the tables' pages on. As Python ends, names of modules may be gone: hence the argument."""
        if not is_finalizing() and hasattr(self, "_pages"):
            self.tables.clear()
            freed = list(self._pages.values())
            self._pages.clear()
            pages.give(freed)

    @property
    def nbytes(self) -> int:
        """Bytes of the arena's own tables, those that a clone began with included."""
        tables = ((table, self.tables[table]) for table in _INITIAL)
        grown = sum(a.nbytes for table, a in tables if table in self._pages or not isinstance(a.base, np.ndarray))
        return self.header.nbytes + (0 if self._block is None else self._block.memory.nbytes) + grown

    def call(self, op: int, a: int = 0, b: int = 0, c: int = 0) -> int:
        """Run an operation of :mod:`cdplugin.kernels.engine`, growing tables as it asks.

        Raises :class:`LimitExceeded` where a budget is crossed. The caller holds :attr:`lock` where threads may share the
        arena.
        """
        result = kernels.engine(self.address, op, a, b, c)
        while result < 0:
            self.recover(result)
            result = kernels.engine(self.address, op, a, b, c)
        return result

    def recover(self, status: int) -> None:
        """Do what a negative status asks for: grow a table, or raise."""
        if status == layout.NEED_RULES and self.expand is not None:
            first, end = int(self.header[layout.GROW_TO]), int(self.header[layout.GROW_TABLE])
            for nonterminal in self.tables[layout.STACK][first:end].tolist():
                self.expand(nonterminal)
            return
        if status == layout.NEED_VALUE and self.keeping is not None:
            self.keeping.note_value(int(self.header[layout.GROW_TO]), int(self.header[layout.GROW_TABLE]))
            return
        if status == layout.NEED_REST and self.keeping is not None:
            self.keeping.note_rest(int(self.header[layout.GROW_TO]), int(self.header[layout.GROW_TABLE]))
            return
        if status != layout.GROW:
            message, limit = _LIMIT_MESSAGES[status]
            raise LimitExceeded(message, expected=f"at most Limits.{limit} = {getattr(self.limits, limit)}")
        table, needed = int(self.header[layout.GROW_TABLE]), int(self.header[layout.GROW_TO])
        old = self.tables[table]
        size = max(int((_GROWTH_SMALL if old.nbytes < 1 << 20 else _GROWTH_LARGE) * len(old)), needed)
        if self.nbytes > 2 * self.max_bytes:
            self.over_budget = True
            raise LimitExceeded("one step takes too much memory", expected=f"at most Limits.max_arena_bytes = {self.max_bytes}")
        del old
        if table == layout.INDEX:
            freed = self._renew(table, 1 << (size - 1).bit_length())
            kernels.engine(self.address, kernels.OP_REINDEX, 0, 0, 0)
            pages.give(freed)
        elif table == layout.MEMO_KEYS:
            self.set_table(layout.OLD_KEYS, self.tables[layout.MEMO_KEYS])
            self.set_table(layout.OLD_RESULTS, self.tables[layout.MEMO_RESULTS])
            size = 1 << (size - 1).bit_length()
            freed = self._renew(layout.MEMO_KEYS, size) + self._renew(layout.MEMO_RESULTS, size)
            kernels.engine(self.address, kernels.OP_REMEMO, 0, 0, 0)
            self.set_table(layout.OLD_KEYS, np.empty(0, np.int64))
            self.set_table(layout.OLD_RESULTS, np.empty(0, np.int64))
            pages.give(freed)
        else:
            self.reserve(table, size)
        self.over_budget = self.nbytes > self.max_bytes

    def reserve(self, table: int, size: int) -> None:
        """Make a table (other than an index) hold at least ``size`` items; its content stays."""
        old = self.tables[table]
        if len(old) < size:
            freed = self._renew(table, max(size, int(_GROWTH_LARGE * len(old))))
            self.tables[table][: len(old)] = old
            del old
            pages.give(freed)

    def _renew(self, table: int, items: int) -> list[np.ndarray]:
        """Put a new table in the place of one; returns the pages of the old one, for when its content is not needed.

        It is zeros, unless a word of the header says how much of it is in use (``_IN_USE``).
        """
        freed = [self._pages.pop(table)] if table in self._pages else []
        dtype = np.dtype(_dtype(table))
        size = items * dtype.itemsize
        if size < pages.LARGE:
            self.set_table(table, np.zeros(items, dtype))
            return freed
        block, is_zero = pages.take(size)
        self._pages[table] = block
        self.set_table(table, block[:size].view(dtype))
        if not is_zero and table not in _IN_USE:
            block[:size] = 0
        return freed

    def reserve_for_walks(self) -> None:
        """Make room for walks of much of the trie, which lexemes of names and words ask for: a walk that runs out of it starts
        again.
        """
        for table, size in _FOR_WALKS.items():
            self.reserve(table, size)

    def counters(self) -> dict[str, int]:
        """What the engine has done so far: counts, since the arena was made."""
        head = self.header
        names = {
            "nodes_walked": layout.C_NODES,
            "derivatives": layout.C_DERIVATIVES,
            "lexer_transitions": layout.C_TRANSITIONS,
            "row_advances": layout.C_ADVANCES,
            "mask_hits": layout.C_MASK_HITS,
            "mask_misses": layout.C_MASK_MISSES,
            "bases": layout.C_BASES,
            "subtree_walks": layout.C_SUBWALKS,
            "lexer_states": layout.N_LEXER_STATES,
            "rows": layout.N_ROWS,
            "values": layout.N_VALUES,
            "memo_entries": layout.MEMO_USED,
        }
        return {name: int(head[word]) for name, word in names.items()} | {"bytes": self.nbytes}

    # --- reading values, for messages and tests -----------------------------------------------------------------------------

    def sequence(self, value: int) -> list[int]:
        """The words of a value."""
        record = value * layout.VALUE_WORDS
        values = self.tables[layout.VALUES]
        offset, length = int(values[record + layout.V_OFFSET]), int(values[record + layout.V_LENGTH])
        return self.tables[layout.DATA][offset : offset + length].tolist()

    def lexer_state(self, state: int) -> int:
        """The lexer state of a cursor's pair, whether it carries a text or not."""
        return self.sequence(state & (TEXT_BIT - 1))[1] & layout.LOW_32 if state & TEXT_BIT else state

    def flags(self, values: np.ndarray) -> np.ndarray:
        """The flags of many expressions at once (int64)."""
        return self.tables[layout.VALUES][values * layout.VALUE_WORDS + layout.V_FLAGS]
