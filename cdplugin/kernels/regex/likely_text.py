"""A likely text, tried before a search: most expressions that match anything match a text that can be written down greedily.

A search for a match of ``R{35,} & P & ~Q`` (:mod:`cdplugin.kernels.regex.emptiness`) takes a derivative by each byte class at
every step. In the middle of ``[A-F0-9]{24}``, with all its escapes, that is some twenty classes for each of 24 bytes. A text
that matches takes one derivative for each of its bytes. So one text is followed first, byte by byte:

- of a union, the member that needs the fewest bytes;
- of an ``&``, the part that needs the fewest, other than complements and counts: so one pattern is completed after the other,
  and a count can be filled with any text;
- of a sequence, what comes after nullable parts.

:func:`bytes_needed` is a rough count of what a part needs. A text that matches proves that there is a match; one that does not
proves nothing. For ``.{5,} & (.*ab.*) & ~(.*x.*)``: ``a``, ``b``, and three bytes that ``.`` begins with.

If a length leaves no room for one pattern after the other, the patterns must overlap: ``ab1``, ``b12``, ``bc1`` and ``c12`` all
occur in ``ab12bc12``, but not one by one in 8 characters. So a second text is tried *with care*: of all bytes with which some
part of an ``&`` may go on, take the one after which all parts together need the fewest (a greedy superstring; Tarhio and
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

_FAR = 1 << 24  # bytes: counts are capped here
_OPEN_PART = 16  # added for each part of "&" that needs anything: completing one part is better than beginning several
_LONGEST = 64  # bytes of a text that is tried
_NONE = 256  # instead of a byte: none was found
_SPELLINGS = 16  # literals of a set that are compared


@kernel
def finds_text(h, e, most_bytes, with_care):
    """Return 1 if trying one text of at most ``most_bytes`` finds that ``e`` matches it, else 0; or a status.

    ``with_care``: each byte is the best of those with which parts go on, instead of that of the easiest part. If a match is
    found, all expressions on the way are marked ``NONEMPTY``, so the next state's question is mostly answered.
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
    """Return the byte after which ``e`` needs the fewest bytes, of those with which a part of its first ``&`` may go on.

    ``_NONE`` if none is found, or a status.
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
    """Return the member of a union that is known to match something, or else needs the fewest bytes."""
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
    """Return a byte that a short match of ``e`` may begin with; ``_NONE`` if none is found."""
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
    """Return the first byte of the shortest of the literals that go on: the shortest spelling of a character is its
    usual one.
    """
    literal = _shortest_literal(h, literals, True)
    return np.int64(u8(h, layout.LITERAL_BYTES)[i64(h, layout.LITERAL_OFFSETS)[literal] + word_of(h, literals, 2)])


@kernel
def _shortest_literal(h, literals, goes_on):
    """Return the number of the shortest of a set's first ``_SPELLINGS`` literals, or (``goes_on``) of those that do not end
    here.
    """
    offsets = i64(h, layout.LITERAL_OFFSETS)
    low, high, depth = word_of(h, literals, 0), word_of(h, literals, 1), word_of(h, literals, 2)
    if goes_on and offsets[low + 1] - offsets[low] == depth:  # only the first may end here, and then there is another one
        low += 1
    best = low
    for i in range(low + 1, min(high, low + _SPELLINGS)):
        if offsets[i + 1] - offsets[i] < offsets[best + 1] - offsets[best]:
            best = i
    return best


@kernel
def _easiest(h, e):
    """Return the part of a union or an ``&`` for which text is written next, -1 if there is none.

    It is the part that needs the fewest bytes, preferring parts that need any. Of an ``&``, a count is taken only if there is
    nothing else, since any text fills it.
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
    """Return a rough count of the bytes of a match of ``e``, from its parts; or ``GROW``. Noted in the expression's ``V_AUX``,
    plus 1.

    The sum over the parts of an ``&``, plus ``_OPEN_PART`` for each that needs anything; 0 for a complement. It is no bound of
    any kind: it orders a search and decides nothing.
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
    """Return :func:`bytes_needed` of a leaf, or the count noted before; else -1."""
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
