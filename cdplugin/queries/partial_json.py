"""Partial JSON: the value of a JSON text that is still being written, for user interfaces that show an answer as it grows.

A :class:`PartialJson` reads a text piece by piece, each byte once, without recursion. Its value is that of the text with
everything open closed now: arrays and objects hold what they have so far, an open string its text so far. What is not certain
yet is left out: a member whose value has not begun, a number that may go on, half a literal, half a character or escape.

>>> reader = PartialJson()
>>> reader.feed(b'{"name": "Al')
>>> reader.value
{'name': 'Al'}
>>> reader.feed(b'ice", "age": 3')
>>> reader.value
{'name': 'Alice'}
>>> reader.feed(b"6}")
>>> reader.value, reader.is_complete
({'name': 'Alice', 'age': 36}, True)
"""

from __future__ import annotations

import copy
import json
import re
from enum import Enum
from typing import Any


class _Mark(Enum):  # which copies and pickles leave as it is
    NOTHING = 0


_NOTHING: Any = _Mark.NOTHING
_SPACE = re.compile(rb"[ \t\n\r]*")
_PIECE = re.compile(rb'[^"\\\x00-\x1f]+|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_BEGUN = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?")  # an escape that may go on
_FIRST_HALF = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}")  # of a pair of surrogates
_SCALAR = re.compile(rb"[-+.0-9A-Za-z]*")
_NUMBER = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_LITERALS: dict[bytes, Any] = {b"true": True, b"false": False, b"null": None}

# what comes next, outside strings and scalars
_VALUE, _FIRST_ITEM, _FIRST_KEY, _KEY, _COLON, _AFTER, _END = range(7)
_EXPECTED = ("a value", "a value or ]", "a name or }", "a name", ":", ", or the end of what is open", "nothing")


