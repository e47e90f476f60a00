"""What all walks of the trie share: which nodes they visit, their arrays by depth, and how their work is counted.

A walk begins at a *top*, a node of the trie or -1 for the root, and visits the nodes below it in depth-first order. What it
knows of a node stands in arrays by depth, side by side on the stack: the entry by depth ``d`` of array ``k`` is
``STACK[base + d + k * levels]``. The next node of that depth overwrites it, so nothing is undone on the way up.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.masks import layout as mask_layout
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import has_room, header, i32, spend


@kernel
def begin_walk(h, top, arrays):
    """Reserve ``arrays`` arrays by depth for a walk below ``top``: ``(place, base, levels, end)``.

    ``place``: where the top's own entries are, and what STACK_TOP was; or ``GROW``. ``end``: the first node that is not below
    the top.
    """
    head = header(h)
    place = head[layout.STACK_TOP]
    levels = head[layout.MAX_DEPTH] + 2
    if not has_room(h, layout.STACK, place + arrays * levels):
        return np.int64(statuses.GROW), place, levels, levels
    head[layout.STACK_TOP] = place + arrays * levels
    if top < 0:
        return place, place, levels, head[layout.N_NODES]
    return place, place - i32(h, layout.TRIE_DEPTH)[top], levels, np.int64(top + i32(h, layout.TRIE_SKIP)[top])


@kernel
def end_walk(h, place, visited, work):
    """Give the arrays back, and count the nodes that were visited, and units of work besides; 0 or ``LIMIT_WORK``."""
    head = header(h)
    head[layout.STACK_TOP] = place
    head[layout.C_NODES] += visited
    return np.int64(0 if spend(h, work + (visited >> mask_layout.NODES_BITS)) else statuses.LIMIT_WORK)
