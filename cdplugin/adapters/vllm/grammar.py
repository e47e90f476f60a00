"""The state of vLLM's structured-output requests: compiled grammars with token budgets, and an object that never raises.

Nothing here imports vLLM: :mod:`cdplugin.adapters.vllm.backend` binds it to vLLM's classes. There is one :class:`Engine` per
tokenizer; it caches compiled grammars, which vLLM itself does not.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from time import perf_counter
from typing import Any

import numpy as np

from cdplugin import forking
from cdplugin.adapters.serving import engine as serving
from cdplugin.adapters.serving.door import taking_turns
from cdplugin.adapters.serving.engine import Asked
from cdplugin.adapters.serving.metrics import NUMBERS
from cdplugin.adapters.serving.requests import ServerOptions, spec_of
from cdplugin.adapters.vllm.budget import ARGUMENT, FixedBudget, RequestBudget
from cdplugin.ahead import Ahead
from cdplugin.bitmask import bitmask_view
from cdplugin.bits import allow_only, bitmask_words
from cdplugin.collector import gc_paused
from cdplugin.errors import BudgetError, EngineError, GrammarError, LimitExceeded, told
from cdplugin.matcher import Grammar, Matcher
from cdplugin.memory import ByteLru, short_key, size_of
from cdplugin.vocab.vocabulary import Vocabulary

logger = logging.getLogger("vllm.cdplugin")  # a child of vLLM's logger, whose handler then shows the lines

OPTIONS_VARIABLE = "CDPLUGIN_VLLM_OPTIONS"
_LEAST_BYTES = 1 << 20
_ENTRY_BYTES = 200
_NOT_ALLOWED = (
    "after {} tokens of the answer: expected a token that the grammar allows there, found token {}: something else chose it, "
    "or left none that the grammar allows (min_tokens, allowed_token_ids, bad_words, a logits processor)"
)


@dataclass(slots=True)
class _KnownBudgets:
    """A request's known budgets: one that is ``enough`` for some answer, and the largest known to be ``too_few``."""

    enough: int = 1 << 62
    too_few: int = -1

    def tells(self, budget: int) -> bool:
        """Whether it is known if ``budget`` is enough."""
        return not self.too_few < budget < self.enough


class Engine(serving.Engine):
    """The engine of one tokenizer in vLLM: adds budgets and states to requests."""

    def __init__(self, vocab: Vocabulary, options: ServerOptions) -> None:
        super().__init__(vocab, options, logger)
        self.only_prefills = False
        """Whether answers are decoded elsewhere, so that they need no room to end here."""
        self._least: ByteLru[_KnownBudgets] = ByteLru("smallest budgets", _LEAST_BYTES)

    def state(self, request_type: str, text: str, stop_token_ids: Iterable[int] | None = None) -> GrammarState:
        """The state at the start of a text. Stop tokens outside the vocabulary are ignored. Raises :class:`GrammarError`."""
        stops = sorted({int(t) for t in stop_token_ids or () if 0 <= int(t) < self.vocab.size})
        matcher = self.grammar(request_type, text).matcher(stops or None)
        return GrammarState(matcher, Watch(self, Asked(request_type, text)), self.options.late_mask_seconds, self.ahead)

    def check(self, request_type: str, text: str, budget: int | None = None) -> None:
        """Also raises :class:`cdplugin.BudgetError` if no answer fits ``budget`` tokens, the stop token included."""
        super().check(request_type, text)
        if budget is not None:
            key = short_key((request_type, text))
            known = self._known_budgets(key)
            _refuse_below(known.enough if known.tells(budget) else self._find_budget(key, request_type, text, budget), budget)

    async def check_off_loop(self, request_type: str, text: str, budget: int | None = None) -> None:
        """:meth:`check`, on another thread unless the result is known."""
        await super().check_off_loop(request_type, text)
        if budget is not None:
            key = short_key((request_type, text))
            known = self._known_budgets(key)
            enough = known.enough
            if not known.tells(budget):
                search = functools.partial(self._find_budget, key, request_type, text, budget)
                enough = await self._off_loop.run((key, budget), len(text), search)
            _refuse_below(enough, budget)

    def _find_budget(self, key: Any, request_type: str, text: str, budget: int) -> int:
        """:meth:`_least_budget`, remembered. A longer answer may take fewer tokens, so a larger budget is
        searched for again.
        """
        with gc_paused():
            least = self._least_budget(request_type, text, budget)
        known = self._known_budgets(key)
        known.enough = min(known.enough, least)
        if budget < least:
            known.too_few = max(known.too_few, budget)
        return known.enough

    def _known_budgets(self, key: Any) -> _KnownBudgets:
        """The known budgets of a request; a new, empty record if there is none."""
        known: _KnownBudgets | None = self._least.get(key)
        return known or self._least.put(key, _KnownBudgets(), _ENTRY_BYTES + size_of(key))[0]

    def _least_budget(self, request_type: str, text: str, budget: int) -> int:
        """A budget that is enough, or 0 if none can be found; at most ``budget``, if that is enough."""
        try:
            with taking_turns:
                matcher = self.compiler.compile_ir(
                    spec_of(request_type, text, self.options).rules(self.compiler.limits)
                ).matcher()
                row = np.zeros((1, bitmask_words(self.vocab.size)), np.int32)
                matcher.fill_next_token_bitmask(row, 0, budget)
                return min(budget, len(matcher.shortest_completion()) + 1)
        except BudgetError as error:
            return error.least
        except (GrammarError, EngineError):
            return 0

    def _admitted(self, key: Any, grammar: Grammar) -> None:
        """Remember a budget that is enough for an answer; 0 if none can be found."""
        if not self.options.endings:
            return
        try:
            least = grammar.matcher().enough_tokens() + 1  # an upper bound; `check` searches if a budget is below it
        except (GrammarError, EngineError):
            least = 0
        known = self._known_budgets(key)
        known.enough = min(known.enough, least)


