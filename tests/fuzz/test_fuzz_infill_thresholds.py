"""Infilling with random small internal thresholds (:mod:`fuzz.thresholds`), beside the engine as it is.

A question has the same answer in both, or none. The texts are legal ones with holes, so each is completable.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import lark_cases
import pytest
from engine_tools import ALL_BYTES, FRESH, SLOW, members
from fuzz.test_fuzz_infill import COMMENTS, OBJECT, STATEMENTS, WORDS
from fuzz.test_fuzz_thresholds import DifferenceError, pattern
from fuzz.thresholds import INFILL, PLAN, Threshold, patched, some_of
from fuzz.turns import seeds

import cdplugin as cd

pytestmark = pytest.mark.skipif(SLOW, reason="the numbers are Python's")

_LETTERS = [bytes([byte]) for byte in b' \n"#*/(){}[]:,.;=+01ab ckxy_if']
_FEW_TOKENS = [*dict.fromkeys([*_LETTERS, *WORDS, b"ab", b"aa", b"b ", b'":', b'["', b"key", b"/**/", b"a a"])]
_ALL_TOKENS = [*dict.fromkeys([*ALL_BYTES, *_FEW_TOKENS])]


def spec_of(rng: random.Random) -> cd.Spec:
    kind = rng.random()
    if kind < 0.4:
        return cd.Lark(lark_cases.random_grammar(rng))
    if kind < 0.6:
        return rng.choice([COMMENTS, STATEMENTS])
    if kind < 0.8:
        return cd.JsonSchema(OBJECT, property_order=rng.choice(["schema", "any"]), whitespace="compact")
    return cd.Regex(pattern(rng))


def text_of(grammar: cd.Grammar, rng: random.Random) -> list[int]:
    """A legal text in tokens."""
    matcher = grammar.matcher()
    end = grammar.vocab.eos_token_ids[0]
    row = cd.allocate_token_bitmask(1, grammar.vocab.size).numpy()
    for _ in range(rng.choice([2, 6, 12])):
        matcher.fill_next_token_bitmask(row)
        allowed = sorted(members(row.tobytes()) - {end})
        if not allowed or not matcher.accept_token(rng.choice(allowed)):
            break
    return [*matcher.tokens, *matcher.shortest_completion()]


def holes(ids: list[int], rng: random.Random) -> list[Any]:
    """The text with up to three gaps, or runs of up to two slots, in it."""
    pieces: list[Any] = []
    at = 0
    for cut in sorted(rng.sample(range(len(ids) + 1), min(len(ids) + 1, rng.choice([1, 1, 2, 3])))):
        size = min(rng.choice([0, 1, 1, 2]), len(ids) - max(cut, at))
        if cut >= at:
            pieces += [ids[at:cut], cd.Slots(size) if size and rng.random() < 0.5 else cd.GAP]
            at = cut + size
    return [*pieces, ids[at:]]


class Mask(NamedTuple):
    """The tokens that may come at a place, and how many are undecided."""

    allowed: set[int]
    undecided: int


Answer = bool | Mask | str | None
"""None: it was not found out."""


def answers(infill: cd.Infill, pieces: Sequence[Any], rng: random.Random) -> list[tuple[Any, Answer]]:
    """What a session says, question by question."""
    out: list[tuple[Any, Answer]] = []
    session = infill.new(pieces)

    def ask(question: Any, call: Any) -> Answer:
        answer: Answer = None
        with contextlib.suppress(cd.LimitExceeded):
            answer = call()
        out.append((question, answer))
        return answer

    ask("completable", session.completable)
    ask("complete", lambda: session.complete(rng.choice([None, random.Random(1)])))
    for place in session.open_places():
        ask(("mask", place), lambda place=place: Mask(members(session.mask(place)), session.undecided))
        token = rng.randrange(infill.vocab.size - 1)
        change = session.insert if place in session.open_gaps() else session.set

        def tried(place: int = place, token: int = token, change: Any = change) -> bool:
            if not change(place, token):
                return False
            session.undo()
            return True

        ask(("change", place, token), tried)
    ask("completable again", session.completable)
    return out


def check(infill: cd.Infill, pieces: Sequence[Any], told: list[tuple[Any, Answer]]) -> None:
    """Whether answers agree with each other and with the matcher."""
    of_question = dict(told)
    for question, answer in told:
        if question == "complete" and isinstance(answer, str) and "\ufffd" not in answer:
            assert infill.accepts(answer.encode()), ("not legal", answer)
        if isinstance(question, tuple) and question[0] == "change" and isinstance(answer, bool):
            mask = of_question[("mask", question[1])]
            if isinstance(mask, Mask) and not (answer and mask.undecided):
                assert answer == (question[2] in mask.allowed), ("mask and change", question, answer, mask.undecided)


def compare(seed: int, values: dict[Threshold, Any] | None = None) -> str:
    """Raise :class:`DifferenceError` if answers differ. Returns what became of the text."""
    rng = random.Random(seed)
    tokens = [*rng.choice([_FEW_TOKENS, _ALL_TOKENS]), b"</s>"]
    spec = spec_of(rng)
    values = some_of(rng, INFILL) if values is None else values
    plans = any(threshold.kind == PLAN for threshold in values)
    compiler = cd.Compiler(cd.Vocabulary.from_bytes(tokens, eos_token_ids=len(tokens) - 1), FRESH)
    try:
        grammar = compiler.compile(spec)
        ids = text_of(grammar, rng)
        infill = cd.Infill(grammar)
    except cd.CdpluginError:
        return "refused"
    pieces = holes(ids, rng)
    n_slots = sum(piece.count for piece in pieces if isinstance(piece, cd.Slots))
    before = answers(infill, pieces, random.Random(seed))
    with patched(values):
        after = answers(cd.Infill(grammar), pieces, random.Random(seed))
    if not plans:
        check(infill, pieces, after)
    given = 0
    for (question, was), (_, now) in zip(before, after, strict=True):
        if isinstance(was, str) or was is None or now is None:
            given += now is None
            continue
        if isinstance(was, Mask) and isinstance(now, Mask):
            lost, more = was.allowed - now.allowed, now.allowed - was.allowed
            is_fine = len(more) <= was.undecided and (len(lost) <= now.undecided or (plans and n_slots > 1))
        else:
            is_fine = was == now or (plans and n_slots > 1 and was)
        if not is_fine:
            raise DifferenceError(f"{question}: {was!r} became {now!r}\n{pieces}")
    if dict(before)["completable"] is False:
        raise DifferenceError(f"a legal text with holes is not completable: {pieces}")
    return "undecided" if given else "compared"


FOUND = [293392]  # a token that may come behind another one


@pytest.mark.parametrize("seed", [*seeds(20), *FOUND])
def test_other_numbers_give_the_same_answers(seed: int) -> None:
    compare(seed)
