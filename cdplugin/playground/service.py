"""The playground's answers: dictionaries in and out, no HTTP.

Every request has a bounded cost: specs and texts have a maximal length, compiling and stepping have smaller budgets than
elsewhere (:data:`LIMITS`), and the work of all steps of a request is added up. Requests are answered one at a time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cdplugin.bits import bitmask_words
from cdplugin.compiler import Compiler
from cdplugin.errors import EngineError, GrammarError
from cdplugin.limits import Limits
from cdplugin.matcher import Grammar, Matcher
from cdplugin.queries.explain import refused_byte
from cdplugin.queries.trace import token_label
from cdplugin.specs.kinds import KINDS, spec_of
from cdplugin.vocab.groups import TokenGroups
from cdplugin.vocab.vocabulary import Vocabulary

LIMITS = Limits(
    max_spec_bytes=64 << 10,
    max_spec_depth=200,
    max_rules=50_000,
    max_lexemes=20_000,
    max_step_work=5_000_000,
    max_compile_work=20_000_000,
    max_completion_steps=5_000,
    max_arena_bytes=64 << 20,
    max_cache_bytes=256 << 20,
)
"""Budgets of one grammar: typed input needs little, and small budgets keep the page responsive."""
MOST_TEXT = 16 << 10
"""Most bytes of the text."""
MOST_PROMPT = 4 << 10
MOST_WORK = 40_000_000
"""Most work of following one request's text, summed over its steps, in units of ``Limits.max_step_work``."""
MOST_ANSWER = 128
"""Most tokens of the model's answer."""
_KEPT = 8  # grammars whose matcher is kept for the next keystroke
_SAMPLES = 24
_LOOKED_AT = 16  # the work done is checked once per this many tokens


class RequestError(Exception):
    """A malformed request: the message names the field, what was expected and what was found."""


@dataclass(frozen=True)
class Question:
    """The checked fields of a request."""

    kind: str
    spec: str
    text: str
    other: str = ""

    @classmethod
    def read(cls, request: Any, other: str = "", most: int = 0) -> Question:
        """Check a decoded JSON value. ``other``: name of a fourth field, of at most ``most`` bytes. Raises RequestError."""
        if not isinstance(request, Mapping):
            raise RequestError(f"request: expected an object, found {type(request).__name__}")
        names = ["kind", "spec", "text", *([other] if other else [])]
        unknown = [name for name in request if name not in names]
        if unknown:
            raise RequestError(f"request: expected the fields {', '.join(names)}, found {unknown[0][:40]!r}")
        values = [_text(request, name, most if name == other else LIMITS.max_spec_bytes) for name in names]
        if values[0] not in KINDS:
            raise RequestError(f"kind: expected one of {', '.join(KINDS)}, found {values[0][:40]!r}")
        if len(values[2].encode()) > MOST_TEXT:
            raise RequestError(f"text: expected at most {MOST_TEXT} bytes, found {len(values[2].encode())}")
        return cls(*values)


