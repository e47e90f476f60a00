"""Token bitmasks: allocate, check, and apply them to logits on the CPU (Numba) or on a GPU (Triton).

A bitmask is an int32 torch tensor or NumPy array of shape ``(batch, ceil(vocabulary / 32))``. Token ``t`` is allowed where bit
``t % 32`` of word ``t // 32`` is one. The layout, and the meaning of ``indices``, are those of xgrammar and of vLLM.

>>> import numpy as np
>>> mask = allocate_token_bitmask(1, 5, array="numpy")
>>> mask[0, 0] = 0b10010
>>> logits = np.zeros((1, 5), np.float32)
>>> apply_token_bitmask_inplace(logits, mask)
>>> logits
array([[-inf,   0., -inf, -inf,   0.]], dtype=float32)

Only NumPy and Numba are required. PyTorch is imported only when a tensor is asked for.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from cdplugin.bits import bit_flags, bitmask_words
from cdplugin.errors import integer, needs
from cdplugin.kernels.masks.bitmask import MINUS_INFINITY, mask_rows

if TYPE_CHECKING:
    import torch

_NO_INDICES = np.empty(0, np.int64)
_NO_MASK = np.empty(0, np.int32)


@overload
def allocate_token_bitmask(batch_size: int, vocab_size: int, array: Literal["torch"] | None = None) -> torch.Tensor: ...
@overload
def allocate_token_bitmask(batch_size: int, vocab_size: int, array: Literal["numpy"]) -> np.ndarray: ...
def allocate_token_bitmask(batch_size: int, vocab_size: int, array: Literal["torch", "numpy"] | None = None) -> Any:
    """A new bitmask that allows everything: int32, ``(batch_size, ceil(vocab_size / 32))``, filled with -1.

    ``array``: ``"torch"`` or ``"numpy"``; None: a tensor where PyTorch is installed, else a NumPy array. A tensor's memory is
    pinned where CUDA is available, so that a copy to the device can run beside the forward pass.
    Raises ``TypeError`` or ``ValueError`` for sizes that are not integers, or are negative, for an empty vocabulary and for
    another ``array``; ``MemoryError`` where the bitmask does not fit into memory; ``ImportError`` for ``"torch"`` where PyTorch
    is not installed.
    """
    if array not in (None, "torch", "numpy"):
        raise ValueError(f"array: expected 'torch', 'numpy' or None, found {array!r}")
    for name, value, least in (("batch_size", batch_size, 0), ("vocab_size", vocab_size, 1)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise TypeError(f"{name}: expected an int, found {type(value).__name__}")
        if value < least:
            raise ValueError(f"{name}: expected at least {least}, found {value}")
    shape = (int(batch_size), bitmask_words(int(vocab_size)))
    nbytes = 4 * shape[0] * shape[1]
    sizes = f"a bitmask for {batch_size} sequences and {vocab_size} tokens"
    too_large = f"{sizes} takes {nbytes} bytes: expected as many as memory has"
    if nbytes > sys.maxsize:
        raise MemoryError(too_large)
    if array == "numpy":
        return _all_allowed(shape, too_large)
    try:
        with needs("cdplugin[hf]"):
            import torch
    except ModuleNotFoundError as error:
        if array is None and error.name == "torch":
            return _all_allowed(shape, too_large)
        raise
    if torch.cuda.is_available():
        try:
            return torch.full(shape, -1, dtype=torch.int32, pin_memory=True)
        except RuntimeError:  # the driver refuses to pin so much: an ordinary allocation works as well, only slower
            pass
    try:
        return torch.full(shape, -1, dtype=torch.int32)
    except RuntimeError as error:  # so torch says that there is no memory
        raise MemoryError(too_large) from error


def _all_allowed(shape: tuple[int, int], too_large: str) -> np.ndarray:
    try:
        return np.full(shape, -1, np.int32)
    except (MemoryError, ValueError) as error:  # ValueError: a dimension that NumPy does not have
        raise MemoryError(too_large) from error


def bitmask_view(bitmask: Any, size: int) -> np.ndarray:
    """A NumPy view of a bitmask, for code that fills it: int32, ``(rows, ceil(size / 32))``, C-contiguous, sharing memory.

    ``bitmask`` is a torch tensor on the CPU or a NumPy array. Raises ``TypeError`` for another type or dtype, ``ValueError``
    for another shape or device, for memory that is not contiguous, and for an array that cannot be written.
    """
    if isinstance(bitmask, np.ndarray):
        array = bitmask
    elif hasattr(bitmask, "data_ptr") and hasattr(bitmask, "numpy"):
        _refuse_views(sys.modules["torch"], "bitmask", bitmask)
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
    logits: torch.Tensor | np.ndarray,
    bitmask: torch.Tensor | np.ndarray,
    indices: Sequence[int] | np.ndarray | torch.Tensor | None = None,
) -> None:
    """Set the logits of masked tokens to minus infinity.

    Parameters
    ----------
    logits : a torch tensor on any device or a NumPy array: float32, float16 or bfloat16 (NumPy: ``ml_dtypes``' too, and
        float64), ``(batch, columns)`` or ``(columns,)``; any strides. Written in place.
    bitmask : int32, ``(batch, words)`` or ``(words,)``, a tensor or an array, whichever the logits are; rows are contiguous. A
        bitmask on the CPU may go with logits on a device: it is copied first, and the copy is complete when this function
        returns.
    indices : the rows to treat: row ``i`` of the bitmask masks row ``i`` of the logits for every ``i`` in it, all other rows
        stay as they are, and the numbers of rows need not be equal. None: all rows.

    Columns that the bitmask does not cover (``columns > 32 * words``: a model that pads its vocabulary) are masked too: no
    token is behind them. xgrammar leaves them as they are, with a warning. Bits beyond the last column are ignored.

    On the CPU this is a Numba kernel (NumPy itself for float64, and for strides that are negative or not whole elements), on
    CUDA a Triton kernel, or plain PyTorch operations where Triton is missing and on other devices. O(rows * columns).
    Raises ``TypeError`` for wrong types, ``ValueError`` for wrong shapes, devices and indices, and for read-only arrays.
    """
    torch = sys.modules.get("torch")  # whoever has a tensor has imported it
    logits, bitmask = _checked(torch, logits, bitmask)
    if logits.ndim == 1:
        logits, bitmask = logits[None], bitmask[None]
    batch, columns = logits.shape
    listed = None if indices is None else _row_indices(torch, indices, min(batch, bitmask.shape[0]))
    if listed is None and bitmask.shape[0] != batch:
        raise ValueError(f"bitmask: expected {batch} rows as in logits, found {bitmask.shape[0]}; or name the rows by indices")
    rows = batch if listed is None else len(listed)
    if rows == 0 or columns == 0:
        return
    if isinstance(logits, np.ndarray):
        _apply_on_cpu(logits, bitmask, listed, rows, logits.dtype.name)
        return
    assert torch is not None
    if logits.device.type == "cpu":
        bits = logits.detach().view(torch.int32 if logits.dtype == torch.float32 else torch.int16).numpy()
        _apply_on_cpu(bits, bitmask.numpy(), listed, rows, str(logits.dtype).removeprefix("torch."))
        return
    bitmask = bitmask.to(logits.device)
    # Not waiting for the device is safe: pageable memory is staged before the call returns.
    selected = None if listed is None else torch.from_numpy(listed.astype(np.int32)).to(logits.device, non_blocking=True)
    if logits.device.type == "cuda" and (kernel := _triton_kernel()) is not None:
        with torch.cuda.device(logits.device):
            kernel(logits, bitmask, selected, rows)
    else:
        apply_with_torch(logits, bitmask, selected)


def _checked(torch: Any, logits: Any, bitmask: Any) -> tuple[Any, Any]:
    """Check both arguments. Returns them, with the bitmask converted to the kind of the logits: tensor or array."""
    for name, value in (("logits", logits), ("bitmask", bitmask)):
        if not isinstance(value, np.ndarray) and (torch is None or not isinstance(value, torch.Tensor)):
            raise TypeError(f"{name}: expected a torch.Tensor or numpy.ndarray, found {type(value).__name__}")
        if torch is not None and not isinstance(value, np.ndarray):
            _refuse_views(torch, name, value)
    is_array = isinstance(logits, np.ndarray)
    kind = logits.dtype.name if is_array else str(logits.dtype).removeprefix("torch.")
    kinds = (*MINUS_INFINITY, "float64") if is_array else tuple(MINUS_INFINITY)
    if kind not in kinds:
        raise TypeError(f"logits: expected {', '.join(kinds[:-1])} or {kinds[-1]}, found {kind}")
    if str(bitmask.dtype).removeprefix("torch.") != "int32":
        raise TypeError(f"bitmask: expected dtype int32, found {str(bitmask.dtype).removeprefix('torch.')}")
    if logits.ndim not in (1, 2):
        raise ValueError(f"logits: expected shape (batch, vocabulary) or (vocabulary,), found {tuple(logits.shape)}")
    if bitmask.ndim != logits.ndim:
        raise ValueError(f"bitmask: expected {logits.ndim} dimensions as in logits, found shape {tuple(bitmask.shape)}")
    if isinstance(bitmask, np.ndarray):
        is_contiguous, strides = bitmask.strides[-1] == bitmask.itemsize or not bitmask.size, bitmask.strides
    else:
        is_contiguous, strides = bitmask.stride(-1) == 1, bitmask.stride()
        device = "cpu" if is_array else logits.device
        if bitmask.device != torch.device(device) and bitmask.device.type != "cpu":
            raise ValueError(f"bitmask: expected it on the CPU or on the logits' device {device}, found {bitmask.device}")
    if bitmask.shape[-1] > 1 and not is_contiguous:
        raise ValueError(f"bitmask: expected contiguous rows, found strides {strides} for shape {tuple(bitmask.shape)}")
    if is_array and not logits.flags.writeable:
        raise ValueError("logits: expected a writable array, found a read-only one")
    if logits.ndim == 2 and logits.shape[0] > 1 and logits.shape[1]:
        apart = (logits.strides if is_array else logits.stride())[0]
        if apart == 0:
            raise ValueError(f"logits: expected rows with memory of their own, found {logits.shape[0]} rows that share theirs")
    if is_array:
        return logits, bitmask if isinstance(bitmask, np.ndarray) else bitmask.numpy()
    return logits, torch.from_numpy(np.require(bitmask, None, ["C", "W"])) if isinstance(bitmask, np.ndarray) else bitmask


def _refuse_views(torch: Any, name: str, value: Any) -> None:
    """Raise ``TypeError`` for a sparse tensor, and for a lazily negated view: their memory does not hold their values."""
    if value.layout is not torch.strided:
        raise TypeError(f"{name}: expected a dense tensor, found layout {value.layout}")
    if value.is_neg():
        raise TypeError(f"{name}: expected a tensor that holds its values, found a negated view of them: see resolve_neg()")


def _row_indices(torch: Any, indices: Any, rows: int) -> np.ndarray:
    """``indices`` as int64, checked to be in ``[0, rows)``."""
    if torch is not None and isinstance(indices, torch.Tensor):
        indices = indices.detach().cpu().numpy()
    try:
        listed = np.asarray(indices)
    except ValueError:
        raise TypeError("indices: expected a list of row numbers, found rows of different lengths") from None
    if listed.size == 0:
        return _NO_INDICES
    if listed.ndim != 1 or not np.issubdtype(listed.dtype, np.integer):
        raise TypeError(f"indices: expected a list of row numbers, found dtype {listed.dtype} and shape {listed.shape}")
    low, high = int(listed.min()), int(listed.max())
    if low < 0 or high >= rows:
        raise ValueError(f"indices: expected rows from 0 to {rows - 1}, found {low if low < 0 else high}")
    return np.ascontiguousarray(listed, dtype=np.int64)


def _apply_on_cpu(logits: np.ndarray, bitmask: np.ndarray, listed: np.ndarray | None, rows: int, kind: str) -> None:
    """Mask arrays in place. ``kind``: the dtype of the logits; ``logits`` may hold their bits as integers.

    One kernel call on one thread: memory bandwidth is the bound, and a second thread did not pay for up to 256 rows of 131k.
    Arrays that the kernel has no layout for go row by row through :func:`_apply_plain`.
    """
    batch, columns = logits.shape
    mask_batch, words = bitmask.shape
    size = logits.itemsize
    fill = MINUS_INFINITY.get(kind)
    is_plain = all(a.flags.aligned and a.dtype.isnative and min(a.strides) >= 0 for a in (logits, bitmask))
    if fill is None or not is_plain or any(step % size for step in logits.strides) or bitmask.strides[0] % 4:
        _apply_plain(logits, bitmask, range(rows) if listed is None else listed)
        return
    row_stride, column_stride, mask_stride = logits.strides[0] // size, logits.strides[1] // size, bitmask.strides[0] // 4
    # Flat views over the memory give Numba one layout, whatever the strides.
    span = 1 + (batch - 1) * row_stride + (columns - 1) * column_stride
    flat = np.lib.stride_tricks.as_strided(logits, (span,), (size,)).view(fill.dtype)
    masks = np.lib.stride_tricks.as_strided(bitmask, ((mask_batch - 1) * mask_stride + words,), (4,)) if words else _NO_MASK
    listed = _NO_INDICES if listed is None else listed
    mask_rows(flat, row_stride, column_stride, columns, masks, mask_stride, words, listed, rows, fill)


def _apply_plain(logits: np.ndarray, bitmask: np.ndarray, rows: Sequence[int] | np.ndarray) -> None:
    """:func:`apply_token_bitmask_inplace` with NumPy only, for any float type and strides; a temporary byte per column."""
    columns = logits.shape[1]
    for i in rows:
        logits[i, ~bit_flags(np.ascontiguousarray(bitmask[i], "<i4"), columns)] = -np.inf


@lru_cache(maxsize=1)
def _triton_kernel() -> Any:
    """The Triton kernel's launcher, or None where Triton is not installed."""
    try:
        from cdplugin.kernels.masks.bitmask_triton import mask_rows as launch
    except ImportError:
        return None
    return launch


