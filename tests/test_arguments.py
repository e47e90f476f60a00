"""Arguments of the wrong kind: a ``TypeError`` or ``ValueError`` says which, what was expected and what was found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cdplugin as cd


def _calls() -> dict[str, tuple[Callable[[], Any], str]]:
    """Calls with arguments of the wrong kind, and what the error says."""
    vocab = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"</s>"], eos_token_ids=256)
    compiler: Any = cd.Compiler(vocab)
    grammar = compiler.compile(cd.Regex("a+b"))
    matcher: Any = grammar.matcher()
    infill: Any = cd.Infill(grammar)
    canvas, gaps = infill.canvas([97, 256, 98], 256), infill.new(["a", cd.GAP, "b"])
    bitmask = cd.allocate_token_bitmask(1, vocab.size)
    make_compiler: Any = cd.Compiler
    make_infill: Any = cd.Infill
    fill: Any = cd.fill_next_token_bitmasks
    apply: Any = cd.apply_token_bitmask_inplace
    return {
        "a vocabulary": (lambda: make_compiler(None), "vocab: expected a cdplugin.Vocabulary, found NoneType"),
        "limits": (lambda: make_compiler(vocab, True), "limits: expected a cdplugin.Limits, found bool"),
        "false limits": (lambda: make_compiler(vocab, 0), "limits: expected a cdplugin.Limits, found int"),
        "matchers": (lambda: fill(["ab"], bitmask), "matchers: expected cdplugin.Matcher or None, found str"),
        "a matcher": (lambda: fill(matcher, bitmask), "matchers: expected a sequence, found Matcher"),
        "no matchers": (lambda: fill(5, bitmask), "matchers: expected a sequence, found int"),
        "indices": (lambda: fill([matcher], bitmask, 0), "indices: expected a sequence, found int"),
        "ragged indices": (
            lambda: apply(np.zeros((1, 257), np.float32), np.zeros((1, 9), np.int32), [[0], [0, 1]]),
            "indices: expected a list of row numbers, found rows of different lengths",
        ),
        "budgets": (lambda: fill([matcher], bitmask, budgets=9), "budgets: expected a sequence, found int"),
        "budgets of a batch": (lambda: fill([matcher], bitmask, budgets=["9"]), "budget: expected an integer, found str"),
        "part of a budget": (lambda: fill([matcher], bitmask, budgets=[9.5]), "budget: expected an integer, found float"),
        "threads of a batch": (lambda: fill([matcher], bitmask, threads="2"), "threads: expected an integer, found str"),
        "slots": (lambda: infill.new([cd.Slots("2")]), "Slots: expected an integer, found str"),  # type: ignore[arg-type]
        "a budget": (lambda: matcher.fill_next_token_bitmask(bitmask, 0, "9"), "budget: expected an integer, found str"),
        "a bool": (lambda: matcher.fill_next_token_bitmask(bitmask, 0, True), "budget: expected an integer, found bool"),
        "JSON": (lambda: cd.partial_json(None), "JSON: expected bytes, found NoneType"),  # type: ignore[arg-type]
        "a piece of JSON": (lambda: cd.PartialJson().feed("["), "JSON: expected bytes, found str; feed(text.encode())"),  # type: ignore[arg-type]
        "a limit": (lambda: matcher.forced_tokens(limit=None), "limit: expected an integer, found NoneType"),
        "an end": (lambda: matcher.can_end_within(2.0), "budget: expected an integer, found float"),
        "ends": (lambda: matcher.ends_within("2"), "budget: expected an integer, found str"),
        "a grammar": (lambda: make_infill(vocab), "grammar: expected a cdplugin.Grammar, found Vocabulary"),
        "threads": (lambda: make_infill(grammar, 1.5), "threads: expected an integer, found float"),
        "a piece": (lambda: infill.new(["a", 5]), "pieces: expected str, bytes, a list of token ids, GAP or Slots, found int"),
        "tokens": (lambda: infill.new([[97.5]]), "token id: expected an integer, found float"),
        "ids": (lambda: infill.canvas([97.9], 256), "token id: expected an integer, found float"),
        "no ids": (lambda: infill.canvas(5, 256), "canvas: expected a sequence, found int"),
        "a mask token": (lambda: infill.canvas([97], None), "mask_token_id: expected an integer, found NoneType"),
        "a place": (lambda: canvas.mask(None), "place: expected an integer, found NoneType"),
        "half a place": (lambda: canvas.set(1.0, 97), "place: expected an integer, found float"),
        "half a token": (lambda: canvas.set(1, 97.5), "token id: expected an integer, found float"),
        "an inserted token": (lambda: gaps.insert(0, "a"), "token id: expected an integer, found str"),
        "a gap": (lambda: gaps.close("0"), "place: expected an integer, found str"),
        "changes": (lambda: gaps.undo("1"), "undo: expected an integer, found str"),
        "a generator": (lambda: gaps.complete(True), "rng: expected a random.Random, found bool"),
        "no tokens": (lambda: matcher.accept_tokens(None), "tokens: expected a sequence, found NoneType"),
        "a tokenizer's output": (
            lambda: matcher.accept_tokens({"input_ids": [97]}),  # type: ignore[arg-type]
            "tokens: expected a sequence, found dict",
        ),
        "a mapping as a piece": (
            lambda: infill.new(["a", {}]),
            "pieces: expected str, bytes, a list of token ids, GAP or Slots, found dict",
        ),
        "a token to validate": (lambda: matcher.validate_tokens(97), "tokens: expected a sequence, found int"),
        "no ids to decode": (lambda: vocab.decode(None), "ids: expected a sequence, found NoneType"),  # type: ignore[arg-type]
        "a text to decode": (lambda: vocab.decode("a"), "token id: expected an integer, found str"),  # type: ignore[arg-type]
        "no pieces": (lambda: infill.new(None), "pieces: expected a sequence, found NoneType"),
        "no sessions": (lambda: infill.map(len, 3), "sessions: expected a sequence, found int"),
        "a session": (lambda: infill.map(len, [3]), "sessions: expected an InfillSession, found int"),
        "integer logits": (
            lambda: apply(np.zeros((1, 257), np.int64), bitmask.numpy()),
            "logits: expected float32, float16, bfloat16 or float64, found int64",
        ),
        "most tokens": (lambda: gaps.complete(max_tokens="3"), "max_tokens: expected an integer, found str"),
    }


def test_arguments_of_the_wrong_kind() -> None:
    for name, (call, expected) in _calls().items():
        with pytest.raises(TypeError) as raised:
            call()
        assert str(raised.value) == expected, name


def test_what_is_no_spec() -> None:
    compiler: Any = cd.Compiler(cd.Vocabulary.from_bytes([b"a", b"</s>"], eos_token_ids=1))
    for spec, found in (({}, "dict"), (dict, r"dict \(a class\)")):
        with pytest.raises(cd.GrammarError, match=rf"JsonSchema\(a schema or a pydantic model\), Regex.* found {found}$"):
            compiler.compile(spec)


def test_text_with_gaps_that_is_not_unicode() -> None:
    vocab = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"</s>"], eos_token_ids=256)
    infill = cd.Infill(cd.Compiler(vocab).compile(cd.Regex("a.*")))
    with pytest.raises(ValueError, match=r"pieces: expected text that can be written as UTF-8, found '\\ud800' at 1"):
        infill.new(["a\ud800", cd.GAP])


def test_slots_that_no_text_has() -> None:
    """So many that counting them would take hours, or less than none."""
    vocab = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"</s>"], eos_token_ids=256)
    infill = cd.Infill(cd.Compiler(vocab).compile(cd.Regex("a+b")))
    with pytest.raises(cd.LimitExceeded, match="too many slots: expected at most 131072, found 2147483650"):
        infill.new([cd.Slots(2), "a", cd.Slots(1 << 31)])
    with pytest.raises(ValueError, match="Slots: expected 0 or more, found -1"):
        infill.new([cd.Slots(-1)])
    assert infill.new(["a", cd.Slots(0), "b"]).completable()


def test_a_batch_with_a_budget_of_the_wrong_kind_is_left_alone() -> None:
    vocab = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"</s>"], eos_token_ids=256)
    matchers = [cd.Compiler(vocab).compile(cd.Regex("a+b")).matcher() for _ in range(2)]
    bitmask = np.full((2, 9), 5, np.int32)
    wrong: list[Any] = [9, 2.5]
    with pytest.raises(TypeError, match="budget: expected an integer, found float"):
        cd.fill_next_token_bitmasks(matchers, bitmask, budgets=wrong)
    assert (bitmask == 5).all()
    cd.fill_next_token_bitmasks(matchers, bitmask, budgets=np.array([9, 9]))  # type: ignore[arg-type]
    assert bitmask[0].any() and (bitmask[0] == bitmask[1]).all()
