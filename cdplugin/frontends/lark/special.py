"""Tokens that a grammar names: ``<|eot_id|>``, ``<[128010]>``, ``<[3,10-20]>``, ``<[^7]>``, ``<[*]>``."""

from __future__ import annotations

from cdplugin.frontends.lark.source import Source

_MOST = (1 << 31) - 1


def token_set(source: Source, text: str, at: int) -> tuple[tuple[str, ...], tuple[tuple[int, int], ...], bool]:
    """``(names, ranges, negated)`` of a symbol between angle brackets."""
    if not (text.startswith("<[") and text.endswith("]>")):
        return (text,), (), False
    inner = text[2:-2]
    if inner == "*":
        return (), (), True
    negated = inner.startswith("^")
    ranges = []
    at += 2 + negated
    for part in inner[negated:].split(","):
        low, dash, high = part.partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()):
            source.fail("bad set of token ids", at, expected="ids and ranges, as <[3,10-20]>", found=repr(part))
        first, last = int(low[:12]), int((high if dash else low)[:12])
        if max(first, last) > _MOST:
            source.fail("a token id", at, expected=f"at most {_MOST}", found=part)
        if last < first:
            source.fail("a range of token ids", at, expected="the smaller one first", found=part)
        ranges.append((first, last))
        at += len(part) + 1
    return (), tuple(sorted(ranges)), negated
