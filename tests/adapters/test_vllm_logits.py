"""The logits processor with stand-ins for vLLM's two model runners: changing batches, output to replay, drafts."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from word_choice import CHOICE, END, VOCAB, WORDS, allowed

import cdplugin as cd
from cdplugin.adapters.serving.requests import ServerOptions
from cdplugin.adapters.vllm import compat as compat
from cdplugin.adapters.vllm import logits as vllm_logits
from cdplugin.adapters.vllm.grammar import Engine

torch = pytest.importorskip("torch")
LIST = [word.decode() for word in WORDS]


class Direction(enum.Enum):
    UNIDIRECTIONAL = 1
    SWAP = 2


def request(**extra: Any) -> Any:
    return SimpleNamespace(extra_args={f"cdplugin_{name}": value for name, value in extra.items()}, all_stop_token_ids={END})


def update(removed: Sequence[int] = (), added: Sequence[Any] = (), moved: Sequence[Any] = ()) -> Any:
    return SimpleNamespace(removed=removed, added=added, moved=moved)


def processor(monkeypatch: pytest.MonkeyPatch, *arguments: Any) -> Any:
    monkeypatch.setattr(vllm_logits, "engine_for", lambda *_: Engine(VOCAB, ServerOptions()))
    monkeypatch.setattr(vllm_logits.compat, "tokenizer_of", lambda _: None)
    model = SimpleNamespace(get_vocab_size=lambda: VOCAB.size, max_model_len=1_000)
    config = SimpleNamespace(model_config=model, structured_outputs_config=SimpleNamespace(disable_any_whitespace=False))
    return vllm_logits.GrammarLogitsProcessor(config, *arguments)


def kept(made: Any, rows: int, *context: Any) -> list[set[int]]:
    """The tokens whose logits are left, row by row."""
    logits = made.apply(torch.zeros(rows, VOCAB.size), *context)
    return [set(torch.isfinite(row).nonzero().flatten().tolist()) for row in logits]


EVERYTHING = set(range(VOCAB.size))


def test_v1_follows_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    made = processor(monkeypatch, "cpu", False)
    assert not made.is_argmax_invariant() and kept(made, 2) == [EVERYTHING] * 2
    one, two, three = [], [*b"ab"], []  # type: ignore[var-annotated]
    made.update_state(
        update(added=[(0, request(choice=LIST), [1], one), (1, request(), [1], []), (2, request(choice=LIST), [1], two)])
    )
    assert kept(made, 3) == [allowed([]), EVERYTHING, allowed(b"ab")]
    one.append(ord("c"))
    two += [ord("d"), -1]  # -1: chosen, but not known yet
    made.update_state(None)
    assert kept(made, 3) == [allowed(b"c"), EVERYTHING, allowed(b"abd")]
    made.update_state(update(removed=[1], moved=[(2, 1, Direction.UNIDIRECTIONAL)]))
    assert kept(made, 2) == [allowed(b"c"), allowed(b"abd")]
    made.update_state(update(moved=[(0, 1, Direction.SWAP)], added=[(2, request(regex="[xy]"), [1], three)]))
    assert kept(made, 3) == [allowed(b"abd"), allowed(b"c"), {ord("x"), ord("y")}]
    made.update_state(update(moved=[(2, 3, Direction.SWAP)]))
    assert kept(made, 4) == [allowed(b"abd"), allowed(b"c"), EVERYTHING, {ord("x"), ord("y")}]
    two[-1] = END
    assert kept(made, 4)[0] == EVERYTHING  # ended: as vLLM's own backends do it
    made.update_state(update(removed=[0, 1, 3]))
    assert kept(made, 4) == [EVERYTHING] * 4


def test_v1_what_goes_wrong_leaves_stop_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    made = processor(monkeypatch, "cpu", False)
    forced: list[int] = [ord("x")]
    made.update_state(update(added=[(0, request(json="{"), [1], []), (1, request(choice=LIST), [1], forced)]))
    assert kept(made, 2) == [{END}, {END}]


def test_v2_reads_tokens_from_the_device_and_follows_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = torch.zeros(8, 16, dtype=torch.int32)
    total = torch.zeros(8, dtype=torch.int32)
    prompt = np.zeros(8, np.int32)
    buffers = {name: SimpleNamespace(gpu=value) for name, value in (("all_token_ids", tokens), ("total_len", total))}
    made = processor(monkeypatch, SimpleNamespace(prompt_len=SimpleNamespace(np=prompt), **buffers))

    def write(slot: int, prompt_tokens: int, output: bytes) -> None:
        prompt[slot], total[slot] = prompt_tokens, prompt_tokens + len(output)
        tokens[slot, prompt_tokens : prompt_tokens + len(output)] = torch.tensor([*output], dtype=torch.int32)

    def context(rows: list[tuple[int, int, int]]) -> Any:
        """Rows of (slot, place among the rows of its request, token fed)."""
        slots, places, fed = (torch.tensor(column, dtype=torch.int32) for column in zip(*rows, strict=True))
        return SimpleNamespace(expanded_idx_mapping=slots, expanded_local_pos=places, input_ids=fed)

    assert made.add_request(5, request(choice=LIST)) and not made.add_request(2, request())
    made.apply_staged_writes()
    write(5, 3, b"")
    assert kept(made, 2, context([(2, 0, 7), (5, 0, 7)])) == [EVERYTHING, allowed([])]
    write(5, 3, b"c")
    rows = [(5, 0, ord("c")), (5, 1, ord("c")), (5, 2, ord("c")), (2, 0, 7)]
    assert kept(made, 4, context(rows)) == [allowed(b"c"), allowed(b"cc"), allowed(b"ccc"), EVERYTHING]
    assert kept(made, 4, context(rows)) == [allowed(b"c"), allowed(b"cc"), allowed(b"ccc"), EVERYTHING]
    wrong = [(5, 0, ord("c")), (5, 1, ord("x")), (5, 2, ord("c"))]  # the row after a draft that its mask refuses is never used
    assert kept(made, 3, context(wrong))[0] == allowed(b"c")
    write(5, 3, b"ccc")
    assert kept(made, 1, context([(5, 0, ord("c"))])) == [allowed(b"ccc")]
    assert made.add_request(5, request(choice=LIST))  # the slot's next request, preempted once: it has output
    write(5, 2, b"ab")
    assert kept(made, 1, context([(5, 0, ord("b"))])) == [allowed(b"ab")]
    assert not made.add_request(5, request()) and kept(made, 1, context([(5, 0, 0)])) == [EVERYTHING]


def test_requests() -> None:
    read = vllm_logits.request_of
    assert read(None) is None and read({"other": 1}) is None
    assert read({"cdplugin_choice": LIST}) == ("CHOICE", CHOICE)
    assert read({"cdplugin_json": {"type": "null"}}) == ("JSON", '{"type": "null"}')
    assert read({"cdplugin_json_object": True}) == ("JSON_OBJECT", "") and read({"cdplugin_regex": "a"}) == ("REGEX", "a")
    for wrong in ({"cdplugin_x": 1}, {"cdplugin_regex": "a", "cdplugin_json": "{}"}, {"cdplugin_json_object": False}):
        with pytest.raises(cd.GrammarError, match="cdplugin_"):
            read(wrong)
    validate = vllm_logits.GrammarLogitsProcessor.validate_params
    validate(request(choice=LIST))
    validate(request())
    with pytest.raises(ValueError, match="position 0"):
        validate(request(regex="(a"))


def test_requests_come_through_the_same_door(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that only the compiler refuses is refused there too, with the engine's options and vocabulary."""
    unspellable = request(grammar="start: <|no-such-token|>")
    made = vllm_logits.GrammarLogitsProcessor
    made.validate_params(unspellable)  # nothing is known of the vocabulary
    monkeypatch.setattr(made, "door", Engine(VOCAB, ServerOptions(limits={"max_spec_bytes": 40})))
    for wrong, message in ((unspellable, "no-such-token"), (request(regex="a" * 50), "max_spec_bytes")):
        with pytest.raises(cd.GrammarError, match=message):
            asyncio.run(vllm_logits.check_off_loop(wrong))
        with pytest.raises(cd.GrammarError, match=message):
            made.validate_params(wrong)
    for right in (request(choice=["a"]), request()):
        asyncio.run(vllm_logits.check_off_loop(right))
        made.validate_params(right)


