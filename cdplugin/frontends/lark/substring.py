"""``%regex``: any run of consecutive chunks of a text, by the text's suffix automaton.

The automaton (Blumer et al., Theoretical Computer Science 40, 1985; online construction as in Crochemore and Hancart, 1997) has
at most 2n states and 3n transitions for n chunks. Each state becomes one expression node that its predecessors share, so the
expression is linear in the text, too.

>>> substring_expr(["a", "b"])
alt(epsilon, cat("a", alt(epsilon, "b")), "b")
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from cdplugin.expr import EPSILON, Expr, alt, byte_class, cat, literal
from cdplugin.frontends.source import Source
from cdplugin.walks import trie

_KEYS = ("substring_chunks", "substring_words", "substring_chars")


def chunks_of(source: Source, value: Any, at: int) -> tuple[str, ...]:
    """The chunks for the object after ``%regex``. Raises ``GrammarError``."""
    if not isinstance(value, dict):
        source.fail("what follows %regex", at, expected="an object with one of " + ", ".join(_KEYS), found=type(value).__name__)
    for key in value:
        if key not in _KEYS:
            source.unknown("unknown key in %regex", at, key, _KEYS)
    if len(value) != 1:
        found = ", ".join(value) or "none"
        source.fail("keys of %regex", at, expected="exactly one of " + ", ".join(_KEYS), found=found)
    ((key, text),) = value.items()
    if key == "substring_chunks":
        if not isinstance(text, list) or not all(isinstance(chunk, str) for chunk in text):
            source.fail(key, at, expected="a list of strings", found=type(text).__name__)
        chunks = tuple(chunk for chunk in text if chunk)
    elif not isinstance(text, str):
        source.fail(key, at, expected="a string", found=type(text).__name__)
    else:
        chunks = tuple(words(text)) if key == "substring_words" else tuple(text)
    try:
        "".join(chunks).encode()
    except UnicodeEncodeError:
        source.fail("half of a surrogate pair in %regex", at)
    return chunks


def words(text: str) -> list[str]:
    """Split a text into maximal runs of letters, digits and ``_``; of white space; of anything else."""
    kinds = groupby(text, lambda char: 0 if char.isspace() else 1 if char.isalnum() or char == "_" else 2)
    return ["".join(run) for _, run in kinds]


def suffix_automaton(chunks: Sequence[str]) -> tuple[list[dict[str, int]], list[int]]:
    """The transitions of each state, and the states in an order with targets first; state 0 is the start."""
    following: list[dict[str, int]] = [{}]
    link, length = [-1], [0]
    last = 0
    for chunk in chunks:
        new = len(following)
        following.append({})
        length.append(length[last] + 1)
        link.append(0)
        at = last
        while at >= 0 and chunk not in following[at]:
            following[at][chunk] = new
            at = link[at]
        if at >= 0:
            target = following[at][chunk]
            if length[target] == length[at] + 1:
                link[new] = target
            else:
                clone = len(following)
                following.append(dict(following[target]))
                length.append(length[at] + 1)
                link.append(link[target])
                link[target] = link[new] = clone
                while at >= 0 and following[at].get(chunk) == target:
                    following[at][chunk] = clone
                    at = link[at]
        last = new
    return following, sorted(range(len(following)), key=length.__getitem__, reverse=True)


def substring_expr(chunks: Sequence[str]) -> Expr:
    """Any concatenation of consecutive chunks, including the empty one. Linear in the text."""
    following, order = suffix_automaton(chunks)
    state: dict[int, Expr] = {}
    for number in order:
        state[number] = alt(EPSILON, *_branches([(c.encode(), state[n]) for c, n in following[number].items()]))
    return state[0]


def _branches(options: list[tuple[bytes, Expr]]) -> list[Expr]:
    """Alternatives ``text then expression``; common prefixes are written once."""
    if len({text[0] for text, _ in options}) == len(options):
        return [cat(literal(text), rest) for text, rest in options]
    children, places = trie(text for text, _ in options)
    branches: list[list[Expr]] = [[] for _ in children]
    for at, (_, rest) in zip(places, options, strict=True):
        branches[at].append(rest)
    for at in range(len(children) - 1, -1, -1):
        branches[at] += [cat(byte_class(bytes([byte])), alt(*branches[child])) for byte, child in children[at].items()]
    return branches[0]
