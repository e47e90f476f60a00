"""Outlines: cdplugin behind ``SteerableGenerator.from_processor``, for its transformers, llama.cpp and MLX models.

    model = outlines.from_transformers(hf_model, tokenizer)
    generator = cdplugin.adapters.outlines.generator(model, cd.JsonSchema(schema))
    text = generator("Describe a person: ", max_new_tokens=200)

Outlines passes a processor unchanged to the library behind the model, so each model gets the processor that cdplugin has for
that library; what that adapter says of batches and errors holds here.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from cdplugin.compiler import Compiler
from cdplugin.errors import CdpluginError, needs
from cdplugin.limits import Limits
from cdplugin.specs.base import Spec
from cdplugin.vocab.vocabulary import Vocabulary

with needs("cdplugin[outlines]"):
    from outlines.generator import SteerableGenerator


def vocabulary(model: Any) -> Vocabulary:
    """The vocabulary of an Outlines model. Raises :class:`cdplugin.CdpluginError` where Outlines cannot reach the logits."""
    kind = _kind(model)
    if kind == "torch":
        inner = model.model
        generation = getattr(inner, "generation_config", None)
        ends = getattr(generation, "eos_token_id", None)
        size = inner.get_output_embeddings().weight.shape[0]
        return Vocabulary.from_huggingface(model.hf_tokenizer, vocab_size=size, eos_token_ids=ends)
    if kind == "mlx":
        return import_module("cdplugin.adapters.mlx").vocabulary(model.model, model.mlx_tokenizer)
    return import_module("cdplugin.adapters.llama_cpp").vocabulary(model.model)


def processor(model: Any, grammar: Any) -> Any:
    """The logits processor for a compiled grammar of the model's vocabulary; it serves one generation after the other."""
    module = {"torch": "cdplugin.adapters.hf", "mlx": "cdplugin.adapters.mlx", "numpy": "cdplugin.adapters.llama_cpp"}
    return import_module(module[_kind(model)]).GrammarLogitsProcessor(grammar)


def generator(model: Any, spec: Spec, limits: Limits | None = None) -> SteerableGenerator:
    """A generator of texts that match ``spec``. Raises as :func:`vocabulary` does, and :class:`cdplugin.GrammarError`.

    For several specs on one model, make the vocabulary and the :class:`cdplugin.Compiler` once, and call
    ``SteerableGenerator.from_processor(model, processor(model, grammar))``.
    """
    grammar = Compiler(vocabulary(model), limits).compile(spec)
    return SteerableGenerator.from_processor(model, processor(model, grammar))


def _kind(model: Any) -> str:
    kind = getattr(model, "tensor_library_name", None)
    if kind not in ("torch", "mlx", "numpy"):
        raise CdpluginError(
            f"Outlines: expected a model of transformers, MLX or llama.cpp, whose logits are here, found {type(model).__name__}"
        )
    return str(kind)
