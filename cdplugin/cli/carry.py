"""``cdplugin warmup --target LEVEL --out DIR``: compile kernels for another machine's instruction set, to be shipped to it."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from cdplugin.cli.main import OK, CommandError, folder
from cdplugin.kernels.jit.machine_code import TARGETS, host_targets


def carry(args: argparse.Namespace) -> int:
    """Compile in a process whose LLVM targets the level, into the folder from which other processes will load the kernels.

    Raises :class:`CommandError` for a level that is unknown, or that this machine cannot run.
    """
    if not args.target or not args.out:
        raise CommandError("--target and --out belong together: the level to compile for, and the folder to write")
    target = TARGETS.get(args.target)
    if target is None:
        raise CommandError(f"--target: expected one of {', '.join(TARGETS)}, found {args.target!r}")
    if args.target not in host_targets():
        runs = ", ".join(host_targets()) or "none of the levels"
        raise CommandError(
            f"--target: kernels are run once after they are compiled; this machine runs {runs}, not {args.target}"
        )
    out = folder(args.out)
    environment = {name: value for name, value in os.environ.items() if name != "CDPLUGIN_CARRIED"}
    environment |= {"NUMBA_CPU_NAME": target.cpu, "NUMBA_CPU_FEATURES": "", "CDPLUGIN_CACHE_DIR": str(out)}
    done = subprocess.run([sys.executable, "-m", "cdplugin", "warmup"], env=environment, check=False)
    if done.returncode:
        return done.returncode
    size = sum(path.stat().st_size for path in out.rglob("*.code"))
    print(f"carried kernels for {args.target}: {size / 1e6:.1f} MB; set CDPLUGIN_CARRIED={out} where they are used")
    return OK
