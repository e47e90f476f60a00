"""Simplified lexer states: without what is spelled out beside a text. Their transition rows and mask bases serve many states.

``{"name": …, "size": …}`` with further names allowed waits for the words ``name`` and ``size``, or for any text but these two.
Most tokens only see the text. Each object of a schema has other words, so each would have a mask base of its own, with a walk
of the whole trie. The simplified state drops the words and the exceptions: it is the same for all objects, and a state is
walked only along the spellings of its own words (:func:`cdplugin.kernels.masks.base_walk.walk_beside`).

::

    state         {k1: name", k2: size", k3: ([^"]* & ~(name | size))"}
    simplified    {                      k3:  [^"]*"                  }        L_OWN = {n, s}
    by "n"        {k1: ame", k3: ([^"]* & ~ame)"}  and  {k3: [^"]*"}: differ, and so on along "name"
    by "x"        both {k3: [^"]*"}: equal, copied, and nothing below is walked

``L_OWN`` names the bytes by which the two states may lead to different ones; any other byte copies the transition. It may
hold too many bytes, never too few.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.jit.views import byte_set
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import ending_of, value_of
from cdplugin.kernels.lexer.heads import add_first_bytes
from cdplugin.kernels.lexer.states import lexer_state
from cdplugin.kernels.regex.expressions import FINITE, THIN, make_and, make_cat, nullable
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import flags_of, header, i64, kind_of, length_of, pack, sort_unique, word_of
from cdplugin.kernels.store.byte_sets import fill_bytes
from cdplugin.kernels.store.stack import push


@kernel
def simplified_state(h, state):
    """The state from whose mask base that of ``state`` is made; or a status.

    It drops finite LONGEST lexemes, EXACT lexemes that are words, and words that other EXACT lexemes exclude. ``state`` itself
    where there is nothing to drop, or nothing would be left. A *word* is an expression that is finite and thin: at most ``FEW``
    bytes go on from anywhere, so its spellings are few nodes of the trie. L_OWN notes the first bytes of what is dropped: only
    by these may the two states lead to different ones. Memoised in L_SIMPLIFIED.
    """
    records = i64(h, layout.LEXER_STATES)
    known = records[state * lexer_layout.LEXER_WORDS + lexer_layout.L_SIMPLIFIED]
    if known > 0:
        return known
    value = value_of(h, state)
    head = header(h)
    base = head[layout.STACK_TOP]
    result = state
    own = byte_set(0)
    for i in range(length_of(h, value)):
        word = word_of(h, value, i)
        expression = word & layout.LOW_32
        its_kind = ending_of(h, word >> 32)
        flags = flags_of(h, expression)
        is_word = its_kind == layout.EXACT and flags & THIN and flags & FINITE and _begins_spelled(h, expression)
        if is_word or (its_kind == layout.LONGEST and flags & FINITE):
            status = _add_first_bytes(h, expression, own)
            if status < 0:
                return status
            continue
        if its_kind == layout.EXACT:
            simplified = _without_exceptions(h, expression, own)
            if simplified < 0:
                return simplified
            expression = simplified
        if push(h, pack(word >> 32, expression)) < 0:
            return np.int64(statuses.GROW)
    # without any lexeme left there is no state to start from: the walk of a few words alone is short anyway
    kept = head[layout.STACK_TOP] - base
    if kept > 0:
        result = np.int64(lexer_state(h, base, sort_unique(i64(h, layout.STACK), base, kept)))
    head[layout.STACK_TOP] = base
    if result > 0:
        record = state * lexer_layout.LEXER_WORDS
        i64(h, layout.LEXER_STATES)[record + lexer_layout.L_SIMPLIFIED] = result
        for i in range(4):
            i64(h, layout.LEXER_STATES)[record + lexer_layout.L_OWN + i] = own[i]
    return result


@kernel
def _add_first_bytes(h, e, own):
    """Add the bytes that ``e`` may begin with to the set ``own``, or more; a status if that is negative."""
    base = header(h)[layout.STACK_TOP]
    if push(h, e) < 0:
        return np.int64(statuses.GROW)
    return add_first_bytes(h, base, own, 256, layout.LOW_32)


@kernel
def _begins_spelled(h, e):
    """Whether ``e`` begins with a byte set or with literals: only then are its first bytes all that it can be told by."""
    while kind_of(h, e) == layout.K_CAT:
        e = word_of(h, e, 0)
    return kind_of(h, e) == layout.K_LITERALS or kind_of(h, e) == layout.K_BYTES


@kernel
def _without_exceptions(h, e, own):
    """``e`` without the words that its first two parts exclude (``& ~F``); or a status. Adds the bytes by which the two
    expressions may differ to ``own``.

    Two parts, because a key follows its quotation mark: ``" ([^"]* & ~name) "``. A difference in the second part shows only
    after the first, so the first bytes of the first part are added for it; all bytes, where the first part may be empty.
    """
    if kind_of(h, e) != layout.K_CAT:
        return _without_complements(h, e, own)
    first = _without_complements(h, word_of(h, e, 0), own)
    if first < 0:
        return first
    rest = word_of(h, e, 1)
    changed = first != word_of(h, e, 0)
    if changed and nullable(h, first) != nullable(h, word_of(h, e, 0)) and _add_first_bytes(h, rest, own) < 0:
        return np.int64(statuses.GROW)
    # where the second part differs shows only after the first: its bytes are not those by which states differ now
    later = byte_set(0)
    if kind_of(h, rest) == layout.K_CAT:
        second = _without_complements(h, word_of(h, rest, 0), later)
        if second < 0:
            return second
        if second != word_of(h, rest, 0):
            rest = np.int64(make_cat(h, second, word_of(h, rest, 1)))
    else:
        rest = _without_complements(h, rest, later)
    if rest < 0:
        return rest
    if rest != word_of(h, e, 1):
        changed = True
        if _add_first_bytes(h, first, own) < 0:
            return np.int64(statuses.GROW)
        if nullable(h, first):
            fill_bytes(own, np.int64(-1))
    return np.int64(make_cat(h, first, rest)) if changed else e


@kernel
def _without_complements(h, e, own):
    """An intersection without the complements of words in it; anything else as it is; or a status. The words' first bytes are
    added to ``own``.

    Left as it is where nothing would remain: an intersection of complements alone has no text to stand for.
    """
    if kind_of(h, e) != layout.K_AND:
        return e
    base = header(h)[layout.STACK_TOP]
    count = length_of(h, e)
    n_words = 0
    for i in range(count):
        n_words += _denies_words(h, word_of(h, e, i))
    if n_words == 0 or n_words == count:
        return e
    for i in range(count):
        part = word_of(h, e, i)
        if _denies_words(h, part):
            if _add_first_bytes(h, word_of(h, part, 0), own) < 0:
                return np.int64(statuses.GROW)
        elif push(h, part) < 0:
            return np.int64(statuses.GROW)
    result = i64(h, layout.STACK)[base] if count - n_words == 1 else np.int64(make_and(h, base, count - n_words))
    header(h)[layout.STACK_TOP] = base
    return result


@kernel
def _denies_words(h, e):
    """Whether ``e`` is the complement of words (:func:`simplified_state`)."""
    return kind_of(h, e) == layout.K_NOT and flags_of(h, word_of(h, e, 0)) & (FINITE | THIN) == FINITE | THIN
