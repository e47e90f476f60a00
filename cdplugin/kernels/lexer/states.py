"""Lexer states: hash-consed sets of (lexeme, expression), each with a number and a record.

Each lexeme declares how it ends:

- EXACT (JSON, regular expressions, GBNF): wherever lexemes match, they end (``L_ACCEPTED``), and what can go on does
  (``L_REST``). Both readings are followed.
- LAZY: a lexeme ends at its first match; nothing goes on.
- LONGEST (Lark): if nothing can go on, the matches end. If some lexemes match and some can go on, the next byte decides: the
  state notes the matches (``L_LONGEST``), and a byte that no lexeme goes on with has the transition ``BEFORE``, which says that
  the matches ended before this byte. A lexeme with a fence (``X_FENCE``) never ends before a byte of the fence.

LONGEST and LAZY lexemes share states; EXACT ones have states of their own. A token terminal is the word (lexeme, EMPTY) of the
state at a lexeme boundary; no byte leads on from it.

For example, with the lexemes ``w: /[a-z]+/`` and ``i: "if"`` the bytes of ``if(`` lead through

==========  ===============================================  =====================================================
read        EXACT                                            LONGEST
==========  ===============================================  =====================================================
(nothing)   1 = {w: [a-z]+, i: if}                           1 = {w: [a-z]+, i: if}
``i``       ENDS_BIT + 2 = {w: [a-z]*, i: f}, w ends         2 = {w: [a-z]*, i: f}, L_LONGEST = {w}
``if``      ENDS_BIT + 3 = {w: [a-z]*, i: ()}, w and i end   3 = {w: [a-z]*, i: ()}, L_LONGEST = {w, i}
``if(``     0; the rows after the ends take the ``(``        BEFORE: w and i ended before it, and the rules choose
==========  ===============================================  =====================================================
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import begun_of, ending_of, fence_of, role_of, symbol_of
from cdplugin.kernels.regex.expressions import COUNTED, EPSILON, nullable
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import (
    aux_of,
    flags_of,
    has_room,
    header,
    i64,
    intern,
    length_of,
    set_aux,
    sort_unique,
    word_of,
)


@kernel
def _new_lexer_state(h, value, accepted, rest):
    """Append a record for ``value``, a ``K_LEXER``; return its number, or ``GROW``.

    ``accepted``: L_ACCEPTED, 0: none. ``rest``: L_REST, or below 0 for the state itself. All other fields are marked as not
    computed. The number goes into the value's ``V_AUX``.
    """
    head = header(h)
    number = head[layout.N_LEXER_STATES]
    if not has_room(h, layout.LEXER_STATES, (number + 1) * lexer_layout.LEXER_WORDS):
        return statuses.GROW
    records = i64(h, layout.LEXER_STATES)
    record = number * lexer_layout.LEXER_WORDS
    records[record + lexer_layout.L_VALUE] = value
    records[record + lexer_layout.L_ACCEPTED] = accepted
    records[record + lexer_layout.L_REST] = number if rest < 0 else rest
    records[record + lexer_layout.L_PLAIN_RUN] = -1
    records[record + lexer_layout.L_SATURATED] = 0
    records[record + lexer_layout.L_BASE] = -1
    records[record + lexer_layout.L_LONGEST] = 0
    records[record + lexer_layout.L_SIMPLIFIED] = 0
    records[record + lexer_layout.L_FAR] = 0
    records[record + lexer_layout.L_N_HEADS] = -1
    records[record + lexer_layout.L_LOOPS] = -1
    records[record + lexer_layout.L_ROW] = -1
    records[record + lexer_layout.L_COUNTED] = _is_counted(h, value)
    records[record + lexer_layout.L_ROLES] = _roles(h, value) if head[layout.HAS_TRACKED] else 0
    set_aux(h, value, number)
    head[layout.N_LEXER_STATES] = number + 1
    return number


@kernel
def _is_counted(h, value):
    """Return whether some expression of a ``K_LEXER`` value has counts."""
    for i in range(length_of(h, value)):
        if flags_of(h, word_of(h, value, i) & layout.LOW_32) & COUNTED:
            return True
    return False


@kernel
def _roles(h, value):
    """Return the roles (:mod:`cdplugin.kernels.lexer.tracked`) of a ``K_LEXER`` value's lexemes, as bits."""
    roles = np.int64(0)
    for i in range(length_of(h, value)):
        roles |= 1 << role_of(h, word_of(h, value, i) >> 32)
    return roles


@kernel
def lexer_state(h, start, count):
    """Return the number of the state with the sorted (lexeme, expression) words ``STACK[start:start + count]``, making it if it
    is new; 0 for no words; or a status.

    Either all words are of EXACT lexemes or none is, so the first one tells which. The stack is left as it is.
    """
    if count == 0:
        return 0
    value = intern(h, layout.K_LEXER, start, count)
    if value < 0:
        return value
    number = aux_of(h, value)
    if number > 0:
        return number
    if ending_of(h, i64(h, layout.STACK)[start] >> 32) != layout.EXACT:
        return _longest_state(h, value, start, count)
    return _exact_state(h, value, start, count)


