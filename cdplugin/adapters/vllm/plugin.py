"""vLLM's entry points: they make ``cdplugin`` a name that vLLM's configuration knows.

vLLM calls :func:`register` unguarded in each of its processes, some more than once: it is light, may be called again, and never
raises. What has to be changed lies in a few modules of vLLM; each is changed when it is imported (at once if it was), so that
nothing is imported early. Two of them are needed before the configuration may name us, which is checked when it does:

========================================  ====================================================================================
``SamplingParams``                        the front end validates each request with our compiler; invalid ones get HTTP 400
``StructuredOutputManager``               our backend is made at engine start; a request's budget reaches its grammar, and
                                          does not wait for somebody else's
``StructuredOutputsConfig``               takes our name
``InputProcessor``                        (may be missing) the front end loads its kernels before the first request
``AsyncLLM``                              (may be missing) a request's check does not stop the server's event loop; one that
                                          crosses a budget while it is decoded is answered with HTTP 400 and the reason
``GPUModelRunner``                        (may be missing) on a CPU our kernel applies the bitmasks, where the backend is ours
``get_prometheus_registry``               (may be missing) ``/metrics`` shows our numbers too, of all processes
structural tags of tools                  (may be missing) tools are strict where clients do not say, if an option asks for it
offline beam search                       (may be missing) takes our backend where it lists the known ones
========================================  ====================================================================================

Where a version lacks something, one log line says what, and vLLM keeps its own backends.
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

from cdplugin.adapters.vllm import compat as compat
from cdplugin.adapters.vllm import tools
from cdplugin.adapters.vllm.compat import NAME, NotFoundError

if TYPE_CHECKING:
    from cdplugin.adapters.vllm.grammar import Engine

logger = logging.getLogger("vllm.cdplugin")

_MARK = "__cdplugin__"
_ARRIVED = "_cdplugin_arrived"
CROSSED = "cdplugin: "
"""How the ``stop_reason`` begins of a request that crossed a budget while it was decoded, or got a token not allowed."""
_searching = threading.local()


def register() -> None:
    """Entry point of ``vllm.general_plugins`` and ``vllm.platform_plugins``: have vLLM's modules changed as they are imported.

    The second group is loaded earlier, before ``LLM(structured_outputs_config=…)`` makes its configuration; None means that we
    are no platform.
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
    """Finds a module as the other finders do, and has it changed as soon as it is loaded."""

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
        except AttributeError:  # a loader without attributes: changed by the next call of register()
            return None
        return spec


def apply(module: ModuleType) -> None:
    """Change a module, once; a line in the log if that is not possible."""
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

    A JSON schema goes on as text: vLLM sends it to the engine in a format that has no integers beyond 64 bits.
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
    """The tokens in which an answer has to end; None where it need not, or where only the model's context bounds it."""
    from cdplugin.adapters.vllm import budget

    given = budget.of_params(params, engine.options.endings)
    return None if engine.only_prefills else given


def _engine(tokenizer: Any, model_config: Any, config: Any) -> Engine:
    from cdplugin.adapters.vllm.grammar import engine_for

    return engine_for(tokenizer, model_config.get_vocab_size(), config.disable_any_whitespace)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """A context in which our errors become vLLM's validation error."""
    from cdplugin.errors import CdpluginError

    try:
        yield
    except CdpluginError as error:
        raise compat.validation_error()(f"structured_outputs: {error}") from None


def _patch_async(module: ModuleType) -> None:
    """Requests wait for their check before anything of them is done on the server's event loop."""
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
    """A request that crossed a budget while it was decoded, or got a token that its grammar does not allow, is told so, with
    HTTP 400; vLLM knows only an internal error.
    """
    original = getattr(cls, "generate", None)
    if original is None or not inspect.isasyncgenfunction(original):
        logger.debug("cdplugin: no %s.generate: crossed budgets are answered as internal errors", cls.__name__)
        return

    @functools.wraps(original)
    async def generate(self: Any, *arguments: Any, **named: Any) -> Any:
        async with contextlib.aclosing(original(self, *arguments, **named)) as outputs:  # who stops reading aborts the request
            async for output in outputs:
                for completion in output.outputs if output.finished else ():
                    reason = completion.stop_reason
                    if completion.finish_reason == "error" and isinstance(reason, str) and reason.startswith(CROSSED):
                        raise compat.validation_error()(f"structured_outputs: {reason.removeprefix(CROSSED)}")
                yield output

    cls.generate = generate


async def _check_off_loop(params: Any, vllm_config: Any, tokenizer: Any) -> None:
    """Check what a request asks of us: of the backend, or of the logits processor."""
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
    """Requests hand their budget to the grammars that are made for them, and how long they waited is counted."""

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
    """Give a new state its request's budget, and where to report a crossed one; note the wait since ``began``. Never raises."""
    from cdplugin.adapters.serving.metrics import NUMBERS

    _set_budget(state, request, vllm_config, backend)
    with contextlib.suppress(AttributeError):
        state.tell = lambda reason: setattr(request, "stop_reason", CROSSED + reason)  # vLLM carries it to the front end
    NUMBERS.observe("cdplugin_grammar_wait_seconds", time.monotonic() - began)
    if not compat.only_prefills(vllm_config):
        with contextlib.suppress(AttributeError):
            state.meet_ahead()


def _patch_registry(module: ModuleType) -> None:
    """Whoever asks vLLM for its registry, to answer ``/metrics`` from it, gets ours in it where our backend is used."""

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
    """Give a request's budget to the state of its grammar. Raises nothing: without one the answer may be cut off."""
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
    """Queues of our own in the place of vLLM's one, where it is as we know it."""
    workers = getattr(executor, "_max_workers", None)
    if not isinstance(workers, int):
        logger.debug("cdplugin: no ThreadPoolExecutor: grammars are compiled where vLLM says")
        return executor
    from cdplugin.adapters.vllm.threads import GrammarThreads

    executor.shutdown(wait=False)
    return GrammarThreads(engine, workers)


def _require() -> None:
    """Make sure that the patches without which our name must not be used are in place. Raises ``ValueError``."""
    for name in (compat.PARAMS, compat.MANAGER):
        module = importlib.import_module(name)
        apply(module)
        if not getattr(module, _MARK, False):
            raise ValueError(f"cdplugin: {name} of vLLM {compat.version()} is not as expected; choose another backend")
    from cdplugin.adapters.serving import metrics

    metrics.share()


def _after_init(module: ModuleType, name: str, then: Callable[[Any, Any], None], without: str) -> None:
    """Have ``then(object, vLLM's configuration)`` called for each new object of a class. What it raises is logged.

    ``without``: what is so where this vLLM has no such class, or ``then`` fails.
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
    """Beam search lists the backends that it knows; ours is put where it looks."""

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
