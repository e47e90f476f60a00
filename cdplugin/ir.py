"""The intermediate representation of all front ends: context-free rules over lexemes.

Every front end writes into a :class:`GrammarIR`; :mod:`cdplugin.compiler` reads it. A symbol is an integer: ``n >= 0`` is the
nonterminal with that number, ``~t`` (negative) is the lexeme with number ``t``. Besides plain rules there are two parts whose
rules are made late, while a text is parsed: a :class:`Family` (nonterminals with a parameter) and a :class:`TrackedLexeme`
(what follows depends on the value of its text).

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
"""How a lexeme ends. EXACT (GBNF, regular expressions, JSON): wherever it matches; both its end and its continuation are
followed. LONGEST (Lark): it goes on as long as any LONGEST lexeme that the parser allows can; then every one that matches is
scanned. LAZY: at its shortest match; LONGEST lexemes that compete with it are dropped."""


@dataclass(frozen=True)
class TokenSet:
    """Tokens named by a grammar: ``<name>``, ``<[3,10-20]>``, ``<[^7]>``, ``<[*]>``. They match by id, not by their text.

    ``names``: special (or added) tokens by their text, such as ``"<|eot_id|>"``; ``ranges``: inclusive pairs of ids;
    ``negated``: all tokens of the vocabulary but these; ``where``: line and column, for the message if the vocabulary has no
    such token; ``optional``: names that the vocabulary does not have as special tokens are dropped instead; ``ordinary``:
    names may also be the texts of ordinary tokens; ``ends``: whether a negated set holds the vocabulary's end tokens, which
    end the output wherever they are written.
    """

    names: tuple[str, ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()
    negated: bool = False
    where: str = ""
    optional: bool = False
    ends: bool = True
    ordinary: bool = False


PLACES_PER_LEXEME = 16
"""Places in the spec that are stored of one symbol."""
MOST_COUNTED = 100_000
"""Values of a tracked lexeme are counted up to here; a larger number is treated as this one."""


def enough_values(count: int, max_token_bytes: int) -> int:
    """How many of ``count`` values may be excluded so that some are surely left after one more token, each byte of which may
    end a value. Below 0: values may run out from the start.
    """
    return count - max_token_bytes - 2


@dataclass(eq=False)
class ValueReader:
    """How to read the values of tracked lexemes from their texts (:meth:`GrammarIR.track`).

    ``read(text)``: the value; equal values are one hashable object, however they are spelled. ``plain``: an expression that has
    one spelling of each of its values, by which values are counted. ``needs``: how many values there must be, which ``keyword``
    at ``location`` demands; lexemes of one ``group`` provide them together. ``enough``, set by the compiler: while fewer values
    than that are excluded, others are left. ``is_sign``: the twin stands beside other lexemes, for one that may be impossible
    because too few values would be left further on; through one of them the text can always go on.
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
    """Excluded texts of a tracked lexeme that has finitely many: those of ``before``, and ``added``, which ``before`` lacks.

    ``among``: all texts of the lexeme, sorted, perhaps with others; none is a prefix of another. ``expression``: the excluded
    texts. Compared by identity.
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
    """The last part of a family's rule: a tracked lexeme, on whose value depends what follows.

    ``lexeme``: from :meth:`GrammarIR.track`; ``excluded``: the texts that it must not have (None: none). ``then(value)``: the
    symbols that follow that value, or None if the value is excluded. ``rest``: what follows any value. Masks are computed from
    it, so it must allow all that ``then`` allows. Whatever it allows beyond that must begin with a shadow: the lexeme itself as
    an ordinary symbol, or its twin where fewer than ``ValueReader.enough`` values may be left. ``alike``: not None if the texts
    hold all JSON strings, or all but the shortest; after a text of more than that many bytes, what follows depends on its value
    only in that the value must not come again.
    """

    lexeme: Symbol
    excluded: Expr | Texts | None
    then: Callable[[Hashable], Sequence[Part] | None]
    rest: Sequence[Part]
    alike: int | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """A family's member in what :meth:`Family.expand` returns. There may be any number of them, so the IR stores none."""

    family: Family[Any]
    value: Hashable


_TUPLE_BYTES, _TEXT_BYTES = 40, 56
_RULE_BYTES, _LEXEME_BYTES, _ENTRY_BYTES = 200, 400, 160
"""A rule without its symbols, a lexeme without its expression, an entry of a table, each with its place in lists and tables."""


