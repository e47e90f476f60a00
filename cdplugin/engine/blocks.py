"""Blocks: several tables of an arena in one piece of memory, so that a clone copies all of them at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ctypes import addressof, c_char
from dataclasses import dataclass, field

import numpy as np

from cdplugin.engine import pages
from cdplugin.kernels.store import layout

_PAGE = 4096  # bytes: tables begin at a page boundary, so that their unused parts are never touched


def dtype_of(table: int) -> type:
    """Return the dtype of a table's items."""
    if table in layout.INT32_TABLES:
        return np.int32
    return np.uint8 if table in layout.UINT8_TABLES else np.int64


DTYPES = tuple(np.dtype(dtype_of(table)) for table in range(layout.N_TABLES))
"""The dtypes, by table."""


def address_of(array: np.ndarray) -> int:
    """Return the address of an array's items: ``array.ctypes.data``, in a quarter of its time for arrays with
    writable items.
    """
    if len(array) and array.flags.writeable:
        return addressof(c_char.from_buffer(array))  # type: ignore[arg-type]
    return int(array.ctypes.data)


Span = tuple[int, int, int, type]
"""Where a table begins and ends in a block, where its used part ends (in bytes), and its dtype."""


@dataclass(eq=False, slots=True)
class Block:
    """Several tables in one piece of memory.

    ``memory``: uint8; its unused parts hold anything. ``rooms``: for tables that can grow in place, the byte where their room
    ends. Room that was never used takes no memory.
    """

    memory: np.ndarray
    spans: Mapping[int, Span]
    rooms: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, tables: Mapping[int, np.ndarray], in_use: Mapping[int, int], room: Mapping[int, int]) -> Block:
        """Return a block with copies of ``tables``; ``in_use``: how many of a table's items count; ``room``: how many times as
        large it may become.
        """
        at = 0
        spans: dict[int, Span] = {}
        rooms: dict[int, int] = {}
        for table, array in tables.items():
            used = min(in_use[table], len(array))
            at = -(-at // _PAGE) * _PAGE
            spans[table] = (at, at + array.nbytes, at + used * array.itemsize, dtype_of(table))
            at += array.nbytes * room[table]
            rooms[table] = at
        block = cls(pages.fresh(at), spans, rooms)
        for table, array in tables.items():
            block.table(table)[:] = array
        return block

    @property
    def nbytes(self) -> int:
        """Bytes of the tables."""
        return sum([end - start for start, end, _, _ in self.spans.values()])

    def most(self, table: int) -> int:
        """Return how many items a table may have in its place; 0: it has no room."""
        return (self.rooms[table] - self.spans[table][0]) // DTYPES[table].itemsize if table in self.rooms else 0

    def extend(self, table: int, items: int) -> np.ndarray:
        """Return the table grown to so many items, at most :meth:`most`."""
        start, _, used, dtype = self.spans[table]
        self.spans = {**self.spans, table: (start, start + items * DTYPES[table].itemsize, used, dtype)}
        return self.table(table)

    def take_over(self, spans: Mapping[int, Span]) -> None:
        """Give the tables the sizes that an earlier arena's had in the same memory."""
        own = self.spans
        self.spans = {table: (*span[:2], own[table][2], span[3]) for table, span in spans.items()}

    def opened(self, times: Mapping[int, int]) -> dict[int, Span]:
        """Return ``spans`` with the tables that have room grown by the given factors, or to the end of their room."""
        out = dict(self.spans)
        for table, factor in times.items():
            if table in self.rooms:
                start, end, used, dtype = self.spans[table]
                out[table] = (start, min(start + factor * (end - start), self.rooms[table]), used, dtype)
        return out

    @classmethod
    def around(cls, words: np.ndarray, sizes: Iterable[tuple[int, int]]) -> Block:
        """Return a block over ``words`` (int64), in which tables lie one after the other: their numbers, and their numbers of
        items.
        """
        at = 0
        spans: dict[int, Span] = {}
        for table, size in sizes:
            end = at + 8 * size
            spans[table] = (at, end, end, np.int64)
            at = end
        return cls(words.view(np.uint8), spans)

    def copy(self) -> Block:
        """A copy with memory of its own."""
        return Block(self.memory.copy(), self.spans)

    def copied(self) -> np.ndarray:
        """Return the rows that ``OP_COPY`` reads (int64 ``(tables, 5)``), to copy the used part of each table into other
        memory.
        """
        address = address_of(self.memory)
        rows = []
        for table, (start, end, used, _) in self.spans.items():
            rows.append((table, start, (end - start) // DTYPES[table].itemsize, address + start, -(-(used - start) // 8)))
        return np.array(rows, np.int64)

    def table(self, number: int) -> np.ndarray:
        """One of the tables."""
        start, end, _, dtype = self.spans[number]
        return self.memory[start:end].view(dtype)


class Tables(dict[int, np.ndarray]):
    """An arena's tables by number. Tables in ``blocks`` become arrays only when they are asked for; kernels find them by the
    header.
    """

    __slots__ = ("blocks",)

    def __init__(self, tables: Mapping[int, np.ndarray], blocks: Sequence[Block] = ()) -> None:
        super().__init__(tables)
        self.blocks = blocks

    def __missing__(self, number: int) -> np.ndarray:
        for block in self.blocks:
            if number in block.spans:
                table = self[number] = block.table(number)
                return table
        raise KeyError(number)
