"""One entry: compile it, then walk some steps and make every call that a server makes; count what each call costs."""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hostile.build import build
from hostile.specs import spec_of

import cdplugin as cd
from cdplugin.admission import admit

STEPS = 60
SMALL_BUDGET = 8
EVERY = 12
"""After so many steps the slower questions are asked: endings, explanations, forced tokens, other matchers."""


@dataclass
class Report:
    """What came of an entry.

    ``outcome``: "ok", "refused" (at compile), "limit" (in a step), "dead end" (the grammar's longest match finds no end, see
    docs/grammars.md), or what must not be: "foreign" (another exception), "wrong" (an answer that contradicts another); the
    parent adds "timeout", "memory" and "crash". ``work``: of the costliest step; ``asked``: of the costliest question of each
    kind that consists of several (a mask under a budget, a step of a trace); ``crossed``: those of them whose answer was a
    ``LimitExceeded``. ``seconds`` of the processor: of the slowest call of each name.
    """

    entry: str
    outcome: str = ""
    message: str = ""
    steps: int = 0
    work: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    megabytes: float = 0.0
    asked: dict[str, int] = field(default_factory=dict)
    crossed: list[str] = field(default_factory=list)


class Walk:
    """The calls of one walk, each timed and counted."""

    def __init__(self, report: Report, tell: Callable[[Report], None]) -> None:
        self.report = report
        self.tell = tell
        self.grammar: cd.Grammar | None = None
        self.entry_kind = ""

    def timed(self, name: str, call: Callable[[], Any]) -> Any:
        self.report.message = f"in {name}"
        self.tell(self.report)  # should it never come back
        before = self._work()
        began = time.process_time()
        try:
            return call()
        finally:
            took = time.process_time() - began
            self.report.seconds[name] = max(round(took, 3), self.report.seconds.get(name, 0.0))
            self.report.work = max(self.report.work, self._work() - before)

    def ask(self, name: str, call: Callable[[], Any]) -> Any:
        """Ask a question of several parts, each with a budget of its own. A crossed budget counts as an answer."""
        before, of_steps = self._work(), self.report.work
        try:
            return self.timed(name, call)
        except cd.LimitExceeded:
            if name not in self.report.crossed:
                self.report.crossed.append(name)
            return None
        finally:
            self.report.work = of_steps
            self.report.asked[name] = max(self._work() - before, self.report.asked.get(name, 0))

    def _work(self) -> int:
        return work_of(self.grammar.counters()) if self.grammar is not None else 0


def work_of(counters: Mapping[str, int]) -> int:
    """The work that a grammar has counted so far."""
    if "work" in counters:
        return counters["work"]
    names = ("nodes_walked", "derivatives", "lexer_transitions", "row_advances")
    return sum(counters[name] for name in names)


def run_entry(entry: Mapping[str, Any], compiler: cd.Compiler, tell: Callable[[Report], None], steps: int = STEPS) -> Report:
    """Compile an entry and walk through it. Never raises."""
    report = Report(entry["id"])
    walk = Walk(report, tell)
    walk.entry_kind = entry["kind"]
    try:
        spec = walk.timed("spec", lambda: spec_of(entry))
        admitted = walk.timed("admit", lambda: _admitted(compiler, spec))
        walk.grammar = walk.timed("compile", lambda: compiler.compile(spec))
    except cd.GrammarError as error:
        if walk.report.message == "in compile" and admitted:
            return _done(report, "wrong", f"admitted at the door, refused by the compiler: {error}")
        return _error(report, "refused", f"{type(error).__name__}: {error}")
    except BaseException as error:
        return _foreign(report, error)
    try:
        if "infill" not in entry:
            _begin(walk)
        problem = _infill(walk, entry) if "infill" in entry else _steps(walk, entry, random.Random(entry["id"]), steps)
        return _done(report, "wrong" if problem else "ok", problem)
    except cd.LimitExceeded as error:
        return _error(report, "limit", f"{report.message}, step {report.steps}: {error}")
    except (cd.EngineError, cd.GrammarError) as error:
        return _error(report, "dead end", f"{report.message}, step {report.steps}: {error}")
    except BaseException as error:
        return _foreign(report, error)


