"""Regular expressions over bytes as immutable trees: the language of one lexeme.

Front ends build these trees; :mod:`cdplugin.engine.programs` turns them into hash-consed nodes, of which the kernels take
derivatives. Besides the textbook operators there are intersection, complement (relative to all byte strings), *counted*
repetition that stays symbolic (``{0,100000}`` costs as much as ``{0,3}``), and sets of literals, which are sorted tables: an
enumeration of 10,000 values is one node.

>>> word = repeat(byte_class(b"abc"), 1)
>>> cat(literal(b'"'), word, literal(b'"'))
cat("\\"", repeat([a-c], 1, None), "\\"")
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from itertools import takewhile
from sys import getsizeof
from typing import Any, ParamSpec, TypeVar

from cdplugin import tally
from cdplugin.memory import Node, bounded_cache
from cdplugin.walks import fold

Parameters = ParamSpec("Parameters")
Tree = TypeVar("Tree", "Expr", "Expr | None")

EMPTY_OP, EPSILON_OP, BYTES_OP, LITERALS_OP, CAT_OP, ALT_OP, AND_OP, NOT_OP, REPEAT_OP = range(9)


class Expr(Node):
    """One node. Nodes are compared by identity, so build a shared subexpression once and reuse the object.

    Attributes: ``op`` (one of the ``*_OP`` constants) and ``args``:
    BYTES ``(mask,)``, a 256-bit integer with bit b set if byte b matches; LITERALS: sorted tuple of distinct bytes;
    CAT, ALT, AND: tuple of Expr; NOT ``(child,)``; REPEAT ``(child, low, high or None)``.
    """

    __slots__ = ("_rest", "args", "op")

    def __init__(self, op: int, args: tuple) -> None:
        self.op = op
        self.args = args
        self.holders = 0
        self._rest: Expr | None = None

    @property
    def rest(self) -> Expr:
        """A concatenation without its first part; of ``R{0,n}`` the non-empty ``R{1,n}``. The same object at each call."""
        if self._rest is None:
            self._rest = cat(*self.args[1:]) if self.op == CAT_OP else repeat(self.args[0], 1, self.args[2])
        return self._rest

    @property
    def parts(self) -> Sequence[Expr]:
        """The direct subexpressions."""
        if self.op in (CAT_OP, ALT_OP, AND_OP):
            return self.args
        return self.args[:1] if self.op in (NOT_OP, REPEAT_OP) else ()

    def __repr__(self) -> str:
        return _Shown(_MOST_SHOWN).show(self)

    def weigh(self) -> tuple[int, Sequence[Expr]]:
        """Bytes of the node itself, and its parts."""
        op, args = self.op, self.args
        nbytes = _NODE_BYTES + getsizeof(args)
        if op in (ALT_OP, AND_OP):
            return nbytes, args
        first = args[0] if op == CAT_OP else self
        if first.op == REPEAT_OP and first.args[1] == 0:
            nbytes *= 2  # `rest`, once asked for, is another node with the same parts
        if op == CAT_OP:
            return nbytes, args
        if op == LITERALS_OP:
            return nbytes + sum(map(len, args)) + _TEXT_BYTES * len(args), ()
        if op == BYTES_OP:
            return nbytes + _MASK_BYTES, ()
        return nbytes, args[:1]


class _Late(Expr):
    """An alternation with one part, a tree that is built at its first use."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name != "args":
            raise AttributeError(name)
        self.args = (self._tree(),)
        return self.args

    def _tree(self) -> Expr:
        raise NotImplementedError


