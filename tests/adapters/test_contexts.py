"""The core for hosts that show the whole context at each call, beside a list of words; and TensorRT-LLM's interface."""

from __future__ import annotations

import contextlib
import importlib
import json
import pickle
import random
import sys
from abc import ABC, abstractmethod
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from engine_tools import cases, members, seeds
from grammar_tools import HUNGRY
from word_choice import CHOICE, END, VOCAB, allowed

import cdplugin as cd
from cdplugin.adapters.contexts import ContextMasks
from cdplugin.bits import bit_flags

GRAMMAR = cd.Compiler(VOCAB).compile(cd.Choice(json.loads(CHOICE)))
PROMPT = [3, 1, 4]


def mask_of(masks: ContextMasks, generated: list[int], prompt: list[int] = PROMPT) -> set[int]:
    bitmask, rows = masks.masks(np.array([[*prompt, *generated]]))
    assert rows == [0]
    return members(bitmask[0].tobytes())


@pytest.mark.parametrize("seed", seeds(60, 6))
def test_a_text_with_drafts_taken_back(seed: int) -> None:
    """The host asks again at earlier prefixes, and goes on from them by other tokens."""
    rng = random.Random(seed)
    masks = ContextMasks([GRAMMAR])
    text: list[int] = []
    longest = 0
    for _ in range(40):
        options = allowed(text)
        assert mask_of(masks, text) == (options if END not in text else {END})
        longest = max(longest, len(text))
        if END in text or rng.random() < 0.3:
            text = text[: rng.randrange(len(text) + 1)]
        else:
            text = [*text, rng.choice(sorted(options))]
    assert longest > 1


def test_after_the_end_only_the_end() -> None:
    masks = ContextMasks([GRAMMAR])
    for generated in ([], [*b"a"], [*b"ab"], [*b"ab", END], [*b"ab", END, END]):
        assert mask_of(masks, generated) == (allowed(generated) if END not in generated else {END})


def test_another_text_is_an_error_until_reset() -> None:
    """A processor that is shared by sequences would begin the grammar in the middle of a text."""
    masks = ContextMasks([GRAMMAR])
    assert mask_of(masks, []) == allowed([])
    assert mask_of(masks, [*b"a"]) == allowed([*b"a"])
    for other in ([9, 9, 9], [*PROMPT, 7, 8]):
        with pytest.raises(cd.EngineError, match="make a processor for each text, or call reset"):
            mask_of(masks, [], other)
        masks.reset()
        assert mask_of(masks, [], other) == allowed([])
        masks.reset()
        assert mask_of(masks, []) == allowed([])


def test_the_same_prompt_again_begins_anew() -> None:
    masks = ContextMasks([GRAMMAR])
    for _ in range(2):
        for generated in ([], [*b"a"], [*b"ab"]):
            assert mask_of(masks, generated) == allowed(generated)


def test_a_forbidden_token_is_an_error_that_says_which() -> None:
    masks = ContextMasks([GRAMMAR])
    mask_of(masks, [])
    with pytest.raises(cd.EngineError, match="row 0: token 120 at generated position 0 was forbidden by the grammar's mask: "):
        mask_of(masks, [*b"x"])
    masks.reset()
    mask_of(masks, [])
    with pytest.raises(cd.EngineError, match="token 100000 at generated position 0"):
        mask_of(masks, [100_000])


@pytest.mark.parametrize("wrong", [[*b"x"], [*b"abcab"]])
def test_where_errors_would_be_lost_the_text_ends(wrong: list[int]) -> None:
    masks = ContextMasks([GRAMMAR], on_error="end")
    assert mask_of(masks, []) == allowed([]) and masks.error is None
    for _ in range(3):  # and stays so
        assert mask_of(masks, wrong) == {END}
        assert isinstance(masks.error, cd.EngineError)
    assert mask_of(masks, []) == {END}
    masks.reset()
    assert masks.error is None and mask_of(masks, []) == allowed([])


