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

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cdplugin.bits import bit_members
from cdplugin.errors import EngineError, LimitExceeded
from cdplugin.infill.parts import Part, filled, with_token
from cdplugin.infill.search import Search, SearchGivenUp
from cdplugin.queries.successors import successors

if TYPE_CHECKING:
    from cdplugin.infill.answers import Answers
    from cdplugin.infill.tables import InfillGrammar

FEW_CLASSES = 8  # in doubt
MOST_WORK_OF_MASK = 1 << 18  # of the lattices for the tokens of a mask that are in doubt
_MOST_RESTS, _MOST_JOINTS, _MOST_CLOSERS = 64, 32, 16
_MOST_ENDINGS = 200  # that are looked for, for one mask
_ENDING_STEPS = 400  # of Limits.max_completion_steps
_MOST_MISSES = 2  # classes one after the other that are not proven, before a lattice is asked
_MOST_FAILURES = 3  # to find an ending
_MOST_TAILS = 8
_MOST_KNOWN = 50_000

Class = tuple[int, np.ndarray]
"""A cursor, and the tokens that lead to it."""


class Tail:
    """What comes after a gap, and what is known to lead up to it.

    ``known``: by cursor in the gap, a text with which the gap may end there.
    """

    def __init__(self, tables: InfillGrammar, text: bytes) -> None:
        self._tables = tables
        self._text = text
        self._follows: dict[int, bool] = {}
        self.known: dict[int, bytes] = {}

    def follows(self, cursor: int) -> bool:
        """Whether the text may go on, and end, with the tail from here."""
        known = self._follows.get(cursor)
        if known is None:
            end = self._tables.step(cursor, self._text)
            known = self._follows[cursor] = end != 0 and self._tables.accepts_at(end)
        return known

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
        if len(self.known) > _MOST_KNOWN:
            self.known.clear()
        self.known[cursor] = rest
        for i in range(len(rest)):
            cursor = self._tables.step(cursor, rest[i : i + 1])
            self.known.setdefault(cursor, rest[i + 1 :])


