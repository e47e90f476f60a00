"""SGLang's grammar backend: :class:`CdpluginBackend`, and the same behind a reasoning parser.

Made in the scheduler's process: one per rank of tensor parallelism, each with its own vocabulary and grammars, which advance
in the same way. It compiles on the threads of SGLang's executor.
"""

from __future__ import annotations

import json
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import torch
from sglang.srt.constrained.base_grammar_backend import (
    BaseGrammarBackend,
    BaseGrammarObject,
    GrammarStats,
    InvalidGrammarObject,
    register_vocab_mask_buffer,
)
from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarBackend, ReasonerGrammarObject
from sglang.srt.parser.reasoning_parser import ReasoningParser
from sglang.srt.plugins.hook_registry import HookRegistry, HookType
from sglang.srt.runtime_context import get_serving

from cdplugin.adapters.serving.engine import Engine
from cdplugin.adapters.serving.requests import ServerOptions
from cdplugin.adapters.sglang.grammar import CdpluginGrammar, guard_drafts
from cdplugin.bitmask import allocate_token_bitmask
from cdplugin.errors import GrammarError
from cdplugin.vocab.vocabulary import Vocabulary

logger = logging.getLogger("sglang.cdplugin")

OPTIONS_VARIABLE = "CDPLUGIN_SGLANG_OPTIONS"
MAX_TEMPLATES = 1024
"""Most requests whose grammars or errors are cached; fewer if they exceed the compiler's cache size in bytes."""
_TRAVERSE = "sglang.srt.speculative.spec_utils.traverse_tree"


def make(server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Iterable[int] | int | None = None) -> Any:
    """The backend of a server, inside SGLang's reasoning wrapper if the server has a reasoning parser.

    Raises :class:`cdplugin.VocabularyError` for a tokenizer that cannot be read exactly and ``ValueError`` for options that
    cannot be read; either stops the server's start.
    """
    serving = get_serving()
    options = ServerOptions.from_environment(OPTIONS_VARIABLE)
    if serving.constrained_json_whitespace_pattern is not None:
        options = replace(options, whitespace=serving.constrained_json_whitespace_pattern, separators=None, indent=None)
    elif serving.constrained_json_disable_any_whitespace:
        options = options.compact()
    elif getattr(serving, "constrained_json_max_whitespace_cnt", None) is not None:
        most = serving.constrained_json_max_whitespace_cnt
        options = replace(options, whitespace=rf"[ \t\n\r]{{0,{most}}}", separators=None, indent=None)
    backend = CdpluginBackend(tokenizer, vocab_size, eos_token_ids, options)
    HookRegistry.register(_TRAVERSE, guard_drafts, HookType.AROUND)
    HookRegistry.apply_hooks()
    if not serving.reasoning_parser:
        return backend
    parser = ReasoningParser(model_type=serving.reasoning_parser, stream_reasoning=False, tokenizer=tokenizer)
    if not parser.detector.get_think_end_token_ids(tokenizer):
        return backend
    return ReasoningBackend(backend, parser, tokenizer, enable_strict_thinking=serving.enable_strict_thinking)


class Refused(InvalidGrammarObject):  # type: ignore[misc]
    """What is wrong with a request, and with an equal one later. SGLang's own may say nothing of that (a time that ran out)."""

    def copy(self) -> Refused:
        return self


class _Bounded(BaseGrammarBackend):
    """Caches the grammars of recent requests only, and why some are refused; SGLang's base class caches all."""

    engine: Engine

    def _bound(self) -> None:
        self._recent: OrderedDict[tuple[str, str], int] = OrderedDict()

    def get_cached_or_future_value(
        self, key: tuple[str, str], require_reasoning: bool
    ) -> tuple[BaseGrammarObject | Future[BaseGrammarObject], bool]:
        if key in self._recent:
            self._recent.move_to_end(key)
        return super().get_cached_or_future_value(key, require_reasoning)

    def set_cache(self, key: tuple[str, str], value: BaseGrammarObject) -> None:
        if isinstance(value, InvalidGrammarObject) and not isinstance(value, Refused):
            return
        super().set_cache(key, value)
        self._recent[key] = 0
        self._recent.move_to_end(key)
        for name in self._recent:  # grammars grow while they are used, so measure all again
            self._recent[name] = 2 * len(name[1]) + _bytes_of(self.cache.get(name))
        total = sum(self._recent.values())
        most = self.engine.compiler.limits.max_cache_bytes
        while self._recent and (len(self._recent) > MAX_TEMPLATES or total > most):
            oldest, nbytes = self._recent.popitem(last=False)
            total -= nbytes
            self.cache.pop(oldest, None)

    def reset(self) -> None:
        super().reset()
        self._recent.clear()


