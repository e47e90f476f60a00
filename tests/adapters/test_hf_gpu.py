"""generate() under grammars on a GPU: every mode's output is legal, and the overlapped mode's is the same."""

from __future__ import annotations

import re
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", minversion="5.0")

import cdplugin as cd  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]),
]
EOS, SIZE = 256, 300
PATTERN = r"\{\"name\":\"[a-z]{1,8}\",\"age\":[1-9][0-9]?\}"
MODES: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampled": {"do_sample": True, "num_return_sequences": 2},
    "beams": {"do_sample": False, "num_beams": 3},
}


def tiny(device: str) -> Any:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.LlamaConfig(vocab_size=SIZE, eos_token_id=EOS, pad_token_id=EOS, initializer_range=0.5, **sizes)
    return transformers.LlamaForCausalLM(config).eval().to(device)


@pytest.fixture(scope="module")
def grammar() -> Any:
    vocab = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"</s>", b'":', b'{"', b"name"] + [b""] * 40, 256)
    return cd.Compiler(vocab).compile(cd.Regex(PATTERN))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("device", DEVICES)
def test_outputs_are_legal(device: str, mode: str, grammar: Any) -> None:
    model = tiny(device)
    ids = torch.tensor([[65, 66], [67, 68]], device=device)
    texts = []
    for overlapped in (False, True):
        processor = cd.GrammarLogitsProcessor(grammar, max_new_tokens=40)
        options = {"stopping_criteria": [processor.lookahead]} if overlapped and mode != "beams" else {}
        torch.manual_seed(1)
        output = model.generate(
            ids, attention_mask=torch.ones_like(ids), logits_processor=[processor], max_new_tokens=40, **MODES[mode], **options
        )
        rows = [grammar.vocab.decode(t for t in row[2:].tolist() if t != EOS) for row in output]
        assert len(rows) == 2 * MODES[mode].get("num_return_sequences", 1)
        assert all(re.fullmatch(PATTERN.encode(), row) for row in rows), rows
        texts.append(rows)
    assert texts[0] == texts[1]


@pytest.mark.parametrize("device", DEVICES)
def test_a_free_row_stays_free(device: str, grammar: Any) -> None:
    model = tiny(device)
    ids = torch.tensor([[65, 66], [67, 68]], device=device)
    options: dict[str, Any] = {"attention_mask": torch.ones_like(ids), "do_sample": False, "max_new_tokens": 24}
    processor = cd.GrammarLogitsProcessor([grammar, None])
    mixed = model.generate(ids, logits_processor=[processor], **options)
    free = model.generate(ids, **options)
    length = min(mixed.shape[1], free.shape[1])
    assert mixed[1, :length].tolist() == free[1, :length].tolist()
    assert grammar.matcher().validate_tokens([t for t in mixed[0, 2:].tolist() if t != EOS]) > 0


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_a_loop_with_masks_of_the_host(device: str, dtype: Any, grammar: Any) -> None:
    """The README's loop: filled on the host, applied where the logits are."""
    matcher = grammar.matcher()
    bitmask = cd.allocate_token_bitmask(1, grammar.vocab.size)
    generator = torch.Generator().manual_seed(3)
    while not matcher.is_terminated():
        logits = torch.randn(1, SIZE, generator=generator).to(dtype).to(device)
        matcher.fill_next_token_bitmask(bitmask)
        cd.apply_token_bitmask_inplace(logits, bitmask.to(device, non_blocking=True))
        assert matcher.accept_token(int(logits.argmax()))
    assert re.fullmatch(PATTERN.encode(), grammar.vocab.decode(matcher.tokens[:-1]))


@pytest.mark.parametrize("device", DEVICES[1:])
@pytest.mark.parametrize("budget", [None, 40])
def test_with_the_lookahead_a_step_waits_for_nothing(device: str, budget: int | None, grammar: Any) -> None:
    processor = cd.GrammarLogitsProcessor(grammar, budget)
    ids = torch.tensor([[65, 66], [67, 68]], device=device)
    scores = torch.randn(2, SIZE, device=device) + 3
    masked = processor(ids, scores)
    for _ in range(3):
        ids = torch.cat([ids, masked.argmax(-1, keepdim=True)], 1)
        assert not processor.lookahead(ids, None).any()
        torch.cuda.set_sync_debug_mode("error")
        try:
            masked = processor(ids, scores)
        finally:
            torch.cuda.set_sync_debug_mode("default")
