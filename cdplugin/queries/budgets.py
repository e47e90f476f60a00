"""Masks for a budget of tokens: which tokens leave room for a legal ending.

The tokens of a place lead to few distinct cursors (:mod:`cdplugin.kernels.masks.successors`). For each cursor one ending is
found (:mod:`cdplugin.queries.completion`), spelled in the fewest tokens, followed by the engine, and its length noted for every
cursor that it passes. A token fits a budget if the ending after it does. So a token is allowed only with an ending in hand, and
at the next step the next token of that ending fits: a text never reaches a place from which it cannot end in time.

An ending is a shortest text in its fewest tokens; a longer text may take fewer. If that would make a token fit, an A* search
over tokens looks for one, within :data:`SEARCH_GAP` and :data:`SEARCH_WORK`. Beyond these limits, a token may be masked
although an ending exists.

Where tracked values matter (``uniqueItems`` over strings), nearly every token leads to a cursor of its own. Then endings are
looked for after :data:`LOOKED_AT` tokens only. The others are allowed if the upper bound of :mod:`cdplugin.queries.growth` says
that they fit, which it mostly does from some dozens of tokens on.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count, pairwise
from typing import NamedTuple

import numpy as np

from cdplugin.bits import bit_flags, clear_bits, has_bit
from cdplugin.engine.arena import Arena
from cdplugin.errors import BudgetError, EngineError, LimitExceeded
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.entry import TERMINATED
from cdplugin.kernels.regex.measures import FAR
from cdplugin.kernels.store import layout
from cdplugin.memory import Account
from cdplugin.queries import completion
from cdplugin.queries.found_endings import FoundEndings
from cdplugin.queries.growth import GRANT, Growth, Seen, Unit, byte_costs, token_costs
from cdplugin.queries.profiles import Profile
from cdplugin.queries.separators import separators
from cdplugin.queries.successors import after_stop, few_successors, successors

ALWAYS = (1 << 62, -1)
"""``(enough, until)`` if every token has to be looked at, whatever the budget."""
SEARCH_GAP = 2
"""By at most so many tokens an ending may miss the budget, for a search for one in fewer tokens."""
SEARCH_WORK = 20_000
"""Trie nodes that the searches for one mask may visit; Python's work for a place counts as :data:`_PLACE_NODES`."""
_PLACE_NODES = 100
MOST_PLACES = 512
"""With tracked values: up to so many distinct cursors after a place's tokens, an ending is looked for from each."""
LOOKED_AT = 1_024
"""If there are more: only after so many tokens, those that the vocabulary has first, within :data:`PLACES_WORK`."""
PLACES_WORK = 5_000_000
_SOME = 64  # tokens sampled to guess whether most lead to cursors of their own
_MOST_WAYS = 200  # endings that are remembered to be tried from other cursors
_ROOM, _LEAST_ROOM = 4, 64  # without a bound, a budget is far away if it is _ROOM times the estimate plus _LEAST_ROOM
_MOST_CURSORS = 50_000  # cursors whose endings one table holds, besides the table before it
_MOST_PROFILE_BYTES, _MOST_AFTER_BYTES = 16 << 20, 4 << 20
_CURSOR_BYTES = 110  # of one in a table
_TOLD_BYTES = 1 << 14


class _Places(NamedTuple):
    """Where the tokens of the mask ``row`` at ``cursor`` lead, except those that end the text.

    ``after``: the distinct cursors; ``numbers``: int32, each token's index among them, -1 for none. If not ``is_whole``, only
    for some tokens (:data:`LOOKED_AT`), and -1 for the others.
    """

    cursor: int
    row: np.ndarray
    after: list[int]
    numbers: np.ndarray
    is_whole: bool


