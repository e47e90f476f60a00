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

from collections.abc import Sequence

from cdplugin.expr import Expr

Symbol = int


class GrammarIR:
    """Rules over lexemes, lexed *exactly*: where a lexeme may end and may go on, both are kept.

    Attributes
    ----------
    rules : list of ``(nonterminal, tuple of symbols)``, in the order in which they were added.
    lexemes : list of expressions over bytes. A lexeme may be nullable; the compiler turns that into an empty alternative.
    lexeme_names, names : for messages only.
    start : the start symbol; a nonterminal, set by the front end.
    relaxed : ``(keyword, JSON Pointer)`` of what ``on_unsupported="relax"`` did not enforce.
    """

    def __init__(self) -> None:
        self.rules: list[tuple[int, tuple[Symbol, ...]]] = []
        self.names: list[str] = []
        self.lexemes: list[Expr] = []
        self.lexeme_names: list[str] = []
        self.start: int = -1
        self.relaxed: list[tuple[str, str]] = []
        self._lexeme_of: dict[int, Symbol] = {}

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

    def rule(self, left: Symbol, right: Sequence[Symbol]) -> None:
        """Add ``left -> right`` (an empty ``right`` derives the empty string)."""
        self.rules.append((left, tuple(right)))
