"""What vLLM's structured-output requests become: compiled grammars with budgets, and a state that never raises.

Nothing here imports vLLM: :mod:`cdplugin.adapters.vllm.backend` binds it to vLLM's classes. One :class:`Engine` belongs to a
tokenizer; it keeps the compiled grammars, which vLLM itself does not.
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
from cdplugin.bitmask import bitmask_view, bitmask_words
from cdplugin.bits import allow_only
from cdplugin.collector import gc_paused
from cdplugin.errors import BudgetError, EngineError, GrammarError, LimitExceeded, told
from cdplugin.matcher import Grammar, Matcher
from cdplugin.memory import ByteLru, short_key, size_of
from cdplugin.vocab.vocabulary import Vocabulary

logger = logging.getLogger("vllm.cdplugin")  # below vLLM's logger, so that its handler shows the lines

OPTIONS_VARIABLE = "CDPLUGIN_VLLM_OPTIONS"
_LEAST_BYTES = 1 << 20
_ENTRY_BYTES = 200
_NOT_ALLOWED = (
    "after {} tokens of the answer: expected a token that the grammar allows there, found token {}: something else chose it, "
    "or left none that the grammar allows (min_tokens, allowed_token_ids, bad_words, a logits processor)"
)


@dataclass(slots=True)
class _KnownBudgets:
    """What is known of a request: a budget that is ``enough`` for an answer, and the largest one found to be ``too_few``."""

    enough: int = 1 << 62
    too_few: int = -1

    def tells(self, budget: int) -> bool:
        """Whether it is known if a budget is enough."""
        return not self.too_few < budget < self.enough


class Engine(serving.Engine):
    """The engine of one tokenizer in vLLM: requests also have budgets, and become states."""

    def __init__(self, vocab: Vocabulary, options: ServerOptions) -> None:
        super().__init__(vocab, options, logger)
        self.only_prefills = False
        """Whether answers are decoded elsewhere, so that they need no room to end here."""
        self._least: ByteLru[_KnownBudgets] = ByteLru("smallest budgets", _LEAST_BYTES)

    def state(self, request_type: str, text: str, stop_token_ids: Iterable[int] | None = None) -> GrammarState:
        """The beginning of a text; stop tokens outside the vocabulary are left out. Raises :class:`GrammarError`."""
        stops = sorted({int(t) for t in stop_token_ids or () if 0 <= int(t) < self.vocab.size})
        matcher = self.grammar(request_type, text).matcher(stops or None)
        return GrammarState(matcher, Watch(self, Asked(request_type, text)), self.options.late_mask_seconds, self.ahead)

    def check(self, request_type: str, text: str, budget: int | None = None) -> None:
        """Also raises :class:`cdplugin.BudgetError` where no answer fits ``budget`` tokens, the stop token included."""
        super().check(request_type, text)
        if budget is not None:
            key = short_key((request_type, text))
            known = self._known_budgets(key)
            _refuse_below(known.enough if known.tells(budget) else self._find_budget(key, request_type, text, budget), budget)

    async def check_off_loop(self, request_type: str, text: str, budget: int | None = None) -> None:
        """:meth:`check`, on another thread unless the answer is known."""
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
        """:meth:`_least_budget`, remembered. A longer answer may take fewer tokens, so a larger budget is looked for anew."""
        with gc_paused():
            least = self._least_budget(request_type, text, budget)
        known = self._known_budgets(key)
        known.enough = min(known.enough, least)
        if budget < least:
            known.too_few = max(known.too_few, budget)
        return known.enough

    def _known_budgets(self, key: Any) -> _KnownBudgets:
        """What is known of a request's budgets, which may be nothing."""
        known: _KnownBudgets | None = self._least.get(key)
        return known or self._least.put(key, _KnownBudgets(), _ENTRY_BYTES + size_of(key))[0]

    def _least_budget(self, request_type: str, text: str, budget: int) -> int:
        """A budget that is enough, or 0 if that cannot be told: at most ``budget``, if that is enough."""
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
        """Remember a budget that is enough for an answer; 0 where that cannot be told."""
        if not self.options.endings:
            return
        try:
            least = grammar.matcher().enough_tokens() + 1  # `check` looks closer if that is too much
        except (GrammarError, EngineError):
            least = 0
        known = self._known_budgets(key)
        known.enough = min(known.enough, least)


