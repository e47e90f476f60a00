"""Programs: postfix code that builds many expressions in one kernel call. :mod:`cdplugin.engine.programs` writes them."""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.regex.expressions import (
    EMPTY,
    EPSILON,
    make_alt,
    make_and,
    make_bytes,
    make_cat,
    make_literals,
    make_not,
    make_repeat,
)
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import header, i64, spend, u8
from cdplugin.kernels.store.stack import push, push_pair

# instructions besides the kinds of expressions
LOAD, KEEP, CONSTANT, CHARACTERS, NAMES, KEYS, AUTOMATON = range(-1, -8, -1)
FIRST_CHARACTER = 32  # the first character that CHARACTERS lists


@kernel
def evaluate(h, start, count):
    """Run the postfix program ``STACK[start:start + count]`` and return the id of the last expression that it builds, or a
    status.

    Instructions that push an expression: ``K_EMPTY``; ``K_EPSILON``; ``K_BYTES w0 w1 w2 w3``; ``K_LITERALS low high depth``;
    ``K_CAT n``, ``K_ALT n``, ``K_AND n`` (over the top ``n`` operands); ``K_NOT``; ``K_REPEAT low high``; ``CONSTANT id``: an
    expression of the arena; ``LOAD slot``: a result; ``NAMES low high``: see :func:`_names`;
    ``AUTOMATON tails states n word…``: see :func:`_automaton`. Instructions that push nothing: ``KEEP slot``: store the top as
    a result; ``CHARACTERS n id…``: set how ``NAMES`` writes each character from here on; ``KEYS low high tail slot``: store,
    for each of the literals, the literal followed by the expression ``tail``, as results from ``slot`` on. Results lie in
    VISIT_STAMPS, which the owner has made large enough.

    For example, ``(a|b){0,3}`` with the byte sets of a and b is ``K_BYTES … K_BYTES … K_ALT 2 K_REPEAT 0 3``. Operands stand
    above the program on the same stack, so a program of any depth needs no recursion.
    """
    head = header(h)
    saved = head[layout.STACK_TOP]
    head[layout.STACK_TOP] = max(saved, start + count)
    results = i64(h, layout.VISIT_STAMPS)
    at = start
    end = start + count
    characters = start
    result = np.int64(EMPTY)
    while at < end:
        words = i64(h, layout.STACK)
        code = words[at]
        at += 1
        if code == KEEP:
            results[words[at]] = words[head[layout.STACK_TOP] - 1]
            at += 1
            continue
        if code == CHARACTERS:
            characters = at + 1
            at += 1 + words[at]
            continue
        if code == KEYS:
            slot = words[at + 3]
            for i in range(words[at], words[at + 1]):
                result = make_literals(h, i, i + 1, 0)
                if result >= 0:
                    result = make_cat(h, result, words[at + 2])
                if result < 0:
                    return result
                results[slot] = result
                slot += 1
            at += 4
            continue
        if code == LOAD:
            result = results[words[at]]
            at += 1
        elif code == CONSTANT:
            result = words[at]
            at += 1
        elif code == NAMES:
            result = _names(h, words[at], words[at + 1], characters)
            at += 2
        elif code == AUTOMATON:
            result = _automaton(h, at + 3, words[at], words[at + 1])
            at += 3 + words[at + 2]
        elif code == layout.K_EMPTY:
            result = np.int64(EMPTY)
        elif code == layout.K_EPSILON:
            result = np.int64(EPSILON)
        elif code == layout.K_BYTES:
            result = make_bytes(h, words[at], words[at + 1], words[at + 2], words[at + 3])
            at += 4
        elif code == layout.K_LITERALS:
            result = make_literals(h, words[at], words[at + 1], words[at + 2])
            at += 3
        elif code == layout.K_NOT:
            head[layout.STACK_TOP] -= 1
            result = make_not(h, words[head[layout.STACK_TOP]])
        elif code == layout.K_REPEAT:
            head[layout.STACK_TOP] -= 1
            result = make_repeat(h, words[head[layout.STACK_TOP]], words[at], words[at + 1])
            at += 2
        else:
            n = words[at]
            at += 1
            base = head[layout.STACK_TOP] - n
            if code == layout.K_CAT:
                result = words[head[layout.STACK_TOP] - 1]
                for i in range(head[layout.STACK_TOP] - 2, base - 1, -1):
                    result = make_cat(h, i64(h, layout.STACK)[i], result)
                    if result < 0:
                        return result
            elif code == layout.K_ALT:
                result = make_alt(h, base, n)
            else:
                result = make_and(h, base, n)
            head[layout.STACK_TOP] = base
        if result < 0:
            return result
        if push(h, result) < 0:
            return statuses.GROW
    head[layout.STACK_TOP] = saved
    return result


