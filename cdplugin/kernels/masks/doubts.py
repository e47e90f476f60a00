"""The doubts of a mask: tokens that end a tracked value and get into what depends on it, decided beside a cursor's text.

A doubt is followed from the cursor, so that the owner makes rules for what comes after its text's value: some hundred
microseconds for each text, of which a string has as many as tokens. Where the lexeme's texts are *alike* (``X_ALIKE``: any
strings, which matter only as values to avoid), a doubt is decided once for all texts in a row that are *long*: longer than any
whole string inside the token, and than any that the grammar lists, and so equal to none.

::

    ["blue", "green       the row after ["blue",
       "",              allowed: what ends has a new value, and "" has not come before
                        the same for ["blue", "gre and ["blue", "greenish, but not for ["blue", ", which ends as ""

After such a token there are any strings again, so whether it is allowed depends on the values that have come, which the row
knows, and on whether two of the values inside the token and the text are equal.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import role_of, value_of
from cdplugin.kernels.lexer.tracked import lexer_state_of, text_before
from cdplugin.kernels.masks import layout as mask_layout
from cdplugin.kernels.parser.cursors import single, step_token
from cdplugin.kernels.parser.tracked_scan import alike_in
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import i32, i64, length_of, memo_get, memo_put, word_of
from cdplugin.kernels.store.stack import intern_words

_BESIDE = 4  # bytes of a token with a whole string that are not the string's: what ends the text, a comma, two quotes
_ESCAPE = 5  # bytes at most that an escape goes on for after its backslash
_LOOKED_AT = 64  # bytes of a text, from its end: more than short tokens ask for
_BACKSLASH, _QUOTE, _NINE, _E = 0x5C, 0x22, 0x39, 0x65


@kernel
def add_doubts(h, number, pair, out):
    """OR those doubts of mask ``number`` that are legal after ``pair`` into ``out``; 0 or a status.

    Each doubt is followed byte by byte from the pair, with its text, or was from another one. They are few: most tokens that
    reach a shadow are sure.
    """
    masks = i64(h, layout.MASKS)
    record = number * mask_layout.MASK_WORDS
    first = masks[record + mask_layout.MASK_DOUBTS]
    last = first + masks[record + mask_layout.MASK_N_DOUBTS]
    row = pair >> 32
    cursor = np.int64(-1)  # made for the first doubt that is not known
    offsets = i64(h, layout.TOKEN_OFFSETS)
    value_bytes = _bytes_that_tell(h, pair) if first < last else np.int64(0)
    if value_bytes < 0:
        return value_bytes
    for i in range(first, last):
        token = np.int64(i32(h, layout.TOKEN_LISTS)[i])
        is_long = value_bytes > max(offsets[token + 1] - offsets[token] - _BESIDE, np.int64(0))
        allowed = memo_get(h, layout.M_DOUBT, row, token) if is_long else np.int64(-1)
        if allowed < 0:
            if cursor < 0:
                cursor = _cursor_of(h, pair)
                if cursor < 0:
                    return cursor
            after = step_token(h, cursor, token)
            if after < 0:
                return after
            allowed = np.int64(after > 0)
            if is_long and memo_put(h, layout.M_DOUBT, row, token, allowed) < 0:
                return np.int64(statuses.GROW)
        if allowed:
            out[token >> 5] |= np.int32(1 << (token & 31))
    return np.int64(0)


@kernel
def _cursor_of(h, pair):
    """The cursor of one pair, or a status. A pair with a text is no cursor by itself, but a set of one pair is."""
    if pair & lexer_layout.TEXT_BIT:
        return np.int64(intern_words(h, layout.K_STATE, 1, pair, 0, 0, 0))
    return single(pair >> 32, pair & layout.LOW_32, np.int64(0))


@kernel
def _bytes_that_tell(h, pair):
    """How many bytes, at least, the string has that a pair's text writes, if with so many its lexeme's texts are alike; else 0.
    Or a status.
    """
    text = pair & layout.LOW_32
    if text & lexer_layout.TEXT_BIT == 0:
        return np.int64(0)
    words = value_of(h, lexer_state_of(h, text))
    lexeme = word_of(h, words, 0) >> 32
    if length_of(h, words) != 1 or role_of(h, lexeme) != layout.TRACKS:
        return np.int64(0)
    alike = alike_in(h, pair >> 32, lexeme)
    if alike <= 0:
        return np.int64(alike)
    found = _string_bytes(h, text)
    return np.int64(found if found >= alike else 0)


@kernel
def _string_bytes(h, text):
    """How many bytes, at least, the value of a text has that is a string; -1 where it may be something else.

    Bytes without a backslash before them stand for themselves, but for the opening quote. The first ones that are looked at may
    belong to an escape. A number has no bytes but those of numbers.
    """
    seen = np.int64(0)
    is_string = False
    byte = np.int64(0)
    while seen < _LOOKED_AT:
        text, last = text_before(h, text)
        if text == 0:
            return np.int64(seen - 1 if byte == _QUOTE else -1)
        byte = last
        if byte == _BACKSLASH:
            return np.int64(seen - _ESCAPE)
        is_string = is_string or (byte > _NINE and (byte | 0x20) != _E)
        seen += 1
    return np.int64(seen - _ESCAPE if is_string else -1)
