r"""The public classes of infilling: texts with gaps, and canvases of diffusion models, kept completable.

>>> import cdplugin as cd
>>> vocab = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"</s>"], eos_token_ids=256)
>>> infill = cd.Infill(cd.Compiler(vocab).compile(cd.Regex(r"[0-9]+(\+[0-9]+)*=[0-9]+")))
>>> session = infill.new(["1", cd.GAP, "=", cd.Slots(2)])
>>> session.completable(), session.insert(0, ord("+")), session.insert(0, ord("="))
(True, True, False)
>>> session.complete()
'1+0=00'

An :class:`InfillSession` checks calls, keeps the history, and asks :class:`cdplugin.infill.answers.Answers`.
``docs/infilling.md`` says what is exact. A session accepts only changes after which the text is completable, so some token may
always come next until the text is complete.
"""

from __future__ import annotations

import itertools
import math
import random
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from cdplugin import forking
from cdplugin.bits import bit_members, bitmask_words, clear_bits, has_bit, set_bits
from cdplugin.collector import gc_paused
from cdplugin.errors import LimitExceeded, integer, iterable
from cdplugin.infill.answers import Answers
from cdplugin.infill.at_rest import leave_tables, take_tables
from cdplugin.infill.parts import Part, drawn, filled, number_of_slots, parts_of, with_token
from cdplugin.infill.search import SearchGivenUp, none_found
from cdplugin.infill.tables import InfillGrammar
from cdplugin.infill.witness import Witness, filling_of, without
from cdplugin.kernels.store import layout
from cdplugin.matcher import Grammar

T = TypeVar("T")

QUESTION_STEPS, COMPLETION_STEPS = 10, 24
"""The work of one question about a text, and of a whole completion, in multiples of ``Limits.max_step_work``."""
_MOST_BEGUN = 64  # gaps of a completion that begin with random tokens; those side by side are one until text parts them


