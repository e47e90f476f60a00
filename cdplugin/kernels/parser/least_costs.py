"""The cost of nonterminals in bytes, by sweeps over all rules, for :mod:`cdplugin.queries.costs`.

``list: item | item list``, ``item: "ab" | "(" list ")"``: the first sweep, from the last rule to the first, finds 2 for
``item`` and, since that is known by then, for ``list``; the second one changes nothing.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.jit.views import view_i64
from cdplugin.kernels.regex.measures import FAR, LONG
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import i64, spend

S_RULES, S_DOTS, S_N_LEXEMES, S_LEXEMES, S_N_NONTERMINALS, S_NONTERMINALS, S_SWEEPS = range(7)
SETTLE_QUESTION_WORDS = 7


@kernel
def settle(h, question_address):
    """Lower the costs of nonterminals to those of their rules until nothing changes; return 1, 0 if the sweeps did not suffice,
    or a status.

    ``question_address``: int64 words, counts and the addresses of int64 words: the dots at which the rules begin; each lexeme's
    cost; an upper bound of each nonterminal's cost, which is lowered; and the number of sweeps. Costs: :data:`FAR` if nothing
    ends, else at most :data:`LONG`.
    """
    question = view_i64(question_address, SETTLE_QUESTION_WORDS)
    symbols, lefts = i64(h, layout.DOT_SYMBOL), i64(h, layout.DOT_LEFT)
    dots = view_i64(question[S_DOTS], question[S_RULES])
    of_lexemes = view_i64(question[S_LEXEMES], question[S_N_LEXEMES])
    costs = view_i64(question[S_NONTERMINALS], question[S_N_NONTERMINALS])
    for _ in range(question[S_SWEEPS]):
        changes = False
        if not spend(h, question[S_RULES]):
            return np.int64(statuses.LIMIT_WORK)
        for rule in range(question[S_RULES] - 1, -1, -1):
            dot = dots[rule]
            left = lefts[dot]
            total = np.int64(0)
            while symbols[dot] != layout.END_OF_RULE:
                symbol = symbols[dot]
                cost = costs[symbol] if symbol >= 0 else of_lexemes[-2 - symbol]
                if cost >= FAR:
                    total = np.int64(FAR)
                    break
                total = min(total + cost, np.int64(LONG))
                dot += 1
            if total < costs[left]:
                costs[left] = total
                changes = True
        if not changes:
            return np.int64(1)
    return np.int64(0)
