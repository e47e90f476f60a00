"""generate() of transformers with real (tiny, random) models.

The reference for each decoding mode is ``prefix_allowed_tokens_fn``, transformers' own slow way to constrain a text. It
asks for the allowed tokens of one whole prefix at a time; here a fresh matcher answers it each time.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import itertools
import re
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers", minversion="5.0")

from engine_tools import seeds  # noqa: E402
from host_tools import tiny_llama  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from transformers import (  # noqa: E402
    GenerationConfig,
    LogitsProcessor,
    StoppingCriteria,
)

import cdplugin as cd  # noqa: E402
from cdplugin.adapters.hf import processor as processor_module  # noqa: E402
from cdplugin.adapters.hf.processor import GrammarLogitsProcessor, TokenNotAllowedError  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

EOS, PAD, SIZE = 256, 257, 260
NUMBER = r"-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,3})?"
LIST = r"\[[a-z]{1,4}(,[a-z]{1,4}){0,3}\]"
TEXT = r"[ -~]{0,40}"


@pytest.fixture(scope="module")
def vocab() -> Any:
    """A token for each byte, an end token, padding, and two words."""
    words = [b"tr", b"ue"]
    return cd.Vocabulary.from_bytes(
        [bytes([b]) for b in range(256)] + [b"</s>", b"<pad>", *words], eos_token_ids=EOS, special_token_ids=[PAD]
    )


@pytest.fixture(scope="module")
def grammars(vocab: Any) -> dict[str, Any]:
    compiler = cd.Compiler(vocab)
    specs = {
        "number": cd.Regex(NUMBER),
        "list": cd.Regex(LIST),
        "text": cd.Regex(TEXT),
        "choice": cd.Choice(["true", "false"]),
        "object": cd.JsonSchema(
            {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"enum": [1, 22]}}, "required": ["a"]},
            whitespace="compact",
        ),
    }
    return {name: compiler.compile(spec) for name, spec in specs.items()}


PATTERNS = {"number": NUMBER, "list": LIST, "text": TEXT, "choice": "true|false"}


def tiny(seed: int, size: int = SIZE, hidden: int = 16) -> Any:
    return tiny_llama(size, EOS, PAD, seed=seed, hidden=hidden)


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny(0)


@pytest.fixture(scope="module")
def draft_model() -> Any:
    return tiny(1)


def prompts(*texts: str) -> dict[str, Any]:
    """Left-padded."""
    length = max(map(len, texts))
    ids = torch.tensor([[PAD] * (length - len(t)) + list(t.encode()) for t in texts])
    return {"input_ids": ids, "attention_mask": (ids != PAD).long()}


def text_of(row: Any, prompt_length: int) -> str:
    """The generated text up to the end token. Fails if there is none, or if anything but padding follows it."""
    ids = row[prompt_length:].tolist()
    assert EOS in ids, ids
    end = ids.index(EOS)
    assert set(ids[end + 1 :]) <= {EOS, PAD}
    parts = {256: b"", 257: b"", 258: b"tr", 259: b"ue"}
    return b"".join(parts.get(i, bytes([i % 256])) for i in ids[:end]).decode()


def allowed_by(grammar: Any, generated: list[int]) -> list[int]:
    """The tokens that a fresh matcher allows after ``generated``; after the end, only the end token."""
    if grammar is None:
        return list(range(SIZE))
    matcher = grammar.matcher()
    for token in generated:
        if matcher.is_terminated() or not matcher.accept_token(token):
            return [EOS]
    if matcher.is_terminated():
        return [EOS]
    bitmask = np.zeros((1, (SIZE + 31) // 32), np.int32)
    matcher.fill_next_token_bitmask(bitmask)
    return [t for t in range(SIZE) if (int(bitmask[0, t // 32]) >> (t % 32)) & 1]


def reference(model: Any, inputs: dict[str, Any], grammars: list[Any], seed: int = 0, **options: Any) -> Any:
    """generate() constrained by transformers' own means. The number that these call a row by is no help: for returned sequences
    it counts rows before transformers 5.24, and prompts since.
    """
    prompts = inputs["input_ids"]
    length, rows = prompts.shape[1], len(prompts)

    def allowed(_: int, ids: Any) -> list[int]:
        row = next(i for i in range(rows) if torch.equal(prompts[i], ids[:length]))
        return allowed_by(grammars[row * len(grammars) // rows], ids[length:].tolist())

    return run(model, inputs, seed, prefix_allowed_tokens_fn=allowed, **options)


def run(model: Any, inputs: dict[str, Any], seed: int = 0, **options: Any) -> Any:
    torch.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.generate(**inputs, **{"max_new_tokens": 60, "do_sample": False, **options})


MODES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampling": {"do_sample": True, "temperature": 2.0},
    "top-k and top-p": {"do_sample": True, "top_k": 5, "top_p": 0.8},
    "return sequences": {"do_sample": True, "num_return_sequences": 3},
    "beams": {"num_beams": 3},
    "beams returned": {"num_beams": 4, "num_return_sequences": 4},
    "long beams": {"num_beams": 3, "length_penalty": 2.0, "early_stopping": True},
    "repetition penalty": {"repetition_penalty": 1.5},
    "penalised beams": {"num_beams": 3, "repetition_penalty": 1.5},
    "no cache": {"use_cache": False},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("names", [["number"], ["list", "choice"], ["text", None, "object"]], ids=str)
def test_equals_prefix_allowed_tokens(model: Any, grammars: dict[str, Any], mode: str, names: list[str | None]) -> None:
    chosen = [None if name is None else grammars[name] for name in names]
    inputs = prompts(*["a: ", "another prompt: ", "xy"][: len(names)])
    options = MODES[mode]
    expected = reference(model, inputs, chosen, **options)
    processor = GrammarLogitsProcessor(chosen[0] if len(chosen) == 1 else chosen)
    actual = run(model, inputs, logits_processor=[processor], **options)
    assert torch.equal(actual, expected)
    length = inputs["input_ids"].shape[1]
    times = len(actual) // len(names)
    for row, ids in enumerate(actual):
        name = names[row // times]
        if name in PATTERNS:
            assert re.fullmatch(PATTERNS[name], text_of(ids, length))


@pytest.mark.parametrize("mode", ["greedy", "sampling", "return sequences", "beams"])
def test_lookahead_changes_nothing(model: Any, grammars: dict[str, Any], mode: str) -> None:
    inputs = prompts("a: ", "another prompt: ", "xy")
    chosen = [grammars["list"], None, grammars["object"]]
    results = []
    for on in (False, True):
        processor = GrammarLogitsProcessor(chosen)
        criteria = {"stopping_criteria": [processor.lookahead]} if on else {}
        for _ in range(2):
            results.append(run(model, inputs, logits_processor=[processor], **criteria, **MODES[mode]))
    for result in results[1:]:
        assert torch.equal(result, results[0])


def test_lookahead_does_the_work_before_the_processor_is_called(
    grammars: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    fill = cd.fill_next_token_bitmasks

    def counted(*arguments: Any) -> None:
        calls.append(threading.current_thread().name)
        fill(*arguments)

    monkeypatch.setattr(processor_module, "fill_next_token_bitmasks", counted)
    processor = GrammarLogitsProcessor(grammars["number"])
    scores = torch.zeros(1, SIZE)
    ids = torch.tensor([[1, 2]])
    processor(ids, scores)
    longer = torch.cat([ids, torch.tensor([[ord("4")]])], dim=1)
    assert processor.lookahead(longer, None).tolist() == [False]
    ahead = processor(longer, scores)
    assert len(calls) == 2
    assert calls[1].startswith("cdplugin-lookahead")
    other = GrammarLogitsProcessor(grammars["number"])
    other(ids, scores)
    assert torch.equal(other(longer, scores), ahead)


def failing_fill(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    """The fill of masks crosses a budget at its n-th call."""
    fill, calls = cd.fill_next_token_bitmasks, iter(range(1, 1000))

    def failing(*arguments: Any) -> None:
        if next(calls) == call:
            raise cd.LimitExceeded("too many states")
        fill(*arguments)

    monkeypatch.setattr(processor_module, "fill_next_token_bitmasks", failing)


@pytest.mark.parametrize("lookahead", [False, True])
def test_errors_of_the_engine_reach_the_caller(
    model: Any, grammars: dict[str, Any], lookahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor = GrammarLogitsProcessor(grammars["list"])
    criteria = {"stopping_criteria": [processor.lookahead]} if lookahead else {}
    inputs = prompts("a: ")
    failing_fill(monkeypatch, 3)
    with pytest.raises(cd.LimitExceeded, match="too many states"):
        run(model, inputs, logits_processor=[processor], **criteria)
    again = run(model, inputs, logits_processor=[processor], **criteria)
    assert torch.equal(again, reference(model, inputs, [grammars["list"]]))


def test_an_error_of_a_step_that_was_not_taken_is_nobodys(
    model: Any, grammars: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    processor = GrammarLogitsProcessor(grammars["list"])
    failing_fill(monkeypatch, 3)
    run(model, prompts("a: "), logits_processor=[processor], stopping_criteria=[processor.lookahead], max_new_tokens=2)
    inputs = prompts("b: ")
    assert torch.equal(run(model, inputs, logits_processor=[processor]), reference(model, inputs, [grammars["list"]]))


# --- assisted generation --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["number", "list", "text", "object"])
@pytest.mark.parametrize("lookahead", [False, True])
def test_assisted_generation_equals_greedy(
    model: Any, draft_model: Any, grammars: dict[str, Any], name: str, lookahead: bool
) -> None:
    inputs = prompts("some prompt: ")
    expected = reference(model, inputs, [grammars[name]])
    for assistant in (draft_model, model):  # drafts that are mostly refused, and drafts that are always taken
        processor = GrammarLogitsProcessor(grammars[name])
        criteria = {"stopping_criteria": [processor.lookahead]} if lookahead else {}
        for _ in range(2):
            actual = run(model, inputs, logits_processor=[processor], assistant_model=assistant, **criteria)
            assert torch.equal(actual, expected)


@pytest.mark.parametrize("seed", range(4))
def test_assisted_sampling_is_legal(model: Any, draft_model: Any, grammars: dict[str, Any], seed: int) -> None:
    inputs = prompts("some prompt: ")
    processor = GrammarLogitsProcessor(grammars["list"])
    actual = run(model, inputs, seed, logits_processor=[processor], assistant_model=draft_model, do_sample=True)
    assert re.fullmatch(LIST, text_of(actual[0], inputs["input_ids"].shape[1]))


@pytest.mark.parametrize("name", ["number", "list", "text"])
def test_prompt_lookup_equals_greedy(model: Any, grammars: dict[str, Any], name: str) -> None:
    inputs = prompts("[ab,cd,ab] 12.5 12.5 [ab,cd]")
    processor = GrammarLogitsProcessor(grammars[name])
    actual = run(model, inputs, logits_processor=[processor], prompt_lookup_num_tokens=4)
    assert torch.equal(actual, reference(model, inputs, [grammars[name]]))


def test_drafts_of_another_tokenizer(model: Any, grammars: dict[str, Any]) -> None:
    """The draft model's ids mean something else: it is called with prompts of its own, and its candidates may be illegal."""
    processor = GrammarLogitsProcessor(grammars["number"])
    prompt = [7, 7, 7]

    def main(generated: str, candidates: str) -> list[list[int]]:
        """The allowed tokens at each position, as transformers asks for them when it verifies candidates."""
        ids = torch.tensor([prompt + list((generated + candidates).encode())])
        scores = torch.zeros(1, len(candidates) + 1, SIZE)
        for i in range(len(candidates) + 1):
            scores[:, i, :] = processor(ids[:, : len(prompt) + len(generated) + i], scores[:, i, :])
        return [(scores[0, i] > float("-inf")).nonzero().flatten().tolist() for i in range(len(candidates) + 1)]

    def draft(ids: list[int], steps: int) -> None:
        for _ in range(steps):
            scores = processor(torch.tensor([ids]), torch.zeros(1, SIZE))
            ids = [*ids, int(scores.argmax())]

    draft([1, 2, 3], 3)
    masks = main("", "4x5")
    assert masks[0] == allowed_by(grammars["number"], [])
    assert masks[1] == allowed_by(grammars["number"], list(b"4"))
    draft([1, 2, 3, 9, 9], 3)
    masks = main("4.", "2y")
    assert masks[0] == allowed_by(grammars["number"], list(b"4."))
    assert masks[1] == allowed_by(grammars["number"], list(b"4.2"))
    masks = main("4.2", "")
    assert masks[0] == allowed_by(grammars["number"], list(b"4.2"))


