"""Tables of an arena that lie in one piece of memory: what a clone copies at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ctypes import addressof, c_char
from dataclasses import dataclass

import numpy as np

from cdplugin.kernels.store import layout

_LINE = 64  # bytes of a cache line: each table of a block begins at one


def dtype_of(table: int) -> type:
    """The dtype of a table's items."""
    if table in layout.INT32_TABLES:
        return np.int32
    return np.uint8 if table in layout.UINT8_TABLES else np.int64


DTYPES = tuple(np.dtype(dtype_of(table)) for table in range(layout.N_TABLES))
"""By table."""


def address_of(array: np.ndarray) -> int:
    """Where the items of an array begin: ``array.ctypes.data``, in a quarter of its time if any are there and writeable."""
    if len(array) and array.flags.writeable:
        return addressof(c_char.from_buffer(array))  # type: ignore[arg-type]
    return int(array.ctypes.data)


Span = tuple[int, int, int, type]
"""Where a table begins and ends in a block, where what is in use of it ends (in bytes), and its dtype."""


def spans_of(sizes: Mapping[int, int], in_use: Mapping[int, int]) -> tuple[dict[int, Span], int]:
    """Where tables of so many items lie in a block, and the bytes of all; ``in_use``: how many items of a table matter, else
    none.
    """
    at = 0
    spans: dict[int, Span] = {}
    for table, items in sizes.items():
        size = DTYPES[table].itemsize
        nbytes = items * size
        spans[table] = (at, at + nbytes, at + in_use.get(table, 0) * size, dtype_of(table))
        at += -(-nbytes // _LINE) * _LINE
    return spans, at


@dataclass(eq=False, slots=True)
class Block:
    """Several tables in one piece of memory, so that an arena takes them over at once.

    ``memory``: uint8; ``zeros``: tables that are zeros where they are not in use.
    """

    memory: np.ndarray
    spans: Mapping[int, Span]
    zeros: Sequence[int] = ()

    @classmethod
    def of(cls, tables: Mapping[int, np.ndarray], in_use: Mapping[int, int]) -> Block:
        """Copies of ``tables``; ``in_use``: how many items of a table matter (default: all); others are zeros."""
        used = {
            table: min(in_use[table], len(array)) if table in in_use else int((np.flatnonzero(array)[-1:] + 1).sum())
            for table, array in tables.items()
        }
        spans, nbytes = spans_of({table: len(array) for table, array in tables.items()}, used)
        block = cls(np.zeros(nbytes, np.uint8), spans, [table for table in tables if table not in in_use])
        for table, array in tables.items():
            block.table(table)[:] = array
        return block

    @classmethod
    def around(cls, words: np.ndarray, sizes: Iterable[tuple[int, int]]) -> Block:
        """Tables that lie in ``words`` (int64) one after the other: their numbers, and how many items they have."""
        at = 0
        spans: dict[int, Span] = {}
        for table, size in sizes:
            end = at + 8 * size
            spans[table] = (at, end, end, np.int64)
            at = end
        return cls(words.view(np.uint8), spans)

    def copy(self) -> Block:
        """The same in memory of its own."""
        return Block(self.memory.copy(), self.spans, self.zeros)

    def copied(self, is_zero: bool) -> np.ndarray:
        """What is to be copied into other memory, for ``OP_COPY`` (int64 ``(tables, 6)``): of each table, what is in use; zeros
        after it, where the table has them and the memory (``is_zero``) has not.
        """
        address = address_of(self.memory)
        rows = []
        for table, (start, end, used, _) in self.spans.items():
            n_words = -(-(used - start) // 8)
            n_zeros = 0 if is_zero or table not in self.zeros else (end - start) // 8 - n_words
            rows.append((table, start, (end - start) // DTYPES[table].itemsize, address + start, n_words, n_zeros))
        return np.array(rows, np.int64)

    def table(self, number: int) -> np.ndarray:
        """One of the tables."""
        start, end, _, dtype = self.spans[number]
        return self.memory[start:end].view(dtype)


class Tables(dict[int, np.ndarray]):
    """An arena's tables by number. Those that lie in ``blocks`` are looked up when they are asked for: a kernel finds them
    through the header.
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
