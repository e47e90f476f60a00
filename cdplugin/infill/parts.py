"""Parts: the pieces of a text with gaps and slots, and how slots are planned."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from cdplugin.errors import LimitExceeded, integer, iterable, shown
from cdplugin.kernels.infill import layout as ws

Found = TypeVar("Found")

MOST_SLOTS = 1 << 17
"""The most slots of one text: more would exceed the memory of a text."""
MOST_PLANNED = 1000  # nodes for the classes of all open slots, roughly
MOST_COMPETING = 400  # the same if lexemes compete
MOST_CLASSES = 1000  # of one slot; with more, and lexemes that compete, the matcher fills slots
FEW_PLACES = 4  # open places, with text between, up to which derivations of large grammars are quick
MANY_PLACES = 12  # above which they are not tried: they take seconds and are mostly given up
_FEWEST_CLASSES = 8  # of a slot near something fixed
_NEAR = 2  # distance in slots from something fixed


class Gap:
    """The type of :data:`GAP`."""

    def __repr__(self) -> str:
        return "GAP"


GAP = Gap()
"""A place for text of any length, none included."""


@dataclass(frozen=True)
class Slots:
    """A place for exactly ``count`` tokens."""

    count: int


class Part:
    """A piece of the text: bytes, an open gap, or a slot (open while ``token`` is None). Immutable.

    ``written``: the tokens inserted at a gap's left edge. ``spelt``: the text, and one byte in place of an open place.
    """

    __slots__ = ("closed", "gap", "is_open", "slot", "spelt", "text", "token", "written")

    def __init__(
        self,
        text: bytes = b"",
        gap: bool = False,
        slot: bool = False,
        token: int | None = None,
        written: tuple[int, ...] = (),
        closed: bool = False,
    ) -> None:
        self.text = text
        self.gap = gap
        self.slot = slot
        self.token = token
        self.written = written
        self.closed = closed
        self.is_open = (gap and not closed) or (slot and token is None)
        self.spelt = text + b"?" if self.is_open else text


def parts_of(pieces: Iterable[Any], bytes_of: Callable[[int], bytes]) -> list[Part]:
    """The parts of what :meth:`cdplugin.Infill.new` takes. ``bytes_of``: the text of a token. Raises what that raises."""
    parts: list[Part] = []
    n_slots = 0
    for piece in iterable("pieces", pieces):
        if isinstance(piece, Gap):
            parts.append(Part(gap=True))
        elif isinstance(piece, Slots):
            count = number_of_slots("Slots", piece.count, n_slots)
            n_slots += count
            parts += [Part(slot=True) for _ in range(count)]
        elif isinstance(piece, str):
            parts.append(Part(encoded(piece)))
        elif isinstance(piece, (bytes, bytearray)):
            parts.append(Part(bytes(piece)))
        elif isinstance(piece, Iterable) and not isinstance(piece, Mapping):
            tokens = [integer("token id", token) for token in piece]
            parts += [Part(bytes_of(token), token=token) for token in tokens]
        else:
            expected = "str, bytes, a list of token ids, GAP or Slots"
            raise TypeError(f"pieces: expected {expected}, found {type(piece).__name__}")
    return parts


class Last(Generic[Found]):
    """A memo of one entry: the last result, and the parts that it is for."""

    def __init__(self, found: Found | None = None) -> None:
        self.parts: list[Part] = []
        self.found = found

    def note(self, parts: Sequence[Part], found: Found | None) -> None:
        """Remember the result for some parts."""
        self.parts, self.found = list(parts), found

    def of(self, parts: Sequence[Part]) -> Found | None:
        """The result if it is for these very parts (compared by identity, as parts do not change), or else None."""
        is_same = len(self.parts) == len(parts) and all(map(operator.is_, self.parts, parts))
        return self.found if is_same else None


class Merged:
    """Parts without gaps that stand right beside another one, which takes their text as well.

    ``hole``: a part that stays, after what may stand between it and the gaps before it. ``parts``, ``hole``: what is left, and
    where the hole is there. Of ``[GAP, GAP, GAP, "a"]`` with the second as the hole: ``[GAP, GAP, "a"]`` and 1.
    """

    def __init__(self, parts: Sequence[Part], hole: int = -1) -> None:
        self._whole = self.parts = parts
        self.hole = hole
        self.is_whole = True
        """Whether all parts are left."""
        if sum([part.gap for part in parts]) < 2:  # mostly
            return
        self._kept: list[int] = []
        last: Part | None = None  # the last one that is not empty
        for i, part in enumerate(parts):
            is_beside = last is not None and last.gap and last.is_open
            if is_beside and part.gap and part.is_open and not part.text and i != hole:
                self.is_whole = False
                continue
            self._kept.append(i)
            if part.spelt or part.token is not None:
                last = part
        if not self.is_whole:
            self.parts = [parts[i] for i in self._kept]
            self.hole = self._kept.index(hole) if hole >= 0 else -1

    def fillings(self, found: list[bytes] | None) -> list[bytes] | None:
        """Fillings of what is left that is open, as such of all that is."""
        if found is None or self.is_whole:
            return found
        of_open = iter(found)
        kept = set(self._kept)
        return [next(of_open) if i in kept else b"" for i, part in enumerate(self._whole) if part.is_open]

    def of_all(self, witness: list[int | bytes | None] | None) -> list[int | bytes | None] | None:
        """A witness of what is left as one of all parts (:data:`cdplugin.infill.witness.Witness`)."""
        if witness is None or self.is_whole:
            return witness
        out: list[int | bytes | None] = [b"" if part.gap and part.is_open else None for part in self._whole]
        for i, found in zip(self._kept, witness, strict=True):
            out[i] = found
        return out

    def of_left(self, witness: list[int | bytes | None] | None) -> list[int | bytes | None] | None:
        """A witness of all parts as one of what is left: a gap has what it says of those beside it, too."""
        if witness is None or self.is_whole:
            return witness
        out: list[int | bytes | None] = []
        kept = iter([*self._kept, len(self._whole)])
        following = next(kept)
        for i, found in enumerate(witness):
            if i == following:
                out.append(found)
                following = next(kept)
            elif isinstance(found, bytes) and found:
                at = next(k for k in range(len(out) - 1, -1, -1) if self.parts[k].gap and self.parts[k].is_open)
                before = out[at]
                out[at] = (before if isinstance(before, bytes) else b"") + found
        return out


def filled(parts: Sequence[Part], fillings: Sequence[bytes]) -> bytes:
    """The text with the open gaps filled."""
    remaining = iter(fillings)
    return b"".join(part.text + (next(remaining) if part.is_open else b"") for part in parts)


def laid_out(parts: Sequence[Part], padded: bool = False, hole: int = -1) -> tuple[bytes, list[tuple[int | None, bytes]], int]:
    """The text before the first open place; the open places, each with the text after it; and the index of the part ``hole``
    among them.

    Adjacent slots are one place, except ``hole``. A place takes any text (None), exactly n tokens, or at most n (``-1 - n``):
    the last run of slots if end tokens may fill the rest (``padded``).
    """
    texts = [part.text for part in parts]  # an open gap's text stands before its open place
    opened = [i for i, part in enumerate(parts) if part.is_open]
    if not opened:
        return b"".join(texts), [], -1
    found: list[tuple[int | None, bytes]] = []
    at = -1
    for i, until in zip(opened, [*opened[1:], len(parts)], strict=True):
        text = b"".join(texts[i + 1 : until + 1])
        last = found[-1][0] if found and not found[-1][1] and parts[i].slot and hole not in (i, i - 1) else None
        if last is not None:
            found[-1] = last + 1, text
        else:
            found.append((1 if parts[i].slot else None, text))
        if i == hole:
            at = len(found) - 1
    before = b"".join(texts[: opened[0] + 1])
    if padded and found and at != len(found) - 1 and found[-1][1] == b"" and (last := found[-1][0]) is not None:
        found[-1] = -1 - last, b""
    return before, found, at


def with_gaps(parts: Sequence[Part], hole: int = -1) -> tuple[list[Part], int]:
    """Parts with a gap in place of each run of open slots, and the index of the part ``hole`` among them. It relaxes the text:
    if the parts can be completed, so can these.
    """
    out: list[Part] = []
    at = -1
    for i, part in enumerate(parts):
        is_slot = part.slot and part.is_open
        if is_slot and out and out[-1].slot is False and out[-1].gap and parts[i - 1].slot and hole not in (i, i - 1):
            continue
        out.append(Part(gap=True) if is_slot else part)
        if i == hole:
            at = len(out) - 1
    return out, at


def with_token(parts: Sequence[Part], at: int, token: int, text: bytes) -> list[Part]:
    """The parts with a token in a slot, or appended at the left edge of a gap."""
    part = parts[at]
    if part.slot:
        after = Part(text, slot=True, token=token)
    else:
        after = Part(part.text + text, gap=True, written=(*part.written, token))
    return [*parts[:at], after, *parts[at + 1 :]]


def planned(parts: Sequence[Part], open_parts: list[int], hole: int, classes: int, most_nodes: int) -> int | np.ndarray:
    """The elements of the open parts: ``GAP``, or ``SLOT`` less the number of classes (of ``classes``) with which a slot is
    planned.

    All classes if that makes few nodes. Else the most common ones near something fixed, and none in the middle of long runs,
    where no lexeme ends inside a token. The fewer slots are open, and the more neighbours are fixed, the more classes a slot
    has, so filling a slot keeps completions. A mask's own slot (``hole``) counts as fixed and has all classes, in one node: its
    tokens are tried one by one.
    """
    slots = [i for i in open_parts if parts[i].slot]
    if not slots:
        return ws.GAP
    n_open = len(slots) - (hole in slots)
    planned_with = np.full(len(parts), classes)
    if n_open * classes > most_nodes:
        fixed = np.ones(len(parts) + 2 * _NEAR, bool)  # what lies outside counts as fixed
        fixed[np.array(slots) + _NEAR] = False
        if hole >= 0:
            fixed[hole + _NEAR] = True
        is_near = np.zeros(len(parts), bool)
        for distance in range(2 * _NEAR + 1):
            is_near |= fixed[distance : distance + len(parts)]
        few = _FEWEST_CLASSES  # in steps, so that most changes leave the other slots as they were
        while 3 * few // 2 <= min(most_nodes // n_open, classes):
            few = 3 * few // 2
        planned_with = np.where(is_near, min(few, classes), 0)
    if hole >= 0:
        planned_with[hole] = classes
    elements = np.full(len(parts), ws.GAP)
    elements[slots] = ws.SLOT - planned_with[slots]
    return elements[open_parts]


def encoded(text: str) -> bytes:
    """A piece of text as UTF-8. Raises ``ValueError`` where it has none."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        found = f"{text[error.start : error.start + 1]!a} at {error.start}"
        raise ValueError(f"pieces: expected text that can be written as UTF-8, found {found}") from None


def drawn(tokens: np.ndarray, rng: random.Random | None) -> Iterator[int]:
    """Tokens in random order (Fisher and Yates' shuffle, done as far as it is read), or without a generator as they are."""
    for i in range(len(tokens)):
        if rng is not None:
            j = rng.randrange(i, len(tokens))
            tokens[i], tokens[j] = tokens[j], tokens[i]
        yield int(tokens[i])


def number_of_slots(what: str, count: Any, before: int = 0) -> int:
    """``count`` as an int: a number of slots, beside ``before`` others.

    Raises ``TypeError`` and ``ValueError`` if it is not a number of slots, :class:`LimitExceeded` for more than
    :data:`MOST_SLOTS` in all.
    """
    count = integer(what, count)
    if count < 0:
        raise ValueError(f"{what}: expected 0 or more, found {shown(count)}")
    if before + count > MOST_SLOTS:
        raise LimitExceeded("infilling: too many slots", expected=f"at most {MOST_SLOTS}", found=shown(before + count))
    return count
