"""What all requests of a tokenizer share in a server: vocabulary, compiler, outcomes of checks, and what logs say of them.

A schema may hold what nobody should read in a log (names, constants): a line shows a hash, by which the request is found in the
client's own records, and the first characters, as many as the option ``log_characters`` allows.

>>> Asked("REGEX", "[a-z]{3}").named(4)
'REGEX of 8 characters, sha256 ca380da43cee, begins "[a-z"'
"""

from __future__ import annotations

import copy
import json
import logging
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from cdplugin import forking
from cdplugin.adapters.serving.door import OffLoop, taking_turns
from cdplugin.adapters.serving.metrics import NUMBERS
from cdplugin.adapters.serving.requests import ServerOptions, spec_of
from cdplugin.admission import admit
from cdplugin.ahead import shared, usual_threads
from cdplugin.bitmask import bitmask_words
from cdplugin.bits import bit_members
from cdplugin.collector import gc_paused
from cdplugin.compiler import Compiler
from cdplugin.errors import GrammarError, LimitExceeded
from cdplugin.matcher import Grammar
from cdplugin.memory import ByteLru, short_key, size_of
from cdplugin.vocab.vocabulary import Vocabulary

_MOST_NAMES = 1024


@dataclass(frozen=True)
class Asked:
    """What a request asks for: its kind and text, as in :func:`cdplugin.adapters.serving.requests.spec_of`."""

    kind: str
    text: str

    def digest(self) -> str:
        """The first 12 digits of the text's SHA-256."""
        return sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()[:12]

    def named(self, characters: int) -> str:
        """Kind, length, hash and so many first characters."""
        text = f"{self.kind} of {len(self.text)} characters, sha256 {self.digest()}"
        return f"{text}, begins {json.dumps(self.text[:characters])}" if characters > 0 else text


class SlowLog:
    """Tells once of each slow request and what was slow, showing so many ``characters`` of the request; thread-safe."""

    def __init__(self, logger: logging.Logger, characters: int) -> None:
        self._logger = logger
        self._characters = characters
        self._told: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        self._lock = threading.Lock()
        forking.renew(self, "_lock")

    def tell(self, what: str, seconds: float, asked: Asked) -> None:
        """Log that ``what`` took so many seconds, unless that was told of this request."""
        key = (what, asked.kind, asked.digest())
        with self._lock:
            if key in self._told:
                return
            self._told[key] = None
            if len(self._told) > _MOST_NAMES:
                self._told.popitem(last=False)
        self._logger.warning("cdplugin: slow request: %s took %.3f s: %s", what, seconds, asked.named(self._characters))


_OUTCOME_BYTES = 16 << 20
_MET_BYTES = 1 << 20
_MOST_RELAXED = 8  # keywords that a line of the log lists
_UNKNOWN = GrammarError("not checked yet")