def _refuse_below(least: int, budget: int) -> None:
    """Raises :class:`cdplugin.BudgetError` for a budget that is less."""
    if budget < least:
        raise BudgetError(
            f"max_tokens={budget}: expected at least {least}, since no shorter answer was found with its stop token; "
            f"cdplugin's 'endings' option, or {ARGUMENT!r}: false in a request, lets answers be cut off",
            budget,
            least,
        )


class Watch:
    """Counts what happens to the answer of a request, and has the log tell of late masks."""

    __slots__ = ("_asked", "_engine", "_places")

    def __init__(self, engine: Engine, asked: Asked) -> None:
        self._engine = engine
        self._asked = asked
        self._places: set[str] = set()

    def late_mask(self, seconds: float) -> None:
        """A mask took so long, which is too long."""
        NUMBERS.add("cdplugin_masks_late")
        NUMBERS.observe("cdplugin_late_mask_seconds", seconds)
        self._engine.slow.tell("a mask", seconds, self._asked)

    def once(self, name: str, value: str = "") -> None:
        """Something that is counted once for an answer."""
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
    """The engine of a tokenizer, made at the first call; ``compact``: JSON without whitespace, whatever the options say.

    Raises :class:`cdplugin.VocabularyError`, and ``ValueError`` for options that cannot be read.
    """
    key = (id(tokenizer), vocab_size, compact)
    with _engines_lock:
        if key not in _engines:
            options = ServerOptions.from_environment(OPTIONS_VARIABLE)
            vocab = Vocabulary.from_huggingface(tokenizer, vocab_size=vocab_size)
            if compact:
                options = options.compact()
            _engines[key] = (tokenizer, Engine(vocab, options))  # with the tokenizer, so that its id stays its own
            if len(_engines) > 4:
                _engines.popitem(last=False)
        return _engines[key][1]


# ---- one sequence ------------------------------------------------------------------------------------------------------------