class Infill:
    """Infilling for a compiled grammar. Threads may share it; a session belongs to one thread.

    ``threads``: how many sessions may compute at once (:meth:`map`). There are as many sets of tables, given to sessions in
    turn; each memoises what it computed about the grammar and its last text.

    Raises :class:`cdplugin.UnsupportedError` for grammars with token terminals or ``max_tokens`` and for those that remember
    texts (``unique_names``, ``uniqueItems`` over many values, 40 names or more in any order), :class:`cdplugin.LimitExceeded`
    for those whose rules made on demand are too many to make all of them, ``ValueError`` for ``threads`` below 1.
    """

    def __init__(self, grammar: Grammar, threads: int = 1) -> None:
        if not isinstance(grammar, Grammar):
            raise TypeError(f"grammar: expected a cdplugin.Grammar, found {type(grammar).__name__}")
        threads = integer("threads", threads, 1)
        self.grammar = grammar
        self.vocab = grammar.vocab
        self.threads = threads
        self._tables = take_tables(grammar)
        self._all_tables = [self._tables]
        weakref.finalize(self, leave_tables, self._all_tables).atexit = False
        self._n_sessions = 0
        self._turns = threading.Lock()
        self._pool = forking.Threads(threads, "cdplugin-infill")
        forking.renew(self, "_turns")  # what it guards is a count and a list

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Infill:
        return self

    __copy__ = __deepcopy__

    def __reduce__(self) -> Any:
        raise TypeError(
            "an Infill cannot be pickled: pickle the grammar's spec and its Vocabulary or Compiler, and compile it there"
        )

    def new(self, pieces: Iterable[Any]) -> InfillSession:
        """A session for text with gaps.

        ``pieces``: str (as UTF-8), bytes, token ids (a list of int), :data:`GAP` (text of any length) and :class:`Slots`
        (exactly so many tokens), in any order. Gaps and single slots are numbered together, from left to right, from 0.

        Raises ``TypeError`` for other pieces, ``ValueError`` for tokens out of range, less than no slots, and text that is not
        Unicode; :class:`LimitExceeded` for more than :data:`cdplugin.infill.parts.MOST_SLOTS` slots.
        """
        parts = parts_of(pieces, self._bytes_of)
        places = [i for i, part in enumerate(parts) if part.gap or part.slot]
        return InfillSession(self, parts, places, padded=False)

    def canvas(self, ids: Iterable[int], mask_token_id: int, end: bool = True) -> InfillSession:
        """A session for a diffusion model's canvas: a slot wherever ``ids`` is ``mask_token_id``; places are positions.

        ``end``: the text ends with the canvas, or before it: then end tokens fill the rest. False: it may go on after it, and
        no end token may stand in it.

        Raises as :meth:`new` does.
        """
        tokens = [integer("token id", token) for token in iterable("canvas", ids)]
        mask_token_id = integer("mask_token_id", mask_token_id)
        number_of_slots("canvas", tokens.count(mask_token_id))
        parts = [Part(slot=True) if t == mask_token_id else Part(self._bytes_of(t, end), token=t) for t in tokens]
        if not end:
            parts.append(Part(gap=True))
        return InfillSession(self, parts, list(range(len(tokens))), padded=end)

    def map(self, function: Callable[[InfillSession], T], sessions: Sequence[InfillSession]) -> list[T]:
        """``[function(session) for session in sessions]``, up to ``threads`` at once; the kernels run without the GIL.

        Sessions that share tables run one after another, in their order. If calls raise, the other calls are still made; then
        the first error is raised.
        """
        groups: dict[int, list[int]] = {}
        for i, session in enumerate(iterable("sessions", sessions)):
            if not isinstance(session, InfillSession):
                raise TypeError(f"sessions: expected an InfillSession, found {type(session).__name__}")
            groups.setdefault(id(session._tables), []).append(i)
        results: dict[int, T] = {}
        errors: dict[int, BaseException] = {}

        def run(group: list[int]) -> None:
            for i in group:
                try:
                    results[i] = function(sessions[i])
                except Exception as error:
                    errors[i] = error

        if len(groups) > 1:
            futures: list[Future[None]] = []
            try:
                for group in groups.values():
                    futures.append(self._pool.submit(run, group))
                for future in futures:
                    future.result()
            except BaseException:  # an interrupt: the sessions are the caller's again once the threads are done
                forking.finish(futures)
                raise
        else:
            run(list(range(len(sessions))))
        if errors:
            raise errors[min(errors)]
        return [results[i] for i in range(len(sessions))]

    def _tables_in_turn(self) -> InfillGrammar:
        """The tables of the next session; made when they are needed first."""
        with self._turns:
            turn = self._n_sessions % self.threads
            self._n_sessions += 1
            if turn == len(self._all_tables):
                self._all_tables.append(take_tables(self.grammar))
            return self._all_tables[turn]

    def accepts(self, text: bytes) -> bool:
        """Whether the ordinary matcher accepts a text."""
        arena = self._tables.arena
        with self._tables.lock, self._tables, arena.one_budget(QUESTION_STEPS * arena.limits.max_step_work):
            return self._tables.accepts(text)

    def _bytes_of(self, token: int, may_end: bool = False) -> bytes:
        integer("token id", token, 0, self.vocab.size)
        if may_end and token in self.vocab.eos_token_ids:
            return b""
        text = self.vocab.tokens[token]
        if not text:
            raise ValueError(f"token {token}: expected a token with text, found {self.vocab.names.get(token, 'none')!r}")
        return text


