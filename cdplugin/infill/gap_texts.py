"""Gap texts: texts that ended gaps, tried in other gaps, and lengthened to as many tokens as slots take.

What ends one gap mostly ends another: a closing bracket, a quote, a new line with its indentation, the beginning of a comment.
The matcher checks a text in some microseconds, a lattice takes a thousand times as long. A text found so is legal; if none is
found, nothing is known.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cdplugin.collector import gc_paused
from cdplugin.errors import EngineError, LimitExceeded
from cdplugin.infill.text_tree import Texts, TextTree, pairs_of

if TYPE_CHECKING:
    from cdplugin.infill.tables import InfillGrammar

_MOST_TEXTS = 16  # learned texts: each is tried in vain at hundreds of cursors
_MOST_JOINTS, _MOST_CLOSERS = 32, 20
_FEW_TEXTS = 3  # tried one by one, since mostly the first one ends a gap; then all others are followed together
_MOST_ENDINGS = 200  # searched for in one mask
_FEW_ENDINGS = 6  # so many are not searched for: the first search in a grammar takes as long as some lattices
_ENDING_STEPS = 400  # of Limits.max_completion_steps
_MOST_FAILURES = 3  # of the search for an ending
MOST_ELEMENTS = 48
"""The most open places, with text between them, that are tried together."""
_MOST_BEHIND = 4 * MOST_ELEMENTS
_MOST_KNOWN, _MOST_KNOWN_IN_ALL = 20_000, 60_000  # cursors, of one text behind a place and of all
_MOST_LENGTHENED = 8  # texts that are lengthened
_MOST_POSITIONS = 16  # positions in a text at which it is lengthened
_FIRST_TEXTS = (
    b"",
    *(b"#", b":#", b"0#", b"c#", b"c:#", b"():#", b"):#", b")#", b"]#", b"}#", b"\n#", b"if c:#", b"\nif c:#", b"\n    if c:#"),
    *(b'"""#', b"'''#", b'"#', b"'#", b'"""', b"'''", b'():"""', b'():\n    """', b"():\n    ", b"):\n    if c:#", b"\n    "),
    *(b'    """', b'c:"""', b"    '''", b"c:'''", b'if c:"""', b"),)#", b" in ", b".c#", b"c\nif c:#", b"c:"),
    *(b'\nif c:\n    """', b'c\nif c:\n    """', b')\nif c:\n    """', b'"\nif c:\n    """', b'\'\nif c:\n    """'),
    *(b"\nif c:\n    '''", b"c\nif c:\n    '''", b")\nif c:\n    '''", b")\nif c:#", b"]\nif c:#", b'"\nif c:#', b"'\nif c:#"),
    *(b"c\nif c:\n    if c ", b")\nif c:\n    if c ", b" c:\n    if c ", b"\nif c:\n    [#", b"c\nif c:\n    c[#"),
    *(b"0", b"c", b"(", b")", b"]", b"}", b"):", b";", b";}", b"//", b"/*", b"*/"),
)
"""Texts that often end a gap, tried before any were learned."""
_MORE_TEXTS = (
    *(b'\n    """', b'):\n    """', b'c):\n    """', b"):\n    '''", b"\n    '''", b' c():\n    """', b'c():\n    """'),
    *(b'"):\n    """', b'="""', b":", b":c#", b"):c#", b"c:c#", b"c):c#", b"]:c#", b"]):c#", b"if c:c#", b"if c):c#"),
    *(b"():c#", b"c():", b"c in ", b"\n        if c:#", b"\n            if c:#", b"\n                if c:#"),
    *(b"):\n        if c:#", b"):\n            if c:#", b" ", b"  ", b"   ", b"    ", b"\n        ", b"\n            "),
    *(b"\n   ", b"():\n   ", b"):\n   ", b"\nif c:\n   ", b"    if c:", b"        if c:", b"            if c:"),
    *(b"    if c:#", b"        if c:#", b"            if c:#", b"    c", b"        c", b"c", b")", b"]", b"])", b"))"),
    *(b"])#", b"))#", b"]))#", b")))#", b"c)#", b"c]#", b"[", b"[#", b"(#", b"{#", b"c(", b" c#", b'"""):#', b'""":#'),
    *(b'""":c#', b'""")#', b'"""]#', b'"""[', b'""":', b'""":c', b'"""\n    if c:#', b'"""\n    if c', b'"""\n    '),
    *(b"):\n    c", b"):\n        c", b")-", b"])-", b");\\", b' import c;"""', b' import c\ndef c():\n    """'),
)
"""More of them, tried for a whole text before a lattice is asked, but not at the hundreds of cursors of a mask."""
_CLOSINGS = (b'"""', b"'''", b"\n", b'"', b"'", b"*/", b"*)", b"`")
_PADS = (b" ", b"a", b"0", b"#", b"\n")

