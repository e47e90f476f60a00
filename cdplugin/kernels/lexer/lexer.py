"""Lexer states: hash-consed sets of (lexeme, expression), with transition rows filled lazily.

A lexer state has a dense number (0: dead) and a record (``L_…``, :mod:`cdplugin.kernels.lexer.layout`). Its transition row has
256 int32 entries: -1 unknown, 0 dead, otherwise the next state's number, with ``ENDS_BIT`` set where lexemes end in it. A
transition is computed for a whole class of bytes at once (Owens, Reppy and Turon, 2009), so a row is full after a few of them.
It is the lazy DFA of RE2 and regex-automata, over several expressions at once, with a cache that only grows.

Each lexeme declares how it ends, and a state keeps the ways apart:

- EXACT (JSON, regular expressions, GBNF): the lexemes that match end (``L_ACCEPTED``), and the others go on beside them
  (``L_REST``). Both readings are kept.
- LAZY: ends at its first match; nothing goes on.
- LONGEST (Lark): where all match and none can go on, they end. Where some match and some can go on, the next byte decides: the
  state keeps what matches (``L_LONGEST``), and a byte that nothing goes on with has the transition ``BEFORE``: the lexeme
  ended before this byte. A lexeme with a fence (``X_FENCE``) never ends before a byte of it.

LONGEST and LAZY lexemes share states, apart from EXACT ones. A token terminal is the word (lexeme, EMPTY) of the state at a
lexeme boundary; no byte leads anywhere from it.

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

from __future__ import annotations

import numpy as np

from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.jit.views import byte_set
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import (
    accepted_of,
    after_tick,
    begun_of,
    ending_of,
    fence_of,
    longest_of,
    role_of,
    symbol_of,
    value_of,
)
from cdplugin.kernels.regex.derive import FEW_VISITS, derive, refine_class
from cdplugin.kernels.regex.emptiness import is_nonempty
from cdplugin.kernels.regex.expressions import EMPTY, EPSILON, nullable
from cdplugin.kernels.regex.saturate import saturate
from cdplugin.kernels.regex.slices import UNBOUNDED, plain_run_bound
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import (
    aux_of,
    has_room,
    header,
    i32,
    i64,
    intern,
    length_of,
    pack,
    set_aux,
    sort_range,
    sort_unique,
    spend,
    word_of,
)
from cdplugin.kernels.store.stack import push


@kernel
def _new_lexer_state(h, value, accepted, rest):
    """A fresh record and transition row for ``value``, a ``K_LEXER``; its number, or ``GROW``.

    ``accepted``: L_ACCEPTED, 0: none. ``rest``: L_REST, or below 0 for the state itself. Everything else is marked as not
    computed, and the number is noted as the value's ``V_AUX``.
    """
    head = header(h)
    number = head[layout.N_LEXER_STATES]
    if not has_room(h, layout.LEXER_STATES, (number + 1) * lexer_layout.LEXER_WORDS) or not has_room(
        h, layout.TRANSITIONS, (number + 1) * 256
    ):
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
    records[record + lexer_layout.L_N_HEADS] = -1
    records[record + lexer_layout.L_LOOPS] = -1
    records[record + lexer_layout.L_ROLES] = _roles(h, value) if head[layout.HAS_TRACKED] else 0
    transitions = i32(h, layout.TRANSITIONS)
    for i in range(number * 256, number * 256 + 256):
        transitions[i] = -1
    set_aux(h, value, number)
    head[layout.N_LEXER_STATES] = number + 1
    return number


@kernel
def _roles(h, value):
    """The roles (:mod:`cdplugin.kernels.lexer.tracked`) of a state's lexemes, as bits."""
    roles = np.int64(0)
    for i in range(length_of(h, value)):
        roles |= 1 << role_of(h, word_of(h, value, i) >> 32)
    return roles


