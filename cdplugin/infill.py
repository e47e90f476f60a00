"""Infilling: text with gaps, and the canvases of diffusion models, kept completable to a word of the language.

>>> import cdplugin as cd
>>> vocab = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"</s>"], eos_token_ids=256)
>>> infill = cd.Infill(cd.Compiler(vocab).compile(cd.Regex(r"[0-9]+(\\+[0-9]+)*=[0-9]+")))
>>> session = infill.new(["1", cd.GAP, "=", cd.Slots(2)])
>>> session.completable(), session.insert(0, ord("+")), session.insert(0, ord("="))
(True, True, False)
>>> session.complete()
'1+0=00'

``docs/infilling.md`` says what is decided and how. Everything that is accepted is completable, and stays so: there is always a
token that may come next, until the text is legal.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from cdplugin import forking
from cdplugin.infill_complete import spell_gaps
from cdplugin.infill_tables import InfillGrammar
from cdplugin.kernels import engine
from cdplugin.kernels import infill_engine as kernels
from cdplugin.kernels import workspace as ws

if TYPE_CHECKING:
    from cdplugin.matcher import Grammar


T = TypeVar("T")


class _Gap:
    """The type of :data:`GAP`."""

    def __repr__(self) -> str:
        return "GAP"


GAP = _Gap()
"""A place for text of any length, none included."""


@dataclass(frozen=True)
class Slots:
    """A place for exactly ``count`` tokens."""

    count: int


Piece = "str | bytes | Sequence[int] | _Gap | Slots"
_MOST_PLANNED = 1000  # nodes that the classes of open slots may make, roughly
_MOST_COMPETING = 400  # where lexemes compete
_FEWEST_CLASSES = 8  # of a slot near something fixed
_NEAR = 2  # slots


class Infill:
    """Infilling for a compiled grammar; threads may share it, sessions belong to one thread each.

    ``threads``: how many sessions may compute at once (:meth:`map`). Each has tables of its own, with what it found out of the
    grammar and of its last text; sessions are given them in turn.

    Raises :class:`cdplugin.UnsupportedError` for grammars with token terminals or ``max_tokens``,
    :class:`cdplugin.LimitExceeded` for grammars whose rules are made on demand and are too many to be made all, and
    ``ValueError`` for ``threads`` below 1.
    """

    def __init__(self, grammar: Grammar, threads: int = 1) -> None:
        if threads < 1:
            raise ValueError(f"threads: expected at least 1, found {threads}")
        self.grammar = grammar
        self.vocab = grammar.vocab
        self.threads = threads
        self._tables = InfillGrammar(grammar)
        self._all_tables = [self._tables]
        self._n_sessions = 0
        self._turns = threading.Lock()
        self._pool = forking.Threads(threads, "cdplugin-infill")
        self._token_ids = {text: token for token, text in enumerate(self.vocab.tokens) if text}
        forking.watch(self)

    def after_fork(self) -> None:
        """In a forked child: a new lock; what it guards is a count and a list."""
        self._turns = threading.Lock()

    def new(self, pieces: Iterable[Any]) -> Session:
        """A session for text with gaps.

        ``pieces``: str (as UTF-8), bytes, token ids (a list of int), :data:`GAP` (text of any length) and :class:`Slots`
        (exactly so many tokens), in any order. Gaps and single slots are numbered together, from left to right, from 0.
        """
        parts: list[_Part] = []
        for piece in pieces:
            if isinstance(piece, _Gap):
                parts.append(_Part(gap=True))
            elif isinstance(piece, Slots):
                parts += [_Part(slot=True) for _ in range(piece.count)]
            elif isinstance(piece, str):
                parts.append(_Part(piece.encode()))
            elif isinstance(piece, (bytes, bytearray)):
                parts.append(_Part(bytes(piece)))
            else:
                parts += [_Part(self._bytes_of(int(token)), token=int(token)) for token in piece]
        places = [i for i, part in enumerate(parts) if part.gap or part.slot]
        return Session(self, parts, places, padded=False)

    def canvas(self, ids: Iterable[int], mask_token_id: int, end: bool = True) -> Session:
        """A session for a diffusion model's canvas: a slot wherever ``ids`` is ``mask_token_id``; places are positions.

        ``end``: the text ends with the canvas, or before it: then end tokens fill the rest. False: it may go on after it.
        """
        tokens = [int(token) for token in ids]
        parts = [_Part(slot=True) if t == mask_token_id else _Part(self._bytes_of(t, True), token=t) for t in tokens]
        if not end:
            parts.append(_Part(gap=True))
        return Session(self, parts, list(range(len(tokens))), padded=end)

    def map(self, function: Callable[[Session], T], sessions: Sequence[Session]) -> list[T]:
        """``[function(session) for session in sessions]``, up to ``threads`` at once; the kernels run without the GIL.

        Sessions that have tables in common come one after another, in their order. If calls raise, the others are made all the
        same; then the first error is raised.
        """
        groups: dict[int, list[int]] = {}
        for i, session in enumerate(sessions):
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
                self._all_tables.append(InfillGrammar(self.grammar))
            return self._all_tables[turn]

    def accepts(self, text: bytes) -> bool:
        """Whether the ordinary matcher accepts a text."""
        tables = self._tables
        with tables:
            cursor = tables.start
            for byte in text:
                cursor = tables.arena.call(engine.OP_STEP, cursor, byte)
                if cursor == 0:
                    return False
            return bool(tables.arena.call(engine.OP_ACCEPTS, cursor))

    def _bytes_of(self, token: int, canvas: bool = False) -> bytes:
        if not 0 <= token < self.vocab.size:
            raise ValueError(f"token id: expected 0 to {self.vocab.size - 1}, found {token}")
        if canvas and token in self.vocab.eos_token_ids:
            return b""
        text = self.vocab.tokens[token]
        if not text:
            raise ValueError(f"token {token}: expected a token with text, found {self.vocab.names.get(token, 'none')!r}")
        return text


class _Part:
    """A piece of the text: bytes, an open gap, or a slot (open while ``token`` is None). Parts do not change.

    ``written``: what was inserted at a gap's left edge. ``spelt``: the text, and a byte that stands for an open place.
    """

    __slots__ = ("closed", "gap", "is_open", "slot", "spelt", "text", "token", "written")

    def __init__(
        self,
        text: bytes = b"",
        gap: bool = False,
        slot: bool = False,
        token: int | None = None,
        written: tuple[int, ...] = (),
        closed: bool = False,
    ) -> None:
        self.text = text
        self.gap = gap
        self.slot = slot
        self.token = token
        self.written = written
        self.closed = closed
        self.is_open = (gap and not closed) or (slot and token is None)
        self.spelt = text + b"?" if self.is_open else text


class Session:
    """One text with gaps or slots. Changes that leave nothing legal are refused, and change nothing."""

    def __init__(self, infill: Infill, parts: list[_Part], places: list[int], *, padded: bool) -> None:
        self._infill = infill
        self._tables = infill._tables_in_turn()
        self._parts = parts
        self._places = places
        self._padded = padded and bool(infill.vocab.eos_token_ids)
        self._eos = frozenset(infill.vocab.eos_token_ids)
        self._history: list[tuple[int, _Part, bool | None]] = []
        self._known: bool | None = None
        self._row: tuple[int, np.ndarray] | None = None  # the last mask and its place, while nothing has changed
        self._nodes = 0  # of the last lattice

    # --- asking -------------------------------------------------------------------------------------------------------------

    def completable(self) -> bool:
        """Whether the open places can be filled so that the text is legal."""
        if self._known is None:
            if self._tables.is_exact or any(part.is_open for part in self._parts):
                with self._tables:
                    self._known = self._build(self._parts) == 1
            else:  # where lexemes compete (longest match), the matcher has the last word
                self._known = self._length(self._parts) is not None and self._infill.accepts(self._bytes())
        return self._known

    def open_slots(self) -> list[int]:
        """The places that are still open."""
        return [place for place, at in enumerate(self._places) if self._parts[at].is_open]

    def text(self) -> str | None:
        """The text, or None while some place is open."""
        if any(part.is_open for part in self._parts if not (part.gap and self._padded)):
            return None
        return self._bytes().decode("utf-8", "replace")

    def tokens(self) -> list[int | None]:
        """The token of each place (canvas), None where it is open."""
        return [self._parts[at].token for at in self._places]

    def mask(self, place: int) -> np.ndarray:
        """The tokens that may be set in a slot, or inserted at the left edge of a gap: an int32 bitmask row.

        Bit ``t % 32`` of word ``t // 32`` is token t. Raises ``ValueError`` where the place is not open.
        """
        part = self._open_part(place)
        vocab = self._infill.vocab
        if self._row is not None and self._row[0] == place:
            return self._row[1].copy()
        row = np.zeros((vocab.size + 31) // 32, np.int32)
        if not self.completable():
            return row
        with self._tables:
            self._tables.classify()
            if self._build(self._parts, hole=self._places[place]):  # not behind the first end token
                work = self._tables.workspace
                work.call(kernels.OP_ITEMS)
                work.call(kernels.OP_MASK, row.ctypes.data)
        for token in self._eos:
            row[token >> 5] &= ~np.int32(1 << (token & 31)) if token & 31 != 31 else np.int32(0x7FFFFFFF)
        if part.slot and self._padded and self._can_pad(place):
            for token in self._eos:
                row[token >> 5] |= np.uint32(1 << (token & 31)).astype(np.int32)
        self._row = (place, row)
        return row.copy()

    def masks(self, places: Sequence[int]) -> np.ndarray:
        """:meth:`mask` for several places, each as the text is now: int32, ``(len(places), words)``."""
        width = (self._infill.vocab.size + 31) // 32
        return np.array([self.mask(place) for place in places], np.int32).reshape(len(places), width)

    # --- changing -----------------------------------------------------------------------------------------------------------

    def set(self, place: int, token_id: int) -> bool:
        """Fill a slot. False, and nothing changes, if no legal text would be left."""
        part = self._open_part(place)
        if not part.slot:
            raise ValueError(f"place {place}: expected a slot, found a gap")
        token = int(token_id)
        if token in self._eos and self._padded:
            return self._replace(place, _Part(slot=True, token=token), token)
        text = self._text_of(token)
        return bool(text) and self._replace(place, _Part(text, slot=True, token=token), token)

    def insert(self, place: int, token_id: int) -> bool:
        """Append a token at the left edge of a gap. False, and nothing changes, if no legal text would be left."""
        part = self._open_part(place)
        if not part.gap:
            raise ValueError(f"place {place}: expected a gap, found a slot")
        text = self._text_of(int(token_id))
        if not text:
            return False
        return self._replace(place, _Part(part.text + text, gap=True, written=(*part.written, int(token_id))), int(token_id))

    def close(self, place: int) -> bool:
        """End a gap: nothing more comes in it. False, and nothing changes, if no legal text would be left."""
        part = self._open_part(place)
        if not part.gap:
            raise ValueError(f"place {place}: expected a gap, found a slot")
        return self._replace(place, _Part(part.text, gap=True, written=part.written, closed=True))

    def undo(self, n: int = 1) -> None:
        """Take back the last ``n`` changes. Raises ``ValueError`` if there are fewer."""
        if not 0 <= n <= len(self._history):
            raise ValueError(f"undo: expected 0 to {len(self._history)} changes, found {n}")
        for _ in range(n):
            at, self._parts[at], self._known = self._history.pop()
            self._row = None

    def complete(self, rng: random.Random | None = None, max_tokens: int | None = None) -> str:
        """Fill everything that is open and return the text; the session stays as it is.

        Gaps are filled with a shortest text; with ``rng``, slots take random tokens and gaps may begin with some. The same
        seed gives the same text. ``max_tokens``: at most so many tokens in the gaps. Raises ``ValueError`` if nothing legal
        is left, or none within ``max_tokens``.
        """
        if not self.completable():
            raise ValueError("complete: expected a completable text")
        began = len(self._history)
        try:
            self._fill_slots(rng)
            budget = 12 if max_tokens is None else max_tokens
            self._grow_gaps(rng, budget)
            text = self._close_gaps(max_tokens)
            while text is None and len(self._history) > began and self._parts[self._history[-1][0]].gap:
                self.undo()
                text = self._close_gaps(max_tokens)
            if text is None:
                raise ValueError(f"complete: no legal text was found with at most {max_tokens} tokens in the gaps")
        finally:
            self.undo(len(self._history) - began)
        return text.decode("utf-8", "replace")

    # --- inside -------------------------------------------------------------------------------------------------------------

    def _open_part(self, place: int) -> _Part:
        if not 0 <= place < len(self._places):
            raise ValueError(f"place: expected 0 to {len(self._places) - 1}, found {place}")
        part = self._parts[self._places[place]]
        if not part.is_open:
            raise ValueError(f"place {place}: expected an open one, found {part.text!r}")
        return part

    def _text_of(self, token: int) -> bytes:
        vocab = self._infill.vocab
        if not 0 <= token < vocab.size:
            raise ValueError(f"token id: expected 0 to {vocab.size - 1}, found {token}")
        return b"" if token in self._eos else vocab.tokens[token] or b""

    def _replace(self, place: int, part: _Part, token: int | None = None) -> bool:
        at = self._places[place]
        before = self._parts[at]
        known, row = self._known, self._row
        in_mask = None
        if self._tables.is_exact and token is not None and row is not None and row[0] == place:
            in_mask = bool(row[1][token >> 5] >> (token & 31) & 1)
        self._parts[at], self._known, self._row = part, in_mask, None
        try:
            if self.completable():
                self._history.append((at, before, known))
                return True
        except BaseException:
            self._parts[at], self._known, self._row = before, known, row
            raise
        self._parts[at], self._known, self._row = before, known, row
        return False

    def _bytes(self) -> bytes:
        return b"".join(part.text for part in self._parts)

    def _is_padding(self, part: _Part) -> bool:
        return part.slot and part.token in self._eos

    def _length(self, parts: Sequence[_Part]) -> int | None:
        """How many parts stand before the first end token; None if there is text after it."""
        if not self._padded:
            return len(parts)
        last = next((i for i, p in enumerate(parts) if p.token in self._eos and not p.gap), len(parts))
        return None if any(p.token is not None and p.token not in self._eos for p in parts[last:]) else last

    def _build(self, parts: Sequence[_Part], hole: int = -1, keep: bool = True) -> int:
        """Lay the text out as elements and find the facts; 1 if it can be completed. The caller holds the lock.

        ``hole``: the part whose mask is asked for. ``keep``: keep the facts for the next text; nodes are not numbered from 0.
        """
        last = self._length(parts)
        if last is None or hole >= last:
            return 0
        parts = parts[:last]
        spelt = [part.spelt for part in parts]
        ends = list(itertools.accumulate(map(len, spelt)))
        open_parts = [i for i, part in enumerate(parts) if part.is_open]
        text = b"".join(spelt)
        count = len(text)
        work = self._tables.workspace
        work.reserve(ws.ELEMENTS, count + 1)
        work.reserve(ws.ACCEPTS, count + 1)
        elements, accepts = work.tables[ws.ELEMENTS], work.tables[ws.ACCEPTS]
        elements[:count] = np.frombuffer(text, np.uint8)
        elements[[ends[i] - 1 for i in open_parts]] = self._planned(parts, open_parts, hole)
        accepts[: count + 1] = 0
        accepts[count] = 1
        if self._padded:  # the text may end in the last open run
            first = len(parts)
            while first > 0 and parts[first - 1].is_open:
                first -= 1
            accepts[count - (len(parts) - first) : count] = 1
        i = count
        while i > 0 and elements[i - 1] == ws.GAP:
            i -= 1
            accepts[i] = 1
        work.header[ws.W_ELEMENTS] = count
        work.header[ws.W_HOLE] = ends[hole] - 1 if hole >= 0 else -1
        work.header[ws.W_KEEP] = keep and hole < 0
        work.begin_text(self._nodes or (count + len(open_parts)) // 2 + 1)  # unknown: a lexeme for two bytes
        work.call(kernels.OP_LATTICE)
        self._nodes = int(work.header[ws.W_NODES])
        return work.call(kernels.OP_FACTS)

    def _planned(self, parts: Sequence[_Part], open_parts: list[int], hole: int) -> int | np.ndarray:
        """The elements of the open parts: :data:`workspace.GAP`, or :data:`workspace.SLOT` less the number of classes to plan a
        slot with.

        All of them if that makes few nodes; else the most common ones near something fixed, and in the middle of long runs
        only tokens that no lexeme ends in. The fewer slots are open, and the more of their neighbours are fixed, the more
        classes a slot has: what can be completed stays so. A mask's own slot (``hole``) counts as fixed, and has all classes.
        """
        slots = [i for i in open_parts if parts[i].slot]
        if not slots:
            return ws.GAP
        most = self._tables.classify()
        n_open = len(slots) - (hole in slots)
        planned = _MOST_PLANNED if self._tables.is_exact else _MOST_COMPETING
        classes = np.full(len(parts), most)
        if n_open * most > planned:
            fixed = np.ones(len(parts) + 2 * _NEAR, bool)  # what lies outside counts as fixed
            fixed[np.array(slots) + _NEAR] = False
            if hole >= 0:
                fixed[hole + _NEAR] = True
            is_near = np.zeros(len(parts), bool)
            for distance in range(2 * _NEAR + 1):
                is_near |= fixed[distance : distance + len(parts)]
            few = _FEWEST_CLASSES  # in steps, so that most changes leave the other slots as they were
            while 3 * few // 2 <= min(planned // n_open, most):
                few = 3 * few // 2
            classes = np.where(is_near, min(few, most), 0)
            if hole >= 0:
                classes[hole] = most
        elements = np.full(len(parts), ws.GAP)
        elements[slots] = ws.SLOT - classes[slots]
        return elements[open_parts]

    def _can_pad(self, place: int) -> bool:
        """Whether an end token may stand in a slot: the text before it can be completed, and nothing is fixed after it."""
        parts = list(self._parts)
        parts[self._places[place]] = _Part(slot=True, token=next(iter(self._eos)))
        with self._tables:
            return self._build(parts) == 1

    # --- completions --------------------------------------------------------------------------------------------------------

    def _fill_slots(self, rng: random.Random | None) -> None:
        """Fill every open slot with a token that its mask allows."""
        for place in self.open_slots():
            if self._parts[self._places[place]].gap:
                continue
            bits = np.unpackbits(self.mask(place).view(np.uint8), bitorder="little")
            tokens = np.flatnonzero(bits)
            if len(tokens) == 0:
                raise AssertionError("a completable canvas without a token")
            order = tokens.tolist()
            if rng is not None:
                rng.shuffle(order)
            order.sort(key=lambda token: token not in self._eos)
            if not any(self.set(place, token) for token in order):
                raise AssertionError("all tokens of the mask were refused")

    def _grow_gaps(self, rng: random.Random | None, budget: int) -> None:
        """With a generator, begin each gap with a few random tokens."""
        if rng is None:
            return
        for place in self.open_slots():
            for _ in range(rng.randint(0, max(budget // 3, 0))):
                tokens = np.flatnonzero(np.unpackbits(self.mask(place).view(np.uint8), bitorder="little"))
                if len(tokens) == 0:
                    break
                self.insert(place, int(tokens[rng.randrange(len(tokens))]))

    def _close_gaps(self, max_tokens: int | None) -> bytes | None:
        """The text with a shortest filling in each gap, or None if that takes more than ``max_tokens``."""
        with self._tables:
            self._build(self._parts, keep=False)
            fillings = spell_gaps(self._tables)
        if max_tokens is not None:
            used = sum(len(self._tokens_in(filling)) for filling in fillings)
            used += sum(len(part.written) for part in self._parts)
            if used > max_tokens:
                return None
        out = b""
        remaining = list(fillings)
        for part in self._parts:
            out += part.text
            if part.gap and not part.closed:
                out += remaining.pop(0)
        return out

    def _tokens_in(self, text: bytes) -> list[int]:
        """A tokenization by longest match: how many tokens a filling takes."""
        ids = self._infill._token_ids
        out: list[int] = []
        at = 0
        while at < len(text):
            for length in range(min(self._infill.vocab.max_token_bytes, len(text) - at), 0, -1):
                token = ids.get(text[at : at + length])
                if token is not None:
                    out.append(token)
                    at += length
                    break
            else:
                raise AssertionError("a byte that no token spells")
        return out
