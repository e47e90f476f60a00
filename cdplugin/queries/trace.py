"""Traces: a text, token by token, with what was allowed, where in the spec it stands, and what was refused and why.

:meth:`cdplugin.Matcher.trace` makes a :class:`Trace`; so does :meth:`cdplugin.GrammarLogitsProcessor.trace`, with what the
model wanted. ``Trace.text()`` is for a terminal, ``Trace.html()`` a page without scripts that loads nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cdplugin.bits import bit_flags, bitmask_words
from cdplugin.engine.arena import Arena
from cdplugin.engine.expander import StaticTables
from cdplugin.errors import EngineError, LimitExceeded
from cdplugin.ir import PLACES_PER_LEXEME
from cdplugin.kernels.store import layout
from cdplugin.queries import explain
from cdplugin.queries.captures import Rules
from cdplugin.queries.forced import Followed
from cdplugin.vocab.vocabulary import Vocabulary

MOST_PLACES = 8
"""The most places that are named for one position of a text."""


@dataclass(frozen=True, slots=True)
class Place:
    """One way to read on: an open lexeme inside a rule.

    Attributes
    ----------
    lexeme : the name of the lexeme: a terminal, a literal, ``key`` or ``value`` of a JSON Schema.
    rule : the name of the rule that the lexeme stands in, ``""`` where it has none.
    where : where the spec says so: JSON Pointers into a schema (``""`` is its root), or ``line 3, column 1`` of a grammar.
        Several where one lexeme stands for several subschemas and the text does not tell which one it is in.
    """

    lexeme: str
    rule: str
    where: tuple[str, ...]

    @property
    def address(self) -> str:
        """``where`` for a person."""
        return " or ".join(f"#{place}" if not place.startswith("line ") else place for place in self.where)


class PlaceFinder:
    """Finds the places of a matcher's cursors. It keeps the rules that it has read."""

    def __init__(self, tables: StaticTables) -> None:
        self._tables = tables
        self._rules: Rules | None = None
        self._known = (0, -1)

    def find(self, arena: Arena, cursor: int) -> tuple[Place, ...]:
        """Return the places at a cursor, at most :data:`MOST_PLACES`. The caller holds the arena's lock."""
        rules = self._current(arena)
        found: dict[Place, None] = {}
        for row, state in [*arena.pairs(cursor), *explain.after_longest(arena, cursor)]:
            dots, open_lexemes = explain.open_lexemes(arena, rules, row, state)
            for lexeme, at in open_lexemes:
                for place in self._of_lexeme(arena, rules, lexeme, at, dots):
                    found[place] = None
                    if len(found) == MOST_PLACES:
                        return tuple(found)
        return tuple(found)

    def _current(self, arena: Arena) -> Rules:
        """Return the arena's rules, read again if there are more."""
        expander = arena.expand
        known = (id(arena), getattr(expander, "n_dots", 0))
        if self._rules is None or known != self._known:
            self._rules, self._known = Rules(arena), known
        return self._rules

    def _of_lexeme(self, arena: Arena, rules: Rules, lexeme: int, at: list[int], around: list[int]) -> list[Place]:
        """Return the places of an open lexeme that stands at some dots; if none is known, those of the rules ``around`` it."""
        name = explain.lexeme_name(arena, self._tables, lexeme)
        table = self._tables
        own = table.lexemes.places[lexeme] if lexeme < len(table.lexemes.places) else ()
        out = []
        for dot in at[:MOST_PLACES]:
            left = rules.lefts[dot]
            key = self._key_before(rules, dot)
            where = _narrowed(own or key, key, self._rule_places(left))
            where = where or self._rule_places(left) or self._around(rules, around)
            out.append(Place(name, explain.rule_name(arena, table, left), where))
        return out or [Place(name, "", own or self._around(rules, around))]

    def _key_before(self, rules: Rules, dot: int) -> tuple[str, ...]:
        """Return the places of the nearest lexeme before a dot in its rule that has any: a property's name, before
        its value.
        """
        places = self._tables.lexemes.places
        at = dot - 1
        while at >= 0 and rules.symbols[at] != layout.END_OF_RULE and dot - at <= 4:
            lexeme = -2 - rules.symbols[at]
            if 0 <= lexeme < len(places) and places[lexeme]:
                return places[lexeme]
            at -= 1
        return ()

    def _rule_places(self, left: int) -> tuple[str, ...]:
        places = self._tables.rules.places
        return places[left] if left < len(places) else ()

    def _around(self, rules: Rules, dots: list[int]) -> tuple[str, ...]:
        return next(filter(None, (self._rule_places(rules.lefts[dot]) for dot in dots)), ())


