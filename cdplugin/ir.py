"""The one intermediate representation: rules over lexemes.

Every front end writes into a :class:`GrammarIR`; :mod:`cdplugin.compiler` reads it. A symbol is an integer: ``n >= 0`` is the
nonterminal with that number, ``~t`` (so, negative) is the lexeme with number ``t``.

>>> from cdplugin import expr
>>> ir = GrammarIR()
>>> digit = ir.lexeme(expr.byte_range(48, 57), "DIGIT")
>>> number = ir.nonterminal("number")
>>> ir.rule(number, [digit])
>>> ir.rule(number, [number, digit])
>>> ir.start = number
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from sys import getsizeof
from typing import Any, Generic, NamedTuple, TypeVar, Union

from cdplugin.errors import LimitExceeded
from cdplugin.expr import EMPTY, Expr, both, literals
from cdplugin.limits import BEYOND_TEXT, Limits, at_most

Symbol = int
Productive = Callable[[Symbol], bool]
"""Whether a symbol derives any string."""
Value = TypeVar("Value", bound=Hashable)
EXACT, LONGEST, LAZY = "exact", "longest", "lazy"
"""How a lexeme ends. EXACT (GBNF, regular expressions, JSON): wherever it matches, both its end and its continuation are
kept. LONGEST (Lark): it goes on as long as any LONGEST lexeme that the parser allows can; what matches then is scanned, all
of it. LAZY: at its shortest match, and LONGEST lexemes that were open beside it are dropped."""


@dataclass(frozen=True)
class TokenSet:
    """Tokens named by a grammar: ``<name>``, ``<[3,10-20]>``, ``<[^7]>``, ``<[*]>``. They stand for themselves, not for text.

    ``names``: special (or added) tokens by their text, as ``"<|eot_id|>"``; ``ranges``: inclusive pairs of ids; ``negated``:
    all tokens of the vocabulary but these; ``where``: line and column, for the message when the vocabulary has no such token;
    ``optional``: names that are no special tokens of the vocabulary are left out instead; ``ordinary``: names may also be the
    texts of tokens that are text; ``ends``: whether a negated set holds
    the vocabulary's end tokens, which end the output wherever they are written.
    """

    names: tuple[str, ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()
    negated: bool = False
    where: str = ""
    optional: bool = False
    ends: bool = True
    ordinary: bool = False


PLACES_PER_LEXEME = 16
"""Places in the spec that are kept of one symbol."""
MOST_COUNTED = 100_000
"""Values of a lexeme that keeps its text are counted up to here; more are as good as any number."""


def enough_values(count: int, max_token_bytes: int) -> int:
    """How many of ``count`` values may be used up so that some are left even after one token more, each of whose bytes may end
    one. Below 0: some may be missing from the start.
    """
    return count - max_token_bytes - 2


@dataclass(eq=False)
class ValueReader:
    """How the texts of lexemes that keep theirs are read (:meth:`GrammarIR.track`).

    ``read(text)``: the value of a text; equal values are one hashable object, however they are spelt. ``plain``: an expression
    no two of whose texts have the same value, by which values are counted. ``needs``: how many values there must be, for a
    reader who named them as ``keyword`` at ``location``; lexemes of one ``group`` have them together. ``enough``, set by the
    compiler: while fewer values than that are excluded, others are left. ``is_sign``: the twin stands for a lexeme that may not
    be for want of values further on, beside others: with one of them the text always goes on.
    """

    read: Callable[[bytes], Hashable]
    plain: Expr
    needs: int = 0
    keyword: str = ""
    location: str = ""
    group: object = None
    enough: int = 0
    is_sign: bool = False


class Texts:
    """Texts that a lexeme must not have where it has only finitely many: those of ``before``, and ``added``, which are not.

    ``among``: all texts of the lexeme, sorted, and maybe more; none of them begins with another. ``expression``: the excluded
    ones. Compared by identity.
    """

    __slots__ = ("added", "among", "before")

    def __init__(self, among: tuple[bytes, ...], before: Texts | None, added: tuple[bytes, ...]) -> None:
        self.among = among
        self.before = before
        self.added = added

    @property
    def expression(self) -> Expr:
        found: list[bytes] = []
        texts: Texts | None = self
        while texts is not None:
            found += texts.added
            texts = texts.before
        return literals(found)


class TrackedLexeme(NamedTuple):
    """The end of a family's rule, from a lexeme on that keeps its text: what follows depends on its value.

    ``lexeme``: from :meth:`GrammarIR.track`; ``excluded``: the texts that it must not have (None: any are fine).
    ``then(value)``: what follows after that value, None if it is an excluded one. ``rest``: what follows whatever the value is;
    masks are computed from it, so it must allow all that ``then`` allows. What it allows too much begins with a shadow: the
    lexeme itself, where it is used as a symbol, or its twin where less than ``ValueReader.enough`` values may be left.
    ``alike``: the texts hold all JSON strings, or all but the shortest, and what follows one of more than so many bytes depends
    on it only in that its value must not come again (None: that is not so).
    """

    lexeme: Symbol
    excluded: Expr | Texts | None
    then: Callable[[Hashable], Sequence[Part] | None]
    rest: Sequence[Part]
    alike: int | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """A family's member in what :meth:`Family.expand` gives: there may be any number of them, and the IR notes none."""

    family: Family[Any]
    value: Hashable


