"""Endings in tokens that were found and followed from cursors of one arena.

A token passes a budget because of an ending in hand. So the ending outlives what it was found with: where the table is begun
anew, the one before is still asked; and where the arena is replaced, a matcher takes the tokens of its ending along.
"""

from __future__ import annotations

from collections.abc import Sequence

from cdplugin.kernels.regex.measures import FAR

_LEFT_BYTES, _NEXT_BYTES = 110, 250  # of a cursor in a table


class FoundEndings:
    """By cursor, how many tokens are left of an ending (``left``; :data:`FAR`: none was found), and the next of them.

    ``before``: the table before this one.
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
        """Note what is left from each cursor of a path, and the tokens between them; from its last one an ending of ``beyond``
        tokens is known. Returns how many cursors of the path, from the first on, lead to one whose ending is shorter now.
        """
        left = self.left
        shorter = 0
        for place, cursor in enumerate(path):
            length = len(path) - 1 - place + beyond
            known = left.get(cursor)
            if known is None or length < known:
                if place + 1 < len(path):
                    self._next[cursor] = tokens[place], path[place + 1]  # first: whoever finds the length relies on it
                left[cursor] = length
                if known is not None:
                    shorter = place + 1
        return shorter

    def next_token(self, cursor: int) -> int:
        """The next token of an ending from a cursor; -1 where none is known."""
        return self._next.get(cursor, (-1, 0))[0]

    def tokens_from(self, cursor: int) -> list[int] | None:
        """The tokens of an ending from a cursor; None where none is known."""
        tokens: list[int] = []
        here = cursor
        while (length := self.left.get(here, FAR)) > 0:
            found = self._next.get(here)
            if length == FAR or found is None:
                return None if self._before is None else self._before.tokens_from(cursor)
            tokens.append(found[0])
            here = found[1]
        return tokens
