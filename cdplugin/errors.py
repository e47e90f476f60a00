"""The exceptions that cdplugin raises on purpose, and helpers for their messages: location, expected, found."""

from __future__ import annotations

import contextlib
import copy
import json
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any

_MOST_SHOWN = 4_000
"""Characters of one part of a message; longer parts are cut."""
_LONGEST_NAME, _MOST_KNOWN = 64, 2_000
"""Longest name, and number of known names, that are compared to guess which one was meant."""


class CdpluginError(Exception):
    """Base class of every error that cdplugin raises on purpose.

    All of them can be copied and pickled, whatever arguments their constructors take. A copy has no traceback and no cause.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type[CdpluginError], args: tuple[Any, ...]) -> CdpluginError:
    """An error made without calling its constructor; its attributes are restored afterwards."""
    error = kind.__new__(kind)
    error.args = args
    return error


def shown(value: Any) -> str:
    """Any value as part of a message: its ``repr``, cut to length, or its type where ``repr`` fails."""
    try:
        return printable(repr(value))
    except Exception:  # integers with more digits than Python converts, values nested too deeply, a caller's own classes
        return f"a value of type {type(value).__name__}"


def kind_of(value: Any) -> str:
    """The name of a value's type, or of the class that it is, as part of a message."""
    return f"{value.__name__} (a class)" if isinstance(value, type) else type(value).__name__


def told(error: BaseException) -> str:
    """An error as part of a message. Errors of other libraries are preceded by their type."""
    return str(error) if isinstance(error, CdpluginError) else f"{type(error).__name__}: {error}"


def printable(text: str) -> str:
    """``text`` as part of a message: Unicode (lone surrogates as escapes), at most 4,000 characters."""
    if len(text) > _MOST_SHOWN:
        text = text[:_MOST_SHOWN] + "…"
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def closest(name: str, known: Iterable[str]) -> str:
    """The known name closest to ``name``, or "" if none is close. Only short names are compared (it takes quadratic time)."""
    if len(name) > _LONGEST_NAME:
        return ""
    folded = {other.lower(): other for other in islice(known, _MOST_KNOWN) if len(other) <= _LONGEST_NAME}
    return next((folded[close] for close in get_close_matches(name.lower(), folded, n=1)), "")


