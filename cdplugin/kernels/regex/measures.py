"""Measures of expressions, bottom up: how short a match may be, and how much a match that has begun may still need.

:mod:`cdplugin.queries.measures` calls this to guide the search for short endings. The results are a table beside the arena::

    MEASURES | least rest bytes 0..3 | least rest bytes 0..3 | …       a record per value id, int64

A part has a smaller id than what it is a part of, so one pass by ascending id has each part before it is needed. Values that
are no expressions keep zeros.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import count_bits, entry_kernel, kernel
from cdplugin.kernels.regex.expressions import NULLABLE
from cdplugin.kernels.store import layout

# A record: the bytes of a shortest match; the bytes that a match may still need, from wherever in it a text stands; and four
# words, a set of bytes one of which occurs in every match (all 0 if a match may be empty or nothing is known).
M_LEAST, M_REST, M_BYTES = range(3)
MEASURE_WORDS = 6
FAR = 1 << 40
"""The length of a match that is not known to end."""
LONG = FAR - 1
"""The length of a match of so many bytes, or more."""
BESIDE_NOT = 4
"""Bytes that a text needs, roughly, to differ from forbidden words."""


@entry_kernel
def measure_values(values, data, offsets, literals, first, end, out):
    """Measure the values from ``first`` to ``end``; those before have been measured. Returns the units of work (Limits) spent.

    ``values``, ``data``, ``offsets``, ``literals``: the arena's tables VALUES, DATA, LITERAL_OFFSETS and LITERAL_BYTES;
    ``out``: int64, ``MEASURE_WORDS`` for each value, zeros. With ``&`` or ``~``, the shortest match is a lower bound.
    """
    work = np.int64(0)
    for e in range(first, end):
        record = e * layout.VALUE_WORDS
        kind = values[record + layout.V_KIND]
        words = data[values[record + layout.V_OFFSET] : values[record + layout.V_OFFSET] + values[record + layout.V_LENGTH]]
        to = out[e * MEASURE_WORDS : (e + 1) * MEASURE_WORDS]
        work += 2 + len(words)
        if kind == layout.K_CAT or kind == layout.K_ALT or kind == layout.K_AND:
            _measure_parts(kind, words, out, to)
        elif kind == layout.K_REPEAT:
            part = out[words[0] * MEASURE_WORDS : (words[0] + 1) * MEASURE_WORDS]
            to[M_LEAST] = _times(part[M_LEAST], words[1])
            to[M_REST] = min(part[M_REST] + _times(min(part[M_LEAST], FAR), max(words[1] - 1, 0)), FAR)
            if words[1] > 0:
                to[M_BYTES:] = part[M_BYTES:]
        elif kind == layout.K_LITERALS:
            work += _measure_literals(words, offsets, literals, to)
        elif kind == layout.K_BYTES:
            to[M_LEAST] = 1
            to[M_REST] = 1
            to[M_BYTES:] = words[:4]
        elif kind == layout.K_NOT:
            to[M_LEAST] = 0 if values[record + layout.V_FLAGS] & NULLABLE else 1
            to[M_REST] = out[words[0] * MEASURE_WORDS + M_REST] + BESIDE_NOT
        elif kind == layout.K_EMPTY:
            to[M_LEAST] = FAR
    return work


@kernel
def _times(least, count):
    """Return the shortest length of ``count`` matches whose shortest has length ``least``."""
    if least >= FAR:
        return np.int64(FAR if count > 0 else 0)
    return np.int64(LONG if least > 0 and count > LONG // least else min(least * count, LONG))


@kernel
def _measure_parts(kind, words, out, to):
    """Measure a concatenation, an alternation or a conjunction."""
    least = np.int64(FAR if kind == layout.K_ALT else 0)
    rest = np.int64(0)
    fewest = np.int64(-1)  # size of the chosen byte set; of an alternation: 0 if some part has none, else 1
    for place in range(len(words) - 1, -1, -1):
        part = out[words[place] * MEASURE_WORDS : (words[place] + 1) * MEASURE_WORDS]
        if kind == layout.K_CAT:
            rest = max(rest, min(part[M_REST] + min(least, FAR), FAR))
            least = np.int64(FAR) if least >= FAR or part[M_LEAST] >= FAR else min(least + part[M_LEAST], LONG)
        elif kind == layout.K_ALT:
            rest = max(rest, part[M_REST])
            least = min(least, part[M_LEAST])
        else:
            rest = min(rest + part[M_REST], FAR)
            least = max(least, part[M_LEAST])
        size = np.int64(0)
        for i in range(M_BYTES, MEASURE_WORDS):
            size += count_bits(part[i])
        if kind == layout.K_ALT:
            if size == 0 or fewest == 0:
                fewest = np.int64(0)
            else:
                fewest = np.int64(1)
                for i in range(M_BYTES, MEASURE_WORDS):
                    to[i] |= part[i]
        elif size > 0 and (fewest < 0 or size <= fewest):
            fewest = size
            to[M_BYTES:] = part[M_BYTES:]
    if kind == layout.K_ALT and fewest == 0:
        to[M_BYTES:] = 0
    to[M_LEAST] = least
    to[M_REST] = rest


@kernel
def _measure_literals(words, offsets, literals, to):
    """Measure the literals ``words[0]`` to ``words[1]`` from byte ``words[2]`` on; return the units of work spent."""
    shortest = np.int64(FAR)
    longest = np.int64(0)
    for literal in range(words[0], words[1]):
        length = offsets[literal + 1] - offsets[literal]
        shortest = min(shortest, length)
        longest = max(longest, length)
    to[M_LEAST] = shortest - words[2]
    to[M_REST] = longest - words[2]
    if shortest > words[2]:
        for literal in range(words[0], words[1]):
            last = np.int64(literals[offsets[literal + 1] - 1])
            to[M_BYTES + (last >> 6)] |= np.int64(1) << (last & 63)
    return words[1] - words[0]
