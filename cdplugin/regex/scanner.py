"""The scanner of the regular expression parser: position, flags, errors, and escapes.

Sources: ECMA-262 section 22.2.1 with Annex B.1.2 (identity escapes); Rust ``regex`` crate, "Syntax"; Python ``re``, "Regular
Expression Syntax".
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from cdplugin.errors import GrammarError, LimitExceeded, UnsupportedError, caret_context
from cdplugin.expr import negate_ranges
from cdplugin.limits import Limits
from cdplugin.memory import fixed_cache
from cdplugin.regex.unicode import EVERYTHING, Ranges, fold_ascii, fold_case, intersection, perl_class, property_ranges, union

HEX = frozenset("0123456789abcdefABCDEF")
LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
DIGITS = frozenset("0123456789")
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_PYTHON_I: Ranges = ((0x49, 0x49), (0x69, 0x69), (0x130, 0x131))
_MOST_TO_FOLD = 64  # parts charged for folding a set of many characters: it has some 3,000 letters with case
_HINTS = {
    "A": "; write ^ for the start of the text",
    "Z": "; write $ for the end of the text",
    "z": "; write $ for the end of the text",
    "h": "; write [0-9A-Fa-f] or [ \\t]",
}


def error_at(
    source: str, position: int, message: str, kind: type[GrammarError] = UnsupportedError, **more: str
) -> GrammarError:
    """The error for a position of a pattern."""
    return kind(message, location=f"position {position}", context=caret_context(source, position), **more)


class Escape(NamedTuple):
    """The meaning of a backslash escape; one field is not None: a code point, a set, an anchor (``"start"``, ``"end"``, a word
    ``"boundary"``, or ``"inside"``: no boundary), or the number or name of a group for a back-reference.
    """

    char: int | None = None
    ranges: Ranges | None = None
    anchor: str | None = None
    group: int | str | None = None


class Scanner:
    """The source text with a position, the dialect, and the current flags.

    ``flags`` is a set of letters: ``i`` ignore case, ``s`` dot matches all, ``m`` multi-line, ``x`` verbose, ``a`` ASCII
    classes (Python's ``a``, Rust's ``-u``), ``R`` CRLF.
    """

    def __init__(self, source: str, dialect: str, flags: frozenset[str], limits: Limits) -> None:
        self.source = source
        self.end = len(source)
        self.pos = 0
        self.dialect = dialect
        self.flags = flags
        self.limits = limits
        self.parts = 0
        """Atoms and ranges of characters read so far, with the operands of set operations."""
        self._folded: dict[Ranges, Ranges] = {}

    def count(self, parts: int) -> None:
        """Charge parts. Raises ``LimitExceeded`` for more than ``max_expr_nodes``."""
        self.parts += parts
        most = self.limits.max_expr_nodes
        if self.parts > most:
            self.exceed(f"a pattern of more parts and ranges of characters than max_expr_nodes ({most})", self.pos)

    # --- errors ---------------------------------------------------------------------------------------------------------

    def fail(self, message: str, position: int | None = None, *, expected: str = "", found: str = "") -> NoReturn:
        """Raise ``GrammarError`` at ``position`` (default: here)."""
        at = self.pos if position is None else position
        if expected and not found:
            found = self.shown(at)
        raise error_at(self.source, at, message, GrammarError, expected=expected, found=found)

    def refuse(self, message: str, position: int) -> NoReturn:
        """Raise ``UnsupportedError`` for a legal construct that is not enforced."""
        raise error_at(self.source, position, f"not supported: {message}")

    def exceed(self, message: str, position: int) -> NoReturn:
        """Raise ``LimitExceeded``."""
        raise error_at(self.source, position, message, LimitExceeded)

    def shown(self, position: int) -> str:
        """The character at ``position`` for a message."""
        return repr(self.source[position]) if position < self.end else "the end of the pattern"

    # --- reading --------------------------------------------------------------------------------------------------------

    def peek(self, offset: int = 0) -> str:
        """The character ``offset`` after the position, or the empty string at the end."""
        return self.source[self.pos + offset : self.pos + offset + 1]

    def take(self, text: str) -> bool:
        """Advance over ``text`` if it is next; returns whether it was."""
        if self.source.startswith(text, self.pos):
            self.pos += len(text)
            return True
        return False

    def skip_verbose(self) -> None:
        """With the ``x`` flag, advance over white space and comments."""
        while "x" in self.flags and self.pos < self.end:
            char = self.source[self.pos]
            if char == "#":
                newline = self.source.find("\n", self.pos)
                self.pos = self.end if newline < 0 else newline + 1
            elif char in " \t\n\r\v\f" or (self.dialect == "rust" and char in "\x85\u200e\u200f\u2028\u2029"):
                self.pos += 1
            else:
                return

    def _hex(self, digits: int, start: int) -> int:
        """Read exactly ``digits`` hexadecimal digits."""
        text = self.source[self.pos : self.pos + digits]
        for i in range(digits):
            if i >= len(text) or text[i] not in HEX:
                self.pos += i
                self.fail(f"bad escape {self.source[start : self.pos]}", expected=f"{digits} hexadecimal digits")
        self.pos += digits
        return int(text, 16)

    def _braced_hex(self, start: int) -> int:
        """Read a code point in hexadecimal and ``}``; the opening brace has been read."""
        close = self.source.find("}", self.pos)
        text = self.source[self.pos : close] if close >= 0 else ""
        if not text or not set(text) <= HEX:
            self.fail("bad code point escape", start, expected="hexadecimal digits and }")
        significant = text.lstrip("0") or "0"
        if len(significant) > 6 or int(significant, 16) > 0x10FFFF:
            self.fail("code point out of range", start, expected="at most 10FFFF", found=significant[:20])
        self.pos = close + 1
        return int(significant, 16)

    # --- escapes --------------------------------------------------------------------------------------------------------

    def escape(self, in_class: bool) -> Escape:
        """Read an escape; the position is at its backslash."""
        start = self.pos
        self.pos += 1
        if self.pos >= self.end:
            self.fail("backslash at the end", start, expected="an escaped character", found="the end of the pattern")
        letter = self.source[self.pos]
        self.pos += 1
        if letter in "dDwWsS":
            return Escape(ranges=self.perl(letter, start))
        if letter in _CONTROLS:
            return Escape(char=_CONTROLS[letter])
        if letter in "pP" and self.dialect != "python":
            return Escape(ranges=self._property(letter == "P", start))
        if letter == "b" and in_class and self.dialect != "rust":
            return Escape(char=8)
        if letter in "bB" and not in_class:
            return Escape(anchor="boundary" if letter == "b" else "inside")
        if letter in DIGITS:
            return self._digits(letter, in_class, start)
        if letter == "x":
            return Escape(char=self._scalar(self._braced_hex(start) if self._brace() else self._hex(2, start), start))
        if letter == "u":
            return Escape(char=self._unicode(start))
        if letter not in LETTERS:
            if self.dialect == "rust" and (ord(letter) > 127 or letter in "<>"):
                if letter in "<>":
                    self.refuse(f"word boundary \\{letter}", start)
                self.fail(f"unknown escape \\{letter}", start)
            return Escape(char=self._surrogate(ord(letter), start) if not in_class else ord(letter))
        return self._letter(letter, in_class, start)

    def _letter(self, letter: str, in_class: bool, start: int) -> Escape:  # noqa: RET503 - fail() does not return
        """Read an escape that only some dialects have."""
        if self.dialect == "ecma":
            if letter == "c":
                if self.peek() not in LETTERS:
                    self.fail("bad control escape \\c", expected="a letter A-Z or a-z")
                self.pos += 1
                return Escape(char=ord(self.source[self.pos - 1]) % 32)
            if letter == "k" and not in_class:
                close = self.source.find(">", self.pos)
                if self.peek() != "<" or close < 0:
                    self.fail("bad back-reference", start, expected="\\k<name>")
                name = self.source[self.pos + 1 : close]
                self.pos = close + 1
                return Escape(group=name)
        else:
            if letter == "a":
                return Escape(char=7)
            if letter == "A" and not in_class:
                return Escape(anchor="start")
            if not in_class and (letter == "z" or (letter == "Z" and self.dialect == "python")):
                return Escape(anchor="end")
            if letter == "U":
                value = self._braced_hex(start) if self._brace() else self._hex(8, start)
                if value > 0x10FFFF:
                    self.fail("code point out of range", start, expected="at most 10FFFF", found=f"{value:X}")
                return Escape(char=self._scalar(value, start))
            if letter == "N" and self.dialect == "python" and self.take("{"):
                close = self.source.find("}", self.pos)
                name = self.source[self.pos : close] if close >= 0 else self.source[self.pos : self.pos + 40]
                try:
                    char = unicodedata.lookup(name)
                except KeyError:
                    char = ""
                if close < 0 or len(char) != 1:
                    self.fail("unknown character name", start, found=repr(name))
                self.pos = close + 1
                return Escape(char=ord(char))
        hint = "" if in_class else _HINTS.get(letter, "")
        names = {"ecma": "ECMA-262", "rust": "Rust", "python": "Python"}
        self.fail(f"unknown escape \\{letter} ({names[self.dialect]} syntax){hint}", start)

    def _brace(self) -> bool:
        return self.dialect == "rust" and self.take("{")

    def _scalar(self, value: int, start: int) -> int:
        if self.dialect == "rust" and 0xD800 <= value <= 0xDFFF:
            self.fail("not a Unicode scalar value", start, found=f"{value:X}")
        return value

    def _surrogate(self, value: int, start: int) -> int:
        """Refuse a lone surrogate outside a class: it matches nothing, so its author meant something else."""
        if 0xD800 <= value <= 0xDFFF:
            self.refuse("lone surrogate, which no Unicode text contains (write the code point as \\u{…})", start)
        return value

    def _unicode(self, start: int) -> int:
        r"""After ``\u``: four digits, ``{…}``, and in ECMA-262 a pair of surrogates in two escapes."""
        if self.dialect != "python" and self.take("{"):
            return self._scalar(self._braced_hex(start), start)
        value = self._scalar(self._hex(4, start), start)
        if self.dialect == "ecma" and 0xD800 <= value <= 0xDBFF and self.source.startswith("\\u", self.pos):
            low = self.source[self.pos + 2 : self.pos + 6]
            if len(low) == 4 and set(low) <= HEX and 0xDC00 <= int(low, 16) <= 0xDFFF:
                self.pos += 6
                return 0x10000 + ((value - 0xD800) << 10) + int(low, 16) - 0xDC00
        return value

    def _digits(self, first: str, in_class: bool, start: int) -> Escape:
        """Read ``\\0``, an octal escape (Python), or a back-reference (refused in Rust, which has none)."""
        text = first
        if self.dialect == "python":
            while len(text) < 3 and self.peek() and self.peek() in "01234567":
                text += self.peek()
                self.pos += 1
            if set(text) <= set("01234567") and (text[0] == "0" or in_class or len(text) == 3):
                if int(text, 8) > 0o377:
                    self.fail(f"octal escape \\{text} out of range", start, expected="at most 377", found=text)
                return Escape(char=int(text, 8))
            if len(text) == 1 and self.peek() and self.peek() in DIGITS and not in_class:
                text += self.peek()
                self.pos += 1
        elif first == "0" and self.dialect == "ecma":
            if self.peek() in DIGITS and self.peek():
                self.fail("octal escape", start, expected="\\xHH", found=self.source[start : start + 3])
            return Escape(char=0)
        if in_class or first == "0":
            self.fail(f"bad escape \\{first}", start, expected="\\xHH", found=f"\\{first}")
        if self.dialect == "rust":
            self.refuse(f"back-reference \\{first} (not in Rust's syntax; in the dialects ecma and python)", start)
        while self.dialect == "ecma" and self.peek() and self.peek() in DIGITS:
            text += self.peek()
            self.pos += 1
        return Escape(group=int(text[:9]))

    def perl(self, letter: str, start: int) -> Ranges:
        """The set of ``\\d``, ``\\w``, ``\\s`` or a complement. ``\\b`` uses that of ``\\w``, too."""
        if self.dialect == "rust" and "a" in self.flags and letter.isupper():
            self.refuse(f"\\{letter} without Unicode, which would match invalid UTF-8", start)
        found = perl_class(letter.lower(), self.dialect, "a" in self.flags)
        if "i" in self.flags and self.dialect == "ecma":
            found = self.fold(found)
        return negate_ranges(found) if letter.isupper() else found

    def _property(self, negated: bool, start: int) -> Ranges:
        r"""After ``\p`` or ``\P``: ``{name}``, ``{name=value}``; in Rust one letter, ``:`` for ``=``."""
        if self.dialect == "rust" and "a" in self.flags:
            self.refuse("Unicode property without Unicode (?-u)", start)
        if self.take("{"):
            close = self.source.find("}", self.pos)
            if close < 0:
                self.fail("unclosed Unicode property", start, expected="}", found="the end of the pattern")
            name = self.source[self.pos : close]
            self.pos = close + 1
        elif self.dialect == "rust" and self.pos < self.end:
            name = self.source[self.pos]
            self.pos += 1
        else:
            self.fail("bad Unicode property", expected="{ and a property name")
        found = property_ranges(name.replace(":", "=", 1) if self.dialect == "rust" else name)
        if found is None:
            self.refuse(f"unknown Unicode property {name[:60]!r}", start)
        if "i" not in self.flags:
            return negate_ranges(found) if negated else found
        if self.dialect == "ecma":  # complement first (CompileToCharSet), then fold (the comparison; 22.2.2.7.2)
            return self.fold(negate_ranges(found) if negated else found)
        return negate_ranges(self.fold(found)) if negated else self.fold(found)

    # --- case and classes ------------------------------------------------------------------------------------------------

    def fold(self, ranges: Ranges) -> Ranges:
        """Close a set under case: simple folding, of ASCII letters only with ``a``; in Python with the dotted and dotless i."""
        if "a" in self.flags:
            return fold_ascii(ranges)
        found = self._folded.get(ranges)
        if found is None:
            self.count(min(_MOST_TO_FOLD, sum(high - low for low, high in ranges) >> 4))
            found = self._folded[ranges] = self._folding()(ranges)
        return found

    def fold_char(self, code_point: int) -> Ranges:
        """The case variants of one character."""
        return _folded_char(code_point, self._folding())

    def _folding(self) -> Callable[[Ranges], Ranges]:
        if "a" in self.flags:
            return fold_ascii
        return _fold_python if self.dialect == "python" else fold_case

    def finish_class(
        self, items: list[tuple[int, int]], folded: Ranges, negated: bool, start: int, sets: Ranges = ()
    ) -> Ranges:
        """Finish a class: fold, complement, and refuse one of surrogates only. ``items``: as written; ``folded``: their set;
        ``sets``: what else is in the class, and not folded.
        """
        if "i" in self.flags:
            folded = self.fold(folded)
        if sets:
            folded = union(folded, sets)
        if not negated:
            if items and not folded:
                self.refuse("class of surrogates only, which no Unicode text contains (write code points as \\u{…})", start)
            return folded
        if self.dialect == "rust" and "a" in self.flags:
            self.refuse("negated class without Unicode, which would match invalid UTF-8", start)
        return negate_ranges(folded) if folded else EVERYTHING


def _fold_python(ranges: Ranges) -> Ranges:
    return fold_case(union(ranges, _PYTHON_I) if intersection(ranges, _PYTHON_I) else ranges)


@fixed_cache(1024, entry_bytes=1000)
def _folded_char(code_point: int, fold: Callable[[Ranges], Ranges]) -> Ranges:
    return fold(((code_point, code_point),))
