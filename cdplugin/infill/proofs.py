r"""Proofs: tokens of a mask that are legal because the matcher accepts a text with them. For grammars whose lexemes compete.

A hundred thousand tokens lead the matcher to few cursors (:mod:`cdplugin.kernels.masks.successors`): inside a string to 20, at
the beginning of a Python statement to 600. Texts with the same cursor have the same future, so the tokens that lead to one
cursor are a *class*, and one completion decides them all. Completions are alike, too: ``)`` and the end of the line, ``)]`` and
the end of the line. So from each cursor texts are tried that ended other gaps (:mod:`cdplugin.infill.gap_texts`); a lattice
is asked only about what is left. Called by :meth:`cdplugin.infill.answers.Answers.mask`.

``["x = f(", GAP, "\ny = 1\n"]``: the token ``[a`` leads to a cursor from which ``])`` ends the gap; so do ``[b`` and ``[ab``;
and from the cursor of ``[[a`` a ``]`` leads to a cursor that is proven.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cdplugin.bits import all_but, bit_flags, bit_members, packed_bits, set_bits
from cdplugin.errors import LimitExceeded
from cdplugin.infill.gap_texts import MOST_ELEMENTS
from cdplugin.infill.parts import FEW_PLACES, Part, laid_out, with_gaps, with_token
from cdplugin.infill.search import Search, SearchGivenUp
from cdplugin.infill.slot_proofs import MOST_WORK, STATES_OF_A_CLASS, Proof, SlotProofs
from cdplugin.infill.token_classes import classes_of
from cdplugin.infill.witness import Witness, by_part, by_place
from cdplugin.queries.successors import successors, text_successors

if TYPE_CHECKING:
    from cdplugin.infill.answers import Answers
    from cdplugin.infill.canvases import Canvas

Class = tuple[int, np.ndarray]
"""A cursor, and the tokens that lead to it."""

FEW_CLASSES = 8  # with more in doubt, the loose lattice is asked to rule some out
MOST_TRIES = 100_000  # texts tried for one mask
MOST_WORK_OF_MASK = 1 << 18  # of the lattices for the tokens in doubt of one mask
_MOST_ASKED = 16  # tokens about which lattices are asked, with slots and where the matcher is followed
_MOST_ROUNDS = 4  # rounds of proofs at one cursor
_FEW_WIDE_CLASSES = 64  # at a cursor inside a string there are no more
_MOST_OPENINGS = 12  # tried behind each text that ended a gap, for few tokens
_FEW_TOKENS = 1000  # so many tokens in doubt are tried one by one
_MOST_MISSES = 2  # classes in succession that are not proven, before a lattice is asked
_MOST_ASKED_AHEAD = 2  # tokens about which lattices are asked before narrow cursors are visited
_MOST_HEAD = 24  # bytes of a filling that may come before an opening
_MOST_CURSORS = 32  # before the place, after openings, visited for one mask
_MOST_VAIN = 8  # of these, from which no text is found


class Proofs:
    """The tokens in doubt of one mask, and their decision.

    ``row``: the tokens known to be legal; proven ones are added. ``is_followed``: the matcher goes from slot to slot, as
    lattices tell little. ``witness``: of the parts.
    """

    def __init__(
        self,
        answers: Answers,
        parts: Sequence[Part],
        hole: int,
        row: np.ndarray,
        is_followed: bool,
        witness: Witness | None = None,
    ) -> None:
        self._answers, self._tables, self._gap_texts = answers, answers.tables, answers.tables.gap_texts
        self._whole = parts
        self._parts = parts = parts[: answers.length(parts)]
        self._hole = hole
        self._row = row
        self._witness = witness
        self._before, self._elements, self._at = laid_out(parts, answers.padded, hole)
        self._has_slots = any(part.slot for part in parts if part.is_open)
        # preparing the lattices for slots would take seconds, so they are hardly asked
        self._is_brief = self._has_slots and is_followed
        # what proves tokens
        self._serves = len(self._elements) <= MOST_ELEMENTS
        self._n_asked, self._most_asked = 0, _MOST_ASKED if self._is_brief else len(row) * 32
        self._canvas: Canvas | None = None
        # with families and no witness, only a lattice found the text completable: then the lattice makes its masks, too
        if self._is_brief and parts[hole].slot and (witness is not None or not answers.tables.has_families):
            self._canvas = answers.canvas(parts, witness)
            self._canvas.grant(MOST_WORK)
            self._most_asked = 0
        self._behind = (
            self._gap_texts.text_behind([(None, self._elements[self._at][1]), *self._elements[self._at + 1 :]])
            if self._serves and self._canvas is None
            else None
        )
        self._found: list[bytes] | None = None
        """The last completion: the fillings of the open places."""
        self._left: list[bytes] = []  # the fillings of the places left of the hole
        self._texts: list[Proof] = []
        """If the matcher goes from slot to slot: proven tokens, with the fillings of the places left of the hole, and of those
        from it on, that proved them; on a canvas, slot by slot."""
        # if something is open before the place
        self._known = answers.kept_fillings(parts)
        self._narrow: list[int] = []  # cursors before the place that allow few of the tokens in doubt, to be visited later
        self._doubtful = np.zeros(0, np.int64)
        """The tokens in doubt, without those for which a search was given up."""
        self._undecided = 0
        """For how many tokens a search was given up."""
        self._seen: Counter[int] = Counter()
        """How many rounds of proofs a cursor before the place has had: more may be known in the next one."""

    def decide(self, is_by_class: bool = False) -> int:
        """Decide the tokens in doubt; how many are left out because the search for a filling was given up.

        ``is_by_class``: the strict lattice was not asked yet: ask it about one token of each class.
        """
        search = Search(self._answers, MOST_WORK_OF_MASK)
        if self._witness is not None and self._parts[self._hole].slot:
            token = self._witness[self._hole]
            if isinstance(token, int) and token not in self._answers.eos:
                set_bits(self._row, np.array([token]))
        try:
            with self._gap_texts.trying(MOST_TRIES):
                cursor = self._tables.step(self._tables.start, self._before)
                if self._at == 0 and (self._canvas is None or self._tables.has_families):
                    return self._decide_classes(cursor, search, is_by_class)
                with self._gap_texts.apart():
                    if self._canvas is not None:
                        return self._decide_on_canvas(self._canvas, cursor)
                    return self._decide_one_by_one(cursor, search)
        finally:
            if self._canvas is not None:
                self._answers.guides = self._canvas.guides_by_part()

    def _begin(self, start: int) -> None:
        """Learn texts that end gaps from one completion of the parts. ``start``: the cursor before the first open place."""
        if not self._serves:
            return
        free = with_gaps(self._parts)[0] if self._has_slots else self._parts
        is_long = self._is_brief and len(self._elements) > FEW_PLACES  # a derivation would take seconds
        found = None if is_long else self._answers.some_fillings(free)
        if found is not None:
            self._gap_texts.learn(found)
            self._found = found
        if self._has_slots and self._canvas is None:  # the same with the right numbers of tokens
            whole = self._gap_texts.text_behind(self._elements)
            self._found = whole.fillings(start) if self._gap_texts.find(start, whole) is not None else None

    def _classes(self, cursor: int) -> list[Class]:
        """The classes of tokens in doubt at a cursor, large classes first."""
        row = self._tables.texts_row & ~self._row
        cursors, tokens, heads = classes_of(self._tables.arena, cursor, row)
        found = [(after, tokens[heads[i] : heads[i + 1]]) for i, after in enumerate(cursors)]
        # a class may have no token in doubt
        return sorted([one for one in found if len(one[1])], key=lambda one: -len(one[1]))

    def _by_lattice(self, cursor: int) -> list[Class]:
        """Decide classes at a cursor with the strict lattice; returns the classes still in doubt, large ones first.

        It is asked about the first token of each class, then, of classes that are not decided, about all tokens: which lexemes
        compete after a token may depend on its text.
        """
        is_laid = self._answers.lay_for_mask(self._parts, self._hole, self._row)
        numbers = np.empty(32 * len(self._row), np.int32)
        found = text_successors(self._tables.arena, cursor, self._tables.texts_row, numbers)
        known = np.zeros(len(found.cursors) + 1, bool)  # the last entry is for tokens that may not come here
        if is_laid:
            row = all_but(len(self._row), found.firsts)
            self._answers.add_from_laid(row)
            known[:-1] = bit_flags(row)[found.firsts]
        are_known = known[numbers]
        if known[:-1].all():
            self._row |= packed_bits(are_known)
            return []
        left = np.flatnonzero(~are_known & (numbers >= 0))
        if is_laid:
            row = all_but(len(self._row), left)
            self._answers.add_from_laid(row)
            known[numbers[left[bit_flags(row)[left]]]] = True
            left = left[~known[numbers[left]]]
            are_known = known[numbers]
        self._row |= packed_bits(are_known)
        left = left[np.argsort(numbers[left], kind="stable")]
        heads = np.flatnonzero(np.diff(numbers[left], prepend=-1))
        classes = [(int(found.cursors[numbers[tokens[0]]]), tokens) for tokens in np.split(left, heads[1:]) if len(tokens)]
        return sorted(classes, key=lambda one: -len(one[1]))

    def _decide_classes(self, start: int, search: Search, is_by_class: bool) -> int:
        """Decide the classes at the first open place: there, a token is legal if and only if its class is. As :meth:`decide`.

        Each class is tried with known texts; one that fails is put aside, as the proof of another may teach a text that proves
        it. After two failures in succession a lattice is asked about one token, which teaches another text.
        """
        classes = self._by_lattice(start) if is_by_class else self._classes(start)
        if self._canvas is not None:
            classes = self._that_go_on(self._canvas, classes)
        classes.reverse()
        left: list[Class] = []  # put aside: not proven at the first try
        misses = undecided = 0
        # the loose lattice can rule out many classes at once, but few are mostly all legal: it waits for the first that is not
        is_ruled = is_retried = False
        is_sure = len(self._elements) == 1 and self._parts[self._hole].slot  # nothing else is open: the first try decides
        try:
            if classes and not is_sure and self._canvas is None:
                self._begin(start)
            while classes or left:
                if not classes and not is_retried:
                    is_retried = True
                    left = [one for one in left if not self._is_taken(*one)]
                    if not is_ruled and len(left) > FEW_CLASSES:
                        is_ruled = True
                        self._rule_out(left)
                    continue
                queue = classes or left
                cursor, tokens = queue[-1]  # stays there until it is decided: work may be used up in between
                if self._is_taken(cursor, tokens) or is_sure:
                    misses = 0
                elif queue is classes and (misses < _MOST_MISSES or self._canvas is not None):
                    misses += 1  # the proof of another class may teach a text that proves it
                    left.append(queue[-1])
                elif self._is_used_up(search):
                    break
                else:
                    misses = 0
                    is_legal = self._is_legal_class(tokens, search)
                    if is_legal is None:
                        undecided += len(tokens)
                    elif not is_legal and not is_ruled:
                        is_ruled = True
                        queue.pop()
                        self._rule_out(classes, left)
                        continue
                queue.pop()
        except LimitExceeded:  # the mask's budget of work is used up
            pass
        return undecided + sum(len(tokens) for _, tokens in [*classes, *left])

    def _that_go_on(self, canvas: Canvas, classes: list[Class]) -> list[Class]:
        """Those classes behind which the text after the slot may come. Known texts are tried behind all of them in one call."""
        text = self._elements[self._at][1]
        after = self._tables.step_all(np.array([cursor for cursor, _ in classes], np.int64), [text])[:, 0]
        classes = [one for one, end in zip(classes, after.tolist(), strict=True) if end]
        canvas.behind_all(self._hole, [cursor for cursor, _ in classes], 0)
        return classes

    def _is_legal_class(self, tokens: np.ndarray, search: Search) -> bool | None:
        """Whether a class is legal, by a lattice; then its tokens are added to the row. None if the search was given up."""
        n_texts = len(self._texts)
        try:
            is_legal = self._is_completed(int(tokens[0]), search)
        except SearchGivenUp:
            return None
        if is_legal:
            if len(self._texts) > n_texts:
                self._texts.append((tokens, self._texts[-1][1]))  # all of them have the same future
            set_bits(self._row, tokens)
        return is_legal

    def _is_used_up(self, search: Search) -> bool:
        """Whether the budget for asking lattices about tokens is used up."""
        return self._answers.work >= search.until or self._n_asked >= self._most_asked

    def _decide_one_by_one(self, start: int, search: Search) -> int:
        """Decide tokens at a place before which something is open. As :meth:`decide`.

        The fillings before the place lead to a cursor. A class proven at one such cursor is legal; one that is not may be legal
        at another. A string or comment opened before the place and ended in it allows nearly all tokens, so such fillings come
        first. Of the rest, few tokens may begin there at all; a lattice is asked about these.
        """
        possible = self._in_characters()
        if not self._has_slots:
            possible = possible & self._answers.may_begin(self._elements[self._at - 1][1][-1:])
        self._doubtful = bit_members(~self._row & possible)
        self._undecided = 0
        try:
            self._decide_before_lattices(start)
            if len(self._doubtful) > _FEW_TOKENS or (len(self._doubtful) and self._has_slots):
                self._begin(start)
                if self._witness is not None and self._found is None:
                    self._found = by_place(self._tables, self._parts, self._witness, self._hole)
            self._decide_by_completions(start, search)
            if len(self._doubtful) and self._is_brief:  # last, so if this exceeds a limit, nothing else is lost
                self._doubtful = self._possible(self._doubtful, by_first=True)
        except LimitExceeded:
            self._doubtful = self._doubtful[~bit_flags(self._row)[self._doubtful]]
        return self._undecided + len(self._doubtful)

    def _decide_before_lattices(self, start: int) -> None:
        """Decide tokens with known fillings, and drop those that the loose lattice rules out."""
        # the loose lattice plans the other slots with few classes, for a mask as for `set`, so the two agree
        if self._has_slots and not self._is_brief:
            self._doubtful = self._possible(self._doubtful)
        self._prove_at_openings(start)
        before = len(self._doubtful)
        self._prove_each_at_openings(start)
        if len(self._doubtful) and not self._is_brief:
            self._doubtful = self._possible(self._doubtful, by_first=True)
            if before > _FEW_TOKENS:  # they were too many for the first call
                self._prove_each_at_openings(start)

    def _decide_by_completions(self, start: int, search: Search) -> None:
        """Decide tokens by completions, one after another: the fillings of each lead to a cursor at which whole classes are
        proven.

        If no completion is at hand, a lattice is asked about one token; if the token is legal, that gives a completion.
        """
        is_ruled = self._has_slots
        while len(self._doubtful):
            if self._found is not None:
                before = len(self._doubtful)
                self._prove_by(self._found)
                self._found = None
                if len(self._doubtful) < before:
                    self._prove_each_at_openings(start)
                continue
            is_used_up = self._is_used_up(search)
            if self._narrow and (is_used_up or self._n_asked >= _MOST_ASKED_AHEAD or len(self._doubtful) < _FEW_TOKENS):
                self._prove_at(self._narrow.pop(0))
                continue
            if is_used_up:
                break
            token = self._next_of_doubtful()
            self._doubtful = self._doubtful[self._doubtful != token]
            is_legal = False
            try:
                is_legal = self._is_completed(token, search)
            except SearchGivenUp:
                self._undecided += 1
            if is_legal:
                set_bits(self._row, np.array([token]))
                if self._found:
                    self._tables.openings.learn(self._found[0])
            elif not is_ruled and len(self._doubtful):
                is_ruled = True
                self._doubtful = self._possible(self._doubtful)

    def _decide_on_canvas(self, canvas: Canvas, start: int) -> int:
        """Decide the tokens of a slot with the matcher alone (:mod:`cdplugin.infill.slot_proofs`). As :meth:`decide`."""
        possible = self._in_characters() if self._at else self._that_fit(start)
        few_tokens = functools.partial(self._answers.few_tokens, self._parts)
        proofs = SlotProofs(self._tables, canvas, few_tokens, self._hole, self._row, self._texts)
        return proofs.decide(possible & self._answers.may_begin(b"") & ~self._row)  # b"": whatever stands before

    def _that_fit(self, cursor: int) -> np.ndarray:
        """The mask row of the tokens that may come at a cursor before the slot and be followed by the text behind the slot."""
        classes = self._tables.classes.at(cursor)
        after = self._tables.step_all(classes.cursors, [self._elements[self._at][1]])[:, 0]
        return packed_bits(np.append(after != 0, False)[classes.numbers])  # the last entry is for tokens without a class

    def _in_characters(self) -> np.ndarray:
        """The mask row of the text tokens that do not cut a character beside the given text."""
        if not self._elements:
            return self._tables.texts_row
        before = self._elements[self._at - 1][1] if self._at else self._before
        is_slot = self._parts[self._hole].slot
        after = self._elements[self._at][1] if is_slot else b""
        is_last = is_slot and self._at == len(self._elements) - 1
        return self._tables.characters.possible(before, after, self._at == 0, is_last)

    def _next_of_doubtful(self) -> int:
        """The next token to ask a lattice about: one that no narrow cursor allows, if there is any, so that a new filling is
        found.
        """
        row = np.zeros(len(self._row), np.int32)
        for cursor in self._narrow:
            row |= self._tables.mask_at(cursor)
        others = self._doubtful[~bit_flags(row)[self._doubtful]]
        return int(others[0] if len(others) else self._doubtful[0])

    def _prove_by(self, fillings: list[bytes]) -> None:
        """Use a completion: prove tokens at the cursor before the place to which its fillings lead.

        While many tokens are in doubt and the cursor allows few of them, that is put off (``_narrow``): they would have
        hundreds of classes, and a filling that opens a string mostly proves them all at once.
        """
        places = zip(fillings, self._elements[: self._at], strict=False)
        self._left = fillings[: self._at]
        left = b"".join(filling + text for filling, (_, text) in places)
        cursor = self._tables.step(self._tables.start, self._before + left)
        before = len(self._doubtful)
        if self._n_asked >= _MOST_ASKED_AHEAD or before < _FEW_TOKENS or self._has_slots:
            self._prove_at(cursor)
            return
        if self._is_wide(cursor):
            self._prove_at(cursor, _FEW_WIDE_CLASSES)
        if len(self._doubtful) == before:
            self._narrow.append(cursor)
            set_bits(self._row, self._tokens_of(fillings[self._at]))

    def _tokens_of(self, filling: bytes) -> np.ndarray:
        """The tokens that a filling begins with, end tokens left out."""
        ids, _ = self._tables.vocab.token_of
        found = [ids.get(filling[:i], -1) for i in range(1, len(filling) + 1)]
        return np.array([token for token in found if token >= 0 and token not in self._answers.eos], np.int64)

    def _is_wide(self, cursor: int) -> bool:
        """Whether a cursor allows most of the tokens in doubt, as inside a string."""
        return 2 * int(bit_flags(self._tables.mask_at(cursor))[self._doubtful].sum()) >= len(self._doubtful)

    def _prove_at_openings(self, start: int) -> None:
        """Prove tokens at cursors that allow most of them, after fillings that open a string or a comment, until few are left.

        The fillings come from :class:`cdplugin.infill.openings.Openings`.
        """
        behind = self._behind
        if behind is None or self._has_slots:  # texts of so many tokens cost too many tries
            return
        n_vain = 0
        for cursor, text in itertools.islice(self._opened(start), _MOST_CURSORS):
            before = len(self._doubtful)
            if before < _FEW_TOKENS:
                break
            if not self._is_wide(cursor):
                continue
            if self._gap_texts.find_closed(cursor, behind.free) is None:
                n_vain += 1
                if n_vain == _MOST_VAIN:
                    break
                continue
            self._prove_at(cursor, _FEW_WIDE_CLASSES)
            if 2 * len(self._doubtful) < before:
                self._tables.openings.learn(text)

    def _opened(self, start: int, most: int | None = None) -> Iterator[tuple[int, bytes]]:
        """:meth:`Openings.cursors` before the place."""
        known = self._known
        heads = [known[0][:i] for i in range(min(len(known[0]), _MOST_HEAD), -1, -1)] if known else []
        return self._tables.openings.cursors(start, self._elements[: self._at], heads, most)

    def _prove_each_at_openings(self, start: int) -> None:
        """If few tokens are in doubt, try each by itself at the cursors after openings."""
        if self._behind is None or self._has_slots or len(self._doubtful) > _FEW_TOKENS:
            return
        left = self._doubtful.tolist()
        texts = self._tables.vocab.tokens
        for cursor, _ in self._opened(start, _MOST_OPENINGS):
            if not left:
                break
            for token in left[:]:
                after = self._tables.step(cursor, texts[token])
                if after and self._gap_texts.find_closed(after, self._behind) is not None:
                    left.remove(token)
                    set_bits(self._row, np.array([token]))
        self._doubtful = np.array(left, np.int64)

    def _prove_at(self, cursor: int, most_classes: int = sys.maxsize) -> None:
        """Prove classes of the tokens in doubt at a cursor before the place, unless it has more than ``most_classes``."""
        if self._seen[cursor] == _MOST_ROUNDS:
            return
        row = self._tables.mask_at(cursor) & ~self._row
        cursors, numbers = successors(self._tables.arena, cursor, row)
        if len(cursors) > most_classes:
            return
        self._seen[cursor] += 1
        numbers = numbers[self._doubtful]
        sizes = np.bincount(numbers[numbers >= 0], minlength=len(cursors))
        taken = np.zeros(len(cursors) + 1, bool)  # the last entry is for tokens that may not come here
        for number in np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)].tolist():
            rest = self._rest_behind(cursors[number])
            taken[number] = rest is not None
            if rest is not None and self._is_brief:
                self._texts.append((self._doubtful[numbers == number], (self._left, rest)))
        is_taken = taken[numbers]
        set_bits(self._row, self._doubtful[is_taken])
        self._doubtful = self._doubtful[~is_taken]

    def _rule_out(self, *lists: list[Class]) -> None:
        """Drop from lists of classes those of which the loose lattice rules out any token."""
        doubtful = [tokens for classes in lists for _, tokens in classes] or [np.zeros(0, np.int64)]
        possible = np.zeros(32 * len(self._row), bool)
        is_long = self._is_brief and len(self._elements) > FEW_PLACES  # all facts would take a second
        possible[self._possible(np.concatenate(doubtful), by_first=is_long)] = True
        for classes in lists:
            classes[:] = [(cursor, tokens) for cursor, tokens in classes if possible[tokens].all()]

    def _possible(self, tokens: np.ndarray, by_first: bool = False) -> np.ndarray:
        """Those of some tokens that the loose lattice does not rule out (:meth:`Answers.possible`)."""
        is_free = self._is_brief or self._answers.is_planned_short(self._parts)
        return self._answers.possible(self._parts, self._hole, tokens, is_free, by_first)

    def _is_taken(self, cursor: int, tokens: np.ndarray) -> bool:
        """Whether a class is proven; then its tokens are added to the row."""
        rest = self._rest_behind(cursor)
        if rest is None:
            return False
        if self._is_brief:
            self._texts.append((tokens, (self._left, rest)))
        set_bits(self._row, tokens)
        return True

    def _rest_behind(self, cursor: int) -> list[bytes] | None:
        """A completion from the cursor after a token; None if none is known.

        It is the fillings of the places from this one on if these are kept for witnesses, or else an empty list.
        """
        if self._canvas is not None:
            return self._canvas.behind(self._hole, cursor, STATES_OF_A_CLASS)
        behind, is_slot = self._behind, self._parts[self._hole].slot
        if behind is None or not (behind.follows(cursor) if is_slot else self._gap_texts.find(cursor, behind) is not None):
            return None
        if not self._is_brief:
            return []
        return behind.fillings_behind(cursor) if is_slot else behind.fillings(cursor)

    def witness(self, token: int) -> Witness | None:
        """A witness of the text with a token of the mask at the hole, if one is kept."""
        for tokens, found in self._texts:
            if token not in tokens:
                continue
            if isinstance(found, tuple):
                left, rest = found
                text = [self._tables.vocab.tokens[token] or b""] if self._parts[self._hole].slot else []
                if self._canvas is not None:
                    return self._canvas.as_witness([*left, *text, *rest], self._whole)
                return by_part(self._tables, self._whole, self._elements, [*left, *text, *rest])
            ends = self._tables.vocab.eos_token_ids
            return [*found, *(ends[0] if part.is_open else None for part in self._whole[len(found) :])]
        return None

    def some_witness(self) -> Witness | None:
        """A witness of the text as it is, with some token of the mask at the hole, if one is kept."""
        token = int(self._texts[0][0][0]) if self._texts else -1
        found = self.witness(token)
        if found is None:
            return None
        here, rest = self._hole, found[self._hole]
        is_slot = self._parts[here].slot
        text = (self._tables.vocab.tokens[token] or b"") + (rest if isinstance(rest, bytes) else b"")
        return [*found[:here], token if is_slot else text, *found[here + 1 :]]

    def _is_completed(self, token: int, search: Search) -> bool:
        """Whether the text with a token can be completed, by :meth:`Answers.completable`; learns from the completion."""
        text = self._tables.vocab.tokens[token] or b""
        after = with_token(self._parts, self._hole, token, text)
        self._found = None
        self._n_asked += 1
        if not self._answers.completable(after, search):
            return False
        if self._serves and self._has_slots:
            if self._is_brief and (proof := self._answers.proof.of(after)) is not None:
                self._texts.append((np.array([token]), proof))
            before, elements, _ = laid_out(after, self._answers.padded)
            if elements:
                start = self._tables.step(self._tables.start, before)
                behind = self._gap_texts.text_behind(elements)
                self._found = behind.fillings(start) if start in behind.known else None
            return True
        found = self._answers.some_fillings(after) if self._serves else None
        if found is not None:
            self._gap_texts.learn(found)
            self._found = found.copy()
            self._found[self._at] = text + found[self._at]
        return True