class Rests:
    """Texts that may end a gap, those first that did so last.

    ``_joints``: what came between the end of what was begun in a gap and the text after it, as a new line and its indentation.
    """

    def __init__(self, tables: InfillGrammar) -> None:
        self._tables = tables
        self._rests: list[bytes] = [b""]
        self._joints: list[bytes] = [b""]
        self._closers = [bytes([byte]) for byte in b"0)]}\"'a: \n"]
        self._tails: dict[bytes, Tail] = {}
        self.begin()

    def begin(self) -> None:
        """Begin another mask."""
        self._endings, self._failures = 0, 0

    def tail(self, text: bytes) -> Tail:
        """What is known of a text after a gap; of the last ones, since a gap mostly stays where it is."""
        known = self._tails.pop(text, None) or Tail(self._tables, text)
        self._tails[text] = known
        if len(self._tails) > _MOST_TAILS:
            del self._tails[next(iter(self._tails))]
        return known

    def find(self, cursor: int, tail: Tail) -> bytes | None:
        """A text that may end the gap from a cursor before a tail; None if none was found."""
        found = tail.known.get(cursor)
        if found is not None:
            return found
        for rest in self._rests:
            found = tail.reached(cursor, rest)
            if found is not None:
                break
        if found is None:
            found = self._by_closers(cursor, tail)
        if found is None:
            found = self._by_ending(cursor, tail)
        if found is not None:
            tail.note(cursor, found)
            _to_front(self._rests, found, _MOST_RESTS)
        return found

    def learn(self, rest: bytes) -> None:
        """Take in a text that ended a gap."""
        for i in range(min(len(rest), _MOST_JOINTS // 2), -1, -1):
            _to_front(self._joints, rest[len(rest) - i :], _MOST_JOINTS)
        _to_front(self._rests, rest, _MOST_RESTS)

    def _by_closers(self, cursor: int, tail: Tail) -> bytes | None:
        """By one byte or two of those that endings are made of, to a cursor that is known."""
        step, known = self._tables.step, tail.known
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
        if self._endings >= _MOST_ENDINGS or self._failures >= _MOST_FAILURES:
            return None
        self._endings += 1
        try:
            found = self._tables.endings.find(cursor, _ENDING_STEPS)
        except (LimitExceeded, EngineError):
            if self._tables.work_left < 0:
                raise
            self._failures += 1
            return None
        ending = bytes(found)
        for i in range(len(ending)):
            _to_front(self._closers, ending[i : i + 1], _MOST_CLOSERS)
        reached = tail.reached(cursor, ending)
        for i in range(len(ending) + 1):
            for joint in self._joints if reached is None else ():
                reached = tail.reached(cursor, ending[:i] + joint)
                if reached is not None:
                    break
        return reached


def _to_front(texts: list[bytes], text: bytes, most: int) -> None:
    """Move a text to the front of a list that holds so many."""
    if text in texts:
        texts.remove(text)
    texts.insert(0, text)
    del texts[most:]


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
        self._rests.begin()
        self._serves = not answers.padded and all(part.gap for i, part in enumerate(parts) if part.is_open and i != hole)
        self._gap = sum(part.is_open for part in parts[:hole])  # its number among the open ones
        self._tails: list[Tail] = []
        self._found: list[bytes] | None = None
        """What the parts were last completed with."""

    def decide(self) -> int:
        """Decide the tokens; returns how many are left out because the search for a filling was given up."""
        parts, hole = self._parts, self._hole
        search = Search(self._answers, MOST_WORK_OF_MASK)
        if any(part.is_open for part in parts[:hole]):
            return self._decide_one_by_one(search)
        before = b"".join(part.text for part in parts[: hole + 1])
        return self._decide_classes(self._classes(self._tables.step(self._tables.start, before)), search)

    def _begin(self) -> None:
        """Learn from a completion of the parts."""
        parts, hole = self._parts, self._hole
        if self._serves and parts[hole].gap:
            found = self._answers.some_fillings(parts)
            if found is not None:
                self._learn(found)
        if not self._answers.padded and not any(part.is_open for part in parts[hole + 1 :]):
            self._add_tail(filled(parts[hole + 1 :], []))

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
        is_ruled = False
        try:
            if classes:
                self._begin()
            while classes or left:
                if not classes and not is_ruled and len(left) > FEW_CLASSES:
                    is_ruled = True
                    self._rule_out(left)
                    continue
                queue = classes or left
                cursor, tokens = queue[-1]
                if self._is_proven(cursor):
                    misses = 0
                    self._allow(tokens)
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
            if is_left[tokens].any() and self._is_proven(after):
                self._allow(tokens[is_left[tokens]])
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
        for tail in self._tails:
            if self._parts[self._hole].slot:
                if tail.follows(cursor):
                    return True
            elif self._rests.find(cursor, tail) is not None:
                return True
        return False

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
        """Take in a completion of the parts, or of the parts with a token: a gap is still open then, a slot is not."""
        parts, hole, gap = self._parts, self._hole, self._gap
        self._found = fillings
        is_gap = parts[hole].gap
        self._add_tail(filled(parts[hole + 1 :], fillings[gap + is_gap :]))
        if is_gap:
            self._rests.learn(fillings[gap])

    def _add_tail(self, text: bytes) -> None:
        """Have classes be proven with another tail, too."""
        tail = self._rests.tail(text)
        if tail not in self._tails and len(self._tails) < _MOST_TAILS:
            self._tails.append(tail)

    def _allow(self, tokens: np.ndarray) -> None:
        """Add tokens to the row."""
        np.bitwise_or.at(self._row.view(np.uint32), tokens >> 5, np.uint32(1) << (tokens & 31).astype(np.uint32))
