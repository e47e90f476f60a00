"""Accessors for the fields of lexemes (``X_``) and of lexer states (``L_``). Each inlines to one load.

``lexeme``: a lexeme's number; ``state``: a lexer state's. :mod:`cdplugin.kernels.lexer.layout` and
:mod:`cdplugin.kernels.store.layout` have the records as tables.
"""

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.store import layout
from cdplugin.kernels.store.arena import field, i64

# --- of a lexeme number ----------------------------------------------------------------------------------------------------

expression_of = field(layout.LEXEMES, layout.LEXEME_WORDS, layout.X_EXPRESSION)
"""The expression that the lexeme matches."""
ending_of = field(layout.LEXEMES, layout.LEXEME_WORDS, layout.X_KIND)
"""How the lexeme ends: ``EXACT``, ``LONGEST`` or ``LAZY``."""
skip_of = field(layout.LEXEMES, layout.LEXEME_WORDS, layout.X_SKIP)
"""The skip that may stand before the lexeme, -1: none."""
symbol_of = field(layout.LEXEMES, layout.LEXEME_WORDS, layout.X_SYMBOL)
"""The lexeme's number in the rules."""
begun_of = field(layout.LEXEMES, layout.LEXEME_WORDS, layout.X_BEGUN)
"""The lexeme's number after its first byte."""
fence_of = field(layout.LEXEMES, layout.LEXEME_WORDS, layout.X_FENCE)
"""The expression of the bytes before which the lexeme never ends; 0: none."""
after_tick = field(layout.LEXEMES, layout.LEXEME_WORDS, layout.X_TICK)
"""The lexeme's number after a token that ends inside it; itself: its tokens are used up; -1: its tokens are not counted."""


@kernel
def is_skip(h, lexeme):
    """Return whether the lexeme is a skip, which leaves the row as it is."""
    return i64(h, layout.LEXEMES)[lexeme * layout.LEXEME_WORDS + layout.X_IS_SKIP] != 0


role_of = field(layout.LEXEMES, layout.LEXEME_WORDS, layout.X_ROLE)
"""The lexeme's role in tracking values (:mod:`cdplugin.kernels.lexer.tracked`)."""
tracked_of = field(layout.LEXEMES, layout.LEXEME_WORDS, layout.X_TRACKED)
"""The number under which a lexeme with a role ends."""
alike_of = field(layout.LEXEMES, layout.LEXEME_WORDS, layout.X_ALIKE)
"""1 + a number of bytes: longer strings of the lexeme differ only as values to avoid; 0: there is no such number."""
ranges_of = field(layout.LEXEMES, layout.LEXEME_WORDS, layout.X_RANGES)
"""Index in ``TOKEN_RANGES`` of a token terminal's first pair."""
n_ranges_of = field(layout.LEXEMES, layout.LEXEME_WORDS, layout.X_N_RANGES)
"""The number of a token terminal's pairs; 0 for other lexemes."""

# --- of a lexer state ------------------------------------------------------------------------------------------------------

value_of = field(layout.LEXER_STATES, lexer_layout.LEXER_WORDS, lexer_layout.L_VALUE)
"""The ``K_LEXER`` value of the state: its words ``lexeme << 32 | expression``."""
accepted_of = field(layout.LEXER_STATES, lexer_layout.LEXER_WORDS, lexer_layout.L_ACCEPTED)
"""The lexemes that end in the state, a ``K_ACCEPTED`` value; 0: none."""
rest_of = field(layout.LEXER_STATES, lexer_layout.LEXER_WORDS, lexer_layout.L_REST)
"""The state without the words that cannot go on; 0: none can."""
longest_of = field(layout.LEXER_STATES, lexer_layout.LEXER_WORDS, lexer_layout.L_LONGEST)
"""The LONGEST lexemes that match in the state, a ``K_ACCEPTED`` value; 0: none."""
roles_of = field(layout.LEXER_STATES, lexer_layout.LEXER_WORDS, lexer_layout.L_ROLES)
"""The roles of the state's lexemes, bit r for role r."""
far_of = field(layout.LEXER_STATES, lexer_layout.LEXER_WORDS, lexer_layout.L_FAR)
"""The state without its far words, 0: not computed."""
mask_base_of = field(layout.LEXER_STATES, lexer_layout.LEXER_WORDS, lexer_layout.L_BASE)
"""The state's mask base in the whole trie, -1: not computed."""
