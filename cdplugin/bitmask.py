"""Token bitmasks: allocate, check, and apply them to logits on the CPU (Numba) or on a GPU (Triton).

A bitmask is an int32 tensor of shape ``(batch, ceil(vocabulary / 32))``. Token ``t`` is allowed where bit ``t % 32`` of word
``t // 32`` is one. The layout, and the meaning of ``indices``, are those of xgrammar and of vLLM.

>>> import torch
>>> mask = allocate_token_bitmask(1, 5)
>>> mask[0, 0] = 0b10010
>>> logits = torch.zeros(1, 5)
>>> apply_token_bitmask_inplace(logits, mask)
>>> logits
tensor([[-inf, 0., -inf, -inf, 0.]])

PyTorch is imported inside the functions, so that ``import cdplugin`` stays light.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from cdplugin.kernels.masks.bitmask import MINUS_INFINITY, mask_rows

if TYPE_CHECKING:
    import torch

_NO_INDICES = np.empty(0, np.int64)
_NO_MASK = np.empty(0, np.int32)


def bitmask_words(vocab_size: int) -> int:
    """The number of 32-bit words of a row: ``ceil(vocab_size / 32)``."""
    return (vocab_size + 31) // 32


def allocate_token_bitmask(batch_size: int, vocab_size: int) -> torch.Tensor:
    """A new bitmask that allows everything: int32, ``(batch_size, ceil(vocab_size / 32))``, filled with -1.

    The memory is pinned where CUDA is available, so that a copy to the device can run beside the forward pass.
    Raises ``TypeError`` or ``ValueError`` for sizes that are not integers, or are negative, or for an empty vocabulary.
    """
    import torch

    for name, value, least in (("batch_size", batch_size, 0), ("vocab_size", vocab_size, 1)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise TypeError(f"{name}: expected an int, found {type(value).__name__}")
        if value < least:
            raise ValueError(f"{name}: expected at least {least}, found {value}")
    shape = (int(batch_size), bitmask_words(int(vocab_size)))
    if torch.cuda.is_available():
        try:
            return torch.full(shape, -1, dtype=torch.int32, pin_memory=True)
        except RuntimeError:  # the driver refuses to pin so much: an ordinary allocation works as well, only slower
            pass
    return torch.full(shape, -1, dtype=torch.int32)


def bitmask_view(bitmask: Any, size: int) -> np.ndarray:
    """A NumPy view of a bitmask, for code that fills it: int32, ``(rows, ceil(size / 32))``, C-contiguous, sharing memory.

    ``bitmask`` is a torch tensor on the CPU or a NumPy array. Raises ``TypeError`` for another type or dtype, ``ValueError``
    for another shape or device, for memory that is not contiguous, and for an array that cannot be written.
    """
    if isinstance(bitmask, np.ndarray):
        array = bitmask
    elif hasattr(bitmask, "data_ptr") and hasattr(bitmask, "numpy"):
        if bitmask.device.type != "cpu":
            raise ValueError(
                f"bitmask: expected a tensor on the CPU, found one on {bitmask.device}; masks are filled on the host"
            )
        if str(bitmask.dtype) != "torch.int32":
            raise TypeError(f"bitmask: expected dtype int32, found {str(bitmask.dtype).removeprefix('torch.')}")
        array = bitmask.numpy()
    else:
        raise TypeError(f"bitmask: expected a torch.Tensor or numpy.ndarray, found {type(bitmask).__name__}")
    if array.dtype != np.int32:
        raise TypeError(f"bitmask: expected dtype int32, found {array.dtype}")
    words = bitmask_words(size)
    if array.ndim != 2 or array.shape[1] != words:
        raise ValueError(f"bitmask: expected shape (rows, {words}) for a vocabulary of {size} tokens, found {array.shape}")
    if not array.flags.c_contiguous:
        raise ValueError(f"bitmask: expected C-contiguous memory, found strides {array.strides} for shape {array.shape}")
    if not array.flags.writeable:
        raise ValueError("bitmask: expected a writable array, found a read-only one")
    return array


def apply_token_bitmask_inplace(
    logits: torch.Tensor, bitmask: torch.Tensor, indices: Sequence[int] | np.ndarray | torch.Tensor | None = None
) -> None:
    """Set the logits of masked tokens to minus infinity.

    Parameters
    ----------
    logits : float32, float16 or bfloat16, ``(batch, columns)`` or ``(columns,)``; any strides. Written in place.
    bitmask : int32, ``(batch, words)`` or ``(words,)``; rows are contiguous. A bitmask on the CPU may go with logits on a
        device: it is copied first, and the copy is complete when this function returns.
    indices : the rows to treat: row ``i`` of the bitmask masks row ``i`` of the logits for every ``i`` in it, all other rows
        stay as they are, and the numbers of rows need not be equal. None: all rows.

    Columns that the bitmask does not cover (``columns > 32 * words``: a model that pads its vocabulary) are masked too: no
    token is behind them. xgrammar leaves them as they are, with a warning. Bits beyond the last column are ignored.

    On the CPU this is a Numba kernel, on CUDA a Triton kernel, or plain PyTorch operations where Triton is missing and on other
    devices. O(rows * columns). Raises ``TypeError`` for wrong types, ``ValueError`` for wrong shapes, devices and indices.
    """
    import torch

    _check_tensors(torch, logits, bitmask)
    if logits.ndim == 1:
        logits, bitmask = logits.unsqueeze(0), bitmask.unsqueeze(0)
    batch, columns = logits.shape
    listed = None if indices is None else _row_indices(torch, indices, min(batch, bitmask.shape[0]))
    if listed is None and bitmask.shape[0] != batch:
        raise ValueError(f"bitmask: expected {batch} rows as in logits, found {bitmask.shape[0]}; or name the rows by indices")
    rows = batch if listed is None else len(listed)
    if rows == 0 or columns == 0:
        return
    if logits.device.type == "cpu":
        _apply_cpu(torch, logits, bitmask, listed, rows)
        return
    bitmask = bitmask.to(logits.device)
    # Pageable memory is staged before the call returns, so not to wait for the device is safe here.
    selected = None if listed is None else torch.from_numpy(listed.astype(np.int32)).to(logits.device, non_blocking=True)
    if logits.device.type == "cuda" and (kernel := _triton_kernel()) is not None:
        with torch.cuda.device(logits.device):
            kernel(logits, bitmask, selected, rows)
    else:
        apply_with_torch(logits, bitmask, selected)


def _check_tensors(torch: Any, logits: Any, bitmask: Any) -> None:
    for name, value in (("logits", logits), ("bitmask", bitmask)):
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"{name}: expected a torch.Tensor, found {type(value).__name__}")
    if logits.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise TypeError(f"logits: expected float32, float16 or bfloat16, found {str(logits.dtype).removeprefix('torch.')}")
    if bitmask.dtype != torch.int32:
        raise TypeError(f"bitmask: expected dtype int32, found {str(bitmask.dtype).removeprefix('torch.')}")
    if logits.ndim not in (1, 2):
        raise ValueError(f"logits: expected shape (batch, vocabulary) or (vocabulary,), found {tuple(logits.shape)}")
    if bitmask.ndim != logits.ndim:
        raise ValueError(f"bitmask: expected {logits.ndim} dimensions as in logits, found shape {tuple(bitmask.shape)}")
    if bitmask.device != logits.device and bitmask.device.type != "cpu":
        raise ValueError(f"bitmask: expected it on the CPU or on the logits' device {logits.device}, found {bitmask.device}")
    if bitmask.shape[-1] > 1 and bitmask.stride(-1) != 1:
        raise ValueError(
            f"bitmask: expected contiguous rows, found strides {bitmask.stride()} for shape {tuple(bitmask.shape)}"
        )


def _row_indices(torch: Any, indices: Any, rows: int) -> np.ndarray:
    """``indices`` as int64, each in ``[0, rows)``."""
    if isinstance(indices, torch.Tensor):
        indices = indices.detach().cpu().numpy()
    listed = np.asarray(indices)
    if listed.size == 0:
        return _NO_INDICES
    if listed.ndim != 1 or not np.issubdtype(listed.dtype, np.integer):
        raise TypeError(f"indices: expected a list of row numbers, found dtype {listed.dtype} and shape {listed.shape}")
    listed = np.ascontiguousarray(listed, dtype=np.int64)
    low, high = int(listed.min()), int(listed.max())
    if low < 0 or high >= rows:
        raise ValueError(f"indices: expected rows from 0 to {rows - 1}, found {low if low < 0 else high}")
    return listed


def _apply_cpu(torch: Any, logits: torch.Tensor, bitmask: torch.Tensor, listed: np.ndarray | None, rows: int) -> None:
    """One kernel call on one thread: a second did not pay for up to 256 rows of 131k (memory is the bound)."""
    batch, columns = logits.shape
    row_stride, column_stride = logits.stride()
    mask_batch, words = bitmask.shape
    mask_stride = bitmask.stride(0)
    if logits.dtype == torch.float32:
        integer, fill = torch.int32, MINUS_INFINITY["float32"]
    else:
        integer, fill = torch.int16, MINUS_INFINITY["float16" if logits.dtype == torch.float16 else "bfloat16"]
    # Flat views over the memory: one layout for Numba, whatever the strides.
    span = 1 + (batch - 1) * row_stride + (columns - 1) * column_stride
    flat = logits.detach().as_strided((span,), (1,)).view(integer).numpy()
    masks = bitmask.as_strided(((mask_batch - 1) * mask_stride + words,), (1,)).numpy() if words else _NO_MASK
    listed = _NO_INDICES if listed is None else listed
    mask_rows(flat, row_stride, column_stride, columns, masks, mask_stride, words, listed, rows, fill)


@lru_cache(maxsize=1)
def _triton_kernel() -> Any:
    """The Triton kernel's launcher, or None where Triton is not installed."""
    try:
        from cdplugin.kernels.masks.bitmask_triton import mask_rows as launch
    except ImportError:
        return None
    return launch


def apply_with_torch(logits: torch.Tensor, bitmask: torch.Tensor, indices: torch.Tensor | None) -> None:
    """The same on any device with PyTorch operations only: 2-D tensors on one device, ``indices`` an int tensor or None.

    Needs a temporary of one byte per logit, and of one logit more each where ``indices`` is given.
    """
    import torch

    columns = logits.shape[1]
    masks = bitmask if indices is None else bitmask[indices]
    bits = torch.arange(32, dtype=torch.int32, device=logits.device)
    allowed = ((masks.unsqueeze(-1) >> bits) & 1).bool().flatten(1)[:, :columns]
    if allowed.shape[1] < columns:
        allowed = torch.nn.functional.pad(allowed, (0, columns - allowed.shape[1]))
    if indices is None:
        logits.masked_fill_(~allowed, float("-inf"))
    else:
        logits[indices] = logits[indices].masked_fill(~allowed, float("-inf"))
