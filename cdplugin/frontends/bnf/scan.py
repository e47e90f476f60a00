r"""The scanner of BNF text: white space, names, literals, classes, counts, and errors with their position.

The two syntaxes differ in details:

- ``gbnf``: llama.cpp's ``grammars/README.md`` and ``src/llama-grammar.cpp``. Escapes ``\n \r \t \\ \" \[ \] \-``, ``\xHH``,
  ``\uHHHH``, ``\UHHHHHHHH``; literals and classes may hold line breaks.
- ``xgrammar``: its ``docs/defining_structures/ebnf_grammar.md``. More escapes, ``\xH…`` of any length, no raw line breaks,
  names with dots, ``[^]`` for any character.
"""

from __future__ import annotations

import re
from typing import NoReturn

from cdplugin.errors import GrammarError
from cdplugin.expr import MAX_CODE_POINT, negate_ranges, normalise_ranges
from cdplugin.frontends.source import Source
from cdplugin.limits import Limits

Ranges = tuple[tuple[int, int], ...]

GBNF, XGRAMMAR = "gbnf", "xgrammar"
NAME = {GBNF: re.compile(r"[A-Za-z0-9_-]+"), XGRAMMAR: re.compile(r"[A-Za-z_.-][A-Za-z0-9_.-]*")}
_SPACE = re.compile(r"(?:[ \t\r\n]+|#[^\r\n]*)*")
_SPACE_IN_LINE = re.compile(r"(?:[ \t]+|#[^\r\n]*)*")
_PLAIN = re.compile(r'[^"\\\r\n]+')
_DIGITS = re.compile(r"[0-9]+")
_DECIMAL = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+")
_HEX = re.compile(r"[0-9A-Fa-f]*")
_CONTROL = {
    GBNF: {"n": 10, "r": 13, "t": 9},
    XGRAMMAR: {"n": 10, "r": 13, "t": 9, "b": 8, "f": 12, "a": 7, "v": 11, "0": 0, "e": 27},
}
_ITSELF = {GBNF: '\\"[]-', XGRAMMAR: "\"\\/'?"}
_ITSELF_IN_CLASS = {GBNF: '\\"[]-', XGRAMMAR: "\"\\/'?^$.*+()[]{}|-"}
_HEX_LENGTHS = {"x": 2, "u": 4, "U": 8}


