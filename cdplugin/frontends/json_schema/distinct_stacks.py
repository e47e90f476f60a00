"""What is still to be written of an item of ``uniqueItems``: a sentential form, as a stack of symbols.

:mod:`cdplugin.frontends.json_schema.distinct_items` follows items by the schema's own rules. The first symbol of a stack is
expanded, by its rules or those of its family's member, until a lexeme comes first: a leftmost derivation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from cdplugin.frontends.json_schema.distinct_values import Chain
from cdplugin.frontends.json_schema.signs import Signs, Text
from cdplugin.ir import Family, GrammarIR, Member, Part, Productive, Symbol, TrackedLexeme

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

PLACE_WORK = 300
"""Units of work for each stack that is visited."""
STACK_BYTES = 120
_MOST_KNOWN = 20_000


def remembered(table: dict[K, V], key: K, make: Callable[[], V]) -> V:
    """Memoise ``make()`` under ``key``; a table that has grown too large is cleared."""
    found = table.get(key)
    if found is None:
        if len(table) > _MOST_KNOWN:
            table.clear()
        found = table[key] = make()
    return found


class Stack(Chain):
    """Symbols that are still to be written, the next one on top; or a set of stacks (a tuple as ``top``, with
    nothing below).
    """

    __slots__ = ()
    merges = True
    top: Any
    below: Stack | None
    nbytes = STACK_BYTES


def pushed(parts: Sequence[Part], below: Stack | None) -> Stack | None:
    """``below`` with symbols pushed on it, the first one topmost."""
    for part in reversed(parts):
        below = Stack(part, below)
    return below


def any_of(stacks: Iterable[Stack]) -> Stack:
    """A stack that stands for any of some stacks, at least one."""
    different = tuple(dict.fromkeys(stacks))
    return different[0] if len(different) == 1 else Stack(different, None)


def alternatives(stack: Stack) -> tuple[Stack, ...]:
    """The stacks that one stands for: itself, or those of :func:`any_of`."""
    return stack.top if type(stack.top) is tuple else (stack,)  # a TrackedLexeme is a tuple, too


def below_top(stack: Stack) -> Stack | None:
    """What follows the lexeme on top, for any value."""
    return pushed(stack.top.rest, stack.below) if isinstance(stack.top, TrackedLexeme) else stack.below


def after_value(stack: Stack, value: Hashable) -> tuple[Stack | None] | None:
    """What follows a value of the lexeme on top, as a 1-tuple; None if the value is excluded."""
    if not isinstance(stack.top, TrackedLexeme):
        return (stack.below,)
    parts = stack.top.then(value)
    return None if parts is None else (pushed(parts, stack.below),)


class Rewriter:
    """Puts ``parts_of(symbol)`` in place of each symbol of a stack. A tail that stacks share is rewritten once, and equal
    results are one object, so that comparing them takes no walk.
    """

    def __init__(self, parts_of: Callable[[Part], Sequence[Part]]) -> None:
        self._parts_of = parts_of
        self._known: dict[Stack, Stack | None] = {}
        self._shared: dict[Stack, Stack] = {}

    def __call__(self, stack: Stack) -> Stack | None:
        """The rewritten stack, None if nothing is left of it."""
        above: list[Stack] = []
        rest: Stack | None = stack
        while rest is not None and rest not in self._known:
            above.append(rest)
            rest = rest.below
        out = None if rest is None else self._known[rest]
        if len(self._known) > _MOST_KNOWN or len(self._shared) > _MOST_KNOWN:
            self._known.clear()
            self._shared.clear()
        for one in reversed(above):
            for part in reversed(self._parts_of(one.top)):
                made = Stack(part, out)
                out = self._shared.setdefault(made, made)
            self._known[one] = out
        return out


def _is_lexeme(part: Part) -> bool:
    return isinstance(part, TrackedLexeme) or (isinstance(part, int) and part < 0)


class Unfolding:
    """Expands the symbols of an array's items by the rules of the schema, and memoises the results.

    ``family``: that of the array, which is charged the work. ``rules``: those of the schema, set once they are complete.
    """

    def __init__(self, ir: GrammarIR, signs: Signs, family: Family[Any]) -> None:
        self.rules: dict[Symbol, list[tuple[Symbol, ...]]] = {}
        self._ir = ir
        self._signs = signs
        self._family = family
        self._productive: Productive = lambda symbol: True
        self._known: dict[tuple[int, Hashable], Sequence[Sequence[Part]]] = {}
        self._unfolded: dict[Part, tuple[int, list[list[Part]]]] = {}

    def begin(self, productive: Productive) -> None:
        """Forget everything, because ``productive`` has changed."""
        self._productive = productive
        self._known.clear()
        self._unfolded.clear()

    def heads(self, stack: Stack) -> list[Stack]:
        """All expansions of the stack that begin with a lexeme. Where the first symbol is nullable (as in long runs of optional
        items), the symbol below it is expanded, too.
        """
        out: list[Stack] = []
        rest: Stack | None = stack
        while rest is not None:
            top, below = rest.top, rest.below
            if _is_lexeme(top):
                self._family.work += PLACE_WORK
                return [*out, rest]
            if isinstance(top, tuple):
                return [*out, *chain.from_iterable(map(self.heads, top))]
            work, ways = remembered(self._unfolded, top, partial(self._unfold, top))
            self._family.work += work
            out += [Stack(way[0], pushed(way[1:], below)) for way in ways if way]
            rest = below if [] in ways else None
        return out

    def _unfold(self, top: Part) -> tuple[int, list[list[Part]]]:
        """All expansions of a symbol, each empty or beginning with a lexeme; and the work to find them."""
        out: list[list[Part]] = []
        pending = [Stack(top, None)]
        n_places = 0
        while pending:
            one = pending.pop()
            n_places += 1
            top = one.top
            if _is_lexeme(top):
                out.append(list(one))
                continue
            member = self.member_on(one)
            rights: Sequence[Sequence[Part]] = ()
            if member is not None:
                rights = self._expanded(*member)
            elif isinstance(top, int):
                rights = [right for right in self.rules.get(top, ()) if all(map(self._productive, right))]
            for right in rights:
                after = pushed(right, one.below)
                if after is None:
                    out.append([])
                else:
                    pending.append(after)
        out.reverse()
        return PLACE_WORK * n_places, out

    def _expanded(self, family: Family[Any], value: Hashable) -> Sequence[Sequence[Part]]:
        """The rules of a family's member."""

        def expanded() -> Sequence[Sequence[Part]]:
            work = family.work
            rights = list(family.expand(value, self._productive))
            if family is not self._family:
                self._family.work += family.work - work
            return rights

        return remembered(self._known, (id(family), value), expanded)

    def member_on(self, stack: Stack) -> tuple[Family[Any], Any] | None:
        """The family and parameter of the member on top of a stack, or None."""
        top = stack.top
        if isinstance(top, Member):
            return top.family, top.value
        return self._ir.instances.get(top) if isinstance(top, int) else None

    def is_text(self, top: Part) -> bool:
        """Whether a symbol is a tracked lexeme."""
        return isinstance(top, TrackedLexeme) or top in self._signs.texts

    def text_of(self, top: Part) -> Text:
        """The reader of a tracked lexeme."""
        symbol = top.lexeme if isinstance(top, TrackedLexeme) else top
        assert isinstance(symbol, int)
        return self._signs.texts[symbol]
