"""Lexemes that track their value: what follows one depends on the value that was typed.

``uniqueItems`` over strings is such a case: after an item, the next one must not have its value. A rule ``R: p k rest`` ends
in a lexeme ``k`` that tracks its value and what follows it. While a text is *followed*, the pair (row, lexer state) that is
inside ``k`` carries the text typed so far, as a value of kind ``K_TEXT`` in the place of the lexer state (marked by
``TEXT_BIT``): the text before, and the last byte with the lexer state after it. So a text costs a value for each byte, and
equal texts are one value. When ``k`` ends, the owner says which *value* the text has (``NEED_VALUE``; equal values are one,
however they are spelt) and how each rule goes on after that value (``NEED_REST``); both are memoised. The owner makes a rule
for what follows, in which later lexemes of the kind match anything but that value, so no dead end arises.

*Masks* ignore texts: pairs there have plain lexer states, and after ``k`` the ``rest`` of the rule follows as for any value. In
it, the next lexeme of the kind is a *shadow*, which matches values that were seen, too. A token that gets into a shadow is sure
if so much text may come there that some other value remains. The few other tokens are decided one by one, by following them
(:mod:`cdplugin.kernels.masks.masks`).

The role of a lexeme number (``X_ROLE``) and the number under which it ends (``X_TRACKED``):

- ``TRACKS``: ``k``, with its own expression; and the number that all such ``k`` have once they have begun, so that their lexer
  states are shared.
- ``VALUE``: a value of such lexemes, as it is scanned.
- ``NEXT``, ``SHADOW``: a shadow before and after its first byte.
- ``UNSURE``: a shadow where few values may be left, so that no token that gets past it is sure.
- ``SIGN``: the same for what is no value, but may lead to where none is left. Where one may come, some lexeme surely may.
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
    """The lexer state of a pair, whether it carries a text or not. ``state``: the lower half of a pair's word."""
    return word_of(h, state & _ID, 1) & layout.LOW_32 if state & lexer_layout.TEXT_BIT else state


@kernel
def first_text(h, state):
    """The empty text at the lexer state in which a lexeme that tracks its value begins, as it stands in a pair; or ``GROW``."""
    return _text(h, np.int64(0), np.int64(state))


@kernel
def text_after(h, text, byte, state):
    """A pair's text with one byte more, after which the lexer is in ``state``; or ``GROW``."""
    return _text(h, text & _ID, pack(np.int64(byte), state))


@kernel
def text_before(h, text):
    """The text of a pair without its last byte, and that byte; 0 for the empty text, which has none."""
    last = word_of(h, text & _ID, 1)
    return word_of(h, text & _ID, 0), last >> 32


@kernel
def text_in(h, text, state):
    """The same text in another lexer state; or ``GROW``."""
    last = word_of(h, text & _ID, 1)
    return _text(h, word_of(h, text & _ID, 0), ((last >> 32) << 32) | state)


@kernel
def _text(h, before, last):
    """A ``K_TEXT`` value as it stands in a pair, with ``TEXT_BIT``; or a status. ``before``: the text without its last byte, an
    id, 0 for the empty one; ``last``: that byte and the lexer state after it. A linked list from the end, so equal texts share
    nodes.
    """
    value = intern_words(h, layout.K_TEXT, 2, before, last, 0, 0)
    return np.int64(value if value < 0 else lexer_layout.TEXT_BIT | value)


@kernel
def with_values(h, accepted, text):
    """The lexemes of a ``K_ACCEPTED`` value that end after ``text``, with values for those that track theirs; or a status.

    Values that nobody has read yet are asked for: ``NEED_VALUE``. The owner answers by memo entries and calls again.
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
    """Whether some lexeme of a lexer state (0: none) has a role, one of ``X_ROLE``."""
    return state != 0 and (roles_of(h, state) >> role) & 1 != 0
