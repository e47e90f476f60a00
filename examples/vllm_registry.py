"""A registry of structured-output backends as vLLM could have it, beside the installed vLLM: docs/rfc-vllm-backends.md.

    python examples/vllm_registry.py

:class:`Registry` is the proposal. :func:`install` does to the installed vLLM what the proposal would change in its source, and
knows no backend. The program then registers cdplugin by its name and nothing else (cdplugin's own plugin stays unused), and
shows that requests are checked and grammars made through it.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import time
from typing import Any

# ---- the proposal: vllm/v1/structured_output/registry.py ---------------------------------------------------------------------


class Registry:
    """Backends from outside vLLM, by name. A backend is given as ``module:class``, and imported when it is first needed."""

    def __init__(self) -> None:
        self._paths: dict[str, str] = {}

    def register(self, name: str, path: str) -> None:
        """Make ``name`` a value of ``--structured-outputs-config.backend``. Imports nothing."""
        self._paths[name] = path

    def __contains__(self, name: object) -> bool:
        return name in self._paths

    def load(self, name: str) -> Any:
        """The backend's class."""
        module, _, attribute = self._paths[name].partition(":")
        return getattr(importlib.import_module(module), attribute)


registry = Registry()

# ---- what it changes in vLLM -------------------------------------------------------------------------------------------------


def install() -> None:
    """Make vLLM ask the registry where it now asks its own list."""
    from pydantic.dataclasses import rebuild_dataclass
    from vllm.config import structured_outputs
    from vllm.sampling_params import SamplingParams
    from vllm.v1.structured_output import StructuredOutputManager

    # 1. config/structured_outputs.py: `backend: str`, checked against the built-in names and the registry
    config: Any = structured_outputs.StructuredOutputsConfig
    built_in = config.__dataclass_fields__["backend"].type.__args__
    config.__dataclass_fields__["backend"].type = str
    config.__annotations__["backend"] = str
    ready = config.__dict__.get("__post_init__", lambda self: None)

    def check_name(self: Any) -> None:
        ready(self)
        if self.backend not in built_in and self.backend not in registry:
            raise ValueError(f"unknown structured output backend {self.backend!r}")

    config.__post_init__ = check_name
    rebuild_dataclass(config, force=True)

    # 2. sampling_params.py, _validate_structured_outputs: one branch before those of the built-in backends
    validate = SamplingParams._validate_structured_outputs

    @functools.wraps(validate)
    def validated(self: Any, model_config: Any, structured_outputs_config: Any, tokenizer: Any) -> None:
        if self.structured_outputs is None or getattr(structured_outputs_config, "backend", None) not in registry:
            return validate(self, model_config, structured_outputs_config, tokenizer)
        backend = registry.load(structured_outputs_config.backend)
        return backend.validate_request(self, model_config, structured_outputs_config, tokenizer)

    SamplingParams._validate_structured_outputs = validated

    # 3. v1/structured_output/__init__.py: the backend is made at engine start, and gets the request, not only its text
    make = StructuredOutputManager.__init__
    create = StructuredOutputManager._create_grammar

    @functools.wraps(make)
    def made(self: Any, vllm_config: Any) -> None:
        make(self, vllm_config)
        name = vllm_config.structured_outputs_config.backend
        if name in registry:
            size = vllm_config.model_config.get_vocab_size()
            self.backend = registry.load(name)(vllm_config, tokenizer=self.tokenizer, vocab_size=size)

    @functools.wraps(create)
    def created(self: Any, request: Any) -> Any:
        if self.vllm_config.structured_outputs_config.backend not in registry:
            return create(self, request)
        kind, text = request.structured_output_request.structured_output_key
        return self.backend.create_grammar(request, kind, text, request.sampling_params.all_stop_token_ids)

    StructuredOutputManager.__init__ = made
    StructuredOutputManager._create_grammar = created


# ---- a backend on it ---------------------------------------------------------------------------------------------------------


def main() -> None:
    """Register cdplugin, then do what vLLM does with a request, from the check to the first masks, without a model."""
    from types import SimpleNamespace

    import torch
    from demo_model import model_folder
    from transformers import AutoTokenizer
    from vllm.config.structured_outputs import StructuredOutputsConfig
    from vllm.exceptions import VLLMValidationError
    from vllm.sampling_params import SamplingParams, StructuredOutputsParams
    from vllm.v1 import structured_output

    install()
    registry.register("cdplugin", "cdplugin.adapters.vllm.backend:CdpluginBackend")
    config = StructuredOutputsConfig(backend="cdplugin")
    try:
        StructuredOutputsConfig(backend="cdpligin")  # type: ignore[arg-type]
    except ValueError:
        print("a name that nobody registered is refused")

    tokenizer = AutoTokenizer.from_pretrained(model_folder())
    model_config = SimpleNamespace(
        is_diffusion=False, skip_tokenizer_init=False, max_model_len=2048, get_vocab_size=lambda: len(tokenizer)
    )
    for regex in ("(yes", "(yes|no)"):
        params = SamplingParams(max_tokens=8, structured_outputs=StructuredOutputsParams(regex=regex))
        try:
            params._validate_structured_outputs(model_config, config, tokenizer)
            print("checked:", regex)
        except VLLMValidationError as error:
            print("refused:", str(error).splitlines()[0])

    structured_output.cached_tokenizer_from_config = lambda **_: tokenizer  # there is no model to read it from
    vllm_config: Any = SimpleNamespace(
        structured_outputs_config=config,
        model_config=model_config,
        scheduler_config=SimpleNamespace(max_num_seqs=4),
        parallel_config=SimpleNamespace(distributed_executor_backend="mp"),
        num_speculative_tokens=0,
    )
    manager = structured_output.StructuredOutputManager(vllm_config)
    request = Request(params)
    manager.grammar_init(request)  # type: ignore[arg-type]
    while not request.structured_output_request.is_grammar_ready:
        time.sleep(0.01)
    grammar: Any = request.structured_output_request.grammar
    mask = manager.backend.allocate_token_bitmask(1)
    text = ""
    while not grammar.is_terminated():
        grammar.fill_bitmask(mask, 0)
        bits = torch.arange(len(tokenizer))
        allowed = (mask[0, bits // 32] >> (bits % 32) & 1).nonzero().flatten().tolist()
        token = max(allowed, key=lambda one: len(tokenizer.decode([one])))
        assert grammar.accept_tokens("request", [token])
        request.num_output_tokens += 1
        text += "" if token in tokenizer.all_special_ids else tokenizer.decode([token])
    print("written:", text)


@dataclasses.dataclass(eq=False)
class Request:
    """As much of vLLM's ``Request`` as there is without an engine."""

    sampling_params: Any
    num_output_tokens: int = 0
    num_prompt_tokens: int = 1
    request_id: str = "request"

    def __post_init__(self) -> None:
        from vllm.v1.structured_output.request import StructuredOutputRequest

        self.max_tokens = self.sampling_params.max_tokens
        self.structured_output_request = StructuredOutputRequest(params=self.sampling_params.structured_outputs)


if __name__ == "__main__":
    import os
    import sys

    os.environ["VLLM_PLUGINS"] = ""  # cdplugin's own plugin, which changes the same places, stays unused
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    main()