def _admitted(compiler: cd.Compiler, spec: cd.Spec) -> bool:
    """Whether the check at a server's door admits a spec."""
    try:
        admit(compiler, spec)
    except cd.GrammarError:
        return False
    return True


def _begin(walk: Walk) -> None:
    """What a server does before an answer begins: a short ending, and the first mask under a small budget of tokens."""
    assert walk.grammar is not None
    matcher = walk.grammar.matcher()
    row = np.zeros((1, (matcher.grammar.vocab.size + 31) // 32), np.int32)
    walk.ask("first ending", matcher.shortest_completion)
    walk.ask("first budget", lambda: _within(matcher, row, SMALL_BUDGET))


def _done(report: Report, outcome: str, message: str) -> Report:
    report.outcome, report.message = outcome, message[:400]
    return report


def _error(report: Report, outcome: str, message: str) -> Report:
    """Note an error that was raised on purpose. A server has to be able to send its message."""
    try:
        message.encode()
    except UnicodeEncodeError:
        return _done(report, "wrong", f"a message that cannot be encoded: {message!a}")
    return _done(report, outcome, message)


def _foreign(report: Report, error: BaseException) -> Report:
    place = traceback.extract_tb(error.__traceback__)[-1]
    name = place.filename.rsplit("/", 1)[-1]
    text = str(error)[:200]
    return _done(
        report, "foreign", f"{report.message}, step {report.steps}: {type(error).__name__}: {text} ({name}:{place.lineno})"
    )


def _steps(walk: Walk, entry: Mapping[str, Any], rng: random.Random, steps: int) -> str:
    """Steps with random tokens. Returns what is wrong with an answer, or nothing."""
    assert walk.grammar is not None
    matcher = walk.timed("matcher", walk.grammar.matcher)
    problem = _follow(walk, matcher, entry)
    row = np.zeros((1, (matcher.grammar.vocab.size + 31) // 32), np.int32)
    while walk.report.steps < steps and not problem:
        walk.timed("fill", lambda: matcher.fill_next_token_bitmask(row))
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        if not len(allowed):
            return f"an empty mask after {len(matcher.tokens)} tokens"
        token = _some_token(rng, matcher.grammar.vocab, allowed)
        if walk.report.steps % EVERY == EVERY - 1:
            problem = _questions(walk, matcher, row, token, rng)
        if not walk.timed("accept", lambda t=token: matcher.accept_token(t)):
            return f"token {token} is in the mask and is not accepted"
        if matcher.is_terminated():
            walk.timed("reset", matcher.reset)
        walk.report.steps += 1
    return problem


def _follow(walk: Walk, matcher: cd.Matcher, entry: Mapping[str, Any]) -> str:
    """Follow the entry's text byte by byte, and go back."""
    text = entry.get("text", "").encode()
    vocab = matcher.grammar.vocab
    ids = {token: i for i, token in enumerate(vocab.tokens) if token is not None and len(token) == 1}
    for number, byte in enumerate(text):
        if not walk.timed("accept", lambda b=byte: matcher.accept_token(ids[bytes([b])])):
            return f"{text[: number + 1]!r} is not accepted"
    if text and entry.get("whole", True) and not matcher.is_accepting():
        return f"{text!r} may not end"
    matcher.reset()
    return ""


def _some_token(rng: random.Random, vocab: cd.Vocabulary, allowed: np.ndarray) -> int:
    """A random token: any, a long one of some, or a short one of some. An end token only if there is no other."""
    going_on = allowed[~np.isin(allowed, vocab.eos_token_ids)]
    few = [int(rng.choice(going_on if len(going_on) else allowed)) for _ in range(8)]
    return rng.choice(
        [few[0], max(few, key=lambda t: len(vocab.tokens[t] or b"")), min(few, key=lambda t: len(vocab.tokens[t] or b""))]
    )


def _questions(walk: Walk, matcher: cd.Matcher, row: np.ndarray, token: int, rng: random.Random) -> str:
    """Ask what servers ask less often. The matcher stays where it is."""
    vocab = matcher.grammar.vocab
    place = matcher.tokens
    ending = walk.timed("shortest_completion", matcher.shortest_completion)
    if walk.timed("validate", lambda: matcher.validate_tokens(ending)) != len(ending):
        return "a completion that is not accepted"
    walk.timed("explain", lambda: matcher.explain(rng.randrange(vocab.size)))
    walk.timed("explain", lambda: matcher.explain(token))
    walk.timed("forced", lambda: matcher.forced_tokens(limit=20))
    walk.timed("forced", lambda: matcher.forced_tokens(canonical=True, limit=20))
    walk.timed("validate", lambda: matcher.validate_tokens([rng.randrange(vocab.size) for _ in range(4)]))
    other = walk.timed("fork", matcher.fork)
    back = rng.randint(0, len(place))
    walk.timed("rollback", lambda: other.rollback(back))
    if walk.timed("accept again", lambda: other.accept_tokens(place[len(place) - back :])) != back:
        return "tokens are not accepted again after a rollback"
    again = np.zeros_like(row)
    walk.timed("fill", lambda: other.fill_next_token_bitmask(again))
    if not (again == row).all():
        return "another mask after a rollback"
    return _several(walk, matcher, row, len(ending))


def _several(walk: Walk, matcher: cd.Matcher, row: np.ndarray, ending: int) -> str:
    """Masks under budgets of tokens, near and far; a step of a trace; the value so far."""
    for name, budget in (("near budget", ending + 1), ("budget", ending + 8), ("far budget", ending + 100_000)):
        other, within = matcher.fork(), row.copy()
        if walk.ask(name, lambda m=other, w=within, b=budget: _within(m, w, b)) == "legal" and (within & ~row).any():
            return f"a {name} allows what no mask does"
    if matcher.tokens:
        probe = matcher.fork()
        probe.rollback(1)
        trace = walk.ask("trace", lambda: probe.trace(matcher.tokens[-1:], limit=1))
        if trace is not None and not trace.stopped and len(trace.steps) != 1:
            return "a trace without the token that was followed"
        if trace is not None:
            trace.text()
            trace.html()
    if walk.entry_kind in ("JsonSchema", "JsonObject"):
        walk.ask("partial", matcher.partial)
    return ""


def _within(matcher: cd.Matcher, row: np.ndarray, budget: int) -> str:
    """A mask under a budget; "too small" if no ending was found that fits."""
    try:
        matcher.fill_next_token_bitmask(row, budget=budget)
    except cd.BudgetError:
        return "too small"
    return "legal"


def _infill(walk: Walk, entry: Mapping[str, Any]) -> str:
    """A session with the entry's pieces: is it completable, the masks of some places, a completion."""
    assert walk.grammar is not None
    pieces = build(entry["infill"])
    infill = cd.Infill(walk.grammar)
    new = [cd.GAP if p is None else cd.Slots(p) if isinstance(p, int) else p for p in pieces]
    session = walk.timed("new", lambda: infill.new(new))
    if not walk.timed("completable", session.completable):
        return ""
    walk.timed("mask", lambda: session.mask(0))
    text = walk.timed("complete", lambda: session.complete(random.Random(0)))
    data = text.encode() if isinstance(text, str) else text
    matcher = walk.grammar.matcher()
    vocab = walk.grammar.vocab
    ids = {token: i for i, token in enumerate(vocab.tokens) if token is not None and len(token) == 1}
    tokens = [ids[bytes([b])] for b in data]
    accepted = walk.timed("accept", lambda: matcher.accept_tokens(tokens)) == len(tokens) and matcher.is_accepting()
    return "" if accepted else "a completion of gaps that the matcher refuses"
