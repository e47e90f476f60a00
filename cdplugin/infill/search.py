"""A search for fillings with the matcher, where the lattices do not decide (lexemes that compete).

A search state (``_State``) is an open part and the matcher's cursor before it, after some filling of what lies left of it.
Fillings that lead to the same cursor have the same future, so the search goes over cursors, shortest fillings first. The loose
lattice prunes states from which nothing can come; the strict one ends the search where something surely can. With nesting there
are infinitely many cursors, so at most :data:`MOST_SEARCH_STATES` are visited, for at most :data:`MOST_WORK`; after that the
answer is unknown.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cdplugin.errors import LimitExceeded
from cdplugin.infill.parts import Part

if TYPE_CHECKING:
    from cdplugin.infill.answers import Answers

MOST_SEARCH_STATES = 400  # states that a search for one answer visits
MOST_WORK = 1 << 17  # of its lattices (:attr:`Answers.work`): about half a second
_STATE_WORK = 5000  # units of work of a state, besides what is counted elsewhere
MOST_TOKENS = 256  # cursors to which one slot is followed


class SearchGivenUp(LimitExceeded):
    """The answer is unknown: a search crossed one of its limits."""


class _State(NamedTuple):
    """A search state, ordered by the number of bytes and tokens filled in."""

    cost: int
    serial: int
    at: int  # the part that comes next
    cursor: int
    text: bytes
    fillings: tuple[bytes, ...]  # of the gaps so far; that of the last one may grow


class Search:
    """One search, or several with a common budget. Each raises :class:`SearchGivenUp` if it crosses a limit.

    ``until``: the value of :attr:`Answers.work` at which the budget is used up.
    """

    def __init__(self, answers: Answers, most_work: int = MOST_WORK) -> None:
        self._answers = answers
        self._tables = answers.tables
        self.until = answers.work + most_work
        # in the last search: whether moves of a slot were left out, or may have been; whether a whole text was spelled
        self._is_cut = self._is_spelled = False
        self.filled: list[bytes] | None = None
        """The fillings of the open gaps that the last search found, if it spelled them."""

    def finds(self, parts: Sequence[Part]) -> bool:
        """Whether there is some filling."""
        found = self._run(parts, False)
        self.filled = found if self._is_spelled else None
        return found is not None

    def fillings(self, parts: Sequence[Part]) -> list[bytes] | None:
        """A filling of each open gap of parts without open slots; None if there is none."""
        return self._run(parts, True)

    def _run(self, parts: Sequence[Part], in_full: bool) -> list[bytes] | None:
        self._is_cut = self._is_spelled = False
        last = self._answers.length(parts)
        if last is None:
            return None
        parts = _apart(parts[:last])
        serial = itertools.count()
        seen: set[tuple[int, int]] = set()
        agenda: list[_State] = []
        following = [_State(0, 0, 0, self._tables.start, b"", ())]
        until = min(self.until, self._answers.work + MOST_WORK)
        for n_states in itertools.count():
            for state in following:
                state = self._pass_fixed(parts, state)
                if state.cursor == 0 or (state.at, state.cursor) in seen:
                    continue
                if self._may_end(parts, state.at) and self._tables.accepts_at(state.cursor):
                    return [*state.fillings, *(b"" for part in parts[state.at + 1 :] if part.gap)]
                seen.add((state.at, state.cursor))
                if state.at < len(parts):
                    heapq.heappush(agenda, state._replace(serial=next(serial)))
            if not agenda:
                break
            if n_states >= MOST_SEARCH_STATES or self._answers.work >= until:
                raise unknown(f"at most {MOST_SEARCH_STATES} search states, and {MOST_WORK} for lattices")
            self._tables.arena.spend(_STATE_WORK)
            state = heapq.heappop(agenda)
            rest = [Part(state.text), *parts[state.at :]]
            following = []
            if self._answers.build(rest, self._tables.loose):
                found = self._by_lattice(rest, in_full, n_states)
                if found is not None:
                    if parts[state.at].gap and found:
                        found[0] = state.fillings[-1] + found[0]
                        return [*state.fillings[:-1], *found]
                    return [*state.fillings, *found]
                following = list(self._moves(parts, state))
            elif self._answers.is_planned_short(rest):
                self._is_cut = True
        if self._is_cut:
            raise unknown(f"at most {MOST_TOKENS} ways to fill a slot, and slots that are planned with all classes of tokens")
        return None

    def _pass_fixed(self, parts: Sequence[Part], state: _State) -> _State:
        """Advance a state over fixed text to the next open part."""
        _, _, at, cursor, text, fillings = state
        while at < len(parts) and not parts[at].is_open and cursor:
            text += parts[at].text
            cursor = self._tables.step(cursor, parts[at].text)
            at += 1
        if at < len(parts) and parts[at].gap and len(fillings) <= sum(part.gap for part in parts[:at]):
            fillings = (*fillings, b"")  # the gap is new
        return state._replace(at=at, cursor=cursor, text=text, fillings=fillings)

    def _by_lattice(self, parts: Sequence[Part], in_full: bool, n_states: int) -> list[bytes] | None:
        """What the lattices say of some parts: fillings that the matcher accepts; or, unless wanted ``in_full``, an empty list
        for *yes*.

        None if they do not decide. What the loose lattice spells is put to the matcher before the first state, and then each
        time the number of visited states has doubled.
        """
        has_slots = any(part.slot and part.is_open for part in parts)
        if not in_full or has_slots:
            if self._answers.build(parts, keep=False):
                return None if in_full else []
        elif (found := self._answers.spelled(parts)) is not None:
            return found
        if has_slots or n_states & (n_states - 1):
            return None
        found = self._answers.spelled(parts, self._tables.loose)
        self._is_spelled = found is not None
        return found

    def _may_end(self, parts: Sequence[Part], at: int) -> bool:
        """Whether the text may end before an open part: only gaps follow, or, where end tokens fill the rest, slots."""
        return all(part.is_open and (part.gap or self._answers.padded) for part in parts[at:])

    def _moves(self, parts: Sequence[Part], state: _State) -> Iterator[_State]:
        """The states that follow from one, whose next part is open: end the gap or add a byte to it, or fill the slot."""
        cost, serial, at, cursor, text, fillings = state
        if parts[at].gap:
            yield state._replace(at=at + 1)
            for byte, after in self._tables.successors(cursor):
                longer = (*fillings[:-1], fillings[-1] + bytes([byte]))
                yield _State(cost + 1, serial, at, after, text + bytes([byte]), longer)
            return
        ways = self._tables.token_successors(cursor)
        self._is_cut = self._is_cut or len(ways.firsts) > MOST_TOKENS
        for token, after in zip(ways.firsts[:MOST_TOKENS].tolist(), ways.cursors[:MOST_TOKENS].tolist(), strict=True):
            filling = self._tables.vocab.tokens[token] or b""
            yield _State(cost + 1, serial, at + 1, after, text + filling, fillings)


def none_found() -> LimitExceeded:
    """What is raised where a text is completable, but none was found to complete it with."""
    return LimitExceeded(
        "complete: no legal text was found within the search budget", expected=f"one within {MOST_SEARCH_STATES} search states"
    )


def unknown(expected: str) -> SearchGivenUp:
    """The error of a search that crossed a limit."""
    return SearchGivenUp("infilling: lexemes compete, and whether a legal filling exists was not found out", expected=expected)


def _apart(parts: Sequence[Part]) -> list[Part]:
    """The same parts, with texts inserted in gaps as parts of their own."""
    out: list[Part] = []
    for part in parts:
        if part.is_open and part.text:
            out += [Part(part.text), Part(gap=True)]
        elif part.gap and part.closed:
            out.append(Part(part.text))
        else:
            out.append(part)
    return out
