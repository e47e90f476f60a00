"""Compiled grammars: the rules, and the arena of states and masks that all sequences of a grammar share."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cdplugin import forking
from cdplugin.engine.arena import Arena
from cdplugin.engine.expander import StaticTables
from cdplugin.matcher.endings import KnownEndings, stop_tokens
from cdplugin.memory import Account
from cdplugin.queries.found_endings import FoundEndings
from cdplugin.vocab.vocabulary import Vocabulary

if TYPE_CHECKING:
    from cdplugin.matcher.matcher import Matcher


class Grammar:
    """A compiled grammar. Make one with :meth:`cdplugin.Compiler.compile`; threads and sequences may share it.

    Attributes: ``vocab``; ``relaxed``: ``(keyword, JSON Pointer)`` of what ``on_unsupported="relax"`` did not enforce.

    ``copy.copy`` and ``copy.deepcopy`` give the grammar itself; it is not pickled, its spec is.
    """

    def __init__(self, tables: StaticTables, base: Arena, arena: Arena, relaxed: Iterable[tuple[str, str]] = ()) -> None:
        self.vocab: Vocabulary = base.vocab
        self.relaxed = list(relaxed)
        self._tables = tables
        self._base_arena = base
        self._arena = arena
        tables.install(arena)
        self._endings: KnownEndings | None = None
        self._found: list[FoundEndings] = []  # the endings found in the arena before this one
        self.visit: Any = None  # what cdplugin.ahead has visited
        self.account = Account()
        self.account.note("rules", tables.nbytes)
        arena.account = self.account
        arena.note_size()
        forking.watch(self)

    def after_fork(self) -> None:
        """In a forked child: replace an arena that another thread was stepping, since it is in the middle of a change."""
        arena = self._arena
        if not forking.is_free(arena.lock):
            arena.lock = threading.Lock()
            arena.abandon()

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Grammar:
        return self

    __copy__ = __deepcopy__

    def __reduce__(self) -> Any:
        raise TypeError("a Grammar cannot be pickled: pickle its spec and its Vocabulary or Compiler, and compile it there")

    @property
    def nbytes(self) -> int:
        """Bytes that the grammar takes now: rules, states, masks, known endings."""
        return self.account.nbytes

    def counters(self) -> dict[str, int]:
        """Counts of the engine's work and states so far (see :meth:`cdplugin.engine.arena.Arena.counters`)."""
        return self._arena.counters()

    def matcher(self, stop_token_ids: Sequence[int] | None = None) -> Matcher:
        """A matcher at the beginning of a text.

        ``stop_token_ids``: the tokens that end the text, allowed exactly when it may end, and never taken as text; default: the
        vocabulary's end tokens. Raises ``ValueError`` for an id outside the vocabulary.
        """
        from cdplugin.matcher.matcher import Matcher

        return Matcher(self, stop_tokens(self.vocab, stop_token_ids))

    def _current(self) -> Arena:
        """Return the arena, replaced by a fresh one if its states have outgrown their budget. The caller must not hold its
        lock.
        """
        arena = self._arena
        if arena.over_budget:
            with arena.lock:
                if self._arena is arena:
                    fresh = self._base_arena.clone()
                    with fresh.compile_budget():
                        self._tables.evaluate(fresh)
                        self._tables.install(fresh)
                    arena.account, known, self._endings = None, self._endings, None
                    self._found = known.found() if known else []  # for the matchers that have yet to move on
                    kept = sum(found.nbytes for found in self._found)
                    for part, nbytes in (("endings", 0), ("budgets", 0), ("endings before", kept)):
                        self.account.note(part, nbytes)
                    fresh.account, fresh.is_fresh = self.account, True
                    fresh.note_size()
                    self._arena = fresh
        return self._arena

    def _endings_in(self, arena: Arena) -> KnownEndings:
        """Return the endings known in the present arena, whose lock the caller holds."""
        if self._endings is None or self._endings.arena is not arena:
            self._endings = KnownEndings(arena)
        return self._endings