class Names(_Late):
    """Any one of some texts, each character spelled in every way that JSON strings allow.

    The tree is the trie of the texts. An arena that knows the characters interns it without building the tree
    (:mod:`cdplugin.engine.programs`). ``words``: sorted, distinct, at least one, of printable ASCII; ``build(words)``: the
    tree.
    """

    __slots__ = ("_build", "words")

    def __init__(self, words: tuple[str, ...], build: Callable[[tuple[str, ...]], Expr]) -> None:
        self.op = ALT_OP
        self.words = words
        self.holders = 0
        self._rest = None
        self._build = build

    def _tree(self) -> Expr:
        return self._build(self.words)

    @property
    def parts(self) -> Sequence[Expr]:
        """None, so that the tree is not built."""
        return ()

    def weigh(self) -> tuple[int, Sequence[Expr]]:
        """Bytes of the texts and of their tree."""
        return _NODE_BYTES + sum([_TEXT_BYTES + _LETTER_BYTES * len(word) for word in self.words]), ()


class Automaton(_Late):
    """A deterministic acyclic automaton over bytes below 64 (digits, signs), a few words for each edge.

    The tree has a node for each edge; arenas read the states instead.

    Attributes: ``tails``: expressions that may follow an accepting state; ``n_states``; ``states``, int64: the records of the
    states, targets before their sources and the start last. A record is the number of the state's tail (from 1; 0: none, the
    state does not accept), the number of its edges, and for each edge the set of its bytes (bit b: byte b) and its target.
    """

    __slots__ = ("n_states", "states", "tails")

    def __init__(self, tails: tuple[Expr, ...], states: array[int], n_states: int) -> None:
        self.op = ALT_OP
        self.tails = tails
        self.states = states
        self.n_states = n_states
        self.holders = 0
        self._rest = None

    @property
    def parts(self) -> Sequence[Expr]:
        """The tails, so that the tree is not built."""
        return self.tails

    @property
    def n_nodes(self) -> int:
        """About the number of nodes of the tree, without the tails."""
        return len(self.states) // 2

    def within(self, allowed: int) -> array[int]:
        """``states`` with the bytes of all edges restricted to a set."""
        states = self.states[:]
        for first, end in self._edges():
            for at in range(first, end, 2):
                states[at] &= allowed
        return states

    def _edges(self) -> Iterator[tuple[int, int]]:
        """Start and end offset of each state's edges."""
        at = 0
        for _ in range(self.n_states):
            end = at + 2 + 2 * self.states[at + 1]
            yield at + 2, end
            at = end

    def _tree(self) -> Expr:
        states = self.states
        trees: list[Expr] = []
        sets: dict[int, Expr] = {}
        for first, end in self._edges():
            tail = states[first - 2]
            for mask in states[first:end:2]:
                sets.setdefault(mask, byte_mask(mask))
            edges = [cat(sets[states[at]], trees[states[at + 1]]) for at in range(first, end, 2)]
            trees.append(alt(*(self.tails[tail - 1 : tail] if tail else ()), *edges))
        return trees[-1]

    def weigh(self) -> tuple[int, Sequence[Expr]]:
        """Bytes of the states; the tails as parts."""
        return _NODE_BYTES + getsizeof(self.states), self.tails


_LETTER_BYTES = 16  # of a character of a text, with its node in the tree
_NODE_BYTES = 72
_TEXT_BYTES = 48  # of a bytes object without its content
_MASK_BYTES = 64


def nbytes_of(roots: Iterable[Expr]) -> int:
    """Bytes of expressions; shared subexpressions are counted once."""
    total = 0
    seen: set[Expr] = set()
    pending = list(roots)
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            nbytes, parts = node.weigh()
            total += nbytes
            pending += parts
    return total


def nullable(root: Expr, done: dict[Expr, bool] | None = None) -> bool:
    """Whether an expression matches the empty text. ``done``: results known before; it grows."""
    return fold(root, _deciding, _is_nullable, done)


def _deciding(node: Expr) -> Sequence[Expr]:
    """The parts that decide whether a node is nullable. Of a conjunction only the first part if that is
    plainly not nullable.
    """
    op, args = node.op, node.args
    if op in (CAT_OP, AND_OP):
        first = args[0]
        return args[:1] if first.op == BYTES_OP or (first.op == LITERALS_OP and first.args[0]) else args
    if op == ALT_OP:
        return args
    return args[:1] if op == NOT_OP or (op == REPEAT_OP and args[1]) else ()


