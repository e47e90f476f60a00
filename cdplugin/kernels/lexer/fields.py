"""Fields of the lexer's records, by name: of lexemes (``X_``) and of lexer states (``L_``). Each is one load after inlining.

``lexeme``: a lexeme's number; ``state``: a lexer state's. :mod:`cdplugin.kernels.lexer.layout` and
:mod:`cdplugin.kernels.store.layout` have the records as tables.
"""

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.store import layout
from cdplugin.kernels.store.arena import field, i64

# --- of a lexeme number ----------------------------------------------------------------------------------------------------

expression_of = field(layout.LEXEMES, layout.LEXEME_WORDS, layout.X_EXPRESSION)
"""The expression that it matches."""
ending_of = field(layout.LEXEMES, layout.LEXEME_WORDS, layout.X_KIND)
"""How it ends: ``EXACT``, ``LONGEST`` or ``LAZY``."""
skip_of = field(layout.LEXEMES, layout.LEXEME_WORDS, layout.X_SKIP)
"""The lexeme that may stand before it, -1: none."""
symbol_of = field(layout.LEXEMES, layout.LEXEME_WORDS, layout.X_SYMBOL)
"""Its number in the rules."""
begun_of = field(layout.LEXEMES, layout.LEXEME_WORDS, layout.X_BEGUN)
"""Its number after its first byte."""
fence_of = field(layout.LEXEMES, layout.LEXEME_WORDS, layout.X_FENCE)
"""The expression of the bytes before which it never ends; 0: none."""
after_tick = field(layout.LEXEMES, layout.LEXEME_WORDS, layout.X_TICK)
"""Its number after a token that ends inside it; itself: its tokens are used up; -1: nobody counts."""


@kernel
def is_skip(h, lexeme):
    """Whether it is a skip, which leaves the row as it is."""
    return i64(h, layout.LEXEMES)[lexeme * layout.LEXEME_WORDS + layout.X_IS_SKIP] != 0


role_of = field(layout.LEXEMES, layout.LEXEME_WORDS, layout.X_ROLE)
"""Its role in tracking values (:mod:`cdplugin.kernels.lexer.tracked`)."""
tracked_of = field(layout.LEXEMES, layout.LEXEME_WORDS, layout.X_TRACKED)
"""The number under which a lexeme with a role ends."""
alike_of = field(layout.LEXEMES, layout.LEXEME_WORDS, layout.X_ALIKE)
"""1 + the bytes of a string beyond which its texts differ only as values to avoid; 0: none do."""
ranges_of = field(layout.LEXEMES, layout.LEXEME_WORDS, layout.X_RANGES)
"""Of a token terminal: its first pair in ``TOKEN_RANGES``."""
n_ranges_of = field(layout.LEXEMES, layout.LEXEME_WORDS, layout.X_N_RANGES)
"""Of a token terminal: how many pairs it has; 0 for other lexemes."""

# --- of a lexer state ------------------------------------------------------------------------------------------------------

value_of = field(layout.LEXER_STATES, lexer_layout.LEXER_WORDS, lexer_layout.L_VALUE)
"""The state as a value: its ``lexeme << 32 | expression`` words."""
accepted_of = field(layout.LEXER_STATES, lexer_layout.LEXER_WORDS, lexer_layout.L_ACCEPTED)
"""The lexemes that end in it, a ``K_ACCEPTED`` value; 0: none."""
rest_of = field(layout.LEXER_STATES, lexer_layout.LEXER_WORDS, lexer_layout.L_REST)
"""The state without what cannot go on; 0: nothing can."""
longest_of = field(layout.LEXER_STATES, lexer_layout.LEXER_WORDS, lexer_layout.L_LONGEST)
"""The LONGEST lexemes that match in it, a ``K_ACCEPTED`` value; 0: none."""
roles_of = field(layout.LEXER_STATES, lexer_layout.LEXER_WORDS, lexer_layout.L_ROLES)
"""The roles of its lexemes, bit r for role r."""
far_of = field(layout.LEXER_STATES, lexer_layout.LEXER_WORDS, lexer_layout.L_FAR)
"""The state without words that no token reads to their end, 0: not looked for."""
mask_base_of = field(layout.LEXER_STATES, lexer_layout.LEXER_WORDS, lexer_layout.L_BASE)
"""Its mask base in the whole trie, -1: not computed."""