_TUPLE_BYTES, _TEXT_BYTES = 40, 56
_RULE_BYTES, _LEXEME_BYTES, _ENTRY_BYTES = 200, 400, 160
"""A rule without its symbols, a lexeme without its expression, an entry of a table: with their places in lists and tables."""


def places_bytes(places: Iterable[tuple[str, ...]]) -> int:
    """Bytes of places in the spec, those that symbols share counted once for each."""
    of_symbols = [*places]
    texts = [*chain.from_iterable(of_symbols)]
    return texts_bytes(texts) + _TUPLE_BYTES * len(of_symbols) + 8 * len(texts)


def texts_bytes(texts: Sequence[str]) -> int:
    """Bytes of texts: all of them counted as wide as the widest, which is quickly found."""
    return getsizeof("".join(texts)) + _TEXT_BYTES * len(texts)


Part = Union[Symbol, TrackedLexeme, "Member"]
"""What a rule of a family is made of."""


MOST_TICKS = 1 << 18
"""Tokens that the ``max_tokens`` of a grammar may add up to: each is a record of 96 bytes of the lexeme that has taken it."""
_MOST_LEVELS = 128
_LEVELS_OF_A_GRAMMAR = 4
"""Grammars inside each other: 32 of them, or formats of structural tags, four of which take as much of Python's stack."""
_MOST_GRAMMARS = 20_000
"""Grammars inside one, written out."""


@dataclass
class Spent:
    """What all grammars of one spec have taken together, so that many that are small count like one that is large.

    ``grammars``: embedded ones; ``text``: bytes that were read; ``steps``: of merging JSON Schemas; ``ticks``: sum of all
    ``max_tokens``.
    """

    grammars: int = 0
    text: int = 0
    steps: int = 0
    ticks: int = 0


class Captured(NamedTuple):
    """The name under which a nonterminal's text is captured (None: it is not); what ends that text without being part of it,
    with a name of its own or ``""``.
    """

    name: str | None = None
    stop: tuple[Expr, str] | None = None


class Whole(NamedTuple):
    """A bound on a family's members.

    ``enough``: symbols of which shortest texts, one of each, are no fewer than any member needs to end. ``ways``: what members'
    rules have before the member that follows, or instead of one. ``n_excluded``: how many values a lexeme must not have, at
    most, that keeps its text (:class:`TrackedLexeme`) and without which the member does not end.
    """

    enough: Sequence[Symbol]
    ways: Sequence[Sequence[Symbol]]
    n_excluded: int = 0


