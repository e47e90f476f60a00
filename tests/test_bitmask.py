"""Allocating, viewing and applying bitmasks, beside a readable reference in torch and beside xgrammar."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cdplugin.bitmask import allocate_token_bitmask, apply_token_bitmask_inplace, apply_with_torch, bitmask_view

ROOT = Path(__file__).resolve().parents[1]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def reference(logits: torch.Tensor, bitmask: torch.Tensor, rows: list[int] | None = None) -> torch.Tensor:
    """Token by token: the mask decides, and what it does not cover is masked."""
    out = logits.clone()
    for i in range(logits.shape[0]) if rows is None else rows:
        for t in range(logits.shape[1]):
            covered = t // 32 < bitmask.shape[1]
            if not covered or not (int(bitmask[i, t // 32]) >> (t % 32)) & 1:
                out[i, t] = float("-inf")
    return out


def random_case(batch: int, columns: int, words: int, dtype: torch.dtype, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(batch, columns, generator=generator).to(dtype)
    bitmask = torch.randint(-(2**31), 2**31 - 1, (batch, words), generator=generator).to(torch.int32)
    bitmask[torch.rand(batch, words, generator=generator) < 0.25] = -1
    bitmask[torch.rand(batch, words, generator=generator) < 0.25] = 0
    return logits, bitmask


def test_allocate() -> None:
    bitmask = allocate_token_bitmask(3, 65)
    assert bitmask.shape == (3, 3)
    assert bitmask.dtype == torch.int32
    assert (bitmask == -1).all()
    assert bitmask.device.type == "cpu"
    assert allocate_token_bitmask(0, 32).shape == (0, 1)
    assert bitmask.is_pinned() == torch.cuda.is_available()


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((-1, 10), ValueError, "batch_size: expected at least 0, found -1"),
        ((1, 0), ValueError, "vocab_size: expected at least 1, found 0"),
        ((1.5, 10), TypeError, "batch_size: expected an int, found float"),
        ((1, "10"), TypeError, "vocab_size: expected an int, found str"),
        ((True, 10), TypeError, "batch_size: expected an int, found bool"),
        ((1 << 40, 1 << 40), MemoryError, "for 1099511627776 sequences and 1099511627776 tokens takes 15111572745"),
        ((1 << 50, 32), MemoryError, "takes 4503599627370496 bytes"),
        ((1 << 50, 32, "numpy"), MemoryError, "takes 4503599627370496 bytes"),
        ((1 << 63, 32, "numpy"), MemoryError, "takes 36893488147419103232 bytes"),
        ((1, 10, "jax"), ValueError, "array: expected 'torch', 'numpy' or None, found 'jax'"),
    ],
)
def test_allocate_refuses(arguments: tuple, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        allocate_token_bitmask(*arguments)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_apply_equals_reference(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(DTYPES))
    batch, columns = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 130))
    words = data.draw(st.integers(1, 5))
    layout = data.draw(st.sampled_from(["plain", "padded", "transposed", "stepped"]))
    seed = data.draw(st.integers(0, 10_000))
    rows = data.draw(st.one_of(st.none(), st.lists(st.integers(0, batch - 1), unique=True)))
    logits, bitmask = random_case(batch, columns, words, dtype, seed)
    expected = reference(logits, bitmask, rows)
    if layout == "padded":
        owner = torch.zeros(batch, columns + 7, dtype=dtype)
        view = owner[:, 3 : 3 + columns]
    elif layout == "transposed":
        owner = torch.zeros(columns, batch, dtype=dtype)
        view = owner.t()
    elif layout == "stepped":
        owner = torch.zeros(batch * 2, columns * 2, dtype=dtype)
        view = owner[::2, ::2]
    else:
        owner = view = torch.zeros(batch, columns, dtype=dtype)
    view.copy_(logits)
    masked_before = int((owner == float("-inf")).sum())
    apply_token_bitmask_inplace(view, bitmask, rows)
    assert torch.equal(view, expected)
    assert masked_before == 0
    assert int((owner == float("-inf")).sum()) == int((expected == float("-inf")).sum())  # nothing beside the view was written


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_torch_path_equals_reference(data: st.DataObject) -> None:
    """The path of devices without Triton, run on the CPU."""
    batch, columns, words = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 130)), data.draw(st.integers(1, 5))
    rows = data.draw(st.one_of(st.none(), st.lists(st.integers(0, batch - 1), unique=True, min_size=1)))
    logits, bitmask = random_case(batch, columns, words, data.draw(st.sampled_from(DTYPES)), data.draw(st.integers(0, 10_000)))
    expected = reference(logits, bitmask, rows)
    apply_with_torch(logits, bitmask, None if rows is None else torch.tensor(rows, dtype=torch.int32))
    assert torch.equal(logits, expected)


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor, lambda rows: np.array(rows, np.int32)])
def test_indices_of_any_kind(kind) -> None:  # type: ignore[no-untyped-def]
    logits, bitmask = random_case(5, 100, 4, torch.float32, 0)
    expected = reference(logits, bitmask, [4, 1])
    apply_token_bitmask_inplace(logits, bitmask, kind([4, 1]))
    assert torch.equal(logits, expected)


def test_indices_with_unequal_batches_and_none_selected() -> None:
    logits, bitmask = random_case(5, 100, 4, torch.float32, 1)
    expected = reference(logits, bitmask, [0, 2])
    apply_token_bitmask_inplace(logits, bitmask[:3], [0, 2])
    assert torch.equal(logits, expected)
    apply_token_bitmask_inplace(logits, bitmask[:3], [])
    assert torch.equal(logits, expected)


def test_one_dimension() -> None:
    logits, bitmask = random_case(1, 77, 3, torch.bfloat16, 2)
    expected = reference(logits, bitmask)
    apply_token_bitmask_inplace(logits[0], bitmask[0])
    assert torch.equal(logits, expected)


def test_columns_beyond_the_mask_are_masked_and_bits_beyond_the_columns_ignored() -> None:
    logits = torch.zeros(1, 70)
    apply_token_bitmask_inplace(logits, torch.full((1, 2), -1, dtype=torch.int32))
    assert (logits[0, :64] == 0).all()
    assert (logits[0, 64:] == float("-inf")).all()
    logits = torch.zeros(1, 10)
    apply_token_bitmask_inplace(logits, torch.full((1, 2), -1, dtype=torch.int32))
    assert (logits == 0).all()


def test_padded_bitmask_rows_and_gradients() -> None:
    logits, bitmask = random_case(3, 96, 3, torch.float32, 3)
    wide = torch.zeros(3, 8, dtype=torch.int32)
    wide[:, 2:5] = bitmask
    expected = reference(logits, bitmask)
    logits.requires_grad_(True)
    apply_token_bitmask_inplace(logits, wide[:, 2:5])
    assert torch.equal(logits.detach(), expected)


def test_nan_and_infinities_that_are_allowed_stay() -> None:
    logits = torch.tensor([[float("nan"), float("inf"), float("nan"), float("-inf")]])
    apply_token_bitmask_inplace(logits, torch.tensor([[0b0011]], dtype=torch.int32))
    assert torch.isnan(logits[0, 0])
    assert logits[0, 1:].tolist() == [float("inf"), float("-inf"), float("-inf")]


def test_equals_xgrammar() -> None:
    xgrammar = pytest.importorskip("xgrammar")
    for seed, (dtype, columns, rows) in enumerate(
        [(d, c, r) for d in DTYPES for c in (64, 1000, 32000) for r in (None, [2, 0])]  # bitmask covers every column
    ):
        logits, bitmask = random_case(3, columns, (columns + 31) // 32, dtype, seed)
        theirs = logits.clone()
        apply_token_bitmask_inplace(logits, bitmask, rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            xgrammar.apply_token_bitmask_inplace(theirs, bitmask, indices=rows)
        assert torch.equal(logits, theirs)


GOOD = torch.zeros(2, 64)
MASK = torch.full((2, 2), -1, dtype=torch.int32)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (([[0.0]], MASK), TypeError, r"logits: expected a torch\.Tensor or numpy\.ndarray, found list"),
        ((GOOD, [[-1]]), TypeError, r"bitmask: expected a torch\.Tensor or numpy\.ndarray, found list"),
        ((GOOD.double(), MASK), TypeError, "logits: expected float32, float16 or bfloat16, found float64"),
        ((GOOD, MASK.long()), TypeError, "bitmask: expected dtype int32, found int64"),
        (
            (GOOD.unsqueeze(0), MASK),
            ValueError,
            r"expected shape \(batch, vocabulary\) or \(vocabulary,\), found \(1, 2, 64\)",
        ),
        ((GOOD, MASK[0]), ValueError, r"bitmask: expected 2 dimensions as in logits, found shape \(2,\)"),
        ((GOOD, MASK[:1]), ValueError, "bitmask: expected 2 rows as in logits, found 1; or name the rows by indices"),
        ((GOOD, MASK.t().contiguous().t()), ValueError, "bitmask: expected contiguous rows, found strides"),
        ((GOOD, MASK, [2]), ValueError, "indices: expected rows from 0 to 1, found 2"),
        ((GOOD, MASK, [-1, 0]), ValueError, "indices: expected rows from 0 to 1, found -1"),
        ((GOOD, MASK, [0.5]), TypeError, "indices: expected a list of row numbers, found dtype float64"),
        ((GOOD, MASK, [[0]]), TypeError, r"indices: expected a list of row numbers, found dtype int64 and shape \(1, 1\)"),
        (
            (GOOD, torch.empty(2, 2, dtype=torch.int32, device="meta")),
            ValueError,
            "expected it on the CPU or on the logits'",
        ),
    ],
)
def test_apply_refuses(arguments: tuple, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        apply_token_bitmask_inplace(*arguments)
    assert (GOOD == 0).all()


def test_an_empty_batch() -> None:
    """The finding: NumPy's strides of an empty array are zero, and were taken for rows that are not contiguous."""
    for indices in (None, []):
        apply_token_bitmask_inplace(np.zeros((0, 70), np.float32), np.zeros((0, 3), np.int32), indices)
        apply_token_bitmask_inplace(torch.zeros(0, 70), torch.zeros(0, 3, dtype=torch.int32), indices)


