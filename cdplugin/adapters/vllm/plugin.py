"""vLLM's entry points: they make ``cdplugin`` a backend name that vLLM's configuration accepts.

vLLM calls :func:`register` unguarded in each of its processes, in some more than once. So it is light, may be called again, and
never raises. It patches a few modules of vLLM, each when it is imported (at once if it already is), so that nothing is imported
early. The first two patches are required before a configuration may name us, and are checked when one does:

========================================  ====================================================================================
``SamplingParams``                        the front end validates each request with our compiler; invalid ones get HTTP 400
``StructuredOutputManager``               makes our backend at engine start; gives a grammar its request's token budget;
                                          compiles on separate queues, so that no request waits for another's large grammar
``StructuredOutputsConfig``               accepts our name
``InputProcessor``                        (optional) the front end loads its kernels before the first request
``AsyncLLM``                              (optional) a request's check does not block the server's event loop; a request that
                                          exceeds a budget while it is decoded is answered with HTTP 400 and the reason
``GPUModelRunner``                        (optional) on a CPU our kernel applies the bitmasks of our backend
``get_prometheus_registry``               (optional) ``/metrics`` also shows our numbers, of all processes
structural tags of tools                  (optional) tools are strict where clients do not say, if an option asks for it
offline beam search                       (optional) accepts our backend in addition to those it knows
========================================  ====================================================================================

If a version lacks something, one log line says what, and vLLM keeps its own backends.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import importlib.util
import inspect
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cdplugin.adapters.vllm import compat, tools
from cdplugin.adapters.vllm.compat import NAME, NotFoundError

if TYPE_CHECKING:
    from cdplugin.adapters.vllm.grammar import Engine

logger = logging.getLogger("vllm.cdplugin")

_MARK = "__cdplugin__"
_ARRIVED = "_cdplugin_arrived"
CROSSED = "cdplugin: "
"""The prefix of the ``stop_reason`` of a request that exceeded a budget while decoded, or got a token that was not allowed."""
_searching = threading.local()


def register() -> None:
    """Entry point of ``vllm.general_plugins`` and ``vllm.platform_plugins``: have vLLM's modules patched as they are imported.

    vLLM loads the second group earlier, before ``LLM(structured_outputs_config=…)`` makes its configuration; the returned None
    says that we are not a platform.
    """
    try:
        if not any(isinstance(finder, Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, Finder())
        for name in PATCHES:
            module = sys.modules.get(name)
            if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
                apply(module)
    except Exception:
        logger.exception("cdplugin: not registered; vLLM goes on with its own backends")


class Finder:
    """Finds a module as the other finders do, and patches it as soon as it is loaded."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in PATCHES or getattr(_searching, "name", None) == name:
            return None
        _searching.name = name
        try:
            spec = importlib.util.find_spec(name)
        finally:
            _searching.name = None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            apply(module)

        try:
            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        except AttributeError:  # a loader without attributes: the next call of register() patches the module
            return None
        return spec


def apply(module: ModuleType) -> None:
    """Patch a module, once; log a line if that is not possible."""
    if getattr(module, _MARK, False):
        return
    try:
        PATCHES[module.__name__](module)
        setattr(module, _MARK, True)
    except NotFoundError as error:
        _report(error)
    except Exception as error:
        logger.debug("cdplugin", exc_info=True)
        _report(error)


def _report(error: Exception) -> None:
    what = f"{error} was not found" if isinstance(error, NotFoundError) else f"{type(error).__name__}: {error}"
    known = "" if compat.is_checked() else f" (checked with {compat.CHECKED[0]} to {compat.CHECKED[-1]})"
    logger.warning("cdplugin: vLLM %s%s: %s; vLLM goes on with its own backends", compat.version(), known, what)


# ---- the patches -------------------------------------------------------------------------------------------------------------


def _patch_params(module: ModuleType) -> None:
    cls = compat.attribute(module, "SamplingParams")
    signature = inspect.signature(compat.attribute(cls, "_validate_structured_outputs"))
    missing = {"model_config", "structured_outputs_config", "tokenizer"} - set(signature.parameters)
    if missing:
        raise NotFoundError(f"SamplingParams._validate_structured_outputs({', '.join(sorted(missing))})")

    def validate(original: Any, self: Any, *arguments: Any, **named: Any) -> Any:
        given = signature.bind(self, *arguments, **named).arguments
        config, params = given.get("structured_outputs_config"), self.structured_outputs
        if params is None or getattr(config, "backend", None) != NAME:
            return original(self, *arguments, **named)
        return validate_request(self, given["model_config"], config, given.get("tokenizer"))

    compat.wrap(cls, "_validate_structured_outputs", validate, "requests are not validated")


