"""Separators: texts that surely end a lexeme of longest match, whatever competes with it.

Longest match may forbid an ending: after ``/[a-z]+/`` no ``"x"`` can come, since the ``x`` belongs to the word. A lexeme surely
ends where nothing that competes with it can go on. Either

- the first byte of any lexeme that may come next ends it, as a string that its quote has closed; or
- the first byte of a *separator* does: a text that is skipped (``%ignore``) before what comes next, and that nothing continues
  with the first byte of a lexeme.

If this holds for every lexeme, the shortest texts of lexemes, with separators between them, are legal in any order that the
rules allow. Then a text has no dead ends, and an ending is no longer than these texts. Lexemes are assumed to compete if they
may follow the same lexeme, or two lexemes that may end together, whatever came before: so the result is right, but may be
longer than needed, or nothing. In C++, where ``1 `` is a lexeme besides ``1``, a blank ends no number, but ``/**/`` does.

Whether something continues a match of ``X`` with a byte ``f`` is asked of expressions: do ``X f`` plus anything, and a
competing lexeme, have a text in common?
"""

from __future__ import annotations

from functools import reduce
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from cdplugin.bits import members
from cdplugin.engine.arena import Arena
from cdplugin.engine.programs import bytes_words
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.regex import expressions
from cdplugin.kernels.regex.programs import CONSTANT
from cdplugin.kernels.store import layout
from cdplugin.queries.completion import Endings

_COMMON = (b" ", b"\n", b"\t", b"\r\n", b"/**/", b"#\n", b"//\n", b"--\n", b";\n", b"%\n")
"""Texts that languages skip: white space and comments. Shortest texts of the skips themselves are tried first."""
_MOST_PARTS = 256  # alternatives of a lexeme that may have separators of their own
_MOST_LITERALS = 4096  # literals whose first bytes are read; of more, any byte may come first
_ANY_BYTE = (1 << 256) - 1
_SYMBOL_WORK, _NODE_WORK, _MEMBER_WORK = 200, 200, 50
"""Units of work (Limits.max_step_work) for a symbol of a rule, a node of an expression, a member of a set."""


def separators(arena: Arena, endings: Endings) -> np.ndarray | None:
    """Return the bytes of the longest separator that each lexeme may need (int64); None if one may not end, or that is unknown.

    Unknown are late rules. The caller holds the arena's lock, and grants the work. Raises :class:`LimitExceeded`.
    """
    if arena.expand is not None:
        return None
    found = _Separators(arena, endings)
    out = np.zeros(len(found.lexemes), np.int64)
    for x in found.competing:
        length = found.after(x)
        if length is None:
            return None
        out[x] = length
    return out


