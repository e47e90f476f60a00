"""Closures, effects and suffix classes: what a gap or one token does to a lexer state, whatever the parser allows. Memoised.

The *closure* of a state is what a gap does to it: the states that some string leads to, and the lexemes that end on the way.

The *effect* of a state is what a slot does to it: the states that one token leads to inside a lexeme; the lexemes that end with
the token; and the *crossings*: pairs (lexeme, class) where the lexeme ends inside a token and the class is that of the token's
rest. A *class* stands for all suffixes of tokens that do the same from a lexeme boundary. It is an interned effect, and its
number is higher than those of the classes in its own crossings.

With the tokens ``a b … , ] ab a, a] ,b ], [a a,b]``, suffixes have classes such as ``b`` (any letters: continues or ends
``w``), ``,``, ``,b`` and ``b]``. From ``w``'s state the token ``a,b]`` is the crossing (w, class of ``,b]``), and that class
has the crossing (",", class of ``b]``), and so on. 128,000 tokens have some hundred classes.

Why classes: between two slots a lexeme may begin inside the first token and end inside the second. A lattice by tokens would
need a node for each token; by classes it needs one for each thing that can still happen.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.boundaries import has_skip
from cdplugin.kernels.infill.workspace import charge, charge_sort, room, tab, whead
from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import accepted_of, is_skip, longest_of, rest_of, symbol_of, value_of
from cdplugin.kernels.lexer.lexer import transition
from cdplugin.kernels.lexer.rows import end_of_run, live_from, row_of
from cdplugin.kernels.masks.walk import loops_below
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import (
    copy_words,
    equal_words,
    fill_words,
    first_slot,
    hash_words,
    header,
    i32,
    i64,
    length_of,
    mix,
    sort_range,
    u8,
    word_of,
)


@kernel
def closure_of(h, w, state):
    """The closure of a lexer state: its offset in ``POOL``, or a status. Memoised.

    A breadth-first search over all 256 bytes of each state. The state itself is among the states (the empty string). LONGEST
    lexemes end wherever they match, since the gap may hold a byte that ends them. ``LIMIT_STATES`` if there are more than
    ``W_MOST_STATES``.
    """
    if not room(w, ws.CLOSURE_OF, state + 1):
        return np.int64(statuses.W_GROW)
    known = tab(w, ws.CLOSURE_OF)[state]
    if known > 0:
        return known
    head = whead(w)
    head[ws.W_STAMP] += 1
    stamp = head[ws.W_STAMP]
    lexeme_mark = tab(w, ws.LEXEME_MARK)
    if not room(w, ws.QUEUE, 2) or not room(w, ws.MARK, state + 1):
        return np.int64(statuses.W_GROW)
    queue = tab(w, ws.QUEUE)
    queue[0] = state
    tab(w, ws.MARK)[state] = stamp
    count = 1
    at = 0
    n_lexemes = 0
    work = tab(w, ws.WORK)
    while at < count:
        here = queue[at]
        at += 1
        charge(w, 128)
        n_lexemes = _note(h, longest_of(h, here), lexeme_mark, stamp, work, n_lexemes)
        row = row_of(h, here)
        if row < 0:
            return row
        byte = np.int64(0)
        while True:
            byte = live_from(h, here, byte)
            if byte == 256:
                break
            charge(w, 16)
            after = transition(h, here, byte)
            if after < 0:
                return after
            byte = end_of_run(h, here, byte, after)
            if after == 0 or after == lexer_layout.BEFORE:
                continue
            if after & lexer_layout.ENDS_BIT:
                after &= lexer_layout.STATE_MASK
                n_lexemes = _note(h, accepted_of(h, after), lexeme_mark, stamp, work, n_lexemes)
                after = rest_of(h, after)
                if after == 0:
                    continue
            if not room(w, ws.MARK, after + 1) or not room(w, ws.QUEUE, count + 1):
                return np.int64(statuses.W_GROW)
            mark = tab(w, ws.MARK)
            if mark[after] != stamp:
                mark[after] = stamp
                queue[count] = after
                count += 1
        if count > head[ws.W_MOST_STATES]:
            return np.int64(statuses.LIMIT_STATES)
    record = head[ws.W_POOL_USED]
    if not room(w, ws.POOL, record + ws.C_FIRST + count + n_lexemes):
        return np.int64(statuses.W_GROW)
    pool = tab(w, ws.POOL)
    pool[record + ws.C_STATES] = count
    pool[record + ws.C_LEXEMES] = n_lexemes
    copy_words(pool, record + ws.C_FIRST, queue, 0, count)
    copy_words(pool, record + ws.C_FIRST + count, work, 0, n_lexemes)
    head[ws.W_POOL_USED] = record + ws.C_FIRST + count + n_lexemes
    tab(w, ws.CLOSURE_OF)[state] = record
    return record


@kernel
def _note(h, accepted, lexeme_mark, stamp, out, count):
    """Append to ``out`` the unmarked lexemes of a set (0: none), only its skips if it has any; the new count."""
    if accepted:
        skips = has_skip(h, accepted)
        for i in range(length_of(h, accepted)):
            lexeme = word_of(h, accepted, i)
            if skips and not is_skip(h, lexeme):
                continue
            if lexeme_mark[lexeme] != stamp:
                lexeme_mark[lexeme] = stamp
                out[count] = lexeme
                count += 1
    return count


@kernel
def _note_set(w, accepted, stamp, out, count):
    """Append a set (``K_ACCEPTED`` value) to ``out`` unless it is marked; the new count, or ``W_GROW``."""
    if not room(w, ws.SET_MARK, accepted + 1) or not room(w, ws.WORK, count + 1):
        return np.int64(statuses.W_GROW)
    mark = tab(w, ws.SET_MARK)
    if mark[accepted] != stamp:
        mark[accepted] = stamp
        out[count] = accepted
        count += 1
    return np.int64(count)


@kernel
def _note_crossings(h, w, accepted, suffix_class, stamp, count):
    """Append a crossing to ``QUEUE`` for each lexeme of a set; the new count, or ``W_GROW``.

    ``suffix_class``: the class of the token's rest; 0: none, as no lexeme begins so. Crossings whose class may not follow the
    lexeme by any rule of the grammar are left out.
    """
    if suffix_class == 0:
        return np.int64(count)
    n_lexemes = whead(w)[ws.W_N_LEXEMES]
    skips = has_skip(h, accepted)
    for i in range(length_of(h, accepted)):
        lexeme = word_of(h, accepted, i)
        if skips and not is_skip(h, lexeme):
            continue
        key = suffix_class * n_lexemes + lexeme
        charge(w, 2)
        if not room(w, ws.CROSS_MARK, key + 1) or not room(w, ws.QUEUE, count + 1):
            return np.int64(statuses.W_GROW)
        # mostly the pair was met before
        mark = tab(w, ws.CROSS_MARK)
        if mark[key] == stamp:
            continue
        mark[key] = stamp
        charge(w, 4 + whead(w)[ws.W_SET])
        if _may_follow(h, w, lexeme, suffix_class):
            tab(w, ws.QUEUE)[count] = (lexeme << 32) | suffix_class
            count += 1
    return np.int64(count)


@kernel
def _note_crossings_below(h, w, accepted, node, behind, stamp, count):
    """:func:`_note_crossings` for all classes of :func:`_classes_below`."""
    base = _classes_below(h, w, node, behind)
    if base < 0:
        return base
    for i in range(base + 1, base + 1 + tab(w, ws.BELOW_LISTS)[base]):
        count = _note_crossings(h, w, accepted, tab(w, ws.BELOW_LISTS)[i], stamp, count)
        if count < 0:
            return count
    return np.int64(count)


@kernel
def _classes_below(h, w, node, behind):
    """The classes of the rests of all tokens in a trie node's subtree: where in ``BELOW_LISTS`` their list is; or ``W_GROW``.

    ``behind``: 0 if the rests begin with the node's own byte, 1 if after it. Memoised per node: lexemes end at few places of
    the trie, whatever their states.
    """
    head = whead(w)
    if not room(w, ws.BELOW, 2 * header(h)[layout.N_NODES]) or not room(w, ws.CLASS_MARK, head[ws.W_N_CLASSES]):
        return np.int64(statuses.W_GROW)
    known = tab(w, ws.BELOW)[2 * node + behind]
    if known > 0:
        return known
    tokens = i32(h, layout.TRIE_TOKEN)
    offsets = i64(h, layout.TOKEN_OFFSETS)
    classes = tab(w, ws.CLASS_OF)
    mark = tab(w, ws.CLASS_MARK)
    head[ws.W_STAMP] += 1
    stamp = head[ws.W_STAMP]
    depth = np.int64(i32(h, layout.TRIE_DEPTH)[node]) - 1 + behind
    base = head[ws.W_BELOW_USED]
    count = np.int64(0)
    charge(w, ws.NODE_WORK * np.int64(i32(h, layout.TRIE_SKIP)[node]))
    for below in range(node + behind, node + i32(h, layout.TRIE_SKIP)[node]):
        if tokens[below] < 0:
            continue
        suffix_class = classes[offsets[tokens[below]] + depth]
        if suffix_class == 0 or mark[suffix_class] == stamp:
            continue
        if not room(w, ws.BELOW_LISTS, base + count + 2):
            return np.int64(statuses.W_GROW)
        mark[suffix_class] = stamp
        count += 1
        tab(w, ws.BELOW_LISTS)[base + count] = suffix_class
    if not room(w, ws.BELOW_LISTS, base + 1):
        return np.int64(statuses.W_GROW)
    tab(w, ws.BELOW_LISTS)[base] = count
    head[ws.W_BELOW_USED] = base + count + 1
    tab(w, ws.BELOW)[2 * node + behind] = base
    return base


@kernel
def _may_follow(h, w, lexeme, suffix_class):
    """Whether a class may begin with a lexeme that may come after ``lexeme``, by any rule of the grammar."""
    if is_skip(h, lexeme):
        return True
    words = whead(w)[ws.W_SET]
    follows = tab(w, ws.FOLLOWS)
    firsts = tab(w, ws.CLASS_FIRSTS)
    for i in range(words):
        if follows[lexeme * words + i] & firsts[suffix_class * words + i]:
            return True
    return False


@kernel
def _set_firsts(h, w, suffix_class):
    """Fill ``CLASS_FIRSTS`` of a class from its record: the lexemes that it may begin with; 0 or ``W_GROW``.

    After a skip any lexeme may come, so a class that may begin with one has all lexemes.
    """
    words = whead(w)[ws.W_SET]
    if not room(w, ws.CLASS_FIRSTS, (suffix_class + 1) * words):
        return np.int64(statuses.W_GROW)
    firsts = tab(w, ws.CLASS_FIRSTS)
    fill_words(firsts, suffix_class * words, words, 0)
    record = tab(w, ws.CLASS_RECORD)[suffix_class]
    pool = tab(w, ws.POOL)
    first = record + ws.E_FIRST
    n_states = pool[record + ws.E_STATES]
    n_ends = pool[record + ws.E_ENDS]
    skips = False
    for i in range(first, first + n_states):
        value = value_of(h, pool[i])
        for j in range(length_of(h, value)):
            lexeme = symbol_of(h, word_of(h, value, j) >> 32)
            skips = skips or is_skip(h, lexeme) != 0
            firsts[suffix_class * words + (lexeme >> 6)] |= np.int64(1) << (lexeme & 63)
    first += n_states
    for i in range(first, first + n_ends):
        skips = skips or has_skip(h, pool[i])
        for j in range(length_of(h, pool[i])):
            lexeme = word_of(h, pool[i], j)
            firsts[suffix_class * words + (lexeme >> 6)] |= np.int64(1) << (lexeme & 63)
    first += n_ends
    for i in range(first, first + pool[record + ws.E_CROSSINGS]):
        lexeme = pool[i] >> 32
        skips = skips or is_skip(h, lexeme) != 0
        firsts[suffix_class * words + (lexeme >> 6)] |= np.int64(1) << (lexeme & 63)
    if skips:
        fill_words(firsts, suffix_class * words, words, -1)
    return np.int64(0)


@kernel
def effect_of(h, w, state):
    """The effect of a lexer state: its offset in ``POOL``, or a status. Memoised; walks the whole trie once.

    Three lists: the states that tokens lead to inside a lexeme; the sets of lexemes that end with the last byte of some token;
    and the crossings. So the lattice passes a slot by sets, never by tokens.
    """
    if not room(w, ws.EFFECT_OF, state + 1):
        return np.int64(statuses.W_GROW)
    known = tab(w, ws.EFFECT_OF)[state]
    if known > 0:
        return known
    head = whead(w)
    base = head[ws.W_POOL_USED]
    status = _walk_effect(h, w, state, base)
    if status < 0:
        return status
    pool = tab(w, ws.POOL)
    n_ends = pool[base + ws.E_ENDS]
    n_crossings = pool[base + ws.E_CROSSINGS]
    at = base + ws.E_FIRST + pool[base + ws.E_STATES]
    if not room(w, ws.POOL, at + n_ends + n_crossings):
        return np.int64(statuses.W_GROW)
    copy_words(pool, at, tab(w, ws.WORK), 0, n_ends)
    _put_crossings(w, at + n_ends, n_crossings)
    head[ws.W_POOL_USED] = at + n_ends + n_crossings
    tab(w, ws.EFFECT_OF)[state] = base
    return base


@kernel
def _walk_effect(h, w, state, base):
    """Walk the trie for :func:`effect_of`; 0 or a status.

    Its results lie in unused space: at ``base`` in ``POOL``, as in the record, the lengths of the three lists and the states;
    in ``WORK`` the sets; in ``QUEUE`` the crossings, unsorted.
    """
    head = whead(w)
    head[ws.W_STAMP] += 1
    stamp = head[ws.W_STAMP]
    n_trie = header(h)[layout.N_NODES]
    bytes_ = u8(h, layout.TRIE_BYTE)
    depths = i32(h, layout.TRIE_DEPTH)
    skips = i32(h, layout.TRIE_SKIP)
    tokens = i32(h, layout.TRIE_TOKEN)
    below = i32(h, layout.TRIE_BELOW)
    if not room(w, ws.WORK_B, header(h)[layout.MAX_DEPTH] + 2) or not room(w, ws.QUEUE, 2):
        return np.int64(statuses.W_GROW)
    if not room(w, ws.POOL, base + ws.E_FIRST):
        return np.int64(statuses.W_GROW)
    path = tab(w, ws.WORK_B)
    ends = tab(w, ws.WORK)
    states = base + ws.E_FIRST
    path[0] = state
    n_states = np.int64(0)
    n_ends = np.int64(0)
    n_crossings = np.int64(0)
    node = np.int64(0)
    while node < n_trie:
        if not charge(w, ws.NODE_WORK):
            return np.int64(statuses.W_GROW)
        depth = np.int64(depths[node])
        before = path[depth - 1]
        after = transition(h, before, np.int64(bytes_[node]))
        if after < 0:
            return after
        if after == 0:
            node += skips[node]
            continue
        token = np.int64(tokens[node])
        # the lexeme ended before this byte: the tokens' rests begin with it
        if after == lexer_layout.BEFORE:
            accepted = longest_of(h, before)
            n_crossings = _note_crossings_below(h, w, accepted, node, np.int64(0), stamp, n_crossings)
            if n_crossings < 0:
                return n_crossings
            node += skips[node]
            continue
        if after & lexer_layout.ENDS_BIT:
            after &= lexer_layout.STATE_MASK
            accepted = accepted_of(h, after)
            if token >= 0:
                n_ends = _note_set(w, accepted, stamp, ends, n_ends)
                if n_ends < 0:
                    return n_ends
            # (a token with equal bytes is a leaf of the same depth beside this node, not below it)
            n_crossings = _note_crossings_below(h, w, accepted, node, np.int64(1), stamp, n_crossings)
            if n_crossings < 0:
                return n_crossings
            after = rest_of(h, after)
            if after == 0:
                node += skips[node]
                continue
        if token >= 0:
            known = _note_state(w, after, stamp, states, n_states)
            if known < 0:
                return known
            n_states = known
        loops = loops_below(h, after, skips[node]) if skips[node] > 1 else np.int64(0)
        if loops < 0:
            return loops
        if loops and below[node] & ~loops == 0:  # as in a comment: all bytes below leave the state as it is
            known = _note_state(w, after, stamp, states, n_states)
            if known < 0:
                return known
            n_states = known
            node += skips[node]
            continue
        path[depth] = after
        node += 1
    charge(w, 8 * (n_states + n_ends + n_crossings))
    pool = tab(w, ws.POOL)
    pool[base + ws.E_STATES] = n_states
    pool[base + ws.E_ENDS] = n_ends
    pool[base + ws.E_CROSSINGS] = n_crossings
    return np.int64(0)


@kernel
def _note_state(w, state, stamp, states, count):
    """Append a state to those at ``states`` in ``POOL`` unless it is marked; the new count, or ``W_GROW``."""
    if not room(w, ws.MARK, state + 1) or not room(w, ws.POOL, states + count + 1):
        return np.int64(statuses.W_GROW)
    mark = tab(w, ws.MARK)
    if mark[state] != stamp:
        mark[state] = stamp
        tab(w, ws.POOL)[states + count] = state
        count += 1
    return np.int64(count)


@kernel
def _put_crossings(w, at, count):
    """Sort the first ``count`` crossings of ``QUEUE``, and write them to ``POOL`` at ``at``, where there is room."""
    queue = tab(w, ws.QUEUE)
    pool = tab(w, ws.POOL)
    sort_crossings(w, queue, 0, count)
    copy_words(pool, at, queue, 0, count)


@kernel
def classify(h, w, first, last):
    """Give every suffix of the tokens ``first .. last - 1`` its class in ``CLASS_OF`` (0: no lexeme begins so); 0 or a status.

    Suffixes with the same effect from all states in which lexemes start are one class. A token's suffixes are taken from the
    shortest up: so the rest after a lexeme has its class already, and crossings lead to lower classes only. Work: bytes of all
    suffixes, times the start states that accept their first byte (``BYTE_STARTS``).
    """
    if not room(w, ws.BYTE_STARTS, 258):
        return np.int64(statuses.W_GROW)
    if not tab(w, ws.BYTE_STARTS)[0]:
        status = _find_byte_starts(h, w)
        if status < 0:
            return status
    offsets = i64(h, layout.TOKEN_OFFSETS)
    text = u8(h, layout.TOKEN_BYTES)
    head = whead(w)
    starts = tab(w, ws.BYTE_STARTS)
    class_of = tab(w, ws.CLASS_OF)
    for token in range(first, last):
        for begin in range(offsets[token + 1] - 1, offsets[token] - 1, -1):
            head[ws.W_STAMP] += 1
            stamp = head[ws.W_STAMP]
            end = offsets[token + 1]
            ends = tab(w, ws.WORK)
            n_ends = np.int64(0)
            n_states = 0
            n_crossings = np.int64(0)
            byte = np.int64(text[begin])
            first_start, last_start = starts[1 + byte], starts[2 + byte]
            charge(w, 8)
            if not room(w, ws.WORK_B, 8 + last_start - first_start):
                return np.int64(statuses.W_GROW)
            states = tab(w, ws.WORK_B)
            for s in range(first_start, last_start):
                state = starts[s]
                for i in range(begin, end):
                    charge(w, ws.NODE_WORK)
                    after = transition(h, state, np.int64(text[i]))
                    if after < 0:
                        return after
                    if after == lexer_layout.BEFORE:
                        accepted = longest_of(h, state)
                        n_crossings = _note_crossings(h, w, accepted, class_of[i], stamp, n_crossings)
                        if n_crossings < 0:
                            return n_crossings
                        after = np.int64(0)
                    if after & lexer_layout.ENDS_BIT:
                        after &= lexer_layout.STATE_MASK
                        accepted = accepted_of(h, after)
                        if i == end - 1:
                            n_ends = _note_set(w, accepted, stamp, ends, n_ends)
                            if n_ends < 0:
                                return n_ends
                        else:
                            n_crossings = _note_crossings(h, w, accepted, class_of[i + 1], stamp, n_crossings)
                            if n_crossings < 0:
                                return n_crossings
                        after = rest_of(h, after)
                    state = after
                    if state == 0:
                        break
                if state > 0:
                    states[n_states] = state
                    n_states += 1
            if n_states + n_ends + n_crossings == 0:
                class_of[begin] = 0
                continue
            found = _intern_class(h, w, n_states, n_ends, n_crossings)
            if found < 0:
                return found
            class_of[begin] = found
    return np.int64(0)


@kernel
def _find_byte_starts(h, w):
    """Fill ``BYTE_STARTS``; 0 or a status. Of a hundred lexemes with start states of their own, few accept a given byte."""
    starts = tab(w, ws.STARTS)
    count = whead(w)[ws.W_N_STARTS]
    total = np.int64(258)
    for byte in range(256):
        charge(w, ws.NODE_WORK * count)
        if not room(w, ws.BYTE_STARTS, total + count):
            return np.int64(statuses.W_GROW)
        table = tab(w, ws.BYTE_STARTS)
        table[1 + byte] = total
        for s in range(count):
            after = transition(h, starts[s], np.int64(byte))
            if after < 0:
                return after
            if after:
                table[total] = starts[s]
                total += 1
        table[2 + byte] = total
    tab(w, ws.BYTE_STARTS)[0] = 1
    return np.int64(0)


@kernel
def _intern_class(h, w, n_states, n_ends, n_crossings):
    """The class of the effect in ``WORK_B``, ``WORK`` and ``QUEUE``; 0 if there are too many classes; or ``W_GROW``.

    The parts are sorted first, so that equal effects are equal records.
    """
    head = whead(w)
    base = head[ws.W_POOL_USED]
    total = ws.E_FIRST + n_states + n_ends + n_crossings
    number = head[ws.W_N_CLASSES]
    charge(w, n_states * n_states + n_ends * n_ends + 8 * total)
    if not room(w, ws.POOL, base + total) or not room(w, ws.CLASS_RECORD, number + 1):
        return np.int64(statuses.W_GROW)
    index = tab(w, ws.CLASS_HASH)
    pool = tab(w, ws.POOL)
    pool[base + ws.E_STATES] = n_states
    pool[base + ws.E_ENDS] = n_ends
    pool[base + ws.E_CROSSINGS] = n_crossings
    _copy_sorted(tab(w, ws.WORK_B), n_states, pool, base + ws.E_FIRST)
    _copy_sorted(tab(w, ws.WORK), n_ends, pool, base + ws.E_FIRST + n_states)
    _put_crossings(w, base + ws.E_FIRST + n_states + n_ends, n_crossings)
    hash_ = mix(layout.HASH_SEED, total)
    hash_ = hash_words(hash_, pool, base, total)
    size = index.shape[0] - 1
    slot = first_slot(hash_, size)
    records = tab(w, ws.CLASS_RECORD)
    while index[slot] != 0:
        if equal_words(pool, records[index[slot]], pool, base, total):
            return index[slot]
        slot = (slot + 1) & size
    # a suffix without a class is left out of slots
    if number > head[ws.W_MOST_CLASSES]:
        return np.int64(0)
    records[number] = base
    if _set_firsts(h, w, number) < 0:
        return np.int64(statuses.W_GROW)
    index[slot] = number
    head[ws.W_N_CLASSES] = number + 1
    head[ws.W_POOL_USED] = base + total
    return number


@kernel
def sort_crossings(w, pairs, start, count):
    """Sort the crossings ``pairs[start:start + count]`` (lexeme << 32 | class) by class."""
    charge_sort(w, count)
    for i in range(start, start + count):
        pairs[i] = ((pairs[i] & 0xFFFFFFFF) << 32) | (pairs[i] >> 32)
    sort_range(pairs, start, count)
    for i in range(start, start + count):
        pairs[i] = ((pairs[i] & 0xFFFFFFFF) << 32) | (pairs[i] >> 32)


@kernel
def _copy_sorted(source, count, target, start):
    """Write ``source[:count]`` to ``target[start:]``, ascending (insertion sort: a few words)."""
    for i in range(count):
        word = source[i]
        j = start + i - 1
        while j >= start and target[j] > word:
            target[j + 1] = target[j]
            j -= 1
        target[j + 1] = word
