"""A binary min-heap of words in an array: ``heap[0] <= heap[1], heap[2]``, and so on (Williams, 1964).

The key goes into the high bits of a word, the payload into the low ones. Each operation is O(log n).
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel


@kernel
def with_room(words, count, needed):
    """Return an array for ``needed`` words that begins with ``words[:count]``: ``words`` itself, or a longer copy."""
    if needed <= words.shape[0]:
        return words
    longer = np.empty(2 * needed, np.int64)
    longer[:count] = words[:count]
    return longer


@kernel
def heap_push(heap, count, word):
    """Add a word to ``heap[:count]``, which has room for it; return the new count."""
    at = count
    while at > 0 and heap[(at - 1) >> 1] > word:
        heap[at] = heap[(at - 1) >> 1]
        at = (at - 1) >> 1
    heap[at] = word
    return count + 1


@kernel
def heap_pop(heap, count):
    """Remove the least word from ``heap[:count]`` and return it; ``count - 1`` words are left."""
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
