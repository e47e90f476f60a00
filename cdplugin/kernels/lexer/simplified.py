"""Simplified lexer states: a state without the words spelled out beside a text. Many states share its transitions and mask
base.

``{"name": …, "size": …}`` with further names allowed waits for the words ``name`` and ``size``, or for any text except these
two. Most tokens touch only the text. But each object of a schema has other words, so each would need a mask base of its own, a
walk of the whole trie. The simplified state drops the words and the exceptions. It is the same for all such objects, and the
base of a state is then walked only along the spellings of its own words
(:func:`cdplugin.kernels.masks.base_walk.walk_beside`)::

    state         {k1: name", k2: size", k3: ([^"]* & ~(name | size))"}
    simplified    {                      k3:  [^"]*"                  }        L_OWN = {n, s}
    by "n"        {k1: ame", k3: ([^"]* & ~ame)"}  and  {k3: [^"]*"}: differ, and so on along "name"
    by "x"        both {k3: [^"]*"}: equal, copied, and nothing below is walked

``L_OWN`` names the bytes by which the two states may lead to different ones; by any other byte the transition is copied. It may
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
from cdplugin.kernels.store.arena import copy_words, flags_of, header, i64, kind_of, length_of, pack, sort_unique, word_of
from cdplugin.kernels.store.byte_sets import fill_bytes
from cdplugin.kernels.store.stack import push


@kernel
def simplified_state(h, state):
    """Return the simplified state of ``state``, or ``state`` itself if there is nothing to drop or nothing would be left; or a
    status.

    Dropped are finite LONGEST lexemes, EXACT lexemes that are words, and words that other EXACT lexemes exclude. A *word* is an
    expression that is finite and THIN (at most ``FEW`` bytes go on from anywhere), so its spellings are few trie nodes. L_OWN
    notes the first bytes of all that is dropped. Memoised in L_SIMPLIFIED.
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
    # if no lexeme is left, keep the state: a walk of a few words alone is short anyway
    kept = head[layout.STACK_TOP] - base
    if kept > 0:
        result = np.int64(lexer_state(h, base, sort_unique(i64(h, layout.STACK), base, kept)))
    head[layout.STACK_TOP] = base
    if result > 0:
        record = state * lexer_layout.LEXER_WORDS
        i64(h, layout.LEXER_STATES)[record + lexer_layout.L_SIMPLIFIED] = result
        copy_words(i64(h, layout.LEXER_STATES), record + lexer_layout.L_OWN, own, 0, 4)
    return result


@kernel
def _add_first_bytes(h, e, own):
    """Add a superset of the first bytes of ``e`` to the set ``own``; a status if negative."""
    base = header(h)[layout.STACK_TOP]
    if push(h, e) < 0:
        return np.int64(statuses.GROW)
    return add_first_bytes(h, base, own, 256, layout.LOW_32)


@kernel
def _begins_spelled(h, e):
    """Return whether ``e`` begins with a byte set or with literals: only then is the set of its first bytes exact."""
    while kind_of(h, e) == layout.K_CAT:
        e = word_of(h, e, 0)
    return kind_of(h, e) == layout.K_LITERALS or kind_of(h, e) == layout.K_BYTES


@kernel
def _without_exceptions(h, e, own):
    """Return ``e`` without the words that its first two parts exclude (``& ~F``), or a status. Adds the bytes by which the two
    may differ to ``own``.

    Two parts, because a key follows its quotation mark: ``" ([^"]* & ~name) "``. A difference in the second part shows only
    after the first part, so for it the first bytes of the first part are added, or all bytes if the first part is nullable.
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
    # a difference in the second part shows only after the first one, so its bytes do not go into ``own``
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
    """Return an intersection without the complements of words in it, or ``e`` itself; or a status. Adds the words' first bytes
    to ``own``.

    An intersection of such complements alone is left as it is: without them nothing would remain.
    """
    if kind_of(h, e) != layout.K_AND:
        return e
    base = header(h)[layout.STACK_TOP]
    count = length_of(h, e)
    n_words = 0
    for i in range(count):
        n_words += denies_words(h, word_of(h, e, i))
    if n_words == 0 or n_words == count:
        return e
    for i in range(count):
        part = word_of(h, e, i)
        if denies_words(h, part):
            if _add_first_bytes(h, word_of(h, part, 0), own) < 0:
                return np.int64(statuses.GROW)
        elif push(h, part) < 0:
            return np.int64(statuses.GROW)
    result = i64(h, layout.STACK)[base] if count - n_words == 1 else np.int64(make_and(h, base, count - n_words))
    header(h)[layout.STACK_TOP] = base
    return result


@kernel
def denies_words(h, e):
    """Return whether ``e`` is the complement of words (finite and THIN expressions)."""
    return kind_of(h, e) == layout.K_NOT and flags_of(h, word_of(h, e, 0)) & (FINITE | THIN) == FINITE | THIN
