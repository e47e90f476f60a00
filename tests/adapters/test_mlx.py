"""mlx-lm itself, with a real small model, on the CPU (``make hosts``)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core", reason="MLX is not installed here: make hosts")
mlx_lm = pytest.importorskip("mlx_lm", reason="mlx-lm is not installed here: make hosts")

from grammar_tools import HUNGRY  # noqa: E402
from host_tools import PROMPT, SCHEMAS, WORD, check, model_folder  # noqa: E402
from tokenizers_data import smollm2  # noqa: E402
from vllm_tools import is_valid  # noqa: E402

import cdplugin as cd  # noqa: E402
from cdplugin.adapters import mlx  # noqa: E402

pytestmark = pytest.mark.model
LONG = {"type": "array", "items": {"type": "string", "minLength": 40}, "minItems": 1}


@pytest.fixture(scope="module")
def loaded() -> Any:
    return mlx_lm.load(model_folder())


@pytest.fixture(scope="module")
def vocab(loaded: Any) -> cd.Vocabulary:
    return mlx.vocabulary(*loaded)


@pytest.fixture(scope="module")
def grammars(vocab: cd.Vocabulary) -> list[Any]:
    compiler = cd.Compiler(vocab)
    return [compiler.compile(cd.JsonSchema(schema, whitespace="compact")) for schema in SCHEMAS]


def test_the_vocabulary_is_the_tokenizer_s(vocab: cd.Vocabulary) -> None:
    assert vocab.tokens == cd.Vocabulary.from_huggingface(smollm2(), vocab_size=49152).tokens and vocab.eos_token_ids == (2,)


def test_generate(loaded: Any, grammars: list[Any]) -> None:
    processors = [mlx.GrammarLogitsProcessor(grammar) for grammar in grammars]
    check([mlx_lm.generate(*loaded, prompt=PROMPT, max_tokens=60, logits_processors=[p]) for p in processors])


def test_a_processor_may_be_used_again_after_reset(loaded: Any, grammars: list[Any]) -> None:
    processor = mlx.GrammarLogitsProcessor(grammars[0])
    for prompt in (PROMPT, "Another one: "):
        processor.reset()
        text = mlx_lm.generate(*loaded, prompt=prompt, max_tokens=60, logits_processors=[processor])
        assert is_valid(SCHEMAS[0], text)
    with pytest.raises(cd.EngineError, match="reset"):
        mlx_lm.generate(*loaded, prompt="A third: ", max_tokens=60, logits_processors=[processor])


def test_a_draft_model_changes_nothing(loaded: Any, grammars: list[Any]) -> None:
    """Drafts that the model itself would not take are put in their place: the text is the same."""
    model, tokenizer = loaded

    def worse(tokens: Any, cache: Any = None) -> Any:
        """Another model: its logits are those of the real one, shuffled now and then."""
        logits = model(tokens, cache=cache)
        return mx.roll(logits, 7, axis=-1) if int(mx.sum(tokens)) % 3 == 0 else logits

    class Draft:
        layers = model.layers
        args = model.args
        __call__ = staticmethod(worse)

        @staticmethod
        def make_cache() -> Any:
            from mlx_lm.models.cache import KVCache

            return [KVCache() for _ in model.layers]

    def text(**options: Any) -> str:
        processor = mlx.GrammarLogitsProcessor(grammars[0])
        return mlx_lm.generate(model, tokenizer, prompt=PROMPT, max_tokens=40, logits_processors=[processor], **options)

    alone = text()
    assert is_valid(SCHEMAS[0], alone)
    assert text(draft_model=model) == alone == text(draft_model=Draft(), num_draft_tokens=3)


def test_a_batch(loaded: Any, grammars: list[Any]) -> None:
    """Each sequence under its own grammar, one of them free: as each alone."""
    model, tokenizer = loaded
    prompts = [tokenizer.encode(text) for text in (PROMPT, "The capital of France is", PROMPT, "Data: ")]
    written = mlx.batch_generate(model, tokenizer, prompts, [grammars[0], None, grammars[1], grammars[2]], max_tokens=50)
    check([written[0].text, written[2].text, written[3].text])
    assert [one.finish_reason for one in written] == ["stop", "length", "stop", "stop"]
    assert all(one.error is None for one in written) and len(written[1].tokens) == 50


def test_a_failing_sequence_ends_alone(loaded: Any, vocab: cd.Vocabulary, grammars: list[Any]) -> None:
    model, tokenizer = loaded
    hungry = cd.Compiler(vocab, cd.Limits(max_expr_width=8)).compile(cd.Regex(HUNGRY))
    prompts = [tokenizer.encode(PROMPT)] * 2
    bad, good = mlx.batch_generate(model, tokenizer, prompts, [hungry, grammars[0]], max_tokens=60)
    assert isinstance(bad.error, cd.LimitExceeded) and bad.finish_reason == "stop" and set(bad.text) <= {"a", "b"}
    assert good.error is None and is_valid(SCHEMAS[0], good.text)
    with pytest.raises(cd.LimitExceeded):
        mlx_lm.generate(*loaded, prompt=PROMPT, max_tokens=60, logits_processors=[mlx.GrammarLogitsProcessor(hungry)])


def test_texts_end_within_their_budgets(loaded: Any, vocab: cd.Vocabulary) -> None:
    """Texts end even within the smallest budget. The error about a budget that is too small names the number that would do."""
    model, tokenizer = loaded
    grammar = cd.Compiler(vocab).compile(cd.JsonSchema(LONG, whitespace="compact"))
    least = len(grammar.matcher().shortest_completion()) + 1
    prompts = [tokenizer.encode(PROMPT)] * 3
    one, two, small = mlx.batch_generate(model, tokenizer, prompts, [grammar] * 3, max_tokens=[least, least + 3, 2])
    assert is_valid(LONG, one.text) and is_valid(LONG, two.text) and len(one.tokens) < least
    assert isinstance(small.error, cd.BudgetError) and small.error.least == least


def test_a_shared_processor_is_refused(loaded: Any, grammars: list[Any]) -> None:
    """``mlx_lm.batch_generate`` has one list for all prompts: a grammar would begin anew within a text."""
    model, tokenizer = loaded
    prompts = [tokenizer.encode(PROMPT), tokenizer.encode("Data: ")]
    with pytest.raises(cd.EngineError, match="make a processor for each text"):
        mlx_lm.batch_generate(
            model, tokenizer, prompts, max_tokens=9, logits_processors=[mlx.GrammarLogitsProcessor(grammars[0])]
        )


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
def test_logits(vocab: cd.Vocabulary, kind: str) -> None:
    """Allowed logits stay as they are. All others become minus infinity, those beyond the vocabulary too."""
    grammar = cd.Compiler(vocab).compile(cd.JsonSchema(WORD))
    logits = mx.random.normal((1, vocab.size + 70)).astype(getattr(mx, kind))
    out = mlx.GrammarLogitsProcessor(grammar)(mx.array([1, 2, 3]), logits)
    matcher, bitmask = grammar.matcher(), np.zeros((1, vocab.size // 32), np.int32)
    matcher.fill_next_token_bitmask(bitmask)
    expected = np.zeros(vocab.size + 70, bool)
    expected[: vocab.size] = np.unpackbits(bitmask.view(np.uint8), bitorder="little").astype(bool)
    before, after = (np.array(a.astype(mx.float32))[0] for a in (logits, out))
    assert out.dtype == logits.dtype and (after[expected] == before[expected]).all() and np.isneginf(after[~expected]).all()
    assert expected.any() and json.dumps(WORD)