class Engine:
    """Vocabulary and compiler of one tokenizer; thread-safe.

    ``check`` is for a front-end process, which only wants to know whether a request is right: it remembers the outcome and not
    the grammar. ``logger``: the server's own, so that its handler shows the lines.
    """

    def __init__(self, vocab: Vocabulary, options: ServerOptions, logger: logging.Logger | None = None) -> None:
        self.vocab = vocab
        self.options = options
        self.logger = logger or logging.getLogger("cdplugin")
        self.compiler = Compiler(vocab, options.budgets)
        self.slow = SlowLog(self.logger, options.log_characters)
        self._outcomes: ByteLru[GrammarError | None] = ByteLru("outcomes of checks", _OUTCOME_BYTES)
        self._met: ByteLru[bool] = ByteLru("requests met", _MET_BYTES)
        self._off_loop = OffLoop()
        threads = usual_threads() if options.ahead is None else options.ahead
        self.ahead = shared(threads) if threads else None
        """What meets ahead what is likely to come; its threads start when a grammar is handed over, so in an engine only."""

    def grammar(self, request_type: str, text: str) -> Grammar:
        """The grammar of a request (:func:`.requests.spec_of`), from the cache if it is there. Raises :class:`GrammarError`."""
        began = time.perf_counter()
        try:
            with taking_turns:
                grammar, is_known = self.compiler.compile_or_find(spec_of(request_type, text, self.options))
        except Exception as error:
            NUMBERS.add("cdplugin_compilation_failures")
            if isinstance(error, LimitExceeded):
                NUMBERS.add("cdplugin_budgets_crossed", "compile")
            raise
        finally:
            self._note_time("compiling", time.perf_counter() - began, request_type, text)
        key = short_key((request_type, text))
        self._met.put(key, True, size_of(key))
        NUMBERS.add("cdplugin_cache_hits" if is_known else "cdplugin_compilations")
        NUMBERS.set("cdplugin_grammar_cache_bytes", self.compiler.cached_bytes)
        return grammar

    def has_met(self, request_type: str, text: str) -> bool:
        """Whether :meth:`grammar` has compiled such a request, not long ago: its grammar is probably kept."""
        return bool(self._met.get(short_key((request_type, text)), False))

    def admitted(self, request_type: str, text: str) -> Grammar:
        """The grammar of a request that can be served (:func:`cdplugin.admission.admit`), which is not kept.

        Raises :class:`GrammarError`.
        """
        began = time.perf_counter()
        try:
            with taking_turns:
                grammar = admit(self.compiler, spec_of(request_type, text, self.options))
            if grammar.relaxed:
                self._tell_relaxed(grammar.relaxed, Asked(request_type, text))
            return grammar
        finally:
            seconds = time.perf_counter() - began
            NUMBERS.observe("cdplugin_check_seconds", seconds)
            self._note_time("compiling and first steps", seconds, request_type, text)

    def renew_threads(self) -> None:
        """In a forked process, which has none of its parent's threads."""
        self._off_loop = OffLoop()

    def check(self, request_type: str, text: str) -> None:
        """Raises the :class:`GrammarError` that :meth:`admitted` raises. The outcome is remembered."""
        _raise(self._outcome(request_type, text))

    async def check_off_loop(self, request_type: str, text: str) -> None:
        """:meth:`check`, on another thread unless the outcome is known. Equal requests at the same time are checked once."""
        key = short_key((request_type, text))
        error = self._outcomes.get(key, _UNKNOWN)
        if error is _UNKNOWN:
            error = await self._off_loop.run(key, len(text), lambda: self._outcome(request_type, text))
        _raise(error)

    def _outcome(self, request_type: str, text: str) -> GrammarError | None:
        """What a request is refused for, remembered."""
        key = short_key((request_type, text))
        error = self._outcomes.get(key, _UNKNOWN)
        if error is _UNKNOWN:
            error = self._refusal(request_type, text)
            NUMBERS.add("cdplugin_checks", "admitted" if error is None else "refused")
            if isinstance(error, LimitExceeded):
                NUMBERS.add("cdplugin_budgets_crossed", "check")
            self._outcomes.put(key, error, size_of((key, *vars(error).values())) if error else size_of(key))
        return error

    def _refusal(self, request_type: str, text: str) -> GrammarError | None:
        """What a request is refused for. An error that is not ours is a mistake of ours: logged, and the request refused."""
        try:
            with gc_paused():
                self._admitted(short_key((request_type, text)), self.admitted(request_type, text))
        except GrammarError as caught:
            return copy.copy(caught)  # without its traceback, which would keep all that was made so far
        except Exception as caught:
            self.logger.exception("cdplugin: a request that cannot be checked; please report this")
            return GrammarError("this request cannot be checked", found=type(caught).__name__)
        return None

    def _tell_relaxed(self, relaxed: list[tuple[str, str]], asked: Asked) -> None:
        """Log what ``on_unsupported="relax"`` let go in a request, as far as the log may show of it."""
        shown = self.options.log_characters
        listed = sorted(relaxed, key=lambda one: one[1])[:_MOST_RELAXED]
        parts = [f"{keyword!r} at {place}" if shown else repr(keyword) for keyword, place in listed]
        more = f" and {len(relaxed) - _MOST_RELAXED} more" if len(relaxed) > _MOST_RELAXED else ""
        self.logger.info("cdplugin: not enforced: %s%s: %s", ", ".join(parts), more, asked.named(shown))

    def _note_time(self, what: str, seconds: float, request_type: str, text: str) -> None:
        if seconds >= self.options.slow_request_seconds:
            self.slow.tell(what, seconds, Asked(request_type, text))

    def _admitted(self, key: Any, grammar: Grammar) -> None:
        """Called with the grammar of a request that was just admitted; must not raise."""

    def warm(self) -> None:
        """Load the kernels, and make what first requests would make: two seconds, or a minute where kernels are compiled."""
        from cdplugin.specs import popular
        from cdplugin.warmup import is_warm, warm_kernels

        if not is_warm():
            self.logger.info(
                "cdplugin: compiling kernels, once for this version (up to a minute; `cdplugin warmup` does it ahead)"
            )
        warm_kernels()
        popular.meet_all()
        spec = spec_of("JSON", '{"type":"object","properties":{"a":{"type":"string"}}}', self.options)
        matcher = self.compiler.compile(spec).matcher()
        row = np.zeros((1, bitmask_words(self.vocab.size)), np.int32)
        matcher.fill_next_token_bitmask(row)
        matcher.accept_token(int(bit_members(row)[0]))


def _raise(error: GrammarError | None) -> None:
    """Raise a copy of an error, if there is one: what is remembered must not keep a traceback."""
    if error is not None:
        raise copy.copy(error)
