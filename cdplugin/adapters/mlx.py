"""mlx-lm: constrained generation through its ``logits_processors``.

    vocab = mlx.vocabulary(model, tokenizer)
    grammar = cd.Compiler(vocab).compile(spec)
    mlx_lm.generate(model, tokenizer, prompt, logits_processors=[mlx.GrammarLogitsProcessor(grammar)])

Works with ``generate``, ``stream_generate``, draft models (the processor recognizes draft tokens that were taken back) and
batches (:func:`batch_generate`). mlx-lm builds each step before it yields the previous token; the processor needs the value of
that token, so with a processor the steps do not overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cdplugin.adapters.contexts import OneText
from cdplugin.errors import needs
from cdplugin.vocab.vocabulary import Vocabulary

with needs("cdplugin[mlx]"):
    import mlx.core as mx
    from mlx_lm.generate import BatchGenerator


def vocabulary(model: Any, tokenizer: Any) -> Vocabulary:
    """The vocabulary of what ``mlx_lm.load`` returns. Raises :class:`cdplugin.VocabularyError` if it cannot be read exactly."""
    inner = getattr(tokenizer, "_tokenizer", tokenizer)
    arguments = getattr(model, "args", None)
    size = getattr(arguments, "vocab_size", None) or (getattr(arguments, "text_config", None) or {}).get("vocab_size")
    ends = getattr(tokenizer, "eos_token_ids", None) or None
    return Vocabulary.from_huggingface(inner, vocab_size=size, eos_token_ids=None if ends is None else sorted(ends))


class GrammarLogitsProcessor(OneText):
    """A logits processor for one text; after :meth:`reset`, for the next one.

    ``max_new_tokens``: the text ends legally within that many tokens, its end token included; pass mlx-lm's ``max_tokens`` the
    same number. If no text is that short, the first step raises :class:`cdplugin.BudgetError`.

    ``on_error="raise"``: errors reach the caller. ``"end"``, for batches, where an exception would end all sequences: only end
    tokens are allowed after a failure, and :attr:`error` holds it. Sequences of a batch must not share a processor (an error):
    see :func:`batch_generate`.
    """

    def __init__(self, grammar: Any, max_new_tokens: int | None = None, *, on_error: str = "raise") -> None:
        super().__init__(grammar, max_new_tokens, on_error)

    def __call__(self, tokens: mx.array, logits: mx.array) -> mx.array:
        """Logits, ``(1, vocabulary)`` or ``(vocabulary,)``, with the forbidden tokens at minus infinity.

        ``tokens``: the whole context, ``(length,)`` or ``(1, length)``. Raises under ``on_error="raise"`` as
        :meth:`cdplugin.adapters.contexts.ContextMasks.masks` does.
        """
        bitmask, rows = self._masks.masks(np.array(tokens, dtype=np.int64).reshape(1, -1))
        return _masked(logits, bitmask) if rows else logits


class Written(NamedTuple):
    """One text of a batch: its tokens without the end token; ``"stop"`` or ``"length"``; what went wrong, or None."""

    text: str
    tokens: list[int]
    finish_reason: str
    error: Exception | None


def batch_processors(
    grammars: Sequence[Any], max_new_tokens: Sequence[int | None] | None = None
) -> list[list[GrammarLogitsProcessor]]:
    """The argument of ``BatchGenerator.insert(…, logits_processors=…)``: one list per prompt. None leaves a prompt
    unconstrained.

    ``max_new_tokens``: one budget per prompt, as in :class:`GrammarLogitsProcessor`. A sequence that fails ends alone; look
    at each processor's ``error`` afterwards.
    """
    budgets = [None] * len(grammars) if max_new_tokens is None else max_new_tokens
    return [
        [] if grammar is None else [GrammarLogitsProcessor(grammar, budget, on_error="end")]
        for grammar, budget in zip(grammars, budgets, strict=True)
    ]


def batch_generate(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    grammars: Sequence[Any],
    max_tokens: int | Sequence[int] = 128,
    **options: Any,
) -> list[Written]:
    """A text for each prompt, in one batch, each under its own grammar; None leaves a prompt unconstrained.

    ``mlx_lm.batch_generate`` applies one list of processors to all prompts; this function has one per prompt. ``prompts``:
    token ids; ``options``: those of ``mlx_lm.generate.BatchGenerator``. Constrained texts end legally within ``max_tokens``;
    one that fails, or cannot be that short, ends alone.
    """
    if len(grammars) != len(prompts):
        raise ValueError(f"grammars: expected one per prompt, {len(prompts)}, found {len(grammars)}")
    limits = [max_tokens] * len(prompts) if isinstance(max_tokens, int) else list(max_tokens)
    processors = batch_processors(grammars, limits)
    generator = BatchGenerator(model, stop_tokens=[[token] for token in tokenizer.eos_token_ids], **options)
    try:
        uids = generator.insert([list(prompt) for prompt in prompts], limits, logits_processors=processors)
        tokens: dict[int, list[int]] = {uid: [] for uid in uids}
        reasons = dict.fromkeys(uids, "length")
        while responses := generator.next_generated():
            for response in responses:
                if response.finish_reason is not None:
                    reasons[response.uid] = response.finish_reason
                if response.finish_reason != "stop":
                    tokens[response.uid].append(response.token)
    finally:
        generator.close()
    return [
        Written(tokenizer.decode(tokens[uid]), tokens[uid], reasons[uid], one[0].error if one else None)
        for uid, one in zip(uids, processors, strict=True)
    ]


def _masked(logits: mx.array, bitmask: np.ndarray) -> mx.array:
    words = mx.array(bitmask[0].view(np.uint32))
    bits = (words[:, None] >> mx.arange(32, dtype=mx.uint32)[None, :]) & 1
    allowed = bits.reshape(-1).astype(mx.bool_)
    columns = logits.shape[-1]
    if allowed.size < columns:
        allowed = mx.concatenate([allowed, mx.zeros(columns - allowed.size, dtype=mx.bool_)])
    return mx.where(allowed[:columns], logits, mx.array(-float("inf"), dtype=logits.dtype))
