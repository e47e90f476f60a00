"""Follow many texts from many cursors in one call: where each leads, or which of several is the first that ends the text
legally.

One kernel call costs as much as following some ten bytes; and of a hundred texts tried at a hundred cursors, most are illegal
from their first byte on.

For texts that may end the output, each is a *head*, which differs, and a *tail*, which many share: ``")\\n"`` and ``"'\\n"``
before ``return x\\n``. For each tail one *path* is kept: the cursors before its bytes and at its end, on which it is known to
end the text legally. A cursor that meets the path need not follow it further. A few cursors from which the tail does not end
the text are kept, too::

    tail     r   e   t   …   \\n
    path   c0  c1  c2  …      cn        another head's cursor after ``re`` is c2: it ends the text, too

A call that is repeated continues where it stopped (``A_DONE``, ``F_DONE``).
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.jit.views import view_i64, view_u8
from cdplugin.kernels.parser.cursors import accepts_at, step
from cdplugin.kernels.store import statuses
from cdplugin.kernels.store.arena import spend

# The words of a question (int64): how many cursors, and their address; how many texts, the address of their bytes (uint8), and
# of where each begins in these (one more: where the last one ends); the address of the answers; how many are done; units of
# work for a text and for each of its bytes, besides what steps spend.
A_CURSORS, A_FROM, A_TEXTS, A_BYTES, A_HEADS, A_AFTER, A_DONE, A_WORK, A_BYTE_WORK = range(9)
# The same for heads; then the tail of each, the tails' bytes and where they begin, their paths (for each, one cursor more than
# bytes), the cursors from which they do not end the text (VAIN slots for each tail), and how many tails.
F_TAIL_OF, F_TAIL_BYTES, F_TAIL_HEADS, F_PATHS, F_VAIN, F_TAILS = range(9, 15)
ALL_WORDS, FIRST_WORDS = 9, 15
VAIN = 64


@kernel
def step_all(h, address):
    """Write the cursor after each text from each cursor, 0 if it is illegal (``cursors x texts``); 0, or a status."""
    question = view_i64(address, ALL_WORDS)
    count, n_texts = question[A_CURSORS], question[A_TEXTS]
    cursors = view_i64(question[A_FROM], count)
    heads = view_i64(question[A_HEADS], n_texts + 1)
    text = view_u8(question[A_BYTES], heads[n_texts])
    after = view_i64(question[A_AFTER], count * n_texts)
    for at in range(question[A_DONE], count * n_texts):
        question[A_DONE] = at
        number = at % n_texts
        found = _run(h, question, cursors[at // n_texts], text, heads[number], heads[number + 1])
        if found < 0:
            return found
        after[at] = found
    return np.int64(0)


@kernel
def _run(h, question, cursor, text, start, end):
    """Return the cursor after some bytes, 0 if they are illegal; or a status."""
    if not spend(h, question[A_WORK]):
        return np.int64(statuses.LIMIT_WORK)
    at = start
    while at < end and cursor > 0:
        cursor = step(h, cursor, np.int64(text[at]))
        at += 1
    spend(h, question[A_BYTE_WORK] * (at - start))
    return cursor


@kernel
def first_ending(h, address):
    """Write for each cursor the number of the first text after which the whole text may end, -1 for none; 0, or a status."""
    question = view_i64(address, FIRST_WORDS)
    count, n_texts = question[A_CURSORS], question[A_TEXTS]
    cursors = view_i64(question[A_FROM], count)
    heads = view_i64(question[A_HEADS], n_texts + 1)
    text = view_u8(question[A_BYTES], heads[n_texts])
    tail_of = view_i64(question[F_TAIL_OF], n_texts)
    found = view_i64(question[A_AFTER], count)
    for at in range(question[A_DONE], count):
        question[A_DONE] = at
        first = np.int64(-1)
        for number in range(n_texts):
            cursor = _run(h, question, cursors[at], text, heads[number], heads[number + 1])
            ends = _ends_with(h, question, cursor, tail_of[number]) if cursor > 0 else cursor
            if ends < 0:
                return ends
            if ends:
                first = np.int64(number)
                break
        found[at] = first
    return np.int64(0)


@kernel
def _ends_with(h, question, start, tail):
    """Return 1 if the text may end after a tail from the cursor ``start``, else 0; or a status."""
    heads = view_i64(question[F_TAIL_HEADS], question[F_TAILS] + 1)
    text = view_u8(question[F_TAIL_BYTES], heads[question[F_TAILS]])
    path = view_i64(question[F_PATHS], heads[question[F_TAILS]] + question[F_TAILS])
    vain = view_i64(question[F_VAIN], VAIN * question[F_TAILS])
    slot = VAIN * tail + ((start >> 32) * 31 + start) % VAIN
    if vain[slot] == start:
        return np.int64(0)
    first, last = heads[tail], heads[tail + 1]
    cursor = np.int64(start)
    for at in range(first, last):
        if path[at + tail] == cursor:
            return np.int64(1)
        if not spend(h, question[A_BYTE_WORK]):
            return np.int64(statuses.LIMIT_WORK)
        cursor = step(h, cursor, np.int64(text[at]))
        if cursor <= 0:
            break
    if cursor > 0 and path[last + tail] == cursor:
        return np.int64(1)
    ends = accepts_at(h, cursor) if cursor > 0 else cursor
    if ends == 0:
        vain[slot] = start
    elif ends > 0 and path[first + tail] == 0:  # the first success: keep its path
        cursor = np.int64(start)
        for at in range(first, last + 1):
            path[at + tail] = cursor
            if at < last:
                cursor = step(h, cursor, np.int64(text[at]))
                if cursor <= 0:
                    break
    return ends
