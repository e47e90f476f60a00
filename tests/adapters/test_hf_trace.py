"""``GrammarLogitsProcessor(..., trace=True)``: what the model wanted, beside its own scores. Switched off, it keeps nothing."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers", minversion="5.0")

from transformers import LlamaConfig, LlamaForCausalLM, LogitsProcessor, T5Config, T5ForConditionalGeneration  # noqa: E402

import cdplugin as cd  # noqa: E402
from cdplugin.adapters.hf import recorder  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

EOS, SIZE = 256, 260


@pytest.fixture(scope="module")
def vocab() -> Any:
    return cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"</s>", b"tr", b"ue", b"<x>"], eos_token_ids=EOS)


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(3)
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
    }
    config = LlamaConfig(vocab_size=SIZE, max_position_embeddings=256, eos_token_id=EOS, pad_token_id=EOS, **sizes)
    return LlamaForCausalLM(config).eval()


class Spy(LogitsProcessor):
    """Keeps the scores that it is shown."""

    def __init__(self) -> None:
        self.seen: dict[tuple[int, ...], Any] = {}

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        for ids, of_row in zip(input_ids.tolist(), scores, strict=True):
            self.seen[tuple(ids)] = of_row.clone()
        return scores


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"do_sample": True, "num_return_sequences": 2}])
def test_what_the_model_wanted(model: Any, vocab: Any, options: dict[str, Any]) -> None:
    grammar = cd.Compiler(vocab).compile(cd.Regex(r"(true|[0-9]{2,6}) [a-f]{3,5}\."))
    prompts = torch.tensor([[65, 66, 67], [70, 71, 72]])
    spy = Spy()
    processor = cd.GrammarLogitsProcessor(grammar, trace=True)
    torch.manual_seed(1)
    out = model.generate(
        prompts, attention_mask=torch.ones_like(prompts), logits_processor=[spy, processor], max_new_tokens=16, **options
    )
    plain = cd.GrammarLogitsProcessor(grammar)
    torch.manual_seed(1)
    same = model.generate(
        prompts, attention_mask=torch.ones_like(prompts), logits_processor=[plain], max_new_tokens=16, **options
    )
    assert torch.equal(out, same), "a trace changes nothing"
    per_prompt = processor._last.trackers.current.rows // len(out)
    for at, ids in enumerate(out.tolist()):
        row = at if "num_beams" not in options else at * per_prompt
        trace = processor.trace(row, ids)
        assert trace.accepted
        generated = ids[prompts.shape[1] :]
        assert [step.token_id for step in trace if step.token_id is not None] == generated[: len(trace)]
        matcher = grammar.matcher()
        for number, step in enumerate(trace):
            if step.token_id is None:
                continue
            probabilities = spy.seen[tuple(ids[: prompts.shape[1] + number])].float().softmax(-1)
            allowed = torch.tensor([matcher.validate_tokens([token]) == 1 for token in range(SIZE)])
            assert step.preference is not None
            assert step.preference.removed == pytest.approx(float(probabilities[~allowed].sum()), abs=1e-4)
            assert step.preference.wanted.token_id == int(probabilities.argmax())
            for one in step.preference.candidates:
                assert one.probability == pytest.approx(float(probabilities[one.token_id]), abs=1e-5)
                assert one.allowed == bool(allowed[one.token_id])
            if not step.preference.wanted.allowed:
                assert step.preference.reason == matcher.explain(step.preference.wanted.token_id)
            matcher.accept_token(step.token_id)
        assert "the model wanted" in trace.text() and "<meter" in trace.html()


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}])
def test_rows_whose_prompts_are_not_among_the_ids(vocab: Any, options: dict[str, Any]) -> None:
    """An encoder's input, or embeddings: the ids of all rows begin alike, and each row wanted something else."""
    torch.manual_seed(5)
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2, "vocab_size": SIZE}
    model = T5ForConditionalGeneration(T5Config(eos_token_id=EOS, pad_token_id=EOS, decoder_start_token_id=0, **sizes)).eval()
    with torch.no_grad():
        for weights in model.parameters():
            weights.normal_()
    grammar = cd.Compiler(vocab).compile(cd.Regex("[ab]{2,6}"))

    def wanted(prompts: list[list[int]]) -> list[list[Any]]:
        each = [grammar] * len(prompts) if options else grammar  # whose beams are whose is not known without
        processor = cd.GrammarLogitsProcessor(each, trace=True)
        ids = torch.tensor(prompts)
        for _ in range(2):  # rows that were permuted begin anew
            model.generate(ids, attention_mask=torch.ones_like(ids), logits_processor=[processor], max_new_tokens=6, **options)
        rows = processor._last.trackers.current.rows // len(prompts)
        traces = [processor.trace(at * rows) for at in range(len(prompts))]
        return [[(s.token_id, s.preference and s.preference.wanted.token_id) for s in trace] for trace in traces]

    both = [[65, 66, 67], [70, 71, 72]]
    assert wanted(both) == [*wanted(both[:1]), *wanted(both[1:])]
    assert wanted(both)[0] != wanted(both)[1]


