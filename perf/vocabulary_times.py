"""How long it takes to build a vocabulary of 128,000 tokens, and to read it from the cache folder. CPU time of one thread.

    python perf/vocabulary_times.py [--runs 7] [--out FILE]

Building takes the tokens' bytes, the self-check and the trie. Once the cache folder has a file with self-check and trie,
both are read from there. The kernels and the tokenizer are loaded before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

from mask_engines import Tokenizer

import cdplugin as cd


def times(encoding: object, cache: bool, runs: int) -> list[float]:
    """The seconds of each run, in ascending order."""
    found = []
    for _ in range(runs):
        began = time.thread_time()
        cd.Vocabulary.from_tiktoken(encoding, cache=cache)
        found.append(round(time.thread_time() - began, 4))
    return sorted(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    encoding = Tokenizer("llama3").encoding
    vocab = cd.Vocabulary.from_tiktoken(encoding)  # loads the kernels, and writes the file
    found = {"tokens": vocab.size} | {
        name: {"median_s": statistics.median(seconds), "most_s": seconds[-1], "runs": len(seconds)}
        for name, seconds in (
            ("built", times(encoding, False, arguments.runs)),
            ("from disk", times(encoding, True, arguments.runs)),
        )
    }
    print(json.dumps(found, indent=1))
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