@kernel
def _names(h, low, high, characters):
    """Build the union of the literals ``low .. high - 1`` (at least one), with a choice of spellings for each character; an id
    or a status.

    Byte ``b`` is written as the expression ``STACK[characters + b - FIRST_CHARACTER]``. The result is a tree that branches
    where the literals do. An open branching is a *frame* on the stack: its depth, the enclosing frame, its branches so far. The
    common prefix of two neighbours among the sorted literals tells which frames end between them, and whether one begins.
    ``ab``, ``ac`` and ``b`` open a frame of depth 0 and in it, at ``ab``, one of depth 1, which ends after ``ac`` as
    ``a (b | c)``; at the end the outer frame becomes ``a (b | c) | b``.
    """
    head = header(h)
    base = head[layout.STACK_TOP]
    offsets = i64(h, layout.LITERAL_OFFSETS)
    frame = base - 1  # none is open
    depth = np.int64(-1)  # of the frame
    result = np.int64(EMPTY)
    for i in range(low, high):
        first, end = offsets[i], offsets[i + 1]
        shared = _shared(h, i) if i + 1 < high else np.int64(-1)
        result = np.int64(EPSILON)
        while True:
            if shared > depth:
                if push_pair(h, shared, frame) < 0:
                    return statuses.GROW
                frame = head[layout.STACK_TOP] - 2
                depth = shared
            result = _written(h, first + max(depth, 0), end, result, characters)
            if result < 0:
                return result
            if depth <= shared:
                break
            if push(h, result) < 0:
                return statuses.GROW
            result = make_alt(h, frame + 2, head[layout.STACK_TOP] - frame - 2)
            if result < 0:
                return result
            end = first + depth
            head[layout.STACK_TOP] = frame
            frame = i64(h, layout.STACK)[frame + 1]
            depth = i64(h, layout.STACK)[frame] if frame >= base else np.int64(-1)
        if frame >= base and push(h, result) < 0:
            return statuses.GROW
    head[layout.STACK_TOP] = base
    return result


@kernel
def _shared(h, i):
    """Return the length of the common prefix of literal ``i`` and the next one."""
    offsets = i64(h, layout.LITERAL_OFFSETS)
    text = u8(h, layout.LITERAL_BYTES)
    first, second, end = offsets[i], offsets[i + 1], offsets[i + 2]
    n = min(second - first, end - second)
    count = np.int64(0)
    while count < n and text[first + count] == text[second + count]:
        count += 1
    return count


@kernel
def _written(h, start, end, tail, characters):
    """Build ``LITERAL_BYTES[start:end]``, written as :func:`_names` does, followed by ``tail``: an id or a status."""
    text = u8(h, layout.LITERAL_BYTES)
    result = np.int64(tail)
    for at in range(end - 1, start - 1, -1):
        result = make_cat(h, i64(h, layout.STACK)[characters + np.int64(text[at]) - FIRST_CHARACTER], result)
        if result < 0:
            return result
    return result


@kernel
def _automaton(h, at, n_tails, n_states):
    """Build what an automaton over bytes below 64 (digits, signs) matches from its last state on: an id or a status.

    The top ``n_tails`` operands, which are popped, are the possible tails of a text. The states stand from ``STACK[at]`` on,
    each after those that it leads to: the number of its tail, from 1, or 0; its number of edges; and for each edge a set of
    bytes, one bit each, and the target state. Each state becomes an alternation, which stays on the stack until the last one is
    made.
    """
    head = header(h)
    states = head[layout.STACK_TOP]
    tails = states - n_tails
    for _ in range(n_states):
        first = head[layout.STACK_TOP]
        tail = i64(h, layout.STACK)[at]
        n_edges = i64(h, layout.STACK)[at + 1]
        at += 2
        if not spend(h, 1 + n_edges):
            return np.int64(statuses.LIMIT_WORK)
        if tail and push(h, i64(h, layout.STACK)[tails + tail - 1]) < 0:
            return np.int64(statuses.GROW)
        for _ in range(n_edges):
            part = np.int64(make_bytes(h, i64(h, layout.STACK)[at], 0, 0, 0))
            if part >= 0:
                part = np.int64(make_cat(h, part, i64(h, layout.STACK)[states + i64(h, layout.STACK)[at + 1]]))
            if part < 0:
                return part
            if push(h, part) < 0:
                return np.int64(statuses.GROW)
            at += 2
        state = np.int64(make_alt(h, first, head[layout.STACK_TOP] - first))
        if state < 0:
            return state
        head[layout.STACK_TOP] = first
        if push(h, state) < 0:
            return np.int64(statuses.GROW)
    result = i64(h, layout.STACK)[head[layout.STACK_TOP] - 1]
    head[layout.STACK_TOP] = tails
    return result
