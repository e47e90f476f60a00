"""Time of apply_token_bitmask_inplace against xgrammar's, on the same tensors, interleaved in one run.

    .venv/bin/python perf/bench_bitmask.py [--vocab 131072] [--repeat 300]

Each line is one shape: percentiles of the call in microseconds for both, and the ratio of the medians.
``allowed`` is the part of the tokens that a mask allows; the bits are drawn independently, the worst case for skipping words.
On CUDA the times are those of the kernel's queue (events around the call), after a warm-up.
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from cdplugin.bitmask import apply_token_bitmask_inplace


def random_bitmask(rows: int, vocab: int, allowed: float, rng: np.random.Generator) -> torch.Tensor:
    bits = rng.random((rows, (vocab + 31) // 32 * 32)) < allowed
    return torch.from_numpy(np.packbits(bits, axis=1, bitorder="little").view(np.int32).copy())


def once_cpu(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def once_cuda(call: Callable[[], None]) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1000


def interleaved(calls: list[Callable[[], None]], once: Callable[[Callable[[], None]], float], repeat: int) -> np.ndarray:
    """Seconds, ``(calls, repeat)``."""
    for call in calls:
        call()
    return np.array([[once(call) for call in calls] for _ in range(repeat)]).T


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab", type=int, default=131072)
    parser.add_argument("--repeat", type=int, default=300)
    arguments = parser.parse_args()
    try:
        import xgrammar
    except ImportError:
        xgrammar = None
    console = Console(width=120)
    devices = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
    where = platform.processor() or platform.machine()
    console.print(f"{where}, torch {torch.__version__}, vocabulary {arguments.vocab}, {arguments.repeat} calls each")
    columns = ("device", "dtype", "rows", "allowed", "p50 µs", "p99 µs", "xgrammar p50", "xgrammar p99", "ratio p50")
    table = Table(*columns, title="apply_token_bitmask_inplace")
    rng = np.random.default_rng(0)
    for device in devices:
        once = once_cpu if device == "cpu" else once_cuda
        for dtype in (torch.float32, torch.bfloat16):
            for rows in (1, 8, 64):
                for allowed in (0.0, 0.001, 0.5, 0.999, 1.0):
                    logits = torch.randn(rows, arguments.vocab).to(dtype).to(device)
                    bitmask = random_bitmask(rows, arguments.vocab, allowed, rng).to(device)

                    def ours(logits: torch.Tensor = logits, bitmask: torch.Tensor = bitmask) -> None:
                        apply_token_bitmask_inplace(logits, bitmask)

                    def theirs(logits: torch.Tensor = logits, bitmask: torch.Tensor = bitmask) -> None:
                        xgrammar.apply_token_bitmask_inplace(logits, bitmask)

                    repeat = max(20, arguments.repeat // rows)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        times = interleaved([ours] + ([theirs] if xgrammar else []), once, repeat) * 1e6
                    half, tail = np.percentile(times, [50, 99], axis=1)
                    cells = [f"{half[0]:.1f}", f"{tail[0]:.1f}"]
                    cells += [f"{half[1]:.1f}", f"{tail[1]:.1f}", f"{half[0] / half[1]:.2f}"] if xgrammar else ["-", "-", "-"]
                    table.add_row(device, str(dtype).removeprefix("torch."), str(rows), f"{allowed:.3f}", *cells)
    console.print(table)


if __name__ == "__main__":
    main()
