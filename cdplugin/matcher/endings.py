"""The tokens that stop a text, and the endings that are known for each set of them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import numpy as np

from cdplugin.engine.arena import Arena
from cdplugin.engine.blocks import address_of
from cdplugin.errors import integer
from cdplugin.queries.budgets import Budgets
from cdplugin.queries.completion import Endings
from cdplugin.queries.found_endings import FoundEndings
from cdplugin.queries.words import narrowing
from cdplugin.vocab.vocabulary import Vocabulary

_MOST_STOP_SETS = 4  # sets of stop tokens with known endings: matchers of one grammar mostly have the same set


class StopTokens:
    """The tokens that end a text, in the order given. ``table``: int64, a count and the tokens, which kernels read at
    ``address``.
    """

    def __init__(self, vocab: Vocabulary, ids: tuple[int, ...]) -> None:
        self.ids = ids
        self.members = frozenset(ids)
        self.table = np.array([len(ids), *ids], np.int64)
        self.address = address_of(self.table)
        self._vocab = vocab

    @functools.cached_property
    def narrowing(self) -> frozenset[int]:
        """The stop tokens if they remove bytes from endings, else an empty set."""
        return narrowing(self._vocab, self.members)


def stop_tokens(vocab: Vocabulary, given: Sequence[int] | None) -> StopTokens:
    """Return the tokens that are given, by default the vocabulary's end tokens. Raises ``TypeError`` or ``ValueError``."""
    given = vocab.eos_token_ids if given is None else given
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise TypeError(f"stop_token_ids: expected a sequence of integers, found {type(given).__name__}")
    return StopTokens(vocab, tuple(dict.fromkeys(integer("stop token id", token, 0, vocab.size) for token in given)))


class KnownEndings:
    """The endings that are known in one arena, whose lock the caller holds. Stop tokens that remove bytes have endings of their
    own.
    """

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self._budgets: dict[tuple[int, ...], Budgets] = {}

    def found(self) -> list[FoundEndings]:
        """Return the endings in tokens found so far, for each set of stop tokens."""
        return [budgets.found for budgets in self._budgets.values()]

    @functools.cached_property
    def shared(self) -> Endings:
        """Short endings, shared by all other sets of stop tokens."""
        return Endings(self.arena)

    def endings(self, stops: StopTokens) -> Endings:
        """Return the short endings for a set of stop tokens."""
        return self.budgets(stops).endings if stops.narrowing else self.shared

    def budgets(self, stops: StopTokens) -> Budgets:
        """Return the endings in tokens for a set of stop tokens."""
        found = self._budgets.get(stops.ids)
        if found is None:
            if len(self._budgets) >= _MOST_STOP_SETS:
                self._budgets.clear()
            endings = Endings(self.arena, stops.narrowing) if stops.narrowing else self.shared
            found = self._budgets[stops.ids] = Budgets(self.arena, endings, stops.table)
        return found