@pytest.mark.parametrize(
    "logits", [torch.zeros(1, 70).expand(4, 70), np.lib.stride_tricks.as_strided(np.zeros(70), (4, 70), (0, 8))]
)
def test_rows_that_share_memory_are_refused(logits: Any) -> None:
    """The finding: all of them got the tokens that each of four masks allows."""
    with pytest.raises(ValueError, match="logits: expected rows with memory of their own, found 4 rows that share theirs"):
        apply_token_bitmask_inplace(logits, np.zeros((4, 3), np.int32))


def test_view_shares_memory() -> None:
    tensor = allocate_token_bitmask(2, 70)
    view = bitmask_view(tensor, 70)
    view[1, 2] = 5
    assert tensor[1, 2] == 5
    array = np.zeros((2, 3), np.int32)
    assert bitmask_view(array, 70) is array


READ_ONLY = np.zeros((1, 1), np.int32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("bitmask", "error", "text"),
    [
        ([[0]], TypeError, r"bitmask: expected a torch\.Tensor or numpy\.ndarray, found list"),
        (np.zeros((1, 1), np.uint32), TypeError, "bitmask: expected dtype int32, found uint32"),
        (torch.zeros(1, 1, dtype=torch.int64), TypeError, "bitmask: expected dtype int32, found int64"),
        (
            np.zeros((1, 2), np.int32),
            ValueError,
            r"expected shape \(rows, 1\) for a vocabulary of 20 tokens, found \(1, 2\)",
        ),
        (np.zeros(1, np.int32), ValueError, r"bitmask: expected shape \(rows, 1\) for a vocabulary of 20 tokens, found \(1,\)"),
        (np.zeros((4, 1), np.int32)[::2], ValueError, "bitmask: expected C-contiguous memory, found strides"),
        (READ_ONLY, ValueError, "bitmask: expected a writable array"),
        (
            torch.zeros(1, 1, dtype=torch.int32, device="meta"),
            ValueError,
            "expected a tensor on the CPU, found one on meta",
        ),
    ],
)
def test_view_refuses(bitmask: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        bitmask_view(bitmask, 20)


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, cdplugin, cdplugin.bitmask; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=120)
    assert result.returncode == 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("dtype", DTYPES)
