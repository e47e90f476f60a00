"""The tables that an arena owns: where each lies, how much memory they take, and how one grows.

A table lies in one of three places. A clone's tables begin in a :class:`~cdplugin.engine.blocks.Block`, where they grow in
place as far as each has room. A table that outgrows the block, or is large, gets pages of its own
(:mod:`cdplugin.engine.pages`), which can be extended without a copy. A small table without a block is an ordinary array. Every
allocation comes before the first change, so if a table cannot grow, the arena is as it was.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple, NoReturn
from weakref import finalize

import numpy as np

from cdplugin.engine import pages
from cdplugin.engine.blocks import DTYPES, Block, Tables, address_of, dtype_of
from cdplugin.engine.values import Values
from cdplugin.errors import LimitExceeded
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.masks import layout as mask_layout
from cdplugin.kernels.parser import layout as parser_layout
from cdplugin.kernels.store import layout
from cdplugin.limits import Limits
from cdplugin.memory import Account


class _Sizes(NamedTuple):
    """How large a table is, in items.

    ``initial``: its first size, enough for a small schema, so that most grammars never grow it. Record 0 ("none") of values,
    lexer states and rows is included: kernels read it without a check.

    ``room``: how many times as large a clone's table may become in place. Room is address space, which takes no memory until it
    is used. Most grammars grow tables, and copies would take fresh pages for what is there already.

    ``at_once``: how many times as large such a table is from the beginning, if arenas may be large: an operation that runs out
    of room starts over. Unused parts are not touched.

    ``counter``: the header word that counts the table's records (or a hash table's entries), of ``words`` items each.
    ``for_walks``: the size that walks of much of the trie need.
    """

    initial: int
    room: int
    at_once: int
    counter: int
    words: int = 1
    for_walks: int = 0


_VALUE, _STATE, _BASE = layout.VALUE_WORDS, lexer_layout.LEXER_WORDS, mask_layout.BASE_WORDS
_SIZES = {
    layout.DATA: _Sizes(6144, 8, 2, layout.DATA_USED, 1, 1 << 15),
    layout.VALUES: _Sizes(1792 * _VALUE, 4, 2, layout.N_VALUES, _VALUE, (1 << 12) * _VALUE),
    layout.INDEX: _Sizes(2048, 16, 4, layout.N_VALUES, 2),
    layout.MEMO: _Sizes(1024, 16, 8, layout.MEMO_USED, 2),
    layout.MEMO_INDEX: _Sizes(1024, 16, 8, layout.MEMO_USED, 2),
    layout.STACK: _Sizes(4608, 8, 1, layout.STACK_TOP, 1, 1 << 15),
    layout.TRANSITIONS: _Sizes(32 * 256, 64, 4, layout.TRANSITIONS_USED, 1, 128 * 256),
    layout.LEXER_STATES: _Sizes(128 * _STATE, 16, 8, layout.N_LEXER_STATES, _STATE, 256 * _STATE),
    layout.ROWS: _Sizes(1024, 16, 4, layout.N_ROWS, parser_layout.ROW_WORDS),
    layout.BASES: _Sizes(192 * _BASE, 8, 2, layout.N_BASES, _BASE),
    layout.MASKS: _Sizes(1024, 16, 4, layout.N_MASKS, mask_layout.MASK_WORDS),
    layout.TOKEN_LISTS: _Sizes(8192, 32, 12, layout.TOKENS_USED, 1, 1 << 17),
    layout.ENDS: _Sizes(2048, 16, 1, layout.ENDS_USED, 1, 1 << 15),
}
INITIAL = {table: sizes.initial for table, sizes in _SIZES.items()}
ROOM = {table: sizes.room for table, sizes in _SIZES.items()}
AT_ONCE = {table: sizes.at_once for table, sizes in _SIZES.items()}
FOR_WALKS = {table: sizes.for_walks for table, sizes in _SIZES.items() if sizes.for_walks}
IN_USE = {table: (sizes.counter, sizes.words) for table, sizes in _SIZES.items()}

HASHED = {layout.INDEX: layout.INDEX_SLOTS, layout.MEMO_INDEX: layout.MEMO_SLOTS}
"""The hash tables, and for each the header word with the number of slots, a power of two, that kernels use."""


class Room(NamedTuple):
    """Memory for a table, uninitialised."""

    array: np.ndarray
    page: np.ndarray | None

    @classmethod
    def of(cls, table: int, items: int) -> Room:
        """Allocate room for so many items of a table, or for as many as its pages hold. Raises ``MemoryError``."""
        dtype = DTYPES[table]
        size = items * dtype.itemsize
        if size < pages.LARGE:
            return cls(np.empty(items, dtype), None)
        page = pages.acquire(size)
        return cls(page.view(dtype), page)


_GROWTH_SMALL, _GROWTH_LARGE, _GROWTH_HUGE = 4.0, 2.0, 1.25
"""Growth factors of a table below a MiB, of one below :data:`_HUGE` bytes, and of a larger one.

