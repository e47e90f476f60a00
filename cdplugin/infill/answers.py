"""Answers of a session: can a text with open places be completed, by which tokens, and how?

For EXACT lexemes the lattice is exact. Where lexemes compete (LONGEST, LAZY) two lattices are asked: in the *strict* one all
lexemes compete that may anywhere, so its *yes* is right; in the *loose* one as few as surely do, so its *no* is right. Between
them the matcher decides: by texts that ended other gaps (:mod:`cdplugin.infill.gap_texts`), from slot to slot
(:mod:`cdplugin.infill.canvases`), and at last by a search (:mod:`cdplugin.infill.search`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import numpy as np

from cdplugin.bits import all_but, bit_flags, bitmask_words, packed_bits
from cdplugin.engine.blocks import address_of
from cdplugin.infill.canvases import FEW_WORK, MOST_WORK, Canvas
from cdplugin.infill.complete import Completions
from cdplugin.infill.gap_texts import MOST_ELEMENTS
from cdplugin.infill.parts import (
    FEW_PLACES,
    MANY_PLACES,
    MOST_COMPETING,
    MOST_PLANNED,
    Last,
    Merged,
    Part,
    filled,
    laid_out,
    planned,
    with_gaps,
)
from cdplugin.infill.proofs import Proofs
from cdplugin.infill.search import Search, unknown
from cdplugin.infill.tables import InfillGrammar
from cdplugin.infill.together import FewTokens, filled_together
from cdplugin.infill.witness import Witness, by_part
from cdplugin.infill.workspace import Workspace
from cdplugin.kernels.infill import entry as kernels
from cdplugin.kernels.infill import layout as ws

BRIEF = 16  # bytes of lexemes in gaps, in brief completions of short texts
MOST_TRIES, MOST_TRIES_OF_SLOTS = 500, 5000  # texts tried before a lattice is asked
MOST_STATES, FEW_STATES = 20_000, 60
"""States followed from slot to slot (:mod:`cdplugin.infill.canvases`): for a text, and for one token of a mask."""
_STATES_TOGETHER, _WORK_TOGETHER = 256, 1 << 25
"""States followed with few tokens (:mod:`cdplugin.infill.together`), and units of work, before the beam search."""
_FEW_DOTS = 256
"""With so many dots or more, the lattice is asked about one token of each class; with fewer, asking about all is faster."""
WORK_OF_A_NODE = 600  # units of work of spelling that count as a node of a lattice
_WORDS = re.compile(rb"\s?\w+")


class Answers:
    """Answers about the texts of one session. The caller holds the lock of ``tables``.

    ``padded``: end tokens may fill the rest of the text.
    """

    def __init__(self, tables: InfillGrammar, padded: bool) -> None:
        self.tables = tables
        self.padded = padded
        self.eos = frozenset(tables.vocab.eos_token_ids)
        self._nodes = 0  # of the last lattice
        self._filled: Last[list[bytes]] = Last()  # by a search
        self._witness: Last[list[bytes]] = Last([])  # fillings by known texts, perhaps not the shortest
        self._kept: Last[list[bytes]] = Last([])  # fillings of the text whose masks are asked for
        self.proof: Last[Witness] = Last()
        """The witness by which parts with slots were found completable."""
        self.proofs: Proofs | None = None
        """Those of the last mask, which keep witnesses of its tokens."""
        self.merged = Merged([])
        """The parts of the last mask, merged."""
        self.guides: list[dict[int, bytes]] = []
        """Legal texts of the last mask of a canvas: the fillings of its open parts (:meth:`Canvas.recall`)."""
        self._few: FewTokens | None = None
        self.work = 0
        """The cost of all lattices so far: their nodes, more for large ones, whose rows are wider."""

    def length(self, parts: Sequence[Part]) -> int | None:
        """How many parts stand before the first end token; None if text follows it."""
        if not self.padded:
            return len(parts)
        last = next((i for i, p in enumerate(parts) if p.token in self.eos and not p.gap), len(parts))
        return None if any(p.token is not None and p.token not in self.eos for p in parts[last:]) else last

    def build(self, parts: Sequence[Part], work: Workspace | None = None, keep: bool = True, cut: bool = False) -> int:
        """Build the lattice of a text and its facts; 1 if the text can be completed, by this lattice, or else 0.

        ``work``: the workspace, None: the strict one. ``keep``: keep the facts for the next text (then nodes are not numbered
        from 0). ``cut``: no lexeme may begin before a gap and end behind it.
        """
        work = work or self.tables.workspace
        return work.call(kernels.OP_FACTS) if self._lay(parts, work, keep=keep, cut=cut) else 0

    def _lay(self, parts: Sequence[Part], work: Workspace, hole: int = -1, keep: bool = True, cut: bool = False) -> bool:
        """Build the lattice of a text in a workspace; False if text follows an end token, or ``hole`` is behind one."""
        last = self.length(parts)
        if last is None or hole >= last:
            return False
        tables = self.tables
        parts = parts[:last]
        text = b"".join([part.spelt for part in parts])
        count = len(text)
        ends = list(itertools.accumulate(len(part.spelt) for part in parts))
        open_parts = [i for i, part in enumerate(parts) if part.is_open]
        places = [ends[i] - 1 for i in open_parts]  # their elements
        slots = [i for i in open_parts if parts[i].slot]
        work.reserve(ws.ELEMENTS, count + 1)
        work.reserve(ws.ACCEPTS, count + 1)
        elements, accepts = work.tables[ws.ELEMENTS], work.tables[ws.ACCEPTS]
        elements[:count] = np.frombuffer(text, np.uint8)
        tables.prepare_gaps(work)
        elements[places] = ws.GAP
        if slots:
            most_nodes = MOST_PLANNED if tables.is_exact else MOST_COMPETING
            elements[places] = planned(parts, open_parts, hole, tables.classify(work), most_nodes)
        accepts[:count] = 0
        accepts[count] = 1
        if self.padded:  # the text may end in the last open run
            first = len(parts)
            while first > 0 and parts[first - 1].is_open:
                first -= 1
            accepts[count - (len(parts) - first) : count] = 1
        at = count
        while not cut and at and elements[at - 1] == ws.GAP:
            at -= 1
            accepts[at] = 1
        header = work.header
        header[ws.W_CUT] = cut
        header[ws.W_ELEMENTS] = count
        header[ws.W_HOLE] = ends[hole] - 1 if hole >= 0 else -1
        header[ws.W_REUSE] = keep and hole < 0
        header[ws.W_HAS_SLOTS] = bool(slots)
        work.begin_text(self._nodes or (count + len(open_parts)) // 2 + 1)  # unknown: a lexeme for two bytes
        work.call(kernels.OP_LATTICE)
        self._nodes = nodes = int(header[ws.W_NODES])
        self.work += nodes + nodes**2 // 256
        return True

    # --- answers ------------------------------------------------------------------------------------------------------------

    def completable(self, parts: Sequence[Part], search: Search | None = None) -> bool:
        """Whether the open places can be filled so that the text is legal.

        ``search``: one whose budget is used; given for the tokens of a mask, each of which should take little time.
        """
        merged = Merged(parts)
        if merged.is_whole:
            return self._completable(parts, search)
        is_legal = self._completable(merged.parts, search)
        self.proof.note(parts, merged.of_all(self.proof.of(merged.parts)))
        return is_legal

    def _completable(self, parts: Sequence[Part], search: Search | None) -> bool:
        """:meth:`completable`, of parts that are merged. The first that knows the answer gives it:

        - the matcher, if nothing is open; what is known before lattices are built; a lattice of the text without what a skip
          may cover;
        - the strict lattice, if it says *yes* (EXACT lexemes: whatever it says);
        - the loose lattice, if it says *no*, unless it plans slots with few classes; then slots are filled one by one;
        - a brief search from slot to slot, and then the search through the places.
        """
        tables = self.tables
        if not tables.is_exact and not any(part.is_open for part in parts):
            return self.length(parts) is not None and tables.accepts(b"".join(part.text for part in parts))
        is_known = self._is_known_before_lattices(parts, search is not None)
        if is_known is not None:
            return is_known
        if self._is_covered(parts):
            return True
        # with families the strict lattice knows little and takes long to build
        if tables.has_families and not self.build(parts, tables.loose):
            return False
        if self.build(parts) == 1:
            return True
        if tables.is_exact:
            return False
        if self.is_planned_short(parts):
            is_filled = self._are_slots_filled(parts, False) if search is None else None
            if is_filled is not None:
                return is_filled
        elif not (tables.has_families or self.build(parts, tables.loose)):
            return False
        is_followed_briefly = not tables.has_families and any(part.slot and part.is_open for part in parts)
        if is_followed_briefly and self._is_filled(parts, self.canvas(parts[: self.length(parts)]), FEW_STATES):
            return True
        search = search or Search(self)
        answer = search.finds(parts)
        if search.filled is not None:
            self._filled.note(parts, search.filled)
        return answer

    def _is_covered(self, parts: Sequence[Part]) -> bool:
        """Whether gaps can be filled so that one skip takes all text between the first and the last of them.

        Then the rest is a text with one gap. In the gap a lexeme has to end, and a skip may come where it does. This lattice is
        smaller than that of the whole text, and mostly tells.
        """
        tables = self.tables
        opened = [i for i, part in enumerate(parts) if part.is_open]
        if tables.is_exact or tables.has_families or len(opened) < 2 or any(parts[i].slot for i in opened):
            return False
        first, last = opened[0], opened[-1]
        cover = tables.separators.cover
        if cover is None or not cover.takes(b"".join([part.text for part in parts[first + 1 : last + 1]])):
            return False
        return self.build([*parts[: first + 1], *parts[last + 1 :]], cut=True) == 1

    def may_end(self, parts: Sequence[Part], whole: Sequence[Part], witness: Witness | None) -> bool:
        """Whether parts with an end token in one of their slots can be completed.

        ``whole``: the parts with this slot open; ``witness``: of these. Known texts mostly prove it, or a lattice of gaps
        refutes it; else the search for it is as short as for another token of a mask. Raises :class:`SearchGivenUp`.
        """
        last = self.length(parts)
        if last is None:
            return False
        if self.tables.has_families or witness is None or not self.is_followed(parts):
            return self.completable(parts)
        canvas = Canvas(self.tables, parts[:last], self.padded)
        canvas.remember(whole, witness)
        canvas.recall(self.guides)
        if self._is_filled(parts, canvas, 0):
            return True
        if canvas.is_exhausted:  # nothing is open
            return False
        if not self.build(with_gaps(parts[:last])[0], self.tables.loose):
            return False
        if self._is_filled_together(parts, canvas):
            return True
        canvas.grant(_WORK_TOGETHER)
        if self._is_filled(parts, canvas, MOST_STATES):
            return True
        if canvas.is_exhausted:
            return False
        raise unknown("texts of so many tokens")

    def _is_known_before_lattices(self, parts: Sequence[Part], is_one_of_many: bool) -> bool | None:
        """Whether parts can be completed, if the matcher or a lattice of gaps tells, which mostly takes a tenth of the time; or
        else None.

        ``is_one_of_many``: asked for a token of a mask. Raises :class:`SearchGivenUp` if neither tells and the lattices would
        not either.
        """
        tables = self.tables
        if tables.is_exact or not any(part.slot and part.is_open for part in parts):
            if not tables.has_families:
                return None
            return (not tables.is_exact and self._is_witnessed(parts)) or self._is_completed_briefly(parts) or None
        if not tables.has_families and self._is_filled_before_lattices(parts):
            return True
        if not self.is_followed(parts):
            return None
        is_filled = self._are_slots_filled(parts, is_one_of_many)
        if is_filled is None and tables.has_many_classes():
            # the loose lattice plans slots with some classes only, so its *no* proves nothing
            if tables.has_families or self.build(parts) != 1:
                raise unknown("texts of so many tokens")
            return True
        return is_filled

    def _are_slots_filled(self, parts: Sequence[Part], is_one_of_many: bool) -> bool | None:
        """Whether slots can be filled, by the matcher and a lattice of gaps; None if lattices of slots have to tell.

        ``is_one_of_many``: asked for a token of a mask, so it must be quick. Raises :class:`SearchGivenUp`. Four steps, cheap
        ones first:

        - Known texts, and a brief search from slot to slot, may fill the slots.
        - If gaps in their places cannot be filled, neither can they.
        - A longer search fills them, or proves *no* when it has no state left to follow.
        - If lattices of slots will not tell either, the search may take all of its budget.
        """
        last = self.length(parts)
        if last is None:
            return False
        free, _ = with_gaps(parts[:last])
        n_open = sum(part.is_open for part in free)
        is_long = n_open > FEW_PLACES  # derivations of texts with many gaps take seconds
        canvas = self.canvas(parts[:last])
        is_brief = is_one_of_many or (not is_long and self.tables.has_families)  # then lattices may soon tell
        most = FEW_STATES if is_brief else MOST_STATES
        if self._is_filled_soon(parts, canvas, most if is_long or self.proof.found else 0):
            return True
        if (is_long or not self._is_completed_briefly(free)) and not self.build(free, self.tables.loose):
            return False
        if not is_long and self._is_witnessed(parts):  # by what the derivation has taught
            return True
        canvas.grant(MOST_WORK)
        if (is_long or not is_one_of_many) and self._is_filled(parts, canvas, most):
            return True
        if canvas.is_exhausted:
            return False
        if is_one_of_many or n_open > MANY_PLACES:
            raise unknown("texts of so many tokens")
        if self.tables.has_families and self.tables.has_many_classes():  # lattices will not tell
            if is_long and any(part.gap and part.is_open for part in parts):
                self._is_completed_briefly(free)  # what it finds for gaps is tried in them
            canvas.grant(MOST_WORK)
            if self._is_filled(parts, canvas, MOST_STATES):
                return True
        return None

    def _is_filled_soon(self, parts: Sequence[Part], canvas: Canvas, most: int) -> bool:
        """Whether known texts fill the slots, or a short search of ``most`` states (0: none) does: most canvases can be filled
        so.
        """
        # while tokens are not classified, `_is_filled_before_lattices` has tried this already
        if self.tables.workspace.classified and self._is_filled_together(parts, canvas):
            return True
        canvas.grant(FEW_WORK)
        return (most > 0 and self._is_filled(parts, canvas, most)) or self._is_witnessed(parts)

    def is_followed(self, parts: Sequence[Part]) -> bool:
        """Whether the matcher goes from slot to slot because the lattices tell little.

        That is so if lexemes compete and rules are made on demand, or even one slot has too many suffix classes for a lattice.
        """
        if self.tables.is_exact or not any(part.slot and part.is_open for part in parts):
            return False
        return self.tables.has_families or self.tables.has_many_classes()

    def is_planned_short(self, parts: Sequence[Part]) -> bool:
        """Whether lexemes compete and too many slots are open to plan them with all classes, so that a *no* of the lattice
        proves nothing.
        """
        tables = self.tables
        n_open = sum(part.slot and part.is_open for part in parts)
        if tables.is_exact or tables.has_families or not n_open:
            return False
        return tables.has_many_classes() or n_open * tables.classify(tables.loose) > MOST_COMPETING

    def mask(self, parts: Sequence[Part], hole: int, row: np.ndarray, witness: Witness | None = None) -> int:
        """Write the tokens that may stand at an open part to a row of bits; how many are left out because a search was given
        up.

        End tokens are up to the caller. ``witness``: of the parts.
        """
        self.merged = merged = Merged(parts, hole)
        return self._mask(merged.parts, merged.hole, row, merged.of_left(witness))

    def _mask(self, parts: Sequence[Part], hole: int, row: np.ndarray, witness: Witness | None) -> int:
        """:meth:`mask`, of parts that are merged."""
        tables = self.tables
        self.proofs = None
        is_only_slot = parts[hole].slot and sum(part.is_open for part in parts) == 1  # then the matcher decides everything
        # with families, and with many slots, the strict lattice knows little
        is_followed = tables.has_families or (not is_only_slot and self.is_followed(parts))
        is_asked = tables.is_exact or not (is_followed or is_only_slot)
        # at the first open place the matcher groups the tokens into classes: the lattice is asked about one of each
        is_by_class = is_asked and not tables.is_exact and tables.n_dots >= _FEW_DOTS
        is_by_class = is_by_class and not any(part.is_open for part in parts[:hole])
        if is_asked and not is_by_class:
            self.add_from_lattice(parts, hole, row)
        last = self.length(parts)
        if tables.is_exact or last is None or hole >= last:  # (the hole is behind the first end token)
            return 0
        found = self.kept_fillings(parts)
        if found is not None:
            self._kept.note(parts, found)
        self.proofs = proofs = Proofs(self, parts, hole, row, is_followed, witness)
        undecided = proofs.decide(is_by_class)
        if is_followed and parts[hole].slot and not is_only_slot and witness is None and not row.any():
            self.add_from_lattice(parts, hole, row)  # the strict lattice may be what found the text completable
            undecided = max(undecided - int(bit_flags(row).sum()), 0)
        return undecided

    def witness(self, token: int | None = None) -> Witness | None:
        """A text that the parts of the last mask can become with a token of it (None: any), if one is kept."""
        if self.proofs is None:
            return None
        return self.merged.of_all(self.proofs.some_witness() if token is None else self.proofs.witness(token))

    def add_known(self, parts: Sequence[Part], hole: int, row: np.ndarray) -> None:
        """Write to a row the tokens that may stand at an open part by the strict lattice alone: many of the mask, in a tenth of
        the time.

        Writes none where the lattice knows little, or where it is the mask anyway.
        """
        self.proofs = None
        if self.tables.is_exact or self.tables.has_families or self.is_followed(parts):
            return
        if sum(part.is_open for part in parts) > 1:
            merged = Merged(parts, hole)
            self.add_from_lattice(merged.parts, merged.hole, row)

    def possible(self, parts: Sequence[Part], hole: int, tokens: np.ndarray, free: bool, by_first: bool = False) -> np.ndarray:
        """Those of some tokens that the loose lattice does not rule out at an open part.

        ``free``: with gaps in place of slots. ``by_first``: by first bytes alone, whatever the parser allows, in a tenth of the
        time.
        """
        row = all_but(bitmask_words(self.tables.vocab.size), tokens)  # a lattice is asked only about bits that are 0
        if free:
            parts, hole = with_gaps(parts[: self.length(parts)], hole)
        if by_first:
            return tokens[self._first_bytes(parts, hole, row)[self.tables.first_bytes[tokens]]]
        self.add_from_lattice(parts, hole, row, self.tables.loose)
        return tokens[bit_flags(row)[tokens]]

    def _first_bytes(self, parts: Sequence[Part], hole: int, row: np.ndarray) -> np.ndarray:
        """By byte, whether the loose lattice lets a token outside the row begin with it at an open part."""
        work = self.tables.loose
        is_any = self._lay(parts, work, hole) and work.call(kernels.OP_MAY_BEGIN, address_of(row))
        return bit_flags(work.tables[ws.DOUBT_FIRSTS], 256) if is_any else np.zeros(256, bool)

    def may_begin(self, before: bytes) -> np.ndarray:
        """The text tokens that may stand in a gap behind another gap and the text ``before`` (one byte or none): a mask row
        (int32).

        By their first bytes and the loose lattice. Memoised.
        """
        found = self.tables.may_begin.get(before)
        if found is None:
            row = np.zeros(bitmask_words(self.tables.vocab.size), np.int32)
            flags = self._first_bytes([Part(gap=True), Part(before), Part(gap=True)], 2, row)
            of_tokens = np.zeros(32 * len(row), bool)
            of_tokens[: self.tables.vocab.size] = flags[self.tables.first_bytes]
            found = self.tables.may_begin[before] = packed_bits(of_tokens) & self.tables.texts_row
        return found

    def add_from_lattice(self, parts: Sequence[Part], hole: int, row: np.ndarray, work: Workspace | None = None) -> None:
        """Add to a row the tokens that a lattice knows to be legal at an open part; tokens in the row are not asked about."""
        if self.lay_for_mask(parts, hole, row, work):
            self.add_from_laid(row, work)

    def lay_for_mask(self, parts: Sequence[Part], hole: int, row: np.ndarray, work: Workspace | None = None) -> bool:
        """Build the lattice, facts and items for a mask; False if no token outside the row may come. :meth:`add_from_laid` goes
        on.
        """
        work = work or self.tables.workspace
        if self.tables.is_exact:  # then masks are made from profiles, which need the classes
            self.tables.classify(work)
        if not self._lay(parts, work, hole) or not work.call(kernels.OP_MAY_BEGIN, address_of(row)):
            return False
        work.call(kernels.OP_FACTS)
        work.call(kernels.OP_ITEMS)
        return True

    def add_from_laid(self, row: np.ndarray, work: Workspace | None = None) -> None:
        """Make the mask after :meth:`lay_for_mask`."""
        (work or self.tables.workspace).call(kernels.OP_MASK, address_of(row))

    def fillings(self, parts: Sequence[Part]) -> list[bytes] | None:
        """Fillings of the open gaps of completable parts without open slots; None if none was found."""
        merged = Merged(parts)
        return merged.fillings(self._fillings(merged.parts))

    def _fillings(self, parts: Sequence[Part]) -> list[bytes] | None:
        """:meth:`fillings`, of parts that are merged."""
        if not any(part.is_open for part in parts):
            return []
        if self.tables.is_exact:
            return self.spelled(parts)
        found = self._filled.of(parts)
        if found is None and self.tables.has_families and self._is_completed_briefly(parts):
            found = self._filled.of(parts)
        found = found or self._witness.of(parts)
        return Search(self).fillings(parts) if found is None else found

    def some_fillings(self, parts: Sequence[Part]) -> list[bytes] | None:
        """Fillings of parts without open slots that the matcher accepts, perhaps not the shortest; None if the lattices spell
        none at once.
        """
        found = self.kept_fillings(parts)
        if found is None and self.tables.has_families:
            found = self._filled.of(parts) if self._is_completed_briefly(parts) else None
        elif found is None:
            found = self.spelled(parts)
        return found

    def kept_fillings(self, parts: Sequence[Part]) -> list[bytes] | None:
        """Fillings, accepted by the matcher, of these very parts without open slots, if they are remembered."""
        return self._filled.of(parts) or self._witness.of(parts) or self._kept.of(parts)

    def _is_witnessed(self, parts: Sequence[Part]) -> bool:
        """Whether known texts that ended other gaps (:class:`cdplugin.infill.gap_texts.GapTexts`) end those of some parts.

        The matcher decides that in a tenth of the time of a lattice. Remembers the fillings.
        """
        before, elements, _ = laid_out(parts[: self.length(parts)], self.padded)
        if not elements or len(elements) > MOST_ELEMENTS or self.length(parts) is None:
            return False
        gap_texts = self.tables.gap_texts
        has_slots = any(count is not None for count, _ in elements)
        with gap_texts.trying(MOST_TRIES_OF_SLOTS if has_slots else MOST_TRIES):
            cursor = self.tables.step(self.tables.start, before)
            behind = gap_texts.text_behind(elements)
            found = gap_texts.find(cursor, behind, False) if cursor else None
        if found is None and cursor and not has_slots:
            with gap_texts.trying(2 * MOST_TRIES), gap_texts.with_more():
                found = gap_texts.find(cursor, behind, False)
        if found is not None:
            if has_slots:
                self.proof.note(parts, by_part(self.tables, parts, elements, behind.fillings(cursor)))
            else:
                self._witness.note(parts, behind.fillings(cursor))
        return found is not None

    def _is_filled_before_lattices(self, parts: Sequence[Part]) -> bool:
        """Whether the matcher soon finds its way through slots, before the lattices are prepared for slots in this grammar.

        Where lexemes compete, that may take seconds, and the first text can mostly be filled so.
        """
        last = self.length(parts)
        if self.tables.workspace.classified or last is None:
            return False
        canvas = self.canvas(parts[:last])
        if self._is_filled_together(parts, canvas):
            return True
        canvas.grant(FEW_WORK)
        return self._is_filled(parts, canvas, FEW_STATES)

    def _is_filled(self, parts: Sequence[Part], canvas: Canvas, most: int) -> bool:
        """Whether the beam search fills the slots of some parts by following at most ``most`` states."""
        return self._is_proven(parts, canvas.witness(most))

    def _is_filled_together(self, parts: Sequence[Part], canvas: Canvas) -> bool:
        """Whether the search with few tokens fills the slots; only after a change of a text that could be filled."""
        if self.tables.has_families or not canvas.guides:
            return False
        canvas.grant(_WORK_TOGETHER)
        return self._is_proven(parts, filled_together(canvas, self.few_tokens(parts), _STATES_TOGETHER))

    def _is_proven(self, parts: Sequence[Part], found: Witness | None) -> bool:
        """Whether a witness was found; it is remembered."""
        if found is None:
            return False
        ends = self.tables.vocab.eos_token_ids
        self.proof.note(parts, [*found, *(ends[0] if part.is_open else None for part in parts[len(found) :])])
        return True

    def few_tokens(self, parts: Sequence[Part]) -> FewTokens:
        """The tokens with which slots are followed first: some fixed ones, and those of the text at the first call."""
        if self._few is None or self._few.arena is not self.tables.arena:
            tokens = [part.text for part in parts if part.token is not None]
            self._few = FewTokens(self.tables, [*tokens, *_WORDS.findall(b"".join(part.text for part in parts))])
        return self._few

    def canvas(self, parts: Sequence[Part], witness: Witness | None = None) -> Canvas:
        """The open places of parts before the first end token, with known texts: ``witness``, one of these parts, or else the
        last one found.
        """
        canvas = Canvas(self.tables, parts, self.padded)
        known, found = (parts, witness) if witness else (self.proof.parts, self.proof.found)
        if found:
            canvas.remember(known, found)
        canvas.recall(self.guides)
        return canvas

    def _is_completed_briefly(self, parts: Sequence[Part]) -> bool:
        """Whether a brief completion is found, without a search; it is remembered.

        Brief: no lexeme in a gap is much longer than what the text repeats, say as indentation; and the first try has no long
        keywords in gaps. Where blocks of any width are lexemes of their own, most of the work goes to blocks wider than all of
        the text, and, for each width, to statements that no gap needs.
        """
        whole, last = parts, self.length(parts)
        parts = parts[:last]
        fixed = b"".join(part.spelt for part in parts)
        run = max((len(list(same)) for _, same in itertools.groupby(fixed)), default=0)
        most = BRIEF
        while most < run + BRIEF // 2:
            most *= 2
        if last is None or any(part.slot and part.is_open for part in parts):
            return False
        tables = self.tables
        found = self.spelled(parts, tables.brief(most, False))
        if found is None:
            found = self.spelled(parts, tables.brief(most, True) if tables.least_bytes.max() > most else tables.loose)
        if found is not None:
            self._filled.note(whole, found)
            tables.gap_texts.learn(found)
        return found is not None

    def spelled(self, parts: Sequence[Part], work: Workspace | None = None) -> list[bytes] | None:
        """Fillings of the open gaps of parts without open slots that the matcher accepts, from cheap derivations on a lattice;
        None if none was found. ``work``: the lattice's workspace, by default the strict one.
        """
        tables = self.tables
        work = work or tables.workspace
        if not self.build(parts, work, keep=False):
            return None
        left = tables.work_left
        try:
            completions = Completions(tables, work)
            return completions.spelled(lambda found: -1 if tables.is_exact else tables.right_until(filled(parts, found)))
        finally:
            self.work += (left - tables.work_left) // WORK_OF_A_NODE
