"""Budgets of vLLM's requests, with stand-ins for vLLM: what is left, drafts, reasoning, the door, and both routes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from engine_tools import members
from word_choice import CHOICE, END, VOCAB, allowed

import cdplugin as cd
from cdplugin.adapters.serving.requests import ServerOptions
from cdplugin.adapters.vllm import budget, compat, plugin
from cdplugin.adapters.vllm import logits as vllm_logits
from cdplugin.adapters.vllm.grammar import OPTIONS_VARIABLE, Engine, GrammarState

A, B, C = 97, 98, 99
AB, CC, CCC = 256, 259, 260


class Request:
    """As much of vLLM's ``Request`` as is read."""

    def __init__(self, max_tokens: int, prompt: int = 3, extra: dict[str, Any] | None = None) -> None:
        self.max_tokens, self.num_prompt_tokens = max_tokens, prompt
        self.output: list[int] = []
        self.sampling_params = SimpleNamespace(extra_args=extra)
        self.structured_output_request = SimpleNamespace(reasoning_ended=None)

    @property
    def num_output_tokens(self) -> int:
        return len(self.output)


def made(request: Request, model_len: int = 1_000, most: int | None = None, drafts: int = 0) -> GrammarState:
    state = Engine(VOCAB, ServerOptions()).state("CHOICE", CHOICE)
    state.budget = budget.RequestBudget(request, model_len, most, drafts)
    return state


