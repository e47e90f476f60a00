"""Parts: the pieces of a text with gaps and slots, and how slots are planned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cdplugin.bitmask import integer
from cdplugin.errors import LimitExceeded, shown
from cdplugin.kernels.infill import layout as ws

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