def _is_nullable(node: Expr, below: list[bool]) -> bool:
    op = node.op
    if op == LITERALS_OP:
        return node.args[0] == b""  # literals are sorted
    if op == REPEAT_OP:
        return all(below)  # `below` is empty where `low` is 0
    if op == ALT_OP:
        return any(below)
    return not below[0] if op == NOT_OP else op in (EPSILON_OP, CAT_OP, AND_OP) and all(below)


def counted(function: Callable[Parameters, Tree]) -> Callable[Parameters, Tree]:
    """Decorator: cache a function that builds a large tree from a small argument, and charge its nodes to each compilation.

    Arguments are positional and hashable. It is a :func:`~cdplugin.memory.bounded_cache`; :mod:`cdplugin.tally` explains the
    charge. One compilation gets the same object for equal arguments.
    """

    @bounded_cache
    def measured(*args: Any) -> tuple[Any, tally.Cost]:
        with tally.framed() as frame:
            value = function(*args)  # type: ignore[call-arg]
            return value, frame.cost((function, args), _count(value, frame.kept.values()))

    @wraps(function)
    def charged(*args: Any) -> Any:
        value, cost = measured(*args)
        here = tally.current()
        return value if here is None else here.take(value, cost)

    return charged  # type: ignore[return-value]


def _count(root: Expr | None, known: Iterable[Any]) -> int:
    """Nodes of a tree that are not below known nodes."""
    seen: set[Any] = set(known)
    before = len(seen)
    inner = 0  # nodes of automata, whose trees are not built
    pending = [] if root is None else [root]
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            pending += node.parts
            if type(node) is Automaton:
                inner += node.n_nodes
    return len(seen) - before + inner


class _Shown:
    """Formats an expression, up to this many nodes: with shared parts, the whole tree may be exponentially long."""

    def __init__(self, nodes: int) -> None:
        self.left = nodes

    def show(self, node: Expr) -> str:
        self.left -= 1
        if isinstance(node, Automaton):
            return f"automaton({node.n_states} states)"
        if isinstance(node, Names):
            return _show_texts([word.encode() for word in node.words])
        op, args = node.op, node.args
        if op == EMPTY_OP:
            return "empty"
        if op == EPSILON_OP:
            return "epsilon"
        if op == BYTES_OP:
            return "[" + _show_mask(args[0]) + "]"
        if op == LITERALS_OP:
            return _show_texts(args)
        parts = []
        for arg in args:
            if self.left <= 0:
                parts.append("…")
                break
            parts.append(self.show(arg) if isinstance(arg, Expr) else str(arg))
        return _NAMES[op] + "(" + ", ".join(parts) + ")"


_NAMES = {CAT_OP: "cat", ALT_OP: "alt", AND_OP: "both", NOT_OP: "complement", REPEAT_OP: "repeat"}
_MOST_SHOWN = 100  # nodes
_MOST_LETTERS = 200  # bytes of one text


def _show_texts(texts: Sequence[bytes]) -> str:
    shown = " | ".join(f'"{_show_text(text)}"' for text in texts[:4])
    return shown + (f" | … {len(texts) - 4} more" if len(texts) > 4 else "")


def _show_text(text: bytes) -> str:
    shown = text[:_MOST_LETTERS].decode("utf-8", "backslashreplace").replace('"', '\\"')
    return shown + "…" if len(text) > _MOST_LETTERS else shown


def _show_mask(mask: int) -> str:
    runs = merge_ranges((byte, byte) for byte in range(256) if mask >> byte & 1)
    return "".join(_show_byte(low) + ("-" + _show_byte(high) if high > low else "") for low, high in runs)


def _show_byte(byte: int) -> str:
    return chr(byte) if 33 <= byte < 127 and chr(byte) not in "[]-\\" else f"\\x{byte:02x}"


EMPTY = Expr(EMPTY_OP, ())
"""Matches nothing."""
EPSILON = Expr(EPSILON_OP, ())
"""Matches the empty string only."""
ALL_BYTES = (1 << 256) - 1


