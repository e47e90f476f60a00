"""The endings, in tokens, that were found and followed from cursors of one arena.

A token is allowed under a budget because an ending is in hand. So endings must outlive the tables in which they were found:
when a table is replaced by an empty one, the old one is still consulted; and when the arena is replaced, a matcher takes the
tokens of its ending along.
"""

from __future__ import annotations

from collections.abc import Sequence

from cdplugin.kernels.regex.measures import FAR

_LEFT_BYTES, _NEXT_BYTES = 110, 250  # bytes of an entry in a table


class FoundEndings:
    """For each cursor, the length of an ending in tokens (``left``; :data:`FAR`: none was found), and its next token.

    ``before``: the table that this one replaces.
    """

    __slots__ = ("__weakref__", "_before", "_next", "left")

    def __init__(self, before: FoundEndings | None = None) -> None:
        self.left: dict[int, int] = {}
        self._next: dict[int, tuple[int, int]] = {}  # the token, and the cursor behind it
        self._before = before
        if before is not None:
            before._before = None

    @property
    def nbytes(self) -> int:
        """Bytes of what is known."""
        before = 0 if self._before is None else self._before.nbytes
        return before + _LEFT_BYTES * len(self.left) + _NEXT_BYTES * len(self._next)

    def note(self, path: Sequence[int], tokens: Sequence[int], beyond: int = 0) -> int:
        """Note an ending: for each cursor of a path, the tokens left, and the token to the next cursor.

        From the last cursor, an ending of ``beyond`` tokens is known. Returns how many cursors of the path, from the first on,
        lead to one whose ending is shorter now.
        """
        left = self.left
        shorter = 0
        for place, cursor in enumerate(path):
            length = len(path) - 1 - place + beyond
            known = left.get(cursor)
            if known is None or length < known:
                if place + 1 < len(path):
                    self._next[cursor] = tokens[place], path[place + 1]  # before the length: readers of that rely on it
                left[cursor] = length
                if known is not None:
                    shorter = place + 1
        return shorter

    def next_token(self, cursor: int) -> int:
        """Return the next token of an ending from a cursor; -1 if none is known."""
        return self._next.get(cursor, (-1, 0))[0]

    def tokens_from(self, cursor: int) -> list[int] | None:
        """Return the tokens of an ending from a cursor; None if none is known."""
        tokens: list[int] = []
        here = cursor
        while (length := self.left.get(here, FAR)) > 0:
            found = self._next.get(here)
            if length == FAR or found is None:
                return None if self._before is None else self._before.tokens_from(cursor)
            tokens.append(found[0])
            here = found[1]
        return tokens
