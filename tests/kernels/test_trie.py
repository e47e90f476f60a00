"""The flat trie beside a dict of dicts that is walked recursively."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdplugin.kernels.masks.trie import (
    BYTE_KIND,
    build_trie,
    child_lists,
    common_prefixes,
    cumulative_masks,
    kinds_below,
    reaches,
    subtree_ends,
    subtree_maximum,
)

TOKEN = st.one_of(
    st.binary(min_size=1, max_size=6),
    st.lists(st.sampled_from([0, 0x61, 0x62, 0xFF]), min_size=1, max_size=9).map(bytes),
)


def flat(tokens: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The arrays of ``build_trie`` for a list of tokens, in any order."""
    order = sorted(range(len(tokens)), key=tokens.__getitem__)
    lengths = np.array([len(t) for t in tokens], np.int64)
    starts = np.cumsum(lengths) - lengths
    data = np.frombuffer(b"".join(tokens), np.uint8)
    chosen = np.array(order, np.int64)
    return build_trie(data, starts[chosen], lengths[chosen], chosen.astype(np.int32))


def naive(tokens: list[bytes]) -> list[tuple[int, int, int, int]]:
    """(byte, depth, skip, token) of each node, by recursion over nested dicts."""
    root: dict[Any, Any] = {}
    for i, token in enumerate(tokens):
        node = root
        for byte in token:
            node = node.setdefault(byte, {})
        node.setdefault("ids", []).append(i)
    rows: list[tuple[int, int, int, int]] = []

    def visit(node: dict[Any, Any], depth: int) -> None:
        for byte in sorted(k for k in node if k != "ids"):
            ids = node[byte].get("ids", [])
            here = len(rows)
            rows.append((0, 0, 0, 0))
            visit(node[byte], depth + 1)
            rows[here] = (byte, depth, len(rows) - here, ids[0] if ids else -1)
            rows.extend((byte, depth, 1, i) for i in ids[1:])

    visit(root, 1)
    return rows


def spelled(byte: np.ndarray, depth: np.ndarray, token: np.ndarray) -> dict[int, bytes]:
    """Every token as the path that leads to it, by a walk with an explicit stack."""
    path = bytearray()
    found = {}
    for b, d, t in zip(byte.tolist(), depth.tolist(), token.tolist()):
        assert 1 <= d <= len(path) + 1
        del path[d - 1 :]
        path.append(b)
        if t >= 0:
            assert t not in found
            found[t] = bytes(path)
    return found


@given(st.lists(TOKEN, max_size=40))
@settings(max_examples=300, deadline=None)
def test_trie_is_the_naive_one(tokens: list[bytes]) -> None:
    byte, depth, skip, token = flat(tokens)
    assert (byte.dtype, depth.dtype, skip.dtype, token.dtype) == (np.uint8, np.int32, np.int32, np.int32)
    assert all(a.flags.c_contiguous for a in (byte, depth, skip, token))
    assert list(zip(byte.tolist(), depth.tolist(), skip.tolist(), token.tolist())) == naive(tokens)
    assert spelled(byte, depth, token) == dict(enumerate(tokens))


@given(st.lists(TOKEN, max_size=40), st.data())
@settings(max_examples=100, deadline=None)
def test_maximum_and_ends(tokens: list[bytes], data: st.DataObject) -> None:
    _, depth, skip, _ = flat(tokens)
    values = np.array(data.draw(st.lists(st.integers(0, 9), min_size=len(depth), max_size=len(depth))), np.int64)
    ends, parents = subtree_ends(depth)
    best = subtree_maximum(depth, values)
    for i in range(len(depth)):
        inside = [j for j in range(i, len(depth)) if all(depth[k] > depth[i] for k in range(i + 1, j + 1))]
        assert ends[i] == i + skip[i] == inside[-1] + 1
        assert best[i] == values[inside].max()
        above = [j for j in range(i) if depth[j] == depth[i] - 1]
        assert parents[i] == (above[-1] if above else -1)


