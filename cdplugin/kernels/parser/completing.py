"""Completion: the items that a complete nonterminal gives, and the other nonterminals that it completes.

This is the second of the four steps in which a row is made (:mod:`cdplugin.kernels.parser.earley`).
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.parser.corners import MANY, contains, first_at, left_corners, restrict
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import header, i64, length_of, memo_get, memo_put, pack, spend, word_of
from cdplugin.kernels.store.stack import intern_set, push, push_all

_CORNER_WORK = 4
"""Units of work for asking whether a nonterminal is predicted."""
_FEW_CORNERS = 8
"""So many dots before a nonterminal are asked one by one, whatever the origin's corners are."""


@kernel
def push_items(h, items):
    """Push all items of a ``K_ITEMS`` value; 0 or ``GROW``."""
    header(h)[layout.WORK_LEFT] -= length_of(h, items)
    return push_all(h, items)


@kernel
def complete(h, nonterminal, origin):
    """Return the kernel items that completing ``nonterminal`` at ``origin`` gives: a ``K_ITEMS`` value (maybe empty) or a
    status.

    Two passes over one work list. The first collects the nonterminals that are complete together: if ``A -> . B rest`` is
    predicted at the same origin and ``rest`` is nullable, completing B completes A. The second collects what each of them
    gives: the items that wait for it outside (the origin's entry), and the predicted items ``A -> B . rest`` inside, with the
    origin restricted to A. :func:`_push_predicted` finds the predicted items.

    Only finished results are memoised: a recursive memo with an in-progress guard returns too little where completions are
    cyclic. Cost: the corners of the completed nonterminals, times the entries of the origin; or the rules of the origin's
    corners, if these are fewer.
    """
    known = memo_get(h, layout.M_COMPLETE, origin, nonterminal)
    if known >= 0:
        return known
    head = header(h)
    base = head[layout.STACK_TOP]
    # stack: the work list of nonterminals [base, end), then the items; above either, the dots under consideration
    lefts = i64(h, layout.DOT_LEFT)
    head[layout.STAMP] += 1
    stamp = head[layout.STAMP]
    marks = i64(h, layout.VISIT_STAMPS)
    # stamps instead of a set: nothing has to be cleared
    marks[nonterminal] = stamp
    if push(h, nonterminal) < 0:
        return statuses.GROW
    at = base
    while at < head[layout.STACK_TOP]:  # which nonterminals are complete
        end = head[layout.STACK_TOP]
        status = _push_predicted(h, origin, i64(h, layout.STACK)[at], True)
        if status < 0:
            return status
        at += 1
        # left_corners, called meanwhile, stamps nonterminals in the same table
        stamp = _restamp(h, base, end, stamp)
        words = i64(h, layout.STACK)
        for i in range(end, head[layout.STACK_TOP]):
            left = lefts[words[i]]
            if marks[left] != stamp:
                marks[left] = stamp
                words[end] = left
                end += 1
        head[layout.STACK_TOP] = end
    end = head[layout.STACK_TOP]
    for at in range(base, end):  # what each of them gives
        done = i64(h, layout.STACK)[at]
        i = first_at(h, origin, done)
        if i < length_of(h, origin):
            # the origin's entry has the items outside; a nonterminal that no item outside waits for has no entry
            waits = word_of(h, origin, i)
            if waits >> 32 == done and push_items(h, waits & layout.LOW_32) < 0:
                return statuses.GROW
        # a rule that is finished gives no item; its left side is in the work list already
        first = head[layout.STACK_TOP]
        status = _push_predicted(h, origin, done, False)
        if status < 0:
            return status
        for i in range(first, head[layout.STACK_TOP]):
            dot = i64(h, layout.STACK)[i]
            restricted = restrict(h, origin, lefts[dot])
            if restricted < 0:
                return restricted
            i64(h, layout.STACK)[i] = pack(dot + 1, restricted)
    # the value consists of the items only, without the work list below them
    items = intern_set(h, layout.K_ITEMS, end)
    head[layout.STACK_TOP] = base
    return memo_put(h, layout.M_COMPLETE, origin, nonterminal, items)


@kernel
def _restamp(h, base, end, stamp):
    """Return the current stamp of the work list ``STACK[base:end]``, stamping the list again if a callee has taken another
    stamp.

    :func:`left_corners` stamps nonterminals in the same table, and so overwrites some marks of this search.
    """
    head = header(h)
    if head[layout.STAMP] == stamp:
        return stamp
    head[layout.STAMP] += 1
    head[layout.WORK_LEFT] -= end - base
    marks = i64(h, layout.VISIT_STAMPS)
    words = i64(h, layout.STACK)
    for i in range(base, end):
        marks[words[i]] = head[layout.STAMP]
    return head[layout.STAMP]