@kernel
def lexer_state(h, start, count):
    """Number of the state whose (lexeme, expression) words, sorted, are ``STACK[start:start + count]``; 0 if there are none;
    or a status.

    The words are all of EXACT lexemes or of none, so the first one tells which. The stack is left as it is.
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
def _exact_state(h, value, start, count):
    """The record of a new state of EXACT lexemes: its number, or a status.

    L_ACCEPTED is what matches now. L_REST drops the words whose expression is EPSILON, since they have nothing left; it is a
    state of its own, found first, because a pair that goes on is interned by it.
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
    """The EXACT lexemes of ``STACK[start:start + count]`` that end, as a ``K_ACCEPTED`` value, 0: none; or a status. Uses
    ``count`` words from ``STACK[at]`` on.
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
    """The record of a new state of LONGEST and LAZY lexemes: its number, or a status.

    Three outcomes: nothing matches, and the state only goes on; a LAZY lexeme matches or nothing can go on, so what matches
    ends here (L_ACCEPTED, L_REST = 0; of a LAZY and a LONGEST match the LAZY one wins); or some match and some go on, and the
    next byte decides (L_LONGEST). A lexeme that has not begun does not match yet, even if its expression is nullable: an empty
    match is left to the rules. A fence counts as going on, since the byte after the match has to be seen.
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
    """The state ``STACK[start:start + count]``, with no expression EPSILON, so that its L_REST is itself; or a status."""
    value = intern(h, layout.K_LEXER, start, count)
    if value < 0:
        return np.int64(value)
    number = aux_of(h, value)
    if number > 0:
        return number
    accepted = _accepted(h, start, count, header(h)[layout.STACK_TOP])
    return accepted if accepted < 0 else np.int64(_new_lexer_state(h, value, accepted, -1))


@kernel
def transition(h, state, byte):
    """:func:`lexer_step`, but looked up where it is known, in the row of the state or in that of its simplified one.

    By a byte outside L_OWN a state and its simplified one go to the same state, so one computation serves all states that
    share a simplified one. When that is used, everything that the other row already knows is copied, so the next bytes are
    plain look-ups.
    """
    after = np.int64(i32(h, layout.TRANSITIONS)[state * 256 + byte])
    if after >= 0:
        return after
    records = i64(h, layout.LEXER_STATES)
    record = state * lexer_layout.LEXER_WORDS
    simplified = records[record + lexer_layout.L_SIMPLIFIED]
    if simplified == 0 or simplified == state or (records[record + lexer_layout.L_OWN + (byte >> 6)] >> (byte & 63)) & 1:
        return lexer_step(h, state, byte)
    after = np.int64(i32(h, layout.TRANSITIONS)[simplified * 256 + byte])
    if after < 0:
        after = lexer_step(h, simplified, byte)
        if after < 0:
            return after
    # the simplified state has lost the finite LONGEST lexemes, and with them their matches: BEFORE is not shared
    if not _shared(after, longest_of(h, state)):
        return lexer_step(h, state, byte)
    transitions = i32(h, layout.TRANSITIONS)
    for other in range(256):
        theirs = np.int64(transitions[simplified * 256 + other])
        if theirs >= 0 and transitions[state * 256 + other] < 0 and _shared(theirs, longest_of(h, state)):
            if (records[record + lexer_layout.L_OWN + (other >> 6)] >> (other & 63)) & 1 == 0:
                transitions[state * 256 + other] = theirs
    return after


@kernel
def _shared(after, longest):
    """Whether the simplified state's transition is the state's, by a byte with which nothing of its own goes on: unless it is
    only now that a lexeme ended before the byte.
    """
    return after != lexer_layout.BEFORE and (after > 0 or longest == 0)


@kernel
def lexer_step(h, state, byte):
    """The transition of ``state`` by ``byte``, computed now and stored for the byte's whole class; or a status.

    0: dead; ``BEFORE``: the lexeme ended before the byte; otherwise the next state's number, with ``ENDS_BIT`` where a lexeme
    ends.

    Each expression is derived by the byte; those whose derivative matches nothing are dropped (:func:`is_nonempty` decides,
    which for ``&`` and ``~`` may take a search), so a state that is not dead can always be ended. The class is the
    intersection of the classes of all expressions. Cost: a derivative for each word of the state, and 256 stores.
    """
    head = header(h)
    head[layout.C_TRANSITIONS] += 1
    if not spend(h, lexer_layout.TRANSITION_WORK):
        return statuses.LIMIT_WORK
    value = value_of(h, state)
    count = length_of(h, value)
    base = head[layout.STACK_TOP]
    if not has_room(h, layout.STACK, base + count):
        return statuses.GROW
    head[layout.STACK_TOP] = base + count
    byte_class = byte_set(-1)
    kept = 0
    for i in range(count):
        if not spend(h, 4):
            return statuses.LIMIT_WORK
        word = word_of(h, value, i)
        expression = word & layout.LOW_32
        child = derive(h, expression, byte)
        if child < 0:
            return child
        # a dead part narrows the class as well: for other bytes it may live
        status = refine_class(h, expression, byte, byte_class, FEW_VISITS)
        if status < 0:
            return status
        if child == EMPTY:
            continue
        alive = is_nonempty(h, child)
        if alive < 0:
            return alive
        if alive:
            i64(h, layout.STACK)[base + kept] = pack(begun_of(h, word >> 32), child)
            kept += 1
    # distinct lexemes or expressions stay distinct words, but X_BEGUN may change their order
    sort_range(i64(h, layout.STACK), base, kept)
    after = lexer_state(h, base, kept)
    head[layout.STACK_TOP] = base
    if after < 0:
        return after
    if after > 0 and accepted_of(h, after) != 0:
        after |= lexer_layout.ENDS_BIT
    matched = longest_of(h, state)
    # dead, but a LONGEST lexeme has matched: it ended before this byte
    if after == 0 and matched != 0:
        after = _before_or_dead(h, matched, byte, byte_class)
        if after < 0:
            return after
    transitions = i32(h, layout.TRANSITIONS)
    for i in range(4):
        rest = byte_class[i]
        while rest:
            bit = low_bit(rest)
            transitions[state * 256 + 64 * i + bit] = after
            rest ^= np.int64(1) << bit
    return after


