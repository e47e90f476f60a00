"""TensorRT-LLM: constrained generation through its logits processors. **Written from its interface; not run on a card.**

    processor = tensorrt_llm.GrammarLogitsProcessor(spec, tokenizer_folder)
    llm.generate(prompt, SamplingParams(max_tokens=200, logits_processor=processor))

TensorRT-LLM pickles sampling parameters to other processes, and a compiled grammar cannot be pickled. So the processor takes
the spec and the tokenizer's path. It compiles the spec at once, to raise errors in the caller, and again in each process that
masks. Interface: ``tensorrt_llm.sampling_params.LogitsProcessor`` of 1.x, read in its sources; the tests call it accordingly.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from typing import Any

import numpy as np

from cdplugin.adapters.contexts import ContextMasks
from cdplugin.bitmask import apply_token_bitmask_inplace
from cdplugin.compiler import Compiler
from cdplugin.errors import needs
from cdplugin.memory import fixed_cache
from cdplugin.specs.base import Spec
from cdplugin.vocab.vocabulary import Vocabulary

with needs("tensorrt-llm"):
    import torch
    from tensorrt_llm.sampling_params import LogitsProcessor

_MOST_REQUESTS = 1024
"""Requests whose state a processor keeps: TensorRT-LLM does not tell it when one is over."""


@fixed_cache(4, entry_bytes=64 << 20)  # an operator's tokenizers, not a user's
def _compiler(tokenizer: str, vocab_size: int | None) -> Compiler:
    from transformers import AutoTokenizer

    return Compiler(Vocabulary.from_huggingface(AutoTokenizer.from_pretrained(tokenizer), vocab_size=vocab_size))


class GrammarLogitsProcessor(LogitsProcessor):
    """Masks the logits of its requests, beams included. It does not raise while it masks: that would stop the whole engine.

    ``tokenizer``: folder or name, as ``AutoTokenizer`` takes it; ``vocab_size``: width of the logits where they are padded.
    Raises :class:`cdplugin.GrammarError` for a spec that cannot be compiled. After a later failure (logged by the process that
    masks) only end tokens are allowed.
    """

    def __init__(self, spec: Spec, tokenizer: str, vocab_size: int | None = None) -> None:
        super().__init__()
        self._arguments = (spec, str(tokenizer), vocab_size)
        self._grammar = _compiler(str(tokenizer), vocab_size).compile(spec)
        self._requests: OrderedDict[int, tuple[np.ndarray, ContextMasks]] = OrderedDict()

    def __reduce__(self) -> Any:
        return type(self), self._arguments

    def __call__(
        self,
        req_id: int,
        logits: torch.Tensor,
        token_ids: list[list[int]],
        stream_ptr: int | None = None,
        client_id: int | None = None,
    ) -> None:
        """Mask ``logits``, ``(…, beams, vocabulary)``, in place; ``token_ids``: the whole context of each beam."""
        bitmask, rows = self._masks(req_id, np.array(token_ids, np.int64))
        if not rows:
            return
        stream = contextlib.nullcontext() if stream_ptr is None else torch.cuda.stream(torch.cuda.ExternalStream(stream_ptr))
        with stream:
            # The copy to the device is complete on return: the next call overwrites the bitmask.
            apply_token_bitmask_inplace(logits.view(-1, logits.shape[-1]), torch.from_numpy(bitmask), rows)

    def _masks(self, req_id: int, ids: np.ndarray) -> tuple[np.ndarray, list[int]]:
        if req_id not in self._requests:
            self._requests[req_id] = (ids[:1], ContextMasks([self._grammar], on_error="end", beams=True))
            while len(self._requests) > _MOST_REQUESTS:
                self._requests.popitem(last=False)
        self._requests.move_to_end(req_id)
        prompt, masks = self._requests[req_id]
        length = prompt.shape[1]
        if len(ids) > 1 and ids.shape[1] == length + 1:  # the prompt came as one row; now each beam has one
            masks.reset()
            masks.masks(np.repeat(prompt, len(ids), axis=0))
        return masks.masks(ids)
