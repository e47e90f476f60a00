"""Grammar text, and errors that point into it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, NoReturn

from cdplugin.errors import GrammarError, LimitExceeded, UnsupportedError, caret_context, shown, suggestion
from cdplugin.limits import Limits, check_length


class Source:
    """Grammar text. Positions are code point indices from 0; lines and columns count from 1."""

    def __init__(self, text: str, name: str = "") -> None:
        self.text = text
        self.name = name
        self._lines = [0]
        at = text.find("\n")
        while at >= 0:
            self._lines.append(at + 1)
            at = text.find("\n", at + 1)

    def check(self, limits: Limits) -> None:
        """Raise ``LimitExceeded`` for a text of more than ``max_spec_bytes``, ``GrammarError`` at the first lone surrogate."""
        check_length("the grammar", len(self.text.encode("utf-8", "surrogatepass")), limits)
        try:
            self.text.encode()
        except UnicodeEncodeError as problem:
            self.fail("bad text", problem.start, expected="Unicode text", found="a lone surrogate")

    def line(self, at: int) -> int:
        """The line number of a position."""
        return bisect_right(self._lines, at)

    def where(self, at: int) -> str:
        """A position as ``line 3, column 7``."""
        line = self.line(at)
        place = f"line {line}, column {at - self._lines[line - 1] + 1}"
        return f"{place} of {self.name}" if self.name else place

    def error(
        self, message: str, at: int, *, expected: str = "", found: str = "", kind: type[GrammarError] = GrammarError
    ) -> GrammarError:
        """An error with the line, the column and a caret."""
        return kind(message, location=self.where(at), expected=expected, found=found, context=caret_context(self.text, at))

    def fail(self, message: str, at: int, *, expected: str = "", found: str = "") -> NoReturn:
        """Raise ``GrammarError``."""
        raise self.error(message, at, expected=expected, found=found)

    def refuse(self, message: str, at: int, *, expected: str = "", found: str = "") -> NoReturn:
        """Raise ``UnsupportedError``: a legal construct that is not enforced."""
        raise self.error(message, at, expected=expected, found=found, kind=UnsupportedError)

    def exceed(self, message: str, at: int, *, expected: str, found: str = "more") -> NoReturn:
        """Raise ``LimitExceeded``; ``expected`` names the limit."""
        raise self.error(message, at, expected=expected, found=found, kind=LimitExceeded)

    def options(self, message: str, at: int, value: Any, known: Iterable[str], place: str) -> dict[str, Any]:
        """Check that ``value``, found in ``place``, is an object with only ``known`` names. Raises ``GrammarError``."""
        if not isinstance(value, dict):
            self.fail(message, at, expected="an object", found=type(value).__name__)
        for key in value:
            if key not in known:
                self.unknown(f"unknown option in {place}", at, key, known)
        return value

    def unknown(self, message: str, at: int, name: object, known: Iterable[str]) -> NoReturn:
        """Raise ``GrammarError`` for a name that is not in ``known``."""
        listed = list(known)
        self.fail(message, at, expected="one of " + ", ".join(listed), found=shown(name) + suggestion(str(name), listed))