class PartialJson:
    """Reads JSON piece by piece.

    ``strings``: ``"open"``: an open string is in the value as far as it goes; ``"closed"``: only closed ones are.
    """

    def __init__(self, strings: str = "open") -> None:
        if strings not in ("open", "closed"):
            raise ValueError(f"strings: expected 'open' or 'closed', found {strings!r}")
        self._shows_open = strings == "open"
        self._root: Any = _NOTHING
        self._stack: list[Any] = []  # open arrays and objects
        self._names: list[str | None] = []  # for each, the name of the member that is being written
        self._next = _VALUE
        self._position = 0
        self._scalar: bytearray | None = None
        self._string: bytearray | None = None  # of the open string, escapes as they are written
        self._held = b""  # an escape at its end that is not complete
        self._is_name = False
        self._shown: Any = _NOTHING  # the array that holds the open string's last showing

    def __copy__(self) -> PartialJson:
        return copy.deepcopy(self)  # the two go on apart

    # --- reading ------------------------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Read on. Time is proportional to ``data``. Raises ``ValueError``, with the position, at what is not JSON."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            remedy = "; feed(text.encode())" if isinstance(data, str) else ""
            raise TypeError(f"JSON: expected bytes, found {type(data).__name__}{remedy}")
        base = self._position - len(self._held)
        data, self._held = self._held + data, b""
        place, end = 0, len(data)
        while place < end:
            if self._string is not None:
                place = self._read_string(data, place, base)
            elif self._scalar is not None:
                stop = _SCALAR.match(data, place).end()  # type: ignore[union-attr]
                self._scalar += data[place:stop]
                place = stop
                if place < end:
                    self._close_scalar(base + place)
            else:
                place = _SPACE.match(data, place).end()  # type: ignore[union-attr]
                if place < end:
                    place = self._read_mark(data, place, base)
        self._position = base + end

    def close(self) -> None:
        """The text has ended: a number at its end is complete. Raises ``ValueError`` if the text is not."""
        if self._scalar is not None and not self._stack:
            self._close_scalar(self._position)
        if self._next != _END:
            raise ValueError(f"JSON ends too early: expected {self._wanted()} - at byte {self._position}")

    @property
    def is_complete(self) -> bool:
        """Whether the outermost value is closed."""
        return self._next == _END

    @property
    def value(self) -> Any:
        """The value so far; None before anything can be told.

        Arrays and objects are the reader's own, and grow with the next piece: copy what is to stay. Costs a copy of the open
        string, and nothing else.
        """
        if self._string is not None and self._shows_open and not self._is_name:
            text = self._string
            before = text[:-5]
            if (
                _FIRST_HALF.fullmatch(text[-6:]) and (len(before) - len(before.rstrip(b"\\"))) % 2
            ):  # its backslash is not escaped
                text = text[:-6]
            self._show(json.loads(f'"{text.decode("utf-8", "ignore")}"'))
        return None if self._root is _NOTHING else self._root

    # --- inside -------------------------------------------------------------------------------------------------------------

    def _read_mark(self, data: bytes, place: int, base: int) -> int:
        """Read a character outside strings and scalars; return the place after it."""
        byte, expected = data[place : place + 1], self._next
        if byte == b'"' and expected in (_VALUE, _FIRST_ITEM, _FIRST_KEY, _KEY):
            self._string, self._is_name = bytearray(), expected in (_FIRST_KEY, _KEY)
        elif byte in b"{[" and expected in (_VALUE, _FIRST_ITEM):
            made: Any = {} if byte == b"{" else []
            self._put(made)
            self._stack.append(made)
            self._names.append(None)
            self._next = _FIRST_KEY if byte == b"{" else _FIRST_ITEM
        elif byte == b":" and expected == _COLON:
            self._next = _VALUE
        elif byte == b"," and expected == _AFTER:
            self._next = _KEY if isinstance(self._stack[-1], dict) else _VALUE
        elif byte in b"}]" and expected in (_AFTER, _FIRST_KEY if byte == b"}" else _FIRST_ITEM):
            if isinstance(self._stack[-1], dict) != (byte == b"}"):
                raise self._error(base + place, byte)
            self._stack.pop()
            self._names.pop()
            self._next = _AFTER if self._stack else _END
        elif _SCALAR.fullmatch(byte) and expected in (_VALUE, _FIRST_ITEM):
            self._scalar = bytearray()
            return place
        else:
            raise self._error(base + place, byte)
        return place + 1

    def _read_string(self, data: bytes, place: int, base: int) -> int:
        assert self._string is not None
        start = place
        while (piece := _PIECE.match(data, place)) is not None:
            place = piece.end()
        self._string += data[start:place]
        if place == len(data):
            return place
        if data[place] == 0x22:
            self._close_string(base + place)
            return place + 1
        begun = _BEGUN.match(data, place)
        if begun is None:
            raise ValueError(f"JSON: expected no control character within a string - at byte {base + place}")
        bad = begun.end()
        if bad == len(data):
            self._held = data[place:]
            return bad
        what = "an escape" if bad == place + 1 else "a hexadecimal digit"
        found = data[place if bad == place + 1 else bad : bad + 1]
        raise ValueError(f"JSON: expected {what}, found {found!r} - at byte {base + bad}")

    def _close_string(self, position: int) -> None:
        assert self._string is not None
        try:
            text = json.loads(f'"{self._string.decode()}"')
        except UnicodeDecodeError as error:
            raise ValueError(f"JSON: expected UTF-8 - before byte {position}") from error
        self._string = None
        if self._is_name:
            self._names[-1] = text
            self._next = _COLON
        else:
            self._show(text)
            self._shown = _NOTHING
            self._next = _AFTER if self._stack else _END

    def _close_scalar(self, position: int) -> None:
        assert self._scalar is not None
        text = bytes(self._scalar)
        self._scalar = None
        if text in _LITERALS:
            value = _LITERALS[text]
        elif _NUMBER.fullmatch(text):
            value = json.loads(text)
        else:
            raise ValueError(f"JSON: expected a number, true, false or null, found {text[:20]!r} - before byte {position}")
        self._put(value)
        self._next = _AFTER if self._stack else _END

    def _put(self, value: Any) -> None:
        """Put a value into the innermost open array or object, or at the root."""
        if not self._stack:
            self._root = value
        elif isinstance(self._stack[-1], dict):
            self._stack[-1][self._names[-1]] = value
        else:
            self._stack[-1].append(value)

    def _show(self, text: str) -> None:
        """Put the string so far where it belongs, replacing what was shown of it before."""
        if self._stack and isinstance(self._stack[-1], list):
            if self._shown is self._stack[-1]:
                self._stack[-1][-1] = text
                return
            self._shown = self._stack[-1]
        self._put(text)

    def _wanted(self) -> str:
        if self._string is not None:
            return "the end of a string"
        return "the end of a number or literal" if self._scalar is not None else _EXPECTED[self._next]

    def _error(self, position: int, found: bytes) -> ValueError:
        return ValueError(f"JSON: expected {_EXPECTED[self._next]}, found {found!r} - at byte {position}")


def partial_json(text: str | bytes, *, strings: str = "open") -> Any:
    """The value of the beginning of a JSON text, with everything that is open closed; None before anything can be told.

    >>> partial_json('{"tags": ["red", "gre')
    {'tags': ['red', 'gre']}
    >>> partial_json('{"tags": ["red", "gre', strings="closed")
    {'tags': ['red']}

    ``strings``: as in :class:`PartialJson`, which reads a growing text once. A number at the very end may go on, so it is left
    out. Raises ``ValueError``, with the position, at what is not JSON.
    """
    reader = PartialJson(strings)
    reader.feed(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    return reader.value
