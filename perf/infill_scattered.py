"""Canvases of programs with slots anywhere: is the text completable, and how long does it take until every slot is filled?

    python perf/infill_scattered.py [--grammar python|cpp] [--slots 40] [--first 20] [--masks [--own]] [--json FILE]

The texts are HumanEval-X's programs of the development half in Llama 3's tokens; ``--slots`` of their tokens, anywhere,
become slots. The script checks the canvas, then sets each slot to the program's own token, in random order. With
``--masks`` it sets each slot to a random token of its mask; with ``--own`` too (to compare two versions), to its own token
after each mask. It prints thread times in ms, how many tokens the masks have, whether the own token is among them, what was
given up (``LimitExceeded``), and whether the matcher accepts the text at the end.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

from bench_infill import programs, summary, timed, vocabulary

import cdplugin as cd
from cdplugin.bits import bit_members


def asked(call: Any, *arguments: Any) -> Any:
    """A session's answer; None if it gives up."""
    try:
        return call(*arguments)
    except cd.LimitExceeded:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grammar", default="python", choices=["python", "cpp"])
    parser.add_argument("--slots", type=int, default=40)
    parser.add_argument("--first", type=int, default=20, help="so many programs")
    parser.add_argument("--masks", action="store_true")
    parser.add_argument("--own", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    vocab = vocabulary("llama3")
    from tokenizers_data import llama3

    spec = cd.grammars.PYTHON if arguments.grammar == "python" else cd.grammars.CPP
    infill = cd.Infill(cd.Compiler(vocab).compile(spec))
    mask_id = vocab.eos_token_ids[0] + 1
    times: dict[str, list[float]] = {"check": [], "set": [], "mask": []}
    counts: Counter[str] = Counter()
    undecided: list[float] = []
    sizes: list[float] = []
    texts = programs(arguments.grammar)
    for seed in range(arguments.first):
        rng = random.Random(seed)
        ids = llama3().model.encode_ordinary(rng.choice(texts))
        slots = rng.sample(range(len(ids)), min(arguments.slots, len(ids) - 2))
        session = infill.canvas([mask_id if i in set(slots) else token for i, token in enumerate(ids)], mask_id)
        spent, answer = timed(asked, session.completable)
        times["check"].append(spent)
        counts[f"check: {answer}"] += 1
        for slot in slots if answer else []:
            token = ids[slot]
            if arguments.masks:
                spent, row = timed(asked, session.mask, slot)
                times["mask"].append(spent)
                if row is None:
                    counts["mask given up"] += 1
                else:
                    undecided.append(session.undecided)
                    allowed = bit_members(row).tolist()
                    sizes.append(len(allowed))
                    counts[f"mask has the own token: {token in allowed}"] += 1
                    if not arguments.own:
                        token = int(rng.choice(allowed))
            spent, answer = timed(asked, session.set, slot, token)
            times["set"].append(spent)
            counts[f"set: {answer}"] += 1
        text = session.text()
        if text is not None:
            counts[f"filled, legal: {infill.accepts(text.encode())}"] += 1
    found: dict[str, Any] = dict(counts) | {key: summary(some) for key, some in times.items() if some}
    if undecided:
        found["undecided"] = summary(undecided)
        found["tokens in all masks, and undecided"] = [sum(sizes), sum(undecided)]
    print(json.dumps(found, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