def validate_request(params: Any, model_config: Any, config: Any, tokenizer: Any) -> None:
    """Check ``SamplingParams`` with structured outputs, and that an answer has room to end. Raises vLLM's validation error.

    Replaces a JSON schema by its text: vLLM's encoding for the engine has no integers beyond 64 bits.
    """
    structured = params.structured_outputs
    kind, text = compat.checked_request(structured, model_config, tokenizer)
    with _refusals():
        engine = _engine(tokenizer, model_config, config)
        engine.check(kind, text, _budget_of(params, engine))
    if kind == "JSON":
        structured.json = text


async def _validate_off_loop(params: Any, config: Any, model_config: Any, tokenizer: Any) -> None:
    """:func:`validate_request` on another thread, while the event loop goes on."""
    structured = params.structured_outputs
    kind, text = compat.checked_request(copy.copy(structured), model_config, tokenizer)
    with _refusals():
        engine = _engine(tokenizer, model_config, config)
        await engine.check_off_loop(kind, text, _budget_of(params, engine))
    if kind == "JSON":
        structured.json = text


def _budget_of(params: Any, engine: Engine) -> int | None:
    """The number of tokens within which an answer must end; None if it need not, or only the model's context bounds it."""
    from cdplugin.adapters.vllm import budget

    given = budget.of_params(params, engine.options.endings)
    return None if engine.only_prefills else given


def _engine(tokenizer: Any, model_config: Any, config: Any) -> Engine:
    from cdplugin.adapters.vllm.grammar import engine_for

    return engine_for(tokenizer, model_config.get_vocab_size(), config.disable_any_whitespace)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """A context that turns our errors into vLLM's validation error."""
    from cdplugin.errors import CdpluginError

    try:
        yield
    except CdpluginError as error:
        raise compat.validation_error()(f"structured_outputs: {error}") from None


def _patch_async(module: ModuleType) -> None:
    """Make requests wait for their check before the server's event loop does anything with them."""
    cls: Any = getattr(module, "AsyncLLM", None)
    original = getattr(cls, "add_request", None)
    if original is None or not inspect.iscoroutinefunction(original):
        logger.debug("cdplugin: no AsyncLLM.add_request in %s: requests are checked on the event loop", module.__name__)
        return
    signature = inspect.signature(original)

    @functools.wraps(original)
    async def add_request(self: Any, *arguments: Any, **named: Any) -> Any:
        params = signature.bind(self, *arguments, **named).arguments.get("params")
        tokenizer = getattr(getattr(self, "input_processor", None), "tokenizer", None)
        if tokenizer is not None:
            await _check_off_loop(params, self.vllm_config, tokenizer)
        return await original(self, *arguments, **named)

    cls.add_request = add_request
    _patch_generate(cls)


def _patch_generate(cls: Any) -> None:
    """Answer a request with HTTP 400 and the reason if it exceeded a budget while decoded or got a token that is not allowed;
    vLLM itself only knows an internal error.
    """
    original = getattr(cls, "generate", None)
    if original is None or not inspect.isasyncgenfunction(original):
        logger.debug("cdplugin: no %s.generate: crossed budgets are answered as internal errors", cls.__name__)
        return

    @functools.wraps(original)
    async def generate(self: Any, *arguments: Any, **named: Any) -> Any:
        async with contextlib.aclosing(original(self, *arguments, **named)) as outputs:  # closing early aborts the request
            async for output in outputs:
                for completion in output.outputs:  # of several (n > 1) one may have ended, while the output has not
                    reason = completion.stop_reason
                    if completion.finish_reason == "error" and isinstance(reason, str) and reason.startswith(CROSSED):
                        raise compat.validation_error()(f"structured_outputs: {reason.removeprefix(CROSSED)}")
                yield output

    cls.generate = generate


async def _check_off_loop(params: Any, vllm_config: Any, tokenizer: Any) -> None:
    """Check a request for the backend, or for the logits processor."""
    config = vllm_config.structured_outputs_config
    if getattr(params, "structured_outputs", None) is not None and config.backend == NAME:
        await _validate_off_loop(params, config, vllm_config.model_config, tokenizer)
    if compat.names_our_processor(vllm_config.model_config):
        with _refusals():
            await importlib.import_module(compat.PROCESSORS).check_off_loop(params)


