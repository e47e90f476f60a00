"""Infilling masks over a real vocabulary: does a mask allow a token exactly if the text stays completable with it?

    python perf/mask_samples.py [--places 12] [--tokens 300] [--out FILE]

The texts are those of ``bench_infill.py`` with up to three spans cut out, each of which becomes a gap or a few slots. At a
random place the script puts in as many allowed tokens as others, one by one, in a session that has not seen the mask. It
prints how many candidates agree. Where lexemes compete, the mask or the check may be given up (docs/infilling.md): such
texts are left out, and such candidates counted apart.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Any

import numpy as np
import records
from bench_infill import cut, specs, vocabulary

import cdplugin as cd
from cdplugin.infill.session import surely


def problem(rng: random.Random, texts: list[str]) -> list[Any]:
    """A text with gaps and slots."""
    pieces = cut(rng, rng.choice(texts), rng.randint(1, 3))
    return [cd.Slots(rng.randint(1, 3)) if piece is cd.GAP and rng.random() < 0.5 else piece for piece in pieces]


def compare(infill: cd.Infill, texts: list[str], places: int, tokens: int) -> dict[str, int]:
    """Count the candidates by what the mask and the check say."""
    rng = random.Random(0)
    found = dict.fromkeys(["places", "allowed", "refused", "in the mask only", "not in the mask", "undecided", "given up"], 0)
    while found["places"] < places:
        pieces = problem(rng, texts)
        session = infill.new(pieces)
        if not surely(session.completable):
            continue
        found["places"] += 1
        place = rng.choice(session.open_places())
        allowed = np.unpackbits(session.mask(place).view(np.uint8), bitorder="little")[: infill.vocab.size]
        inside, outside = np.flatnonzero(allowed), np.flatnonzero(allowed == 0)
        picked = [rng.choice(part) for part in (inside, outside) if len(part) for _ in range(tokens // 2)]
        for token in map(int, picked):
            other = infill.new(pieces)  # without a mask, so that the change is checked
            change = other.set if other._parts[other._places[place]].slot else other.insert
            try:
                answer = change(place, token)
            except cd.LimitExceeded:
                found["given up"] += 1
                continue
            if answer == bool(allowed[token]):
                found["allowed" if answer else "refused"] += 1
            else:
                missing = "undecided" if session.undecided else "not in the mask"
                found[missing if answer else "in the mask only"] += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--places", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--out", type=Path, help="write the counts as JSON")
    arguments = parser.parse_args()
    found: dict[str, dict[str, int]] = {}
    vocab = vocabulary("llama3")
    for name, spec, texts in specs():
        infill = cd.Infill(cd.Compiler(vocab).compile(spec))
        found[name] = dict(compare(infill, texts, arguments.places, arguments.tokens))
        print(f"{name:12} {found[name]}", flush=True)
    records.keep(arguments.out, ("cdplugin",), counts=found)


if __name__ == "__main__":
    main()
