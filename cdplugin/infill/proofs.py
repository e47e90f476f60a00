"""Tokens that are legal at an open place because the matcher accepts a text with them.

A hundred thousand tokens lead the matcher to few cursors (:mod:`cdplugin.kernels.masks.successors`): inside a string to 20, at
the beginning of a Python statement to 600. Texts with the same cursor have the same future, so one completion decides all that
lead there. And completions are alike: ``)`` and the end of the line, ``)]`` and the end of the line. So for each cursor
some texts are tried that may end the gap (:class:`Rests`), up to where what comes after it (:class:`Tail`) is known to follow;
a lattice is asked only for what is left.

``["x = f(", GAP, "\\ny = 1\\n"]``: the token ``[a`` leads to a cursor from which ``])`` ends the gap, and so do ``[b`` and
``[ab``; that of ``[[a`` comes by ``]`` to one that is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from cdplugin.bits import bit_members
from cdplugin.collector import gc_paused
from cdplugin.errors import EngineError, LimitExceeded
from cdplugin.infill.parts import Part, between, filled, with_token
from cdplugin.infill.search import Search, SearchGivenUp
from cdplugin.queries.successors import successors

if TYPE_CHECKING:
    from cdplugin.infill.answers import Answers
    from cdplugin.infill.tables import InfillGrammar

FEW_CLASSES = 8  # in doubt
MOST_TRIES = 100_000  # texts that are tried, for one mask
MOST_WORK_OF_MASK = 1 << 18  # of the lattices for the tokens of a mask that are in doubt
_MOST_RESTS, _MOST_JOINTS, _MOST_CLOSERS = 64, 32, 20
_MOST_ENDINGS = 200  # that are looked for, for one mask
_FEW_ENDINGS = 6  # that are not looked for: the first one of a grammar takes as long as some lattices
_ENDING_STEPS = 400  # of Limits.max_completion_steps
_MOST_MISSES = 2  # classes one after the other that are not proven, before a lattice is asked
_MOST_FAILURES = 3  # to find an ending
_MOST_TAILS = 16
_MOST_KNOWN = 10_000

Class = tuple[int, np.ndarray]
"""A cursor, and the tokens that lead to it."""


class Tail:
    """What comes after a gap, and what is known to lead up to it. There may be gaps in it, too.

    ``known``: by cursor in the gap, a text with which the gap may end there. ``after``: what comes after the next gap, if one
    comes after ``text``.
    """

    def __init__(self, rests: Rests, text: bytes, after: Tail | None) -> None:
        self._rests = rests
        self._tables = rests.tables
        self._text = text
        self._after = after
        self._follows: dict[int, bool] = {}
        self._missed: dict[int, int] = {}
        self.known: dict[int, bytes] = {}

    @property
    def is_large(self) -> bool:
        """Whether it knows more than is kept."""
        return max(len(self.known), len(self._follows), len(self._missed)) > _MOST_KNOWN

    def follows(self, cursor: int) -> bool:
        """Whether the text may go on, and end, with the tail from here, as far as texts are known that end its gaps."""
        known = self._follows.get(cursor)
        if known is None and self._missed.get(cursor) == self._rests.version:
            return False
        if known is None:
            end = self._tables.step(cursor, self._text)
            if self._after is None or not end:
                known = end != 0 and self._tables.accepts_at(end)
            else:
                known = self._rests.find(end, self._after, False) is not None
            if known or self._after is None:
                self._follows[cursor] = known
            else:  # more may be known next time
                self._missed[cursor] = self._rests.version
        return known

    def fillings(self, cursor: int) -> list[bytes]:
        """Texts that end the gap and those of the tail, from a cursor of ``known``."""
        rest = self.known[cursor]
        if self._after is None:
            return [rest]
        return [rest, *self._after.fillings(self._tables.step(cursor, rest + self._text))]

    def reached(self, cursor: int, text: bytes) -> bytes | None:
        """A text that may end the gap from a cursor: ``text``, or its beginning and what is known from there; else None."""
        known = self.known
        for i in range(len(text)):
            cursor = self._tables.step(cursor, text[i : i + 1])
            if cursor == 0:
                return None
            if cursor in known:
                return text[: i + 1] + known[cursor]
        return text if self.follows(cursor) else None

    def note(self, cursor: int, rest: bytes) -> None:
        """Note a text that ends the gap, for all cursors that it passes."""
        self.known[cursor] = rest
        for i in range(len(rest)):
            cursor = self._tables.step(cursor, rest[i : i + 1])
            self.known.setdefault(cursor, rest[i + 1 :])


class Rests:
    """Texts that may end a gap, those first that did so last.

    ``_joints``: what came between the end of what was begun in a gap and the text after it, as a new line and its indentation.
    """

    def __init__(self, tables: InfillGrammar) -> None:
        self.tables = tables
        self._rests: list[bytes] = [b""]
        self._joints: list[bytes] = [b""]
        self._closers = [bytes([byte]) for byte in b"0)]}\"'a: \n\x80\x90\xa0"]
        self._tails: dict[tuple[bytes, ...], Tail] = {}
        self._left = (0, 0, 0)
        self._has_costs = False  # whether endings were looked for
        self._wanted = 0  # how many would have been, in a question
        self.version = 0
        """How many texts it has learned."""

    @contextmanager
    def trying(self, most: int) -> Iterator[None]:
        """A context for one question, for which so many texts are tried."""
        before = self._left
        self._left = most, _MOST_ENDINGS, _MOST_FAILURES
        self._wanted = 0
        try:
            yield
        finally:
            self._left = before

    def tail(self, texts: tuple[bytes, ...]) -> Tail:
        """What is known of what comes after a gap: some texts with gaps between them. Of the last ones, since gaps mostly stay
        where they are.
        """
        after = self.tail(texts[1:]) if len(texts) > 1 else None
        known = self._tails.pop(texts, None)
        if known is None or known.is_large:
            known = Tail(self, texts[0], after)
        self._tails[texts] = known
        if len(self._tails) > _MOST_TAILS:
            del self._tails[next(iter(self._tails))]
        return known

    def find(self, cursor: int, tail: Tail, by_ending: bool = True) -> bytes | None:
        """A text that may end the gap from a cursor before a tail; None if none was found.

        ``by_ending``: whether short endings of the whole text are looked for, which takes longest.
        """
        found = tail.known.get(cursor)
        if found is not None:
            return found
        found = self._first_of(self._rests, cursor, tail)
        if found is None:
            found = self._by_closers(cursor, tail)
        if found is None and by_ending:
            found = self._by_ending(cursor, tail)
        if found is not None:
            tail.note(cursor, found)
            self._learn(self._rests, found, _MOST_RESTS)
        return found

    def learn(self, fillings: Sequence[bytes]) -> None:
        """Take in texts that ended gaps."""
        for rest in fillings:
            for i in range(min(len(rest), _MOST_JOINTS // 2), -1, -1):
                self._learn(self._joints, rest[len(rest) - i :], _MOST_JOINTS)
            self._learn(self._rests, rest, _MOST_RESTS)

    def _learn(self, texts: list[bytes], text: bytes, most: int) -> None:
        """Move a text to the front of a list that holds so many."""
        if text in texts:
            texts.remove(text)
        else:
            self.version += 1
        texts.insert(0, text)
        del texts[most:]

    def _first_of(self, texts: Iterable[bytes], cursor: int, tail: Tail) -> bytes | None:
        """What the first text, of those that are tried, comes to that may end the gap."""
        for text in texts:
            tries, endings, failures = self._left
            if tries <= 0:
                break
            self._left = tries - 1, endings, failures
            found = tail.reached(cursor, text)
            if found is not None:
                return found
        return None

    def _by_closers(self, cursor: int, tail: Tail) -> bytes | None:
        """By one byte or two of those that endings are made of, to a cursor that is known."""
        step, known = self.tables.step, tail.known
        after = [(byte, step(cursor, byte)) for byte in self._closers]
        for byte, place in after:
            if place in known:
                return byte + known[place]
        for byte, place in after:
            for second in self._closers if place else ():
                further = step(place, second)
                if further in known:
                    return byte + second + known[further]
        return None

    def _by_ending(self, cursor: int, tail: Tail) -> bytes | None:
        """By what ends the whole text soonest, or as much of it as it takes to get to the tail by a joint."""
        tries, endings, failures = self._left
        self._wanted += 1
        if min(self._left) <= 0 or (not self._has_costs and self._wanted <= _FEW_ENDINGS):
            return None
        self._left = tries, endings - 1, failures
        self._has_costs = True
        try:
            with gc_paused():  # the first time, costs of all rules are found
                ending = bytes(self.tables.endings.find(cursor, _ENDING_STEPS))
        except (LimitExceeded, EngineError):
            if self.tables.work_left < 0:
                raise
            self._left = tries, endings - 1, failures - 1
            return None
        for i in range(len(ending)):
            self._learn(self._closers, ending[i : i + 1], _MOST_CLOSERS)
        texts = [ending, *(ending[:i] + joint for i in range(len(ending) + 1) for joint in self._joints)]
        return self._first_of(texts, cursor, tail)


class Proofs:
    """The tokens in doubt of one mask.

    ``row``: the tokens that are known to be legal; what is found is added.
    """

    def __init__(self, answers: Answers, parts: Sequence[Part], hole: int, row: np.ndarray) -> None:
        self._answers = answers
        self._tables = answers.tables
        self._parts = parts
        self._hole = hole
        self._row = row
        self._rests = answers.tables.rests
        self._serves = not answers.padded and all(part.gap for i, part in enumerate(parts) if part.is_open and i != hole)
        self._tail = self._rests.tail(between(parts[hole + 1 :])) if self._serves else None
        self._found: list[bytes] | None = None
        """What the parts were last completed with."""

    def decide(self) -> int:
        """Decide the tokens; returns how many are left out because the search for a filling was given up."""
        parts, hole = self._parts, self._hole
        search = Search(self._answers, MOST_WORK_OF_MASK)
        with self._rests.trying(MOST_TRIES):
            if any(part.is_open for part in parts[:hole]):
                return self._decide_one_by_one(search)
            before = b"".join(part.text for part in parts[: hole + 1])
            return self._decide_classes(self._classes(self._tables.step(self._tables.start, before)), search)

    def _begin(self) -> None:
        """Learn from a completion of the parts."""
        if self._serves and self._parts[self._hole].gap:
            found = self._answers.some_fillings(self._parts)
            if found is not None:
                self._learn(found)

    def _classes(self, cursor: int) -> list[Class]:
        """The tokens in doubt that the matcher allows at a cursor, by the cursors after them, large classes first."""
        row = self._tables.mask_at(cursor) & ~self._row
        for token in self._answers.eos:
            row.view(np.uint32)[token >> 5] &= ~np.uint32(1 << (token & 31))
        if not row.any():
            return []
        cursors, numbers = successors(self._tables.arena, cursor, row)
        order = np.argsort(numbers, kind="stable")
        heads = np.searchsorted(numbers[order], np.arange(len(cursors) + 1))
        found = [(after, order[heads[i] : heads[i + 1]]) for i, after in enumerate(cursors)]
        return sorted(found, key=lambda item: -len(item[1]))

    def _decide_classes(self, classes: list[Class], search: Search) -> int:
        """Decide classes, at a place before which nothing is open: then what holds for a token holds for its class."""
        classes.reverse()
        left: list[Class] = []  # not proven when they were met
        misses = undecided = 0
        # the loose lattice rules out many classes at once; few are mostly all legal, so it waits for the first that is not
        is_ruled = is_retried = False
        try:
            if classes:
                self._begin()
            while classes or left:
                if not classes and not is_retried:
                    is_retried = True
                    left = [one for one in left if not self._is_taken(*one)]
                    if not is_ruled and len(left) > FEW_CLASSES:
                        is_ruled = True
                        self._rule_out(left)
                    continue
                queue = classes or left
                cursor, tokens = queue[-1]
                if self._is_taken(cursor, tokens):
                    misses = 0
                elif queue is classes and misses < _MOST_MISSES:  # another one may teach what proves it
                    misses += 1
                    left.append(queue[-1])
                elif self._answers.work >= search.until:
                    break
                else:
                    misses = 0
                    try:
                        if self._is_completed(int(tokens[0]), search):
                            self._allow(tokens)
                        elif not is_ruled:
                            is_ruled = True
                            queue.pop()
                            self._rule_out(classes, left)
                            continue
                    except SearchGivenUp:
                        undecided += len(tokens)
                queue.pop()
        except LimitExceeded:  # the work that the mask may take is used up
            pass
        return undecided + sum(len(tokens) for _, tokens in [*classes, *left])

    def _decide_one_by_one(self, search: Search) -> int:
        """Decide tokens at a place before which something is open. What is filled in there leads to a cursor, and a class that
        is proven at one is legal; what is not may be legal after other fillings.
        """
        doubtful = bit_members(~self._row)
        undecided = 0
        seen: set[int] = set()
        try:
            doubtful = self._answers.possible(self._parts, self._hole, doubtful)
            if len(doubtful):
                self._begin()
            while len(doubtful):
                if self._found is not None:
                    doubtful = self._spread(self._found, seen, doubtful)
                    self._found = None
                    continue
                if self._answers.work >= search.until:
                    break
                token = int(doubtful[0])
                try:
                    if self._is_completed(token, search):
                        self._allow(doubtful[:1])
                except SearchGivenUp:
                    undecided += 1
                doubtful = doubtful[1:]
        except LimitExceeded:
            pass
        return undecided + len(doubtful)

    def _spread(self, fillings: list[bytes], seen: set[int], doubtful: np.ndarray) -> np.ndarray:
        """Take in a completion; returns the tokens that are still in doubt then.

        ``seen``: the cursors before the place that are no news.
        """
        parts, hole = self._parts, self._hole
        cursor = self._tables.step(self._tables.start, filled(parts[:hole], fillings) + parts[hole].text)
        if cursor in seen:
            return doubtful
        seen.add(cursor)
        is_left = np.zeros(32 * len(self._row), bool)
        is_left[doubtful] = True
        for after, tokens in self._classes(cursor):
            tokens = tokens[is_left[tokens]]
            if len(tokens) and self._is_taken(after, tokens):
                is_left[tokens] = False
        return doubtful[is_left[doubtful]]

    def _rule_out(self, *lists: list[Class]) -> None:
        """Take out of lists of classes those that the loose lattice rules out, if only for one of their tokens."""
        doubtful = [tokens for classes in lists for _, tokens in classes] or [np.zeros(0, np.int64)]
        possible = np.zeros(32 * len(self._row), bool)
        possible[self._answers.possible(self._parts, self._hole, np.concatenate(doubtful))] = True
        for classes in lists:
            classes[:] = [(cursor, tokens) for cursor, tokens in classes if possible[tokens].all()]

    def _is_proven(self, cursor: int) -> bool:
        """Whether a completion is known from the cursor after a token."""
        if self._tail is None:
            return False
        if self._parts[self._hole].slot:
            return self._tail.follows(cursor)
        return self._rests.find(cursor, self._tail) is not None

    def _is_taken(self, cursor: int, tokens: np.ndarray) -> bool:
        """Whether the tokens of a class are proven, and so added to the row."""
        is_proven = self._is_proven(cursor)
        if is_proven:
            self._allow(tokens)
        return is_proven

    def _is_completed(self, token: int, search: Search) -> bool:
        """Whether a text with a token can be completed; what it is completed with is learned."""
        after = with_token(self._parts, self._hole, token, self._tables.vocab.tokens[token] or b"")
        self._found = None
        if not self._answers.completable(after, search):
            return False
        found = self._answers.some_fillings(after) if self._serves else None
        if found is not None:
            self._learn(found)
        return True

    def _learn(self, fillings: list[bytes]) -> None:
        """Take in a completion of the parts, or of the parts with a token."""
        self._found = fillings
        self._rests.learn(fillings)

    def _allow(self, tokens: np.ndarray) -> None:
        """Add tokens to the row."""
        np.bitwise_or.at(self._row.view(np.uint32), tokens >> 5, np.uint32(1) << (tokens & 31).astype(np.uint32))