def places_bytes(places: Iterable[tuple[str, ...]]) -> int:
    """Bytes of places in the spec; a text that several symbols share is counted for each."""
    of_symbols = [*places]
    texts = [*chain.from_iterable(of_symbols)]
    return texts_bytes(texts) + _TUPLE_BYTES * len(of_symbols) + 8 * len(texts)


def texts_bytes(texts: Sequence[str]) -> int:
    """Bytes of texts, an upper bound: all are counted as wide as the widest, which is quickly computed."""
    return getsizeof("".join(texts)) + _TEXT_BYTES * len(texts)


Part = Union[Symbol, TrackedLexeme, "Member"]
"""One part of the right side of a family's rule."""


MOST_TICKS = 1 << 18
"""Largest sum of all ``max_tokens`` of a grammar. Each token is a record of 96 bytes: the lexeme, and how many it has taken."""
_MOST_LEVELS = 128
_LEVELS_OF_A_GRAMMAR = 4
"""Levels of nesting: 32 grammars inside each other, or 128 formats of structural tags, which take a quarter as much stack."""
_MOST_GRAMMARS = 20_000
"""Embedded grammars of one spec."""


@dataclass
class Spent:
    """What all grammars of one spec have spent together, so that many small ones count like a large one.

    ``grammars``: embedded ones; ``text``: bytes read; ``steps`` of merging JSON Schemas; ``ticks``: the sum of all
    ``max_tokens``.
    """

    grammars: int = 0
    text: int = 0
    steps: int = 0
    ticks: int = 0


class Captured(NamedTuple):
    """The name under which a nonterminal's text is captured (None: it is not), and what ends that text without being part of
    it, with a capture name of its own or ``""``.
    """

    name: str | None = None
    stop: tuple[Expr, str] | None = None


class Whole(NamedTuple):
    """A bound on the members of a family, from which queries estimate the shortest ending.

    ``enough``: symbols; the shortest texts of all of them together are at least as long as the shortest ending of any member.
    ``ways``: what stands in members' rules before the next member, or instead of one. ``n_excluded``: the most values that are
    excluded from a tracked lexeme without which a member does not end.
    """

    enough: Sequence[Symbol]
    ways: Sequence[Sequence[Symbol]]
    n_excluded: int = 0


