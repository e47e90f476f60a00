"""vLLM's structured-output backend ``cdplugin``: :class:`CdpluginBackend`.

    vllm serve MODEL --structured-outputs-config.backend cdplugin
    LLM(MODEL, structured_outputs_config={"backend": "cdplugin"})

One per engine, in the scheduler's process, whatever the number of workers. :mod:`cdplugin.adapters.vllm.plugin` makes it when
the engine starts. It compiles on vLLM's own threads.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any

import torch
from vllm.v1.structured_output.backend_types import StructuredOutputBackend, StructuredOutputGrammar, StructuredOutputOptions

from cdplugin.adapters.serving.metrics import NUMBERS
from cdplugin.adapters.vllm import plugin
from cdplugin.adapters.vllm.grammar import GrammarState, engine_for
from cdplugin.bitmask import allocate_token_bitmask

logger = logging.getLogger("vllm.cdplugin")

StructuredOutputGrammar.register(GrammarState)


@dataclass
class CdpluginBackend(StructuredOutputBackend):
    """The backend of one engine. Raises :class:`cdplugin.VocabularyError` for a tokenizer that cannot be read exactly.

    Fields as in vLLM's base class: ``vllm_config``, ``tokenizer``, ``vocab_size`` (width of the logits).
    """

    def __post_init__(self) -> None:
        began = time.monotonic()
        self.engine = engine_for(
            self.tokenizer, self.vocab_size, self.vllm_config.structured_outputs_config.disable_any_whitespace
        )
        device = getattr(getattr(self.vllm_config, "device_config", None), "device_type", None)
        if device == "cpu" and self.engine.options.ahead is None:  # the model uses all processors
            self.engine.ahead = None
        read = time.monotonic()
        self.engine.warm()
        NUMBERS.set("cdplugin_engines", 1)
        logger.info(
            "cdplugin: structured outputs are ready: %s, read in %.1f s; kernels loaded in %.1f s",
            self.engine.vocab,
            read - began,
            time.monotonic() - read,
        )

    def compile_grammar(
        self, request_type: StructuredOutputOptions, grammar_spec: str, stop_token_ids: set[int] | None = None
    ) -> Any:
        """The :class:`GrammarState` of a request. Raises :class:`cdplugin.GrammarError`, which ends that request only."""
        return self.engine.state(request_type.name, grammar_spec, stop_token_ids)

    @classmethod
    def validate_request(cls, params: Any, model_config: Any, config: Any, tokenizer: Any) -> None:
        """Check ``SamplingParams`` in a front end. Raises vLLM's validation error (HTTP 400).

        A registry of backends in vLLM would call this and :meth:`create_grammar` (``docs/rfc-vllm-backends.md``); until vLLM
        has one, :mod:`cdplugin.adapters.vllm.plugin` makes the same calls.
        """
        plugin.validate_request(params, model_config, config, tokenizer)

    def create_grammar(
        self, request: Any, request_type: StructuredOutputOptions, grammar_spec: str, stop_token_ids: set[int] | None = None
    ) -> Any:
        """:meth:`compile_grammar` for vLLM's ``Request``, which knows how many tokens the answer may have."""
        began = time.monotonic()
        state = self.compile_grammar(request_type, grammar_spec, stop_token_ids)
        plugin.hand_over(state, request, self.vllm_config, self, began)
        return state

    def allocate_token_bitmask(self, max_num_seqs: int) -> torch.Tensor:
        """int32, ``(max_num_seqs, ceil(vocab_size / 32))``."""
        return allocate_token_bitmask(max_num_seqs, self.vocab_size)

    def destroy(self) -> None:
        """Nothing to do: the arrays are freed with the last grammar."""