class GrammarState:
    """One request's place in its grammar, by the contract of vLLM's ``StructuredOutputGrammar``. **No method raises**, since an
    exception ends the engine for everybody.

    Where a budget is crossed the mask holds the stop tokens only, and the next token is refused, so that vLLM ends this request
    with an error. That belongs to the place in the text: a rollback to an earlier one takes it back.
    """

    def __init__(
        self, matcher: Matcher, watch: Watch | None = None, late_seconds: float = math.inf, ahead: Ahead | None = None
    ) -> None:
        """``watch`` is told of masks that take longer than ``late_seconds``, and of what happens to the answer; ``ahead`` meets
        what may come after each mask.
        """
        self._matcher = matcher
        self._ahead = ahead
        self._watch = watch
        self._late = late_seconds
        self._count = 0  # tokens followed
        self._surplus = 0  # and those taken after the end
        self._failed: tuple[int, ...] | None = None  # the tokens after which something failed
        self._is_lost = False  # the matcher does not stand where vLLM thinks
        self._crossed = ""  # what the last crossed budget said
        self.tell: Callable[[str], object] | None = None
        """Told why the request ends here, when a token is refused: a budget was crossed, or something else chose the token."""
        self.budget: RequestBudget | FixedBudget | None = None
        """How many tokens may still come; None: any number."""

    def fill_bitmask(self, bitmask: Any, batch_index: int) -> None:
        """Write the allowed tokens into a row of an int32 bitmask."""
        ahead = self._ahead
        try:
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
        """Do on this thread what the first mask asks for: the mask itself, and what is to be known of endings."""
        late, self._late = self._late, math.inf  # nobody waits for it but this request
        with taking_turns:
            self.fill_bitmask(np.zeros((1, bitmask_words(self._matcher.grammar.vocab.size)), np.int32), 0)
        self._late = late

    def meet_ahead(self) -> None:
        """Have the beginning of the answer met while its prompt is read."""
        if self._ahead is not None:
            self._ahead.follow(self._matcher)
            counts = self._ahead.counters()
            NUMBERS.set("cdplugin_places", counts["places"])
            NUMBERS.set("cdplugin_places_met", counts["met"])

    def _fill(self, bitmask: Any, batch_index: int) -> None:
        """Write a row: the tokens after which the answer can be ended in time, if it can be at all."""
        if self.budget is not None:
            budget = self.budget.left(self._count)
            try:
                if budget is None or budget > 0:
                    self._matcher.fill_next_token_bitmask(bitmask, batch_index, budget)
                    if self._matcher.was_narrowed():
                        self._count_once("cdplugin_endings_forced")
                    return
            except BudgetError as error:  # and the row is as if there were none
                if not self.budget.has_drafts(self._count):  # drafts beyond the end are never taken
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
        """Follow tokens: all, or none and False. True for no tokens, and for any after the end."""
        count, surplus, token = self._count, self._surplus, None
        if self._ahead is not None:
            self._ahead.touch()
        try:
            for token in tokens:
                if self._matcher.is_terminated():
                    self._surplus += 1
                elif not self._is_stuck() and self._matcher.accept_token(token):
                    self._count += 1
                else:
                    break
            else:
                return True
        except Exception as error:
            if isinstance(error, GrammarError) or not isinstance(error, (TypeError, ValueError)):  # else not a token at all
                self._fail(f"request {request_id}: token", error)
        self._tell_why(token)
        self._surplus = surplus
        self._undo(self._count - count)
        return False

    def _tell_why(self, token: int | None) -> None:
        """Tell what a token is refused for, if that can be said."""
        with contextlib.suppress(Exception):
            reason = self._crossed if self._is_stuck() else _NOT_ALLOWED.format(self._count, token)
            if reason and self.tell is not None:
                self.tell(reason)

    def validate_tokens(self, tokens: Sequence[int]) -> list[int]:
        """The leading tokens that are allowed; the state stays where it is."""
        listed = list(tokens)
        try:
            size = self._matcher.grammar.vocab.size
            known = list(takewhile(lambda token: 0 <= token < size, listed))  # drafts may be padded by -1
            return [] if self._is_stuck() else known[: self._count_fitting(known)]
        except Exception as error:
            logger.warning("cdplugin: drafts are refused: %s", told(error))
            return []

    def _count_fitting(self, tokens: list[int]) -> int:
        """How many drafts are legal; within a budget, also those that leave no room for an ending are not."""
        budget = None if self.budget is None else self.budget.left(self._count)
        if budget is not None and budget > 0:
            with contextlib.suppress(LimitExceeded, EngineError):  # the mask of this place says it, and goes without
                return self._matcher.validate_tokens(tokens, budget)
        return self._matcher.validate_tokens(tokens)

    def rollback(self, num_tokens: int) -> None:
        """Take back the last tokens, an end token included; more than there are means all."""
        try:
            surplus = max(0, min(self._surplus, num_tokens))
            self._surplus -= surplus
            self._undo(num_tokens - surplus)
        except Exception as error:  # not a number
            logger.error("cdplugin: a rollback that cannot be done: %s", told(error), exc_info=True)

    def is_terminated(self) -> bool:
        """Whether a stop token was followed. True where the matcher cannot tell, so that the request ends."""
        try:
            return self._matcher.is_terminated()
        except Exception as error:
            logger.error("cdplugin: a state that cannot be read; the request ends: %s", told(error), exc_info=True)
            return True

    def reset(self) -> None:
        """Back to the beginning of the text."""
        self._surplus = 0
        self._undo(self._count)

    def _undo(self, count: int) -> None:
        """Take back tokens. Where the matcher cannot, everything that comes is refused."""
        count = max(0, min(count, self._count))
        try:
            self._matcher.rollback(count)
            self._count -= count
        except Exception as error:
            self._is_lost = True
            self._fail("rollback", error)

    def _is_stuck(self) -> bool:
        """Whether something failed here before."""
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