def byte_mask(mask: int) -> Expr:
    """One byte out of a set given as a 256-bit integer (bit b: byte b)."""
    return Expr(BYTES_OP, (mask,)) if mask else EMPTY


def byte_range(low: int, high: int) -> Expr:
    """One byte in ``low..high`` (inclusive)."""
    return byte_mask((1 << (high + 1)) - (1 << low)) if low <= high else EMPTY


def byte_class(members: bytes) -> Expr:
    """One byte out of ``members``."""
    mask = 0
    for byte in members:
        mask |= 1 << byte
    return byte_mask(mask)


def literal(text: bytes) -> Expr:
    """Exactly ``text``."""
    return Expr(LITERALS_OP, (text,)) if text else EPSILON


def literals(texts: Iterable[bytes]) -> Expr:
    """Any one of ``texts`` (a set; may hold the empty string)."""
    members = texts if type(texts) is tuple and len(texts) == 1 else tuple(sorted(set(texts)))
    if not members:
        return EMPTY
    return EPSILON if members == (b"",) else Expr(LITERALS_OP, members)


def cat(*parts: Expr) -> Expr:
    """Concatenation."""
    ops = [part.op for part in parts]
    if EMPTY_OP in ops:
        return EMPTY
    if EPSILON_OP in ops:
        parts = tuple([part for part in parts if part.op != EPSILON_OP])
    if len(parts) > 1:
        return Expr(CAT_OP, parts)
    return parts[0] if parts else EPSILON


def led(lead: Expr, *parts: Expr) -> Expr:
    """:func:`cat` of a lead that the compiler will probably split off (:attr:`Expr.rest`). No part may be ``EMPTY`` or
    ``EPSILON``.
    """
    if lead.op != REPEAT_OP:
        return cat(lead, *parts)
    found = Expr(CAT_OP, (lead, *parts))
    found._rest = Expr(CAT_OP, parts) if len(parts) > 1 else parts[0]
    return found


def alt(*parts: Expr) -> Expr:
    """Alternation."""
    if len(parts) > 1:
        parts = tuple([part for part in dict.fromkeys(parts) if part.op != EMPTY_OP])
    if len(parts) > 1:
        return Expr(ALT_OP, parts)
    return parts[0] if parts else EMPTY


def both(*parts: Expr) -> Expr:
    """Intersection. Without parts, every byte string."""
    kept = list(dict.fromkeys(parts))
    if not kept:
        return complement(EMPTY)
    if any(p.op == EMPTY_OP for p in kept):
        return EMPTY
    if len(kept) == 1:
        return kept[0]
    if all(p.op == CAT_OP for p in kept):  # "a" & "b" with their quotes: intersect the texts between the quotes
        sides = [p.args for p in kept]
        n_first = _n_alike(sides)
        sides = [args[n_first:] for args in sides]
        n_last = _n_alike([args[::-1] for args in sides])
        if n_first or n_last:
            args = kept[0].args
            inner = both(*(cat(*side[: len(side) - n_last]) for side in sides))
            return cat(*args[:n_first], inner, *args[len(args) - n_last :])
    return Expr(AND_OP, tuple(kept))


def _n_alike(sequences: Sequence[Sequence[Expr]]) -> int:
    """How many first parts all sequences share that match only texts of one byte."""
    return sum(1 for _ in takewhile(lambda same: len({*same}) == 1 and _is_one_byte(same[0]), zip(*sequences)))


def _is_one_byte(part: Expr) -> bool:
    """Whether a part matches only texts of one byte."""
    return part.op == BYTES_OP or (part.op == LITERALS_OP and all(len(text) == 1 for text in part.args))


def complement(part: Expr) -> Expr:
    """Every byte string that ``part`` does not match. Intersect with valid UTF-8 where text is meant."""
    return part.args[0] if part.op == NOT_OP else Expr(NOT_OP, (part,))