class Family(Generic[Value]):
    """Nonterminals with a parameter: ``members(seen)``, ``items(count)``. Their rules are made when one is first predicted.

    A parameter is any hashable value: a frozenset of keys that were seen, a count. Only the values that a text leads to cost
    anything, so an object with 30 properties in any order is no factorial. Subclasses give the methods; parts that they return
    may be members of any family (:meth:`GrammarIR.member`). ``has_captures``: whether :meth:`captured` may give any. ``work``:
    units of work (``Limits.max_step_work``) that making rules has taken so far, besides a little for each symbol.
    """

    name = ""
    work = 0
    has_captures = False

    def uses(self) -> Iterable[Symbol]:
        """Symbols, other than instances of this family, that some member's rules may mention."""
        raise NotImplementedError

    def nullable(self, value: Value) -> bool:
        """Whether the member derives the empty string. (Symbols from ``uses`` that derive it must be taken into account.)"""
        return False

    def satisfiable(self, value: Value, productive: Productive) -> bool:
        """Whether the member derives any string, given which symbols do; monotone in ``productive``."""
        raise NotImplementedError

    def expand(self, value: Value, productive: Productive) -> Iterable[Sequence[Part]]:
        """The right sides of the member's rules. Each must be productive: what it leads to can be completed. A
        :class:`TrackedLexeme` can only be the last part.
        """
        raise NotImplementedError

    def captured(self, value: Value) -> Captured:
        """What of the member's text is captured."""
        return Captured()

    def whole(self, productive: Productive) -> Whole | None:
        """What is enough to end any member, and what members' rules may open; None where that is not known."""
        return None

    def representative(self, value: Value, of: Value | None = None) -> Part | None:
        """A member of which there are few, and whose shortest texts are about as long. Only a hint, as ``remaining`` is.

        ``of``: the parameter of the member of this family whose rule it stands in, if there is one.
        """
        return None

    def remaining(self, value: Value) -> int:
        """About how many members follow this one at least. Only a hint: a short ending is looked for where it is small."""
        return 0

    def least_bytes(self, value: Value) -> int:
        """A lower bound of the bytes of a member's texts: what is longer than what is known makes no rules."""
        return 0


