"""How many plain characters, or letters and digits, keep a lexer state alive; and steps over whole tokens of plain text.

Walks use the bound to take slice masks and subtrees whole. The structure of an expression often tells it
(:mod:`cdplugin.kernels.regex.slices`), as for strings and keys. For the rest, such as a pattern of at most 99 words, a
breadth-first search counts levels: level ``k`` holds the lexer states after any ``k`` plain characters. If no character kills a
state of the level, any plain text may have one character more. A level without new states closes a cycle: then any length will
do. Neighbouring positions of a text share nearly all of these states, whose successors are memoised.

The result is a lower bound: every state of a level is reached by some plain text of that length, and the search looks at all of
them, or gives up.

Mail addresses, host names and identifiers do not take all plain text, but they take letters and digits, of which half of a
vocabulary's tokens consist. :func:`takes_letters` makes the same search for these.

:func:`advance_plain_run` accepts a token of plain characters inside bounded text in one step. In ``R{m,n} T``, where each plain
character is one turn of ``R`` and ``T`` begins otherwise, ``k`` plain characters lead to ``R{m-k,n-k} T``. Stepping byte by
byte would make a lexer state for each character of a text under ``maxLength``; this makes one for each token.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer.fields import begun_of, value_of
from cdplugin.kernels.lexer.lexer import going_on, plain_run_of, saturated_within
from cdplugin.kernels.lexer.rows import known_transition
from cdplugin.kernels.lexer.states import take_state
from cdplugin.kernels.regex.expressions import make_cat, make_repeat
from cdplugin.kernels.regex.slices import PLAIN_STATES, UNBOUNDED, slice_step
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import header, i64, length_of, memo_get, memo_put, pack, word_of
from cdplugin.kernels.store.stack import has_pair, intern_set, keep_firsts, push, push_pair

MOST_SEARCHED = 48  # lexer states whose successors one search may compute
MOST_STATES = 1024  # lexer states that one search may meet
LOWER, UPPER, DIGITS, HIGH = 1, 2, 4, 8  # flags of ``letters``: ASCII letters and digits, and plain characters beyond ASCII
_LETTER_BITS = 4
_SOME_CHARS = (4, 8, 16)  # numbers of characters to search for first; times four bytes, they are among _REACHES
_FEWEST_LETTERS = 2  # number of letters to search for; rounded up to this, then 4, 8 …


@kernel
def _is_among(byte, letters):
    """Return whether a byte is one of the ``letters``."""
    if byte >= 0x80:
        return letters & HIGH != 0
    if 0x61 <= byte <= 0x7A:
        return letters & LOWER != 0
    return letters & UPPER != 0 if 0x41 <= byte <= 0x5A else 0x30 <= byte <= 0x39 and letters & DIGITS != 0


@kernel
def _after_char(h, state, letters):
    """Return the states after one plain character (``letters`` = 0), or one of the ``letters``, as a ``K_AFTER`` value; or a
    status.

    The value is empty if some character kills ``state``. Breadth-first search over the product of the lexer with the ten-state
    automaton of a UTF-8 character (:func:`slice_step`), up to the pairs where the character is whole. Bytes of one class lead
    to the same pair, so each is compared with the one before (``previous``). Memoised under ``M_AFTER_CHAR``.
    """
    known = memo_get(h, layout.M_AFTER_CHAR, state, letters)
    if known >= 0:
        return known
    head = header(h)
    base = head[layout.STACK_TOP]
    # the queue, from base on: pairs (lexer state, state of the UTF-8 automaton), visited in turn
    if push_pair(h, state, 0) < 0:
        return statuses.GROW
    at = base
    dead = False
    while at < head[layout.STACK_TOP] and not dead:
        part = i64(h, layout.STACK)[at]
        utf8 = i64(h, layout.STACK)[at + 1]
        at += 2
        if utf8 == 0 and at > base + 2:
            continue  # a whole character
        previous = np.int64(-1)
        for byte in range(0x20, 0xF5):
            step = slice_step(utf8, byte)
            if step < 0 or (letters and not _is_among(byte, letters)):
                continue
            after = going_on(h, part, byte)
            if after < 0:
                return after
            if after == 0:
                dead = True
                break
            if after * PLAIN_STATES + step == previous:
                continue
            previous = after * PLAIN_STATES + step
            head[layout.WORK_LEFT] -= (head[layout.STACK_TOP] - base) >> 2
            if not has_pair(h, base + 2, after, step) and push_pair(h, after, step) < 0:
                return statuses.GROW
    if dead:
        head[layout.STACK_TOP] = base + 2
    keep_firsts(h, base + 2, np.int64(0))
    result = intern_set(h, layout.K_AFTER, base + 2)
    head[layout.STACK_TOP] = base
    return memo_put(h, layout.M_AFTER_CHAR, state, letters, result)


@kernel
def is_loop(h, state, letters):
    """Return 1 if every character of the ``letters`` leads back to ``state``, else 0; or a status."""
    after = _after_char(h, state, letters)
    if after < 0:
        return after
    return np.int64(length_of(h, after) == 1 and word_of(h, after, 0) == state)


@kernel
def plain_chars(h, state):
    """Return ``2 n + x``: ``state`` survives any plain text of at most ``n`` characters, and (``x`` = 1) no longer one; or a
    status.

    A lower bound: the search gives up after a fixed amount of work. ``UNBOUNDED`` stands for any length. The structure answers
    first (:func:`plain_run_of`), then the search (see above), up to MAX_CHARS, the longest slice token.

    Where counts would end the search early, a search for a few characters is made first, from the state without the counts that
    so many characters do not reach. A text of words under a length has a state for each number of words and of characters, but
    not for the next four characters.
    """
    by_structure = plain_run_of(h, state)
    if by_structure != 0:
        return by_structure
    best = np.int64(0)
    for chars in _SOME_CHARS:
        cut = saturated_within(h, state, 4 * chars)
        if cut < 0:
            return cut
        if cut == state:  # no count is cut; if one was for fewer characters, do not search farther, which may take long
            return best if best else _search(h, state, np.int64(0), header(h)[layout.MAX_CHARS])
        found = plain_run_of(h, cut)
        if found == 0:
            found = _search(h, cut, np.int64(0), np.int64(chars))
        if found < 0:
            return found
        best = max(best, min(found & ~np.int64(1), np.int64(2 * chars)))
        if found >> 1 < chars:
            break
    return best


@kernel
def takes_letters(h, state, letters, count):
    """Return 1 if ``state`` is found to survive any ``count`` of the ``letters`` (flags LOWER, UPPER, DIGITS), else 0; or a
    status.

    ``count`` is rounded up to a power of two, so that few answers are memoised. The search is that of :func:`plain_chars`.
    """
    most = np.int64(_FEWEST_LETTERS)
    while most < count:
        most *= 2
    key = most << _LETTER_BITS | letters
    known = memo_get(h, layout.M_LETTERS, state, key)
    if known >= 0:
        return known
    found = _search(h, state, letters, most)
    return found if found < 0 else memo_put(h, layout.M_LETTERS, state, key, np.int64(found >> 1 >= most))


@kernel
def _search(h, state, letters, most):
    """Count the levels of the search of :func:`plain_chars`, up to ``most`` characters; return ``2 n``, or a status.

    The stack holds all states met so far; ``STACK[level:end]`` are those of the last level.
    """
    head = header(h)
    base = head[layout.STACK_TOP]
    if push(h, state) < 0:
        return statuses.GROW
    level = base
    chars = np.int64(0)
    work = 0
    while chars < most:
        end = head[layout.STACK_TOP]
        for i in range(level, end):
            part = i64(h, layout.STACK)[i]
            # count only states that are not memoised: at a neighbouring position most are
            if memo_get(h, layout.M_AFTER_CHAR, part, letters) < 0:
                work += 1
            after = _after_char(h, part, letters) if work <= MOST_SEARCHED else np.int64(statuses.UNKNOWN)
            if after < 0 and after != statuses.UNKNOWN:
                return after
            if after == statuses.UNKNOWN or length_of(h, after) == 0 or head[layout.STACK_TOP] - base > MOST_STATES:
                head[layout.STACK_TOP] = base
                return 2 * chars
            for j in range(length_of(h, after)):
                target = word_of(h, after, j)
                words = i64(h, layout.STACK)
                head[layout.WORK_LEFT] -= (head[layout.STACK_TOP] - base) >> 3
                new = True
                for k in range(base, head[layout.STACK_TOP]):
                    if words[k] == target:
                        new = False
                        break
                if new and push(h, target) < 0:
                    return statuses.GROW
        chars += 1
        level = end
        if head[layout.STACK_TOP] == end:
            chars = np.int64(UNBOUNDED)
    head[layout.STACK_TOP] = base
    return 2 * chars


@kernel
def advance_plain_run(h, state, text, start, end):
    """Return the lexer state after the plain characters ``text[start:end]``; 0 if they must be stepped byte by byte; or a
    status.

    An odd :func:`cdplugin.kernels.lexer.lexer.plain_run_of` tells that the state is one lexeme of the shape ``R{m,n} T`` (see
    above). Bytes are stepped if they end inside a character, are too many, or if the first transition is cached: then the
    following ones mostly are, too. For ``[^"]{0,20}`` and the token ``hello`` the result is the state of ``[^"]{0,15}``; no
    states of ``{0,19}`` to ``{0,16}`` are made.
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
    base = header(h)[layout.STACK_TOP]
    if push(h, pack(begun_of(h, word >> 32), after)) < 0:
        return np.int64(statuses.GROW)
    return take_state(h, base)