Element = tuple["int | None", bytes]
"""An open place and the text after it. The place takes any text (None), exactly so many tokens, or, as ``-1 - n``, at most n
tokens."""


class TextBehind:
    """The text behind an open place, which may have open places itself, and a memo of what leads up to it.

    ``count``: the tokens that the place takes (:data:`Element`). ``text``: the text behind it; ``after``: what is behind the
    next place, if there is one. ``free``: the same with a place that takes any text. ``known``: per cursor in the place, a text
    with which it may end there. ``vain``: per cursor, the stamp of the texts that were tried without success.
    """

    def __init__(
        self, gap_texts: GapTexts, count: int | None, text: bytes, after: TextBehind | None, free: TextBehind | None
    ) -> None:
        self._gap_texts = gap_texts
        self.count = count
        self.free = free or self
        self._tables = gap_texts.tables
        self._text = text
        self._after = after
        self._follows: dict[int, bool] = {}
        self._missed: dict[int, int] = {}
        self.known: dict[int, bytes] = {}
        self.vain: dict[int, int] = {}

    @property
    def size(self) -> int:
        """How many entries its memo tables have."""
        return len(self.known) + len(self._follows) + len(self._missed) + len(self.vain)

    def follows(self, cursor: int) -> bool:
        """Whether it may follow at a cursor, and the text end, by known texts for its own gaps."""
        if self.free is not self:
            return self.free.follows(cursor)
        known = self._follows.get(cursor)
        if known is None and self._missed.get(cursor) == self._gap_texts.stamp:
            return False
        if known is None:
            end = self._tables.step(cursor, self._text)
            if self._after is None or not end:
                known = end != 0 and self._tables.accepts_at(end)
            else:
                known = self._gap_texts.find(end, self._after, False) is not None
            if known or self._after is None:
                self._follows[cursor] = known
            elif self._gap_texts.may_try:  # only for now: more texts may be known next time
                self._missed[cursor] = self._gap_texts.stamp
        return known

    def fillings(self, cursor: int) -> list[bytes]:
        """Fillings of the place and of those behind it, from a cursor in ``known``."""
        text = self.known[cursor]
        return [text, *self.fillings_behind(self._tables.step(cursor, text))]

    def fillings_behind(self, cursor: int) -> list[bytes]:
        """Fillings of the places behind its own one, from a cursor at which that may end."""
        after = self.free._after  # what :meth:`follows` asked
        return [] if after is None else after.fillings(self._tables.step(cursor, self._text))

    def reached(self, cursor: int, text: bytes) -> bytes | None:
        """A text that may end the gap from a cursor: ``text``, or a prefix of it and what is known from there; None if neither
        does.
        """
        known = self.known
        for i in range(len(text)):
            cursor = self._tables.step(cursor, text[i : i + 1])
            if cursor == 0:
                return None
            if cursor in known:
                return text[: i + 1] + known[cursor]
        return text if self.follows(cursor) else None

    def note(self, cursor: int, text: bytes) -> None:
        """Remember a text that ends the gap from a cursor, and its suffixes for the cursors that it passes."""
        self.known[cursor] = text
        for i in range(len(text)):
            cursor = self._tables.step(cursor, text[i : i + 1])
            self.known.setdefault(cursor, text[i + 1 :])


