"""How much to fuzz: a little in the tests, ``CDPLUGIN_FUZZ`` times as much where that is set (``make fuzz``)."""

from __future__ import annotations

import os

from engine_tools import SLOW

FACTOR = int(os.environ.get("CDPLUGIN_FUZZ", "1"))
SEED = int(os.environ.get("CDPLUGIN_FUZZ_SEED", "0"))
"""Of the first case; the others follow."""


def turns(few: int) -> int:
    """``few`` times the factor; a tenth of that with kernels interpreted or checked."""
    return max(1, few * FACTOR // (10 if SLOW else 1))


def seeds(few: int) -> range:
    """So many seeds, the same ones in each run."""
    return range(SEED, SEED + turns(few))
