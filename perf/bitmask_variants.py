"""Which sizes of the Triton mask kernel are fastest on a GPU, beside xgrammar's kernel, in turns in one run.

    python perf/bitmask_variants.py [--vocab 128256] [--rows 1 8 64] [--repeat 40] [--out variants.json]

Each line is one choice of chunk bytes, chunks and lanes. It shows the ratio of the kernel's time to xgrammar's over all
shapes, as geometric mean and as worst case. The device is busy while the call is made (as in ``bench_bitmask.py``).
``bitmask_triton.py`` has the sizes that are shipped.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench_bitmask import BUSY, DTYPES, interleaved, once_cuda, random_bitmask

from cdplugin.kernels.masks import bitmask_triton as kernel

ALLOWED = (0.001, 0.5, 0.999)
SIZES = [
    (chunk_bytes, chunks, lanes)
    for chunk_bytes, chunks, lanes in itertools.product((8, 16, 32), (256, 512, 1024), (128, 256))
    if chunks >= lanes
]
"""Bytes of a chunk, chunks of a program, lanes of a program."""


def with_sizes(logits: torch.Tensor, masks: torch.Tensor, sizes: tuple[int, int, int]) -> Callable[[], None]:
    """A call of the kernel with other sizes than the shipped ones."""

    def call() -> None:
        kernel.CHUNK_BYTES, kernel.CHUNKS, kernel.LANES = sizes
        kernel.mask_rows(logits, masks, None, logits.shape[0])

    return call


def measure(dtype: str, vocab: int, rows: int, allowed: float, repeat: int) -> dict[str, float]:
    """Microseconds of the kernel at p50, by variant."""
    import xgrammar

    logits = torch.randn(rows, vocab, device="cuda").to(DTYPES[dtype])
    masks = random_bitmask(rows, vocab, allowed, np.random.default_rng(0)).cuda()
    calls = {"xgrammar": lambda: xgrammar.apply_token_bitmask_inplace(logits, masks)}
    calls |= {"{} {} {}".format(*sizes): with_sizes(logits, masks, sizes) for sizes in SIZES}
    times = interleaved(list(calls.values()), lambda call: once_cuda(call, BUSY), repeat)
    return dict(zip(calls, np.round(np.percentile(times, 50, axis=1) * 1e6, 2).tolist()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab", type=int, default=128_256)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--dtype", nargs="+", default=list(DTYPES), choices=list(DTYPES))
    parser.add_argument("--repeat", type=int, default=40)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("no card here: torch.cuda.is_available() is False")
    shapes: list[dict[str, Any]] = []
    for dtype in arguments.dtype:
        for rows, allowed in itertools.product(arguments.rows, ALLOWED):
            times = measure(dtype, arguments.vocab, rows, allowed, arguments.repeat)
            shapes.append({"dtype": dtype, "rows": rows, "allowed": allowed, "kernel us": times})
        mine = [shape["kernel us"] for shape in shapes if shape["dtype"] == dtype]
        ratios = {name: [times[name] / times["xgrammar"] for times in mine] for name in mine[0]}
        for name, each in sorted(ratios.items(), key=lambda item: statistics.geometric_mean(item[1])):
            print(f"{dtype:10} {name:16} {statistics.geometric_mean(each):.3f} worst {max(each):.2f}")
    if arguments.out:
        machine = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
        result = {"script": "perf/bitmask_variants.py", "machine": machine, "rows": shapes}
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
