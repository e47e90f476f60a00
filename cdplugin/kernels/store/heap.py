"""A binary heap of words in an array, the least word first: ``heap[0] <= heap[1], heap[2]``, and so on (Williams, 1964).

What is wanted least first goes into the high bits of a word, what it belongs to into the low ones. O(log n) each.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel


@kernel
def with_room(words, count, needed):
    """An array for ``needed`` words that begins with ``words[:count]``: this one, or a longer one if there is no room."""
    if needed <= words.shape[0]:
        return words
    longer = np.empty(2 * needed, np.int64)
    longer[:count] = words[:count]
    return longer


@kernel
def heap_push(heap, count, word):
    """Put a word into ``heap[:count]``, which has room for it; how many there are then."""
    at = count
    while at > 0 and heap[(at - 1) >> 1] > word:
        heap[at] = heap[(at - 1) >> 1]
        at = (at - 1) >> 1
    heap[at] = word
    return count + 1


@kernel
def heap_pop(heap, count):
    """Take the least word out of ``heap[:count]``, and return it: one fewer is left."""
    least = heap[0]
    last = count - 1
    word = heap[last]
    at = np.int64(0)
    while 2 * at + 1 < last:
        child = 2 * at + 1
        if child + 1 < last and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= word:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = word
    return least
