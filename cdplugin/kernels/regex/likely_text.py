"""A likely text, tried before a search: most expressions that match anything match a text that is written down at once.

Whether ``R{35,} & P & ~Q`` matches anything is a search (:mod:`cdplugin.kernels.regex.emptiness`), which takes a derivative by
each class of bytes at every step: in the middle of ``[A-F0-9]{24}`` some twenty classes, with all that escapes may spell, for
each of 24 bytes. A text that matches takes one derivative for each of its bytes. So one text is followed first, byte by byte:

- of a union, the part that needs the fewest bytes;
- of ``&``, the part that needs the fewest, complements and counts apart: one pattern is completed after the other, and
  any text is as long as a count asks for;
- of a sequence, what comes behind what may be empty.

What each part needs is a rough count (:func:`bytes_needed`). The text proves that there is a match; if it leads nowhere,
nothing is known. For ``.{5,} & (.*ab.*) & ~(.*x.*)``: ``a``, ``b``, and three bytes that ``.`` begins with.

Where a length leaves no room for one pattern after the other, they have to overlap: ``ab1``, ``b12``, ``bc1`` and ``c12`` are
in ``ab12bc12``, but not in a text of 8 characters one by one. So a second text is tried *with care*: of all bytes with which
some part of an ``&`` may go on, the one after which all parts together need the fewest (a greedy superstring; Tarhio and
Ukkonen, 1988). That takes a derivative for each part at every step.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.regex.absorb import derive_absorbed
from cdplugin.kernels.regex.expressions import EMPTY, IS_EMPTY, KNOWN_NONEMPTY, NONEMPTY, nullable
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import (
    aux_of,
    flags_of,
    header,
    i64,
    kind_of,
    length_of,
    set_aux,
    set_flags,
    spend,
    u8,
    word_of,
)
from cdplugin.kernels.store.stack import push

_FAR = 1 << 24  # bytes: more than this is as far as anything
_OPEN_PART = 16  # what a part of "&" that needs anything counts besides: to complete one is better than to begin several
_LONGEST = 64  # bytes of a text that is tried
_NONE = 256  # no byte
_SPELLINGS = 16  # literals of a set that are compared


@kernel
def finds_text(h, e, most_bytes, with_care):
    """1 if ``e`` is found to match a text by trying one, of at most ``most_bytes``; 0 if not; or a status. ``with_care``: each
    byte is the best of those that parts go on with, not that of the first part.

    All expressions on the way are marked as ``NONEMPTY``, so that the next state's question is mostly answered.
    """
    head = header(h)
    base = head[layout.STACK_TOP]
    found = np.int64(flags_of(h, e) & KNOWN_NONEMPTY != 0)
    for _ in range(min(most_bytes, _LONGEST)):
        if found:
            break
        if push(h, e) < 0:
            return np.int64(statuses.GROW)
        needs = bytes_needed(h, e)
        if needs < 0:
            return np.int64(needs)
        if kind_of(h, e) == layout.K_ALT:
            e = _nearest(h, e)
            if push(h, e) < 0:
                return np.int64(statuses.GROW)
            if flags_of(h, e) & KNOWN_NONEMPTY:
                found = np.int64(1)
                break
        byte = _best_byte(h, e) if with_care else _likely_byte(h, e)
        if byte == _NONE:
            break
        if byte < 0:
            return byte
        e = derive_absorbed(h, e, byte)
        if e == statuses.LIMIT_WIDTH:
            break
        if e < 0:
            return np.int64(e)
        if not spend(h, 8):
            return np.int64(statuses.LIMIT_WORK)
        if e == EMPTY or flags_of(h, e) & IS_EMPTY:
            break
        found = np.int64(flags_of(h, e) & KNOWN_NONEMPTY != 0)
    if found:
        for i in range(base, head[layout.STACK_TOP]):
            set_flags(h, i64(h, layout.STACK)[i], NONEMPTY)
    head[layout.STACK_TOP] = base
    return found


@kernel
def _best_byte(h, e):
    """The byte with which some part of the first ``&`` in ``e`` may go on and after which ``e`` needs the fewest bytes.

    ``_NONE`` if none is seen, or a status.
    """
    joint = e
    while kind_of(h, joint) == layout.K_CAT:
        joint = word_of(h, joint, 1) if nullable(h, word_of(h, joint, 0)) else word_of(h, joint, 0)
    best = _likely_byte(h, e)
    if kind_of(h, joint) != layout.K_AND:
        return best
    least = np.int64(2 * _FAR)
    for i in range(length_of(h, joint)):
        part = word_of(h, joint, i)
        kind = kind_of(h, part)
        if kind == layout.K_NOT or kind == layout.K_REPEAT or _known_needs(h, part) <= 0:
            continue
        byte = _likely_byte(h, part)
        if byte == _NONE:
            continue
        after = derive_absorbed(h, e, byte)
        if not spend(h, 8):
            return np.int64(statuses.LIMIT_WORK)
        if after == statuses.LIMIT_WIDTH or after == EMPTY:
            continue
        if after < 0:
            return np.int64(after)
        needs = np.int64(0 if flags_of(h, after) & KNOWN_NONEMPTY else bytes_needed(h, after))
        if needs < 0:
            return needs
        if needs < least and flags_of(h, after) & IS_EMPTY == 0:
            best = byte
            least = needs
    return best


@kernel
def _nearest(h, e):
    """The part of a union that is known to match something, or else needs the fewest bytes."""
    best = word_of(h, e, 0)
    least = np.int64(2 * _FAR)
    header(h)[layout.WORK_LEFT] -= length_of(h, e)
    for i in range(length_of(h, e)):
        part = word_of(h, e, i)
        if flags_of(h, part) & KNOWN_NONEMPTY:
            return part
        needs = _known_needs(h, part)
        if needs < least and flags_of(h, part) & IS_EMPTY == 0:
            best = part
            least = needs
    return best


@kernel
def _likely_byte(h, e):
    """A byte that a short match of ``e`` may begin with; ``_NONE`` if none is seen."""
    while True:
        kind = kind_of(h, e)
        header(h)[layout.WORK_LEFT] -= 1
        if kind == layout.K_BYTES:
            for i in range(4):
                if word_of(h, e, i):
                    return np.int64(64 * i + low_bit(word_of(h, e, i)))
            return np.int64(_NONE)
        if kind == layout.K_LITERALS:
            return _first_byte(h, e)
        if kind == layout.K_CAT:
            e = word_of(h, e, 1) if nullable(h, word_of(h, e, 0)) else word_of(h, e, 0)
        elif kind == layout.K_REPEAT:
            e = word_of(h, e, 0)
        elif kind == layout.K_ALT or kind == layout.K_AND:
            e = _easiest(h, e)
            if e < 0:
                return np.int64(_NONE)
        else:
            return np.int64(_NONE)


@kernel
def _first_byte(h, literals):
    """The first byte of the shortest of some literals that go on: the shortest spelling of a character is its usual one."""
    literal = _shortest_literal(h, literals, True)
    return np.int64(u8(h, layout.LITERAL_BYTES)[i64(h, layout.LITERAL_OFFSETS)[literal] + word_of(h, literals, 2)])


@kernel
def _shortest_literal(h, literals, goes_on):
    """The number of the shortest of the first ``_SPELLINGS`` literals of a set; of those that go on (``goes_on``)."""
    offsets = i64(h, layout.LITERAL_OFFSETS)
    low, high, depth = word_of(h, literals, 0), word_of(h, literals, 1), word_of(h, literals, 2)
    if goes_on and offsets[low + 1] - offsets[low] == depth:  # only the first may end here; then there is another one
        low += 1
    best = low
    for i in range(low + 1, min(high, low + _SPELLINGS)):
        if offsets[i + 1] - offsets[i] < offsets[best + 1] - offsets[best]:
            best = i
    return best


@kernel
def _easiest(h, e):
    """The part of a union or an ``&`` that a text is made for next, -1: none is seen.

    It needs the fewest bytes, but more than none if there is such a part. Of ``&``, a count only if there is nothing else:
    any text is as long as it asks for.
    """
    is_joint = kind_of(h, e) == layout.K_AND
    best = np.int64(-1)
    least = np.int64(0)
    header(h)[layout.WORK_LEFT] -= length_of(h, e)
    for i in range(length_of(h, e)):
        part = word_of(h, e, i)
        kind = kind_of(h, part)
        if kind == layout.K_NOT or kind == layout.K_EPSILON:
            continue
        needs = _known_needs(h, part)
        if needs == 0:
            needs = np.int64(_FAR + 1)
        if is_joint and kind == layout.K_REPEAT:
            needs += 2 * _FAR
        if best < 0 or needs < least:
            best = np.int64(part)
            least = needs
    return best


@kernel
def bytes_needed(h, e):
    """About how many bytes a match of ``e`` has, by its parts; or ``GROW``. Noted in the expression's ``V_AUX``, plus 1.

    The sum over the parts of ``&``, and more for each that is open; nothing for a complement: no bound of any kind. It orders
    a search and decides nothing.
    """
    head = header(h)
    base = head[layout.STACK_TOP]
    if push(h, e) < 0:
        return statuses.GROW
    while head[layout.STACK_TOP] > base:
        part = i64(h, layout.STACK)[head[layout.STACK_TOP] - 1]
        head[layout.WORK_LEFT] -= 2 + length_of(h, part)
        if _known_needs(h, part) >= 0:
            head[layout.STACK_TOP] -= 1
            continue
        kind = kind_of(h, part)
        needs = np.int64(_FAR if kind == layout.K_ALT else 0)
        missing = False
        for i in range(1 if kind == layout.K_REPEAT else length_of(h, part)):
            known = _known_needs(h, word_of(h, part, i))
            if known < 0:
                missing = True
                if push(h, word_of(h, part, i)) < 0:
                    head[layout.STACK_TOP] = base
                    return statuses.GROW
            if kind == layout.K_AND and known > 0:
                known += _OPEN_PART
            needs = min(needs, known) if kind == layout.K_ALT else needs + known
        if missing:
            continue
        if kind == layout.K_REPEAT:
            needs *= min(word_of(h, part, 1), _FAR)
        set_aux(h, part, min(needs, _FAR) + 1)
    return _known_needs(h, e)


@kernel
def _known_needs(h, e):
    """:func:`bytes_needed` of a leaf, or of what was asked before; else -1."""
    kind = kind_of(h, e)
    if kind == layout.K_BYTES:
        return 1
    if kind == layout.K_LITERALS:
        offsets = i64(h, layout.LITERAL_OFFSETS)
        literal = _shortest_literal(h, e, False)
        return offsets[literal + 1] - offsets[literal] - word_of(h, e, 2)
    if kind == layout.K_CAT or kind == layout.K_ALT or kind == layout.K_AND or kind == layout.K_REPEAT:
        return aux_of(h, e) - 1
    return 0 if kind == layout.K_EPSILON or kind == layout.K_NOT else _FAR
