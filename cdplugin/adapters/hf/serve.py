"""``transformers serve`` with ``response_format``, which transformers accepts but ignores.

    python -m cdplugin.adapters.hf.serve MODEL --port 8000          # the options are those of `transformers serve`

``/v1/chat/completions``, streamed or not: ``json_schema``, ``json_object``, ``structural_tag``; ``text`` is unconstrained. The
request's ``max_tokens`` is a budget: the answer ends legally within it. Invalid requests return HTTP 400: a schema that
cannot be compiled, with the location of the error; a budget that is too small, with the least one that works; and any such
request to a server with continuous batching, which takes no processors. Written for transformers 5.5 and later;
:func:`install` raises if it finds other interfaces.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from cdplugin.adapters.hf.processor import GrammarLogitsProcessor
from cdplugin.bitmask import allocate_token_bitmask
from cdplugin.compiler import Compiler
from cdplugin.errors import BudgetError, CdpluginError, GrammarError
from cdplugin.limits import Limits
from cdplugin.specs.base import JsonObject, JsonSchema, Spec
from cdplugin.specs.tags import StructuralTag
from cdplugin.vocab.vocabulary import Vocabulary

MAX_CACHE_BYTES = 96 << 20
"""Most bytes of compiled grammars that are kept for a model."""

_asked: ContextVar[Any] = ContextVar("grammar of the request", default=None)
_compilers: weakref.WeakKeyDictionary[Any, Compiler] = weakref.WeakKeyDictionary()
_one_at_a_time = threading.Lock()


def spec_of(response_format: Any) -> Spec | None:
    """The spec of a request's ``response_format``; None for free text. Raises :class:`cdplugin.GrammarError`."""
    if response_format is None:
        return None
    if not isinstance(response_format, dict):
        raise GrammarError("wrong type", expected="an object", found=type(response_format).__name__)
    kind = response_format.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return JsonObject()
    if kind == "json_schema":
        given = response_format.get("json_schema")
        if not isinstance(given, dict) or "schema" not in given:
            raise GrammarError("malformed response_format", expected="an object with a schema", location="/json_schema")
        return JsonSchema(given["schema"])
    if kind == "structural_tag":
        return StructuralTag(response_format)
    raise GrammarError(
        "unknown response_format", expected="type text, json_object, json_schema or structural_tag", found=repr(kind)[:80]
    )


def compiler_for(model: Any, tokenizer: Any) -> Compiler:
    """The compiler of a loaded model, made at the first call. Raises :class:`cdplugin.VocabularyError`."""
    if model not in _compilers:
        inner = getattr(tokenizer, "tokenizer", tokenizer)  # a multimodal processor has a tokenizer inside
        ends = getattr(model.generation_config, "eos_token_id", None)
        size = model.get_output_embeddings().weight.shape[0]
        vocab = Vocabulary.from_huggingface(inner, vocab_size=size, eos_token_ids=ends)
        _compilers[model] = Compiler(vocab, Limits(max_cache_bytes=MAX_CACHE_BYTES))
    return _compilers[model]


def handler_class(base: type) -> type:
    """transformers' handler of chat completions, with ``response_format``."""

    class Handler(base):  # type: ignore[misc]
        _unused_fields = base._unused_fields - {"response_format"}  # type: ignore[attr-defined]

        async def handle_request(self, body: dict[str, Any], request_id: str) -> Any:
            with _refusals():
                spec = spec_of(body.get("response_format"))
                if spec is not None:
                    self._validate_request(body)
                    _, model, processor = self._resolve_model(body)
                    modality = self.model_manager.get_model_modality(model, processor=processor)
                    if self.generation_state.use_continuous_batching(model, modality):
                        raise CdpluginError("response_format: expected a server without --continuous-batching")
                    budget = self._build_generation_config(body, model.generation_config).max_new_tokens
                    _asked.set(await asyncio.to_thread(_compiled, model, processor, spec, budget))
            return await super().handle_request(body, request_id)

        def _streaming(self, *arguments: Any, **named: Any) -> Any:
            return super()._streaming(*_constrained(arguments), **named)

        async def _non_streaming(self, *arguments: Any, **named: Any) -> Any:
            arguments = _constrained(arguments)
            with _refusals():  # a budget that is crossed while the answer is decoded
                return await super()._non_streaming(*arguments, **named)

    return Handler


def _compiled(model: Any, processor: Any, spec: Spec, budget: int | None) -> Any:
    """The grammar of a request. May take seconds. Raises :class:`cdplugin.CdpluginError`, also where no answer is known or fits
    the budget of tokens.
    """
    with _one_at_a_time:
        compiler = compiler_for(model, processor)
    grammar = compiler.compile(spec)
    matcher = grammar.matcher()
    if budget is not None and budget <= len(matcher.shortest_completion()):  # a longer text may take fewer tokens
        try:
            matcher.fill_next_token_bitmask(allocate_token_bitmask(1, compiler.vocab.size), 0, budget)
        except BudgetError as error:
            text = f"max_tokens: expected at least {error.least} for an answer in this response_format, found {budget}"
            raise CdpluginError(text) from None
    return grammar


def _constrained(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a generation, with our processor added to what ``generate()`` gets."""
    grammar = _asked.get()
    if grammar is None:
        return arguments
    _asked.set(None)
    request_id, model, processor, model_id, inputs, config, *rest = arguments
    inputs = {**inputs, "logits_processor": [GrammarLogitsProcessor(grammar, max_new_tokens=config.max_new_tokens)]}
    return (request_id, model, processor, model_id, inputs, config, *rest)


@contextmanager
def _refusals() -> Iterator[None]:
    """A context that turns our errors into HTTP 400."""
    try:
        yield
    except CdpluginError as error:
        from fastapi import HTTPException

        raise HTTPException(status_code=400, detail=f"response_format: {error}") from None


def install() -> None:
    """Make ``transformers serve`` use our handler. Raises :class:`cdplugin.CdpluginError` if it cannot."""
    import transformers

    try:
        from transformers.cli.serving import chat_completion as module

        base = module.ChatCompletionHandler
        missing = [
            name
            for name in ("_unused_fields", "_validate_request", "_resolve_model", "_streaming", "_non_streaming")
            if not hasattr(base, name)
        ]
    except (ImportError, AttributeError, NameError) as error:  # NameError: its module without what [serving] brings
        found = f"found transformers {transformers.__version__}: {error}"
        raise CdpluginError(f"transformers serve: expected 'transformers[serving]>=5.5', {found}") from error
    if missing:
        raise CdpluginError(f"transformers serve: expected ChatCompletionHandler with {', '.join(missing)}")
    if not getattr(base, "__cdplugin__", False):
        made = handler_class(base)
        made.__cdplugin__ = True  # type: ignore[attr-defined]
        module.ChatCompletionHandler = made


def main() -> None:
    """Run ``transformers serve`` with our handler."""
    try:
        install()
    except CdpluginError as error:
        sys.exit(str(error))
    import typer
    from transformers.cli.serve import Serve

    app = typer.Typer()
    app.command()(Serve)
    app(sys.argv[1:], prog_name="python -m cdplugin.adapters.hf.serve")


if __name__ == "__main__":
    main()
