"""How soon a process with carried kernels and an empty cache folder is ready: from the first import to the first mask.

    cdplugin warmup --target x86-64-v3 --out DIR
    python perf/carried_start.py DIR [--times 3] [--out results.json]

Each start is a process of its own with a fresh, empty cache folder. ``files`` counts the files of machine code that it had
to compile (0 if all were carried). Without DIR nothing is carried, so everything is compiled.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

START = """
import sys, time
began = time.perf_counter()
import numpy as np
import cdplugin as cd
if sys.argv[1] == "llama3":
    import mask_engines
    vocab = mask_engines.Cdplugin(mask_engines.Tokenizer("llama3")).vocab
else:
    from cdplugin.warmup import byte_vocabulary
    vocab = byte_vocabulary()
grammar = cd.Compiler(vocab).compile(cd.JsonSchema({"type": "object", "properties": {"a": {"type": "integer"}}}))
grammar.matcher().fill_next_token_bitmask(np.zeros((1, (vocab.size + 31) // 32), np.int32), 0)
print(time.perf_counter() - began)
"""


def start(vocabulary: str, carried: str | None) -> dict[str, Any]:
    """One start: its seconds, and how many files of machine code it left in the cache."""
    with tempfile.TemporaryDirectory() as cache:
        env = {name: value for name, value in os.environ.items() if name not in ("CDPLUGIN_CARRIED", "XDG_CACHE_HOME")}
        env |= {"CDPLUGIN_CACHE_DIR": cache, "HOME": cache} | ({"CDPLUGIN_CARRIED": carried} if carried else {})
        command = [sys.executable, "-c", START, vocabulary]
        here = str(Path(__file__).resolve().parent)
        done = subprocess.run(command, env=env, cwd=here, capture_output=True, text=True, check=True)
        files = len(list(Path(cache).rglob("*.code")))
        return {"vocabulary": vocabulary, "seconds": round(float(done.stdout), 2), "files": files}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("carried", nargs="?")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    starts = [start(name, arguments.carried) for name in ("byte", "llama3") for _ in range(arguments.times)]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    result = {"machine": machine, "carried": bool(arguments.carried), "starts": starts}
    print(json.dumps(result, indent=1))
    if arguments.out:
        Path(arguments.out).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
