"""Brute-force reference for grammars whose lexemes end at the longest or the shortest match (:mod:`naive` has EXACT ones).

A place in a text is a set of *threads*. A thread is a textbook Earley column (CACM 13(2), 1970) and the lexemes that are open:
``(lexeme, derivative, begun, tokens used)``. A column is a set of items that name the columns where they began by number.

What is defined here:

- LONGEST and LAZY lexemes that a column allows are open together; those that EXACT lexing is for, apart from them.
- A LAZY one that matches ends, with the other LAZY ones that match. If all that are open match and none can go on, they end.
- Otherwise they end when a byte comes that none can go on with; all that match are scanned, and the byte is the next lexeme's.
- Threads never meet: each is a way to cut the text, and only lexemes that one column allows compete.
- If a skip is among what is scanned, the column stays as it is, but only lexemes that may have it before them come next. No
  skip is open before the first lexeme. So a skip may end a text that some column both ends and goes on after.
- A lexeme with a fence does not end before a byte that begins a text of it; another that matches there does not, either.
- A token terminal matches one whole token where no lexeme is open, or where those that are open match.
- A lexeme that has used up its tokens ends at the first end of a token at which it matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from naive import Derivatives

from cdplugin.ir import EXACT, LAZY, GrammarIR

Item = tuple[int, int, int]  # rule, dot, column where it began
Column = frozenset[Item]
HERE = -1  # an item that began in its own column


class Word(NamedTuple):
    lexeme: int
    left: int  # number of the derivative
    begun: bool
    used: int  # tokens that ended inside it


class Place(NamedTuple):
    column: int
    after: frozenset[int] = frozenset()  # the skips that have just matched, if not everything may come after them


class Thread(NamedTuple):
    place: Place
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
        self.columns: list[Column] = []
        self.waiting: list[dict[int, list[Item]]] = []  # the items of each column by the symbol after the dot
        self.numbers: dict[Column, int] = {}
        self.closed: dict[frozenset[Item], int] = {}  # the number of the column of some items
        self.stepped: dict[tuple[frozenset[Thread], int], frozenset[Thread]] = {}

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
        return frozenset(self.boundary(Place(self.column([(0, 0, HERE)]))))

    # the parser

    def column(self, seeds: Iterable[Item]) -> int:
        """The number of the column of some items: predict and complete until nothing is new."""
        seeds = frozenset(seeds)
        if seeds not in self.closed:
            self.closed[seeds] = self.close(seeds)
        return self.closed[seeds]

    def close(self, seeds: Iterable[Item]) -> int:
        items: set[Item] = set()
        waiting: dict[int, list[Item]] = {}
        ended = set()  # what began here, too
        agenda = list(seeds)
        while agenda:
            item = agenda.pop()
            if item in items:
                continue
            items.add(item)
            rule, dot, origin = item
            left, right = self.rules[rule]
            if dot == len(right):
                if origin == HERE:
                    ended.add(left)
                    agenda += [(r, d + 1, o) for r, d, o in waiting.get(left, ())]
                else:
                    agenda += self.moved(origin, {left})
                continue
            waiting.setdefault(right[dot], []).append(item)
            if right[dot] >= 0:
                agenda += [(r, 0, HERE) for r, (other, _) in enumerate(self.rules) if other == right[dot]]
            if right[dot] in ended or (right[dot] < 0 and self.may_be_empty(right[dot])):
                agenda.append((rule, dot + 1, origin))
        closed = frozenset(items)
        if closed not in self.numbers:
            self.numbers[closed] = len(self.columns)
            self.columns.append(closed)
            self.waiting.append(waiting)
        return self.numbers[closed]

    def moved(self, number: int, symbols: Iterable[int]) -> set[Item]:
        """The items of a column that wait for one of some symbols, after it."""
        waiting = [item for symbol in symbols for item in self.waiting[number].get(symbol, ())]
        return {(rule, dot + 1, number if origin == HERE else origin) for rule, dot, origin in waiting}

    def may_be_empty(self, symbol: int) -> bool:
        return symbol not in self.terminals and self.derivatives.nullable(self.starts[~symbol])

    def ends(self, place: Place) -> bool:
        return any((rule, dot) == (0, 1) for rule, dot, _ in self.columns[place.column])

    def scan(self, place: Place, lexemes: set[int]) -> Place | None:
        if lexemes & self.skips:
            bare = Place(place.column)
            skips = frozenset(lexemes & self.skips)
            return bare if all(self.ir.skips.get(x) in skips for x in self.expected(bare)) else Place(place.column, skips)
        seeds = self.moved(place.column, lexemes)
        return Place(self.column(seeds)) if seeds else None

    def expected(self, place: Place) -> set[int]:
        """The lexemes that may come next. (A LAZY one that matches the empty string matches nothing else.)"""
        rights = [(self.rules[rule][1], dot) for rule, dot, _ in self.columns[place.column]]
        found = {right[dot] for right, dot in rights if dot < len(right) and right[dot] < 0}
        found = {x for x in found if x in self.terminals or self.goes_on(self.starts[~x])}  # not just the empty string
        if place.after:
            found = {x for x in found if self.ir.skips.get(x) in place.after}
        return {x for x in found if not (self.ir.lexings[~x] == LAZY and self.may_be_empty(x))}

    def boundary(self, place: Place) -> list[Thread]:
        """Where nothing has begun: one thread for EXACT lexemes, one for the others; both may be empty."""
        expected = self.expected(place)
        skips = {self.ir.skips[lexeme] for lexeme in expected if lexeme in self.ir.skips and place.column != 0}
        out = []
        for exact in (True, False):
            lexemes = {x for x in expected | skips if x not in self.terminals and (self.ir.lexings[~x] == EXACT) == exact}
            if exact:
                lexemes -= skips
            out.append(Thread(place, frozenset(Word(x, self.starts[~x], False, 0) for x in lexemes), exact))
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

    def step(self, threads: frozenset[Thread], byte: int) -> frozenset[Thread]:
        if (threads, byte) not in self.stepped:
            self.stepped[threads, byte] = frozenset(t for thread in threads for t in self.step_thread(thread, byte))
        return self.stepped[threads, byte]

    def step_thread(self, thread: Thread, byte: int) -> list[Thread]:
        derive, alive = self.derivatives.step, self.derivatives.alive
        stepped = [w._replace(left=derive(w.left, byte), begun=True) for w in thread.words]
        words = frozenset(w for w in stepped if alive(w.left))
        if not words:
            matched = self.matching(thread.words)
            if thread.exact or not matched or any(self.is_fenced(lexeme, byte) for lexeme in matched):
                return []
            after = self.scan(thread.place, matched)
            return [t for begin in self.boundary(after) for t in self.step_thread(begin, byte)] if after else []
        matched = self.matching(words)
        lazy = {lexeme for lexeme in matched if self.ir.lexings[~lexeme] == LAZY}
        if thread.exact:
            left = frozenset(w for w in words if self.goes_on(w.left))
            out = [thread._replace(words=left)] if left else []
        elif lazy:
            out, matched = [], lazy
        elif not any(self.goes_on(w.left) or w.lexeme in self.ir.fences for w in words):
            out = []
        else:
            return [thread._replace(words=words)]
        after = self.scan(thread.place, matched) if matched else None
        return out + (self.boundary(after) if after else [])

    def is_fenced(self, lexeme: int, byte: int) -> bool:
        """Whether a lexeme never ends before a byte."""
        fence = self.ir.fences.get(lexeme)
        if fence is None:
            return False
        return self.derivatives.alive(self.derivatives.step(self.derivatives.convert(fence), byte))

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
            place: Place | None = thread.place
            words = thread.words
            if not thread.exact and (matched := self.matching(words)):
                place, words = self.scan(thread.place, matched), frozenset()
            if place and not any(w.begun for w in words):
                named = {x for x in self.expected(place) if token in self.terminals.get(x, ())}
                after = self.scan(place, named) if named else None
                if after:
                    out |= set(self.boundary(after))
        return frozenset(t for t in out if t.words or self.expected(t.place) or self.ends(t.place))

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
        if ended and (after := self.scan(thread.place, ended)):
            out |= set(self.boundary(after))
        return out

    def accepting(self, threads: Iterable[Thread]) -> bool:
        """Whether the text may end: at a boundary, or where the open LONGEST lexemes match."""
        for thread in threads:
            if not any(w.begun for w in thread.words) and self.ends(thread.place):
                return True
            if not thread.exact and (matched := self.matching(thread.words)):
                after = self.scan(thread.place, matched)
                if after and self.ends(after):
                    return True
        return False

    def allowed(self, threads: Iterable[Thread], tokens: Sequence[bytes | None]) -> set[int]:
        return {i for i, text in enumerate(tokens) if self.accept(threads, i, text)}