@kernel
def _push_predicted(h, origin, done, is_last):
    """Push the dots before ``done`` of rules predicted at ``origin``, with only nullable symbols before them; 0 or a status.

    ``is_last``: only dots after which the rest of the rule is nullable; else only those after which a symbol comes. A dot may
    be pushed twice. There are two lists to search: all such dots (CORNER_LISTS), of which each rule may or may not be predicted
    here (:func:`_is_predicted`); and the rules predicted here, those of the left corners of the origin's entries. The shorter
    one is taken. This matters for optional whitespace, with which every rule of a large grammar may begin, and which is
    completed after each separator.
    """
    symbols = i64(h, layout.DOT_SYMBOL)
    null_rest = i64(h, layout.DOT_NULL_REST)
    corner_lists = i64(h, layout.CORNER_LISTS)
    waiting = length_of(h, origin)
    first_entry = i64(h, layout.CORNER_HEADS)[done]
    few = np.int64(_FEW_CORNERS)
    if _is_longer(corner_lists, first_entry, few):
        for i in range(waiting):
            corners = left_corners(h, word_of(h, origin, i) >> 32)
            if corners < 0:
                return np.int64(corners)
            few += length_of(h, corners)
        if not spend(h, few):
            return np.int64(statuses.LIMIT_WORK)
        if _is_longer(corner_lists, first_entry, few):
            return _push_from_corners(h, origin, done, is_last)
    entry = first_entry
    while entry >= 0:
        if not spend(h, _CORNER_WORK):
            return np.int64(statuses.LIMIT_WORK)
        dot = corner_lists[2 * entry]
        entry = corner_lists[2 * entry + 1]
        if null_rest[dot + 1] if is_last else symbols[dot + 1] != layout.END_OF_RULE:
            inside = _is_predicted(h, origin, waiting, i64(h, layout.DOT_LEFT)[dot])
            if inside < 0:
                return np.int64(inside)
            if inside and push(h, dot) < 0:
                return np.int64(statuses.GROW)
    return np.int64(0)


@kernel
def _is_longer(corner_lists, entry, count):
    """Return whether a list in CORNER_LISTS has more than ``count`` entries."""
    while entry >= 0 and count >= 0:
        entry = corner_lists[2 * entry + 1]
        count -= 1
    return count < 0


@kernel
def _push_from_corners(h, origin, done, is_last):
    """Do :func:`_push_predicted` over the rules of the left corners of the origin's entries, which are memoised."""
    symbols = i64(h, layout.DOT_SYMBOL)
    null_rest = i64(h, layout.DOT_NULL_REST)
    nullable = i64(h, layout.NULLABLE)
    rule_heads = i64(h, layout.RULE_HEADS)
    rule_lists = i64(h, layout.RULE_LISTS)
    for i in range(length_of(h, origin)):
        corners = left_corners(h, word_of(h, origin, i) >> 32)
        for c in range(length_of(h, corners)):
            entry = rule_heads[word_of(h, corners, c)]
            while entry >= 0:
                if not spend(h, 2):
                    return np.int64(statuses.LIMIT_WORK)
                dot = rule_lists[2 * entry]
                entry = rule_lists[2 * entry + 1]
                while symbols[dot] >= 0:
                    if symbols[dot] == done and (null_rest[dot + 1] if is_last else symbols[dot + 1] != layout.END_OF_RULE):
                        if push(h, dot) < 0:
                            return np.int64(statuses.GROW)
                    if not nullable[symbols[dot]]:
                        break
                    dot += 1
    return np.int64(0)


@kernel
def _is_predicted(h, origin, waiting, nonterminal):
    """Return 1 if some entry of ``origin`` has ``nonterminal`` as a left corner, else 0; or a status.

    That is, whether the row that the origin belongs to predicts it. An origin of many entries is restricted to all their
    corners at once (:func:`restrict`), so each later question is one look-up.
    """
    # each question would look at all entries, and there are as many questions as corners
    if waiting >= MANY:
        restricted = restrict(h, origin, nonterminal)
        return restricted if restricted < 0 else np.int64(length_of(h, restricted) > 0)
    header(h)[layout.WORK_LEFT] -= 4 * waiting
    for i in range(waiting):
        corners = left_corners(h, word_of(h, origin, i) >> 32)
        if corners < 0:
            return corners
        if contains(h, corners, nonterminal):
            return 1
    return 0