def filled(state: GrammarState) -> set[int]:
    row = np.full((1, (VOCAB.size + 31) // 32), -1, np.int32)
    state.fill_bitmask(row, 0)
    return members(row.tobytes())


def write(state: GrammarState, request: Request, tokens: list[int], constrained: int | None = None) -> None:
    """Do with sampled tokens what vLLM's scheduler does: give them to the request first, then to the grammar (after
    reasoning).
    """
    request.output += tokens
    assert state.accept_tokens("id", tokens if constrained is None else tokens[len(tokens) - constrained :])


# which tokens leave room for a word and the stop token: of "abc", "abd", "ab", "bca", "cc", "ccccc"
BY_BUDGET = {2: {AB, CC, 261}, 3: {A, AB, C, CC, CCC, 257, 261}}


@pytest.mark.parametrize("budget_of", [2, 3])
def test_max_tokens_and_the_context(budget_of: int) -> None:
    for request, length in ((Request(budget_of), 1_000), (Request(100, prompt=10), 10 + budget_of)):
        assert filled(made(request, length)) == BY_BUDGET[budget_of]
    request = Request(50)
    assert filled(made(request, most=budget_of)) == BY_BUDGET[budget_of]


def test_tokens_that_were_written_count_and_a_rollback_gives_them_back() -> None:
    request = Request(4)
    state = made(request)
    write(state, request, [C])
    assert filled(state) == {C, CC, CCC}  # "c" and the end; "cc" or "ccc", what is missing of "ccccc", and the end
    state.rollback(1)
    request.output.pop()
    assert filled(state) == allowed([])


def test_drafts_count_until_they_are_taken_back() -> None:
    """Fill, follow a draft, fill, …, roll back: the request knows nothing of it."""
    request = Request(3)
    state = made(request)
    assert filled(state) == BY_BUDGET[3]
    assert state.accept_tokens("id", [C])
    assert filled(state) == {C}
    assert state.accept_tokens("id", [C])
    assert filled(state) == {END}
    state.rollback(2)
    assert filled(state) == BY_BUDGET[3]
    write(state, request, [AB])
    assert filled(state) == {C, 100, END}


def test_drafts_beyond_the_end_turn_nothing_off() -> None:
    request = Request(3)
    state = made(request)
    write(state, request, [C])
    assert filled(state) == {C}
    assert state.accept_tokens("id", [CC])  # a draft that the budget's mask refuses
    assert filled(state) >= {C}
    state.rollback(1)
    assert state.budget is not None and filled(state) == {C}


def test_reasoning_counts() -> None:
    """Tokens before the grammar's first one: the request has them, the grammar has not."""
    request = Request(10)
    state = made(request)
    request.output += [1] * 6  # not shown to the grammar at all
    write(state, request, [2], constrained=0)  # the end of reasoning
    assert filled(state) == BY_BUDGET[3]
    write(state, request, [C])
    assert filled(state) == {C}
    write(state, request, [C])
    assert filled(state) == {END}
    write(state, request, [END])
    assert state.is_terminated() and len(request.output) == 10


def test_reasoning_that_ends_among_drafts_sets_them_aside() -> None:
    request = Request(10)
    request.structured_output_request = SimpleNamespace(reasoning_ended=False)
    state = made(request, drafts=3)
    request.output += [1] * 5
    assert state.budget is not None and state.budget.left(0) == 2  # up to three drafts have ended the reasoning
    assert state.accept_tokens("id", [C])
    assert state.budget.left(1) == 1
    state.rollback(1)
    request.structured_output_request.reasoning_ended = True
    write(state, request, [1, 2, C], constrained=1)
    assert state.budget.left(1) == 2 and filled(state) == {C}


def test_too_little_is_left(caplog: pytest.LogCaptureFixture) -> None:
    """If reasoning leaves too little, the answer goes on as without a budget, and the log says so once."""
    request = Request(10)
    state = made(request)
    request.output += [1] * 9
    with caplog.at_level(logging.WARNING):
        assert filled(state) == allowed([])
        assert filled(state) == allowed([])
    assert caplog.text.count("will be cut off") == 1 and "expected at least 2" in caplog.text


def test_a_request_that_is_gone() -> None:
    state = made(Request(2))
    gc.collect()
    assert filled(state) == allowed([])


def test_what_is_asked_for() -> None:
    for default in (True, False):
        assert budget.asked({"cdplugin_budget": 7.0}, default) == budget.asked({"cdplugin_budget": 7}, default) == 7
        assert budget.asked({"cdplugin_budget": False}, default) == budget.asked({"cdplugin_budget": "false"}, default) == 0
        assert budget.asked({"cdplugin_budget": True}, default) is None
        assert budget.asked({"cdplugin_budget": 0}, default) == 0  # what vLLM's protocol makes of false
    assert budget.asked(None, True) is None and budget.asked({"other": 1}, False) == 0
    for wrong in (-1, 2.5, "many", [1]):
        with pytest.raises(cd.GrammarError, match="cdplugin_budget: expected true, false or a positive number of tokens"):
            budget.asked({"cdplugin_budget": wrong}, True)


@pytest.mark.parametrize("role", [None, "kv_both", "kv_consumer", "kv_producer"])
def test_prompts_that_another_instance_decodes(role: str | None) -> None:
    """Prefill and decode on two instances: the first gets ``max_tokens=1``, and what it samples is thrown away."""
    remote = {"kv_transfer_params": {"do_remote_decode": True}, "cdplugin_budget": 9}
    local = {"kv_transfer_params": {"do_remote_decode": False, "do_remote_prefill": True}}
    assert budget.asked(remote, True) == 0 and budget.asked(local, True) is None
    engine = Engine(VOCAB, ServerOptions())
    config = SimpleNamespace(kv_transfer_config=SimpleNamespace(kv_role=role) if role else None)
    engine.only_prefills = compat.only_prefills(config)
    assert engine.only_prefills == (role == "kv_producer")
    asked = {extra: SimpleNamespace(max_tokens=1, extra_args=args) for extra, args in (("no", None), ("remote", remote))}
    assert plugin._budget_of(asked["no"], engine) == (None if role == "kv_producer" else 1)
    assert plugin._budget_of(asked["remote"], engine) is None

    config.model_config = SimpleNamespace(max_model_len=100)
    for extra, is_free in ((None, role == "kv_producer"), (remote, True)):
        state = engine.state("CHOICE", CHOICE)
        request = Request(2, extra=extra)
        plugin._set_budget(state, request, config, SimpleNamespace(engine=engine))
        assert filled(state) == (allowed([]) if is_free else BY_BUDGET[2])


def test_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    """A budget in which no answer fits is refused with the number that would do; whatever is in between passes."""
    engine = Engine(VOCAB, ServerOptions())
    for before in (False, True):
        if before:
            engine.check("CHOICE", CHOICE)
        with pytest.raises(cd.BudgetError, match=r"max_tokens=1: expected at least 2, .*stop token.*'cdplugin_budget': false"):
            engine.check("CHOICE", CHOICE, 1)
        with pytest.raises(cd.BudgetError, match="expected at least 2"):
            asyncio.run(engine.check_off_loop("CHOICE", CHOICE, 1))
        for enough in (2, 3, 100):
            engine.check("CHOICE", CHOICE, enough)
            asyncio.run(engine.check_off_loop("CHOICE", CHOICE, enough))
    monkeypatch.setattr(engine, "compiler", None)  # what is known is looked up
    engine.check("CHOICE", CHOICE, 50)


@pytest.mark.parametrize("least", [0, 2])
@pytest.mark.parametrize("is_checked", [False, True])
def test_the_door_searches_once_and_not_on_the_event_loop(
    least: int, is_checked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A budget that may be too small was looked at again on the event loop: 2 s for a schema of 5,000 required names."""
    engine = Engine(VOCAB, ServerOptions())
    places: list[threading.Thread] = []

    def search(*_: Any) -> int:
        places.append(threading.current_thread())
        return least

    if is_checked:
        engine.check("CHOICE", CHOICE)
    monkeypatch.setattr(engine, "_least_budget", search)
    for _ in range(3):
        with pytest.raises(cd.BudgetError, match="expected at least 2") if least else contextlib.nullcontext():
            asyncio.run(engine.check_off_loop("CHOICE", CHOICE, 1))
        with pytest.raises(cd.BudgetError, match="expected at least 2") if least else contextlib.nullcontext():
            engine.check("CHOICE", CHOICE, 1)
    engine.check("CHOICE", CHOICE, 2)
    assert len(places) == 1 and places[0] is not threading.main_thread()


def test_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDPLUGIN_VLLM_OPTIONS", '{"endings": false}')
    assert ServerOptions().endings and not ServerOptions.from_environment(OPTIONS_VARIABLE).endings
    monkeypatch.setenv("CDPLUGIN_VLLM_OPTIONS", '{"endings": 3}')
    with pytest.raises(ValueError, match="endings: expected true or false, found 3"):
        ServerOptions.from_environment(OPTIONS_VARIABLE)


@pytest.mark.parametrize("endings", [True, False])
def test_the_manager_hands_the_budget_on(endings: bool) -> None:
    class Manager:
        vllm_config = SimpleNamespace(
            structured_outputs_config=SimpleNamespace(backend="cdplugin"),
            model_config=SimpleNamespace(max_model_len=100),
            num_speculative_tokens=2,
        )
        backend = SimpleNamespace(engine=Engine(VOCAB, ServerOptions(endings=endings)))

        def _create_grammar(self, request: Any) -> Any:
            return self.backend.engine.state("CHOICE", CHOICE)

    plugin._patch_create(Manager)
    plain, asked, off = Request(3), Request(3, extra={"cdplugin_budget": 2}), Request(3, extra={"cdplugin_budget": False})
    broken = SimpleNamespace(sampling_params=None)
    manager: Any = Manager()
    assert filled(manager._create_grammar(plain)) == (BY_BUDGET[3] if endings else allowed([]))
    assert filled(manager._create_grammar(asked)) == BY_BUDGET[2]
    assert filled(manager._create_grammar(off)) == filled(manager._create_grammar(broken)) == allowed([])


def test_the_logits_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The V1 interface: ``max_tokens``, the context, what a request asks for, and the processor's own door."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(vllm_logits, "engine_for", lambda *_: Engine(VOCAB, ServerOptions()))
    monkeypatch.setattr(vllm_logits.compat, "tokenizer_of", lambda _: None)
    model = SimpleNamespace(get_vocab_size=lambda: VOCAB.size, max_model_len=20)
    config = SimpleNamespace(model_config=model, structured_outputs_config=SimpleNamespace(disable_any_whitespace=False))
    processor = vllm_logits.GrammarLogitsProcessor(config, "cpu", False)

    def asking(max_tokens: int | None, **extra: Any) -> Any:
        given = {"cdplugin_choice": ["abc", "abd", "ab", "bca", "cc", "ccccc"], **extra}
        return SimpleNamespace(extra_args=given, all_stop_token_ids={END}, max_tokens=max_tokens)

    output: list[int] = [C]
    added = [
        (0, asking(2), [1], []),
        (1, asking(None), [1] * 18, []),
        (2, asking(50, cdplugin_budget=2), [1], []),
        (3, asking(2, cdplugin_budget=False), [1], []),
        (4, asking(3), [1], output),
    ]
    processor.update_state(SimpleNamespace(removed=[], added=added, moved=[]))
    logits = processor.apply(torch.zeros(5, VOCAB.size))
    kept = [set(torch.isfinite(row).nonzero().flatten().tolist()) for row in logits]
    assert kept == [BY_BUDGET[2], BY_BUDGET[2], BY_BUDGET[2], allowed([]), {C}]
    monkeypatch.setattr(vllm_logits.GrammarLogitsProcessor, "door", Engine(VOCAB, ServerOptions()))
    for wrong in (asking(1), asking(9, cdplugin_budget=1)):
        with pytest.raises(ValueError, match="expected at least 2"):
            asyncio.run(vllm_logits.check_off_loop(wrong))
        with pytest.raises(ValueError, match="expected at least 2"):
            vllm_logits.GrammarLogitsProcessor.validate_params(wrong)
    vllm_logits.GrammarLogitsProcessor.validate_params(asking(1, cdplugin_budget=False))
