"""Everything that differs between vLLM's versions: locations, names, and the checks that vLLM makes before a backend's own.

Checked with 0.30 to 0.33. If a version lacks something, :class:`NotFoundError` says what.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, get_args

logger = logging.getLogger("vllm.cdplugin")

NAME = "cdplugin"
CHECKED = ("0.30", "0.31", "0.32", "0.33")

CONFIG = "vllm.config.structured_outputs"
PARAMS = "vllm.sampling_params"
MANAGER = "vllm.v1.structured_output"
INPUT = "vllm.v1.engine.input_processor"
ASYNC = "vllm.v1.engine.async_llm"
REGISTRY = "vllm.v1.metrics.prometheus"
RUNNER = "vllm.v1.worker.gpu_model_runner"  # the CPU's runner is a subclass
MASKS = "vllm.v1.structured_output.utils"
TOOLS = ("vllm.tool_parsers.structural_tag_registry", "vllm.frontend.processing.tool_parsers.structural_tag_registry")
"""vLLM's structural tags of tools: up to 0.33, and their place in later versions."""
BEAM_SEARCH = "vllm.entrypoints.generate.beam_search.offline"
PROCESSORS = "cdplugin.adapters.vllm.logits"
PUBLIC_PROCESSORS = "cdplugin.adapters.vllm_logits"
"""The modules of our logits processor that a configuration may name."""
DEPENDENTS = (("vllm.config.vllm", "VllmConfig"),)
"""Classes whose validators hold a copy of the configuration's validators, if they were made before ours extended those."""


class NotFoundError(RuntimeError):
    """This vLLM lacks something, or has it in an unknown form."""


def version() -> str:
    """vLLM's version; empty if unknown."""
    return str(getattr(sys.modules.get("vllm"), "__version__", "") or "")


def is_checked() -> bool:
    return version().startswith(tuple(f"{v}." for v in CHECKED)) or version() in CHECKED


def attribute(owner: Any, name: str) -> Any:
    """An attribute of a module or class. Raises :class:`NotFoundError`."""
    found = getattr(owner, name, None)
    if found is None:
        raise NotFoundError(f"{getattr(owner, '__name__', owner)}.{name}")
    return found


def wrap(owner: Any, name: str, around: Callable[..., Any], without: str) -> None:
    """Replace ``owner.name`` by a call of ``around(original, *arguments)``. If it does not exist, log
    ``without``, the effect.
    """
    original = getattr(owner, name, None)
    if original is None:
        logger.debug("cdplugin: no %s.%s: %s", owner.__name__, name, without)
        return

    @functools.wraps(original)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        return around(original, *arguments, **named)

    setattr(owner, name, wrapped)


def validation_error() -> type[Exception]:
    """The exception class that vLLM answers with HTTP 400."""
    try:
        from vllm.exceptions import VLLMValidationError
    except ImportError:
        return ValueError
    return VLLMValidationError


# ---- the configuration -------------------------------------------------------------------------------------------------------


def extend_backends(module: Any, on_ours: Callable[[], None]) -> None:
    """Make ``StructuredOutputsConfig.backend`` accept our name. ``on_ours`` runs when a configuration names us, and may raise.

    vLLM's own check refuses ``disable_any_whitespace`` for backends that it does not know. We support it, so our name has a
    check of its own, which refuses ``disable_additional_properties`` as vLLM's does. Raises :class:`NotFoundError`, and
    restores the names, if afterwards our name is refused or any other name is accepted.
    """
    cls = attribute(module, "StructuredOutputsConfig")
    field = attribute(cls, "__dataclass_fields__").get("backend")
    before = field.type if field is not None else None
    if not get_args(before) or not all(isinstance(name, str) for name in get_args(before)):
        raise NotFoundError(f"{module.__name__}.StructuredOutputsConfig.backend as a Literal of names")
    previous = getattr(cls, "__post_init__", None)
    hooks: list[Callable[[], None]] = []

    def __post_init__(self: Any) -> None:  # noqa: N807
        if previous is not None:
            previous(self)
        for hook in hooks if self.backend == NAME else ():
            hook()

    cls.__post_init__ = __post_init__
    for decorator in cls.__pydantic_decorators__.model_validators.values():
        decorator.func = _unless_ours(decorator.func)
    _set_backends(module, Literal.__getitem__((*get_args(before), NAME)))
    if not accepts(cls, NAME) or accepts(cls, NAME + "?") or not accepts(cls, "auto"):
        _set_backends(module, before)
        raise NotFoundError("StructuredOutputsConfig that checks the backend's name")
    hooks.append(on_ours)


def _set_backends(module: Any, names: Any) -> None:
    """Set the field's type, and rebuild the validators."""
    from pydantic import dataclasses

    cls = module.StructuredOutputsConfig
    cls.__dataclass_fields__["backend"].type = names
    cls.__annotations__["backend"] = names
    module.StructuredOutputsBackend = names
    for dependent in (cls, *(getattr(sys.modules.get(name), inner, None) for name, inner in DEPENDENTS)):
        if dependent is not None:
            dataclasses.rebuild_dataclass(dependent, force=True)