class Scanner:
    """A position in a source text. ``fail``, ``refuse`` and ``exceed`` raise, with line, column and a caret."""

    def __init__(self, source: Source, syntax: str, limits: Limits) -> None:
        self.source = source
        self.text = source.text
        self.end = len(self.text)
        self.syntax = syntax
        self.limits = limits
        self.pos = 0
        self.broken_literal = -1
        """Start of a literal that holds a line break: probably its closing quote was forgotten."""

    # --- errors ---------------------------------------------------------------------------------------------------------

    def found(self, at: int | None = None) -> str:
        """The character or name at a position, for a message."""
        at = self.pos if at is None else at
        if at >= self.end:
            return "the end of the grammar"
        char = self.text[at]
        if char in "\r\n":
            return "the end of the line"
        name = NAME[self.syntax].match(self.text, at)
        return repr(name.group()[:40]) if name else repr(char)

    def fail(self, message: str, at: int | None = None, *, expected: str = "", found: str | None = None) -> NoReturn:
        """Raise :class:`GrammarError` at a position (default: the current one)."""
        raise self.mistake(message, at, expected=expected, found=found)

    def mistake(self, message: str, at: int | None = None, *, expected: str = "", found: str | None = None) -> GrammarError:
        """The error that :meth:`fail` raises."""
        at = self.pos if at is None else at
        found = self.found(at) if expected and found is None else found
        if 0 <= self.broken_literal < at:
            message += f" (the literal that begins at {self.source.where(self.broken_literal)} holds a line break)"
        return self.source.error(message, at, expected=expected, found=found or "")

    def refuse(self, what: str, at: int, instead: str) -> NoReturn:
        """Raise :class:`UnsupportedError`; ``instead``: what to write."""
        self.source.refuse(f"{what} is not supported: {instead}", at)

    def exceed(self, message: str, at: int, limit: str, most: int) -> NoReturn:
        """Raise :class:`LimitExceeded`."""
        self.source.exceed(message, at, expected=f"at most Limits.{limit} = {most}", found="")

    # --- reading --------------------------------------------------------------------------------------------------------

    def peek(self, n: int = 1) -> str:
        """The next ``n`` characters, fewer at the end."""
        return self.text[self.pos : self.pos + n]

    def skip(self, newlines: bool) -> None:
        """Skip white space and comments, and line breaks if ``newlines``."""
        match = (_SPACE if newlines else _SPACE_IN_LINE).match(self.text, self.pos)
        assert match is not None
        self.pos = match.end()

    def name(self) -> str | None:
        """Read a rule's name, or return None."""
        match = NAME[self.syntax].match(self.text, self.pos)
        if match is None:
            return None
        self.pos = match.end()
        return match.group()

    def decimal(self) -> None:
        """Skip a temperature, which does not affect masks."""
        match = _DECIMAL.match(self.text, self.pos)
        if match is None:
            self.fail("bad temperature", expected="a number, not negative")
        self.pos = match.end()

    def number(self, what: str, limit: str = "") -> int:
        """Read a decimal number. ``limit``: the name of the limit that bounds it."""
        match = _DIGITS.match(self.text, self.pos)
        if match is None:
            self.fail(f"bad {what}", expected="a number")
        at, self.pos = self.pos, match.end()
        most = getattr(self.limits, limit) if limit else 2**31 - 1
        digits = match.group().lstrip("0")
        if len(digits) > len(str(most)) or int(digits or "0") > most:
            if limit:
                self.exceed(f"{what} of {digits[:20]}", at, limit, most)
            self.fail(f"{what} is too large", at, expected=f"at most {most}", found=digits[:20])
        return int(digits or "0")

    def literal(self) -> str:
        """Read a literal and return its text; the scanner stands on its opening quote."""
        start = self.pos
        self.pos += 1
        parts: list[str] = []
        broken = False
        while True:
            match = _PLAIN.match(self.text, self.pos)
            if match is not None:
                parts.append(match.group())
                self.pos = match.end()
            char = self.peek()
            if char == '"':
                self.pos += 1
                if broken:
                    self.broken_literal = start
                return "".join(parts)
            if char == "\\":
                parts.append(chr(self.character(_ITSELF[self.syntax])))
            elif not char:
                self.fail("unclosed literal", start, expected='a closing "', found="the end of the grammar")
            elif self.syntax == XGRAMMAR:
                self.fail("unclosed literal", start, expected='a closing " in the same line (\\n for a line break)')
            else:
                broken = True
                parts.append(char)
                self.pos += 1

    def character(self, itself: str) -> int:
        """Read one character or escape. ``itself``: the characters that a backslash makes literal."""
        char = self.peek()
        if char != "\\":
            self.pos += 1
            return ord(char)
        start = self.pos
        kind = self.text[start + 1 : start + 2]
        self.pos += 2
        if kind in _HEX_LENGTHS:
            return self._hexadecimal(kind, start)
        control = _CONTROL[self.syntax]
        if kind in control:
            return control[kind]
        if kind and kind in itself:
            return ord(kind)
        legal = " ".join("\\" + c for c in [*control, *itself]) + " \\xHH \\uHHHH \\UHHHHHHHH"
        found = "\\" + kind if kind.strip() else "a backslash before " + self.found(start + 1)
        raise self.mistake("unknown escape", start, expected=f"one of {legal}", found=found)

    def _hexadecimal(self, kind: str, start: int) -> int:
        match = _HEX.match(self.text, self.pos)
        digits = match.group() if match else ""
        any_length = kind == "x" and self.syntax == XGRAMMAR
        wanted = _HEX_LENGTHS[kind]
        if not digits or (len(digits) < wanted and not any_length):
            count = "hexadecimal digits" if any_length else f"{wanted} hexadecimal digits"
            self.fail("bad escape", start, expected=f"{count} after \\{kind}", found=repr(digits) if digits else None)
        if not any_length:
            digits = digits[:wanted]
        self.pos += len(digits)
        value = int(digits, 16) if len(digits) < 40 else MAX_CODE_POINT + 1
        if value > MAX_CODE_POINT:
            self.fail("bad escape", start, expected="a code point up to 10FFFF", found=digits[:20])
        if 0xD800 <= value <= 0xDFFF:
            self.fail(
                "bad escape", start, expected="a character (surrogates are none: write \\U and its code point)", found=digits
            )
        return value

    def char_class(self) -> Ranges:
        """Read a class and return its code points; the scanner stands on its opening bracket."""
        start = self.pos
        self.pos += 1
        negated = self.peek() == "^"
        self.pos += negated
        ranges: list[tuple[int, int]] = []
        while True:
            self._in_class(start)
            if self.peek() == "]":
                break
            at = self.pos
            low = self.character(_ITSELF_IN_CLASS[self.syntax])
            high = low
            if self.peek() == "-" and self.text[self.pos + 1 : self.pos + 2] not in ("]", ""):
                self.pos += 1
                self._in_class(start)
                high = self.character(_ITSELF_IN_CLASS[self.syntax])
            if high < low:
                self.fail("range in a class runs backwards", at, expected="the lower end first", found=self.text[at : self.pos])
            ranges.append((low, high))
        self.pos += 1
        if not ranges and not (negated and self.syntax == XGRAMMAR):
            found = self.text[start : self.pos]
            self.fail("empty class", start, expected="at least one character in brackets (] itself is \\])", found=found)
        out = negate_ranges(ranges) if negated else normalise_ranges(ranges)
        if not out:
            self.fail("the class matches no character", start)
        return out

    def _in_class(self, start: int) -> None:
        """Refuse what must not stand in a class."""
        char = self.peek()
        if not char:
            self.fail("unclosed class", start, expected="a closing ]", found="the end of the grammar")
        if self.syntax == XGRAMMAR:
            if char in "\r\n":
                self.fail("unclosed class", start, expected="a closing ] in the same line (\\n for a line break)")
            if char == "\\" and self.peek(2)[1:] in tuple("dDsSwW"):
                self.refuse(f"{self.peek(2)} in a class", self.pos, "write the ranges, as in [0-9] or [a-zA-Z0-9_]")
