"""Lexeme ends inside tokens: noted during a walk, then grouped by the lexemes that end.

An *end* is a trie node at which lexemes end while the trie goes on below. What the row becomes there depends only on which
lexemes end. So the ends of a base are grouped by that (``E_SCANNED``), and a row advances once per group. The set of a group's
nodes is interned (``K_ENDS``): groups with the same nodes share the bases below them.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.masks import layout as mask_layout
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import (
    copy_words,
    has_room,
    header,
    i32,
    i64,
    intern,
    length_of,
    lower_bound,
    sort_unique,
    word_of,
)
from cdplugin.kernels.store.stack import push

_FEW_GROUPS = 8  # up to so many groups, _sort_few sorts by one pass for each
PASSED_BITS = 4  # passing over 2 ** PASSED_BITS ends costs one unit of work


@kernel
def add_end(h, node, scanned, begun):
    """Append an end (``E_NODE``, ``E_SCANNED``, ``E_BEGUN``) to ENDS; return its index there, or ``GROW``."""
    head = header(h)
    at = head[layout.ENDS_USED]
    if not has_room(h, layout.ENDS, at + mask_layout.END_WORDS):
        return np.int64(statuses.GROW)
    ends = i64(h, layout.ENDS)
    ends[at + mask_layout.E_NODE] = node
    ends[at + mask_layout.E_SCANNED] = scanned
    ends[at + mask_layout.E_BEGUN] = begun
    head[layout.ENDS_USED] = at + mask_layout.END_WORDS
    return at


@kernel
def overlap(h, ends):
    """Return whether one node of ``ends`` lies below another one, so that the walks from both visit the same nodes.

    Only an upper node with ``begun`` 0 counts. From an upper node with ``begun``, the walk leaves out the bytes by which its
    LONGEST lexemes go on, and these lexemes would have gone on to the lower node, so that walk does not reach it.
    """
    skips = i32(h, layout.TRIE_SKIP)
    header(h)[layout.WORK_LEFT] -= length_of(h, ends) >> (1 + PASSED_BITS)
    end = np.int64(-1)  # of the subtree of the last such node; the nodes ascend
    for i in range(0, length_of(h, ends), 2):
        node = word_of(h, ends, i)
        if node < end:
            return True
        if word_of(h, ends, i + 1) == 0:
            end = node + skips[node] if node >= 0 else header(h)[layout.N_NODES]
    return False


@kernel
def group_ends(h, start, theirs, n_theirs):
    """Replace the ends from ``start`` on by groups, one for each set of lexemes that ends; return ``start``, or ``GROW``.

    The parent base has ``n_theirs`` groups, from ``theirs`` on. They are inherited, except at nodes that have an end of our
    own: it replaces the parent's end, or removes it if it scans nothing. A group that loses no node is copied as it is, so both
    bases share its ``K_ENDS`` value and all bases below it. Cost: sorting the ends, and one look at each node of the parent's
    groups.
    """
    head = header(h)
    own = (head[layout.ENDS_USED] - start) // mask_layout.END_WORDS
    base = head[layout.STACK_TOP]
    if not has_room(h, layout.STACK, base + (mask_layout.END_WORDS + 1) * own) or not has_room(
        h, layout.ENDS, head[layout.ENDS_USED] + mask_layout.GROUP_WORDS * n_theirs
    ):
        return np.int64(statuses.GROW)
    # on the stack: our own nodes, sorted, to bisect in; then a copy of our own ends, since the groups overwrite them
    head[layout.STACK_TOP] = base + (mask_layout.END_WORDS + 1) * own
    words = i64(h, layout.STACK)
    ends = i64(h, layout.ENDS)
    looked_for = np.int64(0)
    if n_theirs:
        for k in range(own):
            words[base + k] = ends[start + mask_layout.END_WORDS * k + mask_layout.E_NODE]
        looked_for = sort_unique(words, base, own)
    copy_words(words, base + own, ends, start, mask_layout.END_WORDS * own)
    group = start
    head[layout.WORK_LEFT] -= 8 * own
    for other in range(theirs, theirs + mask_layout.GROUP_WORDS * n_theirs, mask_layout.GROUP_WORDS):
        head[layout.WORK_LEFT] -= length_of(h, ends[other + mask_layout.G_ENDS])
        # most groups of the parent stay as they are: our own nodes lie along the spellings of a few words
        if not _meets(h, ends[other + mask_layout.G_ENDS], base, looked_for):
            copy_words(ends, group, ends, other, mask_layout.GROUP_WORDS)
            group += mask_layout.GROUP_WORDS
        elif _push_others(h, ends[other + mask_layout.G_ENDS], ends[other + mask_layout.G_SCANNED], base, looked_for) < 0:
            head[layout.STACK_TOP] = base
            return np.int64(statuses.GROW)
    group = _write_groups(h, group, base + own)
    head[layout.STACK_TOP] = base
    if group < 0:
        return group
    head[layout.ENDS_USED] = group
    return start


@kernel
def _meets(h, ends, nodes, count):
    """Return whether a node of the pairs ``ends`` is among the sorted ``STACK[nodes:nodes + count]``."""
    if count == 0:
        return False
    words = i64(h, layout.STACK)
    first, last = words[nodes], words[nodes + count - 1]
    for i in range(0, length_of(h, ends), 2):
        node = word_of(h, ends, i)
        if first <= node <= last and _is_among(words, nodes, count, node):
            return True
    return False


@kernel
def _push_others(h, ends, scanned, nodes, count):
    """Push those pairs of ``ends``, as ends, whose nodes are not among the sorted ``STACK[nodes:nodes + count]``; 0 or a
    status.
    """
    for i in range(0, length_of(h, ends), 2):
        node = word_of(h, ends, i)
        if not _is_among(i64(h, layout.STACK), nodes, count, node):
            if push(h, node) < 0 or push(h, scanned) < 0 or push(h, word_of(h, ends, i + 1)) < 0:
                return np.int64(statuses.GROW)
    return np.int64(0)


@kernel
def _write_groups(h, group, first):
    """Write the ends ``STACK[first:top]`` to ENDS as groups, from ``group`` on; return where they end, or ``GROW``. Ends that
    scan nothing are left out.

    The ends are sorted by the lexemes that end, then by index, as words ``scanned << 32 | index``: each run of equal
    ``scanned`` is a group. A group lists each end once.
    """
    head = header(h)
    count = (head[layout.STACK_TOP] - first) // mask_layout.END_WORDS
    order = head[layout.STACK_TOP]
    pairs = order + count
    if not has_room(h, layout.STACK, pairs + 2 * count) or not has_room(
        h, layout.ENDS, group + mask_layout.GROUP_WORDS * count
    ):
        return np.int64(statuses.GROW)
    words = i64(h, layout.STACK)
    ends = i64(h, layout.ENDS)
    skips = i32(h, layout.TRIE_SKIP)
    for i in range(count):
        words[order + i] = (words[first + mask_layout.END_WORDS * i + mask_layout.E_SCANNED] << 32) | i
    if not _sort_few(words, order, count, pairs):
        sort_unique(words, order, count)
    i = 0
    while i < count:
        scanned = words[order + i] >> 32
        n_pairs = 0
        ascend = True
        while i < count and words[order + i] >> 32 == scanned:
            source = first + mask_layout.END_WORDS * (words[order + i] & layout.LOW_32)
            pair = (words[source + mask_layout.E_NODE] + 1) << 32 | words[source + mask_layout.E_BEGUN]
            ascend = ascend and (n_pairs == 0 or words[pairs + n_pairs - 1] < pair)
            words[pairs + n_pairs] = pair
            n_pairs += 1
            i += 1
        # walks from two nodes, one below the other, find the same ends: without this, duplicates would multiply down the chain
        if not ascend:
            head[layout.WORK_LEFT] -= n_pairs
            n_pairs = sort_unique(words, pairs, n_pairs)
        size = 2 * n_pairs
        below = np.int64(0)
        for k in range(n_pairs - 1, -1, -1):
            pair = words[pairs + k]
            node = (pair >> 32) - 1
            words[pairs + 2 * k] = node
            words[pairs + 2 * k + 1] = pair & layout.LOW_32
            # the number of nodes below the group decides whether a row walks it or follows a base
            below += skips[node] if node >= 0 else head[layout.N_NODES]
        if scanned:
            value = intern(h, layout.K_ENDS, pairs, size)
            if value < 0:
                return np.int64(statuses.GROW)
            ends[group + mask_layout.G_SCANNED] = scanned
            ends[group + mask_layout.G_ENDS] = value
            ends[group + mask_layout.G_NODES] = below
            group += mask_layout.GROUP_WORDS
    return group


@kernel
def _sort_few(words, start, count, free):
    """Sort ``words[start:start + count]`` by their high halves, if these have few distinct values: one stable pass for each
    value.

    The low halves ascend already. Return False, and change nothing, if the values are many. Uses
    ``words[free:free + 2 * count]`` as scratch. A number may end at a thousand trie nodes, as one of two or three lexemes: then
    a pass for each beats a sort.
    """
    if count <= _FEW_GROUPS:
        return False
    found = free + count
    n_found = 0
    last = np.int64(-1)
    for i in range(start, start + count):
        high = words[i] >> 32
        if high == last:
            continue
        last = high
        at = found + n_found
        while at > found and words[at - 1] > high:
            at -= 1
        if at > found and words[at - 1] == high:
            continue
        if n_found == _FEW_GROUPS:
            return False
        for k in range(found + n_found, at, -1):
            words[k] = words[k - 1]
        words[at] = high
        n_found += 1
    if n_found == 1:
        return True
    place = free
    for k in range(found, found + n_found):
        for i in range(start, start + count):
            if words[i] >> 32 == words[k]:
                words[place] = words[i]
                place += 1
    copy_words(words, start, words, free, count)
    return True


@kernel
def _is_among(words, start, count, word):
    """Return whether the sorted ``words[start:start + count]`` hold ``word``, by bisection."""
    at = lower_bound(words, start, start + count, word)
    return at < start + count and words[at] == word
