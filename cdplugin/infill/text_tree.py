"""Text trees: tries of texts that are tried at many cursors, followed by one kernel call, common prefixes once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from cdplugin.engine.blocks import address_of
from cdplugin.kernels import entry as engine
from cdplugin.kernels.parser.text_tree import T_CURSORS, T_NODES, T_TREE, T_WORK, TREE_QUESTION_WORDS

if TYPE_CHECKING:
    from cdplugin.infill.steps import Steps

NODE_WORK = 55  # units of work of a byte that is followed, besides what kernels count
_MOST_FORGOTTEN = 32  # texts in a tree that are no longer in its list


class TextTree:
    """A trie whose nodes are laid out as :mod:`cdplugin.kernels.parser.text_tree` expects them (int64). It only grows."""

    def __init__(self, tables: Steps, words: np.ndarray | None = None) -> None:
        self._tables = tables
        self._arena = tables.arena
        self._words = np.zeros(0, np.int64) if words is None else words
        self._child: dict[tuple[int, int], int] = {}
        self._paths: dict[bytes, list[int]] = {}
        self._fresh: list[int] = []  # new nodes, not laid out yet
        self._question = np.zeros(TREE_QUESTION_WORDS, np.int64)
        self._question[T_WORK] = NODE_WORK
        self._lay_out()

    def _lay_out(self) -> None:
        self._words = np.concatenate((self._words, np.array(self._fresh, np.int64)))
        self._fresh = []
        self._cursors = np.zeros(len(self._words), np.int64)
        self._question[[T_NODES, T_TREE, T_CURSORS]] = len(self._words), address_of(self._words), address_of(self._cursors)

    @property
    def n_texts(self) -> int:
        """How many texts were added."""
        return len(self._paths)

    def path(self, text: bytes) -> list[int]:
        """The nodes of a text's prefixes, the shortest first; new ones are added."""
        path = self._paths.get(text)
        if path is None:
            path = self._paths[text] = []
            parent = 0
            for byte in text:
                node = self._child.get((parent, byte))
                if node is None:
                    node = self._child[parent, byte] = len(self._words) + len(self._fresh)
                    self._fresh.append(parent << 8 | byte)
                path.append(node)
                parent = node + 1
        return path

    def follow(self, cursor: int) -> list[int]:
        """The cursor after each node's text, 0 where it is not legal."""
        return self.cursors(cursor).tolist()

    def cursors(self, cursor: int) -> np.ndarray:
        """:meth:`follow` as an array, which changes with the next call."""
        if self._fresh:
            self._lay_out()
        self._arena.call(engine.OP_STEP_TREE, cursor, address_of(self._question))
        return self._cursors

    def text(self, node: int) -> bytes:
        """The text of a node."""
        found = b""
        at = node + 1
        while at:
            word = int(self._words[at - 1])
            found = bytes([word & 0xFF]) + found
            at = word >> 8
        return found


class Texts(list[bytes]):
    """A list of texts in the order in which they are tried, with a tree of those that were followed."""

    _tree: TextTree | None = None

    def followed(self, tables: Steps, cursor: int, first: int, most: int) -> tuple[list[bytes], list[list[int]], list[int]]:
        """The texts from ``first`` on, at most ``most``; the nodes of each one's prefixes; and the cursors of all nodes."""
        tree = self._tree
        if tree is None or tree.n_texts > len(self) + _MOST_FORGOTTEN:
            tree = self._tree = TextTree(tables)
        texts = self[first : first + most]
        paths = [tree.path(text) for text in texts]
        return texts, paths, tree.follow(cursor)


def pairs_of(tables: Steps, texts: Iterable[bytes]) -> TextTree:
    """A tree of some bytes, of all pairs of them, and of three equal ones (quotes)."""
    codes = np.frombuffer(b"".join(texts), np.uint8).astype(np.int64)
    n = len(codes)
    first, place = np.arange(n)[:, None], np.arange(n + 1)[None, :]
    is_third = place == first + 1
    parents = np.where(is_third, n + first * (n + 1) + place, first + 1)
    words = parents << 8 | codes[place - (place > first)]
    return TextTree(tables, np.concatenate((codes, words.ravel())))