def test_cuda_equals_cpu(dtype: torch.dtype) -> None:
    """Triton and plain PyTorch on the device, beside the CPU kernel; with the mask on either side."""
    logits, bitmask = random_case(6, 50_000, 1563, dtype, 7)
    for rows in (None, [5, 2]):
        expected = logits.clone()
        apply_token_bitmask_inplace(expected, bitmask, rows)
        for mask in (bitmask, bitmask.cuda()):
            actual = torch.zeros(6, 50_009, dtype=dtype, device="cuda")[:, :50_000]
            actual.copy_(logits)
            apply_token_bitmask_inplace(actual, mask, rows)
            assert torch.equal(actual.cpu(), expected)
        actual = logits.cuda()
        apply_with_torch(actual, bitmask.cuda(), None if rows is None else torch.tensor(rows, device="cuda"))
        assert torch.equal(actual.cpu(), expected)


@pytest.mark.parametrize(
    ("view", "text"),
    [
        (lambda tensor: tensor.to_sparse(), "expected a dense tensor, found layout torch.sparse_coo"),
        (torch._neg_view, "found a negated view of them"),
    ],
    ids=["sparse", "negated"],
)
def test_tensors_that_do_not_hold_their_values(view: Callable[[torch.Tensor], torch.Tensor], text: str) -> None:
    """The finding: errors of PyTorch about storages and views, which named neither argument."""
    logits, bitmask = random_case(2, 64, 2, torch.float32, 0)
    with pytest.raises(TypeError, match=f"logits: .*{text}"):
        apply_token_bitmask_inplace(view(logits), bitmask)
    with pytest.raises(TypeError, match=f"bitmask: .*{text}"):
        apply_token_bitmask_inplace(logits, view(bitmask))
    with pytest.raises(TypeError, match=f"bitmask: .*{text}"):
        bitmask_view(view(bitmask), 64)
