"""The entry point of infilling, loaded and compiled when the first :class:`cdplugin.Infill` is made.

The operations on a text, in order: ``OP_LATTICE``, then ``OP_FACTS``, whose result says whether the text can be completed. For
the mask of a hole, both again with ``W_HOLE`` set, then ``OP_ITEMS`` and ``OP_MASK``, unless ``OP_MAY_BEGIN``, before the
facts, says that the mask would add nothing. For a completion, ``OP_COLLECT``, ``OP_MEASURE`` and ``OP_CHOOSE`` after the facts.
``OP_CLASSIFY`` comes once for each grammar, before the first slot, some thousand tokens per call.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.derivation import choose, collect
from cdplugin.kernels.infill.doubt import may_begin
from cdplugin.kernels.infill.effects import classify, closure_of, effect_of
from cdplugin.kernels.infill.holes import fill_hole
from cdplugin.kernels.infill.intersect import build_rests
from cdplugin.kernels.infill.items import build_items
from cdplugin.kernels.infill.lattice import build_lattice
from cdplugin.kernels.infill.measure import measure
from cdplugin.kernels.infill.workspace import whead
from cdplugin.kernels.jit.decorators import entry_kernel, kernel
from cdplugin.kernels.lexer.states import lexer_state
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import begin, header, spend

(
    OP_START_STATE,  # a: number of (lexeme, expression) words at the bottom of the arena's stack -> their lexer state
    OP_CLASSIFY,  # a, b: tokens a .. b - 1 -> 0
    OP_LATTICE,  # -> 0
    OP_FACTS,  # on the lattice -> 1 if the text can be completed, else 0
    OP_ITEMS,  # the items left of the hole -> 0
    OP_MASK,  # a: address of an int32 mask row -> 0
    OP_EFFECT,  # a: lexer state -> its record
    OP_CLOSURE,  # a: lexer state -> its record
    OP_COLLECT,  # after OP_FACTS: the facts and edges that a derivation may use -> 0
    OP_MEASURE,  # a: node, b: its element -> 0: MEASURES has the lexemes that begin there
    OP_CHOOSE,  # once EDGES have costs -> 1 if there is a derivation, else 0
    OP_MAY_BEGIN,  # a: address of an int32 mask row -> 0 if no token whose bit is 0 may stand at the hole, else 1
) = range(12)

UNIT_BITS = 2  # the infilling kernels charge quarters of a unit of work: a word of a row is one
LEXER_WORK = 8
"""How many units of work one unit of the lexer's counts here: it takes 15 ns (a derivative of a wide expression), infilling's
2 to 8 ns. A gap in nested counts, as in ``((a{1,30}b?){1,30}c?){1,30}``, leads to thousands of such states."""


@entry_kernel
def infill_engine(h, w, op, a, b):
    """Run operation ``op`` on the arena at ``h`` and the workspace at ``w``; its result, or a (negative) status.

    Converts the arena's remaining work to both accounts, the lexer's and infilling's, and charges back what they used.
    """
    if not begin(h):
        return np.int64(statuses.BROKEN)
    head = header(h)
    granted = head[layout.WORK_LEFT]
    of_lexer = granted // LEXER_WORK  # less than 0: nothing is left
    head[layout.WORK_LEFT] = of_lexer
    whead(w)[ws.W_WORK_LEFT] = granted << UNIT_BITS
    result = np.int64(_run(h, w, op, a, b))
    used = LEXER_WORK * (of_lexer - head[layout.WORK_LEFT])
    head[layout.WORK_LEFT] = granted
    spend(h, used + granted - (whead(w)[ws.W_WORK_LEFT] >> UNIT_BITS))
    return result


@kernel
def _run(h, w, op, a, b):
    """:func:`infill_engine` without the accounting."""
    head = header(h)
    if op == OP_START_STATE:
        head[layout.STACK_TOP] = a
        return np.int64(lexer_state(h, 0, a))
    if op == OP_CLASSIFY:
        return np.int64(classify(h, w, a, b))
    if op == OP_LATTICE:
        return np.int64(build_lattice(h, w))
    if op == OP_FACTS:
        return np.int64(build_rests(h, w))
    if op == OP_ITEMS:
        return np.int64(build_items(h, w))
    if op == OP_MASK:
        return np.int64(fill_hole(h, w, a))
    if op == OP_EFFECT:
        return np.int64(effect_of(h, w, a))
    if op == OP_COLLECT:
        return np.int64(collect(h, w))
    if op == OP_MEASURE:
        return np.int64(measure(h, w, a, b))
    if op == OP_CHOOSE:
        return np.int64(choose(w))
    if op == OP_MAY_BEGIN:
        return np.int64(may_begin(h, w, a))
    return np.int64(closure_of(h, w, a))
