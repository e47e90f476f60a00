"""Sets of bytes: four int64 words; byte ``b`` is bit ``b & 63`` of word ``b >> 6``.

A kernel's temporary sets lie in its own frame (:func:`cdplugin.kernels.jit.views.byte_set`). NumPy arrays would come from the
heap, and a derivative, which takes less than a microsecond, would allocate several.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import count_bits, kernel


@kernel
def fill_bytes(found, word):
    """Set all four words of a set to ``word``: 0 for no byte, -1 for every byte."""
    for i in range(4):
        found[i] = word


@kernel
def add_bytes(found, others):
    """Add all bytes of another set."""
    for i in range(4):
        found[i] |= others[i]


@kernel
def add_byte(found, byte):
    """Add a byte."""
    found[byte >> 6] |= np.int64(1) << (byte & 63)


@kernel
def has_byte(found, byte):
    """Return whether a byte is in a set."""
    return (found[byte >> 6] >> (byte & 63)) & 1 != 0


@kernel
def count_bytes_of(found):
    """Return how many bytes are in a set."""
    count = 0
    for i in range(4):
        count += count_bits(found[i])
    return count
