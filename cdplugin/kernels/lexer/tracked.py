"""Tracked values: lexemes whose typed value decides what may follow.

``uniqueItems`` over strings is such a case: the next item must not equal an earlier one. A rule ``R: p k rest`` ends with a
lexeme ``k`` that tracks its value, and with what follows it. While the engine *follows* a text inside ``k``, the pair (row,
lexer state) carries the text typed so far: instead of the lexer state it has the id of a ``K_TEXT`` value, marked by
``TEXT_BIT``. A ``K_TEXT`` is a node of a linked list: the text before, and the last byte with the lexer state after it. So each
byte of a text costs one value, and equal texts are one value.

When ``k`` ends, the owner tells which *value* the text has (``NEED_VALUE``; equal values are one, however they are spelled),
and how each rule goes on after that value (``NEED_REST``). Both answers are memoised. The owner makes a rule for what follows,
in which later lexemes of the kind match anything but that value; so no dead end arises.

*Masks* ignore texts. Their pairs have plain lexer states, and after ``k`` the ``rest`` of the rule follows as for any value. In
it, the next lexeme of the kind is a *shadow*, which also matches values that were seen. A token that reaches into a shadow is
sure if so much text may come there that some other value remains. The few other tokens are decided one by one, by following
them (:mod:`cdplugin.kernels.masks.masks`).

A lexeme number has a role (``X_ROLE``) and a number under which it ends (``X_TRACKED``):

- ``TRACKS``: ``k``, with its own expression; also the number that all such ``k`` share once they have begun, so that they share
  lexer states.
- ``VALUE``: a value of such lexemes, as the parser scans it.
- ``NEXT``, ``SHADOW``: a shadow before and after its first byte.
- ``UNSURE``: a shadow for which few values may be left, so that no token that reaches past it is sure.
- ``SIGN``: a lexeme that is no value, but may lead to where no value is left. Where one may come, some lexeme surely may.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import role_of, roles_of
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import has_room, header, i64, intern, length_of, memo_get, pack, sort_unique, word_of
from cdplugin.kernels.store.stack import intern_words

_ID = lexer_layout.TEXT_BIT - 1


@kernel
def lexer_state_of(h, state):
    """Return the lexer state of a pair, with or without a text. ``state``: the lower half of the pair's word."""
    return word_of(h, state & _ID, 1) & layout.LOW_32 if state & lexer_layout.TEXT_BIT else state


@kernel
def first_text(h, state):
    """Return the empty text at the lexer state in which a tracking lexeme begins, as it stands in a pair; or ``GROW``."""
    return _text(h, np.int64(0), np.int64(state))


@kernel
def text_after(h, text, byte, state):
    """Return a pair's text with one byte appended, after which the lexer is in ``state``; or ``GROW``."""
    return _text(h, text & _ID, pack(np.int64(byte), state))


@kernel
def text_before(h, text):
    """Return a pair's text without its last byte, and that byte; 0 as the text if it is the empty one."""
    last = word_of(h, text & _ID, 1)
    return word_of(h, text & _ID, 0), last >> 32


@kernel
def text_in(h, text, state):
    """Return the same text with another lexer state; or ``GROW``."""
    last = word_of(h, text & _ID, 1)
    return _text(h, word_of(h, text & _ID, 0), ((last >> 32) << 32) | state)


@kernel
def _text(h, before, last):
    """Intern a ``K_TEXT`` value and return it as it stands in a pair, with ``TEXT_BIT``; or a status.

    ``before``: the id of the text without its last byte, 0 for the empty text. ``last``: that byte and the lexer state after
    it. A linked list from the end, so equal prefixes share nodes.
    """
    value = intern_words(h, layout.K_TEXT, 2, before, last, 0, 0)
    return np.int64(value if value < 0 else lexer_layout.TEXT_BIT | value)


@kernel
def with_values(h, accepted, text):
    """Return the ``K_ACCEPTED`` value of the lexemes that end after ``text``, with values in place of tracking lexemes; or a
    status.

    For values that nobody has read yet it returns ``NEED_VALUE``: the owner answers by memo entries and calls again.
    """
    head = header(h)
    base = head[layout.STACK_TOP]
    count = length_of(h, accepted)
    if not has_room(h, layout.STACK, base + count + 1):
        return np.int64(statuses.GROW)
    words = i64(h, layout.STACK)
    n_unread = 0
    for i in range(count):
        lexeme = word_of(h, accepted, i)
        if role_of(h, lexeme) == layout.TRACKS:
            value = memo_get(h, layout.M_VALUE, lexeme, text & _ID)
            if value < 0:
                words[base + n_unread] = lexeme
                n_unread += 1
            else:
                lexeme = value
        if n_unread == 0:
            words[base + i] = lexeme
    if n_unread > 0:
        words[base + n_unread] = text & _ID
        head[layout.REQUEST_B] = base
        head[layout.REQUEST_A] = base + n_unread + 1
        return np.int64(statuses.NEED_VALUE)
    return np.int64(intern(h, layout.K_ACCEPTED, base, sort_unique(words, base, count)))


@kernel
def has_role(h, state, role):
    """Return whether some lexeme of a lexer state (0: none) has a role, one of ``X_ROLE``."""
    return state != 0 and (roles_of(h, state) >> role) & 1 != 0