def _unless_ours(check: Any) -> Any:
    def checked(self: Any) -> Any:
        if self.backend != NAME:
            return check(self)
        if getattr(self, "disable_additional_properties", False):
            raise ValueError('cdplugin has no disable_additional_properties: write "additionalProperties": false into schemas')
        return self

    return checked


def accepts(cls: Any, name: str) -> bool:
    """Whether a configuration class accepts a backend's name."""
    try:
        cls(backend=name)
    except ValueError:
        return False
    return True


# ---- requests ----------------------------------------------------------------------------------------------------------------


def checked_request(params: Any, model_config: Any, tokenizer: Any) -> tuple[str, str]:
    """``(kind, text)`` of a ``StructuredOutputsParams``, after the checks that vLLM makes before it asks a backend.

    Raises vLLM's validation error.
    """
    refuse = validation_error()
    if getattr(model_config, "is_diffusion", False):
        raise refuse("Structured outputs are not yet supported for diffusion language models: remove the constraint.")
    if tokenizer is None:
        raise refuse("Structured outputs require a tokenizer; it cannot be used with 'skip_tokenizer_init'.")
    if params._backend and params._backend != NAME:
        raise refuse(
            f"Request-level structured output backend selection is not supported: the request specified '{params._backend}', "
            f"vLLM was initialised with '{NAME}'."
        )
    params._backend = NAME
    if isinstance(params.choice, list) and not params.choice:
        raise refuse("structured_outputs.choice cannot be an empty list")
    for name in ("grammar", "json", "structural_tag"):
        value = getattr(params, name, None)
        if isinstance(value, str) and not value.strip():
            raise refuse(f"structured_outputs.{name} cannot be an empty string")
    nesting = getattr(sys.modules[PARAMS], "check_json_nesting", None)  # 0.32 and later
    if nesting is not None:
        nesting(params.json)
        nesting(params.structural_tag, structural_tag=True)
    if params.json_object is False:
        raise refuse("structured_outputs.json_object must be True if set; omit structured_outputs to disable them")
    if params.regex and "\x00" in params.regex:
        raise refuse("structured_outputs.regex must not contain a NUL character ('\\x00')")
    params.__post_init__()  # at most one kind; vLLM relies on that when it sends the request to the engine
    from vllm.v1.structured_output.request import get_structured_output_key

    try:
        kind, text = get_structured_output_key(params)
    except (TypeError, ValueError, RecursionError) as error:
        raise refuse(f"structured_outputs: {error}") from error
    return kind.name, text


def only_prefills(vllm_config: Any) -> bool:
    """Whether this instance only computes prompts (``max_tokens=1``) for others that decode: its tokens are discarded."""
    return getattr(getattr(vllm_config, "kv_transfer_config", None), "kv_role", None) == "kv_producer"


# ---- logits processors -------------------------------------------------------------------------------------------------------


def logits_processor_bases() -> tuple[type, ...]:
    """The interfaces of the V1 and (from 0.31) the V2 model runner; one class may inherit both."""
    return _each("LogitsProcessor", "vllm.v1.sample.logits_processor", "vllm.v1.worker.gpu.sample.logits_processor")


def _each(name: str, *modules: str) -> tuple[Any, ...]:
    """An attribute of each of the modules that exist. Raises :class:`NotFoundError` if none has it."""
    found = []
    for module in modules:
        with contextlib.suppress(ImportError, NotFoundError):
            found.append(attribute(importlib.import_module(module), name))
    if not found:
        raise NotFoundError(f"{modules[0]}.{name}")
    return tuple(found)


def names_our_processor(model_config: Any) -> bool:
    """Whether a configuration names our logits processor."""
    named = getattr(model_config, "logits_processors", None) or ()
    modules = [one if isinstance(one, str) else getattr(one, "__module__", "") for one in named]
    return any(path in module for module in modules for path in (PROCESSORS, PUBLIC_PROCESSORS))


def tokenizer_of(model_config: Any) -> Any:
    """The tokenizer that vLLM itself uses. Raises :class:`NotFoundError`."""
    get = _each("cached_tokenizer_from_config", "vllm.tokenizers", "vllm.transformers_utils.tokenizer")[0]
    return get(model_config=model_config)


def request_tokens(state: Any, slots: Iterable[int]) -> Iterator[tuple[int, int, list[int]]]:
    """V2: slot, number of prompt tokens and generated tokens of the requests in some slots, read from the device."""
    listed = list(slots)
    for slot, total in zip(listed, state.total_len.gpu[listed].tolist(), strict=True):
        prompt = int(state.prompt_len.np[slot])
        yield slot, prompt, state.all_token_ids.gpu[slot, prompt:total].tolist()
