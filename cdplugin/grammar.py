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

from cdplugin.expr import Expr

Symbol = int


class Family:
    """Nonterminals with a parameter: ``members(seen)``, ``items(count)``. Their rules are made when one is first predicted.

    A parameter is any hashable value: a frozenset of keys that were seen, a count. Only the values that a text leads to cost
    anything, so an object with 30 properties in any order is no factorial. Subclasses give the methods; symbols that they
    return may be instances of any family (:meth:`GrammarIR.instance`).
    """

    name = ""

    def uses(self) -> Iterable[Symbol]:
        """Symbols, other than instances of this family, that some member's rules may mention."""
        raise NotImplementedError

    def nullable(self, value: Hashable) -> bool:
        """Whether the member derives the empty string. (Symbols from ``uses`` that derive it must be taken into account.)"""
        raise NotImplementedError

    def satisfiable(self, value: Hashable, productive: Callable[[Symbol], bool]) -> bool:
        """Whether the member derives any string, given which symbols do; monotone in ``productive``."""
        raise NotImplementedError

    def expand(self, value: Hashable, productive: Callable[[Symbol], bool]) -> Iterable[Sequence[Symbol]]:
        """The right sides of the member's rules. Each must be productive: what it leads to can be completed."""
        raise NotImplementedError


class GrammarIR:
    """Rules over lexemes, lexed *exactly*: where a lexeme may end and may go on, both are kept.

    Attributes
    ----------
    rules : list of ``(nonterminal, tuple of symbols)``, in the order in which they were added.
    lexemes : list of expressions over bytes. A lexeme may be nullable; the compiler turns that into an empty alternative.
    lexeme_names, names : for messages only.
    start : the start symbol; a nonterminal, set by the front end.
    relaxed : ``(keyword, JSON Pointer)`` of what ``on_unsupported="relax"`` did not enforce.
    instances : nonterminals that belong to a :class:`Family`, as ``symbol -> (family, value)``; they have no rules here.
    """

    def __init__(self) -> None:
        self.rules: list[tuple[int, tuple[Symbol, ...]]] = []
        self.names: list[str] = []
        self.lexemes: list[Expr] = []
        self.lexeme_names: list[str] = []
        self.start: int = -1
        self.relaxed: list[tuple[str, str]] = []
        self.instances: dict[Symbol, tuple[Family, Hashable]] = {}
        self._lexeme_of: dict[int, Symbol] = {}
        self._instance_of: dict[tuple[int, Hashable], Symbol] = {}

    def nonterminal(self, name: str = "") -> Symbol:
        """A new nonterminal."""
        self.names.append(name)
        return len(self.names) - 1

    def lexeme(self, expression: Expr, name: str = "") -> Symbol:
        """The lexeme that matches ``expression``. The same expression object gives the same symbol."""
        symbol = self._lexeme_of.get(id(expression))
        if symbol is None:
            self.lexemes.append(expression)  # keeps the object alive, so that its id stays its own
            self.lexeme_names.append(name)
            symbol = ~(len(self.lexemes) - 1)
            self._lexeme_of[id(expression)] = symbol
        return symbol

    def instance(self, family: Family, value: Hashable) -> Symbol:
        """The nonterminal of ``family`` for ``value``; the same symbol for an equal value."""
        symbol = self._instance_of.get((id(family), value))
        if symbol is None:
            symbol = self._instance_of[id(family), value] = self.nonterminal(family.name)
            self.instances[symbol] = (family, value)  # keeps the family alive, so that its id stays its own
        return symbol

    def rule(self, left: Symbol, right: Sequence[Symbol]) -> None:
        """Add ``left -> right`` (an empty ``right`` derives the empty string)."""
        self.rules.append((left, tuple(right)))
