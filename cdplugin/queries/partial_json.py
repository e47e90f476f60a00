"""The value of JSON that is still being written: for user interfaces that show an answer as it grows.

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

import json
import re
from typing import Any

_NOTHING: Any = object()
_SPACE = re.compile(rb"[ \t\n\r]*")
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
_SCALAR = re.compile(rb"[-+.0-9A-Za-z]*")
_NUMBER = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_LITERALS: dict[bytes, Any] = {b"true": True, b"false": False, b"null": None}
_ESCAPES = dict(zip(b'"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True))

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
        self._string: list[str] | None = None  # decoded pieces of the open string
        self._raw = bytearray()  # its bytes that may end in half a character
        self._escape: bytearray | None = None  # an escape that is not complete, from its backslash on
        self._surrogate = ""  # the first half of a pair
        self._is_name = False
        self._shown: Any = _NOTHING  # the array that holds the open string's last showing

    # --- reading ------------------------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Read on. Time is proportional to ``data``. Raises ``ValueError``, with the position, at what is not JSON."""
        place, end = 0, len(data)
        base = self._position
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
            self._show("".join(self._string) + self._raw.decode("utf-8", "ignore"))
        return None if self._root is _NOTHING else self._root

    # --- inside -------------------------------------------------------------------------------------------------------------

    def _read_mark(self, data: bytes, place: int, base: int) -> int:
        """A character outside strings and scalars."""
        byte, expected = data[place : place + 1], self._next
        if byte == b'"' and expected in (_VALUE, _FIRST_ITEM, _FIRST_KEY, _KEY):
            self._string, self._is_name = [], expected in (_FIRST_KEY, _KEY)
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
        if self._escape is not None:
            return self._read_escape(data, place, base)
        stop = _PLAIN.match(data, place).end()  # type: ignore[union-attr]
        if stop > place:
            self._end_pair()
            self._raw += data[place:stop]
        if stop == len(data):
            return stop
        self._flush(base + stop)
        if data[stop] == 0x5C:
            self._escape = bytearray(b"\\")
        elif data[stop] == 0x22:
            self._close_string()
        else:
            raise ValueError(f"JSON: expected no control character within a string - at byte {base + stop}")
        return stop + 1

    def _read_escape(self, data: bytes, place: int, base: int) -> int:
        """A byte of an escape."""
        assert self._escape is not None and self._string is not None
        self._escape.append(data[place])
        if len(self._escape) == 2 and data[place] != 0x75:
            if data[place] not in _ESCAPES:
                raise ValueError(f"JSON: expected an escape, found {bytes(self._escape)!r} - at byte {base + place}")
            self._end_pair()
            self._string.append(_ESCAPES[data[place]])
            self._escape = None
        elif len(self._escape) > 2 and data[place] not in b"0123456789abcdefABCDEF":
            raise ValueError(f"JSON: expected a hexadecimal digit, found {data[place : place + 1]!r} - at byte {base + place}")
        elif len(self._escape) == 6:
            unit = int(self._escape[2:], 16)
            self._escape = None
            if 0xDC00 <= unit < 0xE000 and self._surrogate:
                pair = 0x10000 + ((ord(self._surrogate) - 0xD800) << 10) + unit - 0xDC00
                self._string.append(chr(pair))
                self._surrogate = ""
            else:
                self._end_pair()
                if 0xD800 <= unit < 0xDC00:
                    self._surrogate = chr(unit)
                else:
                    self._string.append(chr(unit))
        return place + 1

    def _end_pair(self) -> None:
        """The first half of a pair stands alone."""
        if self._surrogate:
            assert self._string is not None
            self._string.append(self._surrogate)
            self._surrogate = ""

    def _flush(self, position: int) -> None:
        """Decode the bytes that were read, which end at a character."""
        assert self._string is not None
        try:
            self._string.append(self._raw.decode())
        except UnicodeDecodeError as error:
            raise ValueError(f"JSON: expected UTF-8 - before byte {position}") from error
        self._raw.clear()

    def _close_string(self) -> None:
        assert self._string is not None
        self._end_pair()
        text = "".join(self._string)
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
        """Put a value where it belongs."""
        if not self._stack:
            self._root = value
        elif isinstance(self._stack[-1], dict):
            self._stack[-1][self._names[-1]] = value
        else:
            self._stack[-1].append(value)

    def _show(self, text: str) -> None:
        """Put the string so far where it belongs, in the place of what was shown of it before."""
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
