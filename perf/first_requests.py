"""The first requests after a server's start: do kernels, vocabulary and grammars make the first one wait?

    .venv-vllm/bin/python perf/first_requests.py ../shared/maskbench/dev.jsonl.gz --starts 3

The script starts vLLM's server with the small model, sends twelve requests one after the other, each with a schema of its
own and the same number of tokens, and stops the server. The order of the schemas rotates from start to start, so that a
costly one does not always come first. It reports, for each place in the order, the median over the starts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
REQUESTS = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="MaskBench: lines of JSON, gzip")
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    import vllm_serve  # type: ignore[import-not-found]
    from bench_serving import load_schemas
    from demo_model import model_folder  # type: ignore[import-not-found]

    rows = load_schemas(arguments.data, REQUESTS, arguments.seed, 20_000)
    runs: list[list[float]] = []
    for start in range(arguments.starts):
        shift = start * REQUESTS // arguments.starts
        seconds = []
        with vllm_serve.Server(str(model_folder()), ["--dtype", "float32", "--enforce-eager"]) as server:
            for row in rows[shift:] + rows[:shift]:
                began = time.perf_counter()
                server.client.completions.create(
                    model="small",
                    prompt=f"An example of {row['id']} as JSON: ",
                    max_tokens=arguments.tokens,
                    temperature=0,
                    extra_body={"structured_outputs": {"json": row["schema"]}, "ignore_eos": True},
                )
                seconds.append(time.perf_counter() - began)
        runs.append(seconds)
        print("seconds:", *(f"{s:.2f}" for s in seconds), flush=True)
    medians = [statistics.median(run[place] for run in runs) for place in range(REQUESTS)]
    print("median per place:", *(f"{s:.2f}" for s in medians))
    print(
        f"first against the tenth: {medians[0] / medians[9]:.2f}; against the median of all later ones: "
        f"{medians[0] / statistics.median(medians[1:]):.2f}"
    )
    if arguments.out:
        arguments.out.write_text(json.dumps({"schemas": [row["id"] for row in rows], "seconds": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