def _text(request: Mapping[str, Any], name: str, most: int) -> str:
    value = request.get(name, "")
    if not isinstance(value, str):
        raise RequestError(f"{name}: expected a string, found {type(value).__name__}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise RequestError(f"{name}: expected Unicode text, found a lone surrogate") from None
    if size > most:
        raise RequestError(f"{name}: expected at most {most} bytes, found {size}")
    return value


class Playground:
    """Answers for one vocabulary, and a model if there is one (:class:`cdplugin.playground.model.Model`)."""

    def __init__(self, vocab: Vocabulary, name: str = "bytes", model: Any = None) -> None:
        self.vocab = vocab
        self.name = name
        self.model = model
        self._compiler = Compiler(vocab, LIMITS)
        self._groups = TokenGroups(vocab)
        self._matchers: OrderedDict[tuple[str, str], Matcher] = OrderedDict()
        self._row = np.zeros((1, bitmask_words(vocab.size)), np.int32)
        self._lock = threading.Lock()
        self._answering = threading.Lock()

    def info(self) -> dict[str, Any]:
        """What the page shows of vocabulary and model."""
        model = None if self.model is None else {"name": self.model.name, "state": self.model.state}
        return {"tokenizer": self.name, "size": self.vocab.size, "model": model, "kinds": list(KINDS)}

    def step(self, request: Any) -> dict[str, Any]:
        """Follow a text: its tokens, and what may come after the allowed ones. Raises RequestError."""
        question = Question.read(request)
        with self._lock:
            try:
                matcher = self._matcher(question)
                tokens = self._encode(question.text)
                stopped = self._follow(matcher, tokens)
                return self._answer(matcher, tokens, stopped)
            except (GrammarError, EngineError) as error:
                self._matchers.pop((question.kind, question.spec), None)
                return {"error": _error(error)}

    def why(self, request: Any) -> dict[str, Any]:
        """Whether ``what`` may follow the text, and if not, why. Raises RequestError."""
        question = Question.read(request, "what", 256)
        with self._lock:
            try:
                matcher = self._matcher(question)
                tokens = self._encode(question.text)
                if self._follow(matcher, tokens) or len(matcher.tokens) < len(tokens):
                    return {"allowed": False, "reason": "the text before it is refused already"}
                trace = matcher.trace(self._encode(question.other), limit=64)
            except (GrammarError, EngineError) as error:
                return {"error": _error(error)}
        last = trace.steps[-1] if trace.steps else None
        reason = trace.stopped if last is None or last.accepted else last.reason
        allowed = trace.accepted and not trace.stopped
        return {"allowed": allowed, "reason": reason, "tokens": [s.label for s in trace if s.token_id is not None]}

    def answer(self, request: Any) -> dict[str, Any]:
        """The model's constrained answer to ``prompt``, with the token that it preferred at each step. Raises RequestError."""
        question = Question.read(request, "prompt", MOST_PROMPT)
        if self.model is None:
            raise RequestError("model: the playground was started without one (cdplugin playground --model NAME)")
        if not self._answering.acquire(blocking=False):
            raise RequestError("model: it is busy with another request")
        try:
            grammar = self._compiler.compile(spec_of(question.kind, question.spec))
            trace = self.model.answer(grammar, question.other, MOST_ANSWER)
        except (GrammarError, EngineError, ValueError) as error:
            return {"error": _error(error)}
        finally:
            self._answering.release()
        text = trace.decode(step.token_id for step in trace if step.token_id is not None and step.text)
        return {"text": text.decode("utf-8", "replace"), **trace.to_dict()}

    # --- inside -------------------------------------------------------------------------------------------------------------

    def _matcher(self, question: Question) -> Matcher:
        """The matcher of the last request with this spec, or a new one."""
        key = (question.kind, question.spec)
        matcher = self._matchers.pop(key, None)
        if matcher is None:
            matcher = self._compiler.compile(spec_of(question.kind, question.spec)).matcher()
        self._matchers[key] = matcher
        while len(self._matchers) > _KEPT:
            self._matchers.popitem(last=False)
        return matcher

    def _encode(self, text: str) -> list[int]:
        if self.vocab.encode is not None:
            return list(self.vocab.encode(text))
        by_byte = self.vocab.token_of[0]
        return [by_byte.get(bytes([byte]), -1) for byte in text.encode()]

    def _follow(self, matcher: Matcher, tokens: list[int]) -> str:
        """Advance a matcher to the last allowed token of a text. Returns why it stopped early if a budget ran out, else ''."""
        known = matcher.tokens
        same = next((i for i, (a, b) in enumerate(zip(known, tokens, strict=False)) if a != b), min(len(known), len(tokens)))
        matcher.rollback(len(known) - same)
        before = _work(matcher.grammar)
        for place in range(same, len(tokens)):
            if not 0 <= tokens[place] < self.vocab.size or not matcher.accept_token(tokens[place]):
                break
            if place % _LOOKED_AT == 0 and _work(matcher.grammar) - before > MOST_WORK:
                return f"the text takes more than {MOST_WORK:,} units of work: it was followed for {place + 1} tokens"
        return ""

    def _answer(self, matcher: Matcher, tokens: list[int], stopped: str) -> dict[str, Any]:
        followed = len(matcher.tokens)
        out: dict[str, Any] = {
            "tokens": self._labels(tokens),
            "followed": followed,
            "stopped": stopped,
            "refused": None if stopped or followed == len(tokens) else self._refusal(matcher, tokens[followed]),
            "relaxed": [list(one) for one in matcher.grammar.relaxed],
        }
        here = matcher.trace([], limit=1)
        if here.steps:
            step = here.to_dict()["steps"][0]
            out |= {name: step[name] for name in ("allowed", "may_end", "expected", "places", "forced", "ending")}
            matcher.fill_next_token_bitmask(self._row)
            out["groups"] = [
                {"name": one.name, "count": one.count, "tokens": self._labels(one.tokens)}
                for one in self._groups.samples(self._row[0], _SAMPLES)
            ]
        else:
            out["stopped"] = out["stopped"] or here.stopped
        return out

    def _refusal(self, matcher: Matcher, token: int) -> dict[str, Any]:
        if not 0 <= token < self.vocab.size:
            return {"token": token, "label": "", "reason": "a byte that no token of the vocabulary spells", "byte": 0}
        reason = matcher.explain(token)
        return {"token": token, "label": token_label(self.vocab, token), "reason": reason, "byte": refused_byte(reason)}

    def _labels(self, tokens: Iterable[int]) -> list[str]:
        texts = self.vocab.tokens
        out = []
        for token in tokens:
            text = texts[token] if 0 <= token < self.vocab.size else None
            out.append(text.decode("utf-8", "backslashreplace") if text else token_label(self.vocab, token))
        return out


def _work(grammar: Grammar) -> int:
    return grammar.counters()["work"]


def _error(error: Exception) -> dict[str, str]:
    fields = ("message", "location", "keyword", "expected", "found", "context")
    out = {name: str(getattr(error, name)) for name in fields if getattr(error, name, "")}
    return {"message": str(error), **out, "kind": type(error).__name__}
