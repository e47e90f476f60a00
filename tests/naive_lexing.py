"""Brute-force reference for grammars whose lexemes end at the longest or the shortest match (:mod:`naive` has EXACT ones).

A place in a text is a set of *threads*. A thread is a textbook Earley chart (CACM 13(2), 1970), one column per lexeme, and the
lexemes that are open at its end: ``(lexeme, derivative, begun, tokens used)``. Everything is copied, nothing is shared.

What is defined here:

- LONGEST and LAZY lexemes that a column allows are open together; those that EXACT lexing is for, apart from them.
- A LAZY one that matches ends, with the other LAZY ones that match. If all that are open match and none can go on, they end.
- Otherwise they end when a byte comes that none can go on with; all that match are scanned, and the byte is the next lexeme's.
- If a skip is among what is scanned, the column stays as it is, but only lexemes that may have it before them come next. No
  skip is open before the first lexeme.
- A token terminal matches one whole token where no lexeme is open, or where those that are open match.
- A lexeme that has used up its tokens ends at the first end of a token at which it matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from naive import Derivatives

from cdplugin.grammar import EXACT, LAZY, GrammarIR

Item = tuple[int, int, int]  # rule, dot, column where it began
Column = frozenset[Item]


class Word(NamedTuple):
    lexeme: int
    left: int  # number of the derivative
    begun: bool
    used: int  # tokens that ended inside it


class Chart(NamedTuple):
    columns: tuple[Column, ...]
    after: frozenset[int] = frozenset()  # the skips that have just matched


class Thread(NamedTuple):
    chart: Chart
    words: frozenset[Word]
    exact: bool


class NaiveLexing:
    """Follows tokens through ``ir``; ``terminals``: lexeme → ids of the tokens that it stands for."""

    def __init__(self, ir: GrammarIR, terminals: dict[int, Iterable[int]] | None = None) -> None:
        self.ir = ir
        self.terminals = {lexeme: set(ids) for lexeme, ids in (terminals or {}).items()}
        self.derivatives = Derivatives()
        self.longer: dict[int, bool] = {}
        self.starts = [self.derivatives.convert(e) for e in ir.lexemes]
        self.rules = [(len(ir.names), (ir.start,)), *self.productive(ir.rules)]
        self.skips = set(ir.skips.values())

    def productive(self, rules: Sequence[tuple[int, tuple[int, ...]]]) -> list[tuple[int, tuple[int, ...]]]:
        """The rules that derive some text."""
        known: set[int] = {~t for t, left in enumerate(self.starts) if self.derivatives.alive(left)}
        known |= {lexeme for lexeme, ids in self.terminals.items() if ids}
        while True:
            more = {left for left, right in rules if known.issuperset(right)} - known
            if not more:
                return [(left, right) for left, right in rules if known.issuperset(right)]
            known |= more

    @property
    def empty(self) -> bool:
        return all(left != self.ir.start for left, _ in self.rules)

    def start(self) -> frozenset[Thread]:
        return frozenset(self.boundary(Chart((self.close([], [(0, 0, 0)]),))))

    # the parser

    def close(self, chart: Sequence[Column], seeds: Iterable[Item]) -> Column:
        """Predict and complete until nothing is new."""
        here = len(chart)
        items = set(seeds)
        while True:
            new = set()
            for rule, dot, origin in items:
                left, right = self.rules[rule]
                if dot == len(right):
                    column = items if origin == here else chart[origin]
                    new |= {(r, d + 1, o) for r, d, o in column if d < len(self.rules[r][1]) and self.rules[r][1][d] == left}
                elif right[dot] >= 0:
                    new |= {(r, 0, here) for r, (other, _) in enumerate(self.rules) if other == right[dot]}
                elif self.may_be_empty(right[dot]):
                    new.add((rule, dot + 1, origin))
            if new <= items:
                return frozenset(items)
            items |= new

    def may_be_empty(self, symbol: int) -> bool:
        return symbol not in self.terminals and self.derivatives.nullable(self.starts[~symbol])

    def ends(self, chart: Chart) -> bool:
        return (0, 1, 0) in chart.columns[-1]

    def scan(self, chart: Chart, lexemes: set[int]) -> Chart | None:
        if lexemes & self.skips:
            return Chart(chart.columns, frozenset(lexemes & self.skips))
        seeds = [
            (rule, dot + 1, origin)
            for rule, dot, origin in chart.columns[-1]
            if dot < len(self.rules[rule][1]) and self.rules[rule][1][dot] in lexemes
        ]
        return Chart((*chart.columns, self.close(chart.columns, seeds))) if seeds else None

    def expected(self, chart: Chart) -> set[int]:
        """The lexemes that may come next. (A LAZY one that matches the empty string matches nothing else.)"""
        rights = [(self.rules[rule][1], dot) for rule, dot, _ in chart.columns[-1]]
        found = {right[dot] for right, dot in rights if dot < len(right) and right[dot] < 0}
        found = {x for x in found if x in self.terminals or self.goes_on(self.starts[~x])}  # not just the empty string
        if chart.after:
            found = {x for x in found if self.ir.skips.get(x) in chart.after}
        return {x for x in found if not (self.ir.lexings[~x] == LAZY and self.may_be_empty(x))}

    def boundary(self, chart: Chart) -> list[Thread]:
        """Where nothing has begun: one thread for EXACT lexemes, one for the others; both may be empty."""
        expected = self.expected(chart)
        skips = {self.ir.skips[lexeme] for lexeme in expected if lexeme in self.ir.skips and len(chart.columns) > 1}
        out = []
        for exact in (True, False):
            lexemes = {x for x in expected | skips if x not in self.terminals and (self.ir.lexings[~x] == EXACT) == exact}
            if exact:
                lexemes -= skips
            out.append(Thread(chart, frozenset(Word(x, self.starts[~x], False, 0) for x in lexemes), exact))
        return out

    # the lexer

    def matching(self, words: Iterable[Word]) -> set[int]:
        return {w.lexeme for w in words if w.begun and self.derivatives.nullable(w.left)}

    def goes_on(self, left: int) -> bool:
        """Whether some byte may follow inside the lexeme."""
        if left not in self.longer:
            step, alive = self.derivatives.step, self.derivatives.alive
            self.longer[left] = left != self.derivatives.epsilon and any(alive(step(left, byte)) for byte in range(256))
        return self.longer[left]

    def step(self, threads: Iterable[Thread], byte: int) -> frozenset[Thread]:
        return frozenset(t for thread in threads for t in self.step_thread(thread, byte))

    def step_thread(self, thread: Thread, byte: int) -> list[Thread]:
        derive, alive = self.derivatives.step, self.derivatives.alive
        stepped = [w._replace(left=derive(w.left, byte), begun=True) for w in thread.words]
        words = frozenset(w for w in stepped if alive(w.left))
        if not words:
            matched = self.matching(thread.words)
            if thread.exact or not matched:
                return []
            after = self.scan(thread.chart, matched)
            return [t for begin in self.boundary(after) for t in self.step_thread(begin, byte)] if after else []
        matched = self.matching(words)
        lazy = {lexeme for lexeme in matched if self.ir.lexings[~lexeme] == LAZY}
        if thread.exact:
            out = [thread._replace(words=words)]
        elif lazy:
            out, matched = [], lazy
        elif not any(self.goes_on(w.left) for w in words):
            out = []
        else:
            return [thread._replace(words=words)]
        after = self.scan(thread.chart, matched) if matched else None
        return out + (self.boundary(after) if after else [])

    # tokens

    def accept(self, threads: Iterable[Thread], token: int, text: bytes | None) -> frozenset[Thread]:
        """Where a token leads to, as text and as a terminal; empty if it is not allowed."""
        out: set[Thread] = set()
        if text:
            here = frozenset(threads)
            for byte in text:
                here = self.step(here, byte)
            for thread in here:
                out |= self.tick(thread)
        for thread in threads:
            chart: Chart | None = thread.chart
            words = thread.words
            if not thread.exact and (matched := self.matching(words)):
                chart, words = self.scan(thread.chart, matched), frozenset()
            if chart and not any(w.begun for w in words):
                named = {x for x in self.expected(chart) if token in self.terminals.get(x, ())}
                after = self.scan(chart, named) if named else None
                if after:
                    out |= set(self.boundary(after))
        return frozenset(t for t in out if t.words or self.expected(t.chart) or self.ends(t.chart))

    def tick(self, thread: Thread) -> set[Thread]:
        limits = self.ir.max_tokens
        ended, kept = set(), set()
        for word in thread.words:
            limit = limits.get(word.lexeme)
            if limit is None or not word.begun:
                kept.add(word)
                continue
            word = word._replace(used=min(word.used + 1, limit))
            if word.used == limit and self.derivatives.nullable(word.left):
                ended.add(word.lexeme)
            else:
                kept.add(word)
        out = {thread._replace(words=frozenset(kept))} if kept or not ended else set()
        if ended and (after := self.scan(thread.chart, ended)):
            out |= set(self.boundary(after))
        return out

    def accepting(self, threads: Iterable[Thread]) -> bool:
        """Whether the text may end: at a boundary, or where the open LONGEST lexemes match."""
        for thread in threads:
            if not any(w.begun for w in thread.words) and self.ends(thread.chart):
                return True
            if not thread.exact and (matched := self.matching(thread.words)):
                after = self.scan(thread.chart, matched)
                if after and self.ends(after):
                    return True
        return False

    def allowed(self, threads: Iterable[Thread], tokens: Sequence[bytes | None]) -> set[int]:
        return {i for i, text in enumerate(tokens) if self.accept(threads, i, text)}