@given(st.lists(TOKEN, max_size=30), st.lists(TOKEN, max_size=30))
@settings(max_examples=100, deadline=None)
def test_children(first: list[bytes], second: list[bytes]) -> None:
    halves = [flat(tokens) for tokens in (first, second)]
    depth, slice_end = np.concatenate([half[1] for half in halves]), len(halves[0][1])
    children, first_child = child_lists(depth, slice_end)
    assert (children.dtype, first_child.dtype) == (np.int32, np.int32)
    total = len(depth)

    def below(start: int, end: int, at: int) -> list[int]:
        return [i for i in range(start, end) if depth[i] == at]

    for node in range(total):
        end = next((i for i in range(node + 1, total) if depth[i] <= depth[node]), total)
        end = min(end, slice_end) if node < slice_end else end
        assert children[first_child[node] : first_child[node + 1]].tolist() == below(node + 1, end, depth[node] + 1)
    assert children[first_child[total] : first_child[total + 1]].tolist() == below(0, slice_end, 1)
    assert children[first_child[total + 1] :].tolist() == below(slice_end, total, 1)


@given(st.lists(TOKEN, max_size=40))
@settings(max_examples=100, deadline=None)
def test_kinds_below(tokens: list[bytes]) -> None:
    byte, depth, skip, _ = flat(tokens)
    below = kinds_below(byte, depth)
    assert below.dtype == np.int32 and BYTE_KIND.min() >= 0 and BYTE_KIND.max() < 31
    for node in range(len(byte)):
        inside = byte[node + 1 : node + skip[node]]
        assert {k for k in range(31) if below[node] >> k & 1} == set(BYTE_KIND[inside].tolist())


@given(st.lists(st.one_of(TOKEN, st.binary(min_size=250, max_size=260)), max_size=40))
@settings(max_examples=100, deadline=None)
def test_reaches(tokens: list[bytes]) -> None:
    _, depth, skip, _ = flat(tokens)
    reach = reaches(depth)
    assert reach.dtype == np.uint8
    for node in range(len(depth)):
        assert reach[node] == min(max(depth[node : node + skip[node]]) - depth[node], 255)


def test_duplicates_follow_the_subtree() -> None:
    byte, depth, skip, token = flat([b"a", b"ab", b"a", b"ab", b"b", b"a"])
    assert bytes(byte) == b"abbaab"
    assert depth.tolist() == [1, 2, 2, 1, 1, 1]
    assert skip.tolist() == [3, 1, 1, 1, 1, 1]
    assert token.tolist() == [0, 1, 3, 2, 5, 4]


def test_long_token_and_nothing() -> None:
    byte, depth, skip, token = flat([b"x" * 3000, b"x" * 2999 + b"y"])
    assert len(byte) == 3001 and depth[-1] == depth[-2] == 3000 and skip[0] == 3001
    assert token[-2:].tolist() == [0, 1] and (token[:-2] == -1).all()
    assert [len(a) for a in flat([])] == [0, 0, 0, 0]


@given(st.lists(TOKEN, max_size=30))
@settings(max_examples=100, deadline=None)
def test_common_prefixes(tokens: list[bytes]) -> None:
    tokens.sort()
    lengths = np.array([len(t) for t in tokens], np.int64)
    shared = common_prefixes(np.frombuffer(b"".join(tokens), np.uint8), np.cumsum(lengths) - lengths, lengths)
    for i, (before, token) in enumerate(itertools.pairwise(tokens)):
        equal = [a == b for a, b in zip(before, token)]
        assert shared[i + 1] == (equal.index(False) if False in equal else len(equal))


@pytest.mark.parametrize("size", [1, 31, 32, 33, 100])
def test_cumulative_masks(size: int) -> None:
    keys = np.arange(size) % 5
    masks = cumulative_masks(np.arange(size), keys, 7, size)
    assert masks.dtype == np.int32 and masks.shape == (7, (size + 31) // 32) and masks.flags.c_contiguous
    for row in range(7):
        for t in range(masks.shape[1] * 32):
            assert (int(masks[row, t // 32]) >> (t % 32) & 1) == (t < size and t % 5 <= row)
