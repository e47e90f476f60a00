"""Undecided tokens by class: count them per class, and decide whole classes at once.

Infilling decides the tokens of a slot in classes (:mod:`cdplugin.infill.token_classes`): tokens of one class lead to the same
cursor (:mod:`cdplugin.kernels.masks.successors`). Both kernels take the address of a *question*, an int64 array::

    question | words of a row  addresses: tokens in doubt, taken, numbers  classes  address: counts  address: flags    int64
    rows     | bits by token, int64          numbers | int32: the class of each token, -1: none
    counts   | int64 by class                flags   | uint8 by class, 1: take its tokens

Of 128,000 tokens few are still in doubt after a few classes, so the loops visit set bits only.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.jit.views import view_i32, view_i64, view_u8
from cdplugin.kernels.store.arena import fill_words

C_WORDS, C_DOUBT, C_TAKEN, C_NUMBERS, C_CLASSES, C_COUNTS, C_FLAGS = range(7)
CLASSES_WORDS = 7


@kernel
def tally(address):
    """Count the tokens in doubt of each class, into the question's counts; return 0."""
    question = view_i64(address, CLASSES_WORDS)
    doubt = view_i64(question[C_DOUBT], question[C_WORDS])
    numbers = view_i32(question[C_NUMBERS], 64 * question[C_WORDS])
    counts = view_i64(question[C_COUNTS], question[C_CLASSES])
    fill_words(counts, 0, question[C_CLASSES], 0)
    for word in range(question[C_WORDS]):
        bits = doubt[word]
        while bits:
            number = numbers[64 * word + low_bit(bits)]
            bits &= bits - 1
            if number >= 0:
                counts[number] += 1
    return np.int64(0)


@kernel
def take(address):
    """Move the tokens of the flagged classes from the row *in doubt* to the row *taken*; return how many."""
    question = view_i64(address, CLASSES_WORDS)
    doubt = view_i64(question[C_DOUBT], question[C_WORDS])
    taken = view_i64(question[C_TAKEN], question[C_WORDS])
    numbers = view_i32(question[C_NUMBERS], 64 * question[C_WORDS])
    flags = view_u8(question[C_FLAGS], question[C_CLASSES])
    count = np.int64(0)
    for word in range(question[C_WORDS]):
        bits = doubt[word]
        found = np.int64(0)
        while bits:
            bit = low_bit(bits)
            number = numbers[64 * word + bit]
            if number >= 0 and flags[number]:
                found |= np.int64(1) << bit
                count += 1
            bits &= bits - 1
        doubt[word] ^= found
        taken[word] |= found
    return count