A kernel that ran out of room starts over, so small tables grow fast. Huge ones grow in place, and unused room would put the
arena over budget.
"""
_HUGE = 8 << 20
_MANY_GROWTHS = 3  # growths in one operation after which large tables grow as fast as small ones

_OVERDRAFT, _LEAST_OVERDRAFT = 4, 4 << 20  # one step may exceed Limits.max_arena_bytes by 1 / _OVERDRAFT, or by so many bytes
_COPIED_BITS = 4  # 2 ** _COPIED_BITS items of a grown table cost one unit of work

_OBJECT_BYTES = 8 << 10
"""Bytes of an arena without its tables: array headers, lists, the lock."""

_PARTS = 8  # a table leaves its block when it is larger than 1 / _PARTS of the arena's budget
_TAKEN_OVER = 64  # used memory is reused if the budgets of arena and grammar cache are so many times its size

_LISTED = 40  # items of TOKEN_LISTS per 32 tokens: all of them in one list, its bitmask, and some for earlier lists

_LENT = 512 << 10  # bytes of a stack that is lent for one question: a fixed size, so that the next one reuses the pages


@dataclass(slots=True)
class _Held:
    """An arena's memory: its tables, the pages of those with pages of their own, its block, and the key under which the block
    is reused.
    """

    tables: Tables
    pages: dict[int, np.ndarray]
    block: Block | None
    kind: tuple[object, ...]


def _hand_on(held: _Held, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
    """Release the memory of an arena that is gone. (At interpreter exit, module names may be gone: hence the argument.)

    This is a finalizer and not a ``__del__``: while ``__del__`` runs, a weak reference still gives the arena (PEP 442), and
    another thread could step an arena whose memory has a new owner.
    """
    if is_finalizing():
        return
    held.tables.clear()
    held.tables.blocks = ()
    freed = list(held.pages.values())
    held.pages.clear()
    pages.release(freed)
    block, held.block = held.block, None
    if block is not None and held.kind:
        freed, nbytes, spans = [block.memory], block.nbytes, block.spans
        del block
        pages.release_room(freed, held.kind, nbytes, spans)


class OwnedTables(Values):
    """The part of an :class:`~cdplugin.engine.arena.Arena` that owns memory.

    ``over_budget``: the tables have outgrown ``max_bytes`` (``Limits.max_arena_bytes``), or the arena is broken; the grammar
    then starts a fresh one. ``account``: is told when tables grow. ``header`` and the arrays in ``tables`` live as long as the
    arena; their addresses are in the header.
    """

    limits: Limits
    address: int
    max_bytes: int
    over_budget: bool
    account: Account | None
    _stretched: bool  # whether the overdraft of one step is open to every step
    _broken_by: LimitExceeded | None
    _n_growths: int  # in the operation that is being finished
    _held: _Held
    _own: dict[int, int]  # bytes of the tables that are neither the vocabulary's nor views of others' arrays
    _pages: dict[int, np.ndarray]  # of tables that lie in pages of their own

    def set_block(self, block: Block) -> None:
        """Make the tables of a block this arena's tables."""
        head, address = self.header, address_of(block.memory)
        for table, (start, end, _, _) in block.spans.items():
            self.tables.pop(table, None)
            self._own.pop(table, None)
            head[2 * table] = address + start
            head[2 * table + 1] = (end - start) // DTYPES[table].itemsize
        self.tables.blocks = (block, *self.tables.blocks)

    def set_table(self, table: int, array: np.ndarray, is_own: bool = True) -> None:
        """Make ``array`` (1-D, contiguous, of the table's dtype) table ``table``. ``is_own``: whether its bytes count as the
        arena's.
        """
        if array.dtype != DTYPES[table] or array.ndim != 1 or not array.flags.c_contiguous:
            raise TypeError(f"table {table}: expected contiguous 1-D {dtype_of(table)}, found {array.ndim}-D {array.dtype}")
        self.tables[table] = array
        if is_own and array.base is None:
            self._own[table] = array.nbytes
        elif table in self._pages:
            self._own[table] = self._pages[table].nbytes
        else:
            self._own.pop(table, None)
        self.header[2 * table] = address_of(array)
        self.header[2 * table + 1] = len(array)

    def hold(self, tables: Tables, block: Block | None, kind: tuple[object, ...]) -> None:
        """Begin with ``tables``, and release their memory when the arena is gone."""
        self.tables, self._pages, self._own = tables, {}, {}
        self._held = _Held(tables, self._pages, block, kind)
        finalize(self, _hand_on, self._held).atexit = False

    @property
    def _block(self) -> Block | None:
        """The block in which a clone's tables began."""
        return self._held.block

    @property
    def nbytes(self) -> int:
        """Bytes of the arena's own tables, including those that a clone began with."""
        block = 0 if self._block is None else self._block.nbytes
        return _OBJECT_BYTES + self.header.nbytes + block + sum(self._own.values())

    @property
    def _most_taken_over(self) -> int:
        """Bytes up to which reused memory for a clone's tables may be larger than needed."""
        return min(self.max_bytes, self.limits.max_cache_bytes) // _TAKEN_OVER

    @property
    def _most_bytes(self) -> int:
        return self.max_bytes + max(self.max_bytes // _OVERDRAFT, _LEAST_OVERDRAFT)

    @property
    def _doubled(self) -> int:
        """Bytes of the largest hash table at twice its size."""
        return 2 * max(self.tables[table].nbytes for table in HASHED)

    def _refuse_step(self) -> NoReturn:
        """Have the grammar start a fresh arena, and raise :class:`LimitExceeded`."""
        self.over_budget = True
        raise LimitExceeded("one step takes too much memory", expected=f"at most Limits.max_arena_bytes = {self.max_bytes}")

    def note_size(self) -> None:
        """Compare the bytes with the budget and tell :attr:`account`. Called whenever tables or late rules have grown.

        An arena without room for the next doubling of a hash table is over budget, too. Otherwise a step that needs the
        doubling would fail because of what earlier texts have left there.
        """
        nbytes = self.nbytes
        if self._stretched:
            self.over_budget |= nbytes > self._most_bytes
        else:
            is_near = 3 * nbytes > self.max_bytes  # otherwise no doubling matters: no table is larger than all together
            self.over_budget |= nbytes > self.max_bytes or (is_near and nbytes + self._doubled > self._most_bytes)
        if self.account is not None:
            self.account.note("arena", nbytes)

    def check_size(self) -> None:
        """Raise :class:`LimitExceeded` if the arena takes more than one step may leave there."""
        if self.nbytes > self._most_bytes:
            self._refuse_step()

    def make_room(self, nbytes: int) -> None:
        """Have the grammar start a fresh arena if ``nbytes`` known of this one, which go with it, take its room."""
        self.over_budget |= self.nbytes + nbytes > self._most_bytes and not self._stretched

    def stretch(self) -> None:
        """Open the overdraft of one step to all steps: a single text has outgrown the arena, and would outgrow any other."""
        if not self.header[layout.IS_BROKEN] and self.nbytes <= self._most_bytes:
            self._stretched, self.over_budget = True, False

    def abandon(self) -> None:
        """Never use the arena again: an exception came while its tables were changing."""
        self.header[layout.IS_BROKEN] = 1
        self.over_budget = True

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """A context that breaks the arena if an exception leaves it."""
        try:
            yield
        except MemoryError:
            self.abandon()
            raise LimitExceeded("no memory is left for the grammar's states") from None
        except LimitExceeded as error:
            self.abandon()
            self._broken_by = copy(error)  # without the traceback, whose frames hold the arena
            raise
        except BaseException:
            self.abandon()
            raise

    def reserve(self, table: int, size: int) -> None:
        """Make a table hold at least ``size`` items, keeping its content. Raises :class:`LimitExceeded`."""
        length = len(self.tables[table])
        if length < size:
            self._replace(table, max(size, int(_GROWTH_LARGE * length)), size)

    def reserve_for_walks(self) -> None:
        """Make room for walks of much of the trie, as lexemes of names and words cause them: a walk that runs out of room
        starts over.

        To be called between operations.
        """
        listed = _LISTED * int(self.header[layout.WORDS])
        for table, size in FOR_WALKS.items():
            self.reserve(table, max(size, listed) if table == layout.TOKEN_LISTS else size)

    def _grow(self, table: int, needed: int) -> None:
        """Grow a table as a kernel asked."""
        self._replace(table, max(self._grown(table), needed), needed)
        self._n_growths += 1
        self._grow_beside(table)

    def _grown(self, table: int) -> int:
        """Return the size, in items, to which a table grows."""
        length = len(self.tables[table])
        nbytes = length * DTYPES[table].itemsize
        if nbytes < 1 << 20 or self._n_growths >= _MANY_GROWTHS:
            return int(_GROWTH_SMALL * length)
        return int((_GROWTH_LARGE if nbytes < _HUGE else _GROWTH_HUGE) * length)

    def _grow_beside(self, grown: int) -> None:
        """Also grow other tables that are half full, since the operation starts over anyway and would run out of theirs next.

        Only where a table grows in place, which costs nothing. With a copy, only if the table is three quarters full and the
        operation has started over before, since then it does much.
        """
        head = self.header
        is_long = self._n_growths > 1
        for table, (counter, words) in IN_USE.items():
            items = len(self.tables[table])
            used = words * int(head[counter])
            if table == grown or 2 * used < items:
                continue
            wanted, is_full = self._grown(table), is_long and 4 * used >= 3 * items
            if items < self._most_in_block(table) or (is_full and self._has_bytes(table, wanted, self._doubled)):
                self._replace(table, wanted, 2 * items if table in HASHED else items + 1)

    def _has_bytes(self, table: int, items: int, reserved: int = 0) -> bool:
        """Return whether the budget allows a table of so many items, beside the old one unless that is extended, with
        ``reserved`` bytes left.
        """
        size = items * DTYPES[table].itemsize
        if items <= self._most_in_block(table):
            added = size - self.tables[table].nbytes
        else:
            added = size if size < pages.LARGE else pages.rounded(size)
            if table in self._pages:
                added -= self._own[table]
        return self.nbytes + added + reserved <= self._most_bytes

    def _most_in_block(self, table: int) -> int:
        """Return how many items a table may have in place, in the block that the arena began with; 0: it does not lie there.

        When a table moves out, its room stays taken, so this is a fraction of the arena's budget.
        """
        if self._block is None or table in self._own:
            return 0
        return min(self._block.most(table), self.max_bytes // _PARTS // DTYPES[table].itemsize)

    def _extend(self, table: int, items: int) -> bool:
        """Extend a table's pages; return whether that was possible."""
        with self._changing():
            del self.tables[table]  # nobody else may refer to it
            page = self._pages[table] = pages.extended([self._pages.pop(table)], items * DTYPES[table].itemsize)
            self.set_table(table, page.view(DTYPES[table]))
        return len(self.tables[table]) >= items

    def _replace(self, table: int, wanted: int, needed: int) -> None:
        """Replace a table by a larger one with the same content: of ``wanted`` items, or fewer if memory is short.

        At least ``needed`` items, and an eighth more than before, so that a table that grows item by item is not copied for
        each. Nobody may refer to the old array, or its pages could not be reused.
        """
        length = len(self.tables[table])
        in_block = self._most_in_block(table)
        if needed <= in_block:
            wanted = min(wanted, in_block)
        least = min(max(needed, length + (length >> 3)), wanted)
        items = wanted
        reserved = 0 if table in HASHED or self._stretched else self._doubled
        while items > least and not self._has_bytes(table, items, reserved):
            items = max((length + items) >> 1, least)
        if items == least and not self._has_bytes(table, least):
            self._refuse_step()
        if items <= in_block:
            assert self._block is not None
            with self._changing():
                self.set_table(table, self._block.extend(table, items))
            self.note_size()
            return
        if not (table in self._pages and self._extend(table, items)):
            try:
                fresh = Room.of(table, items)
            except MemoryError:
                raise LimitExceeded("no memory is left for the grammar's states") from None
            with self._changing():
                freed = self._install(table, fresh)
            pages.release(freed)
        self.note_size()
        self.header[layout.WORK_LEFT] -= items >> _COPIED_BITS

    def _install(self, table: int, fresh: Room) -> list[np.ndarray]:
        """Make allocated room the arena's table, filled from the old one; return the old table's pages."""
        old = self.tables[table]
        freed = [self._pages.pop(table)] if table in self._pages else []
        if fresh.page is not None:
            self._pages[table] = fresh.page
        self.set_table(table, fresh.array)
        fresh.array[: len(old)] = old
        return freed

    def _lend_stack(self, items: int) -> None:
        """Replace the stack by a larger, empty one, in pages that were used before, since fresh memory is slow. Raises
        :class:`LimitExceeded`.
        """
        if not self._has_bytes(layout.STACK, items):
            self._refuse_step()
        page = pages.acquire(max(items * DTYPES[layout.STACK].itemsize, _LENT))
        self._pages[layout.STACK] = page
        self.set_table(layout.STACK, page.view(DTYPES[layout.STACK]))