def _narrowed(places: tuple[str, ...], key: tuple[str, ...], rule: tuple[str, ...]) -> tuple[str, ...]:
    """Return a lexeme's places, narrowed to those inside the rule's that agree with the property's name before it."""
    if len(places) > 1 and key:
        agreed = tuple(place for place in places if place in key)
        places = agreed or (key if len(places) == PLACES_PER_LEXEME else places)
    if len(places) > 1:
        places = tuple(place for place in places if any(place.startswith(f"{outer}/") for outer in rule)) or places
    return places


MOST_STEPS = 1_000
"""The default limit of a trace's steps."""
_MOST_TEXT = 600
"""Characters of one explanation."""
_MOST_FORCED = 64


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token that the model rated highly: its probability before the mask, and whether the mask let it through."""

    token_id: int
    probability: float
    allowed: bool


@dataclass(frozen=True, slots=True)
class Preference:
    """What the model would have done at a step.

    Attributes
    ----------
    candidates : the likeliest tokens before the mask, the likeliest first.
    removed : the probability, 0 to 1, of all tokens that the mask took away.
    reason : why the likeliest token was refused; ``""`` where it was allowed.
    """

    candidates: tuple[Candidate, ...]
    removed: float
    reason: str = ""

    @property
    def wanted(self) -> Candidate:
        """The likeliest token."""
        return self.candidates[0]


@dataclass(frozen=True, slots=True)
class Step:
    """One place of a text, and the token that came there.

    Attributes
    ----------
    token_id : the token; None at the last place, after which nothing came.
    text : its bytes; empty for special tokens.
    label : the token for a person: its text quoted, or its name.
    start : how many bytes of the text stand before it.
    allowed : how many tokens of the vocabulary the mask allowed here.
    may_end : whether the text could end here.
    accepted : whether the token was allowed; True at the last place.
    reason : why the token was refused; ``""`` where it was not.
    expected : what could come here: bytes, lexemes, rules, the end.
    places : the open lexemes, their rules, and where the spec has them.
    forced : the text that had to come here, as tokens (``forced_tokens(canonical=True)``).
    ending : a shortest legal ending as tokens; None where none was found within its budget.
    preference : what the model wanted; None where no model was asked.
    """

    token_id: int | None
    text: bytes
    label: str
    start: int
    allowed: int
    may_end: bool
    accepted: bool
    reason: str
    expected: str
    places: tuple[Place, ...]
    forced: tuple[int, ...]
    ending: tuple[int, ...] | None
    preference: Preference | None = None


@dataclass(frozen=True)
class Trace:
    """The steps of a text. ``stopped``: why the trace ends before the text does; ``""`` where it does not."""

    vocab: Vocabulary = field(repr=False)
    steps: tuple[Step, ...]
    stopped: str = ""

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    @property
    def accepted(self) -> bool:
        """Whether every token that was traced was allowed."""
        return all(step.accepted for step in self.steps)

    def decode(self, token_ids: Iterable[int]) -> bytes:
        """The bytes of tokens; special tokens have none."""
        return b"".join(self.vocab.tokens[token] or b"" for token in token_ids)

    def label(self, token_id: int) -> str:
        """A token for a person."""
        return token_label(self.vocab, token_id)

    def text(self, width: int = 120) -> str:
        """The trace as lines of text, each at most ``width`` characters."""
        return trace_text(self, width)

    def html(self, title: str = "cdplugin trace", *, max_bytes: int = 8 << 20) -> str:
        """A page that shows the trace: one file that loads nothing, of at most ``max_bytes`` (what is left out is told)."""
        from cdplugin.queries.trace_html import trace_html

        return trace_html(self, title, max_bytes)

    def to_dict(self) -> dict[str, Any]:
        """Lists, dictionaries, text and numbers only, for ``json.dumps``. Bytes that are no text become ``\\xNN``."""
        return {"stopped": self.stopped, "accepted": self.accepted, "steps": [_step_dict(self, step) for step in self.steps]}


def token_label(vocab: Vocabulary, token_id: int) -> str:
    """Return a token for a person: its text quoted, its name, or its number."""
    if not 0 <= token_id < vocab.size:
        return f"token {token_id}"
    text = vocab.tokens[token_id]
    return explain.show(text) if text else vocab.names.get(token_id) or f"token {token_id}"


def trace_tokens(
    matcher: Followed,
    token_ids: Iterable[int],
    limit: int = MOST_STEPS,
    preference: Callable[[tuple[int, ...]], Preference | None] | None = None,
) -> Trace:
    """Follow tokens from a matcher's place, leaving the matcher there (:meth:`cdplugin.Matcher.trace`).

    ``preference(tokens)``: what the model wanted after these tokens. A refused token ends the trace, and so does a budget that
    is crossed.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ValueError(f"trace: limit: expected a positive integer, found {limit!r}")
    probe = matcher.fork()
    writer = _Writer(probe, preference)
    tokens = iter(token_ids)
    stopped = ""
    while True:
        token = next(tokens, None)
        if token is not None and len(writer.steps) == limit:
            stopped = f"the trace has {limit} steps, the most that were asked for"
            break
        if token is None and (probe.is_terminated() or len(writer.steps) == limit):
            break
        try:
            accepted = writer.step(token)
        except LimitExceeded as error:
            stopped = f"a budget was crossed at step {len(writer.steps)}: {error}"
            break
        if token is None:
            break
        if not accepted:
            left = sum(1 for _ in tokens)
            stopped = f"the token of step {len(writer.steps) - 1} is not allowed" + (f"; {left} come after it" if left else "")
            break
    return Trace(probe._here()[0].vocab, tuple(writer.steps), stopped)