class Family(Generic[Value]):
    """Nonterminals with a parameter: ``members(seen)``, ``items(count)``. The parser asks for a member's rules when it first
    predicts it.

    The parameter is any hashable value: the frozenset of names seen, a count. Only the values that a text leads to cost
    anything, so an object with 30 properties in any order does not cost 30 factorial. Subclasses define the methods; the parts
    that they return may be members of any family (:meth:`GrammarIR.member`). ``has_captures``: whether :meth:`captured` may
    return any. ``work``: units of work (``Limits.max_step_work``) spent on making rules so far, apart from a little per symbol.
    """

    name = ""
    work = 0
    has_captures = False

    def uses(self) -> Iterable[Symbol]:
        """Symbols, other than instances of this family, that some member's rules may mention."""
        raise NotImplementedError

    def nullable(self, value: Value) -> bool:
        """Whether the member derives the empty string. (It must take into account symbols from ``uses`` that do.)"""
        return False

    def satisfiable(self, value: Value, productive: Productive) -> bool:
        """Whether the member derives any string, given which symbols do. Must be monotone in ``productive``."""
        raise NotImplementedError

    def expand(self, value: Value, productive: Productive) -> Iterable[Sequence[Part]]:
        """The right sides of the member's rules. Each must be productive: what it leads to can be completed. A
        :class:`TrackedLexeme` can only be the last part.
        """
        raise NotImplementedError

    def captured(self, value: Value) -> Captured:
        """How the member's text is captured."""
        return Captured()

    def whole(self, productive: Productive) -> Whole | None:
        """A bound on all members; None where it is not known."""
        return None

    def representative(self, value: Value, of: Value | None = None) -> Part | None:
        """A member of about the same shortest length that stands for many. Only a hint, as ``remaining`` is.

        ``of``: the parameter of the member of this family in whose rule it stands, if any.
        """
        return None

    def remaining(self, value: Value) -> int:
        """About how many more members must follow this one. Only a hint: a short ending is searched for where it is small."""
        return 0

    def least_bytes(self, value: Value) -> int:
        """A lower bound of the length of a member's texts. Queries make no rules for members longer than the
        best known text.
        """
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
    fences : LONGEST lexeme -> the bytes before which it never ends, as an expression: for a keyword, letters.
    max_tokens : lexeme -> after how many tokens it ends at the first token boundary at which it matches.
    token_sets : lexeme -> the tokens that it stands for; such a lexeme matches no bytes.
    captures : nonterminal -> the name under which :meth:`cdplugin.Matcher.captures` returns what it derived.
    stops : nonterminal -> what ends its text without being part of its capture, and the capture's name for that, or ``""``.
    start : the start symbol, a nonterminal; the front end sets it.
    tracked : tracked lexemes and their twins -> how to read their values.
    twins : tracked lexeme -> its twin.
    relaxed : ``(keyword, JSON Pointer)`` of what ``on_unsupported="relax"`` did not enforce.
    json_values : nonterminals that derive JSON values, without surrounding white space.
    restriction : if not None, new lexemes are intersected with this expression.
    places : symbol -> where in the spec it comes from, JSON Pointers or lines; for messages only (:meth:`locate`).
    instances : members of a :class:`Family`: ``symbol -> (family, value)``; they have no rules here.
    spent : what the whole spec has spent so far, nested grammars included.
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
        """``(place,)``; successive calls for one place return the same tuple, to save memory."""
        if self._last[0] is not place:
            self._last = (place,)
        return self._last

    def locate(self, symbol: Symbol, places: tuple[str, ...]) -> None:
        """Record where in the spec a symbol comes from. Of many places the first few are stored."""
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
        """The lexeme that matches ``expression``. The same expression object with the same options gives the same symbol.

        ``skip``: a lexeme that may stand before it (:attr:`skips`); ``max_tokens``: see :attr:`max_tokens`; above
        :data:`~cdplugin.limits.BEYOND_TEXT` it is no bound; ``fence``: see :attr:`fences`. Raises ``LimitExceeded`` where all
        ``max_tokens`` add up to more than :data:`MOST_TICKS`.
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
        """Whether there are only rules over lexemes, perhaps with skips: no families, tokens, counts, fences or tracked
        values.
        """
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
        """Count bytes of grammar text. Raises ``LimitExceeded`` where nested grammars together have too many."""
        self.spent.text += size
        if self.spent.text > limits.max_spec_bytes:
            expected, found = at_most(limits, "max_spec_bytes"), str(self.spent.text)
            raise LimitExceeded("the spec is too long, nested specs included", expected=expected, found=found)

    def token(self, tokens: TokenSet, name: str = "", *, skip: Symbol | None = None) -> Symbol:
        """The terminal that matches one token out of ``tokens``."""
        symbol = self._token_of.get((tokens, skip))
        if symbol is None:
            symbol = self._token_of[tokens, skip] = self._new_lexeme(EMPTY, name, EXACT)
            self.token_sets[symbol] = tokens
            if skip is not None:
                self.skips[symbol] = skip
        return symbol

    def track(self, expression: Expr, reader: ValueReader, name: str = "") -> tuple[Symbol, Symbol]:
        """A tracked lexeme, to be used in a :class:`TrackedLexeme`, and its twin. The expression must not match the empty text.

        Raises ``LimitExceeded`` for a reader that needs more than :data:`MOST_COUNTED` values.
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
        """The member of ``family`` for ``value``, for what :meth:`Family.expand` returns: its symbol if the IR has one, else a
        :class:`Member`, which belongs to the arena for which the rules are made.
        """
        symbol = self._instance_of.get((id(family), value))
        return Member(family, value) if symbol is None else symbol

    @property
    def nbytes(self) -> int:
        """Bytes of the rules and of all tables, without the lexemes' expressions."""
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
        """Copy the rules and lexemes of an IR that has nothing else into this one, which must be empty."""
        self.rules += other.rules
        self.names += other.names
        self.lexemes += other.lexemes
        self.lexeme_names += other.lexeme_names
        self.lexings += other.lexings
        self.places.update(other.places)
        self._lexeme_of.update(other._lexeme_of)

    def nested(self, formats: int = 0) -> GrammarIR:
        """An IR that shares this one's symbols but has its own rules and start: another front end writes into it, then
        :meth:`adopt` takes them over.

        ``formats``: how many formats of a structural tag it stands in. Raises ``LimitExceeded`` for grammars that are nested
        too deeply, or too many.
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
        """Add the rules of a :meth:`nested` IR to this one; returns its start symbol."""
        self.rules += inner.rules
        self.relaxed += inner.relaxed
        return inner.start