def _refuse_below(least: int, budget: int) -> None:
    """Raise :class:`cdplugin.BudgetError` if the budget is below ``least``."""
    if budget < least:
        raise BudgetError(
            f"max_tokens={budget}: expected at least {least}, since no shorter answer was found with its stop token; "
            f"cdplugin's 'endings' option, or {ARGUMENT!r}: false in a request, lets answers be cut off",
            budget,
            least,
        )


class Watch:
    """Counts events of a request's answer, and logs late masks."""

    __slots__ = ("_asked", "_engine", "_places")

    def __init__(self, engine: Engine, asked: Asked) -> None:
        self._engine = engine
        self._asked = asked
        self._places: set[str] = set()

    def late_mask(self, seconds: float) -> None:
        """Count and log a mask that took too long."""
        NUMBERS.add("cdplugin_masks_late")
        NUMBERS.observe("cdplugin_late_mask_seconds", seconds)
        self._engine.slow.tell("a mask", seconds, self._asked)

    def once(self, name: str, value: str = "") -> None:
        """Count an event at most once per answer."""
        if name not in self._places:
            self._places.add(name)
            NUMBERS.add(name, value)


_engines: OrderedDict[tuple[int, int, bool], tuple[Any, Engine]] = OrderedDict()
_engines_lock = threading.Lock()


@forking.in_child
def _renew_lock() -> None:
    global _engines_lock
    _engines_lock = threading.Lock()
    for _, engine in _engines.values():
        engine.renew_threads()


def engine_for(tokenizer: Any, vocab_size: int, compact: bool = False) -> Engine:
    """The engine of a tokenizer, made at the first call. ``compact``: JSON without whitespace, whatever the options say.

    Raises :class:`cdplugin.VocabularyError`, and ``ValueError`` for options that cannot be read.
    """
    key = (id(tokenizer), vocab_size, compact)
    with _engines_lock:
        if key not in _engines:
            options = ServerOptions.from_environment(OPTIONS_VARIABLE)
            vocab = Vocabulary.from_huggingface(tokenizer, vocab_size=vocab_size)
            if compact:
                options = options.compact()
            _engines[key] = (tokenizer, Engine(vocab, options))  # keep the tokenizer alive, so that its id is not reused
            if len(_engines) > 4:
                _engines.popitem(last=False)
        return _engines[key][1]


# ---- one sequence ------------------------------------------------------------------------------------------------------------


