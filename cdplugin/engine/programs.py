"""From expression trees (:mod:`cdplugin.expr`) to hash-consed expressions of an arena.

The trees are written down as one postfix program of int64 words, which :func:`cdplugin.kernels.regex.programs.evaluate` runs in
one call. A node that occurs several times (front ends share objects) is evaluated once. All literals go into one table of
bytes, those of each node sorted.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType

import numpy as np

from cdplugin import expr
from cdplugin.errors import LimitExceeded
from cdplugin.expr import Automaton, Expr, Names
from cdplugin.kernels.regex.programs import AUTOMATON, CHARACTERS, CONSTANT, FIRST_CHARACTER, KEEP, KEYS, LOAD, NAMES
from cdplugin.kernels.store import layout
from cdplugin.limits import Limits, at_most
from cdplugin.memory import fixed_cache

KINDS = {expr.CAT_OP: layout.K_CAT, expr.ALT_OP: layout.K_ALT, expr.AND_OP: layout.K_AND}
_COMPOUND = frozenset((expr.CAT_OP, expr.ALT_OP, expr.AND_OP, expr.NOT_OP, expr.REPEAT_OP))
_four_words = struct.Struct("<4q").unpack


_DENIED = (layout.K_NOT, layout.K_AND, 2)
_MOST_TURNS = 1 << 40  # of a repetition: no text has as many, and sums of some hundred thousand such counts fit into a word
_OTHER_NAMES_NODES = 4  # results counted for ``text & ~names``, though only the last one is stored
_EVERY_BYTE = bytes(range(256))
_NOTHING: Mapping[int, tuple[int, ...]] = MappingProxyType({})


@fixed_cache(64, entry_bytes=600)
def _mask_of(members: bytes) -> int:
    """Return a set of bytes as a 256-bit integer."""
    return sum(1 << byte for byte in members)


@fixed_cache(4096, entry_bytes=450)
def bytes_words(mask: int) -> tuple[int, ...]:
    """Return the words that stand for a set of bytes (a 256-bit integer)."""
    return (layout.K_BYTES, *_four_words(mask.to_bytes(32, "little")))


def known_words(known: Mapping[int, int]) -> dict[int, tuple[int, ...]]:
    """Return the words that stand for expressions of an arena, by node id; ``known``: ``id(node) -> expression``."""
    return {node: (CONSTANT, value) for node, value in known.items()}


def characters_code(expressions: Sequence[int]) -> np.ndarray:
    """Return the beginning of a program that writes names; ``expressions``: those of the printable ASCII characters."""
    assert len(expressions) == 0x7F - FIRST_CHARACTER
    return np.array((CHARACTERS, len(expressions), *expressions), np.int64)


class Program:
    """A postfix program under construction, with its table of literals.

    Parameters
    ----------
    spellable : the bytes that the vocabulary can spell; others are cut from byte sets and literals outside complements, so that
        no lexeme asks for a byte that no token brings.
    known : the words (:func:`known_words`) of expressions that the arena already has; the nodes are kept alive by the caller.
    literals : the arena's table of literals so far (:meth:`literal_tables`); new ones are added after them.
    characters : :func:`characters_code`, if the arena has those: it then writes names (:class:`cdplugin.expr.Names`) by itself.
    """

    def __init__(
        self,
        limits: Limits,
        spellable: bytes = _EVERY_BYTE,
        known: Mapping[int, tuple[int, ...]] = _NOTHING,
        literals: tuple[np.ndarray, np.ndarray] | None = None,
        characters: np.ndarray | None = None,
    ) -> None:
        self.words: list[int] = []
        self._first_literals = (np.zeros(1, np.int64), np.zeros(0, np.uint8)) if literals is None else literals
        self._literals: list[bytes] = []  # those after the first ones
        self.n_results = 0
        self._limits = limits
        self._spellable = spellable
        self._cut = len(spellable) < 256
        self._allowed = _mask_of(spellable) if self._cut else expr.ALL_BYTES
        self._result_of: dict[int, int] = {}  # results of roots that are leaves, or that the arena has
        # By id(node), the words that stand for it from now on; the second dict inside complements, where bytes are not cut.
        self._known = known
        self._words_of: dict[int, tuple[int, ...]] = {}
        self._uncut_words_of: dict[int, tuple[int, ...]] = {} if self._cut else self._words_of
        self._literals_of: dict[int, tuple[int, ...]] = {}  # words that stand for whole sets of literals
        self._characters = None if self._cut else characters
        self._has_names = False

    def add_lexemes(self, roots: Iterable[Expr], most: int) -> list[int]:
        """Append the evaluation of ``roots`` until there are more than ``most`` results; return for each the number of its
        result, or ``~id`` of an expression that the arena has.

        The roots must outlive the program. Most lexemes are a literal followed by an expression that the arena has: consecutive
        ones are one instruction (``KEYS``). Quoted text that must be none of some names has a short form, too.
        """
        known, words, literals = self._known, self.words, self._literals
        first_literal = len(self._first_literals[0]) - 1
        cat, text = expr.CAT_OP, expr.LITERALS_OP
        found: list[int] = []
        end = literal = tail = -1  # where a KEYS instruction to extend would end, and the literal and tail that it would need
        for root in roots:
            if root.op == cat and len(root.args) == 2 and id(root) not in known:
                first, rest = root.args
                after = known.get(id(rest))
                if after is not None and first.op == text and len(first.args) == 1:
                    spelt = first.args[0]
                    if not self._cut or not spelt.translate(None, self._spellable):
                        if end == len(words) and literal == first_literal + len(literals) and tail == after[1]:
                            words[-3] += 1
                        else:
                            literal, tail = first_literal + len(literals), after[1]
                            words += (KEYS, literal, literal + 1, tail, self.n_results)
                            end = len(words)
                        literals.append(spelt)
                        found.append(self.n_results)
                        literal += 1
                        self.n_results += 1
                        if self.n_results > most:
                            break
                        continue
            found.append(self._add_other(root))
            if self.n_results > most:
                break
        return found

    def _add_other(self, root: Expr) -> int:
        """Do :meth:`add_lexemes` for a root that is no literal with a known tail."""
        leaf = self._known.get(id(root))
        if leaf is not None:
            return ~leaf[1]
        if root.op == expr.LITERALS_OP and id(root) not in self._result_of:
            number = self._result_of[id(root)] = self.n_results
            self.n_results += 1
            self.words += (*self._literals_words(root.args, positive=True), KEEP, number)
            return number
        if root.op == expr.CAT_OP and len(root.args) == 2 and root.args[0].op == expr.CAT_OP:
            tail = self._known.get(id(root.args[1]))
            found = None if tail is None else self._other_names(root.args[0], tail)
            if found is not None:
                return found
        return self.add(root)

    def _other_names(self, quoted: Expr, tail: tuple[int, ...]) -> int | None:
        """Append what :meth:`add` would for ``text & ~names`` in quotes, followed by ``tail``; None for other shapes."""
        if len(quoted.args) != 3 or self._characters is None:
            return None
        quote, inner, end = quoted.args
        if quote is not end or quote.op != expr.LITERALS_OP or inner.op != expr.AND_OP or len(inner.args) != 2:
            return None
        text, others = inner.args
        known = self._known.get(id(text))
        if known is None or others.op != expr.NOT_OP or type(others.args[0]) is not Names:
            return None
        mark = self._literals_words(quote.args, positive=True)
        names = self._leaf(others.args[0], positive=False)
        self.n_results += _OTHER_NAMES_NODES
        number = self.n_results - 1
        self.words += (*mark, *known, *names, *_DENIED, *mark, layout.K_CAT, 3, *tail, layout.K_CAT, 2, KEEP, number)
        return number

    def code(self) -> np.ndarray:
        """Return the program as an arena runs it (int64)."""
        words = struct.pack(f"{len(self.words)}q", *self.words)  # a third of the time of `np.array`
        if self._has_names:
            assert self._characters is not None
            words = self._characters.tobytes() + words
        return np.frombuffer(words, np.int64)

    def add(self, root: Expr) -> int:
        """Append the evaluation of ``root``, which must outlive the program; return the number of its result."""
        known = self._result(root)
        if known is not None:
            return known
        words, plain = self.words, self._words_of
        uncut = (self._uncut_words_of, self._known if self._uncut_words_of is plain else _NOTHING)
        # Post-order. For the node whose children are visited: the node, its remaining children, whether these are outside all
        # complements, and the words that stand for nodes there, those of the program and those of the arena.
        node: Expr | None = None
        left, inside, words_of, theirs = iter((root,)), True, plain, self._known
        waiting: list[tuple[Expr | None, Iterator[Expr], bool, dict[int, tuple[int, ...]], Mapping[int, tuple[int, ...]]]] = []
        while True:
            for child in left:
                key = id(child)
                leaf = words_of.get(key)
                if leaf is None:
                    leaf = theirs.get(key)
                if leaf is None:
                    op = child.op
                    if op in _COMPOUND and (type(child) is not Names or self._characters is None):
                        waiting.append((node, left, inside, words_of, theirs))
                        node = child
                        if op in KINDS:
                            left = iter(child.tails if type(child) is Automaton else child.args)
                        else:
                            left = iter(child.args[:1])
                            if op == expr.NOT_OP:
                                inside, (words_of, theirs) = False, uncut
                        break
                    leaf = self._leaf(child, inside)
                words += leaf
            else:
                if node is None:
                    break
                number = self.n_results
                self.n_results += 1
                if node.op in KINDS and type(node) is not Automaton:
                    words += (KINDS[node.op], len(node.args), KEEP, number)
                else:
                    self._emit(node, inside)
                    words += (KEEP, number)
                done = id(node)
                node, left, inside, words_of, theirs = waiting.pop()
                words_of[done] = (LOAD, number)
        known = self._result(root)
        if known is None:  # a leaf or a constant
            known = self._result_of[id(root)] = self.n_results
            words += (KEEP, known)
            self.n_results += 1
        return known

    def _leaf(self, node: Expr, positive: bool) -> tuple[int, ...]:
        """Return the words of a node without children."""
        if type(node) is Names:
            self._has_names = True
            low = len(self._first_literals[0]) - 1 + len(self._literals)
            self._literals += [word.encode() for word in node.words]
            found = self._words_of[id(node)] = (NAMES, low, low + len(node.words))
            return found
        op = node.op
        if op == expr.LITERALS_OP:
            words = self._literals_words(node.args, positive)
        elif op == expr.BYTES_OP:
            words = bytes_words(node.args[0] & self._allowed if positive else node.args[0])
        else:
            words = (layout.K_EPSILON if op == expr.EPSILON_OP else layout.K_EMPTY,)
        (self._words_of if positive else self._uncut_words_of)[id(node)] = words
        return words

    def results(self) -> dict[int, int]:
        """Return ``id(node) -> number of its result`` for everything evaluated outside complements."""
        return {node: words[1] for node, words in self._words_of.items() if words[0] == LOAD} | self._result_of

    def _result(self, node: Expr) -> int | None:
        words = self._words_of.get(id(node))
        return words[1] if words is not None and words[0] == LOAD else self._result_of.get(id(node))

    def _emit(self, node: Expr, positive: bool) -> None:
        """Append the instruction of a node, other than one of ``KINDS``, whose children's values are on the stack."""
        words, op = self.words, node.op
        if type(node) is Automaton:
            states = node.within(self._allowed) if positive and self._cut else node.states
            words += (AUTOMATON, len(node.tails), node.n_states, len(states))
            words += states
        elif op == expr.NOT_OP:
            words.append(layout.K_NOT)
            if self._cut:  # a complement is relative to the texts that tokens can spell
                words += (*bytes_words(self._allowed), layout.K_REPEAT, 0, -1, layout.K_AND, 2)
        else:
            _, low, high = node.args
            if (most := max(low, high or 0)) > self._limits.max_repeat:
                expected = at_most(self._limits, "max_repeat")
                raise LimitExceeded("repetition count too large", expected=expected, found=str(most))
            words += (layout.K_REPEAT, min(low, _MOST_TURNS), -1 if high is None else min(high, _MOST_TURNS))

    def _literals_words(self, texts: tuple[bytes, ...], positive: bool) -> tuple[int, ...]:
        key = id(texts) if positive else ~id(texts)
        words = self._literals_of.get(key)
        if words is None:
            if self._cut and positive:
                texts = tuple([text for text in texts if not text.translate(None, self._spellable)])
            if len(texts) == 1 and len(texts[0]) == 1:
                words = bytes_words(1 << texts[0][0])
            else:
                low = len(self._first_literals[0]) - 1 + len(self._literals)
                self._literals += texts
                words = (layout.K_LITERALS, low, low + len(texts), 0)
            self._literals_of[key] = words
        return words

    def literal_tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Return offsets (int64, one more than there are literals) and bytes (uint8) of the literals."""
        offsets, text = self._first_literals
        literals = self._literals
        if not literals:
            return offsets, text
        further = [*accumulate(map(len, literals), initial=len(text))][1:]
        all_offsets = np.frombuffer(bytearray().join((offsets.data, struct.pack(f"{len(further)}q", *further))), np.int64)
        return all_offsets, np.frombuffer(bytearray().join((text.data, *literals)), np.uint8)
