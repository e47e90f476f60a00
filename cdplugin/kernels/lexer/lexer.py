"""Transitions of lexer states, computed when first asked for: a lazy DFA as in RE2 and regex-automata, over several expressions
at once, whose cache only grows.

The entries of a state's transition row (:mod:`cdplugin.kernels.lexer.rows`) are int32: -1 unknown, 0 dead, otherwise the next
state's number, with ``ENDS_BIT`` set where lexemes end in it, or ``BEFORE``. In a row of 256 entries, a transition is computed
once for a whole class of bytes with equal derivatives (Owens, Reppy and Turon, 2009), so a few of them fill the row.
"""

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
    rest_of,
    symbol_of,
    value_of,
)
from cdplugin.kernels.lexer.heads import head_at, head_place, n_heads_of
from cdplugin.kernels.lexer.rows import has_long_row, known_transition, owner_of
from cdplugin.kernels.lexer.states import lexer_state
from cdplugin.kernels.regex.absorb import derive_absorbed
from cdplugin.kernels.regex.derive import FEW_VISITS, derive, refine_class
from cdplugin.kernels.regex.emptiness import is_nonempty
from cdplugin.kernels.regex.expressions import EMPTY
from cdplugin.kernels.regex.saturate import saturate
from cdplugin.kernels.regex.slices import UNBOUNDED, plain_run_bound
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import (
    has_room,
    header,
    i32,
    i64,
    length_of,
    memo_get,
    memo_put,
    pack,
    sort_range,
    sort_unique,
    spend,
    word_of,
)
from cdplugin.kernels.store.byte_sets import add_byte, fill_bytes, has_byte
from cdplugin.kernels.store.stack import push

_WORTH = 64  # expression nodes visited to find a byte class, for each derivative that the class saves
_REACHES = (4, 8, 16, 32, 64)  # bytes to which counts are cut inside a walk
_CLASSED = 3  # least entries of a row for which finding byte classes pays


@kernel
def transition(h, state, byte):
    """Return :func:`lexer_step`, from the cache if it is there, in the row of the state or of its simplified state.

    By a byte outside L_OWN, a state and its simplified state go to the same state, so one computation serves all states with
    that simplified state. Entries of a row *beside* the simplified state's row are read from there; into a long row, all
    entries that the simplified state's row has are copied at once, so the next bytes are plain look-ups.
    """
    after = known_transition(h, state, byte)
    return after if after >= 0 else _new_transition(h, state, byte)


@kernel
def going_on(h, state, byte):
    """Return the state after ``byte`` of the lexemes that go on, whatever ends there; 0: none does; or a status."""
    after = transition(h, state, byte)
    return rest_of(h, after & lexer_layout.STATE_MASK) if after > 0 and after & lexer_layout.ENDS_BIT else after


@kernel
def _new_transition(h, state, byte):
    """Compute :func:`transition` if no row has it."""
    owner = owner_of(h, state, byte)
    if owner < 0:
        return owner
    # owner_of may have made the row just now: a byte without an entry in a short row is dead
    if not has_long_row(h, owner) and head_place(h, owner, byte) < 0:
        return np.int64(0)
    records = i64(h, layout.LEXER_STATES)
    record = owner * lexer_layout.LEXER_WORDS
    simplified = records[record + lexer_layout.L_SIMPLIFIED]
    if simplified == 0 or simplified == owner or (records[record + lexer_layout.L_OWN + (byte >> 6)] >> (byte & 63)) & 1:
        return lexer_step(h, owner, byte)
    after = transition_of_owner(h, simplified, byte)
    if after < 0:
        return after
    # the simplified state has lost the finite LONGEST lexemes, and with them their matches: BEFORE is not shared
    if not _shared(after, longest_of(h, owner)):
        return lexer_step(h, owner, byte)
    row = records[record + lexer_layout.L_ROW]
    transitions = i32(h, layout.TRANSITIONS)
    if not has_long_row(h, owner) or not has_long_row(h, simplified):
        transitions[row + (byte if has_long_row(h, owner) else head_place(h, owner, byte))] = after
        return after
    their_row = records[simplified * lexer_layout.LEXER_WORDS + lexer_layout.L_ROW]
    for other in range(256):
        theirs = np.int64(transitions[their_row + other])
        if theirs >= 0 and transitions[row + other] < 0 and _shared(theirs, longest_of(h, owner)):
            if (records[record + lexer_layout.L_OWN + (other >> 6)] >> (other & 63)) & 1 == 0:
                transitions[row + other] = theirs
    return after


@kernel
def transition_of_owner(h, state, byte):
    """Return :func:`transition` without consulting the simplified state of the row's owner."""
    after = known_transition(h, state, byte)
    if after >= 0:
        return after
    owner = owner_of(h, state, byte)
    return owner if owner < 0 else lexer_step(h, owner, byte)


