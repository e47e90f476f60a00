"""Brute-force infilling for lexemes that compete: tries every filling, and tells fillings apart only by the matcher's
cursor.

A text is a list of elements: a byte (int), :data:`GAP`, or :data:`SLOT`. Two fillings of the rest of an element that lead
the matcher to the same cursor have the same future, so the search follows only one of them. It therefore ends if a grammar
has few cursors (any grammar that does not nest). If there are many, it gives up after ``most`` places; what it found until
then is legal.
"""

from __future__ import annotations

from collections.abc import Sequence

import cdplugin as cd
from cdplugin.kernels import entry as engine

GAP, SLOT = "gap", "slot"
Element = int | str
State = tuple[int, int]  # element, cursor


class Fillings:
    """All texts that the open places can become. ``tokens``: id -> text, for those that may fill a slot."""

    def __init__(
        self, grammar: cd.Grammar, elements: Sequence[Element], tokens: dict[int, bytes], alphabet: bytes, most: int = 4000
    ) -> None:
        self.arena = grammar._arena
        self.elements = list(elements)
        self.tokens = tokens
        self.alphabet = alphabet
        self.parents: dict[State, list[State]] = {}
        self.complete = True
        self.goals: set[State] = set()
        self.start = (0, grammar._arena.start)
        self.parents[self.start] = []
        pending = [self.start]
        for state in pending:
            if len(self.parents) > most:
                self.complete = False
                break
            at, cursor = state
            if at == len(self.elements):
                if self.arena.call(engine.OP_ACCEPTS, cursor):
                    self.goals.add(state)
                continue
            for following in self._after(at, cursor):
                if following not in self.parents:
                    self.parents[following] = []
                    pending.append(following)
                self.parents[following].append(state)
        self.good = set(self.goals)
        back = list(self.goals)
        for state in back:
            for before in self.parents[state]:
                if before not in self.good:
                    self.good.add(before)
                    back.append(before)

    def step(self, cursor: int, text: bytes) -> int:
        for byte in text:
            try:
                cursor = self.arena.call(engine.OP_STEP, cursor, byte)
            except cd.LimitExceeded:  # a very ambiguous grammar
                self.complete = False
                return 0
            if cursor == 0:
                return 0
        return cursor

    def _after(self, at: int, cursor: int) -> set[State]:
        element = self.elements[at]
        found: set[State] = set()
        if isinstance(element, int):
            found.add((at + 1, self.step(cursor, bytes([element]))))
        elif element == GAP:
            found.add((at + 1, cursor))
            found |= {(at, self.step(cursor, bytes([byte]))) for byte in self.alphabet}
        else:
            found |= {(at + 1, self.step(cursor, text)) for text in self.tokens.values()}
        return {state for state in found if state[1]}

    @property
    def answer(self) -> bool | None:
        """Whether a legal text is left; None if the search was given up before it found one."""
        return True if self.goals else False if self.complete else None

    def mask(self, at: int) -> tuple[set[int], set[int]]:
        """The tokens that may come at element ``at``: those that surely may, and those of which the search does not know."""
        after = at + (self.elements[at] == SLOT)
        allowed, unknown = set(), set()
        for state in self.parents:
            if state[0] == at and self._enters(state):
                for token, text in self.tokens.items():
                    cursor = self.step(state[1], text)
                    if (after, cursor) in self.good:
                        allowed.add(token)
                    elif cursor and (after, cursor) not in self.parents:
                        unknown.add(token)
        if not self.complete:
            unknown = set(self.tokens)
        return allowed, unknown - allowed

    def _enters(self, state: State) -> bool:
        """Whether a state stands at the left edge of its element: nothing was put into the gap yet."""
        return state == self.start or any(before[0] < state[0] for before in self.parents[state])
