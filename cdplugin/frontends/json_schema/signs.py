"""What each symbol of a schema's rules means for a JSON value, so that ``uniqueItems`` can follow values by the rules."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from cdplugin.expr import ALL_BYTES, ALT_OP, EMPTY, EPSILON, LITERALS_OP, Expr, both, byte_mask, cat, complement, repeat
from cdplugin.frontends.json_schema.distinct import PLAIN_TEXTS, Seen, distinct_item, is_any_string
from cdplugin.frontends.json_schema.distinct_values import KEY, NOTHING, VALUE, Container, Event, frozen, read_any
from cdplugin.frontends.json_schema.layout import Layout
from cdplugin.frontends.json_schema.matching import Search
from cdplugin.frontends.json_schema.strings import QUOTE
from cdplugin.ir import GrammarIR, Symbol, ValueReader

_MOST_LISTED = 500
"""Largest number of values of a lexeme that are listed."""
_STRING = cat(QUOTE, repeat(byte_mask(ALL_BYTES)))


@dataclass(eq=False)
class Text:
    """A scalar or a name as a tracked lexeme: the symbols ``lead``, ``lexeme``, ``tail``.

    ``twin``: of ``lexeme``; ``plain``: an untracked lexeme for the same, including the white space before it (None for a
    tracked lexeme of another family); ``constants``: arrays and objects that it may also be, written in ``layout``.
    """

    lexeme: Symbol
    twin: Symbol
    reader: ValueReader
    expression: Expr
    is_key: bool
    layout: Layout | None = None
    plain: Symbol | None = None
    lead: tuple[Symbol, ...] = ()
    tail: tuple[Symbol, ...] = ()
    constants: Sequence[Hashable] = ()
    _texts: dict[Hashable, list[bytes]] | None = None
    _is_listed: bool = False

    @property
    def kind(self) -> str:
        """The kind of event of one of its values."""
        return KEY if self.is_key else VALUE

    def listed(self) -> dict[Hashable, list[bytes]] | None:
        """Its values with their texts, or None if there are many; at least those of the reader's plain texts."""
        if not self._is_listed:
            if self.reader.plain is EMPTY and self.expression.op == LITERALS_OP:
                texts: Sequence[bytes] | None = self.expression.args
            else:
                texts, _ = Search().texts(both(self.expression, self.reader.plain), _MOST_LISTED)
            if texts is not None:
                self._texts = {value: [] for value in self.constants}
                for text in texts:
                    self._texts.setdefault(self.reader.read(text), []).append(text)
            self._is_listed = True
        return self._texts

    def has_another(self, values: Iterable[Hashable], seen: Seen) -> tuple[bool, int]:
        """Whether it was found to have a value that is neither in ``values`` nor in ``seen``; and the derivatives taken."""
        for value in values:
            if not isinstance(value, Container) and value not in seen:
                seen = seen.adding(value)
        others = self.expression if seen.expression is None else both(self.expression, complement(seen.expression))
        return Search().matches_something(others)

    @cached_property
    def takes_any_string(self) -> bool:
        """Whether it visibly takes all strings, or all that are not too short."""
        expression = self.expression
        return any(map(is_any_string, expression.args if expression.op == ALT_OP else (expression,)))

    def strings(self) -> list[Hashable] | None:
        """The strings that it takes, or None if there are many."""
        texts, _ = Search().texts(both(self.expression, _STRING), _MOST_LISTED)
        return None if texts is None else [self.reader.read(text) for text in texts]


