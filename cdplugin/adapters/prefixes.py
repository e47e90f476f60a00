"""Which matcher belongs to which row, found from the rows' token ids alone.

A decoding loop passes all token ids of all rows at each call, and nothing else. Between two calls rows may have grown by
a token (sampling), been permuted and duplicated (beam search), or been cut back (rejected draft tokens).
:class:`RowTrackers` keeps one matcher per row. In the common case it advances each by one token, which costs one comparison
of the known ids and one ``accept_token`` per row; otherwise it forks and rolls back the matcher of the row that has the new
row's prefix.

**What continues a generation.** A call continues one if it has the same number of rows, starts with the same prompt, and every
row is a prefix seen at an earlier call, or such a prefix and one more token. Anything else is a new prompt. So a new prompt is
mistaken for a continuation only if it repeats the old prompt and the text generated from it, token for token (or is a prefix of
that which holds the whole prompt, or such a prefix and one more token); whoever means a new prompt by such a call must call
``reset()`` first. Where a matcher refuses the last token, its host may know better (:attr:`RowTracker.grown`).

Two generations are remembered: a draft model with its own tokenizer calls the processor in turns with the main model, with
its own ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

FREE = 0
"""No grammar: the row is not masked."""
LIVE = 1
"""The matcher has accepted every generated token."""
ENDED = 2
"""The matcher has accepted a stop token; what follows is padding."""
REFUSED = 3
"""The matcher has refused a token; the host has not yet decided why it is there."""
PADDED = 4
"""The loop ended the row by a criterion of its own, and pads it with one special token."""
DEAD = 5
"""The row is a beam or a draft of probability zero: the loop is about to drop it."""

_REMEMBERED = 2


def checked_grammars(grammar: Any) -> list[Any]:
    """A compiled grammar, or several and None, as a list, all of one vocabulary. Raises ``TypeError`` and ``ValueError``."""
    grammars = list(grammar) if isinstance(grammar, (list, tuple)) else [grammar]
    if not grammars:
        raise ValueError("grammar: expected at least one, found an empty list")
    vocab = None
    for place, one in enumerate(grammars):
        where = f"grammar[{place}]" if isinstance(grammar, (list, tuple)) else "grammar"
        if one is None and isinstance(grammar, (list, tuple)):
            continue
        if not callable(getattr(one, "matcher", None)) or not hasattr(one, "vocab"):
            hint = "; compile a spec with cdplugin.Compiler" if hasattr(one, "to_ir") else ""
            raise TypeError(f"{where}: expected a compiled cdplugin.Grammar, found {type(one).__name__}{hint}")
        if vocab is not None and one.vocab is not vocab and one.vocab.fingerprint != vocab.fingerprint:
            raise ValueError(f"{where}: expected the vocabulary of the grammars before it, found another one")
        vocab = vocab or one.vocab
    return grammars


class RowTracker:
    """One generation: the ids of its rows, and a matcher for each row with a grammar.

    ``ids``: int64, ``(rows, length + room)``; the first ``prompt_length`` columns are the prompt. ``status``: per row, one of
    the constants above. ``accepted``: per row, how many tokens its matcher has accepted; for a LIVE row all generated ones.
    ``version`` grows with each change. ``seen``: the length at the last call of the processor (the lookahead may have moved the
    rows since). ``grown``: whether that call was one token longer than the one before. ``permuted``: whether some row has
    continued another row since the prompt; ``origin``: for each row, the row of the prompt that it came from. ``deferred``: the
    length at which a refused token was let pass. ``groups``: int64, per row, the number of its group: the rows
    around it with the same prompt, such as the beams of a prompt. ``loop``: what the host knows of the loop.
    """

    def __init__(self, ids: np.ndarray, grammars: Sequence[Any]) -> None:
        rows, self.prompt_length = ids.shape
        self.length = self.prompt_length
        self.ids = np.empty((rows, self.length + 64), np.int64)
        self.ids[:, : self.length] = ids
        self.rows_per_prompt = rows // len(grammars)
        self.matchers: list[Any] = []
        for grammar in grammars:
            for _ in range(self.rows_per_prompt):
                self.matchers.append(None if grammar is None else grammar.matcher())
        self.status = [FREE if matcher is None else LIVE for matcher in self.matchers]
        self.accepted = [0] * rows
        self.version = 0
        self.permuted = False
        self.origin = list(range(rows))
        self.seen = self.length
        self.grown = False
        self.deferred: int | None = None
        self.loop: Any = None
        begins = np.ones(rows, bool)
        begins[1:] = (ids[1:] != ids[:-1]).any(1)
        begins[:: max(1, self.rows_per_prompt)] = True
        self.groups = np.cumsum(begins) - 1

    @property
    def rows(self) -> int:
        return len(self.matchers)

    def masked(self) -> list[int]:
        """The rows with a mask: LIVE and ENDED ones."""
        return [row for row, status in enumerate(self.status) if status in (LIVE, ENDED)]

    def called(self) -> None:
        """Note that the processor was called at this length."""
        self.grown = self.length == self.seen + 1
        self.seen = self.length

    def advance(self, ids: np.ndarray) -> bool:
        """Move to ``ids``, ``(rows, length)``. Returns False and changes nothing if they do not continue this generation."""
        rows, length = ids.shape
        if rows != self.rows or not self.prompt_length <= length <= self.seen + 1:
            return False
        if length == self.length + 1 and np.array_equal(ids[:, :-1], self.ids[:, : self.length]):
            self._append(ids[:, -1])
            return True
        if not np.array_equal(ids[:, : self.prompt_length], self.ids[:, : self.prompt_length]):
            return False
        sources = self._sources(ids)
        if sources is None:
            return False
        if length != self.length or any(source != (row, length) for row, source in enumerate(sources)):
            self._move(ids, sources)
        return True

    def refused(self) -> list[int]:
        """Rows with a refused token that the host has not yet judged."""
        return [row for row, status in enumerate(self.status) if status == REFUSED] if REFUSED in self.status else []

    def token_refused(self, row: int) -> int:
        """The first token of the row that is not accepted: the refused one, or the padding."""
        return int(self.ids[row, self.prompt_length + self.accepted[row]])

    def _append(self, column: np.ndarray) -> None:
        """The common case: each row has one new token."""
        if self.length == self.ids.shape[1]:
            self.ids = np.concatenate([self.ids, np.empty_like(self.ids)], axis=1)
        self.ids[:, self.length] = column
        self.length += 1
        self.version += 1
        for row, token in enumerate(column.tolist()):
            self._follow(row, token)

    def _follow(self, row: int, token: int) -> None:
        """Feed a row's new last token to its matcher."""
        status = self.status[row]
        if status == LIVE:
            matcher = self.matchers[row]
            try:
                allowed = matcher.accept_token(token)
            except ValueError:  # an id outside the vocabulary
                allowed = False
            if not allowed:
                self.status[row] = REFUSED
                return
            self.accepted[row] += 1
            if matcher.is_terminated():
                self.status[row] = ENDED
        elif status == PADDED and token != self.token_refused(row):
            self.status[row] = REFUSED

    def _sources(self, ids: np.ndarray) -> list[tuple[int, int]] | None:
        """For each row, a row of its prompt that shares all its ids or all but the last, and how many. None
        if a row has none.
        """
        length = ids.shape[1]
        shared = length - 1
        sources: list[tuple[int, int]] = []
        table: dict[tuple[int, bytes], int] | None = None
        for row in range(self.rows):
            known = self.ids[row]
            if length <= self.length and np.array_equal(ids[row], known[:length]):
                sources.append((row, length))
            elif shared >= self.prompt_length and np.array_equal(ids[row, :shared], known[:shared]):
                sources.append((row, shared))
            elif shared < self.prompt_length:
                return None  # not even the prompt is shared; the caller has seen to that
            else:
                if table is None:
                    table = {(r // self.rows_per_prompt, self.ids[r, :shared].tobytes()): r for r in reversed(range(self.rows))}
                key = (row // self.rows_per_prompt, np.ascontiguousarray(ids[row, :shared]).tobytes())
                if key not in table:
                    return None
                sources.append((table[key], shared))
        return sources

    def _move(self, ids: np.ndarray, sources: list[tuple[int, int]]) -> None:
        """Give each row its source's matcher, rolled back to the shared prefix, and feed it the rest (at most one token)."""
        length = ids.shape[1]
        uses = Counter(source for source, _ in sources)
        matchers: list[Any] = []
        for source, _ in sources:  # the last user of a matcher takes it, the others fork it, before any of them changes
            uses[source] -= 1
            matcher = self.matchers[source]
            matchers.append(matcher if matcher is None or uses[source] == 0 else matcher.fork())
        status, accepted = [self.status[source] for source, _ in sources], [self.accepted[source] for source, _ in sources]
        if length == self.prompt_length:
            self.permuted, self.origin = False, list(range(self.rows))
        else:
            self.permuted = self.permuted or any(source != row for row, (source, _) in enumerate(sources))
            self.origin = [self.origin[source] for source, _ in sources]
        self.matchers, self.status, self.accepted = matchers, status, accepted
        if length > self.ids.shape[1]:
            self.ids = np.concatenate([self.ids, np.empty_like(self.ids)], axis=1)
        self.ids[:, :length] = ids
        self.length = length
        self.version += 1
        for row, (_, shared) in enumerate(sources):
            keep = shared - self.prompt_length
            if self.status[row] != FREE and keep <= self.accepted[row]:
                if keep < self.accepted[row]:
                    self.matchers[row].rollback(self.accepted[row] - keep)
                    self.accepted[row] = keep
                    self.status[row] = LIVE
                elif self.status[row] != ENDED:
                    self.status[row] = LIVE
            if shared < length:
                self._follow(row, int(ids[row, shared]))


class RowTrackers:
    """The generations that a processor remembers, the most recent first.

    ``grammars``: one per prompt, None for an unconstrained prompt; row r belongs to prompt ``r // (rows / prompts)``, so a
    single grammar applies to all rows.
    """

    def __init__(self, grammars: Sequence[Any]) -> None:
        self._grammars = list(grammars)
        self._trackers: list[RowTracker] = []

    @property
    def current(self) -> RowTracker | None:
        return self._trackers[0] if self._trackers else None

    def advance(self, ids: np.ndarray) -> RowTracker:
        """The generation that ``ids`` continues, moved there; or a new one, with ``ids`` as its prompt.

        Raises ``ValueError`` if the number of rows is not a multiple of the number of grammars. If a matcher raises, everything
        is forgotten, because some rows may be ahead of their matchers.
        """
        tracker = self.continued(ids) or self.begin(ids)
        tracker.called()
        return tracker

    def continued(self, ids: np.ndarray) -> RowTracker | None:
        """The generation that ``ids`` continues, moved there; or None. Does not count as a call of the processor."""
        for place, tracker in enumerate(self._trackers):
            try:
                continues = tracker.advance(ids)
            except Exception:
                self.forget()
                raise
            if continues:
                if place:
                    self._trackers.insert(0, self._trackers.pop(place))
                return tracker
        return None

    def forget(self) -> None:
        self._trackers.clear()

    def begin(self, ids: np.ndarray) -> RowTracker:
        """A new generation, with ``ids`` as its prompt. Raises ``ValueError`` as :meth:`advance`."""
        rows, count = ids.shape[0], len(self._grammars)
        if rows % count:
            raise ValueError(
                f"grammars: expected one per prompt, found {count} for {rows} rows, which is no multiple of {count}"
            )
        tracker = RowTracker(ids, self._grammars)
        self._trackers.insert(0, tracker)
        del self._trackers[_REMEMBERED:]
        return tracker
