"""Doubtful tokens: those that finish a tracked value and reach into text that depends on it. Each cursor's text decides them.

To decide a doubt, the token is followed from the cursor, and the owner makes rules for what comes after the value. That takes
some hundred microseconds for each text, and a string has as many prefixes as it has tokens. The shortcut: if the lexeme's texts
are *alike* (``X_ALIKE``: any strings, which matter only as values to avoid), one answer per row serves all texts that are
*long*, that is longer than any whole string inside the token and than any string that the grammar lists, so equal to none of
them::

    ["blue", "green       the row after ["blue",
       "",              allowed: the value that ends is new, and "" has not come before
                        the same for ["blue", "gre and ["blue", "greenish, but not for ["blue", ", which ends as ""

After such a token any string may follow again. So the answer depends only on the values before, which the row knows, and on
whether two of the values in the token and the text are equal; a long text equals none.
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

_BESIDE = 4  # bytes of a token with a whole string that are not the string's: a closing quote, a comma, two quotes
_ESCAPE = 5  # an escape has at most so many bytes after its backslash
_LOOKED_AT = 64  # bytes of a text that are read, from its end: enough for all but very long tokens
_BACKSLASH, _QUOTE, _NINE, _E = 0x5C, 0x22, 0x39, 0x65


@kernel
def add_doubts(h, number, pair, out):
    """OR the open doubts of mask ``number`` that are legal after ``pair`` into ``out``; 0 or a status.

    Each doubt is followed byte by byte from the pair with its text, unless the row's memo has the answer (``M_DOUBT``). Doubts
    are few: most tokens that reach a shadow are sure.
    """
    masks = i64(h, layout.MASKS)
    record = number * mask_layout.MASK_WORDS
    first = masks[record + mask_layout.MASK_DOUBTS]
    last = first + masks[record + mask_layout.MASK_N_DOUBTS]
    row = pair >> 32
    cursor = np.int64(-1)  # made only when a doubt has to be followed
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
    """Return the cursor of one pair, or a status. A pair with a text fits into no single-pair cursor, so it becomes a set of
    one pair.
    """
    if pair & lexer_layout.TEXT_BIT:
        return np.int64(intern_words(h, layout.K_STATE, 1, pair, 0, 0, 0))
    return single(pair >> 32, pair & layout.LOW_32, np.int64(0))


@kernel
def _bytes_that_tell(h, pair):
    """Return a lower bound of the length in bytes of the string that a pair's text is writing, if texts of that length are
    alike; else 0; or a status.
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
    """Return a lower bound of the bytes in the string value that a text has begun; -1 if the value may be no string.

    Reads the text backwards. A byte without a backslash before it stands for itself, except for the opening quote. The first
    bytes of what was read may belong to an escape, so ``_ESCAPE`` is subtracted. A byte that no number contains tells a string.
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
