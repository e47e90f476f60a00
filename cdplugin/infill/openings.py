"""Texts that, in an earlier gap, leave a later one open for nearly all tokens: what begins a string or a comment.

In Python, three quotes in the first gap let anything begin the second one, up to three quotes. Of what a completion had in a
gap, the opening and what came before it (the *head*) are kept apart, since most heads take other openings, too: what was
completed by a string behind ``if`` is completed by bytes there, or by a string with other quotes, where a token rules out the
first one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdplugin.infill.rests import Element, Rests

_OPENINGS = (
    b'"""',
    b"'''",
    b"/*",
    b"#",
    b"//",
    b'b"""',
    b"b'''",
    b'r"""',
    b"r'''",
    b'"',
    b"'",
    b"--",
    b"(*",
    b"`",
    b"%",
    b";",
    b"",
)
OPENING_TOKENS = (
    *(b"#", b' "', b" '", b'("', b"('", b'="', b"='", b',"', b'["', b"['", b'{"', b'"', b"'", b'"""', b"'''", b' """', b" //"),
    *(b"/*", b" /*", b"//", b" #", b"\n", b"\n#", b"(", b" ", b"\xc3", b"\xe2", b"\xf0"),
)
"""Tokens that begin a string, a comment or a character before a slot."""
CLOSING_TOKENS = (b"*/", b" */", b"*/\n", b'"""', b"'''", b'"', b"'", b"\n", b")", b")\n", b'")', b"')", b"\x80", b"\x80\x80")
"""Tokens that end one behind a slot."""
REOPENING_TOKENS = (b"/*", b" //", b" #")
"""Tokens that begin one behind a slot that has ended another."""
_BETWEEN = ((b"",), (b"", b" "))  # head and opening; and where the opening begins with a letter
_MOST_HEADS = 16
_FEWEST_OPENINGS = 2  # that are tried behind all heads before others are
_FEW_OPENINGS = 4  # that are tried in a gap further on


class Openings:
    """Openings and heads, those first that did last. ``rests``: what ended gaps, and the tries that are left."""

    def __init__(self, rests: Rests) -> None:
        self._rests = rests
        self._openings = list(_OPENINGS)
        self._heads = [b""]

    def learn(self, text: bytes) -> None:
        """Take in what an earlier gap was filled with, where a later one was ended with some token in it."""
        opening = max(filter(text.endswith, self._openings), key=len)
        head = text[: len(text) - len(opening)]
        for texts, used in ((self._openings, opening), (self._heads, head)):
            if used in texts:
                texts.remove(used)
            texts.insert(0, used)
        del self._heads[_MOST_HEADS:]

    def cursors(
        self, start: int, elements: Sequence[Element], heads: Sequence[bytes] = (), most: int | None = None
    ) -> Iterator[tuple[int, bytes]]:
        """The cursors behind some open gaps, each once, with what the first of these was filled with.

        ``heads``: others that are tried, after the one that did last. ``most``: the openings that are tried behind each text
        that ended a gap.
        """
        first, *last = self._heads
        few, more = self._openings[:_FEWEST_OPENINGS], self._openings[_FEWEST_OPENINGS:]
        known = (
            head + between + opening
            for these, openings in (([first], self._openings[:]), ([*heads, *last], few), ([*heads, *last], more))
            for head in these
            for opening in openings
            for between in _BETWEEN[opening[:1].isalpha()]
        )
        other = (text + opening for text in self._rests.texts[:] for opening in self._openings[: most or _FEW_OPENINGS])
        seen: set[int] = set()
        for cursor, text in self._behind(start, elements, itertools.chain(known, other)):
            if cursor not in seen:
                seen.add(cursor)
                yield cursor, text

    def _behind(self, cursor: int, elements: Sequence[Element], texts: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
        """The cursors behind some open gaps, the first filled with one of some texts, those after it with few others."""
        (_, behind), rest = elements[0], elements[1:]
        for text in texts:
            if not self._rests.try_one():
                return
            end = self._rests.tables.step(cursor, text + behind)
            if end and rest:
                inner = self._behind(end, rest, iter([b"", *self._openings[:_FEW_OPENINGS]]))
                yield from ((after, text) for after, _ in inner)
            elif end:
                yield end, text