class _Separators:
    """Finds separators. Sets of lexemes and of bytes are integers: bit ``n`` for lexeme or byte ``n``.

    ``lexemes``: their records; ``competing``: the LONGEST and LAZY ones, and the skips.
    """

    def __init__(self, arena: Arena, endings: Endings) -> None:
        self._arena = arena
        self._endings = endings
        self.lexemes = arena.lexemes.tolist()
        count = len(self.lexemes)
        followers = _followers(arena, count)
        self._following, self._needed, self._beginning = followers
        self._may_follow = 0
        for follow in self._following:
            self._may_follow |= follow
        named = [x for x in range(count) if not self.lexemes[x][layout.X_IS_SKIP] and not self.lexemes[x][layout.X_N_RANGES]]
        self._skips = sorted({self.lexemes[x][layout.X_SKIP] for x in range(count)} - {-1})
        self._before = {
            skip: sum(1 << x for x in range(count) if self.lexemes[x][layout.X_SKIP] == skip) for skip in self._skips
        }
        self.competing = [x for x in named if self.lexemes[x][layout.X_KIND] != layout.EXACT] + self._skips
        self._lazy = self._either([self._expression(x) for x in named if self.lexemes[x][layout.X_KIND] == layout.LAZY])
        self._ends: dict[tuple[int, int, int], bool] = {}
        self._firsts: dict[int, int] = {}
        self._first: dict[int, dict[int, int]] = {}
        self._matching: dict[bytes, dict[int, int]] = {}  # by word: of the lexemes in ``_fences``, those that match it
        self._unions: dict[int, int] = {}
        self._meetings: dict[tuple[int, int], bool] = {}
        self._fences: dict[int, int] = {}  # bytes before which lexemes never end -> these lexemes
        for x in named:
            if self.lexemes[x][layout.X_FENCE]:
                fence = self._first_bytes(self.lexemes[x][layout.X_FENCE])
                self._fences[fence] = self._fences.get(fence, 0) | 1 << x
        self._rows = self._find_rows(count)
        # the lexemes that compete with each one: those of its rows, with the skips there (none before a text begins)
        self._rivals = self._together({*(row | self._skipped_before(row) for row in self._rows[:-1]), self._beginning}, count)
        self._words = {skip: self._words_of(skip) for skip in self._skips}

    # --- lexemes that compete -------------------------------------------------------------------------------------------------

    def _find_rows(self, count: int) -> list[int]:
        """Return, for each lexeme, the lexemes that may begin in a row after it; and last, those with which a text may begin.

        A row after a lexeme also allows what follows lexemes that may have ended together with it.
        """
        rows = [*self._following, self._beginning]
        alike: dict[int, int] = {}  # what follows -> the lexemes that it follows
        for x in self.competing:
            alike[self._following[x]] = alike.get(self._following[x], 0) | 1 << x
        while True:
            before = list(rows)
            rivals = self._together(set(before), count)
            for x in self.competing:
                self._arena.spend(_MEMBER_WORK * len(alike))
                for following, those in alike.items():
                    others = those & rivals[x] & ~(1 << x)
                    if following & ~rows[x] and any(self._may_end_together(x, y) for y in members(others)):
                        rows[x] |= following
            if rows == before:
                return rows

    def _together(self, rows: set[int], count: int) -> list[int]:
        """Return, for each of ``count`` lexemes, all that are in a row with it."""
        out = [0] * count
        for row in rows:
            self._arena.spend(_MEMBER_WORK * row.bit_count())
            for x in members(row):
                out[x] |= row
        return out

    def _skipped_before(self, row: int) -> int:
        """Return the skips that may come before some lexemes."""
        return sum(1 << skip for skip, before in self._before.items() if row & before)

    def _may_end_together(self, x: int, y: int) -> bool:
        self._arena.spend(_MEMBER_WORK)
        one, other = sorted((self._expression(x), self._expression(y)))
        if not self._first_bytes(one) & self._first_bytes(other):
            return False
        if (one, other) not in self._meetings:
            self._meetings[one, other] = self._meet(one, other)
        return self._meetings[one, other]

    def _union(self, row: int) -> int:
        """Return an expression for all that the competing lexemes of a set match."""
        if row not in self._unions:
            self._unions[row] = self._either([self._expression(x) for x in self.competing if row >> x & 1])
        return self._unions[row]

    # --- separators -----------------------------------------------------------------------------------------------------------

    def after(self, x: int) -> int | None:
        """Return the bytes of the longest separator that ends a match of a lexeme; None if none is found."""
        record = self.lexemes[x]
        if not record[layout.X_IS_SKIP] and not self._stands_for_itself(x):
            return None
        if record[layout.X_KIND] == layout.LAZY:
            return 0
        if not record[layout.X_IS_SKIP]:
            return self._after(x, self._rows[x] | self._skipped_before(self._rows[x]), self._needed[x])
        row, needed = 1 << x, 0  # a skip leaves the row as it is
        for after, next_ in zip(self._rows, self._needed, strict=False):
            if self._skipped_before(after) >> x & 1:
                row, needed = row | after, needed | next_
        return self._after(x, row, needed)

    def _after(self, x: int, row: int, needed: int) -> int | None:
        """Return the bytes of the longest separator between a lexeme and what an ending may need in a row."""
        most = 0
        for skip, first in self._first_after(needed).items():
            for part in self._parts(self._expression(x)):
                if self._does_end(x, part, first):
                    continue
                length = self._shortest(x, part, self._words.get(skip, []), first, row)
                if length is None:
                    return None
                most = max(most, length)
        return most

    def _first_after(self, needed: int) -> dict[int, int]:
        """Return the first bytes of shortest texts of some lexemes, by the skip that may come before these (-1: none)."""
        known = self._first.get(needed)
        if known is None:
            known = self._first[needed] = {}
            self._arena.spend(_MEMBER_WORK * needed.bit_count())
            for x in members(needed):
                record, expression = self.lexemes[x], self._expression(x)
                first = 0  # a token terminal ends anything
                if not record[layout.X_N_RANGES]:
                    word = self._endings.words.of(expression)
                    first = 1 << word[0] if word else self._first_bytes(expression)
                known[record[layout.X_SKIP]] = known.get(record[layout.X_SKIP], 0) | first
        return known

    def _shortest(self, x: int, part: int, words: list[bytes], first: int, row: int) -> int | None:
        """Return the bytes of one or two separators after ``part``, an alternative of a lexeme, that end before a byte of
        ``first``; or None.
        """
        last = [word for word in words if self._is_over(word, first, row)]
        for word in last:
            if self._does_end(x, part, 1 << word[0]):
                return len(word)
        for word in words:
            if word not in last and self._does_end(x, part, 1 << word[0]):
                for other in last:
                    if self._is_over(word, 1 << other[0], row):
                        return len(word) + len(other)
        return None

    def _words_of(self, skip: int) -> list[bytes]:
        """Return texts of a skip, the shortest first."""
        expression = self._expression(skip)
        words = [word for part in self._parts(expression) if (word := self._endings.words.of(part))]
        words += [word for word in _COMMON if word not in words and self._matches(expression, word)]
        return sorted((word for word in words if not self._has_lazy(word)), key=len)

    def _expression(self, x: int) -> int:
        return int(self.lexemes[x][layout.X_EXPRESSION])

    def _stands_for_itself(self, x: int) -> bool:
        """Return whether a shortest text of a lexeme is no skip, and no LAZY lexeme ends inside it."""
        expression = self._expression(x)
        word = self._endings.words.of(expression)
        is_lazy = self.lexemes[x][layout.X_KIND] == layout.LAZY
        # before a lexeme that only begins a text, nothing is skipped
        skip = (
            self._expression(self.lexemes[x][layout.X_SKIP])
            if self._may_follow >> x & 1 and self.lexemes[x][layout.X_SKIP] >= 0
            else 0
        )
        if word is not None:
            return not (skip and self._matches(skip, word)) and not self._has_lazy(word[:-1] if is_lazy else word)
        return self._lazy == expressions.EMPTY and not (skip and self._meet(expression, skip))

    # --- bytes that something may go on with ----------------------------------------------------------------------------------

    def _does_end(self, x: int, part: int, first: int) -> bool:
        """Return whether no competitor of a lexeme continues a match of ``part``, an alternative of it, with one of the bytes
        ``first``.
        """
        if self._fenced(x) & first:
            return False
        key = part, first, self._rivals[x]
        if first and key not in self._ends:
            longer = [CONSTANT, part, *bytes_words(first), CONSTANT, expressions.ALL, layout.K_CAT, 3]
            self._ends[key] = not self._meet(self._arena.evaluate(longer, 0)[0], self._union(self._rivals[x]))
        return not first or self._ends[key]

    def _fenced(self, x: int) -> int:
        """Return the bytes before which a lexeme never ends, because of its own fence or that of one that may have ended with
        it.
        """
        out = 0
        for fence, those in self._fences.items():
            if those >> x & 1 or any(self._may_end_together(x, y) for y in members(those & self._rivals[x])):
                out |= fence
        return out

    def _fenced_after(self, word: bytes, row: int) -> int:
        """Return the bytes before which those lexemes of a row that match a word never end."""
        if word not in self._matching:
            self._matching[word] = {
                fence: sum(1 << x for x in members(those) if self._matches(self._expression(x), word))
                for fence, those in self._fences.items()
            }
        out = 0
        for fence, those in self._matching[word].items():
            out |= fence if those & row else 0
        return out

    def _is_over(self, word: bytes, first: int, row: int) -> bool:
        """Return whether nothing that may begin in a row continues a word with one of the bytes ``first``."""
        if self._fenced_after(word, row) & first:
            return False
        rest = reduce(self._derive, word, self._union(row))
        return not any(self._derive(rest, byte) != expressions.EMPTY for byte in members(self._first_bytes(rest) & first))

    def _matches(self, expression: int, word: bytes) -> bool:
        return self._arena.has_flag(reduce(self._derive, word, expression), expressions.NULLABLE)

    def _has_lazy(self, word: bytes) -> bool:
        """Return whether a LAZY lexeme has ended in a word, or at its end."""
        ended = accumulate(word, self._derive, initial=self._lazy)
        next(ended)  # before the word
        return any(self._arena.has_flag(rest, expressions.NULLABLE) for rest in ended)

    def _first_bytes(self, expression: int) -> int:
        """Return a superset of the bytes with which a match may begin."""
        known = self._firsts.get(expression)
        if known is not None:
            return known
        arena, out = self._arena, 0
        pending, seen = [expression], {expression}
        while pending and out != _ANY_BYTE:
            e = pending.pop()
            kind, words = arena.kind(e), arena.sequence(e)
            parts: list[int] = []
            if kind == layout.K_BYTES:
                out |= int.from_bytes(np.array(words, "<i8").tobytes(), "little")
            elif kind == layout.K_LITERALS:
                out |= self._first_of_literals(e)
            elif kind == layout.K_NOT:
                out = _ANY_BYTE
            elif kind == layout.K_CAT:
                parts = words if arena.has_flag(words[0], expressions.NULLABLE) else words[:1]
            elif kind == layout.K_ALT:
                parts = words
            elif kind in (layout.K_AND, layout.K_REPEAT):
                parts = words[:1]
            pending += [part for part in parts if part not in seen]
            seen.update(parts)
        arena.spend(_NODE_WORK * len(seen))
        self._firsts[expression] = out
        return out

    def _first_of_literals(self, expression: int) -> int:
        text, starts, ends = self._arena.literals(expression)
        if len(starts) > _MOST_LITERALS:
            return _ANY_BYTE
        return sum(1 << byte for byte in np.unique(text[starts[starts < ends]]).tolist())

    # --- expressions ----------------------------------------------------------------------------------------------------------

    def _parts(self, expression: int) -> list[int]:
        """Return the alternatives of an expression."""
        if self._arena.kind(expression) != layout.K_ALT:
            return [expression]
        parts = self._arena.sequence(expression)
        return parts if len(parts) <= _MOST_PARTS else [expression]

    def _either(self, parts: list[int]) -> int:
        """Return the union of some expressions."""
        if not parts:
            return expressions.EMPTY
        words = [word for part in parts for word in (CONSTANT, part)]
        return self._arena.evaluate([*words, layout.K_ALT, len(parts)], 0)[0]

    def _meet(self, one: int, other: int) -> bool:
        """Return whether two expressions have a text in common."""
        return self._arena.is_nonempty(self._arena.evaluate([CONSTANT, one, CONSTANT, other, layout.K_AND, 2], 0)[0])

    def _derive(self, expression: int, byte: int) -> int:
        """Return a derivative, ``EMPTY`` if it matches nothing."""
        if expression == expressions.EMPTY:
            return expressions.EMPTY
        child = self._arena.call(kernels.OP_DERIVE, expression, byte)
        return child if self._arena.is_nonempty(child) else expressions.EMPTY