def test_a_crossed_budget() -> None:
    grammar = cd.Compiler(VOCAB, cd.Limits(max_expr_width=60)).compile(cd.Regex(HUNGRY))
    for on_error in ("raise", "end"):
        masks = ContextMasks([grammar], on_error=on_error)
        text: list[int] = []
        raises = pytest.raises(cd.LimitExceeded, match="max_expr_width") if on_error == "raise" else contextlib.nullcontext()
        with raises:
            while masks.error is None:
                options = mask_of(masks, text)
                assert len(text) < 200
                text.append(ord("a"))
        if on_error == "end":
            assert options == {END} and "max_expr_width" in str(masks.error)


@pytest.mark.parametrize("most", range(1, 8))
@pytest.mark.parametrize("on_error", ["raise", "end"])
def test_texts_end_within_a_budget(most: int, on_error: str) -> None:
    """A token is allowed if some word can be completed in time after it, its end token included: told from the words."""

    def fewest(text: list[int]) -> float:
        """Tokens that complete a word, by breadth."""
        level, count = [text], 0
        while level:
            if any(END in allowed(one) for one in level):
                return count
            level = [[*one, token] for one in level for token in allowed(one) - {END}]
            count += 1
        return float("inf")

    rng = random.Random(most)
    for _ in range(cases(30, 5)):
        masks = ContextMasks([GRAMMAR], max_new_tokens=most, on_error=on_error)
        text: list[int] = []
        if fewest(text) + 1 > most:
            if on_error == "raise":
                with pytest.raises(cd.BudgetError, match="at least 2"):
                    mask_of(masks, text)
            else:
                assert mask_of(masks, text) == {END} and isinstance(masks.error, cd.BudgetError)
            return
        while END not in text:
            left = most - len(text)
            fitting = {token for token in allowed(text) if token == END or fewest([*text, token]) + 2 <= left}
            assert mask_of(masks, text) == fitting
            text.append(rng.choice(sorted(fitting)))
        assert len(text) <= most and mask_of(masks, text) == {END}


def test_rows_and_free_ones() -> None:
    masks = ContextMasks([GRAMMAR, None])
    bitmask, rows = masks.masks(np.array([PROMPT, PROMPT]))
    assert rows == [0] and members(bitmask[0].tobytes()) == allowed([])
    assert ContextMasks([None]).masks(np.array([PROMPT]))[1] == []
    free = ContextMasks([GRAMMAR, None], on_error="end")
    free.masks(np.array([PROMPT, PROMPT]))
    bitmask, rows = free.masks(np.array([[*PROMPT, 120], [*PROMPT, 120]]))
    assert rows == [0] and free.error is not None


def test_misuse() -> None:
    with pytest.raises(ValueError, match="on_error: expected 'raise' or 'end'"):
        ContextMasks([GRAMMAR], on_error="ignore")
    for most in (0, -1, True, 2.0):
        with pytest.raises(ValueError, match="max_new_tokens: expected a positive integer"):
            ContextMasks([GRAMMAR], max_new_tokens=most)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected at least one"):
        ContextMasks([])
    with pytest.raises(TypeError, match=r"grammar\[0\]: expected a compiled cdplugin.Grammar, found Regex; compile"):
        ContextMasks([cd.Regex("a")])
    other = cd.Vocabulary.from_bytes([b"a", b"</s>"], eos_token_ids=1)
    with pytest.raises(ValueError, match=r"grammar\[1\]: expected the vocabulary of the grammars before it"):
        ContextMasks([GRAMMAR, cd.Compiler(other).compile(cd.Regex("a"))])


def test_bools() -> None:
    row = np.array([0b1010, 1], np.int32)
    assert np.flatnonzero(bit_flags(row, 40)).tolist() == [1, 3, 32]
    assert np.flatnonzero(bit_flags(row, 33)).tolist() == [1, 3, 32]
    assert np.flatnonzero(bit_flags(row, 3)).tolist() == [1]
    wide = bit_flags(row, 100)
    assert wide.shape == (100,) and wide.dtype == bool and np.flatnonzero(wide).tolist() == [1, 3, 32]