def test_off_keeps_nothing(model: Any, vocab: Any) -> None:
    grammar = cd.Compiler(vocab).compile(cd.Regex("[a-z]{3}"))
    processor = cd.GrammarLogitsProcessor(grammar)
    assert processor._last.recorder is None
    with pytest.raises(cd.CdpluginError, match="expected GrammarLogitsProcessor"):
        processor.trace()


def test_errors(model: Any, vocab: Any) -> None:
    grammar = cd.Compiler(vocab).compile(cd.Regex("[a-z]{3}"))
    processor = cd.GrammarLogitsProcessor([grammar, None], trace=True)
    with pytest.raises(cd.CdpluginError, match="expected a call of generate"):
        processor.trace()
    prompts = torch.tensor([[65, 66, 67], [70, 71, 72]])
    model.generate(prompts, attention_mask=torch.ones_like(prompts), logits_processor=[processor], max_new_tokens=6)
    with pytest.raises(cd.CdpluginError, match="row 1 has no grammar"):
        processor.trace(1)
    with pytest.raises(IndexError, match="row: expected 0 to 1, found 2"):
        processor.trace(2)
    with pytest.raises(cd.CdpluginError, match="its prompt first"):
        processor.trace(0, [1, 2, 3, 4])
    wrong: Any = "0"
    with pytest.raises(TypeError, match="trace: row: expected an integer, found str"):
        processor.trace(wrong)
    for ids in ("ab", [[65, 66], [67]], [[65, 66, 67], [65, 66, 67]], [65.0, 66.0, 67.0], {}):
        with pytest.raises(TypeError, match="trace: output_ids: expected the token ids of one row, found"):
            processor.trace(0, ids)
    assert len(processor.trace(0, torch.tensor([[65, 66, 67, 97]]))) == len(processor.trace(0, [65, 66, 67, 97])) == 2
    assert len(processor.trace(0)) >= 3
    processor.reset()
    with pytest.raises(cd.CdpluginError, match="expected a call of generate"):
        processor.trace()


def test_a_budget_shows_in_what_was_removed(model: Any, vocab: Any) -> None:
    grammar = cd.Compiler(vocab).compile(cd.Regex(r"\[[a-z]*\]"))
    processor = cd.GrammarLogitsProcessor(grammar, max_new_tokens=4, trace=True)
    prompts = torch.tensor([[65, 66, 67]])
    out = model.generate(prompts, attention_mask=torch.ones_like(prompts), logits_processor=[processor], max_new_tokens=4)
    trace = processor.trace(0, out[0])
    assert trace.accepted and trace.decode(step.token_id for step in trace if step.token_id is not None).endswith(b"]")
    last = next(step for step in trace if step.token_id == ord("]"))
    assert (last.preference is not None and last.preference.removed > 0.5) or last.allowed > 1


def test_steps_are_bounded(model: Any, vocab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "MOST_STEPS", 4)
    grammar = cd.Compiler(vocab).compile(cd.Regex("[a-z]{9}"))
    processor = cd.GrammarLogitsProcessor(grammar, trace=True)
    prompts = torch.tensor([[65, 66, 67]])
    out = model.generate(prompts, attention_mask=torch.ones_like(prompts), logits_processor=[processor], max_new_tokens=10)
    trace = processor.trace(0, out[0])
    assert [step.preference is not None for step in trace] == [False] * 6 + [True] * 4