class _Followers(NamedTuple):
    """For each lexeme, the lexemes that may come next, and those of them that an ending may need; and those that
    begin a text.
    """

    all: list[int]
    needed: list[int]
    beginning: int


def _followers(arena: Arena, count: int) -> _Followers:
    """Return what may come after each of ``count`` lexemes: the follow sets of an LL(1) parser (Aho, Lam, Sethi and Ullman,
    *Compilers*, 4.4).

    They are computed from the first and last lexemes of nonterminals. An ending leaves out what may be empty; and after the
    first ``A`` of a rule ``A: A β`` it goes on without ``β``, since that ``A`` belongs to another rule as well.
    """
    symbols, lefts = arena.tables[layout.DOT_SYMBOL].tolist(), arena.tables[layout.DOT_LEFT].tolist()
    nullable = arena.tables[layout.NULLABLE].tolist()
    rules = []
    for start in arena.tables[layout.RULE_LISTS][::2].tolist():
        end = start
        while symbols[end] != layout.END_OF_RULE:
            end += 1
        rules.append((lefts[start], symbols[start:end]))
    arena.spend(_SYMBOL_WORK * len(symbols))
    first, last = (_outermost(arena, rules, nullable, way) for way in (1, -1))
    after: list[list[int]] = []
    for is_needed in (False, True):
        of_lexeme, of_nonterminal = [0] * (count + 1), [0] * len(nullable)
        for left, right in rules:
            next_ = 0
            for place in range(len(right) - 1, -1, -1):
                code = right[place]
                if code < 0:
                    of_lexeme[-2 - code] |= next_
                    next_ = 1 << (-2 - code)
                    continue
                if not (is_needed and place == 0 and code == left):
                    of_nonterminal[code] |= next_
                if not (is_needed and nullable[code]):
                    next_ = first[code] | (next_ if nullable[code] else 0)
        for nonterminal, next_ in enumerate(of_nonterminal):
            arena.spend(_MEMBER_WORK * last[nonterminal].bit_count())
            for x in members(last[nonterminal]):
                of_lexeme[x] |= next_
        after.append(of_lexeme)
    known = (1 << count) - 1  # without the end
    every, needed = ([next_ & known for next_ in found[:count]] for found in after)
    return _Followers(every, needed, first[lefts[0]] & known)


def _outermost(arena: Arena, rules: list[tuple[int, list[int]]], nullable: list[int], way: int) -> list[int]:
    """Return the lexemes with which each nonterminal may begin (``way`` 1), or end (-1)."""
    found = [0] * len(nullable)
    changed = True
    while changed:
        changed = False
        arena.spend(_SYMBOL_WORK * len(rules))
        for left, right in rules:
            some = found[left]
            for code in right[::way]:
                some |= found[code] if code >= 0 else 1 << (-2 - code)
                if code < 0 or not nullable[code]:
                    break
            changed = changed or some != found[left]
            found[left] = some
    return found
