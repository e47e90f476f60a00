"""The matchers that follow sequences through a compiled grammar.

All sequences that use a grammar share one :class:`Grammar`. A :class:`Matcher` is one sequence's place in it: a stack of
cursors, one per accepted token. A cursor is one integer (:mod:`cdplugin.kernels.parser.cursors`), so rollback pops, and fork
copies a list of integers and nothing else.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Any

from cdplugin.bitmask import row_address
from cdplugin.engine.arena import Arena
from cdplugin.engine.expander import StaticTables
from cdplugin.errors import BudgetError, CdpluginError, EngineError, LimitExceeded, integer, iterable
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.entry import OP_ACCEPT, OP_FILL, TERMINATED
from cdplugin.kernels.store import layout
from cdplugin.matcher.endings import StopTokens
from cdplugin.matcher.grammar import Grammar
from cdplugin.queries import budgets, captures, completion, explain, forced, trace
from cdplugin.queries.found_endings import FoundEndings
from cdplugin.queries.partial_json import PartialJson
from cdplugin.queries.successors import after_stop

_ENDING_STEPS = 2  # looking for one ending may take so many times Limits.max_step_work
_NEAR_STEPS = 16  # after a mask whose budget was near, so many masks are filled without asking whether it is far away again
_SHARED = "a Matcher belongs to one thread at a time: another thread moved this one in the middle of a call"
# a replay is granted the work of one step for each _REPLAYED_IN_A_STEP tokens, and of at most _REPLAY_STEPS steps
_REPLAYED_IN_A_STEP, _REPLAY_STEPS = 50, 8


class Matcher:
    """One sequence's place in a grammar. For one thread at a time; matchers of one grammar may be on different threads.

    Threads that call one matcher at once see their calls in some order; where they cannot, a call raises :class:`EngineError`.

    ``copy.copy`` and ``copy.deepcopy`` are :meth:`fork`; a matcher is not pickled, its tokens are.
    """

    __slots__ = (
        "_arena_ref",
        "_cursors",
        "_ending",
        "_enough",
        "_found_ref",
        "_grammar",
        "_narrowed",
        "_near",
        "_partial",
        "_seen",
        "_size",
        "_stop_set",
        "_stops",
        "_stops_address",
        "_tokens",
        "_until",
    )

    def __init__(self, grammar: Grammar, stops: StopTokens) -> None:
        self._grammar, self._stops = grammar, stops
        # copies, since each step reads them
        self._size, self._stops_address, self._stop_set = grammar.vocab.size, stops.address, stops.members
        arena = grammar._current()
        # weak: an arena over budget is freed when its grammar has a fresh one, not when the last matcher has moved on
        self._arena_ref = weakref.ref(arena)
        self._cursors: list[int] = [arena.start]
        self._tokens: list[int] = []
        self._ending: tuple[int, list[int]] = (-1, [])  # a completion, and how many tokens stood before it
        self._partial: tuple[str, int, PartialJson] | None = None  # how strings are shown, tokens that were read, the reader
        # a budget that fits every token, valid up to so many tokens of text; and what it was computed from
        self._enough, self._until = budgets.ALWAYS
        self._seen: budgets.Seen | None = None
        self._found_ref: weakref.ref[FoundEndings] | None = None  # the endings known when a budget was last near
        self._narrowed: int | None = None  # how many tokens stood before the first mask that a budget narrowed
        self._near = 0  # masks still to fill without asking whether a budget is far away

    # --- following tokens ---------------------------------------------------------------------------------------------------

    def accept_token(self, token_id: int) -> bool:
        """Follow one token. False, and nothing changes, if it is not allowed; after a stop token nothing is.

        Raises ``ValueError`` for an id outside the vocabulary and ``TypeError`` for what is no integer.
        """
        if type(token_id) is not int:
            token_id = integer("token id", token_id)
        arena = self._grammar._arena
        if arena.over_budget or len(self._cursors) != len(self._tokens) + 1:
            del arena  # it may go before another one is filled
            arena = self._present(token_id)
        if not 0 <= token_id < self._size:
            integer("token id", token_id, 0, self._size)  # raises
        with arena.lock:
            cursor = self._cursors[-1]
            if arena is self._arena_ref():
                if cursor == TERMINATED or token_id in self._stop_set:
                    after = self._follow(arena, cursor, token_id)
                elif (after := kernels.run(arena.address, OP_ACCEPT, cursor, token_id, 1)) < 0:  # as `_follow`, without a call
                    after = arena.finish(after, OP_ACCEPT, cursor, token_id, 1)
                if after == 0:
                    return False
                self._cursors.append(after)
                self._tokens.append(token_id)
                return True
        self._present(token_id)  # the arena was replaced
        return self.accept_token(token_id)

    def accept_tokens(self, token_ids: Iterable[int]) -> int:
        """Follow tokens until one is not allowed; returns how many were followed."""
        return sum(1 for _ in takewhile(self.accept_token, iterable("tokens", token_ids)))

    def validate_tokens(self, token_ids: Iterable[int], budget: int | None = None) -> int:
        """How many leading tokens are allowed; the matcher stays where it is.

        ``budget``: how many tokens may still come, as in :meth:`fill_next_token_bitmask`; then the tokens that the masks would
        leave, one after the other. More of them where endings have been found since a mask was written.
        """
        arena, cursor = self._place()
        places: list[tuple[int, int, int]] = []  # cursors, and the token between them
        for token in iterable("tokens", token_ids):
            after = self._step(arena, cursor, integer("token id", token))
            if after == 0:
                break
            places.append((cursor, token, after))
            cursor = after
        return len(places) if budget is None else self._fitting_tokens(arena, places, integer("budget", budget))

    def _fitting_tokens(self, arena: Arena, places: list[tuple[int, int, int]], budget: int) -> int:
        """Return how many leading tokens, which are allowed at their places, fit a budget."""
        if self._is_far(budget, len(places) - 1):
            return len(places)
        with arena.lock:
            known = self._grammar._endings_in(arena).budgets(self._stops)
            tokens, seen = self._tokens.copy(), self._seen
            for i, (cursor, token, after) in enumerate(places):
                if not known.has_room(after, budget - i - 1):
                    enough, _, seen = known.quiet(cursor, budget - i, tokens, seen)
                    if budget - i < enough and not known.allows(cursor, token, after, budget - i, tokens):
                        return i
                tokens.append(token)
        return len(places)

    def _is_far(self, budget: int, ahead: int) -> bool:
        """Return whether it is known that every token fits a budget, here and after ``ahead`` tokens."""
        return budget - ahead >= self._enough and len(self._tokens) + ahead <= self._until

    def rollback(self, n: int) -> None:
        """Take back the last ``n`` tokens. Raises ``ValueError`` if there are fewer."""
        n = integer("rollback", n)
        with self._grammar._arena.lock:
            kept = len(self._tokens) - n
            if not 0 <= n <= len(self._tokens):
                raise ValueError(f"rollback: expected 0 to {len(self._tokens)} tokens, found {n}")
            if n:
                del self._cursors[kept + 1 :], self._tokens[kept:]  # there are fewer cursors where a replay was interrupted
                if kept < self._ending[0]:  # the tokens before the ending may become other ones now
                    self._ending = (-1, [])
                if self._partial is not None and kept < self._partial[1]:
                    self._partial = None
                if self._narrowed is not None and kept < self._narrowed:
                    self._narrowed = None
                self._enough, self._until = budgets.ALWAYS
                if self._seen is not None and self._seen[1] > kept:
                    self._seen = None

    def reset(self) -> None:
        """Back to the beginning of the text."""
        self.rollback(len(self._tokens))

    def fork(self) -> Matcher:
        """A second matcher at the same place, independent of this one."""
        other = object.__new__(Matcher)
        for name in Matcher.__slots__:
            setattr(other, name, getattr(self, name))
        other._cursors, other._tokens, other._partial = self._cursors.copy(), self._tokens.copy(), None
        return other

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Matcher:
        return self.fork()

    __copy__ = __deepcopy__

    def __reduce__(self) -> Any:
        raise TypeError("a Matcher cannot be pickled: pickle its spec and tokens, compile the spec there and follow the tokens")

    # --- asking -------------------------------------------------------------------------------------------------------------

    @property
    def grammar(self) -> Grammar:
        return self._grammar

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens followed so far."""
        return tuple(self._tokens)

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        return self._stops.ids

    def is_accepting(self) -> bool:
        """Whether the text may end here (a stop token is allowed)."""
        arena, cursor = self._place()
        if cursor == TERMINATED:
            return True
        with arena.lock:
            return bool(arena.call(kernels.OP_ACCEPTS, cursor))

    def was_narrowed(self) -> bool:
        """Whether a budget has left tokens out of a mask, here or at an earlier place."""
        return self._narrowed is not None

    def is_terminated(self) -> bool:
        """Whether a stop token was followed."""
        return bool(self._cursors[-1] == TERMINATED)

    def fill_next_token_bitmask(self, bitmask: Any, index: int = 0, budget: int | None = None) -> None:
        """Write the allowed tokens into row ``index`` of ``bitmask``.

        ``bitmask``: int32, ``(rows, ceil(vocab.size / 32))``, a torch CPU tensor or NumPy array with contiguous rows; token
        ``t`` is bit ``t % 32`` of word ``t // 32``. After the end the row holds the stop tokens, so that logits stay
        finite; none is accepted.

        ``budget``: how many tokens may still come, this one and the stop token included. A token is then allowed only if an
        ending was found that fits after it (:mod:`cdplugin.queries.budgets` says how), so that a text whose first budget is
        enough always ends in time.

        Raises ``TypeError`` or ``ValueError`` for a wrong bitmask, index or budget, :class:`cdplugin.BudgetError` if no ending
        that was found fits into the budget (the row is then that without a budget), and :class:`LimitExceeded` where a limit
        is crossed (the row's content is then undefined).
        """
        row = row_address(bitmask, index, self._size)
        place = len(self._tokens)
        arena = self._grammar._arena
        if arena.over_budget or len(self._cursors) != place + 1:
            del arena  # it may go before another one is filled
            arena = self._present()  # only if needed: otherwise a mask with a far budget costs next to nothing more
        with arena.lock:
            cursor = self._cursors[-1]
            if arena is self._arena_ref():
                if (status := kernels.run(arena.address, OP_FILL, cursor, row, self._stops_address)) < 0:
                    arena.finish(status, OP_FILL, cursor, row, self._stops_address)
                if budget is not None and (type(budget) is not int or budget < self._enough or place > self._until):
                    self._fit(arena, row, budget)
                return
        self._present()  # the arena was replaced
        self.fill_next_token_bitmask(bitmask, index, budget)

    def _fit(self, arena: Arena, row: int, budget: int) -> None:
        """Narrow a mask row to the tokens that fit a budget. The caller holds the lock."""
        budget = integer("budget", budget)
        cursor = self._cursor_in(arena)
        if cursor == TERMINATED:
            return
        known = self._grammar._endings_in(arena).budgets(self._stops)
        was_known = known.knows(cursor)
        if self._near and was_known:  # once a budget is near, it mostly stays so
            self._near -= 1
        else:
            self._enough, self._until, self._seen = known.quiet(cursor, budget, self._tokens, self._seen, row)
            known.tell(self._grammar.account)
            if budget >= self._enough:
                return
            self._near = _NEAR_STEPS
        least, is_narrower = known.write_fitting(cursor, budget, self._tokens, row)
        self._found_ref = weakref.ref(known.found)
        if is_narrower and self._narrowed is None:
            self._narrowed = len(self._tokens)
        if not was_known:
            known.tell(self._grammar.account)
        if least > budget:
            ending = f"the shortest legal ending that was found{' with its stop token' if known.last else ''}"
            raise BudgetError(f"a budget of {budget} tokens: expected at least {least}, the length of {ending}", budget, least)

    def forced_tokens(self, canonical: bool = False, *, limit: int = 256) -> list[int]:
        """The tokens that must come now, one after the other; the matcher stays where it is.

        ``canonical=False``: tokens whose masks are singletons, up to where the text may end; taking them without a forward
        pass cannot change the text. ``canonical=True``: the *text* that must come, in the tokenizer's own tokens (the longest
        ones where the vocabulary has no tokenizer), as far as they are the same whatever follows. This skips more, but a model
        left to itself may spell the text in other tokens, so what follows may change. ``limit``: at most so many tokens.
        """
        limit = integer("limit", limit)
        if not canonical:
            return forced.single_tokens(self.fork(), self._size, self._stop_set, limit)
        arena, cursor = self._place()
        with arena.lock:
            endings = self._grammar._endings_in(arena).endings(self._stops)
        step, tokens = functools.partial(self._step, arena), self._tokens[-forced.CONTEXT :]
        return forced.Position(arena, cursor, tokens, self._stops.table, step, endings).canonical_tokens(limit)

    def shortest_completion(self) -> list[int]:
        """A short legal ending as token ids, without the stop token; empty where the text may end.

        The matcher has followed each answer. Once its first token is followed, the next answer is shorter by at least one, so
        its length bounds a budget of tokens. In most grammars it is the fewest tokens of a shortest text, but this is not
        promised. Raises :class:`LimitExceeded` where finding one takes more than ``Limits.max_completion_steps``, and
        :class:`EngineError` where there is none: longest match may lead to a dead end.
        """
        if self.is_accepting():
            return []
        arena, cursor = self._place()
        place, ending = self._ending
        since = len(self._tokens) - place
        if 0 <= since < len(ending) and place >= 0 and self._tokens[place:] == ending[:since]:
            return ending[since:]
        with arena.lock, arena.one_budget(_ENDING_STEPS * arena.limits.max_step_work):
            found = self._find_ending(arena, cursor)
        if found is None:
            raise EngineError(completion.NOT_FOLLOWED)
        self._ending = (len(self._tokens), found)
        return found.copy()

    def enough_tokens(self) -> int:
        """A number of tokens, without the stop token, in which the text can surely end.

        Where the grammar allows, it is read off the rules, one token for each byte of a shortest ending, which takes far less
        than :meth:`shortest_completion`, of whose answer it is the length elsewhere. Raises as that does.
        """
        arena, cursor = self._place()
        if self.is_accepting():
            return 0
        with arena.lock, arena.one_budget(_ENDING_STEPS * arena.limits.max_step_work):
            found = self._grammar._endings_in(arena).endings(self._stops).tokens_at_most(cursor)
        return len(self.shortest_completion()) if found is None else found

    def can_end_within(self, budget: int, after: int | None = None) -> bool:
        """Whether an ending of at most ``budget`` tokens is found, without the stop token; given ``after``, after that token.

        True is certain, and then :meth:`shortest_completion` there is no longer. False means that none so short was found.
        Raises as :meth:`shortest_completion` does.
        """
        budget = integer("budget", budget)
        arena, cursor = self._place()
        if after is not None:
            cursor = self._step(arena, cursor, after)
        return cursor != 0 and self._can_end(arena, cursor, budget)

    def ends_within(self, budget: int) -> Callable[[int], bool]:
        """:meth:`can_end_within` as a function of the token, for this place in the text.

        Tokens that lead to one place are judged once. False where a budget is crossed, of the token or of the search for an
        ending. Do not call it after the matcher has moved on.
        """
        budget = integer("budget", budget)
        arena, cursor = self._place()
        known = {0: False}
        work = _ENDING_STEPS * arena.limits.max_step_work  # for all tokens

        def judge(token: int) -> bool:
            nonlocal work
            try:
                after = self._step(arena, cursor, token)
            except LimitExceeded:
                return False
            if after not in known:
                try:
                    known[after] = work > 0 and self._can_end(arena, after, budget, work)
                except LimitExceeded:
                    known[after] = False
                work = int(arena.header[layout.WORK_LEFT])
            return known[after]

        return judge

    def _can_end(self, arena: Arena, cursor: int, budget: int, work: int | None = None) -> bool:
        """Return whether an ending of at most ``budget`` tokens is found from a cursor with ``work`` units of work."""
        if cursor == TERMINATED:
            return True
        with arena.lock, arena.one_budget(work or _ENDING_STEPS * arena.limits.max_step_work):
            if arena.call(kernels.OP_ACCEPTS, cursor):
                return budget >= 0
            if self._grammar._endings_in(arena).endings(self._stops).tokens_at_least(cursor) > budget:
                return False
            ending = self._find_ending(arena, cursor)
        return ending is not None and len(ending) <= budget

    def _find_ending(self, arena: Arena, cursor: int) -> list[int] | None:
        """Return a short ending from a cursor; None if following it leads elsewhere. The caller holds the arena's lock."""

        def follow(token_ids: list[int]) -> list[int] | None:
            after = cursor
            for token in token_ids:
                after = self._follow(arena, after, token)
                if after == 0:
                    return None
            return token_ids if after == TERMINATED or arena.call(kernels.OP_ACCEPTS, after) else None

        return self._grammar._endings_in(arena).endings(self._stops).followed(cursor, self._stops.table, follow)

    def partial(self, strings: str = "open") -> Any:
        """The value of the JSON text so far, with everything open closed; None before there is a value.

        Reads the bytes of new tokens only; after a rollback, all of them. For ``strings``, what is left out and who owns the
        value see :class:`cdplugin.PartialJson`. Raises ``ValueError`` where the text is not JSON.
        """
        if self._partial is None or self._partial[0] != strings:
            self._partial = (strings, 0, PartialJson(strings))
        _, read, reader = self._partial
        self._partial = None  # unless all is read
        for token in self._text_tokens()[read:]:
            reader.feed(self._grammar.vocab.tokens[token] or b"")
        if self.is_terminated() and not reader.is_complete:
            reader.close()
        self._partial = (strings, len(self._tokens), reader)
        return reader.value

    def captures(self) -> dict[str, bytes]:
        """What the grammar's named rules derived, by name; of several occurrences, the last. See :meth:`all_captures`."""
        return dict(self.all_captures())

    def all_captures(self) -> list[tuple[str, bytes]]:
        """``(name, text)`` of every occurrence of a named rule, in the order in which they end, inner ones first.

        The text is the bytes that the rule derived, without ignored text before it and, for a Lark rule with ``suffix`` or
        ``stop``, without that suffix; a special token has no bytes. Where the grammar is ambiguous, earlier parts of a rule
        take the longer text. The text is parsed again, in linear time where it is not ambiguous. Raises ``ValueError`` if the
        text is not complete, :class:`LimitExceeded` beyond ``Limits.max_capture_steps``.
        """
        if not self.is_accepting():
            raise ValueError("captures: expected a complete text, found one that may not end here")
        return captures.all_captures(self._grammar._base_arena, self._grammar._tables, self._text_tokens())

    def explain(self, token_id: int) -> str:
        """Why a token is not allowed: which bytes of it are legal, what was expected after them, in which lexemes."""
        arena, cursor = self._place()
        token_id = integer("token id", token_id, 0, self._size)
        with arena.lock, arena.one_budget(arena.limits.max_step_work):
            return explain.explain_token(arena, self._grammar._tables, cursor, token_id, self._stop_set)

    def trace(self, token_ids: Iterable[int] | None = None, *, limit: int = trace.MOST_STEPS) -> trace.Trace:
        """A text, token by token: how many tokens were allowed at each step, where in the spec it stands, what was forced, a
        shortest ending, and why a token was refused. The matcher stays where it is.

        ``token_ids``: tokens from here on; default: those that were followed so far, from the beginning. The first one that is
        not allowed ends the trace, and so does a budget that is crossed (``Trace.stopped`` says which). ``limit``: at most so
        many steps. The result is a :class:`cdplugin.queries.trace.Trace`: ``text()``, ``html()``, ``to_dict()``, ``steps``.
        """
        probe = self.fork()
        if token_ids is None:
            token_ids = self.tokens
            probe.reset()
        return trace.trace_tokens(probe, (integer("token id", token) for token in token_ids), limit)

    def counters(self) -> dict[str, int]:
        """The grammar's counters."""
        return self._grammar.counters()

    # --- inside -------------------------------------------------------------------------------------------------------------

    def _text_tokens(self) -> list[int]:
        """Return the tokens of the text: those followed, but no stop token that came where the text might end."""
        if not self.is_terminated():
            return self._tokens
        before = self.fork()
        before.rollback(1)
        return before._tokens if before.is_accepting() else self._tokens  # else the grammar names the token that ended the text

    def _here(self) -> tuple[Arena, StaticTables, int]:
        """Return the grammar's present arena, its tables, and the cursor."""
        arena, cursor = self._place()
        return arena, self._grammar._tables, cursor

    def _place(self) -> tuple[Arena, int]:
        """Return the grammar's present arena, and the cursor in it."""
        arena = self._present()
        return arena, self._cursor_in(arena)

    def _cursor_in(self, arena: Arena) -> int:
        """Return the cursor. Raises ``EngineError`` where another thread has moved the matcher to another arena."""
        cursor = self._cursors[-1]  # before the comparison: `_replay` changes the arena first
        if arena is not self._arena_ref():
            raise EngineError(_SHARED)
        return cursor

    def _present(self, token_id: int = -1) -> Arena:
        """Return the present arena, in which the last cursor is valid. Hold on to it: another thread may replace it."""
        arena = self._grammar._arena
        if arena is not self._arena_ref() or arena.over_budget or len(self._cursors) != len(self._tokens) + 1:
            promised = self._promised(token_id)
            arena = self._grammar._current()
            self._replay(arena, promised)
        return arena

    def _promised(self, token_id: int) -> list[int] | None:
        """Return the tokens of an ending that made a budget enough; given a token, of the ending behind it, if known."""
        found, arena = None if self._found_ref is None else self._found_ref(), self._arena_ref()
        if found is None or len(self._cursors) != len(self._tokens) + 1:
            return None
        if arena is not None and 0 <= token_id < self._size:
            with contextlib.suppress(CdpluginError):  # the arena may be broken
                rest = found.tokens_from(self._step(arena, self._cursor_in(arena), token_id))
                return None if rest is None else [token_id, *rest]
        return found.tokens_from(self._cursors[-1])

    def _replay(self, arena: Arena, promised: list[int] | None) -> None:
        """Compute the cursors from the tokens: the arena was replaced, or an exception interrupted a change.

        The tokens share one budget. If it is crossed, the next call continues. A text that outgrows an arena by itself may use
        the overdraft of a step. ``promised``: a known ending behind the tokens.
        """
        steps = min(1 + len(self._tokens) / _REPLAYED_IN_A_STEP, _REPLAY_STEPS)
        work = int(steps * arena.limits.max_step_work)
        with arena.lock, arena.one_budget(work):
            if arena is not self._arena_ref():
                self._arena_ref, self._cursors, self._found_ref = weakref.ref(arena), [arena.start], None
            cursors = self._cursors
            del cursors[len(self._tokens) + 1 :]
            is_alone, arena.is_fresh = arena.is_fresh, False
            for token in self._tokens[len(cursors) - 1 :]:
                cursors.append(self._follow(arena, cursors[-1], token))
            if is_alone and arena.over_budget:  # any other arena would be, too, and each step would replay the text
                arena.stretch()
            if promised is not None:
                known = self._grammar._endings_in(arena).budgets(self._stops)
                known.promise(cursors[-1], promised)
                self._found_ref = weakref.ref(known.found)

    def _step(self, arena: Arena, cursor: int, token_id: int) -> int:
        """Return the cursor after a token; 0 if it is not allowed."""
        if type(token_id) is not int or not 0 <= token_id < self._size:
            token_id = integer("token id", token_id, 0, self._size)
        with arena.lock:
            return self._follow(arena, cursor, token_id)

    def _follow(self, arena: Arena, cursor: int, token_id: int) -> int:
        """Do :meth:`_step` for a token of the vocabulary. The caller holds the arena's lock."""
        if cursor == TERMINATED:
            return 0
        if token_id in self._stop_set:
            return after_stop(arena, cursor, token_id)
        found = kernels.run(arena.address, OP_ACCEPT, cursor, token_id, 1)
        return found if found >= 0 else arena.finish(found, OP_ACCEPT, cursor, token_id, 1)