@kernel
def take_state(h, start):
    """Take the (lexeme, expression) words ``STACK[start:top]`` off the stack: their :func:`lexer_state`, in any order."""
    head = header(h)
    count = sort_unique(i64(h, layout.STACK), start, head[layout.STACK_TOP] - start)
    state = lexer_state(h, start, count)
    head[layout.STACK_TOP] = start
    return np.int64(state)


@kernel
def _exact_state(h, value, start, count):
    """Make the record of a new state of EXACT lexemes; return its number, or a status.

    L_ACCEPTED is what matches now. L_REST is the state without the words whose expression is EPSILON, which have nothing left.
    It is made first, because a pair that goes on is interned with it.
    """
    head = header(h)
    saved = head[layout.STACK_TOP]
    base = max(saved, start + count)
    accepted = _accepted(h, start, count, base)
    if accepted < 0:
        return accepted
    if accepted == 0:
        return _new_lexer_state(h, value, 0, -1)
    words = i64(h, layout.STACK)
    going = 0
    for i in range(start, start + count):
        if words[i] & layout.LOW_32 != EPSILON:
            words[base + going] = words[i]
            going += 1
    if going == count:
        return _new_lexer_state(h, value, accepted, -1)
    rest = np.int64(0)
    if going > 0:
        head[layout.STACK_TOP] = base + going
        rest = _rest_state(h, base, going)
        head[layout.STACK_TOP] = saved
    return rest if rest < 0 else _new_lexer_state(h, value, accepted, rest)


@kernel
def _accepted(h, start, count, at):
    """Return the EXACT lexemes of ``STACK[start:start + count]`` that match, as a ``K_ACCEPTED`` value, 0: none; or a status.

    Uses ``count`` words from ``STACK[at]`` on as scratch.
    """
    if not has_room(h, layout.STACK, at + count):
        return np.int64(statuses.GROW)
    words = i64(h, layout.STACK)
    ended = 0
    for i in range(start, start + count):
        if nullable(h, words[i] & layout.LOW_32):
            words[at + ended] = symbol_of(h, words[i] >> 32)
            ended += 1
    if ended == 0:
        return np.int64(0)
    return np.int64(intern(h, layout.K_ACCEPTED, at, sort_unique(words, at, ended)))


@kernel
def _longest_state(h, value, start, count):
    """Make the record of a new state of LONGEST and LAZY lexemes; return its number, or a status.

    Three outcomes:

    - Nothing matches: the state only goes on.
    - A LAZY lexeme matches, or nothing can go on: the matches end here (L_ACCEPTED, L_REST = 0). A LAZY match wins over a
      LONGEST one.
    - Some match and some go on: the next byte decides (L_LONGEST).

    A lexeme that has not begun does not match yet, even if its expression is nullable: the rules handle empty matches. A lexeme
    with a fence counts as going on, since the byte after its match has to be seen.
    """
    head = header(h)
    saved = head[layout.STACK_TOP]
    base = max(saved, start + count)
    if not has_room(h, layout.STACK, base + 2 * count):
        return statuses.GROW
    words = i64(h, layout.STACK)
    ended = 0
    lazy = 0
    going = 0
    for i in range(start, start + count):
        begun = begun_of(h, words[i] >> 32) == words[i] >> 32
        if begun and nullable(h, words[i] & layout.LOW_32):
            words[base + ended] = symbol_of(h, words[i] >> 32)
            ended += 1
            if ending_of(h, words[i] >> 32) == layout.LAZY:
                words[base + count + lazy] = symbol_of(h, words[i] >> 32)
                lazy += 1
        if words[i] & layout.LOW_32 != EPSILON or fence_of(h, words[i] >> 32):
            going += 1
    if ended == 0:
        return _new_lexer_state(h, value, 0, -1)
    first = base
    if lazy:
        first = base + count
        ended = lazy
    ended = sort_unique(words, first, ended)
    head[layout.STACK_TOP] = base + 2 * count
    accepted = intern(h, layout.K_ACCEPTED, first, ended)
    head[layout.STACK_TOP] = saved
    if accepted < 0:
        return accepted
    if lazy or not going:
        return _new_lexer_state(h, value, accepted, 0)
    number = _new_lexer_state(h, value, 0, -1)
    if number > 0:
        i64(h, layout.LEXER_STATES)[number * lexer_layout.LEXER_WORDS + lexer_layout.L_LONGEST] = accepted
    return number


@kernel
def _rest_state(h, start, count):
    """Return the state of ``STACK[start:start + count]``, of which no expression is EPSILON, so that L_REST is the state
    itself; or a status.
    """
    value = intern(h, layout.K_LEXER, start, count)
    if value < 0:
        return np.int64(value)
    number = aux_of(h, value)
    if number > 0:
        return number
    accepted = _accepted(h, start, count, header(h)[layout.STACK_TOP])
    return accepted if accepted < 0 else np.int64(_new_lexer_state(h, value, accepted, -1))
