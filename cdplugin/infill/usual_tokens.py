"""Usual tokens: those of which endings are mostly made. They are classified first, so long canvases can be planned with few
classes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from cdplugin.bits import bit_flags, bitmask_words
from cdplugin.errors import EngineError, LimitExceeded

if TYPE_CHECKING:
    from cdplugin.matcher import Grammar

_WALKS, _WALK_LENGTH = 8, 16
_PART = 4  # a quarter of the work of a step; C++ needs a tenth
_COUNT_WORK = 200  # units of work for following, copying and counting a token


def usual_tokens(grammar: Grammar) -> list[int]:
    """The tokens of the shortest endings of some random texts, the most common ones first.

    Fewer texts are used if all together would take more than a quarter of ``Limits.max_step_work``.
    """
    counts: Counter[int] = Counter()
    for ending in _endings(grammar):
        counts.update(ending)
    return [token for token, _ in counts.most_common() if grammar.vocab.tokens[token]]


def _endings(grammar: Grammar) -> Iterator[list[int]]:
    rng = random.Random(0)
    vocab, matcher = grammar.vocab, grammar.matcher()
    row = np.zeros((1, bitmask_words(vocab.size)), np.int32)
    left, done = grammar._arena.limits.max_step_work // _PART, grammar.counters()["work"]
    for _ in range(_WALKS):
        matcher.reset()
        for _ in range(_WALK_LENGTH):
            before, done = done, grammar.counters()["work"]
            left -= max(done - before, 0)  # (a replaced arena counts from 0 again)
            if left < 0:
                return
            try:
                ending = matcher.shortest_completion()
                left -= _COUNT_WORK * len(ending)
                yield ending
                matcher.fill_next_token_bitmask(row)
            except LimitExceeded:  # longest match may lead to a cursor from which endings are searched for in vain, for seconds
                return
            except EngineError:  # or to a dead end
                break
            bits = bit_flags(row[0])
            bits[list(vocab.eos_token_ids)] = 0
            allowed = np.flatnonzero(bits)
            if len(allowed) == 0:
                break
            # follow the ending now and then, or the walk would never leave names, strings and comments
            follow = [token for token in ending[:1] if token not in vocab.eos_token_ids and rng.random() < 0.5]
            matcher.accept_token(follow[0] if follow else int(rng.choice(allowed)))
