"""The arena's stack: push words and pairs, search among them, intern them (:mod:`cdplugin.kernels.store.arena`)."""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import copy_words, has_room, header, i64, intern, length_of, offset_of, sort_stack


@kernel
def push(h, word):
    """Push a word; 0, or ``GROW``."""
    head = header(h)
    top = head[layout.STACK_TOP]
    if not has_room(h, layout.STACK, top + 1):
        return statuses.GROW
    i64(h, layout.STACK)[top] = word
    head[layout.STACK_TOP] = top + 1
    return 0


@kernel
def push_pair(h, first, second):
    """Push two words; 0, or ``GROW``."""
    head = header(h)
    top = head[layout.STACK_TOP]
    if not has_room(h, layout.STACK, top + 2):
        return statuses.GROW
    words = i64(h, layout.STACK)
    words[top] = first
    words[top + 1] = second
    head[layout.STACK_TOP] = top + 2
    return 0


@kernel
def push_all(h, value):
    """Push all words of a value; 0, or ``GROW``."""
    head = header(h)
    count = length_of(h, value)
    top = head[layout.STACK_TOP]
    if not has_room(h, layout.STACK, top + count):
        return statuses.GROW
    copy_words(i64(h, layout.STACK), top, i64(h, layout.DATA), offset_of(h, value), count)
    head[layout.STACK_TOP] = top + count
    return 0


@kernel
def has_pair(h, start, first, second):
    """Return whether the pair is among those from ``STACK[start]`` on. A linear search: the lists are short."""
    words = i64(h, layout.STACK)
    for i in range(start, header(h)[layout.STACK_TOP], 2):
        if words[i] == first and words[i + 1] == second:
            return True
    return False


@kernel
def keep_firsts(h, start, second):
    """Replace the pairs from ``STACK[start]`` on by the first words of those pairs whose second word is ``second``."""
    head = header(h)
    words = i64(h, layout.STACK)
    top = start
    for i in range(start, head[layout.STACK_TOP], 2):
        if words[i + 1] == second:
            words[top] = words[i]
            top += 1
    head[layout.STACK_TOP] = top


@kernel
def intern_set(h, kind, start):
    """Pop ``STACK[start:top]`` and intern it as a set: sorted, without duplicates. An id or a status."""
    head = header(h)
    count = sort_stack(h, start, head[layout.STACK_TOP] - start)
    head[layout.STACK_TOP] = start
    return intern(h, kind, start, count)


@kernel
def intern_words(h, kind, count, w0, w1, w2, w3):
    """Do :func:`intern` for ``count`` words, at most four, that are not on the stack. Uses the words above ``STACK_TOP`` as
    scratch.
    """
    top = header(h)[layout.STACK_TOP]
    if not has_room(h, layout.STACK, top + 4):
        return np.int64(statuses.GROW)
    words = i64(h, layout.STACK)
    words[top] = w0
    words[top + 1] = w1
    words[top + 2] = w2
    words[top + 3] = w3
    return np.int64(intern(h, kind, top, count))
