"""What all requests of a tokenizer share in a server: the vocabulary, the compiler, check results, and the log.

A schema may hold names or constants that do not belong in a log. So a log line shows a hash, by which clients can find the
request in their own records, and at most the first ``log_characters`` (an option) characters.

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
from cdplugin.bits import bit_members, bitmask_words
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
        """The first 12 hexadecimal digits of the text's SHA-256."""
        return sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()[:12]

    def named(self, characters: int) -> str:
        """Kind, length, hash and the first ``characters`` characters, for the log."""
        text = f"{self.kind} of {len(self.text)} characters, sha256 {self.digest()}"
        return f"{text}, begins {json.dumps(self.text[:characters])}" if characters > 0 else text


class SlowLog:
    """Logs each slow request once, with what was slow and its first ``characters`` characters; thread-safe."""

    def __init__(self, logger: logging.Logger, characters: int) -> None:
        self._logger = logger
        self._characters = characters
        self._told: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        self._lock = threading.Lock()
        forking.renew(self, "_lock")

    def tell(self, what: str, seconds: float, asked: Asked) -> None:
        """Log that ``what`` took that many seconds, unless the same was logged for this request."""
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
_MOST_RELAXED = 8  # most keywords that a log line lists
_UNKNOWN = GrammarError("not checked yet")


class Engine:
    """Vocabulary and compiler of one tokenizer; thread-safe.

    ``check`` is for a front-end process, which only needs to know whether a request is valid: it remembers the result and not
    the grammar. ``logger``: the server's own, so that its handlers show the lines.
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
        """Threads that compute likely masks in advance; they start with the first grammar passed to them, so only in an
        engine.
        """

    def grammar(self, request_type: str, text: str) -> Grammar:
        """The grammar of a request (:func:`.requests.spec_of`), cached. Raises :class:`GrammarError`."""
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
        """Whether :meth:`grammar` has recently compiled such a request, so that its grammar is probably cached."""
        return bool(self._met.get(short_key((request_type, text)), False))

    def admitted(self, request_type: str, text: str) -> Grammar:
        """The grammar of a request, if it can be served (:func:`cdplugin.admission.admit`); it is not cached.

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
        """Start new threads in a forked process, which has none of its parent's."""
        self._off_loop = OffLoop()

    def check(self, request_type: str, text: str) -> None:
        """Raise the :class:`GrammarError` that :meth:`admitted` raises. The result is remembered."""
        _raise(self._outcome(request_type, text))

    async def check_off_loop(self, request_type: str, text: str) -> None:
        """:meth:`check`, on another thread unless the result is known. Equal requests at the same time are checked once."""
        key = short_key((request_type, text))
        error = self._outcomes.get(key, _UNKNOWN)
        if error is _UNKNOWN:
            error = await self._off_loop.run(key, len(text), lambda: self._outcome(request_type, text))
        _raise(error)

    def _outcome(self, request_type: str, text: str) -> GrammarError | None:
        """The error for which a request is refused, or None; remembered, unless it says nothing of the request."""
        key = short_key((request_type, text))
        error = self._outcomes.get(key, _UNKNOWN)
        if error is _UNKNOWN:
            error, is_known = self._refusal(request_type, text)
            NUMBERS.add("cdplugin_checks", "admitted" if error is None else "refused")
            if isinstance(error, LimitExceeded):
                NUMBERS.add("cdplugin_budgets_crossed", "check")
            if is_known:
                self._outcomes.put(key, error, size_of((key, *vars(error).values())) if error else size_of(key))
        return error

    def _refusal(self, request_type: str, text: str) -> tuple[GrammarError | None, bool]:
        """The error for which a request is refused, or None; and whether an equal request would be refused, too.

        Any other exception than a :class:`GrammarError` is our bug, or the machine's memory is full: it is logged, and the
        request refused this time.
        """
        try:
            with gc_paused():
                self._admitted(short_key((request_type, text)), self.admitted(request_type, text))
        except GrammarError as caught:
            return copy.copy(caught), True  # a copy has no traceback, which would keep all intermediate objects alive
        except Exception as caught:
            self.logger.exception("cdplugin: a request that cannot be checked; please report this")
            return GrammarError("this request cannot be checked", found=type(caught).__name__), False
        return None, True

    def _tell_relaxed(self, relaxed: list[tuple[str, str]], asked: Asked) -> None:
        """Log the keywords that ``on_unsupported="relax"`` ignored in a request, as far as the options permit."""
        shown = self.options.log_characters
        listed = sorted(relaxed, key=lambda one: one[1])[:_MOST_RELAXED]
        parts = [f"{keyword!r} at {place}" if shown else repr(keyword) for keyword, place in listed]
        more = f" and {len(relaxed) - _MOST_RELAXED} more" if len(relaxed) > _MOST_RELAXED else ""
        self.logger.info("cdplugin: not enforced: %s%s: %s", ", ".join(parts), more, asked.named(shown))

    def _note_time(self, what: str, seconds: float, request_type: str, text: str) -> None:
        if seconds >= self.options.slow_request_seconds:
            self.slow.tell(what, seconds, Asked(request_type, text))

    def _admitted(self, key: Any, grammar: Grammar) -> None:
        """Hook: called with the grammar of a request that was just admitted; must not raise."""

    def warm(self) -> None:
        """Load the kernels and fill the caches of first requests: two seconds, or a minute if kernels must be compiled."""
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
    """Raise a copy of an error, if there is one: the remembered object must not collect tracebacks."""
    if error is not None:
        raise copy.copy(error)