def apply_with_torch(logits: torch.Tensor, bitmask: torch.Tensor, indices: torch.Tensor | None) -> None:
    """:func:`apply_token_bitmask_inplace` with PyTorch only: 2-D tensors on one device, ``indices`` an int tensor or None.

    Allocates a temporary of one byte per logit, and a copy of the selected logits where ``indices`` is given.
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


_Ask = Callable[[], int] | None
_Seen = tuple[Any, int, int, int, int, int, _Ask, _Ask, Any]
"""The last checked bitmask, and the vocabulary's size; address of its rows, bytes of a row, number of rows and of words; a
tensor's ``data_ptr`` and ``numel``, to be called again, or None for an array; a weak reference. A plain tuple, since it
unpacks in half the time of a named one.
"""

_seen: _Seen = (None, 0, 0, 0, 0, 0, None, None, None)


def row_address(bitmask: Any, index: int, size: int) -> int:
    """Address of a row of a bitmask. Raises what :func:`bitmask_view` raises, and ``ValueError`` for a row that is not there.

    Checking a bitmask costs more than filling a cached mask, so the last checked one is remembered (and kept alive): a loop
    fills the same one again and again. Reading an array's address costs as much as a mask, too. It is not read again, because a
    weak reference to the array is kept, and NumPy refuses to resize, and so to move, an array that has one. A tensor is
    compared by its number of elements, which is faster than its shape and as good a sign that its memory is the same.
    """
    seen, known_size, address, stride, rows, words, data_ptr, numel, _ = _seen
    if (
        seen is not bitmask
        or known_size != size
        or not (  # the same object, but its memory may have been replaced
            len(bitmask) == rows and bitmask.flags.writeable
            if data_ptr is None or numel is None
            else data_ptr() == address and numel() == words
        )
    ):
        _, _, address, stride, rows, *_ = _look_at(bitmask, size)
    if type(index) is not int:
        index = integer("bitmask row", index)
    place = index if index >= 0 else index + rows
    if 0 <= place < rows:
        return address + stride * place
    raise ValueError(f"bitmask row: expected 0 to {rows - 1}, found {index}")


def _look_at(bitmask: Any, size: int) -> _Seen:
    """Check a bitmask and remember it as the last one."""
    global _seen
    view = bitmask_view(bitmask, size)
    ask = (None, None) if isinstance(bitmask, np.ndarray) else (bitmask.data_ptr, bitmask.numel)
    _seen = (bitmask, size, view.ctypes.data, view.strides[0], len(view), view.size, *ask, weakref.ref(bitmask))
    return _seen
