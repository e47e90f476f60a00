"""llama-cpp-python itself, with a real small model, on the CPU (``make hosts``)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

library = pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed here: make hosts")

from grammar_tools import HUNGRY  # noqa: E402
from host_tools import PROMPT, SCHEMAS, check, gguf_file  # noqa: E402
from tokenizers_data import smollm2  # noqa: E402
from vllm_tools import is_valid  # noqa: E402

import cdplugin as cd  # noqa: E402
from cdplugin.adapters import llama_cpp  # noqa: E402

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def llama() -> Any:
    return library.Llama(gguf_file(), n_ctx=512, n_threads=1, verbose=False)


@pytest.fixture(scope="module")
def vocab(llama: Any) -> cd.Vocabulary:
    return llama_cpp.vocabulary(llama)


@pytest.fixture(scope="module")
def grammars(vocab: cd.Vocabulary) -> list[Any]:
    compiler = cd.Compiler(vocab)
    return [compiler.compile(cd.JsonSchema(schema, whitespace="compact")) for schema in SCHEMAS]


def test_the_vocabulary_is_the_tokenizer_s(llama: Any, vocab: cd.Vocabulary) -> None:
    """Byte for byte that of the Hugging Face tokenizer of the same model, and what llama.cpp writes."""
    other = cd.Vocabulary.from_huggingface(smollm2(), vocab_size=49152)
    assert vocab.tokens == other.tokens and set(vocab.special_tokens.values()) == set(other.special_tokens.values())
    assert 2 in vocab.eos_token_ids and set(vocab.eos_token_ids) <= set(vocab.special_tokens.values())
    text = 'Grüße, 世界! 🙂 {"a": [1, 2.5e-3]}\n\tindent  twice'
    ids = llama.tokenize(text.encode(), add_bos=False, special=False)
    assert vocab.decode(ids) == text.encode() == llama.detokenize(ids)


def test_completions(llama: Any, grammars: list[Any]) -> None:
    outputs = [llama(PROMPT, max_tokens=60, temperature=0, **llama_cpp.constrained(llama, g))["choices"][0] for g in grammars]
    check([output["text"] for output in outputs])
    assert [output["finish_reason"] for output in outputs] == ["stop"] * 3


def test_sampling_and_streaming(llama: Any, grammars: list[Any]) -> None:
    for seed in range(3):
        pieces = llama(
            PROMPT, max_tokens=80, temperature=1.5, top_k=0, seed=seed, stream=True, **llama_cpp.constrained(llama, grammars[0])
        )
        assert is_valid(SCHEMAS[0], "".join(piece["choices"][0]["text"] for piece in pieces))


def test_chat(llama: Any, grammars: list[Any]) -> None:
    processor = llama_cpp.GrammarLogitsProcessor(grammars[1])
    messages: Any = [{"role": "user", "content": "Some colours as JSON."}]
    answer = llama.create_chat_completion(
        messages, max_tokens=60, temperature=0, logits_processor=library.LogitsProcessorList([processor])
    )
    assert is_valid(SCHEMAS[1], answer["choices"][0]["message"]["content"]) and processor.error is None


def test_an_error_reaches_the_caller(llama: Any, vocab: cd.Vocabulary, capfd: pytest.CaptureFixture[str]) -> None:
    """llama.cpp prints and forgets what a processor raises, and samples without a mask. Only a text that mixes its letters is
    hungry: the likeliest one, ``aaaabbbb…``, is not.
    """
    sampling = {"max_tokens": 60, "temperature": 2, "top_k": 0, "top_p": 1, "min_p": 0, "seed": 1}
    hungry = cd.Compiler(vocab, cd.Limits(max_expr_width=8)).compile(cd.Regex(HUNGRY))
    with pytest.raises(cd.LimitExceeded, match="max_expr_width"):
        llama(PROMPT, **sampling, **llama_cpp.constrained(llama, hungry))
    assert "Exception ignored" not in capfd.readouterr().err
    alone = llama_cpp.constrained(llama, hungry)["logits_processor"]
    output = llama(PROMPT, **sampling, logits_processor=alone)["choices"][0]
    assert set(output["text"]) <= {"a", "b"} and isinstance(alone[0].error, cd.LimitExceeded)
    alone[0].reset()
    assert alone[0].error is None


def test_texts_end_within_their_budgets(llama: Any, vocab: cd.Vocabulary) -> None:
    """Texts end even within the smallest budget. A budget that is too small for any text is an error."""
    schema = {"type": "array", "items": {"type": "string", "minLength": 40}, "minItems": 1}
    grammar = cd.Compiler(vocab).compile(cd.JsonSchema(schema, whitespace="compact"))
    least = len(grammar.matcher().shortest_completion()) + 1
    for budget in (least, least + 3):
        output = llama(PROMPT, temperature=0, **llama_cpp.constrained(llama, grammar, max_tokens=budget))["choices"][0]
        assert is_valid(schema, output["text"]) and output["finish_reason"] == "stop", output
    with pytest.raises(cd.BudgetError, match="at least"):
        llama(PROMPT, temperature=0, **llama_cpp.constrained(llama, grammar, max_tokens=2))


def test_misuse(llama: Any, grammars: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    other = cd.Vocabulary.from_bytes([b"a", b"</s>"], eos_token_ids=1)
    with pytest.raises(ValueError, match="expected a vocabulary of 49152 tokens, found 2"):
        llama_cpp.constrained(llama, cd.Compiler(other).compile(cd.Regex("a")))
    monkeypatch.setattr(llama, "draft_model", object())
    with pytest.raises(cd.CdpluginError, match="without draft_model"):
        llama_cpp.constrained(llama, grammars[0])


def test_scores(vocab: cd.Vocabulary, grammars: list[Any]) -> None:
    """Allowed scores stay as they are, all others become minus infinity; also in strided arrays, as llama.cpp passes them."""
    record = np.zeros(vocab.size, np.dtype([("id", np.intc), ("logit", np.single), ("p", np.single)], align=True))
    record["logit"] = np.random.default_rng(0).normal(size=vocab.size)
    out = llama_cpp.GrammarLogitsProcessor(grammars[0])(np.array([1, 2, 3], np.intc), record["logit"])
    assert out.dtype == np.float32 and out.shape == (vocab.size,)
    kept = np.flatnonzero(np.isfinite(out))
    assert {vocab.tokens[token][:1] for token in kept} == {b"{"}  # type: ignore[index]
    assert (out[kept] == record["logit"][kept]).all() and len(kept) < 50