def repeat(part: Expr, low: int = 0, high: int | None = None) -> Expr:
    """``part`` at least ``low`` and at most ``high`` times (``None``: no bound)."""
    if high is not None and high < low:
        return EMPTY
    if high == 0 or part.op == EPSILON_OP:
        return EPSILON
    if part.op == EMPTY_OP:
        return EPSILON if low == 0 else EMPTY
    if low == 1 and high == 1:
        return part
    return Expr(REPEAT_OP, (part, low, high))


def optional(part: Expr) -> Expr:
    """``part`` or nothing."""
    return repeat(part, 0, 1)


MAX_CODE_POINT = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)


def merge_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted inclusive ranges, with overlapping and adjacent ones merged and empty ones dropped."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if low > high:
            continue
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return merged


def normalise_ranges(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Merge and clip inclusive ranges of code points, and cut out surrogates, which no UTF-8 text holds."""
    out: list[tuple[int, int]] = []
    for low, high in merge_ranges((max(low, 0), min(high, MAX_CODE_POINT)) for low, high in ranges):
        if low < _SURROGATES[0]:
            out.append((low, min(high, _SURROGATES[0] - 1)))
        if high > _SURROGATES[1]:
            out.append((max(low, _SURROGATES[1] + 1), high))
    return tuple(out)


def negate_ranges(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The code points that are not in ``ranges``, without surrogates."""
    out, start = [], 0
    for low, high in normalise_ranges(ranges):
        if start < low:
            out.append((start, low - 1))
        start = high + 1
    if start <= MAX_CODE_POINT:
        out.append((start, MAX_CODE_POINT))
    return normalise_ranges(out)


@bounded_cache
def utf8_ranges(ranges: tuple[tuple[int, int], ...]) -> Expr:
    """One code point in ``ranges`` (inclusive pairs), encoded as UTF-8 (RFC 3629).

    A range is cut where the encoded length changes, then into blocks whose continuation bytes run over full ranges (Thompson;
    RE2).
    """
    sequences: list[tuple[tuple[int, int], ...]] = []
    for low, high in normalise_ranges(ranges):
        for length, top in ((1, 0x7F), (2, 0x7FF), (3, 0xFFFF), (4, MAX_CODE_POINT)):
            if low > high:
                break
            if low <= top:
                _split_utf8(low, min(high, top), length, sequences)
                low = top + 1
    return _factor(sequences)


def _split_utf8(low: int, high: int, length: int, out: list[tuple[tuple[int, int], ...]]) -> None:
    """Append byte-range sequences that cover ``low..high``, all encoded in ``length`` bytes."""
    pending = [(low, high)]
    while pending:
        low, high = pending.pop()
        for i in range(1, length):
            mask = (1 << (6 * i)) - 1
            if low & ~mask != high & ~mask:
                if low & mask:
                    pending += [((low | mask) + 1, high), (low, low | mask)]
                    break
                if high & mask != mask:
                    pending += [(high & ~mask, high), (low, (high & ~mask) - 1)]
                    break
        else:
            first, last = chr(low).encode(), chr(high).encode()
            out.append(tuple(zip(first, last, strict=True)))


def _factor(sequences: Sequence[tuple[tuple[int, int], ...]]) -> Expr:
    """An alternation of byte-range sequences. Sequences with equal tails are merged first, then those with equal heads."""
    by_tail: dict[tuple[tuple[int, int], ...], int] = {}
    for sequence in sequences:
        low, high = sequence[0]
        by_tail[sequence[1:]] = by_tail.get(sequence[1:], 0) | (1 << (high + 1)) - (1 << low)
    by_head: dict[int, list[tuple[tuple[int, int], ...]]] = {}
    for tail, mask in by_tail.items():
        by_head.setdefault(mask, []).append(tail)
    parts = []
    for mask, tails in by_head.items():
        rest = _factor([t for t in tails if t]) if any(tails) else EPSILON
        parts.append(cat(byte_mask(mask), rest))
    return alt(*parts)


ANY_CHAR = utf8_ranges(((0, MAX_CODE_POINT),))
"""One code point, as UTF-8."""
ANY_TEXT = repeat(ANY_CHAR)
"""Any valid UTF-8 string."""