class _Writer:
    """Follows tokens and notes each place."""

    def __init__(self, matcher: Followed, preference: Callable[[tuple[int, ...]], Preference | None] | None) -> None:
        self.steps: list[Step] = []
        self._matcher = matcher
        self._preference = preference
        arena, tables, _ = matcher._here()
        self._vocab = arena.vocab
        self._finder = PlaceFinder(tables)
        self._row = np.zeros((1, bitmask_words(self._vocab.size)), np.int32)
        self._start = sum(len(self._vocab.tokens[token] or b"") for token in matcher.tokens)

    def step(self, token: int | None) -> bool:
        """Note the present place and follow ``token``; return whether it was accepted. Raises :class:`LimitExceeded`."""
        matcher, vocab = self._matcher, self._vocab
        known = token is not None and 0 <= token < vocab.size
        text = (vocab.tokens[token] or b"") if token is not None and known else b""
        matcher.fill_next_token_bitmask(self._row)
        allowed = int(bit_flags(self._row).sum())
        may_end = matcher.is_accepting()
        expected, places = self._here()
        preference = self._preference(matcher.tokens) if self._preference is not None else None
        if preference is not None:
            preference = self._explained(preference)
        forced = tuple(matcher.forced_tokens(canonical=True, limit=_MOST_FORCED))
        ending = self._ending()
        if token is None:
            accepted, reason = True, ""
        elif not known:
            accepted, reason = False, f"expected a token from 0 to {vocab.size - 1}, found {token}"
        else:
            accepted = matcher.accept_token(token)
            reason = "" if accepted else _cut(matcher.explain(token))
        label = "" if token is None else token_label(vocab, token)
        ends = text if token not in matcher.stop_token_ids else b""
        ahead = (expected, places, forced, ending, preference)
        self.steps.append(Step(token, ends, label, self._start, allowed, may_end, accepted, reason, *ahead))
        self._start += len(ends)
        return accepted

    def _here(self) -> tuple[str, tuple[Place, ...]]:
        matcher = self._matcher
        arena, tables, cursor = matcher._here()
        if matcher.is_terminated():
            return "nothing: the text has ended", ()
        with arena.lock, arena.one_budget(arena.limits.max_step_work):
            return _cut(explain.expected(arena, tables, cursor)), self._finder.find(arena, cursor)

    def _ending(self) -> tuple[int, ...] | None:
        try:
            return tuple(self._matcher.shortest_completion())
        except (LimitExceeded, EngineError):
            return None

    def _explained(self, preference: Preference) -> Preference:
        wanted = preference.wanted
        if wanted.allowed or not 0 <= wanted.token_id < self._vocab.size:
            return preference
        return Preference(preference.candidates, preference.removed, _cut(self._matcher.explain(wanted.token_id)))


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + "…"