@kernel
def _shared(after, longest):
    """Return whether the simplified state's transition ``after`` holds for the state too, by a byte outside L_OWN.

    ``BEFORE`` never does. A dead transition does not if the state has LONGEST matches (``longest``): these may be of lexemes
    that the simplified state has dropped, and end before the byte.
    """
    return after != lexer_layout.BEFORE and (after > 0 or longest == 0)


@kernel
def lexer_step(h, state, byte):
    """Compute and store the transition of ``state`` by ``byte``, in a long row for the byte's whole class; return it, or a
    status.

    ``state`` has a row with an entry for the byte (:func:`cdplugin.kernels.lexer.rows.owner_of`), or the byte is dead. The
    result is 0: dead; ``BEFORE``: the lexeme ended before the byte; otherwise the next state's number, with ``ENDS_BIT`` if a
    lexeme ends.

    Each expression is derived by the byte. A derivative that matches nothing is dropped (:func:`is_nonempty` decides this, for
    ``&`` and ``~`` perhaps by a search), so a live state always has a way to an end. The byte class is the intersection of the
    classes of all expressions. Cost: a derivative for each word of the state, and a store for each byte of the class.
    """
    row = i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_ROW]
    is_long = has_long_row(h, state)
    heads = n_heads_of(h, state)
    if not is_long and head_place(h, state, byte) < 0:
        return np.int64(0)
    has_classes = is_long or heads >= _CLASSED
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
        derived = head[layout.C_DERIVATIVES]
        child = derive_absorbed(h, expression, byte)
        if child < 0:
            return child
        if has_classes:
            # a part that this byte kills narrows the class as well: other bytes may not kill it
            most_visits = FEW_VISITS + _WORTH * (head[layout.C_DERIVATIVES] - derived)
            status = refine_class(h, expression, byte, byte_class, most_visits)
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
    if not is_long:
        if not has_classes:
            fill_bytes(byte_class, np.int64(0))
            add_byte(byte_class, byte)
        for place in range(heads):
            if has_byte(byte_class, head_at(h, state, place)):
                transitions[row + place] = after
        return after
    for i in range(4):
        rest = byte_class[i]
        while rest:
            bit = low_bit(rest)
            transitions[row + 64 * i + bit] = after
            rest ^= np.int64(1) << bit
    return after


@kernel
def _before_or_dead(h, matched, byte, byte_class):
    """Return ``BEFORE``, or 0 if the fence of a lexeme of ``matched`` (a ``K_ACCEPTED`` value) forbids an end before ``byte``;
    or a status.

    Narrows ``byte_class`` to bytes with the same result.
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
    """Return ``2 n + x`` for a lexer state (:func:`cdplugin.kernels.regex.slices.plain_run_bound`): the best bound of its
    expressions; or a status.

    0 if the state has a LAZY lexeme, which may end all others. ``x`` (longer plain text is dead) is kept only for a state of
    one lexeme: of several, another one may take what kills the first. Memoised in L_PLAIN_RUN.
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
    """Return the lexer state with the same masks as ``state``, with counts cut to ``longest`` bytes and without token counts;
    or a status.

    ``longest``: bytes of the longest token, the same for all calls of an arena, so the memo (L_SATURATED) needs no key for it.
    Masks and bases are computed for saturated states only; cursors keep the real ones.
    """
    records = i64(h, layout.LEXER_STATES)
    known = records[state * lexer_layout.LEXER_WORDS + lexer_layout.L_SATURATED]
    if known > 0:
        return known
    result = _cut(h, state, longest)
    if result > 0:
        i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_SATURATED] = result
    return result


@kernel
def saturated_within(h, state, reach):
    """Return a lexer state that goes on and ends as ``state`` does for ``reach`` bytes (1 to 255), with farther counts cut; or
    a status.

    Inside a trie walk the bound is not the longest token, but how far the trie goes on below the node: mostly a few bytes. So a
    walk meets few states that differ only in a count. ``reach`` is rounded up to one of ``_REACHES``, to avoid a state for each
    number of bytes; beyond the last of these, the state is returned as it is. Memoised.
    """
    if i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_COUNTED] == 0:
        return np.int64(state)
    return _counted_within(h, state, reach)


@kernel
def _counted_within(h, state, reach):
    """Do :func:`saturated_within` for a state with counts."""
    if reach > _REACHES[-1]:
        return np.int64(state)
    longest = np.int64(0)
    for some in _REACHES:
        if longest < reach:
            longest = np.int64(some)
    known = memo_get(h, layout.M_WITHIN, state, longest)
    if known > 0:
        return known
    result = _cut(h, state, longest)
    return result if result < 0 else memo_put(h, layout.M_WITHIN, state, longest, result)


@kernel
def _cut(h, state, longest):
    """Return the state with counts cut to ``longest`` bytes (:func:`saturate`) and without token counts; or a status."""
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
    return result


@kernel
def _uncounted(h, lexeme):
    """Return the number of the same lexeme, begun, with no tokens counted. Within one token, the count makes no difference."""
    if after_tick(h, lexeme) < 0:
        return lexeme
    return begun_of(h, symbol_of(h, lexeme))