def suggestion(name: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` if some known name is close, else nothing."""
    close = closest(name, known)
    return f" (did you mean {close!r}?)" if close else ""


def integer(what: str, value: Any, least: int | None = None, end: int | None = None) -> int:
    """``value`` as an int. Accepts what has ``__index__`` (a NumPy integer, a one-element tensor), but no bool.

    Raises ``TypeError``, and ``ValueError`` unless it is at least ``least`` and less than ``end``.
    """
    if type(value) is not int:
        try:
            if isinstance(value, bool) or str(getattr(value, "dtype", "")).endswith("bool"):
                raise TypeError
            value = operator.index(value)
        except TypeError:
            raise TypeError(f"{what}: expected an integer, found {type(value).__name__}") from None
    if least is not None and (value < least or (end is not None and value >= end)):
        expected = f"at least {least}" if end is None else f"{least} to {end - 1}"
        raise ValueError(f"{what}: expected {expected}, found {shown(value)}")
    return value


def iterable(what: str, value: Any) -> Iterable[Any]:
    """``value``, if it can be iterated and is no mapping, as a tokenizer's output is; else raises ``TypeError``."""
    if not isinstance(value, Iterable) or isinstance(value, Mapping):
        raise TypeError(f"{what}: expected a sequence, found {type(value).__name__}")
    return value


@contextlib.contextmanager
def needs(requirement: str) -> Iterator[None]:
    """A context for imports of optional libraries: a ``ModuleNotFoundError`` inside it names ``requirement`` to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name in ("", "cdplugin"):
            raise
        message = f"{name} is not installed, which this part of cdplugin needs: pip install '{requirement}'"
        raise ModuleNotFoundError(message, name=error.name, path=error.path) from error


class GrammarError(CdpluginError, ValueError):
    """A grammar, schema or regular expression that cannot be compiled.

    Attributes
    ----------
    message : what is wrong, without the location.
    location : a JSON Pointer (``/properties/a/type``), ``line 3, column 7``, or ``position 4``; empty when unknown.
    keyword : the JSON Schema keyword at fault, if any.
    expected, found : what would have been right and what was there, if known.
    context : source lines with a caret under the fault, if known.
    """

    def __init__(
        self,
        message: str,
        *,
        location: str = "",
        keyword: str = "",
        expected: str = "",
        found: str = "",
        context: str = "",
    ) -> None:
        self.message = printable(message)
        self.location = printable(location)
        self.keyword = printable(keyword)
        self.expected = printable(expected)
        self.found = printable(found)
        self.context = printable(context)
        super().__init__(self._format())

    def amended(self, **changes: str) -> GrammarError:
        """A copy, of the same class, with some attributes changed; its message is formatted again."""
        out = copy.copy(self)
        out.__dict__.update({name: printable(text) for name, text in changes.items()})
        out.args = (out._format(),)
        return out

    def _format(self) -> str:
        text = self.message
        if self.expected:
            text += f": expected {self.expected}"
            if self.found:
                text += f", found {self.found}"
        elif self.found:
            text += f": found {self.found}"
        if self.location:
            text += f" - at {self.location}"
        if self.context:
            text += "\n" + self.context
        return text


@contextlib.contextmanager
def relocated(where: Callable[[str], str]) -> Iterator[None]:
    """A context that replaces the location of a :class:`GrammarError` by ``where(location)``; the argument may be empty."""
    try:
        yield
    except GrammarError as error:
        raise error.amended(location=where(error.location)) from None


class UnsupportedError(GrammarError):
    """A legal construct that cdplugin does not enforce; refused by name instead of being dropped in silence."""


class LimitExceeded(GrammarError):  # noqa: N818 - the public name of the design
    """A budget of :class:`cdplugin.Limits` was crossed. Only the request that crossed it is affected."""


def not_json(what: str, error: ValueError) -> GrammarError:
    """The error for ``what``, a text for which :func:`json.loads` raised ``error``: the text is not JSON, or holds an integer
    with more digits than Python converts.
    """
    if isinstance(error, json.JSONDecodeError):
        return GrammarError(f"{what} is not JSON ({error.msg})", location=f"line {error.lineno}, column {error.colno}")
    expected = f"integers of at most {sys.get_int_max_str_digits()} digits"
    return LimitExceeded(f"{what} holds a number that is too long", expected=expected, found="more")


class EngineError(CdpluginError, RuntimeError):
    """A question to a running matcher that has no answer: no ending is reachable, no tokens spell it, captures are not found.

    The grammar compiled and the matcher is unchanged. Not raised by ``compile``, and never for a budget: that is
    :class:`LimitExceeded`.
    """


class BudgetError(CdpluginError, ValueError):
    """No legal ending was found that fits a budget of tokens. The matcher is unchanged.

    Attributes: ``budget``; ``least``: the smallest budget that is enough, or, where endings are too long to be searched, one
    that may be.
    """

    def __init__(self, message: str, budget: int = 0, least: int = 0) -> None:
        super().__init__(message)
        self.budget = budget
        self.least = least


class VocabularyError(CdpluginError, ValueError):
    """A tokenizer whose tokens cannot be mapped to bytes without guessing."""


_CONTEXT = 70  # characters of a line that an error shows


def caret_context(source: str, position: int) -> str:
    """The line of ``source`` around ``position`` (a code point index), at most 70 characters, with a caret under it."""
    position = max(0, min(position, len(source)))
    start = source.rfind("\n", 0, position) + 1
    end = source.find("\n", position)
    end = len(source) if end < 0 else end
    left = max(start, position - _CONTEXT // 2)
    right = min(end, left + _CONTEXT)
    return "    " + source[left:right].replace("\t", " ") + "\n    " + " " * (position - left) + "^"
