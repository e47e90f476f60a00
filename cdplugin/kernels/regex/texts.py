"""Which texts an expression matches: a given one, or the list of all, if they are few. For front ends
(:mod:`cdplugin.languages`).
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.jit.views import byte_set, view_u8
from cdplugin.kernels.regex.derive import FEW_VISITS, derive, refine_class
from cdplugin.kernels.regex.emptiness import is_nonempty
from cdplugin.kernels.regex.expressions import EMPTY, nullable
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import has_room, header, i64, spend
from cdplugin.kernels.store.byte_sets import add_bytes, has_byte
from cdplugin.kernels.store.heap import with_room
from cdplugin.kernels.store.stack import push_pair

MANY = 1 << 40
"""Result of :func:`list_texts` if there are more texts than asked for."""


@kernel
def matches(h, e, text_address, count):
    """Return 1 if ``e`` matches the whole text, ``count`` bytes (uint8), else 0; or a status."""
    text = view_u8(text_address, count)
    for i in range(count):
        e = derive(h, e, np.int64(text[i]))
        if e <= EMPTY:  # a status is negative
            return np.int64(0 if e == EMPTY else e)
    return np.int64(nullable(h, e))


@kernel
def list_texts(h, e, most, fuel):
    """Leave all texts that ``e`` matches on the stack; return how many words they take, ``MANY`` if they are more than
    ``most``, or a status.

    A text is its number of bytes, then the bytes, a word each. ``fuel`` bounds the derivatives (``LIMIT_FUEL``). The search is
    depth first; its stack holds pairs of an expression and ``depth << 8 | byte`` for the byte that led to it. Derivatives that
    match nothing are left out, so each pair stands for at least one text: too many texts are found out soon, and every path
    ends.
    """
    head = header(h)
    base = head[layout.STACK_TOP]
    found = np.empty(64, np.int64)
    n_found = n_texts = np.int64(0)
    path = np.empty(64, np.int64)
    status = _push_alive(h, e, np.int64(0))
    if status < 0:
        return status
    while head[layout.STACK_TOP] > base:
        top = head[layout.STACK_TOP] - 2
        head[layout.STACK_TOP] = top
        e, depth = i64(h, layout.STACK)[top], i64(h, layout.STACK)[top + 1] >> 8
        if depth > 0:
            path[depth - 1] = i64(h, layout.STACK)[top + 1] & 255
        path = with_room(path, depth, depth + 1)
        if nullable(h, e):
            n_texts += 1
            found = with_room(found, n_found, n_found + depth + 1)
            found[n_found] = depth
            found[n_found + 1 : n_found + 1 + depth] = path[:depth]
            n_found += 1 + depth
        covered = byte_set(0)
        for byte in range(256):  # one byte of each class
            if has_byte(covered, byte):
                continue
            fuel -= 1
            if fuel < 0 or not spend(h, 8 + depth):
                return np.int64(statuses.LIMIT_FUEL)
            byte_class = byte_set(-1)
            if refine_class(h, e, byte, byte_class, FEW_VISITS) < 0:
                return np.int64(statuses.GROW)
            child = derive(h, e, byte)
            if child < 0:
                return np.int64(child)
            for other in range(byte, 256 if child != EMPTY else byte):
                if has_byte(byte_class, other) and not has_byte(covered, other):
                    status = _push_alive(h, child, ((depth + 1) << 8) | other)
                    if status < 0:
                        return status
                    if status == 0:
                        break
            if n_texts + ((head[layout.STACK_TOP] - base) >> 1) > most:
                return np.int64(MANY)
            add_bytes(covered, byte_class)
    if not has_room(h, layout.STACK, base + n_found):
        return np.int64(statuses.GROW)
    i64(h, layout.STACK)[base : base + n_found] = found[:n_found]
    head[layout.STACK_TOP] = base + n_found
    return n_found


@kernel
def _push_alive(h, e, place):
    """Push ``e`` and its place if it matches something, and return 1; else 0; or a status."""
    status = np.int64(is_nonempty(h, e))
    if status > 0 and push_pair(h, e, place) < 0:
        return np.int64(statuses.GROW)
    return status
