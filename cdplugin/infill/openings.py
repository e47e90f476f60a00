"""Openings: texts that, in an earlier gap, leave a later one open for nearly all tokens. They begin a string or a comment.

In Python, three quotes in the first gap allow anything at the beginning of the second one, up to three quotes. Of the filling
that a completion had in a gap, the opening and the text before it (the *head*) are kept separately, since most heads take other
openings, too: if a token rules out the string that completed a text behind ``if``, bytes may do, or a string with other quotes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdplugin.infill.gap_texts import Element, GapTexts

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
"""Tokens that, before a slot, begin a string, a comment or a character."""
CLOSING_TOKENS = (b"*/", b" */", b"*/\n", b'"""', b"'''", b'"', b"'", b"\n", b")", b")\n", b'")', b"')", b"\x80", b"\x80\x80")
"""Tokens that, behind a slot, end one."""
REOPENING_TOKENS = (b"/*", b" //", b" #")
"""Tokens that, behind a slot that ended one, begin another."""
_BETWEEN = ((b"",), (b"", b" "))  # texts between head and opening; the second tuple if the opening begins with a letter
_MOST_HEADS = 16
_FEWEST_OPENINGS = 2  # tried behind all heads before the others
_FEW_OPENINGS = 4  # tried in later gaps


class Openings:
    """Openings and heads, the last successful ones first. ``gap_texts``: texts that ended gaps, and the budget of tries."""

    def __init__(self, gap_texts: GapTexts) -> None:
        self._gap_texts = gap_texts
        self._openings = list(_OPENINGS)
        self._heads = [b""]

    def learn(self, text: bytes) -> None:
        """Learn from the filling of an earlier gap with which many tokens were proven in a later one."""
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
        """The distinct cursors behind some open gaps, each with the filling of the first of these gaps.

        ``heads``: further heads, tried after the last successful one. ``most``: how many openings are tried behind each text
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
        other = (text + opening for text in self._gap_texts.texts[:] for opening in self._openings[: most or _FEW_OPENINGS])
        seen: set[int] = set()
        for cursor, text in self._behind(start, elements, itertools.chain(known, other)):
            if cursor not in seen:
                seen.add(cursor)
                yield cursor, text

    def _behind(self, cursor: int, elements: Sequence[Element], texts: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
        """The cursors behind some open gaps: the first is filled with one of ``texts``, later ones with few others."""
        (_, behind), rest = elements[0], elements[1:]
        for text in texts:
            if not self._gap_texts.try_one():
                return
            end = self._gap_texts.tables.step(cursor, text + behind)
            if end and rest:
                inner = self._behind(end, rest, iter([b"", *self._openings[:_FEW_OPENINGS]]))
                yield from ((after, text) for after, _ in inner)
            elif end:
                yield end, text