def test_a_configuration_that_names_the_processor() -> None:
    def names(*processors: Any) -> bool:
        return compat.names_our_processor(SimpleNamespace(logits_processors=list(processors) or None))

    assert names("cdplugin.adapters.vllm.logits:GrammarLogitsProcessor")
    assert names("cdplugin.adapters.vllm_logits:GrammarLogitsProcessor")
    assert names(int, vllm_logits.GrammarLogitsProcessor)
    assert not names() and not names("other:Processor", int) and not compat.names_our_processor(SimpleNamespace())


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({"cdplugin_regex": 5}, "cdplugin_regex: expected a text, found int"),
        ({"cdplugin_grammar": ["start: x"]}, "cdplugin_grammar: expected a text, found list"),
        ({"cdplugin_json": {1, 2}}, "cdplugin_json: expected a value that JSON can write, found Object of type set"),
        ({"cdplugin_choice": [10**5000]}, "cdplugin_choice: expected a value that JSON can write, found Exceeds the limit"),
        ({"cdplugin_json_object": np.zeros(2)}, "cdplugin_json_object: expected true, found array"),
        (
            {"cdplugin_regex": "a", "cdplugin_budget": -(10**5000)},
            "cdplugin_budget: expected true, false or a positive number of tokens, found a value of type int",
        ),
        ([("cdplugin_regex", "a")], "extra arguments: expected an object, found list"),
    ],
)
def test_extra_arguments_of_the_wrong_kind(extra: Any, expected: str) -> None:
    params = SimpleNamespace(extra_args=extra, max_tokens=9, all_stop_token_ids={END})
    with pytest.raises(cd.GrammarError) as raised:
        vllm_logits.GrammarLogitsProcessor.validate_params(params)
    assert str(raised.value).startswith(expected)


def test_a_circle_of_lists_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(cd.GrammarError, match="cdplugin_json: expected a value that JSON can write, found Circular reference"):
        vllm_logits.request_of({"cdplugin_json": circle})