def _bytes_of(value: Any) -> int:
    grammar = value if isinstance(value, CdpluginGrammar) else getattr(value, "grammar", None)
    return grammar.matcher.grammar.nbytes if isinstance(grammar, CdpluginGrammar) else 0


class CdpluginBackend(_Bounded):
    """Compiles requests for one tokenizer. The ``dispatch_…`` methods return a grammar or an ``InvalidGrammarObject``; none
    raises.
    """

    def __init__(
        self,
        tokenizer: Any,
        vocab_size: int,
        eos_token_ids: Iterable[int] | int | None = None,
        options: ServerOptions | None = None,
    ) -> None:
        super().__init__()
        self._bound()
        began = time.monotonic()
        vocab = Vocabulary.from_huggingface(tokenizer, vocab_size=vocab_size)
        given = [eos_token_ids] if isinstance(eos_token_ids, int) else list(eos_token_ids or ())
        ends = sorted({*vocab.eos_token_ids, *(int(token) for token in given)})
        if tuple(ends) != tuple(vocab.eos_token_ids):
            vocab = Vocabulary.from_huggingface(tokenizer, vocab_size=vocab_size, eos_token_ids=ends)
        self.engine = Engine(vocab, options or ServerOptions.from_environment(OPTIONS_VARIABLE), logger)
        self.engine.warm()
        logger.info("cdplugin: structured outputs are ready: %s, in %.1f s", vocab, time.monotonic() - began)

    def dispatch_json(self, key_string: str) -> BaseGrammarObject:
        text = "true" if key_string == "$$ANY$$" else key_string  # SGLang's name for any JSON
        return self._grammar("json", "JSON", text, lambda: {"type": "json_schema", "json_schema": json.loads(text)})

    def dispatch_regex(self, key_string: str) -> BaseGrammarObject:
        return self._grammar("regex", "REGEX", key_string, lambda: {"type": "regex", "pattern": key_string})

    def dispatch_ebnf(self, key_string: str) -> BaseGrammarObject:
        return self._grammar("ebnf", "GRAMMAR", key_string, lambda: {"type": "grammar", "grammar": key_string})

    def dispatch_structural_tag(self, key_string: str) -> BaseGrammarObject:
        try:
            text = json.dumps(_as_tag(json.loads(key_string)))
        except (ValueError, RecursionError) as error:
            return Refused(f"malformed structural tag: expected JSON, found {error}")
        return self._grammar("structural_tag", "STRUCTURAL_TAG", text, lambda: None)

    def _grammar(self, name: str, kind: str, text: str, content: Callable[[], Any]) -> BaseGrammarObject:
        try:
            grammar = self.engine.admitted(kind, text)
            ahead = self.engine.ahead
            made = CdpluginGrammar(grammar.matcher(), text, content(), GrammarStats(dispatch_type=name), ahead)
            if ahead is not None:
                ahead.follow(made.matcher)
            return made
        except GrammarError as error:
            return Refused(str(error))
        except Exception as error:
            logger.exception("cdplugin: a request that cannot be compiled; please report this")
            return InvalidGrammarObject(f"this request cannot be compiled: {type(error).__name__}: {error}")

    # --- what SGLang's reasoning wrapper calls ------------------------------------------------------------------------------

    def compile_framed_grammar(
        self, grammar: BaseGrammarObject, frame: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> BaseGrammarObject | None:
        """A grammar inside the model's own framing of a turn. None, with a log line, if it cannot be embedded."""
        content = getattr(grammar, "content", None)
        if content is None:
            return None
        framed = self._grammar("structural_tag", "STRUCTURAL_TAG", json.dumps(frame(content)), lambda: None)
        if isinstance(framed, InvalidGrammarObject):
            logger.warning("cdplugin: the model's framing is not enforced: %s", framed.error_message)
            return None
        return framed

    @property
    def is_support_token_filter(self) -> bool:
        return True

    @staticmethod
    def set_token_filter(
        vocab_mask: torch.Tensor, token_ids: list[int], batch_idx: int, is_allowed: bool = True, reset_vocab_mask: bool = True
    ) -> None:
        """Allow or forbid some tokens in a row; SGLang's strict thinking uses it."""
        from sglang.srt.constrained.torch_ops.token_filter_torch_ops import set_token_filter_torch

        set_token_filter_torch(vocab_mask, token_ids, batch_idx, is_allowed=is_allowed, reset_vocab_mask=reset_vocab_mask)

    def initialize_vocab_mask_buffer(self, name: str, vocab_size: int, max_rows: int, device: Any) -> torch.Tensor:
        return register_vocab_mask_buffer(name, self.allocate_vocab_mask(vocab_size, max_rows, device), max_rows)

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> torch.Tensor:
        return allocate_token_bitmask(batch_size, self.engine.vocab.size)

    move_vocab_mask = staticmethod(CdpluginGrammar.move_vocab_mask)
    apply_vocab_mask = staticmethod(CdpluginGrammar.apply_vocab_mask)


class ReasonedGrammar(ReasonerGrammarObject):
    """SGLang's wrapper for reasoning, with the batched mask call added."""

    fill_vocab_mask_batched = staticmethod(CdpluginGrammar.fill_vocab_mask_batched)

    def copy(self) -> ReasonedGrammar:
        return _reasoned(super().copy())


def _reasoned(grammar: Any) -> Any:
    grammar.__class__ = ReasonedGrammar  # SGLang's wrapper names its own class when it makes and copies objects
    return grammar


class ReasoningBackend(_Bounded, ReasonerGrammarBackend):
    """Reasoning is unconstrained, or filtered by SGLang's rules; the grammar starts after it."""

    def __init__(self, grammar_backend: CdpluginBackend, *arguments: Any, **named: Any) -> None:
        ReasonerGrammarBackend.__init__(self, grammar_backend, *arguments, **named)
        self._bound()
        self.engine = grammar_backend.engine

    def _make_grammar_object(self, grammar: BaseGrammarObject | None, reasoning: bool) -> ReasonedGrammar:
        return _reasoned(super()._make_grammar_object(grammar, reasoning))


def _as_tag(tag: Any) -> Any:
    """SGLang's structural tags in the shapes that our front end knows: omitted schemas allow any value, and ``at_least_one`` of
    the legacy shape becomes triggered tags. A tag of neither shape is returned unchanged: the front end reports what is wrong.
    """
    if not isinstance(tag, dict):
        return tag
    structures = tag.get("structures")
    if structures is None:
        return _with_schemas(tag)
    if not isinstance(structures, list) or not all(isinstance(one, dict) for one in structures):
        return tag
    structures = [{**one, "schema": {} if one.get("schema") is None else one["schema"]} for one in structures]
    rest = {name: value for name, value in tag.items() if name != "at_least_one"}
    if not tag.get("at_least_one"):
        return {**rest, "structures": structures}
    contents = [{"type": "json_schema", "json_schema": one["schema"]} for one in structures]
    tags = [
        {"type": "tag", "begin": one.get("begin"), "end": one.get("end"), "content": content}
        for one, content in zip(structures, contents, strict=True)
    ]
    triggered = {"type": "triggered_tags", "triggers": tag.get("triggers"), "tags": tags, "at_least_one": True}
    return {"type": "structural_tag", "format": triggered}


def _with_schemas(tag: Any) -> Any:
    """A tag whose formats have ``{}`` for omitted schemas. Changes ``tag``."""
    waiting: list[Any] = [tag]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if node.get("type") in ("json_schema", "qwen_xml_parameter") and node.get("json_schema") is None:
                node["json_schema"] = {}
            waiting += [node[name] for name in ("format", "content", "elements", "tags") if name in node]
        elif isinstance(node, list):
            waiting += node
    return tag