class Budgets:
    """Endings in tokens, for one arena and one set of stop tokens. The caller holds the arena's lock.

    ``stops``: int64, a count and the tokens that end a text. Lengths of endings do not count the stop token.
    """

    def __init__(self, arena: Arena, endings: completion.Endings, stops: np.ndarray) -> None:
        self.arena = arena
        self.endings = endings
        self._stops = stops
        self._stop_list = stops[1:].tolist()
        self.last = 1 if self._stop_list else 0
        """Tokens after an ending: 1 for the stop token, 0 if there is none."""
        self.found = FoundEndings()
        self._after: dict[int, list[int]] = {}  # distinct cursors after one token
        self._after_bytes = 0
        self._told = 0
        self._most_after: dict[tuple[int, int], int] = {}  # :meth:`_left_after` of a cursor and levels
        self._is_tracked = bool(arena.header[layout.HAS_TRACKED])
        self._ways: dict[tuple[tuple[int, int], ...], list[int]] = {}  # endings found, by cursors without their texts
        self._tried: dict[int, int] = {}  # the largest length for which a search was given up
        self._bounds: dict[int, int] = {}  # lower bounds of tokens to the end
        self._last_places: _Places | None = None  # :meth:`_places_after` a cursor
        self._profiles: dict[int, Profile] = {}
        self._profile_bytes = 0
        self._bounds_known: list[Growth] = []
        self._units = [Budgets._bytes, Budgets._tokens]  # units whose bound is not computed yet (unbound: no reference cycle)
        self._search_left = 0
        self._most_bytes = max(1, arena.vocab.max_token_bytes)

    def tell(self, account: Account) -> None:
        """Tell an account the bytes of what is known, if they have changed much."""
        nbytes = self.nbytes
        if abs(nbytes - self._told) > _TOLD_BYTES:
            self._told = nbytes
            account.note("budgets", nbytes)

    @property
    def nbytes(self) -> int:
        """Bytes of what is known."""
        tables = _CURSOR_BYTES * (len(self._after) + len(self._tried) + len(self._bounds) + len(self._most_after))
        own = 0 if self.endings.is_shared else self.endings.nbytes
        return (
            own
            + tables
            + self.found.nbytes
            + self._after_bytes
            + self._profile_bytes
            + sum(growth.nbytes for growth in self._bounds_known)
        )

    # --- far away -------------------------------------------------------------------------------------------------------------

    def quiet(
        self, cursor: int, budget: int, tokens: list[int], seen: Seen | None, row: int = 0
    ) -> tuple[int, int, Seen | None]:
        """Return ``(enough, until, seen)``: a budget of ``enough`` tokens fits every token while the text has at most ``until``
        tokens.

        ``tokens``: the text so far, at whose end ``cursor`` is. ``seen``: what was known at an earlier place of the text; the
        returned one is for later calls. ``row``: the address of the mask, 0 if none is at hand. If every token has to be looked
        at, ``enough`` is more than the given budget, and ``until`` less than the text's tokens (:data:`ALWAYS`).
        """
        for growth in self._growths():
            found = growth.steps(cursor, budget - self.last, tokens, seen, row)
            if found is not None:
                return budget - found[0], len(tokens) + found[0], found[1]
            if growth.separators is not None:
                levels = growth.few_levels(cursor, budget - self.last)
                if 2 * self._left_after(cursor, growth, levels) + 1 + self.last <= budget:
                    return budget, len(tokens), seen
        if self._bounds_known or self.arena.header[layout.HAS_CLOCKS]:
            return *ALWAYS, None
        is_far = _ROOM * self._left_after(cursor, None, -1) + _LEAST_ROOM <= budget
        return (budget, len(tokens), seen) if is_far else (*ALWAYS, None)

    def _left_after(self, cursor: int, growth: Growth | None, levels: int) -> int:
        """Return the most bytes that a shortest ending has after the tokens of a place; :data:`FAR` if that is not known.

        ``growth``: a bound; then only tokens of more than ``levels`` levels are looked at, since the others fit. Without a
        bound, the search's estimates count.
        """
        known = self._most_after.get((cursor, levels))
        if known is None:
            if len(self._most_after) > _MOST_CURSORS:
                self._most_after.clear()
            try:
                with self.arena.one_budget(self.arena.limits.max_step_work):
                    row = self.arena.mask(cursor, self._stops)
                    if growth is not None:
                        growth.leave_deep(cursor, row, levels)
                    clear_bits(row, self._stop_list)
                    places, is_whole = self._successors(cursor, row)[::2]
                    if growth is not None and not is_whole:
                        return FAR
                    known = max(map(self.endings.estimate if growth is None else growth.left, places), default=0)
            except LimitExceeded:
                return FAR  # partial results are kept, so the next attempt takes less
            self._most_after[cursor, levels] = known
        return known

    def _growths(self) -> Iterator[Growth]:
        """Yield the bounds there are, the one that is computed fastest first."""
        yield from self._bounds_known
        while self._units:
            unit = self._units.pop(0)(self)
            if unit is None:
                continue
            try:
                with self.arena.one_budget(GRANT):
                    growth = Growth(self.arena, self.endings.costs.measures, unit)
            except LimitExceeded:
                continue
            if not growth.is_known:
                self._units.clear()
                return
            self._bounds_known.append(growth)
            yield growth

    def _bytes(self) -> Unit | None:
        """Return the unit of costs in bytes, if each byte is a token of its own; else None."""
        arena = self.arena
        texts = arena.vocab.tokens
        if not self.endings.spells_bytes or any(len(texts[token] or b"") == 1 for token in self._stop_list):
            return None
        apart = None
        if not arena.is_exact:
            try:
                with arena.one_budget(arena.limits.max_step_work):
                    apart = separators(arena, self.endings)
            except LimitExceeded:
                pass
            if apart is None:
                return None
        return byte_costs(arena, self.endings.costs, apart)

    def _tokens(self) -> Unit | None:
        """Return the unit of costs in tokens, which are known for endings of the fewest bytes."""
        return token_costs(self.arena, self.endings, self._stops) if self.arena.is_exact else None

    def knows(self, cursor: int) -> bool:
        """Return whether the tokens of a place have been looked at before."""
        return cursor in self._profiles

    # --- masks ----------------------------------------------------------------------------------------------------------------

    def profile(self, cursor: int, text: list[int]) -> Profile:
        """Return the tokens of a place by the tokens that must follow each. ``text``: the tokens so far, at whose end
        ``cursor`` is.

        Raises :class:`LimitExceeded` or :class:`EngineError`.
        """
        known = self._profiles.get(cursor)
        if known is None:
            known, is_whole = self._profile(cursor, text)
            if is_whole:
                self._keep(cursor, known)
        return known

    def write_fitting(self, cursor: int, budget: int, text: list[int], row_address: int) -> tuple[int, bool]:
        """Narrow a mask row, which holds the mask of a cursor, to the tokens that leave room for an ending.

        ``text``: the tokens so far, at whose end ``cursor`` is; ``budget``: tokens that may come, the stop token included.
        Returns the smallest budget that is enough (if that is more, the row is left alone), and whether tokens were masked.
        """
        profile = self._profile_for(cursor, budget, text)
        address = profile.fitting(budget - 1)
        if address:
            ctypes.memmove(row_address, address, profile.row.nbytes)
        if not profile.costs and self._may_stop(cursor):
            return 0, False  # the text is complete, and no token is to end it
        return (profile.costs[0] if profile.costs else FAR) + 1, bool(address)

    def has_room(self, after: int, budget: int) -> bool:
        """Return whether an ending from a cursor is known that fits a budget, its stop token included."""
        return (0 if after == TERMINATED else self.found.left.get(after, FAR) + self.last) <= budget

    def allows(self, cursor: int, token: int, after: int, budget: int, text: list[int]) -> bool:
        """Return whether a token, which leads to ``after``, is in the row that :meth:`write_fitting` would leave."""
        with suppress(LimitExceeded, EngineError), self.arena.one_budget(GRANT):
            if after != TERMINATED and after not in self.found.left:
                self._look_for_ending(after)
        if self.has_room(after, budget - 1):  # the row would have it, too: no need to judge all tokens
            return True
        try:
            profile = self._profile_for(cursor, budget, text)
        except BudgetError:
            return False
        if not profile.costs or profile.costs[0] >= budget:
            return False
        return has_bit(profile.row_of(budget - 1), token)

    def _profile_for(self, cursor: int, budget: int, text: list[int]) -> Profile:
        """Return :meth:`profile`, with endings in fewer tokens where these matter for a budget.

        Also raises :class:`BudgetError`, if no ending was found and none can be so short.
        """
        try:
            profile = self.profile(cursor, text)
        except LimitExceeded:
            least = self.endings.tokens_at_least(cursor) + self.last
            if least <= budget:
                raise
            message = f"a budget of {budget} tokens: expected at least {least}, since no legal ending is shorter"
            raise BudgetError(message, budget, least) from None
        if self._improve(cursor, profile, budget - 1) or self._ends_sooner(cursor, profile, budget):
            self._drop(cursor)
            profile = self.profile(cursor, text)
        return profile

    def _ends_sooner(self, cursor: int, profile: Profile, budget: int) -> bool:
        """If no token fits a budget: return whether completion finds a shorter ending here than the noted one.

        The noted one may have been taken over from a cursor that differs only in its text.
        """
        if profile.costs and profile.costs[0] < budget:
            return False
        with suppress(EngineError, LimitExceeded), self.arena.one_budget(GRANT):
            path, tokens = self._ending(cursor)
            if len(tokens) < self.found.left.get(cursor, FAR):
                self._note(path, tokens)
                return True
        return False

    def _keep(self, cursor: int, profile: Profile) -> None:
        if self._profile_bytes > _MOST_PROFILE_BYTES:
            self._profiles.clear()
            self._profile_bytes = 0
        self._profiles[cursor] = profile
        # mask rows are made on demand: count a few of them
        self._profile_bytes += profile.nbytes + profile.row.nbytes * min(len(profile.costs), 4)

    def _drop(self, cursor: int) -> None:
        profile = self._profiles.pop(cursor, None)
        if profile is not None:
            self._profile_bytes -= profile.nbytes

    def _profile(self, cursor: int, text: list[int]) -> tuple[Profile, bool]:
        """Return :meth:`profile`, and whether all endings were looked for."""
        arena = self.arena
        if len(self.found.left) > _MOST_CURSORS:
            self.found = FoundEndings(self.found)
            self._tried.clear()
        if len(self._bounds) > _MOST_CURSORS:
            self._bounds.clear()
        with arena.one_budget(2 * arena.limits.max_step_work):
            if cursor not in self.found.left and not self._may_stop(cursor):  # here errors are raised, which `left` swallows
                self._find_ending(cursor)
            places = self._places_after(cursor)
        row, numbers = places.row, places.numbers
        with arena.one_budget(GRANT):
            ends = {t: self._cost(self._follow(cursor, t)) for t in self._stop_list if has_bit(row, t)}
            costs = [self._cost(after) for after in places.after]
            is_whole = bool(arena.header[layout.WORK_LEFT] >= 0)
        others = np.zeros(0, np.int64)
        least = np.zeros(0, np.int64)
        if not places.is_whole:
            others = np.flatnonzero(bit_flags(row) & (numbers < 0))
            others = others[~np.isin(others, self._stop_list)]
            least = self._known_after(cursor, text)[others]
        order = sorted({*costs, *ends.values(), *least.tolist()})
        classes = np.array([*map(order.index, costs), -1], np.int16).take(numbers)  # -1, for no token, is the last one
        for token, cost in ends.items():
            classes[token] = order.index(cost)
        classes[others] = np.searchsorted(order, least)
        return Profile(row, order, classes), is_whole

    def _known_after(self, cursor: int, text: list[int]) -> np.ndarray:
        """Return an upper bound of what must come after each token, int64, the stop token included; :data:`FAR` if none is
        known.
        """
        out = np.full(32 * self.arena.header[layout.WORDS], FAR, np.int64)
        for growth in self._growths():
            found = growth.after_tokens(cursor, text)
            if found is not None:
                np.minimum(out[: len(found)], found, out=out[: len(found)])
        return out + self.last

    def _places_after(self, cursor: int) -> _Places:
        """Return where the tokens of a place lead that do not end the text. The last answer is kept."""
        known = self._last_places
        if known is None or known.cursor != cursor:
            row = self.arena.mask(cursor, self._stops)
            rest = row.copy()
            clear_bits(rest, self._stop_list)
            known = self._last_places = _Places(cursor, row, *self._successors(cursor, rest))
        return known

    def _successors(self, cursor: int, row: np.ndarray) -> tuple[list[int], np.ndarray, bool]:
        """Return the distinct cursors after a row's tokens, each token's index (:func:`successors`), and whether all tokens are
        covered.
        """
        if not self._is_tracked:
            return *successors(self.arena, cursor, row), True
        allowed = np.flatnonzero(bit_flags(row)).tolist()
        some = allowed[:: -(-len(allowed) // _SOME)] if allowed else []
        if 2 * len({self._follow(cursor, token) for token in some}) <= len(some) or len(allowed) <= MOST_PLACES:
            found = few_successors(self.arena, cursor, row, MOST_PLACES)
            if found is not None:
                return *found, True
        tokens = allowed[:LOOKED_AT]
        known = self.found.next_token(cursor)
        if known >= 0:
            tokens.insert(0, known)
        numbers = np.full(32 * len(row), -1, np.int32)
        after: dict[int, int] = {}
        head = self.arena.header
        enough = int(head[layout.WORK_LEFT]) - PLACES_WORK
        for token in tokens:
            place = self._follow(cursor, token)
            if place:
                numbers[token] = after.setdefault(place, len(after))
            if head[layout.WORK_LEFT] < enough:
                break
        return list(after), numbers, False

    def _cost(self, cursor: int) -> int:
        """Return how many tokens must come after a token that leads to a cursor, the stop token included."""
        return 0 if cursor == TERMINATED else self.left(cursor) + self.last

    # --- endings --------------------------------------------------------------------------------------------------------------

    def left(self, cursor: int) -> int:
        """Return the tokens of an ending from a cursor that was found and followed; :data:`FAR` if none was."""
        known = self.found.left.get(cursor)
        if known is not None:
            return known
        arena = self.arena
        if arena.header[layout.WORK_LEFT] < 0:
            return FAR  # not stored: the next place's tokens get a grant of their own
        try:
            self._look_for_ending(cursor)
        except LimitExceeded:
            if arena.header[layout.WORK_LEFT] < 0:
                return FAR
        except EngineError:
            pass
        return self.found.left.setdefault(cursor, FAR)

    def _look_for_ending(self, cursor: int) -> None:
        """Do :meth:`_find_ending`, unless the text may stop here: then note an empty ending."""
        if self._may_stop(cursor):
            self.found.left[cursor] = 0
        else:
            self._find_ending(cursor)

    def _find_ending(self, cursor: int) -> None:
        """Find an ending from a cursor, and note it. Raises :class:`EngineError` or :class:`LimitExceeded`.

        Cursors that differ only in their texts mostly end alike: the ending of another one is tried first.
        """
        promised = self.found.tokens_from(cursor)
        if promised is not None and self.promise(cursor, promised):
            return
        alike = tuple(self.arena.pairs(cursor)) if self._is_tracked else ()
        tokens = self._ways.get(alike)
        path = None if tokens is None else self._path(cursor, tokens)
        if tokens is None or path is None:
            path, tokens = self._ending(cursor)
            if alike:
                if len(self._ways) >= _MOST_WAYS:
                    self._ways.clear()
                self._ways[alike] = tokens
        self._note(path, tokens)

    def _ending(self, cursor: int) -> tuple[list[int], list[int]]:
        """Return the cursors of an ending, ``cursor`` first, and its tokens."""

        def follow(tokens: list[int]) -> tuple[list[int], list[int]] | None:
            path = self._path(cursor, tokens)
            return None if path is None else (path, tokens)

        found = self.endings.followed(cursor, self._stops, follow)
        if found is None:
            raise EngineError(completion.NOT_FOLLOWED)
        return found

    def _path(self, cursor: int, tokens: list[int]) -> list[int] | None:
        """Return the cursors after some tokens, ``cursor`` first; None if the text may not end after them.

        The last token may be a stop token that the rules name: then the path ends before it.
        """
        path = [cursor]
        for place, token in enumerate(tokens):
            cursor = self._follow(cursor, token)
            if cursor == TERMINATED and place == len(tokens) - 1:
                return path
            if cursor in (0, TERMINATED):
                return None
            path.append(cursor)
        return path if self._accepts(cursor) else None

    def promise(self, cursor: int, tokens: list[int]) -> bool:
        """Note an ending that was promised for a cursor if it is legal there; return whether it is."""
        path = self._path(cursor, tokens)
        if path is None:
            return False
        self._note(path, tokens)
        return True

    def _note(self, path: list[int], tokens: Sequence[int], beyond: int = 0) -> None:
        """Note an ending (:meth:`FoundEndings.note`), and drop the profiles that would not allow a shorter one."""
        for cursor in path[: self.found.note(path, tokens, beyond)]:
            self._drop(cursor)

    def _accepts(self, cursor: int) -> bool:
        return bool(self.arena.call(kernels.OP_ACCEPTS, cursor))

    def _may_stop(self, cursor: int) -> bool:
        """Return whether a stop token may come: after an ending, or because the rules name it."""
        if self._accepts(cursor):
            return True
        named = self._stop_list if self.arena.header[layout.HAS_TERMINALS] else ()
        return any(self._follow(cursor, token) == TERMINATED for token in named)

    def _follow(self, cursor: int, token: int) -> int:
        """Return the cursor after a token; :data:`TERMINATED` after one that ends the text."""
        if token in self._stop_list:
            return after_stop(self.arena, cursor, token)
        return self.arena.call(kernels.OP_ACCEPT, cursor, token, 1)

    # --- fewer tokens ---------------------------------------------------------------------------------------------------------

    def _improve(self, cursor: int, profile: Profile, most: int) -> bool:
        """Look for endings in fewer tokens where they would make tokens fit; return whether any was found."""
        at = bisect_right(profile.costs, most)
        if at == len(profile.costs) or profile.costs[at] > most + SEARCH_GAP:
            return False
        length = most - self.last
        found = False
        self._search_left = SEARCH_WORK
        if length >= 0:
            with suppress(LimitExceeded), self.arena.one_budget(GRANT):
                for after in self._cursors_after(cursor):
                    left = self.found.left.get(after, FAR)
                    if length < left <= length + SEARCH_GAP and length > self._tried.get(after, -1):
                        found = self._search(after, length) or found
        return found

    def _cursors_after(self, cursor: int) -> list[int]:
        """Return the distinct cursors after one token that does not end the text."""
        known = self._after.get(cursor)
        if known is None:
            if self._after_bytes > _MOST_AFTER_BYTES:
                self._after.clear()
                self._after_bytes = 0
            places = self._places_after(cursor)
            known = self._after[cursor] = places.after if places.is_whole else []
            self._after_bytes += 40 * len(known)
        return known

    def _token_between(self, cursor: int, after: int) -> int:
        """Return a token that leads from a cursor to one of those after it."""
        places = self._places_after(cursor)
        return int((places.numbers == places.after.index(after)).argmax())

    def _search(self, start: int, length: int) -> bool:
        """Search for an ending of at most ``length`` tokens from a cursor; return whether one was found.

        A* over tokens (Hart, Nilsson and Raphael, 1968). The heuristic: the bytes of a shortest text, divided by those of a
        longest token.
        """
        head = self.arena.header
        order = count()
        best = {start: 0}
        came: dict[int, int] = {}
        try:
            pending = [(self._least(start), next(order), 0, start)]
            while pending:
                _, _, taken, cursor = heappop(pending)
                if taken > best[cursor]:
                    continue
                known = self.found.left.get(cursor)
                if known is None and self._may_stop(cursor):
                    known = self.found.left[cursor] = 0
                if known is not None and taken + known <= length:
                    path = [cursor]
                    while path[-1] != start:
                        path.append(came[path[-1]])
                    path.reverse()
                    self._note(path, [self._token_between(*pair) for pair in pairwise(path)], known)
                    return True
                if self._search_left < 0:
                    break
                n_nodes = int(head[layout.C_NODES])
                following = self._cursors_after(cursor)
                self._search_left -= _PLACE_NODES * (1 + len(following))
                for after in following:
                    bound = taken + 1 + self._least(after)
                    if bound <= length and taken + 1 < best.get(after, FAR):
                        best[after], came[after] = taken + 1, cursor
                        heappush(pending, (bound, next(order), taken + 1, after))
                self._search_left -= int(head[layout.C_NODES]) - n_nodes
        except (LimitExceeded, EngineError):
            pass
        self._tried[start] = max(length, self._tried.get(start, -1))
        return False

    def _least(self, cursor: int) -> int:
        """Return a lower bound of the tokens to the end, by the rules that are known so far."""
        known = self._bounds.get(cursor)
        if known is None:
            text = self.endings.bytes_left(cursor)
            known = self._bounds[cursor] = 1 if text >= FAR else -(-text // self._most_bytes)
        return known