class GapTexts:
    """Texts that may end a gap, the last successful ones first (``texts``).

    ``_joints``: texts found between the end of what was begun in a gap and the text after it, such as a new line and
    indentation. ``_closers``: bytes that endings are made of.
    """

    def __init__(self, tables: InfillGrammar) -> None:
        self.tables = tables
        self.texts = Texts(_FIRST_TEXTS)
        self._texts_apart = Texts()
        self._joints: list[bytes] = [b""]
        self._closers = [bytes([byte]) for byte in b"0)]}\"'a: \n\x80\x90\xa0"]
        self._behind: dict[tuple[Element, ...], TextBehind] = {}
        self._left = (0, 0, 0)
        self._has_costs = False  # whether an ending was searched for, which computes costs of all rules
        self._wanted = 0  # how many searches for an ending this question wanted
        self.version = 0
        """How many texts were learned."""
        self._more_texts = Texts(_MORE_TEXTS)
        self._more = Texts()
        self._closer_tree: tuple[list[bytes], TextTree] | None = None

    @contextmanager
    def trying(self, most: int) -> Iterator[None]:
        """A context for one question, with a budget of ``most`` texts."""
        before = self._left, self._wanted
        self._left, self._wanted = (most, _MOST_ENDINGS, _MOST_FAILURES), 0
        try:
            yield
        finally:
            self._left, self._wanted = before

    @contextmanager
    def apart(self) -> Iterator[None]:
        """A context with a separate list of texts, at first a copy.

        A place behind an open one is mostly ended by what ends a string, and such texts are of no use elsewhere.
        """
        self.texts, self._texts_apart = self._texts_apart or Texts(self.texts), self.texts
        try:
            yield
        finally:
            self.texts, self._texts_apart = self._texts_apart, self.texts

    @contextmanager
    def with_more(self) -> Iterator[None]:
        """A context in which :data:`_MORE_TEXTS` are tried, too."""
        self._more = self._more_texts
        try:
            yield
        finally:
            self._more = Texts()

    @property
    def stamp(self) -> int:
        """A number that differs if other texts are tried."""
        return 2 * self.version + (len(self._more) > 0)

    @property
    def may_try(self) -> bool:
        """Whether the budget allows more texts."""
        return self._left[0] > 0

    def text_behind(self, elements: Sequence[Element]) -> TextBehind:
        """What is behind the first one of some open places, memoised for each suffix of them: places on the right mostly stay
        as they are.
        """
        behind = None
        for i in range(len(elements) - 1, -1, -1):
            count, text = elements[i]
            others = tuple(elements[i + 1 :])
            after = behind
            behind = free = self._kept(((None, text), *others), after, None)
            if count is not None:
                behind = self._kept(((count, text), *others), after, free)
        assert behind is not None
        return behind

    def _kept(self, elements: tuple[Element, ...], after: TextBehind | None, free: TextBehind | None) -> TextBehind:
        """What is behind the first one of some places, memoised or new."""
        known = self._behind.pop(elements, None)
        if known is None or known.size > _MOST_KNOWN:
            known = TextBehind(self, *elements[0], after, free)
            while len(self._behind) >= _MOST_BEHIND or sum(one.size for one in self._behind.values()) > _MOST_KNOWN_IN_ALL:
                del self._behind[next(iter(self._behind))]
        self._behind[elements] = known
        return known

    def find(self, cursor: int, behind: TextBehind, by_ending: bool = True) -> bytes | None:
        """A text that may end the gap from a cursor in it; None if none was found.

        ``by_ending``: whether to search for a short ending of the whole text as well, which takes longest.
        """
        found = behind.known.get(cursor)
        if found is not None:
            return found
        if behind.count is not None:
            return self._lengthened(cursor, behind, behind.count, by_ending)
        if not by_ending and behind.vain.get(cursor) == self.stamp:
            return None
        found = self._first_of(self._more, cursor, behind)
        if found is None:
            found = self._first_of(self.texts, cursor, behind)
        if found is None:
            found = self._by_closers(cursor, behind)
        if found is None and by_ending:
            found = self._by_ending(cursor, behind)
        if found is not None:
            behind.note(cursor, found)
            self._learn(self.texts, found, _MOST_TEXTS, _FIRST_TEXTS)
        elif self.may_try:
            behind.vain[cursor] = self.stamp
        return found

    def find_closed(self, cursor: int, behind: TextBehind) -> bytes | None:
        """:meth:`find` without endings, and by a text behind one that closes a string or a comment."""
        found = self.find(cursor, behind, False)
        if found is not None or behind.count is not None or behind.vain.get(~cursor) == self.stamp:
            return found
        seen = {0, cursor}
        for closing in _CLOSINGS:
            after = self.tables.step(cursor, closing)
            if after in seen:
                continue
            seen.add(after)
            found = behind.known.get(after)
            if found is None:
                found = self._first_of(self._texts_apart, after, behind)
            if found is None:
                found = self._first_of(self.texts, after, behind)
            if found is not None:
                behind.note(cursor, closing + found)
                self._learn(self.texts, closing + found, _MOST_TEXTS, _FIRST_TEXTS)
                return closing + found
        if self.may_try:
            behind.vain[~cursor] = self.stamp
        return None

    def learn(self, fillings: Sequence[bytes]) -> None:
        """Learn texts that ended gaps."""
        for text in fillings:
            for i in range(min(len(text), _MOST_JOINTS // 2), -1, -1):
                self._learn(self._joints, text[len(text) - i :], _MOST_JOINTS)
            self._learn(self.texts, text, _MOST_TEXTS, _FIRST_TEXTS)

    def _learn(self, texts: list[bytes], text: bytes, most: int, always: Container[bytes] = ()) -> None:
        """Move a text to the front of a list, which keeps at most ``most`` besides those in ``always``."""
        if text in texts:
            texts.remove(text)
        else:
            self.version += 1
            others = [i for i, other in enumerate(texts) if other not in always]
            for i in reversed(others[most - 1 :]):
                del texts[i]
        texts.insert(0, text)

    def try_one(self) -> bool:
        """Take one text off the budget; whether it may be tried."""
        tries, endings, failures = self._left
        self._left = max(tries - 1, 0), endings, failures
        return tries > 0

    def _first_of(self, texts: Texts, cursor: int, behind: TextBehind) -> bytes | None:
        """The first of some texts that may end the gap, or a prefix of one and what is known from there."""
        found = self._first_by_one(texts[:_FEW_TEXTS], cursor, behind)
        if found is not None or len(texts) <= _FEW_TEXTS or not self.may_try:
            return found
        tried, paths, cursors = texts.followed(self.tables, cursor, _FEW_TEXTS, self._left[0])
        known = behind.known
        is_any_known = not known.keys().isdisjoint(cursors)
        for text, path in zip(tried, paths, strict=True):
            if not self.try_one():  # (texts that `follows` tries count, too)
                break
            for i, node in enumerate(path if is_any_known else ()):
                if cursors[node] in known:
                    return text[: i + 1] + known[cursors[node]]
            end = cursors[path[-1]] if path else cursor
            if end and behind.follows(end):
                return text
        return None

    def _first_by_one(self, texts: Iterable[bytes], cursor: int, behind: TextBehind) -> bytes | None:
        """:meth:`_first_of` one text after another, for few texts or such as are not tried again."""
        step = self.tables.step
        after = {b"": cursor}  # a text's first byte: most lead nowhere
        for text in texts:
            if not self.try_one():
                break
            first = text[:1]
            if first not in after:
                after[first] = step(cursor, first)
            if after[first] and (found := behind.reached(cursor, text)) is not None:
                return found
        return None

    def _lengthened(self, cursor: int, behind: TextBehind, count: int, by_ending: bool) -> bytes | None:
        """A text of as many tokens as a place takes: one that ends the place if it takes any text, lengthened."""
        first = self.find(cursor, behind.free, by_ending)
        texts = [first] if first is not None else []
        for text in self.texts:
            if len(texts) < _MOST_LENGTHENED and text != first and self.try_one():
                end = self.tables.step(cursor, text)
                if end and behind.follows(end):
                    texts.append(text)
        for text in texts:
            for longer in self.of_count(text, count):
                if not self.try_one():
                    return None
                end = self.tables.step(cursor, longer)
                if end and behind.follows(end):
                    behind.known[cursor] = longer
                    return longer
        return None

    def of_count(self, text: bytes, count: int) -> Iterator[bytes]:
        """Texts of ``count`` tokens, made from one by inserting a run of one byte."""
        spelled = self.tables.spelled_in
        if count < 0:
            if spelled(text) & ((2 << (-1 - count)) - 1):
                yield text
        elif len(text) >= count:
            if spelled(text) >> count & 1:
                yield text
        else:
            for position in range(min(len(text) + 1, _MOST_POSITIONS)):
                for pad in _PADS:
                    longer = text[:position] + pad * (count - len(text)) + text[position:]
                    if self.tables.bytes_are_tokens(longer):
                        yield longer

    def _by_closers(self, cursor: int, behind: TextBehind) -> bytes | None:
        """A text of one closer, two, or three equal ones that leads to a known cursor, with what is known from there."""
        known = behind.known
        if not known:
            return None
        if self._closer_tree is None or self._closer_tree[0] != self._closers:
            self._closer_tree = self._closers[:], pairs_of(self.tables, self._closers)
        tree = self._closer_tree[1]
        cursors = tree.follow(cursor)
        if known.keys().isdisjoint(cursors):
            return None
        node = next(node for node, after in enumerate(cursors) if after in known)
        return tree.text(node) + known[cursors[node]]

    def _by_ending(self, cursor: int, behind: TextBehind) -> bytes | None:
        """The shortest ending of the whole text from a cursor, or a prefix of it and a joint, behind which the text goes on."""
        tries, endings, failures = self._left
        self._wanted += 1
        if min(self._left) <= 0 or (not self._has_costs and self._wanted <= _FEW_ENDINGS):
            return None
        self._left = tries, endings - 1, failures
        self._has_costs = True
        try:
            with gc_paused():  # the first time, this computes the costs of all rules
                ending = bytes(self.tables.endings.find(cursor, _ENDING_STEPS))
        except (LimitExceeded, EngineError):
            if self.tables.work_left < 0:
                raise
            self._left = tries, endings - 1, failures - 1
            return None
        for i in range(len(ending)):
            self._learn(self._closers, ending[i : i + 1], _MOST_CLOSERS)
        texts = [ending, *(ending[:i] + joint for i in range(len(ending) + 1) for joint in self._joints)]
        return self._first_by_one(texts, cursor, behind)
