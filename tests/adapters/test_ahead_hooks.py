"""Adapters let idle threads visit likely places: only where they are told to, and no answer changes."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from engine_tools import vocabulary

import cdplugin as cd
from cdplugin import ahead
from cdplugin.adapters.serving.metrics import totals
from cdplugin.adapters.serving.requests import ServerOptions
from cdplugin.adapters.vllm.grammar import Engine, GrammarState
from cdplugin.ahead import Ahead

VOCAB = vocabulary([b'{"', b'":', b'": "', b'", "', b"name", b"size", b"12", b'"}'])
SCHEMA = '{"type":"object","properties":{"name":{"type":"string"},"size":{"type":"integer"}},"required":["name","size"]}'
TEXT = [VOCAB.tokens.index(t) for t in (b'{"', b"name", b'": "', b"size", b'", "', b"size", b'":', b"12", b"}")]
WORDS = (VOCAB.size + 31) // 32


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("cdplugin-ahead")]


def engine_with(visitor: Ahead | None) -> Engine:
    engine = Engine(VOCAB, ServerOptions(ahead=0))
    engine.ahead = visitor
    return engine


def masks(state: GrammarState, visitor: Ahead | None) -> list[bytes]:
    out = []
    for token in TEXT:
        row = np.zeros((1, WORDS), np.int32)
        state.fill_bitmask(row, 0)
        out.append(row.tobytes())
        if visitor is not None:
            visitor.run(1 << 40)  # the forward pass
        assert state.accept_tokens("r", [token])
    return out


def test_a_vllm_request_is_met_ahead() -> None:
    visitor = Ahead(0)
    state = engine_with(visitor).state("JSON", SCHEMA)
    assert visitor.run(1 << 40) == 0  # not before it is handed over
    state.meet_ahead()
    assert visitor.run(1 << 40) > 0
    assert masks(state, visitor) == masks(engine_with(None).state("JSON", SCHEMA), None)
    found = visitor.counters()
    assert (found["places"], found["met"], found["failed"]) == (8, 7, 0)  # all but the first; one comes twice
    engine_with(visitor).state("JSON", SCHEMA).meet_ahead()
    assert totals()["cdplugin_places"][""] == 9
    assert totals()["cdplugin_places_met"][""] == 7


def test_vllm_hands_a_request_over() -> None:
    """vLLM hands a request over when its grammar is ready and its budget known, and not if another instance decodes it."""
    from cdplugin.adapters.vllm.plugin import hand_over

    for role, expected in ((None, True), ("kv_producer", False)):
        visitor = Ahead(0)
        engine = engine_with(visitor)
        state = engine.state("JSON", SCHEMA)
        transfer = None if role is None else SimpleNamespace(kv_role=role, is_kv_consumer=False, is_kv_producer=True)
        config = SimpleNamespace(
            model_config=SimpleNamespace(max_model_len=500), num_speculative_tokens=0, kv_transfer_config=transfer
        )
        request = SimpleNamespace(
            sampling_params=SimpleNamespace(extra_args={"cdplugin_budget": False}), num_output_tokens=0, max_tokens=50
        )
        hand_over(state, request, config, SimpleNamespace(engine=engine), 0.0)
        assert (visitor.run(1 << 40) > 0) == expected


def test_real_work_of_vllm_is_told() -> None:
    visitor = Ahead(0)
    state = engine_with(visitor).state("JSON", SCHEMA)
    for call in (lambda: state.fill_bitmask(np.zeros((1, WORDS), np.int32), 0), lambda: state.accept_tokens("r", TEXT[:1])):
        visitor._touched = False
        call()
        assert visitor._touched


def test_a_visitor_that_cannot_start_threads_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    visitor = Ahead(1)
    assert masks(engine_with(visitor).state("JSON", SCHEMA), None) == masks(engine_with(None).state("JSON", SCHEMA), None)
    assert visitor.threads == 0


def test_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_shared", None)
    assert Engine(VOCAB, ServerOptions(ahead=0)).ahead is None
    for count in (3, 2):
        found = Engine(VOCAB, ServerOptions(ahead=count)).ahead
        assert found is ahead._shared and found.threads == 3
    monkeypatch.setenv("OPTIONS", '{"ahead": 2}')
    assert ServerOptions.from_environment("OPTIONS").ahead == 2
    for value in ("-1", "true", '"1"', "1.5", "65"):
        monkeypatch.setenv("OPTIONS", f'{{"ahead": {value}}}')
        with pytest.raises(ValueError, match="ahead"):
            ServerOptions.from_environment("OPTIONS")


def test_checking_and_compiling_start_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_shared", None)
    before = threads()
    engine = Engine(VOCAB, ServerOptions(ahead=2))
    engine.check("JSON", SCHEMA, 30)
    cd.Compiler(VOCAB).compile(cd.JsonSchema(SCHEMA)).matcher().accept_token(TEXT[0])
    assert threads() == before


@pytest.mark.parametrize("count", [0, 1])
def test_hugging_face(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the lookahead, and only with it, threads start. The logits are the same."""
    torch = pytest.importorskip("torch")
    from cdplugin.adapters.hf import GrammarLogitsProcessor

    visitor = Ahead(0)
    monkeypatch.setattr("cdplugin.adapters.hf.processor.shared", lambda n: visitor)

    def generate(processor: Any, uses_lookahead: bool) -> list[list[int]]:
        generator = torch.Generator().manual_seed(3)
        ids = torch.full((4, 2), 65)
        criteria = processor.lookahead if uses_lookahead else None
        visitor.run(1 << 40)  # prefill
        for _ in range(12):
            scores = torch.rand((4, VOCAB.size), generator=generator)
            ids = torch.cat([ids, processor(ids, scores).argmax(-1, keepdim=True)], 1)
            if criteria is not None:
                criteria(ids, None)
                processor._rows().pending.wait()
                visitor.run(1 << 40)
        return ids.tolist()

    grammar = cd.Compiler(VOCAB).compile(cd.JsonSchema(SCHEMA))
    alone = generate(GrammarLogitsProcessor(grammar, ahead=count), False)
    assert visitor.counters()["places"] == 0
    grammar = cd.Compiler(VOCAB).compile(cd.JsonSchema(SCHEMA))
    assert generate(GrammarLogitsProcessor(grammar, ahead=count), True) == alone
    assert (visitor.counters()["met"] > 0) == (count > 0)
    with pytest.raises(ValueError, match="ahead: expected"):
        GrammarLogitsProcessor(grammar, ahead=-1)