class GrammarIR:
    """Rules over lexemes.

    Attributes
    ----------
    rules : list of ``(nonterminal, tuple of symbols)``, in the order in which they were added.
    lexemes : list of expressions over bytes. A lexeme may be nullable; the compiler turns that into an empty alternative.
    lexeme_names, names : for messages only.
    lexings : EXACT, LONGEST or LAZY, one per lexeme.
    skips : lexeme -> the LONGEST lexeme (``%ignore``) that may stand before it any number of times, unseen by the rules.
    fences : LONGEST lexeme -> the bytes before which it never ends, as an expression: a keyword, before a letter.
    max_tokens : lexeme -> after how many tokens it ends at the first token boundary at which it matches.
    token_sets : lexeme -> the tokens that it stands for; such a lexeme matches no bytes.
    captures : nonterminal -> the name under which :meth:`cdplugin.Matcher.captures` gives what it derived.
    stops : nonterminal -> what ends its text without being part of its capture, and the capture's name for that, or ``""``.
    start : the start symbol; a nonterminal, set by the front end.
    tracked : lexemes that keep their text, and their twins -> how it is read.
    twins : lexeme that keeps its text -> its twin.
    relaxed : ``(keyword, JSON Pointer)`` of what ``on_unsupported="relax"`` did not enforce.
    json_values : nonterminals that derive JSON values, without white space around them.
    restriction : if not None, lexemes are made to match only what this expression matches as well.
    places : symbol -> where the spec says what it stands for, JSON Pointers or lines, for messages only (:meth:`locate`).
    instances : nonterminals that belong to a :class:`Family`, as ``symbol -> (family, value)``; they have no rules here.
    spent : what the whole spec has taken so far, nested grammars included.
    """

    def __init__(self) -> None:
        self.rules: list[tuple[int, tuple[Symbol, ...]]] = []
        self.names: list[str] = []
        self.lexemes: list[Expr] = []
        self.lexeme_names: list[str] = []
        self.lexings: list[str] = []
        self.skips: dict[Symbol, Symbol] = {}
        self.fences: dict[Symbol, Expr] = {}
        self.max_tokens: dict[Symbol, int] = {}
        self.token_sets: dict[Symbol, TokenSet] = {}
        self.captures: dict[Symbol, str] = {}
        self.stops: dict[Symbol, tuple[Expr, str]] = {}
        self.tracked: dict[Symbol, ValueReader] = {}
        self.twins: dict[Symbol, Symbol] = {}
        self.start: int = -1
        self.relaxed: list[tuple[str, str]] = []
        self.places: dict[Symbol, tuple[str, ...]] = {}
        self._last: tuple[str, ...] = ("",)
        self.instances: dict[Symbol, tuple[Family[Any], Hashable]] = {}
        self.json_values: set[Symbol] = set()
        self.restriction: Expr | None = None
        self.spent = Spent()
        self._level = 0
        self._lexeme_of: dict[tuple[Expr, Expr | None, str, Symbol | None, int | None, Expr | None], Symbol] = {}
        self._token_of: dict[tuple[TokenSet, Symbol | None], Symbol] = {}
        self._instance_of: dict[tuple[int, Hashable], Symbol] = {}

    def nonterminal(self, name: str = "", places: tuple[str, ...] = ()) -> Symbol:
        """A new nonterminal. ``places``: where in the spec it comes from (:meth:`locate`)."""
        names = self.names
        symbol = len(names)
        names.append(name)
        if places:
            self.places[symbol] = places
        return symbol

    def at(self, place: str) -> tuple[str, ...]:
        """``(place,)``; symbols of one place that are noted one after the other share it."""
        if self._last[0] is not place:
            self._last = (place,)
        return self._last

    def locate(self, symbol: Symbol, places: tuple[str, ...]) -> None:
        """Note where in the spec a symbol comes from. One that is written in many places keeps the first few."""
        known = self.places.get(symbol)
        if known is None:
            self.places[symbol] = places
        elif known is not places and len(known) < PLACES_PER_LEXEME:
            new = tuple([place for place in places if place not in known])
            self.places[symbol] = (known + new)[:PLACES_PER_LEXEME]

    def lexeme(
        self,
        expression: Expr,
        name: str = "",
        *,
        lexing: str = EXACT,
        skip: Symbol | None = None,
        max_tokens: int | None = None,
        fence: Expr | None = None,
    ) -> Symbol:
        """The lexeme that matches ``expression``. The same expression object, lexed alike, gives the same symbol.

        ``skip``: the symbol of a lexeme that may stand before it (``%ignore``); ``max_tokens``: see :attr:`max_tokens`,
        no bound above :data:`~cdplugin.limits.BEYOND_TEXT`; ``fence``: see :attr:`fences`. Raises ``LimitExceeded`` where
        all of them add up to more than :data:`MOST_TICKS`.
        """
        if max_tokens is not None and max_tokens > BEYOND_TEXT:
            max_tokens = None
        key = (expression, self.restriction, lexing, skip, max_tokens, fence)
        symbol = self._lexeme_of.get(key)
        if symbol is None:
            if self.restriction is not None:
                expression = both(expression, self.restriction)
            symbol = self._lexeme_of[key] = self._new_lexeme(expression, name, lexing)
            if skip is not None:
                self.skips[symbol] = skip
            if fence is not None:
                self.fences[symbol] = fence
            if max_tokens is not None:
                self._count_ticks(max_tokens)
                self.max_tokens[symbol] = max_tokens
        return symbol

    def _new_lexeme(self, expression: Expr, name: str, lexing: str) -> Symbol:
        lexemes = self.lexemes
        lexemes.append(expression)
        self.lexeme_names.append(name)
        self.lexings.append(lexing)
        return -len(lexemes)

    def is_exact(self) -> bool:
        """Whether all lexemes are EXACT."""
        return self.lexings.count(EXACT) == len(self.lexings)

    def is_bare(self) -> bool:
        """Whether there are only rules over lexemes, perhaps with skips: no families, tokens, counts, fences or values."""
        return not (self.instances or self.token_sets or self.max_tokens or self.fences or self.tracked)

    def _count_ticks(self, max_tokens: int) -> None:
        self.spent.ticks += max_tokens
        if self.spent.ticks > MOST_TICKS:
            raise LimitExceeded(
                "max_tokens is too large",
                expected=f"at most {MOST_TICKS}, summed over the grammar (or more than {BEYOND_TEXT}, which is no bound)",
                found=str(self.spent.ticks),
            )

    def count_text(self, size: int, limits: Limits) -> None:
        """Count the bytes of a grammar's text. Raises ``LimitExceeded`` where those inside each other have too many."""
        self.spent.text += size
        if self.spent.text > limits.max_spec_bytes:
            expected, found = at_most(limits, "max_spec_bytes"), str(self.spent.text)
            raise LimitExceeded("the spec is too long, nested specs included", expected=expected, found=found)

    def token(self, tokens: TokenSet, name: str = "", *, skip: Symbol | None = None) -> Symbol:
        """The terminal that one token out of ``tokens`` matches."""
        symbol = self._token_of.get((tokens, skip))
        if symbol is None:
            symbol = self._token_of[tokens, skip] = self._new_lexeme(EMPTY, name, EXACT)
            self.token_sets[symbol] = tokens
            if skip is not None:
                self.skips[symbol] = skip
        return symbol

    def track(self, expression: Expr, reader: ValueReader, name: str = "") -> tuple[Symbol, Symbol]:
        """A lexeme that keeps its text where it stands in a :class:`TrackedLexeme`, and its twin. It must not match the empty
        string.

        Raises ``LimitExceeded`` for a reader that needs more values than are ever counted.
        """
        if reader.needs > MOST_COUNTED:
            raise LimitExceeded(
                f"{reader.keyword} is too large where values are told apart",
                location=reader.location,
                keyword=reader.keyword,
                expected=f"at most {MOST_COUNTED}",
                found=str(reader.needs),
            )
        if self.restriction is not None:
            expression = both(expression, self.restriction)
        lexeme, twin = (self._new_lexeme(expression, name, EXACT) for _ in range(2))
        self.tracked[lexeme] = self.tracked[twin] = reader
        self.twins[lexeme] = twin
        return lexeme, twin

    def instance(self, family: Family[Value], value: Value) -> Symbol:
        """The nonterminal of ``family`` for ``value``; the same symbol for an equal value."""
        symbol = self._instance_of.get((id(family), value))
        if symbol is None:
            symbol = self._instance_of[id(family), value] = self.nonterminal(family.name)
            self.instances[symbol] = (family, value)  # keeps the family alive, so that its id stays its own
        return symbol

    def member(self, family: Family[Value], value: Value) -> Part:
        """The member of ``family`` for ``value`` in what :meth:`Family.expand` gives: the symbol of one that is noted, else one
        that belongs to the arena for which the rules are made.
        """
        symbol = self._instance_of.get((id(family), value))
        return Member(family, value) if symbol is None else symbol

    @property
    def nbytes(self) -> int:
        """Bytes of the rules and what belongs to them, without the lexemes' expressions."""
        rules = sum(_RULE_BYTES + 8 * len(right) for _, right in self.rules)
        texts = sum(map(str.__sizeof__, filter(None, (*self.names, *self.lexeme_names))))
        lexemes = _LEXEME_BYTES * len(self.lexemes)
        families = {id(family): family for family, _ in self.instances.values()}
        used = sum(len(list(family.uses())) for family in families.values())
        texts += places_bytes(self.places.values())
        return rules + texts + lexemes + _ENTRY_BYTES * (len(self.names) + used + 2 * len(self.instances))

    def rule(self, left: Symbol, right: Sequence[Symbol]) -> None:
        """Add ``left -> right`` (an empty ``right`` derives the empty string)."""
        self.rules.append((left, tuple(right)))

    def begin(self, other: GrammarIR) -> None:
        """Take over rules and lexemes of an IR that has no more than those, into this one, which is empty."""
        self.rules += other.rules
        self.names += other.names
        self.lexemes += other.lexemes
        self.lexeme_names += other.lexeme_names
        self.lexings += other.lexings
        self.places.update(other.places)
        self._lexeme_of.update(other._lexeme_of)

    def nested(self, formats: int = 0) -> GrammarIR:
        """An IR that shares this one's symbols, with rules and a start of its own: another front end writes into it, then
        :meth:`adopt`.

        ``formats``: how many formats of a structural tag it stands in. Raises ``LimitExceeded`` for grammars nested too deeply,
        and too many of them.
        """
        inner = GrammarIR()
        rules, relaxed = inner.rules, inner.relaxed
        inner.__dict__.update(self.__dict__)
        inner.rules, inner.relaxed, inner.start = rules, relaxed, -1
        inner._level += _LEVELS_OF_A_GRAMMAR + formats
        if inner._level > _MOST_LEVELS:
            most = f"at most {_MOST_LEVELS // _LEVELS_OF_A_GRAMMAR}, or fewer with structural tags"
            raise LimitExceeded("grammars are nested too deeply", expected=most, found="more")
        self.spent.grammars += 1
        if self.spent.grammars > _MOST_GRAMMARS:
            raise LimitExceeded("too many grammars inside one", expected=f"at most {_MOST_GRAMMARS}", found="more")
        return inner

    def adopt(self, inner: GrammarIR) -> Symbol:
        """Take over the rules that were written into a :meth:`nested` IR; returns its start symbol."""
        self.rules += inner.rules
        self.relaxed += inner.relaxed
        return inner.start