class GrammarState:
    """The state of one request in its grammar, by the contract of vLLM's ``StructuredOutputGrammar``. **No method raises**,
    because an exception ends the engine for all requests.

    When a budget is exceeded, the mask allows only stop tokens and the next token is refused, so that vLLM ends this request
    with an error. The failure belongs to its place in the text: a rollback to an earlier place clears it.
    """

    def __init__(
        self, matcher: Matcher, watch: Watch | None = None, late_seconds: float = math.inf, ahead: Ahead | None = None
    ) -> None:
        """``watch`` is told of masks that take longer than ``late_seconds``, and of events of the answer; ``ahead`` computes
        likely masks in advance.
        """
        self._matcher = matcher
        self._ahead = ahead
        self._watch = watch
        self._late = late_seconds
        self._count = 0  # tokens accepted by the matcher
        self._surplus = 0  # tokens accepted that the matcher has not: after the end, and drafts where something failed
        self._drafts: tuple[int, list[int]] = 0, []  # how many tokens came before the drafts, and the legal ones
        self._has_told = False
        self._failed: tuple[int, ...] | None = None  # the tokens after which something failed
        self._is_lost = False  # a rollback failed: the matcher's state differs from vLLM's
        self._crossed = ""  # the message of the last exceeded budget
        self.tell: Callable[[str], object] | None = None
        """Called with the reason when a token is refused: an exceeded budget, or a token that was not allowed. That ends the
        request, unless vLLM asks for a mask all the same (the token was a draft behind the end of reasoning): then called with
        an empty reason.
        """
        self.budget: RequestBudget | FixedBudget | None = None
        """How many tokens may still come; None: any number."""

    def fill_bitmask(self, bitmask: Any, batch_index: int) -> None:
        """Write the allowed tokens into a row of an int32 bitmask."""
        ahead = self._ahead
        try:
            if self._has_told and self.tell is not None:
                self._has_told = False
                self.tell("")
            if not self._is_stuck():
                if ahead is not None:
                    ahead.touch()
                began = perf_counter()
                self._fill(bitmask, batch_index)
                seconds = perf_counter() - began
                if ahead is not None:
                    ahead.follow(self._matcher)
                if seconds > self._late and self._watch is not None:
                    self._watch.late_mask(seconds)
                return
        except Exception as error:
            self._fail("mask", error)
        try:
            row = bitmask_view(bitmask, self._matcher.grammar.vocab.size)[batch_index]
            allow_only(row, self._matcher.stop_token_ids)
        except Exception:
            logger.exception("cdplugin: a bitmask that cannot be written; please report this")

    def prepare(self) -> None:
        """Do in advance, on this thread, what the first mask needs: the mask itself and the lengths of endings."""
        late, self._late = self._late, math.inf  # not late: only this request waits
        with taking_turns:
            self.fill_bitmask(np.zeros((1, bitmask_words(self._matcher.grammar.vocab.size)), np.int32), 0)
        self._late = late

    def meet_ahead(self) -> None:
        """Compute likely masks of the answer's start while the model reads the prompt."""
        if self._ahead is not None:
            self._ahead.follow(self._matcher)
            counts = self._ahead.counters()
            NUMBERS.set("cdplugin_places", counts["places"])
            NUMBERS.set("cdplugin_places_met", counts["met"])

    def _fill(self, bitmask: Any, batch_index: int) -> None:
        """Write a row: the tokens after which the answer can still end in time, if it can at all."""
        if self.budget is not None:
            budget = self.budget.left(self._count)
            try:
                if budget is None or budget > 0:
                    self._matcher.fill_next_token_bitmask(bitmask, batch_index, budget)
                    if self._matcher.was_narrowed():
                        self._count_once("cdplugin_endings_forced")
                    return
            except BudgetError as error:  # the row was filled as if there were no budget
                if not self.budget.has_drafts(self._count):  # drafts beyond the end are never accepted
                    logger.warning("cdplugin: an answer will be cut off after %d tokens: %s", self._count, error)
                    self.budget = None
                    self._count_once("cdplugin_endings_missed")
                return
            except (LimitExceeded, EngineError) as error:
                logger.warning(
                    "cdplugin: no ending is known after %d tokens; the answer may be cut off: %s", self._count, error
                )
                self.budget = None
                self._count_once("cdplugin_endings_missed")
        self._matcher.fill_next_token_bitmask(bitmask, batch_index)

    def _count_once(self, name: str, value: str = "") -> None:
        if self._watch is not None:
            self._watch.once(name, value)

    def accept_tokens(self, request_id: str, tokens: Sequence[int]) -> bool:
        """Accept all tokens and return True, or none and return False. True for no tokens, and for any after the end.

        Also True for drafts that :meth:`validate_tokens` found legal, where a mask or the matcher has failed meanwhile: vLLM's
        scheduler ends, with all requests, if one is refused. Their masks allow only stop tokens.
        """
        count, surplus, token = self._count, self._surplus, None
        if self._ahead is not None:
            self._ahead.touch()
        try:
            for token in tokens:
                if not self._follow(request_id, token):
                    break
            else:
                return True
        except Exception as error:
            if not isinstance(error, (TypeError, ValueError)):  # else not a token at all
                self._fail(f"request {request_id}: token", error)
        self._tell_why(token)
        self._surplus = surplus
        self._undo(self._count - count)
        return False

    def _follow(self, request_id: str, token: int) -> bool:
        """Accept a token, if it is allowed."""
        if self._matcher.is_terminated():
            self._surplus += 1
            return True
        if not self._is_stuck():
            try:
                is_allowed = self._matcher.accept_token(token)
                self._count += is_allowed
                return is_allowed
            except Exception as error:
                if isinstance(error, (TypeError, ValueError)) and not isinstance(error, GrammarError):
                    raise  # not a token at all
                self._fail(f"request {request_id}: token", error)
        place, drafts = self._drafts
        known, passed = self._matcher.tokens[place:], self._count - place + self._surplus
        if self._count < place or known != tuple(drafts[: len(known)]) or drafts[passed : passed + 1] != [token]:
            return False
        self._surplus += 1
        return True

    def _tell_why(self, token: int | None) -> None:
        """Report why a token is refused, if known."""
        with contextlib.suppress(Exception):
            reason = self._crossed if self._is_stuck() else _NOT_ALLOWED.format(self._count, token)
            if reason and self.tell is not None:
                self._has_told = True
                self.tell(reason)

    def validate_tokens(self, tokens: Sequence[int]) -> list[int]:
        """The longest allowed prefix of ``tokens``; the state does not change."""
        listed = list(tokens)
        try:
            size = self._matcher.grammar.vocab.size
            known = list(takewhile(lambda token: 0 <= token < size, listed))  # drafts may be padded by -1
            legal = [] if self._is_stuck() else known[: self._count_fitting(known)]
            self._drafts = self._count, legal
            return legal
        except Exception as error:
            logger.warning("cdplugin: drafts are refused: %s", told(error))
            return []

    def _count_fitting(self, tokens: list[int]) -> int:
        """How many drafts are legal. Within a budget, a draft must also leave room for an ending."""
        budget = None if self.budget is None else self.budget.left(self._count)
        if budget is not None and budget > 0:
            with contextlib.suppress(LimitExceeded, EngineError):  # the mask of this place reports it and drops the budget
                return self._matcher.validate_tokens(tokens, budget)
        return self._matcher.validate_tokens(tokens)

    def rollback(self, num_tokens: int) -> None:
        """Take back the last tokens, end tokens included; all of them if ``num_tokens`` is more than there are."""
        try:
            surplus = max(0, min(self._surplus, num_tokens))
            self._surplus -= surplus
            self._undo(num_tokens - surplus)
        except Exception as error:  # not a number
            logger.error("cdplugin: a rollback that cannot be done: %s", told(error), exc_info=True)

    def is_terminated(self) -> bool:
        """Whether a stop token was accepted. True if the matcher cannot tell, so that the request ends."""
        try:
            return self._matcher.is_terminated()
        except Exception as error:
            logger.error("cdplugin: a state that cannot be read; the request ends: %s", told(error), exc_info=True)
            return True

    def reset(self) -> None:
        """Return to the start of the text."""
        self._surplus = 0
        self._undo(self._count)

    def _undo(self, count: int) -> None:
        """Roll the matcher back. If that fails, every further token is refused."""
        count = max(0, min(count, self._count))
        try:
            self._matcher.rollback(count)
            self._count -= count
        except Exception as error:
            self._is_lost = True
            self._fail("rollback", error)

    def _is_stuck(self) -> bool:
        """Whether something failed at this very place before."""
        if self._is_lost:
            return True
        return self._failed is not None and len(self._failed) == self._count and self._failed == self._matcher.tokens

    def _fail(self, what: str, error: Exception) -> None:
        try:
            self._failed = self._matcher.tokens
        except Exception:
            self._is_lost = True
        is_ours = isinstance(error, GrammarError)
        self._crossed = ""
        if isinstance(error, LimitExceeded):
            self._crossed = f"after {self._count} tokens of the answer: {error}"
            self._count_once("cdplugin_budgets_crossed", "decode")
        level = logging.WARNING if is_ours else logging.ERROR
        logger.log(level, "cdplugin: %s after %d tokens: %s", what, self._count, told(error), exc_info=not is_ours)