class InfillSession:
    """One text with gaps or slots. A change that would leave no legal text is refused and changes nothing.

    If lexemes compete, it may take too long to find out whether a legal text is left. Then :meth:`completable`, :meth:`set`,
    :meth:`insert`, :meth:`close` and :meth:`complete` raise :class:`LimitExceeded` and change nothing.
    """

    undecided: int = 0
    """How many tokens the last mask left out because it takes too long to find out whether they are legal."""

    def __init__(self, infill: Infill, parts: list[Part], places: list[int], *, padded: bool) -> None:
        self._infill = infill
        self._tables = infill._tables_in_turn()
        self._parts = parts
        self._places = places
        self._padded = padded and bool(infill.vocab.eos_token_ids)
        self._answers = Answers(self._tables, self._padded)
        self._eos = self._answers.eos
        self._history: list[tuple[int, Part, bool | None, Witness | None]] = []
        self._known: bool | None = None
        # the last mask, until the text changes: its place, its tokens, how many are undecided
        self._row: tuple[int, np.ndarray, int] | None = None
        self._witness: Witness | None = None  # a legal text, kept if the next search might not find one
        self._ended: Witness | None = None  # the same with an end token at the place of the last mask
        self._work_left: int | None = None  # of a completion: for all of its questions

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> InfillSession:
        other = InfillSession(self._infill, self._parts.copy(), self._places, padded=self._padded)
        other._history, other._known, other._witness = self._history.copy(), self._known, self._witness
        return other

    __copy__ = __deepcopy__

    def __reduce__(self) -> Any:
        raise TypeError("an InfillSession cannot be pickled: pickle the spec and tokens(), and make a session of them there")

    # --- asking -------------------------------------------------------------------------------------------------------------

    def completable(self) -> bool:
        """Whether the open places can be filled so that the text is legal."""
        if self._known is None:
            with self._tables.lock, self._asking():
                self._known = self._answers.completable(self._parts)
                self._witness = self._answers.proof.of(self._parts)
        return self._known

    def open_places(self) -> list[int]:
        """The places that are still open: slots without a token, gaps that were not closed. From left to right."""
        return [place for place, at in enumerate(self._places) if self._parts[at].is_open]

    def open_slots(self) -> list[int]:
        """The slots without a token: the places that :meth:`set` fills."""
        return [place for place in self.open_places() if not self._parts[self._places[place]].gap]

    def open_gaps(self) -> list[int]:
        """The gaps that were not closed: the places of :meth:`insert` and :meth:`close`."""
        return [place for place in self.open_places() if self._parts[self._places[place]].gap]

    def text(self) -> str | None:
        """The text, or None while some place is open."""
        if self.open_places():
            return None
        return self._bytes().decode("utf-8", "replace")

    def tokens(self) -> list[int | None]:
        """The token of each place (canvas), None where it is open."""
        return [self._parts[at].token for at in self._places]

    def mask(self, place: int) -> np.ndarray:
        """The tokens that may be set in a slot, or inserted at the left edge of a gap: an int32 bitmask row.

        Bit ``t % 32`` of word ``t // 32`` is token t. :attr:`undecided` says whether any is left out that may be legal. Raises
        ``ValueError`` where the place is not open.
        """
        place, part = self._open_part(place)
        vocab = self._infill.vocab
        if self._row is not None and self._row[0] == place:
            _, row, self.undecided = self._row
            return row.copy()
        row = np.zeros(bitmask_words(vocab.size), np.int32)
        self.undecided = 0
        if not self.completable():
            return row
        with self._tables.lock, self._asking():
            self.undecided = self._answers.mask(self._parts, self._places[place], row, self._witness)
            if self._witness is None:  # only a lattice had said that a text exists
                self._witness = self._answers.witness()
        self._set_ends(place, part, row)
        self._row = (place, row, self.undecided)
        return row.copy()

    def _set_ends(self, place: int, part: Part, row: np.ndarray) -> None:
        """Set the bits of end tokens in a row where they may stand, and clear them elsewhere."""
        clear_bits(row, self._eos)
        try:
            can_pad = part.slot and self._padded and self._can_pad(place)
        except SearchGivenUp:
            can_pad = False
            self.undecided += len(self._eos)
        if can_pad:
            set_bits(row, np.array([*self._eos]))

    def masks(self, places: Sequence[int]) -> np.ndarray:
        """:meth:`mask` for several places, each as the text is now: int32, ``(len(places), words)``."""
        words = bitmask_words(self._infill.vocab.size)
        return np.array([self.mask(place) for place in places], np.int32).reshape(len(places), words)

    # --- changing -----------------------------------------------------------------------------------------------------------

    def set(self, place: int, token_id: int) -> bool:
        """Fill a slot. False, and nothing changes, if no legal text would be left."""
        place, part = self._open_part(place, "slot")
        token = integer("token id", token_id)
        if token in self._eos and self._padded:
            return self._replace(place, Part(slot=True, token=token), token)
        text = self._text_of(token)
        return bool(text) and self._replace(place, with_token([part], 0, token, text)[0], token)

    def insert(self, place: int, token_id: int) -> bool:
        """Append a token at the left edge of a gap. False, and nothing changes, if no legal text would be left."""
        place, part = self._open_part(place, "gap")
        token = integer("token id", token_id)
        text = self._text_of(token)
        if not text:
            return False
        return self._replace(place, with_token([part], 0, token, text)[0], token)

    def close(self, place: int) -> bool:
        """End a gap: nothing more comes in it. False, and nothing changes, if no legal text would be left."""
        place, part = self._open_part(place, "gap")
        return self._replace(place, Part(part.text, gap=True, written=part.written, closed=True))

    def undo(self, n: int = 1) -> None:
        """Take back the last ``n`` changes. Raises ``ValueError`` if there are fewer."""
        n = integer("undo", n)
        if not 0 <= n <= len(self._history):
            raise ValueError(f"undo: expected 0 to {len(self._history)} changes, found {n}")
        for _ in range(n):
            at, self._parts[at], self._known, self._witness = self._history.pop()
            self._row = None

    def complete(self, rng: random.Random | None = None, max_tokens: int | None = None) -> str:
        """Fill everything that is open and return the text; the session stays as it is.

        Gaps are filled with a shortest text; with ``rng``, slots take random tokens and gaps may begin with some. In a fresh
        ``Infill`` the same seed gives the same text; what other sessions have found may lead to another one. ``max_tokens``: at
        most so many tokens in the gaps. If lexemes compete and another text would take too much work, a legal text that is
        known is returned. Raises ``ValueError`` if nothing legal is left, or none within ``max_tokens``.
        """
        if max_tokens is not None:
            max_tokens = integer("max_tokens", max_tokens)
        if rng is not None and not isinstance(rng, random.Random):
            raise TypeError(f"rng: expected a random.Random, found {type(rng).__name__}")
        if not self.completable():
            raise ValueError("complete: expected a completable text")
        answers, began = self._answers, len(self._history)
        last_mask = self._row, self.undecided, self._ended, answers.proofs, answers.merged
        self._work_left = COMPLETION_STEPS * self._tables.arena.limits.max_step_work
        try:
            text = self._completed(rng, max_tokens, began)
        except LimitExceeded:
            if max_tokens is not None or self._witness is None:
                raise
            text = self._as_known(self._witness)
        finally:
            self._work_left = None
            self.undo(len(self._history) - began)
            self._row, self.undecided, self._ended, answers.proofs, answers.merged = last_mask
        return text.decode("utf-8", "replace")

    # --- inside -------------------------------------------------------------------------------------------------------------

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """A context, inside the tables' lock, for one question to them, with a budget of work."""
        with self._tables:
            arena = self._tables.arena
            work = most = QUESTION_STEPS * arena.limits.max_step_work
            what = "a question about a text"
            if self._work_left is not None and self._work_left < work:
                work, most, what = max(self._work_left, 0), COMPLETION_STEPS * arena.limits.max_step_work, "a completion"
            with arena.one_budget(work, what=what, most=most), gc_paused():
                try:
                    yield
                finally:
                    if self._work_left is not None:
                        self._work_left -= work - int(arena.header[layout.WORK_LEFT])

    def _open_part(self, place: int, kind: str = "") -> tuple[int, Part]:
        """A place's number and part. Raises ``ValueError`` unless the place is open and of the wanted ``kind``."""
        place = integer("place", place)
        if not self._places:
            raise ValueError(f"place: expected a text with gaps or slots, found place {place} of one without")
        integer("place", place, 0, len(self._places))
        part = self._parts[self._places[place]]
        if not part.is_open:
            raise ValueError(f"place {place}: expected an open one, found {part.text!r}")
        found = "slot" if part.slot else "gap"
        if kind not in ("", found):
            raise ValueError(f"place {place}: expected a {kind}, found a {found}")
        return place, part

    def _text_of(self, token: int) -> bytes:
        vocab = self._infill.vocab
        return b"" if integer("token id", token, 0, vocab.size) in self._eos else vocab.tokens[token] or b""

    def _replace(self, place: int, part: Part, token: int | None = None) -> bool:
        at = self._places[place]
        before = self._parts[at]
        known, row, witness = self._known, self._row, self._witness
        in_mask = None
        if token is not None and row is not None and row[0] == place:
            is_set = has_bit(row[1], token)
            in_mask = is_set if self._tables.is_exact or is_set else None  # a token that it lacks may be undecided
        after = self._witness_with(at, token) if in_mask and token is not None else None
        self._parts[at], self._known, self._row, self._witness = part, in_mask, None, after
        try:
            is_legal, given_up = False, None
            try:
                is_legal = self.completable()
            except SearchGivenUp as error:
                given_up = error
            if is_legal or (token is not None and self._is_in_mask(place, before, row, token)):
                self._history.append((at, before, known, witness))
                return True
            if given_up is not None:
                raise given_up
        except BaseException:
            self._parts[at], self._known, self._row, self._witness = before, known, row, witness
            raise
        self._parts[at], self._known, self._row, self._witness = before, known, self._row or row, witness
        return False

    def _is_in_mask(self, place: int, before: Part, row: tuple[int, np.ndarray, int] | None, token: int) -> bool:
        """Whether the mask has a token with which the text counts as not completable; ``before``: the part without the token.

        On a large canvas whose lexemes compete, the other slots are planned with some classes only. A mask plans its own slot
        with all classes, so it may allow more than a check of the changed text does.
        """
        at = self._places[place]
        after = self._parts[at]
        if not after.slot or token in self._eos:
            return False
        with self._tables.lock, self._tables:
            if not self._answers.is_planned_short(self._parts):
                return False
        self._parts[at], self._known, self._row, undecided = before, True, row, self.undecided
        found = has_bit(self.mask(place), token)
        self.undecided = undecided
        self._parts[at], self._known = after, found
        self._row = None if found else self._row  # without the change this is the current mask
        return found

    def _witness_with(self, at: int, token: int) -> Witness | None:
        """A legal text with ``token``, one of the last mask, at a part; None if none is kept."""
        is_slot = self._parts[at].slot
        if self._witness is not None and is_slot and self._witness[at] == token:
            found: Witness | None = self._witness
        elif self._padded and token in self._eos:
            found = self._ended
        else:
            found = self._answers.witness(token)
        return without(found, at) if found and is_slot else found

    def _bytes(self) -> bytes:
        return b"".join(part.text for part in self._parts)

    def _can_pad(self, place: int) -> bool:
        """Whether an end token may stand in a slot: the text before it can be completed, and nothing is fixed after it."""
        parts = list(self._parts)
        at = self._places[place]
        if self._witness is not None and self._witness[at] in self._eos:
            self._ended = self._witness
            return True
        parts[at] = Part(slot=True, token=next(iter(self._eos)))
        with self._tables.lock, self._asking():
            can_pad = self._answers.may_end(parts, self._parts, self._witness)
        self._ended = self._answers.proof.of(parts) if can_pad else None
        return can_pad

    # --- completions --------------------------------------------------------------------------------------------------------

    def _completed(self, rng: random.Random | None, max_tokens: int | None, began: int) -> bytes:
        """The text with all slots and gaps filled. ``began``: how many changes must stay if random tokens in gaps have to be
        undone.
        """
        self._fill_slots(rng)
        n_filled = len(self._history)
        self._grow_gaps(rng, 12 if max_tokens is None else max_tokens)
        try:
            text = self._close_gaps(max_tokens)
        except LimitExceeded:
            if len(self._history) == n_filled:
                raise
            self.undo(len(self._history) - n_filled)
            text = self._close_gaps(max_tokens)
        while text is None and len(self._history) > began and self._parts[self._history[-1][0]].gap:
            self.undo()
            text = self._close_gaps(max_tokens)
        if text is None:
            raise ValueError(f"complete: no legal text was found with at most {max_tokens} tokens in the gaps")
        return text

    def _as_known(self, witness: Witness) -> bytes:
        """The text that a witness of the parts spells."""
        fillings = [filling_of(self._tables, found) for found in witness]
        return b"".join(part.text + filling for part, filling in zip(self._parts, fillings, strict=True))

    def _fill_slots(self, rng: random.Random | None) -> None:
        """Fill every open slot with a token that its mask allows.

        Where the matcher goes from slot to slot, masks take long; there, without a generator, the tokens of a known legal text
        are taken.
        """
        with self._tables.lock, self._asking():
            is_followed = rng is None and self._answers.is_followed(self._parts)
        for place in self.open_slots():
            if is_followed and self._fill_as_known(place):
                continue
            tokens = bit_members(self._tokens_for(place))
            if not len(tokens):
                if not self.undecided:
                    raise AssertionError("a completable canvas without a token")
                raise none_found()
            is_end = np.isin(tokens, [*self._eos])
            order = itertools.chain(drawn(tokens[is_end], rng), drawn(tokens[~is_end], rng))
            if not any(surely(self.set, place, token) for token in order):
                raise none_found()

    def _fill_as_known(self, place: int) -> bool:
        """Fill a slot as the witness does, or with an end token if the text may end there; whether there is a witness."""
        at = self._places[place]
        witness = self._witness
        if witness is None or not isinstance(witness[at], int):
            return False
        if self._padded and all(part.is_open for part in self._parts[at:]):
            with self._tables.lock, self._asking():
                if self._tables.accepts(b"".join(part.text for part in self._parts[:at])):
                    witness = [*witness[:at], *(min(self._eos) for _ in self._parts[at:])]
        token, before = witness[at], self._parts[at]
        assert isinstance(token, int)
        self._history.append((at, before, self._known, self._witness))
        self._parts[at] = with_token([before], 0, token, self._text_of(token))[0]
        self._witness = without(witness, at)
        self._row = None
        return True

    def _tokens_for(self, place: int) -> np.ndarray:
        """A row of tokens that may fill a slot: those of one lattice if it knows any, or else the mask."""
        row = np.zeros(bitmask_words(self._infill.vocab.size), np.int32)
        if self.completable():
            with self._tables.lock, self._asking():
                self._answers.add_known(self._parts, self._places[place], row)
        if not row.any():
            return self.mask(place)
        self._set_ends(place, self._parts[self._places[place]], row)
        self._row = (place, row, 0)
        return row

    def _grow_gaps(self, rng: random.Random | None, budget: int) -> None:
        """With a generator, begin gaps with random tokens, at most 64 of them, as long as that takes an eighth of the work."""
        if rng is None or self._work_left is None:
            return
        open_gaps = self.open_gaps()
        places = open_gaps if len(open_gaps) <= _MOST_BEGUN else sorted(rng.sample(open_gaps, _MOST_BEGUN))
        kept = self._work_left // 8 * 7
        self._work_left -= kept
        try:
            for place in places:
                for _ in range(rng.randint(0, max(budget // 3, 0))):
                    tokens = bit_members(self.mask(place))
                    if not len(tokens):
                        break
                    surely(self.insert, place, int(rng.choice(tokens)))
        except LimitExceeded:
            pass
        finally:
            self._work_left += kept

    def _close_gaps(self, max_tokens: int | None) -> bytes | None:
        """The text with a shortest filling in each gap, or None if that takes more than ``max_tokens``."""
        with self._tables.lock, self._asking():
            fillings = self._answers.fillings(self._parts)
        if fillings is None:
            raise none_found()
        if max_tokens is not None:
            used = sum(map(self._fewest_tokens, fillings))
            used += sum(len(part.written) for part in self._parts)
            if used > max_tokens:
                return None
        return filled(self._parts, fillings)

    def _fewest_tokens(self, text: bytes) -> float:
        """The fewest tokens that spell a text; infinity if none do."""
        ids, lengths = self._infill.vocab.token_of
        fewest = [0.0]
        for end in range(1, len(text) + 1):
            ends = (fewest[end - n] for n in lengths if n <= end and text[end - n : end] in ids)
            fewest.append(1 + min(ends, default=math.inf))
        return fewest[-1]


def surely(change: Callable[..., bool], *arguments: int) -> bool:
    """Whether a session's change was made; False also if it takes too long to find out whether it is legal."""
    try:
        return change(*arguments)
    except LimitExceeded:
        return False