def _patch_manager(module: ModuleType) -> None:
    cls = compat.attribute(module, "StructuredOutputManager")
    types = importlib.import_module(f"{module.__name__}.backend_types")
    for name in ("StructuredOutputBackend", "StructuredOutputGrammar", "StructuredOutputOptions"):
        compat.attribute(types, name)

    def init(original: Any, self: Any, vllm_config: Any, *arguments: Any, **named: Any) -> None:
        original(self, vllm_config, *arguments, **named)
        tokenizer = getattr(self, "tokenizer", None)
        if vllm_config.structured_outputs_config.backend != NAME or tokenizer is None:
            return
        self.backend = _backend(vllm_config, tokenizer)
        self.executor = _threads(self.backend.engine, getattr(self, "executor", None))
        if hasattr(self, "backend_name"):  # 0.33 and later
            self.backend_name = NAME

    compat.wrap(cls, "__init__", init, "our backend is not made")
    _patch_create(cls)


def _patch_create(cls: Any) -> None:
    """Give grammars their requests' budgets, and record how long requests waited for their grammars."""

    def create(original: Any, self: Any, request: Any, *arguments: Any, **named: Any) -> Any:
        if self.vllm_config.structured_outputs_config.backend != NAME:
            return original(self, request, *arguments, **named)
        began = getattr(request, _ARRIVED, None) or time.monotonic()
        state = original(self, request, *arguments, **named)
        hand_over(state, request, self.vllm_config, self.backend, began)
        return state

    def arrive(original: Any, self: Any, request: Any, *arguments: Any, **named: Any) -> Any:
        if getattr(request, "structured_output_request", None) is not None:
            with contextlib.suppress(AttributeError):
                setattr(request, _ARRIVED, time.monotonic())
        return original(self, request, *arguments, **named)

    compat.wrap(cls, "_create_grammar", create, "answers are not ended within max_tokens")
    compat.wrap(cls, "grammar_init", arrive, "a grammar's wait is counted from its compilation on")


def hand_over(state: Any, request: Any, vllm_config: Any, backend: Any, began: float) -> None:
    """Give a new state its request's budget and a place to report refusals; record the wait since ``began``. Never raises."""
    from cdplugin.adapters.serving.metrics import NUMBERS

    _set_budget(state, request, vllm_config, backend)
    with contextlib.suppress(AttributeError):
        state.tell = lambda reason: setattr(request, "stop_reason", CROSSED + reason if reason else None)  # for the front end
    NUMBERS.observe("cdplugin_grammar_wait_seconds", time.monotonic() - began)
    if not compat.only_prefills(vllm_config):
        with contextlib.suppress(AttributeError):
            state.meet_ahead()


def _patch_registry(module: ModuleType) -> None:
    """Add our metrics to the registry from which vLLM answers ``/metrics``, if our backend is used."""

    def registry_with_ours(original: Any, *arguments: Any, **named: Any) -> Any:
        registry = original(*arguments, **named)
        from cdplugin.adapters.serving import metrics

        if metrics.is_shared():
            try:
                metrics.register(registry)
            except Exception as error:
                logger.warning("cdplugin: /metrics does not show our numbers: %s: %s", type(error).__name__, error)
        return registry

    compat.wrap(module, "get_prometheus_registry", registry_with_ours, "/metrics does not show our numbers")


def _set_budget(state: Any, request: Any, vllm_config: Any, backend: Any) -> None:
    """Give a request's budget to the state of its grammar. Does not raise: without a budget the answer may be cut off."""
    from cdplugin.adapters.vllm import budget

    try:
        most = budget.asked(request.sampling_params.extra_args, backend.engine.options.endings)
        if most != 0 and not compat.only_prefills(vllm_config):
            drafts = int(getattr(vllm_config, "num_speculative_tokens", 0) or 0)
            state.budget = budget.RequestBudget(request, vllm_config.model_config.max_model_len, most, drafts)
            state.prepare()
    except Exception as error:
        logger.warning("cdplugin: an answer may be cut off, its budget is not known: %s: %s", type(error).__name__, error)
        with contextlib.suppress(AttributeError):
            state.budget = None


