"""Views of tables by address: items, stores, indices outside, and bits of words."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cdplugin.kernels.jit.decorators import BOUNDSCHECK, DISABLED, count_bits, entry_kernel, low_bit
from cdplugin.kernels.jit.views import view_i32, view_i64, view_u8

pytestmark = pytest.mark.kernel


@entry_kernel
def _add_up(longs: int, ints: int, bytes_: int, n: int) -> int:
    """Write the sum of three tables' items over the first, and return how long it is."""
    into = view_i64(longs, n)
    for i in range(n):
        into[i] = into[i] + view_i32(ints, n)[i] + view_u8(bytes_, n)[i]
    return into.shape[0]


@entry_kernel
def _at(address: int, n: int, index: int) -> int:
    return view_i64(address, n)[index]


@entry_kernel
def _bits(word: int) -> int:
    return 100 * count_bits(word) + low_bit(word)


def test_items_are_read_and_written() -> None:
    longs = np.array([1, -2, 1 << 40], np.int64)
    ints = np.array([-5, 7, -(1 << 31)], np.int32)
    bytes_ = np.array([0, 200, 255], np.uint8)
    assert _add_up(longs.ctypes.data, ints.ctypes.data, bytes_.ctypes.data, 3) == 3
    assert longs.tolist() == [-4, 205, (1 << 40) - (1 << 31) + 255]


def test_bits_of_words() -> None:
    rng = random.Random(0)
    for word in [1, -1, -(1 << 63), (1 << 63) - 1, *(rng.getrandbits(64) - (1 << 63) for _ in range(100))]:
        unsigned = word & (1 << 64) - 1
        assert _bits(np.int64(word)) == 100 * unsigned.bit_count() + (unsigned & -unsigned).bit_length() - 1


@pytest.mark.skipif(not BOUNDSCHECK, reason="without NUMBA_BOUNDSCHECK=1 nothing is checked")
@pytest.mark.parametrize("index", [-1, 3])
def test_checked_indices(index: int) -> None:
    table = np.arange(3)
    with pytest.raises(IndexError):
        _at(table.ctypes.data, 3, index)


@pytest.mark.skipif(DISABLED or BOUNDSCHECK, reason="starts a checked process")
def test_a_negative_index_is_refused_when_checked(tmp_path: Path) -> None:
    code = (
        "import sys, numpy as np, pytest\n"
        f"sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
        "from test_views import _at\n"
        "table = np.arange(3)\n"
        "assert _at(table.ctypes.data, 3, 2) == 2\n"
        "with pytest.raises(IndexError):\n"
        "    _at(table.ctypes.data, 3, -1)\n"
    )
    # a cache of its own: this file has another name as a module there
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "CDPLUGIN_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