class Signs:
    """The meaning of the symbols of a schema's rules, noted while the rules are written."""

    def __init__(self, ir: GrammarIR) -> None:
        self._ir = ir
        self.events: dict[Symbol, Event] = {}
        self.texts: dict[Symbol, Text] = {}
        self._content: dict[Symbol, tuple[Expr, bool, Layout, bool]] = {}
        self._constants: dict[Symbol, Sequence[Any]] = {}
        self._twins: dict[Symbol, Symbol] = {}

    def begin(self, other: Signs) -> None:
        """Copy the notes of another instance."""
        self.events.update(other.events)
        self._content.update(other._content)

    def note(self, symbol: Symbol, event: Event) -> Symbol:
        """Note a symbol with a fixed meaning; returns it."""
        self.events[symbol] = event
        return symbol

    def note_scalar(self, symbol: Symbol, scalar: Expr, layout: Layout, bare: bool, constants: Sequence[Any]) -> None:
        """Note a lexeme of scalars, and of the listed arrays and objects ``constants``."""
        if constants:
            self._constants[symbol] = constants
        self._content.setdefault(symbol, (scalar, False, layout, bare))

    def note_key(self, symbol: Symbol, quoted: Expr, layout: Layout) -> None:
        """Note a lexeme of names with their quotes."""
        self._content.setdefault(symbol, (quoted, True, layout, False))

    def spaces(self, layout: Layout) -> tuple[Symbol, ...]:
        """The symbols before a value or a name that is a lexeme of its own."""
        return () if layout.space is EPSILON else (self.note(self._ir.lexeme(layout.space, "whitespace"), NOTHING),)

    def colon(self, layout: Layout) -> Symbol:
        """The symbol between such a name and its value."""
        return self.note(self._ir.lexeme(layout.colon, ":"), NOTHING)

    def note_tracked(self, lexeme: Symbol, twin: Symbol, is_key: bool) -> None:
        """Note a tracked lexeme of another family."""
        reader = self._ir.tracked[lexeme]
        text = Text(lexeme, twin, reader, self._ir.lexemes[~lexeme], is_key)
        self.texts[lexeme] = self.texts[twin] = text

    def prepare(self, symbol: Symbol) -> Iterator[Symbol]:
        """Make what a lexeme inside an item needs: its event, or its tracked lexeme. Yields all symbols that
        may stand for it.
        """
        if symbol in self._content and symbol not in self.events and symbol not in self.texts:
            scalar, is_key, layout, bare = self._content[symbol]
            values = {read_any(text) for text in scalar.args} if scalar.op == LITERALS_OP and not is_key else set()
            if len(values) == 1:
                self.events[symbol] = (VALUE, values.pop())
            else:
                expression = scalar if is_key else distinct_item(scalar)
                reader = ValueReader(read_any, EMPTY if expression.op == LITERALS_OP else PLAIN_TEXTS)
                lexeme, twin = self._ir.track(expression, reader, self._ir.lexeme_names[~symbol])
                plain = symbol
                if expression is not scalar:
                    plain = self._ir.lexeme(cat(EPSILON if bare else layout.space, expression), self._ir.lexeme_names[~symbol])
                lead = () if bare else self.spaces(layout)
                tail = (self.colon(layout),) if is_key else ()
                constants = [frozen(value) for value in self._constants.get(symbol, ())]
                text = Text(lexeme, twin, reader, expression, is_key, layout, plain, lead, tail, constants)
                self.texts[symbol] = self.texts[plain] = text
                self.texts[lexeme] = self.texts[twin] = replace(text, plain=None, lead=(), tail=())
        if symbol in self.texts:
            text = self.texts[symbol]
            yield from (*text.lead, text.lexeme, text.twin, *text.tail, *([] if text.plain is None else [text.plain]))
        elif symbol in self.events:
            yield from (symbol, self.unsure(symbol))
        else:
            raise AssertionError(f"nobody noted what {self._ir.lexeme_names[~symbol]!r} writes")

    def unsure(self, symbol: Symbol) -> Symbol:
        """The twin of a symbol with a fixed meaning, which stands for it where it may be impossible (a shadow)."""
        if symbol not in self._twins:
            ir = self._ir
            reader = ValueReader(bytes, EMPTY, is_sign=True)
            _, twin = ir.track(ir.lexemes[~symbol], reader, ir.lexeme_names[~symbol])
            self._twins[symbol] = twin
            self.events[twin] = self.events[symbol]
            self._twins[twin] = twin
        return self._twins[symbol]