@kernel
def _before_or_dead(h, matched, byte, byte_class):
    """``BEFORE``; 0 where a lexeme of ``matched`` (a ``K_ACCEPTED`` value) never ends before ``byte``; or a status. Cuts
    ``byte_class`` to bytes of which the same is true.
    """
    after = np.int64(lexer_layout.BEFORE)
    for i in range(length_of(h, matched)):
        fence = fence_of(h, word_of(h, matched, i))
        if fence == 0:
            continue
        child = derive(h, fence, byte)
        if child < 0:
            return np.int64(child)
        status = refine_class(h, fence, byte, byte_class, FEW_VISITS)
        if status < 0:
            return np.int64(status)
        if child != EMPTY:
            after = np.int64(0)
    return after


@kernel
def plain_run_of(h, state):
    """``2 n + x`` for a lexer state (see :func:`cdplugin.kernels.regex.slices.plain_run_bound`): the best of its expressions.

    0 where a LAZY lexeme may end all others. ``x`` (nothing longer is possible) is only kept where the state is one lexeme's:
    with several, what kills one may be taken by another. Memoised in L_PLAIN_RUN; or a status.
    """
    records = i64(h, layout.LEXER_STATES)
    known = records[state * lexer_layout.LEXER_WORDS + lexer_layout.L_PLAIN_RUN]
    if known >= 0:
        return known
    value = value_of(h, state)
    count = length_of(h, value)
    lazy = False
    for i in range(count):
        lazy = lazy or ending_of(h, word_of(h, value, i) >> 32) == layout.LAZY
    best = np.int64(0)
    for i in range(0 if lazy else count):
        part = plain_run_bound(h, word_of(h, value, i) & layout.LOW_32)
        if part < 0:
            return part
        if count > 1:
            part &= ~np.int64(1)
        best = max(best, part)
        if best >= 2 * UNBOUNDED:
            break
    i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_PLAIN_RUN] = best
    return best


@kernel
def saturated(h, state, longest):
    """The lexer state that has the same masks as ``state``, with counts cut to ``longest`` bytes and no tokens counted; or a
    status.

    ``longest`` is the length of the longest token, the same for all calls of an arena, so the memo (L_SATURATED) needs no key
    for it. Masks and their bases are computed for saturated states only; cursors keep the real ones.
    """
    records = i64(h, layout.LEXER_STATES)
    known = records[state * lexer_layout.LEXER_WORDS + lexer_layout.L_SATURATED]
    if known > 0:
        return known
    head = header(h)
    value = value_of(h, state)
    count = length_of(h, value)
    base = head[layout.STACK_TOP]
    result = state
    changed = False
    for i in range(count):
        word = word_of(h, value, i)
        cut = saturate(h, word & layout.LOW_32, longest)
        if cut < 0:
            return cut
        same = pack(_uncounted(h, word >> 32), cut)
        changed = changed or same != word
        if push(h, same) < 0:
            return statuses.GROW
    if changed:
        result = lexer_state(h, base, sort_unique(i64(h, layout.STACK), base, count))
    head[layout.STACK_TOP] = base
    if result < 0:
        return result
    i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_SATURATED] = result
    return result


@kernel
def _uncounted(h, lexeme):
    """The number of the same lexeme, begun, that has taken no tokens: how many it has taken makes no difference within one
    token.
    """
    if after_tick(h, lexeme) < 0:
        return lexeme
    return begun_of(h, symbol_of(h, lexeme))