# --- TensorRT-LLM: its interface, as its sources say it, without its library -------------------------------------------------


@pytest.fixture
def tensorrt(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Our adapter over a stand-in for the one class that it takes from the library."""
    pytest.importorskip("torch")

    class LogitsProcessor(ABC):
        @abstractmethod
        def __call__(self, req_id: Any, logits: Any, token_ids: Any, stream_ptr: Any, client_id: Any) -> None: ...

    library, params = ModuleType("tensorrt_llm"), ModuleType("tensorrt_llm.sampling_params")
    params.LogitsProcessor = LogitsProcessor  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensorrt_llm", library)
    monkeypatch.setitem(sys.modules, "tensorrt_llm.sampling_params", params)
    monkeypatch.delitem(sys.modules, "cdplugin.adapters.tensorrt_llm", raising=False)
    tensorrt_llm: Any = importlib.import_module("cdplugin.adapters.tensorrt_llm")
    compiler = cd.Compiler(VOCAB)
    monkeypatch.setattr(tensorrt_llm, "_compiler", lambda tokenizer, vocab_size: compiler)
    yield tensorrt_llm
    sys.modules.pop("cdplugin.adapters.tensorrt_llm", None)


def masked(processor: Any, request: int, ids: list[list[int]]) -> list[set[int]]:
    import torch

    logits = torch.zeros(1, len(ids), VOCAB.size)
    assert processor(request, logits, ids, None, None) is None
    return [set(torch.isfinite(row).nonzero().flatten().tolist()) for row in logits[0]]


def test_tensorrt_interface(tensorrt: Any) -> None:
    """Requests in turns through one processor, then a request whose prompt becomes two beams, which change places."""
    processor = tensorrt.GrammarLogitsProcessor(cd.Choice(json.loads(CHOICE)), "folder")
    assert masked(processor, 1, [PROMPT]) == [allowed([])] == masked(processor, 2, [[9]])
    assert masked(processor, 1, [[*PROMPT, *b"a"]]) == [allowed([*b"a"])]
    assert masked(processor, 2, [[9, *b"c"]]) == [allowed([*b"c"])]
    assert masked(processor, 3, [PROMPT]) == [allowed([])]
    assert masked(processor, 3, [[*PROMPT, *b"a"], [*PROMPT, *b"b"]]) == [allowed([*b"a"]), allowed([*b"b"])]
    assert masked(processor, 3, [[*PROMPT, *b"bc"], [*PROMPT, *b"ab"]]) == [allowed([*b"bc"]), allowed([*b"ab"])]
    assert masked(processor, 3, [[*PROMPT, *b"abc"], [*PROMPT, *b"abd"]]) == [{END}, {END}]


def test_tensorrt_errors(tensorrt: Any) -> None:
    with pytest.raises(cd.GrammarError, match="unclosed group"):
        tensorrt.GrammarLogitsProcessor(cd.Regex("(a"), "folder")
    processor = tensorrt.GrammarLogitsProcessor(cd.Choice(json.loads(CHOICE)), "folder")
    masked(processor, 1, [PROMPT])
    masked(processor, 2, [PROMPT])
    assert masked(processor, 1, [[*PROMPT, *b"x"]]) == [{END}], "a failing request may only end"
    assert masked(processor, 2, [[*PROMPT, *b"a"]]) == [allowed([*b"a"])], "its neighbour goes on"
    for request in range(3000):
        masked(processor, 10 + request, [PROMPT])
    assert len(processor._requests) <= 1024


def test_tensorrt_processors_are_sent_to_other_processes(tensorrt: Any) -> None:
    processor = tensorrt.GrammarLogitsProcessor(cd.Choice(json.loads(CHOICE)), "folder", 7)
    again = pickle.loads(pickle.dumps(processor))
    assert again._arguments[1:] == ("folder", 7) and masked(again, 1, [PROMPT]) == [allowed([])]