def _shown(text: bytes) -> str:
    return text.decode("utf-8", "backslashreplace")


def _step_dict(trace: Trace, step: Step) -> dict[str, Any]:
    out: dict[str, Any] = {
        "token": step.token_id,
        "text": _shown(step.text),
        **{name: getattr(step, name) for name in ("label", "start", "allowed", "may_end", "accepted", "reason", "expected")},
        "places": [{"lexeme": p.lexeme, "rule": p.rule, "where": list(p.where)} for p in step.places],
        "forced": {"tokens": list(step.forced), "text": _shown(trace.decode(step.forced))},
        "ending": None if step.ending is None else {"tokens": list(step.ending), "text": _shown(trace.decode(step.ending))},
    }
    if step.preference is not None:
        preference = step.preference
        out["preference"] = {
            "removed": preference.removed,
            "reason": preference.reason,
            "candidates": [
                {"token": c.token_id, "label": trace.label(c.token_id), "probability": c.probability, "allowed": c.allowed}
                for c in preference.candidates
            ],
        }
    return out


_HEAD = ("step", "token", "allowed", "where", "what")
_WIDTHS = (5, 16, 8, 34)


def trace_text(trace: Trace, width: int) -> str:
    """Compute :meth:`cdplugin.queries.trace.Trace.text`."""
    lines = [_line(_HEAD, width)]
    for number, step in enumerate(trace.steps):
        lines += [_line(row, width) for row in step_rows(trace, number, step)]
    if trace.stopped:
        lines.append(_fit(f"stopped: {trace.stopped}", width))
    return "\n".join(lines) + "\n"


def step_rows(trace: Trace, number: int, step: Step) -> list[tuple[str, str, str, str, str]]:
    """Return a step as rows of number, token, tokens allowed, place, remark; rows after the first have only a remark."""
    token = "(end)" if step.token_id is None else step.label
    where = "; ".join(dict.fromkeys(_place(p.address, p.rule, p.lexeme) for p in step.places))
    remarks = _remarks(trace, step)
    first = (str(number), token, f"{step.allowed:,}", where, remarks[0] if remarks else "")
    return [first, *(("", "", "", "", remark) for remark in remarks[1:])]


def _place(address: str, rule: str, lexeme: str) -> str:
    inside = f" in {rule}" if rule and not rule.startswith("/") else ""
    return f"{address or '-'} {lexeme}{inside}"


def _remarks(trace: Trace, step: Step) -> list[str]:
    out = []
    if not step.accepted:
        out.append(f"REFUSED: {step.reason}")
    if step.token_id is None or not step.accepted:
        out.append(f"expected {step.expected}")
    ahead = [f"forced: {explain.show(trace.decode(step.forced))}"] if step.forced else []
    if step.may_end:
        ahead.append("the text may end here")
    elif step.ending:
        ahead.append(f"shortest ending: {explain.show(trace.decode(step.ending))}")
    if ahead:
        out.append("; ".join(ahead))
    if step.preference is not None:
        out.append(preference_text(trace, step.preference))
    return out


def preference_text(trace: Trace, preference: Preference) -> str:
    """Return what the model wanted, as a sentence."""
    wanted = preference.wanted
    verdict = "allowed" if wanted.allowed else f"refused: {preference.reason}"
    removed = f"the mask removed {preference.removed:.1%} of the probability"
    return f"the model wanted {trace.label(wanted.token_id)} ({wanted.probability:.1%}), {verdict}; {removed}"


def _line(cells: tuple[str, ...], width: int) -> str:
    out = "  ".join(_fit(cell, size).ljust(size) for cell, size in zip(cells, _WIDTHS, strict=False))
    return _fit(f"{out}  {cells[-1]}".rstrip(), width)


def _fit(text: str, width: int) -> str:
    text = " ".join(text.splitlines())
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"
