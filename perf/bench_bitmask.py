"""Time of apply_token_bitmask_inplace beside xgrammar's, on the same tensors, in turns in one run.

    .venv/bin/python perf/bench_bitmask.py [--vocab 131072] [--rows 1 8 64] [--repeat 300] [--out bitmask.json]
    TRITON_INTERPRET=1 … --device interpreted --vocab 1000 --rows 1 2 --repeat 2     # the Triton kernel without a card

Each line is one shape: percentiles of a call in microseconds for both, and the ratio of the medians. ``allowed`` is the
share of tokens that a mask allows. The bits are drawn independently, which is the worst case for skipping words.

On CUDA, events around the call measure the time on the device's queue, after a warm-up. Each shape is timed twice. In *p50*
the device is idle, so the launch from Python counts. In *kernel* the device is still busy while the call is made, as in a
decode loop that runs ahead, so only the kernel counts. *GB/s* belongs to the kernel and counts what has to move: the words
of the mask, and the logits that are written. *of copy* compares it with the bandwidth that a copy of as many logits from
device to device reaches in the same run (a copy reads and writes each).
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from cdplugin.bitmask import apply_token_bitmask_inplace

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
COLUMNS = {
    "device": "device",
    "dtype": "dtype",
    "vocabulary": "vocab",
    "rows": "rows",
    "allowed": "allowed",
    "p50 us": "p50 µs",
    "p99 us": "p99 µs",
    "xgrammar p50 us": "xgrammar p50",
    "xgrammar p99 us": "xgrammar p99",
    "ratio p50": "ratio p50",
    "kernel us": "kernel µs",
    "xgrammar kernel us": "xgrammar kernel",
    "kernel ratio": "kernel ratio",
    "GB/s": "GB/s",
    "of copy": "of copy",
}
"""The fields of a result, and the headings of the table."""


def random_bitmask(rows: int, vocab: int, allowed: float, rng: np.random.Generator) -> torch.Tensor:
    bits = rng.random((rows, (vocab + 31) // 32 * 32)) < allowed
    return torch.from_numpy(np.packbits(bits, axis=1, bitorder="little").view(np.int32).copy())


def once_cpu(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


BUSY = 400_000
"""Cycles that the device is kept busy for while a call is made: 0.2 ms, more than a launch takes."""


def once_cuda(call: Callable[[], None], busy: int = 0) -> float:
    """Seconds between two events around the call; ``busy``: for how many cycles the device has to work first."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    if busy:
        torch.cuda._sleep(busy)
    start.record()
    call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1000


def interleaved(calls: list[Callable[[], None]], once: Callable[[Callable[[], None]], float], repeat: int) -> np.ndarray:
    """Time calls in turns; returns seconds, ``(calls, repeat)``."""
    for call in calls:
        call()
    return np.array([[once(call) for call in calls] for _ in range(repeat)]).T


def ours(device: str) -> Callable[[torch.Tensor, torch.Tensor], None]:
    """The call that is timed: the public function, or the Triton kernel itself if Triton's interpreter runs it on the CPU."""
    if device != "interpreted":
        return apply_token_bitmask_inplace
    from cdplugin.kernels.masks.bitmask_triton import mask_rows

    return lambda logits, bitmask: mask_rows(logits, bitmask, None, logits.shape[0])


def measure(device: str, dtype: str, vocab: int, rows: int, allowed: float, repeat: int, seed: int = 0) -> dict[str, Any]:
    """Measure one shape: a result with the fields of ``COLUMNS``, those of xgrammar only if it is installed."""
    try:
        import xgrammar
    except ImportError:
        xgrammar = None
    where = "cuda" if device == "cuda" else "cpu"
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, vocab, generator=generator).to(DTYPES[dtype]).to(where)
    bitmask = random_bitmask(rows, vocab, allowed, np.random.default_rng(seed)).to(where)
    other = torch.empty_like(logits)
    apply = ours(device)

    def copy() -> None:
        other.copy_(logits)

    calls: dict[str, Callable[[], None]] = {
        "": lambda: apply(logits, bitmask),
        "copy": copy,
    }
    if xgrammar is not None:
        calls["xgrammar "] = lambda: xgrammar.apply_token_bitmask_inplace(logits, bitmask)
    if where == "cpu":
        del calls["copy"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = interleaved(list(calls.values()), once_cuda if where == "cuda" else once_cpu, repeat)
    half, tail = (dict(zip(calls, np.percentile(times, q, axis=1).tolist())) for q in (50, 99))
    out: dict[str, Any] = {"device": device, "dtype": dtype, "vocabulary": vocab, "rows": rows, "allowed": allowed}
    for name in calls:
        if name != "copy":
            out |= {f"{name}p50 us": round(half[name] * 1e6, 1), f"{name}p99 us": round(tail[name] * 1e6, 1)}
    if "xgrammar " in half:
        out["ratio p50"] = round(half[""] / half["xgrammar "], 2)
    if "copy" in half:
        kernels = interleaved(list(calls.values()), lambda call: once_cuda(call, BUSY), repeat)
        half = dict(zip(calls, np.percentile(kernels, 50, axis=1).tolist()))
        out |= {f"{name}kernel us": round(half[name] * 1e6, 1) for name in calls if name != "copy"}
        if "xgrammar " in half:
            out["kernel ratio"] = round(half[""] / half["xgrammar "], 2)
        masked = logits.numel() - int(torch.isfinite(logits).sum())
        moved = bitmask.numel() * 4 + masked * logits.element_size()
        copied = 2 * logits.numel() * logits.element_size()
        out["GB/s"] = round(moved / half[""] / 1e9, 1)
        out["of copy"] = round(moved / half[""] / (copied / half["copy"]), 2)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab", type=int, nargs="+", default=[131072])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--allowed", type=float, nargs="+", default=[0.0, 0.001, 0.5, 0.999, 1.0])
    parser.add_argument("--dtype", nargs="+", default=list(DTYPES), choices=list(DTYPES))
    parser.add_argument("--device", nargs="+", choices=["cpu", "cuda", "interpreted"], help="default: what there is")
    parser.add_argument("--repeat", type=int, default=300)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    console = Console(width=140)
    devices = arguments.device or ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
    name = torch.cuda.get_device_name() + ", " if "cuda" in devices else ""
    where = f"{name}{platform.processor() or platform.machine()}, torch {torch.__version__}"
    console.print(f"{where}, {arguments.repeat} calls each")
    table = Table(*COLUMNS.values(), title="apply_token_bitmask_inplace")
    results = []
    short = min(20, arguments.repeat)  # on a CPU, where calls of many rows are slow
    for device in devices:
        for dtype in arguments.dtype:
            for vocab in arguments.vocab:
                for rows in arguments.rows:
                    for allowed in arguments.allowed:
                        repeat = arguments.repeat if device == "cuda" else max(short, arguments.repeat // rows)
                        results.append(measure(device, dtype, vocab, rows, allowed, repeat))
                        table.add_row(*(str(results[-1].get(field, "-")) for field in COLUMNS))
    console.print(table)
    if arguments.out:
        result = {"script": "perf/bench_bitmask.py", "machine": where, "rows": results}
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
