"""Fields of the lexer's records, by name: of lexemes (``X_``) and of lexer states (``L_``). Each is one load after inlining.

``lexeme``: a lexeme's number; ``state``: a lexer state's. :mod:`cdplugin.kernels.lexer.layout` and
:mod:`cdplugin.kernels.store.layout` have the records as tables.
"""

from __future__ import annotations

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.store import layout
from cdplugin.kernels.store.arena import i64

# --- of a lexeme number ----------------------------------------------------------------------------------------------------


@kernel
def expression_of(h, lexeme):
    """The expression that it matches."""
    return i64(h, layout.LEXEMES)[lexeme * layout.LEXEME_WORDS + layout.X_EXPRESSION]


@kernel
def ending_of(h, lexeme):
    """How it ends: ``EXACT``, ``LONGEST`` or ``LAZY``."""
    return i64(h, layout.LEXEMES)[lexeme * layout.LEXEME_WORDS + layout.X_KIND]


@kernel
def skip_of(h, lexeme):
    """The lexeme that may stand before it, -1: none."""
    return i64(h, layout.LEXEMES)[lexeme * layout.LEXEME_WORDS + layout.X_SKIP]


@kernel
def symbol_of(h, lexeme):
    """Its number in the rules."""
    return i64(h, layout.LEXEMES)[lexeme * layout.LEXEME_WORDS + layout.X_SYMBOL]


@kernel
def begun_of(h, lexeme):
    """Its number after its first byte."""
    return i64(h, layout.LEXEMES)[lexeme * layout.LEXEME_WORDS + layout.X_BEGUN]


@kernel
def fence_of(h, lexeme):
    """The expression of the bytes before which it never ends; 0: none."""
    return i64(h, layout.LEXEMES)[lexeme * layout.LEXEME_WORDS + layout.X_FENCE]


@kernel
def after_tick(h, lexeme):
    """Its number after a token that ends inside it; itself: its tokens are used up; -1: nobody counts."""
    return i64(h, layout.LEXEMES)[lexeme * layout.LEXEME_WORDS + layout.X_TICK]


@kernel
def is_skip(h, lexeme):
    """Whether it is a skip, which leaves the row as it is."""
    return i64(h, layout.LEXEMES)[lexeme * layout.LEXEME_WORDS + layout.X_IS_SKIP] != 0


@kernel
def role_of(h, lexeme):
    """Its role in tracking values (:mod:`cdplugin.kernels.lexer.tracked`)."""
    return i64(h, layout.LEXEMES)[lexeme * layout.LEXEME_WORDS + layout.X_ROLE]


@kernel
def tracked_of(h, lexeme):
    """The number under which a lexeme with a role ends."""
    return i64(h, layout.LEXEMES)[lexeme * layout.LEXEME_WORDS + layout.X_TRACKED]


@kernel
def ranges_of(h, lexeme):
    """Of a token terminal: its first pair in ``TOKEN_RANGES``."""
    return i64(h, layout.LEXEMES)[lexeme * layout.LEXEME_WORDS + layout.X_RANGES]


@kernel
def n_ranges_of(h, lexeme):
    """Of a token terminal: how many pairs it has; 0 for other lexemes."""
    return i64(h, layout.LEXEMES)[lexeme * layout.LEXEME_WORDS + layout.X_N_RANGES]


# --- of a lexer state ------------------------------------------------------------------------------------------------------


@kernel
def value_of(h, state):
    """The state as a value: its ``lexeme << 32 | expression`` words."""
    return i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_VALUE]


@kernel
def accepted_of(h, state):
    """The lexemes that end in it, a ``K_ACCEPTED`` value; 0: none."""
    return i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_ACCEPTED]


@kernel
def rest_of(h, state):
    """The state without what cannot go on; 0: nothing can."""
    return i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_REST]


@kernel
def longest_of(h, state):
    """The LONGEST lexemes that match in it, a ``K_ACCEPTED`` value; 0: none."""
    return i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_LONGEST]


@kernel
def roles_of(h, state):
    """The roles of its lexemes, bit r for role r."""
    return i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_ROLES]


@kernel
def mask_base_of(h, state):
    """Its mask base in the whole trie, -1: not computed."""
    return i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_BASE]