def _backend(vllm_config: Any, tokenizer: Any) -> Any:
    from cdplugin.adapters.vllm.backend import CdpluginBackend

    return CdpluginBackend(vllm_config, tokenizer=tokenizer, vocab_size=vllm_config.model_config.get_vocab_size())


def _threads(engine: Any, executor: Any) -> Any:
    """Our separate queues in place of vLLM's single one, if that is as expected."""
    workers = getattr(executor, "_max_workers", None)
    if not isinstance(workers, int):
        logger.debug("cdplugin: no ThreadPoolExecutor: grammars are compiled where vLLM says")
        return executor
    from cdplugin.adapters.vllm.threads import GrammarThreads

    executor.shutdown(wait=False)
    return GrammarThreads(engine, workers)


def _require() -> None:
    """Check that the patches without which our name must not be used are in place. Raises ``ValueError``."""
    for name in (compat.PARAMS, compat.MANAGER):
        module = importlib.import_module(name)
        apply(module)
        if not getattr(module, _MARK, False):
            raise ValueError(f"cdplugin: {name} of vLLM {compat.version()} is not as expected; choose another backend")
    from cdplugin.adapters.serving import metrics

    metrics.share()


def _after_init(module: ModuleType, name: str, then: Callable[[Any, Any], None], without: str) -> None:
    """Call ``then(object, vLLM's configuration)`` for each new object of a class. Logs what it raises.

    ``without``: the effect if this vLLM has no such class, or ``then`` fails, for the log.
    """
    cls: Any = getattr(module, name, None)
    if cls is None:
        logger.debug("cdplugin: no %s in %s: %s", name, module.__name__, without)
        return

    def init(original: Any, self: Any, vllm_config: Any, *arguments: Any, **named: Any) -> None:
        original(self, vllm_config, *arguments, **named)
        try:
            then(self, vllm_config)
        except Exception as error:
            logger.warning("cdplugin: %s: %s: %s", without, type(error).__name__, error)

    compat.wrap(cls, "__init__", init, without)


def _load_kernels(processor: Any, vllm_config: Any) -> None:
    config, has_processor = vllm_config.structured_outputs_config, compat.names_our_processor(vllm_config.model_config)
    if getattr(processor, "tokenizer", None) is None or (config.backend != NAME and not has_processor):
        return
    engine = _engine(processor.tokenizer, vllm_config.model_config, config)
    engine.only_prefills = compat.only_prefills(vllm_config)
    engine.warm()
    if has_processor:
        importlib.import_module(compat.PROCESSORS).GrammarLogitsProcessor.door = engine


def _apply_masks(runner: Any, vllm_config: Any) -> None:
    if vllm_config.structured_outputs_config.backend != NAME or runner.device.type != "cpu":
        return
    from cdplugin.adapters.vllm import masks

    masks.install(compat.MASKS)


def _patch_beam_search(module: ModuleType) -> None:
    """Make beam search accept our backend; it checks names against a list of its own."""

    def init(original: Any, self: Any, structured_outputs: Any, tokenizer: Any) -> Any:
        vllm_config = self.llm_engine.vllm_config
        config = vllm_config.structured_outputs_config
        if config is None or config.backend != NAME:
            return original(self, structured_outputs, tokenizer)
        from vllm.v1.structured_output.request import get_structured_output_key

        request = compat.checked_request(structured_outputs, vllm_config.model_config, tokenizer)
        with _refusals():
            _engine(tokenizer, vllm_config.model_config, config).check(*request)
        backend = _backend(vllm_config, tokenizer)
        return backend, get_structured_output_key(structured_outputs), backend.allocate_token_bitmask(1)

    name = "_init_beam_search_structured_output"
    for cls in [c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__]:
        if name in vars(cls):
            compat.wrap(cls, name, init, "beam search does not take our backend")


PATCHES: dict[str, Callable[[ModuleType], None]] = {
    compat.PARAMS: _patch_params,
    compat.MANAGER: _patch_manager,
    compat.CONFIG: lambda module: compat.extend_backends(module, _require),
    compat.INPUT: lambda module: _after_init(module, "InputProcessor", _load_kernels, "the first request loads the kernels"),
    compat.ASYNC: _patch_async,
    compat.REGISTRY: _patch_registry,
    compat.RUNNER: lambda module: _after_init(module, "GPUModelRunner", _apply_masks, "bitmasks are applied as vLLM does"),
    **dict.fromkeys(compat.TOOLS, tools.patch),
    compat.BEAM_SEARCH: _patch_beam_search,
}
