"""A token of plain characters inside bounded text, taken at once.

In ``R{m,n} T``, where each plain character is one turn of ``R`` and ``T`` begins otherwise, ``k`` plain characters lead to
``R{m-k,n-k} T``. Stepped byte by byte, a text under ``maxLength`` makes a lexer state for each of its characters when it is
first met; a token makes one.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer.fields import begun_of, value_of
from cdplugin.kernels.lexer.lexer import plain_run_of
from cdplugin.kernels.lexer.rows import known_transition
from cdplugin.kernels.lexer.states import lexer_state
from cdplugin.kernels.regex.expressions import make_cat, make_repeat
from cdplugin.kernels.regex.slices import slice_step
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import header, pack, word_of
from cdplugin.kernels.store.stack import push


@kernel
def advance_plain_run(h, state, text, start, end):
    """The lexer state after the plain characters ``text[start:end]``; 0 where they are not, or have to be stepped; or a status.

    An odd :func:`cdplugin.kernels.lexer.lexer.plain_run_of` says that the state is one lexeme's, in ``R{m,n} T`` as above.
    Stepped are bytes that end inside a character, and a token whose first transition is known: then the states after it mostly
    are, too. For ``[^"]{0,20}"`` and the token ``hello`` the result is the state of ``[^"]{0,15}"``, and no state of
    ``{0,19}`` to ``{0,16}`` is made.
    """
    if known_transition(h, state, np.int64(text[start])) >= 0:
        return np.int64(0)
    stay = plain_run_of(h, state)
    if stay & 1 == 0 or stay < 0:
        return np.int64(min(stay, 0))
    chars = np.int64(0)
    utf8 = np.int64(0)
    for i in range(start, end):
        utf8 = np.int64(slice_step(utf8, np.int64(text[i])))
        if utf8 < 0:
            return np.int64(0)
        if utf8 == 0:
            chars += 1
    if utf8 or chars > stay >> 1:
        return np.int64(0)
    word = word_of(h, value_of(h, state), 0)
    expression = word & layout.LOW_32
    counted = word_of(h, expression, 0)
    rest = make_repeat(h, word_of(h, counted, 0), max(word_of(h, counted, 1) - chars, 0), word_of(h, counted, 2) - chars)
    after = rest if rest < 0 else make_cat(h, rest, word_of(h, expression, 1))
    if after < 0:
        return np.int64(after)
    head = header(h)
    base = head[layout.STACK_TOP]
    if push(h, pack(begun_of(h, word >> 32), after)) < 0:
        return np.int64(statuses.GROW)
    result = lexer_state(h, base, 1)
    head[layout.STACK_TOP] = base
    return np.int64(result)
