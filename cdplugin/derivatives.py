"""From expression trees (:mod:`cdplugin.expr`) to expression nodes of an arena.

A tree is written down as a postfix program of int64 words, which :func:`cdplugin.kernels.derive.evaluate` runs in one call.
A node that occurs several times (front ends share objects) is evaluated once. All literals go into one sorted-by-node table
of bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from cdplugin import expr
from cdplugin.errors import LimitExceeded
from cdplugin.expr import Expr
from cdplugin.kernels import arena as layout
from cdplugin.limits import Limits

_LOAD, _KEEP, _CONSTANT = -1, -2, -3
KINDS = {expr.CAT_OP: layout.K_CAT, expr.ALT_OP: layout.K_ALT, expr.AND_OP: layout.K_AND}
_SEQUENCES = frozenset((expr.CAT_OP, expr.ALT_OP, expr.AND_OP))
_COMPOUND = frozenset((expr.CAT_OP, expr.ALT_OP, expr.AND_OP, expr.NOT_OP, expr.REPEAT_OP))
_four_words = struct.Struct("<4q").unpack


_EVERY_BYTE = bytes(range(256))


@lru_cache(maxsize=64)
def _mask_of(members: bytes) -> int:
    """A set of bytes as a 256-bit integer."""
    return sum(1 << byte for byte in members)


@lru_cache(maxsize=4096)
def bytes_words(mask: int) -> tuple[int, ...]:
    """The words that stand for a set of bytes (a 256-bit integer)."""
    return (layout.K_BYTES, *_four_words(mask.to_bytes(32, "little")))


class Program:
    """A postfix program under construction, with its table of literals.

    Parameters
    ----------
    spellable : the bytes that the vocabulary can spell; others are cut from byte sets and literals outside complements, so that
        no lexeme asks for a byte that no token brings.
    known : expressions that the arena already has, as ``id(node) -> expression``; the nodes are kept alive by the caller.
    literals : the arena's table of literals so far; new ones are added after them.
    """

    def __init__(
        self,
        limits: Limits,
        spellable: bytes = _EVERY_BYTE,
        known: dict[int, int] | None = None,
        literals: Sequence[bytes] = (),
    ) -> None:
        self.words: list[int] = []
        self.literals: list[bytes] = list(literals)
        self.n_results = 0
        self._limits = limits
        self._spellable = spellable
        self._cut = len(spellable) < 256
        self._allowed = _mask_of(spellable) if self._cut else expr.ALL_BYTES
        self._known = known or {}
        self._result_of: dict[int, int] = {}
        self._uncut_result_of: dict[int, int] = {}  # inside complements, where bytes are not cut
        self._literals_of: dict[int, tuple[int, ...]] = {}  # words that stand for whole sets of literals

    def add(self, root: Expr) -> int:
        """Append the evaluation of ``root``; returns the number of its result. ``root`` is to outlive the program."""
        known = self._result_of.get(id(root))
        if known is not None:
            return known
        words = self.words
        # entries: (node, positive, how many children are emitted). A node is emitted after its children.
        pending: list[tuple[Expr, bool, int]] = []
        leaf = self._leaf(root, True)
        if leaf is None:
            pending.append((root, True, 0))
        else:
            words += leaf
        while pending:
            node, positive, at = pending.pop()
            op = node.op
            children = node.args if op in _SEQUENCES else node.args[:1]
            inside = positive and op != expr.NOT_OP
            while at < len(children):
                leaf = self._leaf(children[at], inside)
                at += 1
                if leaf is None:
                    pending.append((node, positive, at))
                    pending.append((children[at - 1], inside, 0))
                    break
                words += leaf
            else:
                self._emit(op, node.args)
                words += (_KEEP, self.n_results)
                (self._result_of if positive else self._uncut_result_of)[id(node)] = self.n_results
                self.n_results += 1
        known = self._result_of.get(id(root))
        if known is None:  # a leaf or a constant
            known = self._result_of[id(root)] = self.n_results
            words += (_KEEP, known)
            self.n_results += 1
        return known

    def _leaf(self, node: Expr, positive: bool) -> tuple[int, ...] | None:
        """The words of a node that has no children to be emitted: none, or they have been; else None."""
        op = node.op
        if op == expr.LITERALS_OP:
            return self._literals_words(node.args, positive)
        if op in _COMPOUND:
            key = id(node)
            if positive and key in self._known:
                return _CONSTANT, self._known[key]
            result = (self._result_of if positive else self._uncut_result_of).get(key)
            return None if result is None else (_LOAD, result)
        if op == expr.BYTES_OP:
            return bytes_words(node.args[0] & self._allowed if positive else node.args[0])
        return (layout.K_EPSILON if op == expr.EPSILON_OP else layout.K_EMPTY,)

    def results(self) -> dict[int, int]:
        """``id(node) -> number of its result`` for everything evaluated outside complements."""
        return self._result_of

    def _emit(self, op: int, args: tuple) -> None:
        words = self.words
        if op == expr.NOT_OP:
            words.append(layout.K_NOT)
            if self._cut:  # relative to what can be spelt
                words += (*bytes_words(self._allowed), layout.K_REPEAT, 0, -1, layout.K_AND, 2)
        elif op == expr.REPEAT_OP:
            _, low, high = args
            if max(low, high or 0) > self._limits.max_repeat:
                raise LimitExceeded(
                    "repetition count too large",
                    expected=f"at most Limits.max_repeat = {self._limits.max_repeat}",
                    found=str(max(low, high or 0)),
                )
            words += (layout.K_REPEAT, low, -1 if high is None else high)
        else:
            words += (KINDS[op], len(args))

    def _literals_words(self, texts: tuple[bytes, ...], positive: bool) -> tuple[int, ...]:
        key = id(texts) if positive else ~id(texts)
        words = self._literals_of.get(key)
        if words is None:
            if self._cut and positive:
                texts = tuple([text for text in texts if not text.translate(None, self._spellable)])
            if len(texts) == 1 and len(texts[0]) == 1:
                words = bytes_words(1 << texts[0][0])
            else:
                low = len(self.literals)
                self.literals += texts
                words = (layout.K_LITERALS, low, low + len(texts), 0)
            self._literals_of[key] = words
        return words

    def literal_tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Offsets (int64, one more than there are literals) and bytes (uint8) of the literals."""
        offsets = np.zeros(len(self.literals) + 1, np.int64)
        if self.literals:
            np.cumsum(np.fromiter(map(len, self.literals), np.int64, len(self.literals)), out=offsets[1:])
        return offsets, np.frombuffer(b"".join(self.literals), np.uint8)