@pytest.mark.parametrize("options", [{}, {"repetition_penalty": 1.5}], ids=str)
def test_illegal_drafts_behind_another_processor(
    model: Any, grammars: dict[str, Any], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The finding: where a processor before the grammar's copied the scores, a draft that the grammar refuses was an error."""
    from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

    def candidates(self: Any, ids: Any, **_: Any) -> Any:
        return torch.cat([ids, torch.tensor([list(b"1?2"[: max(0, self.max_length - ids.shape[1] - 1)])])], dim=1), None

    monkeypatch.setattr(PromptLookupCandidateGenerator, "get_candidates", candidates)
    inputs, processor = prompts("a: "), GrammarLogitsProcessor(grammars["number"])
    expected = run(model, inputs, logits_processor=[processor], **options)
    assert torch.equal(run(model, inputs, logits_processor=[processor], prompt_lookup_num_tokens=3, **options), expected)

    class Behind(LogitsProcessor):  # type: ignore[misc]
        def __call__(self, input_ids: Any, scores: Any) -> Any:
            return torch.where(torch.arange(SIZE) == ord("x"), 0.0, float("-inf")).expand(scores.shape)

    with pytest.raises(TokenNotAllowedError, match="token 120 .* at generated position 0 was forbidden"):
        run(model, inputs, logits_processor=[processor, Behind()], prompt_lookup_num_tokens=3, **options)


# --- which calls belong together ------------------------------------------------------------------------------------


def masked(processor: Any, rows: list[list[int]]) -> list[list[int]]:
    scores = processor(torch.tensor(rows), torch.zeros(len(rows), SIZE))
    return [(row > float("-inf")).nonzero().flatten().tolist() for row in scores]


def test_reuse_with_new_prompts(model: Any, grammars: dict[str, Any]) -> None:
    processor = GrammarLogitsProcessor(grammars["number"])
    for text in ("one: ", "another: ", "one: ", "one: ", "longer than any before: ", "x"):
        inputs = prompts(text)
        actual = run(model, inputs, logits_processor=[processor])
        assert torch.equal(actual, reference(model, inputs, [grammars["number"]]))


def test_reuse_after_an_interrupted_generation(model: Any, grammars: dict[str, Any]) -> None:
    """Cut off by max_new_tokens: a new prompt that goes on with the text and more is new."""
    processor = GrammarLogitsProcessor(grammars["list"])
    inputs = prompts("p: ")
    first = run(model, inputs, logits_processor=[processor], max_new_tokens=4)
    longer = torch.cat([first, torch.tensor([list(b" and now: ")])], dim=1)
    inputs = {"input_ids": longer, "attention_mask": torch.ones_like(longer)}
    for lookahead in (False, True):
        criteria = {"stopping_criteria": [processor.lookahead]} if lookahead else {}
        assert torch.equal(
            run(model, inputs, logits_processor=[processor], **criteria), reference(model, inputs, [grammars["list"]])
        )


@pytest.mark.parametrize("mode", ["greedy", "beams", "beams returned"])
@pytest.mark.parametrize("names", [["list"], ["list", "object"]], ids=str)
@pytest.mark.parametrize("lookahead", [False, True])
def test_a_prompt_that_is_a_token_longer(
    model: Any, grammars: dict[str, Any], mode: str, names: list[str], lookahead: bool
) -> None:
    """It looks like a step of the generation before, with a token that the grammar refuses: a mistake, or a beam of probability
    zero, which is left alone. But no loop goes back there."""
    chosen = [grammars[name] for name in names]
    processor = GrammarLogitsProcessor(chosen)
    criteria = {"stopping_criteria": [processor.lookahead]} if lookahead else {}
    for end in (":", ": ", ": x"):
        inputs = prompts(*["a" + end, "b" + end][: len(chosen)])
        actual = run(model, inputs, logits_processor=[processor], **criteria, **MODES[mode])
        assert torch.equal(actual, reference(model, inputs, chosen, **MODES[mode])), end


def test_a_prompt_that_is_a_token_longer_after_one_step(model: Any, grammars: dict[str, Any]) -> None:
    """Beams after a generation of one step: the token may be one that something chose, which is an error, never let pass."""
    processor = GrammarLogitsProcessor(grammars["list"])
    run(model, prompts("a:"), logits_processor=[processor], num_beams=3, max_new_tokens=1)
    with pytest.raises(TokenNotAllowedError, match=r"row 0: token 32 .*call reset\(\) before generate\(\)"):
        run(model, prompts("a: "), logits_processor=[processor], num_beams=3)
    assert text_of(run(model, prompts("a: "), logits_processor=[processor], num_beams=3)[0], 3).startswith("[")


@pytest.mark.parametrize("lookahead", [False, True])
def test_continuation_and_reset(model: Any, grammars: dict[str, Any], lookahead: bool) -> None:
    """A prompt that is the last text plus what was generated goes on where that was. After reset() it is a prompt like any
    other.
    """
    processor = GrammarLogitsProcessor(grammars["list"])
    criteria = {"stopping_criteria": [processor.lookahead]} if lookahead else {}
    inputs = prompts("p: ")
    first = run(model, inputs, logits_processor=[processor], max_new_tokens=4, **criteria)
    inputs = {"input_ids": first, "attention_mask": torch.ones_like(first)}
    continued = run(model, inputs, logits_processor=[processor], **criteria)
    assert re.fullmatch(LIST, text_of(continued[0], 3))
    processor.reset()
    fresh = run(model, inputs, logits_processor=[processor], **criteria)
    assert torch.equal(fresh, reference(model, inputs, [grammars["list"]]))
    assert re.fullmatch(LIST, text_of(fresh[0], first.shape[1]))


def test_what_only_the_lookahead_has_seen_is_not_known(grammars: dict[str, Any]) -> None:
    """With and without it the same calls are continuations: only the lookahead saw the last token of a generation."""
    results = []
    for on in (False, True):
        processor = GrammarLogitsProcessor(grammars["number"])
        masked(processor, [[1]])
        if on:
            processor.lookahead(torch.tensor([[1, ord("4")]]), None)
        results.append(masked(processor, [[1, ord("4"), ord("5")]]))
    assert results[0] == results[1] == [allowed_by(grammars["number"], [])]


def test_a_prompt_that_differs_only_before_the_generated_text(grammars: dict[str, Any]) -> None:
    processor = GrammarLogitsProcessor(grammars["number"])
    start = allowed_by(grammars["number"], [])
    assert masked(processor, [[1, 2, 3]]) == [start]
    assert masked(processor, [[1, 2, 3, ord("4")]]) == [allowed_by(grammars["number"], list(b"4"))]
    assert masked(processor, [[9, 2, 3, ord("4"), ord("5")]]) == [start]
    assert masked(processor, [[9, 2, 3, ord("4"), ord("5"), ord("6")]]) == [allowed_by(grammars["number"], list(b"6"))]
    assert masked(processor, [[1, 2, 3, ord("4")]]) == [allowed_by(grammars["number"], list(b"4"))]  # remembered
    assert masked(processor, [[1, 2, 3, ord("4"), ord("4")], [1, 2, 3, ord("4"), ord("5")]]) == [start, start]  # other rows


TOKENS = [ord(c) for c in "0123456789-.,[]abz"] + [EOS]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_sequence_of_calls_equals_replaying(grammars: dict[str, Any], data: st.DataObject) -> None:
    """Rows grow, are permuted and duplicated within their prompt, and are cut back. Each mask equals that of a fresh
    matcher.
    """
    names = data.draw(st.lists(st.sampled_from(["number", "list", "text", None]), min_size=1, max_size=3))
    chosen = [None if name is None else grammars[name] for name in names]
    per_prompt = data.draw(st.integers(1, 3))
    rows = per_prompt * len(names)
    prompt = [[5, 6 + row // per_prompt] for row in range(rows)]
    processor = GrammarLogitsProcessor(chosen)
    lookahead = data.draw(st.booleans())
    texts: list[list[int]] = [[] for _ in range(rows)]
    seen = 0
    for _ in range(data.draw(st.integers(1, 12))):
        ids = torch.tensor([p + t for p, t in zip(prompt, texts, strict=True)])
        scores = processor(ids, torch.zeros(rows, SIZE))
        for row, text in enumerate(texts):
            expected = allowed_by(chosen[row // per_prompt], text)
            assert (scores[row] > float("-inf")).nonzero().flatten().tolist() == expected
        seen = len(texts[0])
        action = data.draw(st.sampled_from(["grow", "grow", "grow", "beam", "cut", "again"]))
        if action == "again":
            continue
        if action == "cut":
            seen = data.draw(st.integers(0, seen))
            texts = [text[:seen] for text in texts]
        sources = list(range(rows))
        if action == "beam":
            sources = [r // per_prompt * per_prompt + data.draw(st.integers(0, per_prompt - 1)) for r in range(rows)]
        if action in ("grow", "beam") or data.draw(st.booleans()):
            grown = []
            for row, source in enumerate(sources):
                legal = allowed_by(chosen[row // per_prompt], texts[source])
                grown.append([*texts[source], data.draw(st.sampled_from([t for t in TOKENS if t in legal] or legal))])
            texts = grown
            if lookahead:
                processor.lookahead(torch.tensor([p + t for p, t in zip(prompt, texts, strict=True)]), None)


# --- rows that end, and tokens that should not be there -------------------------------------------------------------


class EndRow(StoppingCriteria):
    """Ends one row once it has that many tokens."""

    def __init__(self, row: int, length: int) -> None:
        self.row, self.length = row, length

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        done = torch.zeros(len(input_ids), dtype=torch.bool)
        done[self.row] = input_ids.shape[1] >= self.length
        return done


def test_sampling_after_beam_search_of_the_same_prompt(model: Any, grammars: dict[str, Any]) -> None:
    """Rows were permuted before, in another generation: a token that was forbidden is an error again."""
    processor = GrammarLogitsProcessor(grammars["text"])
    inputs = prompts("a: ", "another prompt: ")
    length = inputs["input_ids"].shape[1]
    run(model, inputs, logits_processor=[processor], num_beams=3)
    run(model, inputs, logits_processor=[processor], num_return_sequences=3, do_sample=True)
    options = {"num_return_sequences": 3, "do_sample": True, "max_new_tokens": 9}
    with pytest.raises(TokenNotAllowedError, match=r"row 1: token 7 .*position 3 was forbidden"):
        run(model, inputs, logits_processor=[processor, Force(1, length + 3, 7)], **options)


@pytest.mark.parametrize("pad", [PAD, EOS])
@pytest.mark.parametrize("lookahead", [False, True])
def test_rows_that_a_criterion_ends_are_padded(model: Any, grammars: dict[str, Any], pad: int, lookahead: bool) -> None:
    inputs = prompts("a: ", "another prompt: ")
    length = inputs["input_ids"].shape[1]
    whole = run(model, inputs, logits_processor=[GrammarLogitsProcessor(grammars["list"])], pad_token_id=pad)
    processor = GrammarLogitsProcessor(grammars["list"])
    criteria = [EndRow(0, length + 2), *([processor.lookahead] if lookahead else [])]
    ended = run(model, inputs, logits_processor=[processor], stopping_criteria=criteria, pad_token_id=pad)
    assert torch.equal(ended[0, : length + 2], whole[0, : length + 2])
    assert set(ended[0, length + 2 :].tolist()) == {pad}
    assert text_of(ended[1], length) == text_of(whole[1], length)


class Force(LogitsProcessor):
    """Makes one row take a token at a length, whatever the mask says."""

    def __init__(self, row: int, length: int, token: int) -> None:
        self.row, self.length, self.token = row, length, token

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        if input_ids.shape[1] == self.length:
            scores = scores.clone()
            scores[self.row] = float("-inf")
            scores[self.row, self.token] = 0.0
        return scores


@pytest.mark.parametrize("lookahead", [False, True])
@pytest.mark.parametrize(("row", "token", "shown"), [(1, ord("!"), "'!'"), (0, PAD, "token 257"), (1, SIZE - 1, "'ue'")])
def test_forced_token(model: Any, grammars: dict[str, Any], lookahead: bool, row: int, token: int, shown: str) -> None:
    inputs = prompts("a: ", "another prompt: ")
    processor = GrammarLogitsProcessor(grammars["list"])
    criteria = {"stopping_criteria": [processor.lookahead]} if lookahead else {}
    length = inputs["input_ids"].shape[1]
    forced = Force(row, length, token)
    with pytest.raises(TokenNotAllowedError, match=rf"row {row}: token {token} .*position 0 was forbidden") as caught:
        run(model, inputs, logits_processor=[processor, forced], **criteria)
    assert shown in str(caught.value)
    assert isinstance(caught.value, cd.CdpluginError)
    assert (caught.value.row, caught.value.token_id) == (row, token)
    again = run(model, inputs, logits_processor=[processor], **criteria)  # the processor is usable afterwards
    assert torch.equal(again, reference(model, inputs, [grammars["list"]]))


class ForceAll(LogitsProcessor):  # type: ignore[misc]
    """Makes all rows take a token at a length, whatever the mask says."""

    def __init__(self, length: int, token: int) -> None:
        self.length, self.token = length, token

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        if input_ids.shape[1] != self.length:
            return scores
        forced = torch.full_like(scores, float("-inf"))
        forced[:, self.token] = -1.0
        return forced


def tiny_t5() -> Any:
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    sizes = {"vocab_size": SIZE, "d_model": 16, "d_ff": 16, "d_kv": 8, "num_layers": 1, "num_heads": 2}
    return T5ForConditionalGeneration(T5Config(eos_token_id=EOS, pad_token_id=PAD, decoder_start_token_id=PAD, **sizes)).eval()


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("kind", ["equal prompts", "encoder"])
def test_beams_of_prompts_that_look_alike(model: Any, vocab: Any, kind: str, at: int) -> None:
    """The finding: equal prompts, and those of all decoders behind an encoder, were taken for one. So the beams of one prompt,
    all of which had got an illegal token or none, were taken for beams that die beside the other's, and its text was illegal.
    """
    grammar = cd.Compiler(vocab).compile(cd.Regex("[ab]{3,5}c"))
    inputs, start = (prompts("a: ", "a: "), 3) if kind == "equal prompts" else (prompts("a: ", "b: "), 1)
    host = model if kind == "equal prompts" else tiny_t5()
    options = {"num_beams": 2, "max_new_tokens": 8}
    texts = [text_of(row, start) for row in run(host, inputs, logits_processor=[GrammarLogitsProcessor(grammar)], **options)]
    assert all(re.fullmatch("[ab]{3,5}c", text) for text in texts)
    force = [Force(row, start + at, ord("!")) for row in (0, 1)]
    for processors in ([GrammarLogitsProcessor(grammar), *force], [*force, GrammarLogitsProcessor(grammar)]):
        with pytest.raises(cd.CdpluginError, match=f"row 0: .* generated position {at}"):
            run(host, inputs, logits_processor=processors, **options)


@pytest.mark.parametrize("budget", [None, 12])
@pytest.mark.parametrize("options", [{"num_beams": 3}, {"num_beams": 2, "num_return_sequences": 2}])
def test_a_token_forced_on_all_beams(model: Any, vocab: Any, options: dict[str, Any], budget: int | None) -> None:
    """The finding: all beams were taken for beams that die, so an illegal text was returned."""
    grammar = cd.Compiler(vocab).compile(cd.Regex("[ab]{5}c"))
    inputs = prompts("a: ", "another prompt: ")
    length = inputs["input_ids"].shape[1]
    for at in (1, 3):
        processors = [GrammarLogitsProcessor(grammar, budget), ForceAll(length + at, ord("!"))]
        with pytest.raises(TokenNotAllowedError, match=f"row 0: token 33 .*position {at} was forbidden"):
            run(model, inputs, logits_processor=processors, max_new_tokens=12, **options)


@pytest.mark.parametrize("lookahead", [False, True])
@pytest.mark.parametrize("options", [{}, {"do_sample": True}, {"prompt_lookup_num_tokens": 2}])
def test_no_token_is_left(model: Any, vocab: Any, options: dict[str, Any], lookahead: bool) -> None:
    """The finding: token 0 at the end of the text if it was the last step, and an error of torch where it was sampled."""
    grammar = cd.Compiler(vocab).compile(cd.Regex("[ab]{3}c"))
    inputs = prompts("a: ") if "prompt_lookup_num_tokens" in options else prompts("a: ", "another prompt: ")
    options = {**options, "suppress_tokens": [ord("c")]}
    for steps in (4, 8):
        processor = GrammarLogitsProcessor(grammar)
        criteria = [processor.lookahead] if lookahead else []
        with pytest.raises(cd.CdpluginError, match="row 0: no token is left at generated position 3: a processor before"):
            run(model, inputs, logits_processor=[processor], stopping_criteria=criteria, max_new_tokens=steps, **options)
    closing = GrammarLogitsProcessor(grammar, max_new_tokens=8)
    length = inputs["input_ids"].shape[1]
    assert text_of(run(model, inputs, logits_processor=[closing], max_new_tokens=8, **options)[0], length)[3:] == "c"


class NoWaiting(TorchDispatchMode):  # type: ignore[misc]
    """Refuses what waits for a device. Beside it, ``Tensor.tolist`` is counted."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert function not in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default), function
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("rows", [1, 3])
def test_with_the_lookahead_sampling_is_begun_before_the_device_is_waited_for(
    rows: int, grammars: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The finding: the scores of every step were waited for before they were sampled from."""
    waits: list[int] = []
    tolist = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda self: waits.append(1) or tolist(self))
    processor = GrammarLogitsProcessor(grammars["list"])
    ids = torch.full((rows, 1), 1) + torch.arange(rows)[:, None]
    scores = torch.randn(rows, SIZE) + 3
    masked = processor(ids, scores)
    for _ in range(3):
        ids = torch.cat([ids, masked.argmax(-1, keepdim=True)], 1)
        assert not processor.lookahead(ids, None).any()
        waits.clear()
        with NoWaiting():
            masked = processor(ids, scores)
        assert not waits


class Below(LogitsProcessor):  # type: ignore[misc]
    """Scores like those of GPT-2, all far below 0."""

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        return scores - 1_000


BEFORE: dict[str, dict[str, Any]] = {
    "below 0": {"logits_processor": [Below()]},
    "below 0, several sequences": {"logits_processor": [Below()], "do_sample": True, "num_return_sequences": 2},
    "forced": {"forced_eos_token_id": EOS, "max_new_tokens": 4},
    "beams": {"num_beams": 3},
    "sampled beams": {"num_beams": 3, "do_sample": True},
}


@pytest.mark.parametrize("mode", BEFORE)
@pytest.mark.parametrize("steps", [4, 8])
def test_no_token_is_left_in_what_looks_like_beams(model: Any, vocab: Any, mode: str, steps: int) -> None:
    """The finding: scores of at most 0 were taken for those of beams, which may die. So ``generate()`` took token 0, and the
    row was not masked from there on. And where all beams died, it returned nothing but padding.
    """
    options = {"max_new_tokens": steps, "suppress_tokens": [ord("c")], **BEFORE[mode]}
    grammar = cd.Compiler(vocab).compile(cd.Regex("[ab]{3}c"))
    processors = [*options.pop("logits_processor", []), GrammarLogitsProcessor(grammar)]
    with pytest.raises(cd.CdpluginError, match="row 0: no token is left at generated position 3: a processor before"):
        run(model, prompts("a: ", "another prompt: "), logits_processor=processors, **options)


@pytest.mark.parametrize("token", ["!", "a"])
def test_sampled_sequences_with_scores_below_0_are_no_beams(model: Any, vocab: Any, token: str) -> None:
    """The finding: a sequence beside others whose token was forced, or left none, was taken for a beam about to be dropped, and
    not masked from there on.
    """
    grammar = cd.Compiler(vocab).compile(cd.Regex("aac|[bB]{4}"))
    options = {"do_sample": True, "num_return_sequences": 2, "max_new_tokens": 8, "suppress_tokens": [ord("c"), ord("a")]}
    processors = [Below(), GrammarLogitsProcessor(grammar), Force(1, 3, ord(token))]
    expected = "row 1: token 33 .* forbidden" if token == "!" else "row 1: no token is left at generated position 1"
    with pytest.raises(cd.CdpluginError, match=expected):
        run(model, prompts("a: "), logits_processor=processors, **options)


def test_a_beam_that_has_ended_is_returned_where_the_others_die(model: Any, vocab: Any) -> None:
    processor = GrammarLogitsProcessor(cd.Compiler(vocab).compile(cd.Regex("a|b{3}c")))
    actual = run(model, prompts("a: "), logits_processor=[processor], num_beams=3, suppress_tokens=[ord("c")])
    assert text_of(actual[0], 3) == "a"


def test_padding_with_another_token_is_an_error(grammars: dict[str, Any]) -> None:
    processor = GrammarLogitsProcessor(grammars["number"])
    start, one = [[1], [1]], [[1, ord("1")], [1, ord("2")]]
    masked(processor, start)
    masked(processor, one)
    padded = [[1, ord("1"), PAD], [1, ord("2"), ord("2")]]
    logits = torch.ones(2, SIZE)
    assert torch.equal(processor(torch.tensor(padded), logits)[0], logits[0])  # left alone
    with pytest.raises(TokenNotAllowedError, match="row 0"):
        processor(torch.tensor([[*padded[0], ord("3")], [*padded[1], ord("3")]]), logits)


def test_a_loop_of_ones_own_that_appends_an_illegal_token(grammars: dict[str, Any]) -> None:
    """Scores that are a slice of the model's logits look like a draft's last position: let pass once, and not built upon."""
    processor = GrammarLogitsProcessor(grammars["number"])
    logits = torch.zeros(1, 3, SIZE)
    processor(torch.tensor([[1]]), logits[:, -1])
    processor(torch.tensor([[1, ord("x")]]), logits[:, -1])
    with pytest.raises(TokenNotAllowedError, match=r"token 120 \('x'\)"):
        processor(torch.tensor([[1, ord("x"), ord("1")]]), logits[:, -1])


@pytest.mark.parametrize("name", ["choice", "object", "number"])
@pytest.mark.parametrize("seed", range(3))
def test_sampled_beams_of_a_narrow_grammar(model: Any, grammars: dict[str, Any], name: str, seed: int) -> None:
    """Fewer legal tokens than beams: some beams have probability zero and must not disturb the others."""
    inputs = prompts("a: ", "another prompt: ")
    processor = GrammarLogitsProcessor(grammars[name])
    options = {"num_beams": 4, "do_sample": True}
    actual = run(model, inputs, seed, logits_processor=[processor], **options)
    assert torch.equal(actual, reference(model, inputs, [grammars[name]], seed, **options))


def test_more_beams_than_texts(model: Any, grammars: dict[str, Any]) -> None:
    inputs = prompts("a: ")
    actual = run(
        model, inputs, logits_processor=[GrammarLogitsProcessor(grammars["choice"])], num_beams=8, num_return_sequences=8
    )
    assert len(actual) == 8
    assert {text_of(row, 3) for row in actual} == {"true", "false"}


# --- what is passed in and out --------------------------------------------------------------------------------------


def test_raw_logits_are_left_alone(model: Any, grammars: dict[str, Any]) -> None:
    inputs = prompts("a: ")
    options = {"output_logits": True, "output_scores": True, "return_dict_in_generate": True, "max_new_tokens": 3}
    output = run(model, inputs, logits_processor=[GrammarLogitsProcessor(grammars["number"])], **options)
    assert all(torch.isfinite(step).all() for step in output.logits)
    assert all(torch.isinf(step).any() for step in output.scores)


def test_free_rows_are_left_alone(model: Any, grammars: dict[str, Any]) -> None:
    scores = torch.randn(2, SIZE + 40)
    out = GrammarLogitsProcessor([None, grammars["number"]])(torch.tensor([[1], [2]]), scores)
    assert torch.equal(out[0], scores[0])
    assert (out[1, SIZE:] == float("-inf")).all()
    assert GrammarLogitsProcessor([None])(torch.tensor([[1], [2]]), scores) is scores
    narrow = GrammarLogitsProcessor(grammars["number"])(torch.tensor([[1]]), scores[:1, :100])
    assert (narrow[0] > float("-inf")).nonzero().flatten().tolist() == [
        t for t in allowed_by(grammars["number"], []) if t < 100
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_dtypes(grammars: dict[str, Any], dtype: Any) -> None:
    out = GrammarLogitsProcessor(grammars["number"])(torch.tensor([[1]]), torch.zeros(1, SIZE, dtype=dtype))
    assert out.dtype == dtype
    assert (out[0] == 0).nonzero().flatten().tolist() == allowed_by(grammars["number"], [])


@pytest.mark.parametrize("seed", seeds(20, 12))
def test_minimally_invasive(vocab: Any, seed: int) -> None:
    """Promise 3: a legal unconstrained output is what the constrained greedy run yields."""
    model = tiny(seed)
    inputs = prompts("a: ")
    ascii_only = [t for t in range(SIZE) if t != EOS and not 32 <= t < 127]
    free = run(model, inputs, max_new_tokens=8, suppress_tokens=ascii_only)[0, 3:].tolist()
    text = bytes(t for t in free if t < 256).decode()
    for spec in (cd.Choice([text, "zz", text + "more", text[:-1] or "y"]), cd.Regex(r"[ -~]*")):
        processor = GrammarLogitsProcessor(cd.Compiler(vocab).compile(spec))
        constrained = run(model, inputs, max_new_tokens=8, suppress_tokens=ascii_only, logits_processor=[processor])[
            0, 3:
        ].tolist()
        assert constrained == free


@pytest.mark.parametrize(
    ("argument", "error", "text"),
    [
        (cd.Regex("a"), TypeError, r"grammar: expected a compiled cdplugin\.Grammar, found Regex; compile a spec"),
        (None, TypeError, r"grammar: expected a compiled cdplugin\.Grammar, found NoneType"),
        ([], ValueError, "grammar: expected at least one, found an empty list"),
        ([None, "a"], TypeError, r"grammar\[1\]: expected a compiled cdplugin\.Grammar, found str"),
    ],
)
def test_wrong_grammars(argument: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        GrammarLogitsProcessor(argument)


def test_other_wrong_arguments(grammars: dict[str, Any], model: Any) -> None:
    other = cd.Compiler(cd.Vocabulary.from_bytes([b"a", b"</s>"], eos_token_ids=1)).compile(cd.Regex("a"))
    with pytest.raises(ValueError, match=r"grammar\[1\]: expected the vocabulary of the grammars before it, found another one"):
        GrammarLogitsProcessor([grammars["number"], other])
    with pytest.raises(ValueError, match="expected one per prompt, found 2 for 3 rows"):
        run(model, prompts("a", "b", "c"), logits_processor=[GrammarLogitsProcessor([grammars["number"], None])])
    with pytest.raises(TypeError, match="input_ids and scores: expected tensors of PyTorch, found list and Tensor"):
        GrammarLogitsProcessor(grammars["number"])([[1]], torch.zeros(1, SIZE))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"found shapes \(1, 1\) and \(2, 260\)"):
        GrammarLogitsProcessor(grammars["number"])(torch.zeros(1, 1), torch.zeros(2, SIZE))


def test_scores_without_a_column_for_any_allowed_token(grammars: dict[str, Any]) -> None:
    """A vocabulary that is larger than the model's: what is allowed may be among the columns, or not."""
    digits, true = GrammarLogitsProcessor(grammars["number"]), GrammarLogitsProcessor(grammars["choice"])
    ids = torch.tensor([[1]])
    assert torch.isfinite(digits(ids, torch.zeros(1, 50))[0]).nonzero().ravel().tolist() == [45, 48, 49]
    with pytest.raises(cd.CdpluginError, match="row 0: .* for each of the vocabulary's 260 tokens, found 50, none of a"):
        true(ids, torch.zeros(1, 50))


def test_threads_share_a_processor(model: Any, grammars: dict[str, Any]) -> None:
    """More generations at once than a thread remembers, each in turn with all others."""
    processor = GrammarLogitsProcessor(grammars["list"])
    texts = ["a: ", "b: ", "and c: ", "d: "]
    turns = threading.Barrier(len(texts), timeout=60)
    found: dict[str, Any] = {}

    class Turn(LogitsProcessor):
        def __call__(self, ids: Any, scores: Any) -> Any:
            with contextlib.suppress(threading.BrokenBarrierError):  # one has ended
                turns.wait()
            return scores

    def generate(text: str) -> None:
        try:
            criteria = [processor.lookahead] if text in texts[:2] else []
            found[text] = run(model, prompts(text), logits_processor=[Turn(), processor], stopping_criteria=criteria)
        finally:
            turns.abort()

    threads = [threading.Thread(target=generate, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for text in texts:
        assert torch.equal(found[text], reference(model, prompts(text), [grammars["list"]]))


def test_threads_that_end_leave_no_rows(model: Any, grammars: dict[str, Any]) -> None:
    """Each kept its tracker and bitmask, and a thread with the number of one that had ended went on with its prompt."""
    processor = GrammarLogitsProcessor(grammars["list"])
    inputs = prompts("a: ")
    rows: list[weakref.ref[Any]] = []
    found: list[Any] = []

    def generate() -> None:
        continued = {"input_ids": found[-1], "attention_mask": torch.ones_like(found[-1])} if found else inputs
        found.append(run(model, continued, logits_processor=[processor], max_new_tokens=3))
        rows.append(weakref.ref(processor._last))

    for _ in range(3):
        thread = threading.Thread(target=generate)
        thread.start()
        thread.join()
    gc.collect()
    assert [ref() is None for ref in rows] == [True, True, False], "the last one is kept for trace()"
    processor.reset()
    for shorter, longer in itertools.pairwise(found):
        expected = {"input_ids": shorter, "attention_mask": torch.ones_like(shorter)}
        assert torch.equal(longer, reference(model, expected, [grammars["list"]], max_new_tokens=3))


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy])
def test_a_copy_begins_without_prompts(model: Any, grammars: dict[str, Any], make: Callable[[Any], Any]) -> None:
    processor = GrammarLogitsProcessor(grammars["list"])
    inputs = prompts("a: ")
    options = {"stopping_criteria": [processor.lookahead]}
    expected = run(model, inputs, logits_processor=[processor], max_new_tokens=3, **options)
    other = make(processor)
    longer = {"input_ids": expected, "attention_mask": torch.ones_like(expected)}
    fresh = run(model, longer, logits_processor=[other], stopping_criteria=[other.lookahead])
    assert torch.equal(fresh, reference(model, longer, [grammars["list"]]))
    assert torch.equal(run(model, longer, logits_processor=[processor]), reference(model, inputs, [grammars["list"]]))


# --- continuous batching --------------------------------------------------------------------------------------------

OLD = tuple(map(int, processor_module.transformers.__version__.split(".")[:2])) < (5, 11)
needs_rows = pytest.mark.skipif(OLD, reason="transformers before 5.11, which is refused")


def test_continuous_batching_of_old_transformers(grammars: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor_module.transformers, "__version__", "5.10.4")
    with pytest.raises(cd.CdpluginError, match="^continuous batching: expected transformers 5.11 or later, found 5.10.4$"):
        GrammarLogitsProcessor(grammars["list"]).attach("a manager")


@pytest.fixture
def batching(model: Any) -> Iterator[Callable[..., list[list[int]]]]:
    from transformers import ContinuousBatchingConfig

    def generate(processor: Any, texts: list[str], config: Any = None, **options: Any) -> list[list[int]]:
        settings = {"max_new_tokens": 60, "do_sample": False, "eos_token_id": EOS, "pad_token_id": PAD, **options}
        small = config or ContinuousBatchingConfig(num_blocks=64, max_batch_tokens=64, page_size=16)
        with processor.continuous_batching(model):
            outputs = model.generate_batch(
                inputs=[list(t.encode()) for t in texts],
                generation_config=GenerationConfig(**settings),
                continuous_batching_config=small,
            )
        assert all(output.error is None for output in outputs.values()), outputs
        return [output.generated_tokens for output in outputs.values()]

    implementation = model.config._attn_implementation
    yield generate
    model.set_attn_implementation(implementation)


@needs_rows
def test_continuous_batching_equals_generate(
    model: Any, grammars: dict[str, Any], batching: Callable[..., list[list[int]]]
) -> None:
    texts = ["a: ", "another prompt: ", "xy", "and one more, longer than the others: "]
    chosen = [grammars["list"], grammars["number"], None, grammars["object"]]
    outputs = batching(GrammarLogitsProcessor(chosen), texts, max_new_tokens=30)
    for text, grammar, output in zip(texts, chosen, outputs, strict=True):
        expected = reference(model, prompts(text), [grammar], max_new_tokens=30)[0, len(text) :].tolist()
        assert output == expected
    shared = GrammarLogitsProcessor(grammars["list"])
    for _ in range(2):
        for text, output in zip(texts, batching(shared, texts), strict=True):
            assert output == reference(model, prompts(text), [grammars["list"]])[0, len(text) :].tolist()


@needs_rows
def test_continuous_batching_with_sampling_and_return_sequences(
    grammars: dict[str, Any], batching: Callable[..., list[list[int]]]
) -> None:
    options = {"do_sample": True, "num_return_sequences": 3, "top_k": 20, "temperature": 1.5}
    outputs = batching(GrammarLogitsProcessor([grammars["list"], grammars["number"]]), ["a: ", "b: "], **options)
    assert len(outputs) == 6
    for output, pattern in zip(outputs, [LIST] * 3 + [NUMBER] * 3, strict=True):
        assert re.fullmatch(pattern, text_of(torch.tensor(output), 0))


@needs_rows
def test_continuous_batching_with_a_manager(model: Any, grammars: dict[str, Any]) -> None:
    from transformers import ContinuousBatchingConfig

    config = GenerationConfig(max_new_tokens=40, do_sample=False, eos_token_id=EOS, pad_token_id=PAD)
    small = ContinuousBatchingConfig(num_blocks=64, max_batch_tokens=64, page_size=16)
    implementation = model.config._attn_implementation
    manager = model.init_continuous_batching(generation_config=config, continuous_batching_config=small)
    processor = GrammarLogitsProcessor([grammars["list"], grammars["number"]])
    processor.attach(manager)
    manager.start()
    try:
        manager.add_request(list(b"a: "), request_id="mine", grammar=1)
        result = manager.get_result(timeout=60)
        assert result is not None
        assert result.error is None
        assert re.fullmatch(NUMBER, text_of(torch.tensor(result.generated_tokens), 0))
        with pytest.raises(cd.CdpluginError, match="expected a manager that has not been started"):
            processor.attach(manager)
    finally:
        manager.stop(block=True)
        model.set_attn_implementation(implementation)


@needs_rows
@pytest.mark.parametrize("sequences", [1, 3])
def test_a_request_of_continuous_batching_fails_alone(model: Any, vocab: Any, sequences: int) -> None:
    from transformers import ContinuousBatchingConfig

    wide = "|".join(f"[{chr(97 + i)}-z]*{chr(97 + i)}.{{20}}" for i in range(16))  # its first mask takes 20 times as much
    late = cd.Compiler(vocab, cd.Limits(max_step_work=5_000)).compile(cd.Regex(f"c{{3}}({wide})"))
    first = cd.Compiler(vocab, cd.Limits(max_step_work=1)).compile(cd.Regex("[ab]*"))
    good = cd.Compiler(vocab).compile(cd.Regex(LIST))
    settings = {"do_sample": True, "eos_token_id": EOS, "pad_token_id": PAD, "num_return_sequences": sequences}
    config = GenerationConfig(max_new_tokens=40, **settings)
    small = ContinuousBatchingConfig(num_blocks=64, max_batch_tokens=64, page_size=16)
    implementation = model.config._attn_implementation
    processor = GrammarLogitsProcessor([good, first, good, late])
    manager = model.init_continuous_batching(generation_config=config, continuous_batching_config=small)
    processor.attach(manager)
    manager.start()
    try:
        for name, place in (("good", 0), ("first", 1), ("no such grammar", 99), ("late", 3), ("good too", 2)):
            manager.add_request(list(b"a: "), request_id=name, grammar=place)
        manager.add_request(list(b"a: "), request_id="a name of its own")
        found = {}
        while len(found) < 6 * sequences:
            result = manager.get_result(timeout=60)
            assert result is not None, found
            found[result.request_id] = result
        assert manager.is_running()
    finally:
        manager.stop(block=True)
        model.set_attn_implementation(implementation)
    work = "one step takes too much work: expected at most {} units"
    expected = {
        "first": (work.format(1), b""),
        "late": (work.format(5_000), b"c{1,3}"),
        "no such grammar": ("request no such grammar[^:]*: expected a grammar from 0 to 3, found 99", b""),
        "a name of its own": (r"expected add_request\(..., grammar=i\), as it has a name of its own", b""),
    }
    for name, result in found.items():
        name, _, child = name.partition("__child#")
        if name == "late" and child:
            continue  # each try keeps what it has found, so a later one may get through
        if name in expected:
            message, tokens = expected[name]
            assert re.search(message, result.error)
            assert re.fullmatch(tokens, bytes(result.generated_tokens))
        else:
            assert result.error is None
            assert re.fullmatch(LIST, text_of(torch.tensor(result.generated_tokens), 0))


@needs_rows
@pytest.mark.parametrize("options", [{}, {"do_sample": True}, {"do_sample": True, "num_return_sequences": 3}], ids=str)
def test_a_request_without_a_token_left_fails_alone(model: Any, vocab: Any, options: dict[str, Any]) -> None:
    """The finding: a processor behind the masks that left no token: token 0 as the last one, or all requests failed."""
    from transformers import ContinuousBatchingConfig

    compiler = cd.Compiler(vocab)
    processor = GrammarLogitsProcessor([compiler.compile(cd.Regex(text)) for text in ("[ab]{3}c", "[ab]{3}d")])
    config = GenerationConfig(
        **{"max_new_tokens": 4, "eos_token_id": EOS, "pad_token_id": PAD, "suppress_tokens": [ord("c")], **options}
    )
    small = ContinuousBatchingConfig(num_blocks=64, max_batch_tokens=64, page_size=16)
    implementation = model.config._attn_implementation
    with processor.continuous_batching(model):
        outputs = model.generate_batch(
            inputs=[list(b"a: "), list(b"b: ")], generation_config=config, continuous_batching_config=small
        )
    model.set_attn_implementation(implementation)
    found = [(output.error, bytes(output.generated_tokens)) for output in outputs.values()]
    count = options.get("num_return_sequences", 1)
    for error, text in found[:count]:
        assert re.search("request [^:]*: no token is left: other processors", error) and re.fullmatch(b"[ab]{3}", text)
    for error, text in found[count:]:
        assert error is None and re.fullmatch(b"[ab]{3}d", text)
    assert len(found) == 2 * count


@needs_rows
def test_names_of_requests_that_are_over(grammars: dict[str, Any]) -> None:
    """A name that is used again has the grammar of the new request. A request that was cancelled, finished or begun anew is
    forgotten.
    """
    from transformers.generation.continuous_batching.requests import RequestState

    from cdplugin.adapters.hf.batching import RequestMasks

    masks = RequestMasks([grammars["choice"], grammars["number"], None], 0)

    def request(name: str, place: int) -> Any:
        state = RequestState(name, list(b"a: "), max_new_tokens=9, logit_processor_kwargs={"grammar": place})
        return SimpleNamespace(state=state)

    def allowed(one: Any) -> list[int]:
        masks.prepare_tensor_args([one])
        assert one.state.error is None
        return torch.isfinite(masks(torch.zeros(1, SIZE), torch.zeros(1))[0]).nonzero().ravel().tolist()

    cancelled, first = request("mine", 0), request("other", 1)
    assert allowed(cancelled) == allowed_by(grammars["choice"], [])
    assert allowed(first) == allowed_by(grammars["number"], [])
    second = request("mine", 1)
    assert allowed(second) == allowed_by(grammars["number"], [])
    for token in b"-1":
        second.state.generated_tokens.append(token)
        assert allowed(second) == allowed_by(grammars["number"], second.state.generated_tokens)
    second.state = second.state.create_equivalent_initial_request()  # the cache was full
    assert allowed(second) == allowed_by(grammars["number"], list(b"-1"))
    assert len(allowed(request("mine", 2))) == SIZE
    del cancelled, second
    allowed(request("last", 0))
    assert list(masks._matchers) == ["other", "last"]


class Wrapped(torch.nn.Module):  # type: ignore[misc]
    """Hands on what it lacks to the model inside, as peft's models do."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.inside = model

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inside"), name)


@needs_rows
def test_continuous_batching_of_a_wrapped_model(model: Any, grammars: dict[str, Any]) -> None:
    """The finding: the context changed the wrapper, and the model inside went on without the grammar."""
    from transformers import ContinuousBatchingConfig

    config = GenerationConfig(max_new_tokens=12, do_sample=False, eos_token_id=EOS, pad_token_id=PAD)
    small = ContinuousBatchingConfig(num_blocks=64, max_batch_tokens=64, page_size=16)
    implementation = model.config._attn_implementation
    wrapped = Wrapped(model)
    with GrammarLogitsProcessor(grammars["number"]).continuous_batching(wrapped):
        (output,) = wrapped.generate_batch([list(b"a: ")], config, small).values()
    assert re.fullmatch(NUMBER, text_of(torch.tensor(output.generated_tokens), 0))
    assert "init_continuous_batching" not in {**vars(model), **vars(wrapped)}
    model.set_attn_implementation(implementation)


@needs_rows
def test_contexts_of_continuous_batching(
    model: Any, grammars: dict[str, Any], batching: Callable[..., list[list[int]]]
) -> None:
    """The findings: within a context, the end of another one ended both; and a manager that was kept kept its masks."""
    from transformers import ContinuousBatchingConfig

    number, text = GrammarLogitsProcessor(grammars["number"]), ["a: "]
    free = reference(model, prompts(*text), [None], max_new_tokens=12)[0, 3:].tolist()
    config = GenerationConfig(max_new_tokens=12, do_sample=False, eos_token_id=EOS, pad_token_id=PAD)
    small = ContinuousBatchingConfig(num_blocks=64, max_batch_tokens=64, page_size=16)

    def generate(*texts: str, **options: Any) -> list[Any]:
        outputs = model.generate_batch([list(t.encode()) for t in texts], config, small, **options).values()
        assert all(output.error is None for output in outputs), outputs
        return [output.generated_tokens for output in outputs]

    with number.continuous_batching(model):
        expected = generate(*text)
        for other in (number, GrammarLogitsProcessor(grammars["list"])):
            with pytest.raises(cd.CdpluginError, match="expected a model in no other such context"):
                batching(other, text)
        assert generate(*text) == expected
    assert re.fullmatch(NUMBER, text_of(torch.tensor(expected[0]), 0)) and generate(*text) == [free]

    both = GrammarLogitsProcessor([grammars["number"], grammars["choice"]])
    with both.continuous_batching(model):
        for _ in range(2):
            first, second = generate("a: ", "b: ", persistent_manager=True)
            assert first == expected[0] and text_of(torch.tensor(second), 0) in ("true", "false")
    assert not hasattr(model, "_cached_continuous_batching_manager") and generate(*text) == [free]


@needs_rows
@pytest.mark.parametrize("name", ["1", "req_1", "req_1__child#0", "my_req_1", "1__child#0", "req_", "req_1__other"])
def test_names_that_are_numbers(grammars: dict[str, Any], name: str) -> None:
    """The finding: a name that its caller chose, such as a number, was taken for the manager's own count of requests."""
    from transformers.generation.continuous_batching.requests import RequestState

    from cdplugin.adapters.hf.batching import RequestMasks

    masks = RequestMasks([grammars["choice"], grammars["number"]], 0)
    state = RequestState(name, list(b"a: "), max_new_tokens=9)
    masks.prepare_tensor_args([SimpleNamespace(state=state)])
    assert (state.error is None) == (name in ("req_1", "req_1__child#0"))


@needs_rows
def test_continuous_batching_refusals(model: Any, grammars: dict[str, Any]) -> None:
    from transformers import ContinuousBatchingConfig

    processor = GrammarLogitsProcessor(grammars["number"])
    with pytest.raises(cd.CdpluginError, match="one token per row, as continuous batching passes it"):
        processor(torch.tensor([1, 2]), torch.zeros(2, SIZE))
    with pytest.raises(cd.CdpluginError, match="expected a transformers ContinuousBatchingManager, found str"):
        processor.attach("manager")
    implementation = model.config._attn_implementation
    config = GenerationConfig(max_new_tokens=4, eos_token_id=EOS, pad_token_id=PAD)
    small = ContinuousBatchingConfig(num_blocks=64, max_batch_tokens=64, page_size=16, use_async_batching=True)
    with processor.continuous_batching(model), pytest.raises(cd.CdpluginError, match="use_async_batching starts a step before"):
        model.generate_batch(inputs=[[1]], generation_config=config, continuous_batching_config=small)
    assert "init_continuous_batching" not in vars(model)
    model.set_attn_implementation(implementation)


# --- a real tokenizer, and a real model -----------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "tags": {"type": "array", "items": {"enum": ["new", "old", "né"]}, "maxItems": 3},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def smollm2() -> Any:
    from tokenizers_data import smollm2

    tokenizer = smollm2()
    return tokenizer, cd.Compiler(cd.Vocabulary.from_huggingface(tokenizer))


@pytest.mark.parametrize("mode", ["greedy", "sampling", "return sequences", "beams"])
def test_json_with_a_real_tokenizer(smollm2: Any, mode: str) -> None:
    """The texts are valid under jsonschema, whatever a random model makes of them."""
    import json

    import jsonschema

    tokenizer, compiler = smollm2
    grammar = compiler.compile(cd.JsonSchema(SCHEMA, whitespace="compact"))
    tokenizer.padding_side = "left"
    inputs = tokenizer(["A person:", "Somebody else, in JSON please:"], return_tensors="pt", padding=True)
    model = tiny(3, size=len(tokenizer))
    end = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    # the prompt of row 1 is free; "sampling" at temperature 2 wanders through multi-byte characters
    processor = GrammarLogitsProcessor([grammar, None])
    output = run(model, inputs, logits_processor=[processor], **end, **MODES[mode] | {"max_new_tokens": 100})
    for ids in output[: len(output) // 2]:
        text = tokenizer.decode(ids[inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        jsonschema.validate(json.loads(text), SCHEMA)


@pytest.mark.model
@pytest.mark.slow
def test_small_model_promise_3(smollm2: Any) -> None:
    """The real model: what it says unconstrained, if legal, is what it says constrained."""
    import importlib.util
    import json
    from pathlib import Path

    import jsonschema
    from transformers import AutoModelForCausalLM

    path = Path(__file__).resolve().parents[2] / "examples" / "demo_model.py"
    spec = importlib.util.spec_from_file_location("demo_model", path)
    assert spec is not None
    assert spec.loader is not None
    demo_model = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo_model)
    try:
        folder = demo_model.model_folder()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    tokenizer, compiler = smollm2
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    compared = 0
    for question in ("What is the capital of France?", "Say hello in German.", "Count to five."):
        message = [{"role": "user", "content": question}]
        inputs = tokenizer.apply_chat_template(message, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        length = inputs["input_ids"].shape[1]
        free = run(model, inputs, max_new_tokens=24)[0, length:]
        text = tokenizer.decode(free, skip_special_tokens=True)
        if "\ufffd" in text:  # cut off within a character
            continue
        compared += 1
        other = compiler.compile(cd.Choice([text, "No.", text[:5] + "!"]))
        constrained = run(model, inputs, max_new_tokens=24, logits_processor=[GrammarLogitsProcessor(other)])[0, length:]
        assert constrained.tolist() == free.tolist()
    assert compared >= 2
    message = [{"role": "user", "content": "Describe a person called Ann, 31, as JSON with name, age and tags."}]
    inputs = tokenizer.apply_chat_template(message, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    processor = GrammarLogitsProcessor(compiler.compile(cd.JsonSchema(SCHEMA)))
    output = run(model, inputs, max_new_tokens=100, logits_processor=[processor], stopping_criteria=[processor.lookahead])
    text = tokenizer.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    jsonschema.validate(json.loads(text), SCHEMA)
