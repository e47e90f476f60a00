"""A witness: one legal way to fill all open places of a text, kept while they are filled.

A canvas may count as completable because a search found some text of the right number of tokens. Whether the next search finds
one depends on what was learned and on its budget. So the text found is kept, place by place: the mask of a slot has at least
the witness's token, and when that token is set, the rest of the witness still fits. So no canvas gets stuck before it is full.
"""

from __future__ import annotations

from collections.abc import Sequence

from cdplugin.infill.gap_texts import Element
from cdplugin.infill.parts import Part
from cdplugin.infill.tables import InfillGrammar

Witness = list["int | bytes | None"]
"""Per part: the token of an open slot, the text of an open gap, None if the part is not open."""


def filling_of(tables: InfillGrammar, found: int | bytes | None) -> bytes:
    """The text of a witness at a part; an end token has none."""
    if not isinstance(found, int):
        return found or b""
    return b"" if found in tables.vocab.eos_token_ids else tables.vocab.tokens[found] or b""


def without(witness: Witness, at: int) -> Witness:
    """A witness after its part ``at`` was filled."""
    return [*witness[:at], None, *witness[at + 1 :]]


def in_tokens(tables: InfillGrammar, text: bytes, count: int) -> list[int] | None:
    """A text as ``count`` tokens, or for ``-1 - n`` as few as possible, at most n; None if it cannot be spelled so."""
    ids, _ = tables.vocab.token_of
    eos = tables.vocab.eos_token_ids
    longest = tables.vocab.max_token_bytes
    ways = [1, *(0 for _ in text)]  # per number of bytes: bit n says whether n tokens spell them
    for end in range(1, len(text) + 1):
        for begin in range(max(0, end - longest), end):
            token = ids.get(text[begin:end], -1) if ways[begin] else -1
            if token >= 0 and token not in eos:
                ways[end] |= ways[begin] << 1
    if count < 0:
        few = ways[-1] & ((2 << (-1 - count)) - 1)
        count = (few & -few).bit_length() - 1
    if count < 0 or not ways[-1] >> count & 1:
        return None
    found: list[int] = []
    end = len(text)
    for left in range(count - 1, -1, -1):
        for begin in range(end - 1, -1, -1):
            token = ids.get(text[begin:end], -1) if ways[begin] >> left & 1 else -1
            if token >= 0 and token not in eos:
                found.append(token)
                end = begin
                break
    return found[::-1]


def by_part(
    tables: InfillGrammar, parts: Sequence[Part], elements: Sequence[Element], fillings: Sequence[bytes]
) -> Witness | None:
    """Fillings of the open places of some parts (:func:`cdplugin.infill.parts.laid_out`) as a witness; None if one has no such
    spelling.

    End tokens fill slots that are left over.
    """
    out: Witness = [None] * len(parts)
    places = [i for i, part in enumerate(parts) if part.is_open]
    ends = tables.vocab.eos_token_ids
    at = 0
    for (count, _), filling in zip(elements, fillings, strict=True):
        if count is None:
            out[places[at]] = filling
            at += 1
            continue
        tokens = in_tokens(tables, filling, count)
        if tokens is None:
            return None
        width = count if count >= 0 else -1 - count
        for i in range(width):
            out[places[at + i]] = tokens[i] if i < len(tokens) else ends[0]
        at += width
    for place in places[at:]:  # parts behind the first end token
        out[place] = ends[0]
    return out


def by_place(tables: InfillGrammar, parts: Sequence[Part], witness: Witness, hole: int) -> list[bytes] | None:
    """The inverse of :func:`by_part`: the fillings of the open places left of a part; None if an end token is among them."""
    fillings: list[bytes] = []
    is_run = False  # slots side by side are one place
    for part, found in zip(parts[:hole], witness, strict=False):
        if part.is_open and isinstance(found, int):
            if found in tables.vocab.eos_token_ids:
                return None
            text = tables.vocab.tokens[found] or b""
            if is_run:
                fillings[-1] += text
            else:
                fillings.append(text)
            is_run = True
        elif part.is_open:
            fillings.append(found if isinstance(found, bytes) else b"")
            is_run = False
        elif part.text:
            is_run = False
    return fillings
