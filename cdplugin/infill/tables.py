"""A grammar as the infilling kernels need it: rules, lexer start states, follow sets, and the workspaces.

An :class:`InfillGrammar` has an arena of its own: gaps and slots lead to many lexer states that no matcher needs. One thread at
a time uses it; :mod:`cdplugin.infill.at_rest` hands it from one session to the next.
"""

from __future__ import annotations

import functools
import threading
import weakref
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np

from cdplugin import forking
from cdplugin.bits import members, packed_bits
from cdplugin.collector import gc_paused
from cdplugin.engine.expander import Expander
from cdplugin.errors import CdpluginError, LimitExceeded, UnsupportedError
from cdplugin.infill.chains import chains, near_first, next_of
from cdplugin.infill.characters import Characters
from cdplugin.infill.gap_texts import GapTexts
from cdplugin.infill.going_on import goes_on
from cdplugin.infill.openings import Openings
from cdplugin.infill.parts import MOST_CLASSES
from cdplugin.infill.room import that_end_in_gaps
from cdplugin.infill.rule_edges import edge_lexemes, ranks
from cdplugin.infill.separators import Separators
from cdplugin.infill.steps import Steps
from cdplugin.infill.together import short_tokens
from cdplugin.infill.token_classes import KnownClasses
from cdplugin.infill.usual_tokens import usual_tokens
from cdplugin.infill.workspace import MOST_STATES, Rules, Workspace
from cdplugin.kernels.infill import entry as kernels
from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.regex.measures import M_BYTES, M_LEAST, MEASURE_WORDS
from cdplugin.kernels.store import layout
from cdplugin.queries.completion import Endings
from cdplugin.queries.measures import Measures

if TYPE_CHECKING:
    from cdplugin.matcher import Grammar

MOST_RULE_INSTANCES = 8192  # members of families (any property order, counts) in a grammar that is infilled
_CLASS_ROOM = 1 << 14  # suffix classes
MOST_START_STATES = 1 << 12  # memoised
MOST_DOTS_ALIVE, MOST_WORDS_ALIVE = 1 << 16, 1 << 21  # dots, and words of AFTER, up to which alive dots are found
MOST_DOTS_CHAINED = 1 << 12  # dots up to which chains are found
_TOKENS_AT_ONCE = 4096  # classified by one call
_FEWEST_OF_WORD = 3  # bytes of a lexeme that is like a long keyword


class InfillGrammar(Steps):
    """A grammar's rules and lexer states as the infilling kernels need them, and memo tables of what gaps and tokens do to the
    states.

    Use it as ``with tables.lock, tables``, by one thread at a time. (An interrupt may come inside any method, also
    ``__enter__``; so the lock is taken by the ``with`` statement.) If a block is left by an unexpected exception (an interrupt,
    no memory), or another thread was in one when the process was forked, the tables may be half changed; they are made anew at
    the next use. Raises :class:`UnsupportedError` for token terminals and ``max_tokens``, and :class:`LimitExceeded` where
    rules made on demand are too many to make all of them.
    """

    def __init__(self, grammar: Grammar, rules: Rules | None = None) -> None:
        """``rules``: of the same grammar, from :attr:`rules` of other tables."""
        self.rules = rules
        self.owner = weakref.ref(grammar)  # users of the tables hold the grammar; tables at rest must not
        self.vocab = grammar.vocab
        self.lock = threading.Lock()
        self._is_broken = False
        self._make()
        forking.watch(self)

    def __enter__(self) -> None:
        self._owed = 0
        is_full = self.arena.over_budget and not self._begins_full  # full of many texts: a new arena has room
        if self._is_broken or is_full or self.arena.header[layout.IS_BROKEN]:
            self._is_broken = True
            self._make()
            self._is_broken = False

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None and (self.arena.over_budget or not issubclass(kind, CdpluginError)):
            self._is_broken = True  # made anew at the next question; until then give back the memory
            if self.arena.header[layout.IS_BROKEN]:
                for work in self._works:
                    work.give_up()

    def after_fork(self) -> None:
        """In a forked child."""
        if not forking.is_free(self.lock):
            self.lock, self._is_broken = threading.Lock(), True

    @property
    def grammar(self) -> Grammar:
        """The grammar."""
        grammar = self.owner()
        assert grammar is not None
        return grammar

    @property
    def nbytes(self) -> int:
        """Bytes of the tables while they rest."""
        return (
            self.arena.nbytes
            + self.endings.nbytes
            + self.nbytes_of_steps
            + self.classes.nbytes
            + sum(w.nbytes_at_rest for w in self._works)
        )

    @property
    def _works(self) -> list[Workspace]:
        """The workspaces that exist."""
        return [work for work in (self.workspace, self._loose, self._brief) if work is not None]

    def rest(self) -> bool:
        """Forget what texts taught and keep what is known of the grammar; whether that is worth keeping."""
        if self._is_broken or self.arena.over_budget or self.arena.header[layout.IS_BROKEN]:
            return False
        for work in self._works:
            work.rest()
        self._forget_gap_texts()
        self.is_lean = False
        return True

    def grow_lean(self) -> None:
        """After :meth:`rest`: give back as much memory as possible. It takes some ten ms, and so does getting it back."""
        for work in self._works:
            work.let_go()
        self.is_lean = True

    def _make(self) -> None:
        grammar = self.grammar
        self.arena = grammar._base_arena.clone()
        with self.arena.compile_budget(), gc_paused():
            self._make_tables(grammar)
        self._begins_full = self.arena.over_budget

    def _make_tables(self, grammar: Grammar) -> None:
        grammar._tables.evaluate(self.arena)
        grammar._tables.install(self.arena)
        self.start = self.arena.start
        head = self.arena.header
        if head[layout.HAS_TERMINALS] or head[layout.HAS_CLOCKS]:
            raise UnsupportedError(
                "infilling is not supported", expected="a grammar over text", found="token terminals or max_tokens"
            )
        if head[layout.HAS_TRACKED]:
            raise UnsupportedError(
                "infilling is not supported where a grammar remembers texts",
                expected="no unique_names, uniqueItems over few values only, fewer than 40 names where they come in any order",
            )
        self.n_dots, self.n_nonterminals = self._expand_all()
        self.n_lexemes = int(head[layout.END_SYMBOL]) + 1
        self._start_states: dict[bytes, int] = {}
        if self.rules is None or self.rules.words[ws.W_N_DOTS] != self.n_dots:
            self.workspace = Workspace(self.arena)
            self._set_rules()
            self.rules = Rules.of(self.workspace).copy()
        else:
            self.workspace = Workspace.with_rules(self.arena, self.rules.copy())
        exact = self.arena.lexemes[:, layout.X_KIND] == layout.EXACT
        self.is_exact = bool(exact.all())
        self._set_starts([np.flatnonzero(exact), np.flatnonzero(~exact)])
        self.workspace.header[ws.W_SPLIT] = not self.is_exact
        self._loose: Workspace | None = None
        self._has_many_classes: bool | None = None  # :meth:`has_many_classes`
        self._brief: Workspace | None = None
        self._begin_steps()
        self._brief_for: tuple[int, bool] | None = None
        self.may_begin: dict[bytes, np.ndarray] = {}  # :meth:`cdplugin.infill.answers.Answers.may_begin`
        for name in ("least_bytes", "are_words", "_measures", "characters"):
            self.__dict__.pop(name, None)
        self.endings = Endings(self.arena)
        self._forget_gap_texts()

    def _forget_gap_texts(self) -> None:
        self.gap_texts = GapTexts(self)
        self.openings = Openings(self.gap_texts)
        self._forget_successors()
        self.classes = KnownClasses(self.arena, self.texts_row)

    @property
    def loose(self) -> Workspace:
        """The loose workspace, in which each LONGEST lexeme competes with its skip alone: what it refuses is not legal."""
        if self._loose is None:
            self._loose = work = self.workspace.with_same_rules()
            n, records = self.n_lexemes - 1, self.arena.lexemes
            exact = records[:, layout.X_KIND] == layout.EXACT
            self._set_starts([np.flatnonzero(exact), *np.flatnonzero(~exact)[:, None]], work)
            work.set(ws.SKIPPED, work.tables[ws.SKIPPED])  # a copy, changed below
            skipped = work.tables[ws.SKIPPED].reshape(-1, int(work.header[ws.W_SET]))
            for skip in np.flatnonzero(records[:, layout.X_IS_SKIP]):  # it may end any text
                skipped[skip, n >> 6] |= np.int64(1) << np.int64(n & 63)
            work.header[ws.W_LOOSE] = 1
        return self._loose

    def brief(self, most: int, with_words: bool) -> Workspace:
        """A loose workspace in which no lexeme in a gap has more than ``most`` bytes: it spells short completions soon.

        What it refuses may be legal. ``with_words``: whether long keywords may begin in gaps; without them and their
        statements, a fifth of the facts is left (Python).
        """
        if self._brief is None:
            self._brief = self.loose.with_same_rules()
            self._brief.header[ws.W_LOOSE] = 1
        if self._brief_for != (most, with_words):
            self._brief_for = most, with_words
            self._brief.forget_texts()
            self._brief.header[ws.W_MOST_IN_GAP] = most
            self._brief.set(ws.LEAST, self.least_bytes if with_words else np.where(self.are_words, most + 1, self.least_bytes))
        return self._brief

    @functools.cached_property
    def short_tokens(self) -> list[bytes]:
        """The tokens by which every canvas is followed first (:mod:`cdplugin.infill.together`)."""
        return short_tokens(self)

    @functools.cached_property
    def characters(self) -> Characters:
        """Which tokens UTF-8 allows beside given text."""
        return Characters(self)

    @functools.cached_property
    def first_bytes(self) -> np.ndarray:
        """Per token, the first byte of its text; 0 without text. uint8."""
        return np.array([text[0] if text else 0 for text in self.vocab.tokens], np.uint8)

    @functools.cached_property
    def least_bytes(self) -> np.ndarray:
        """Per lexeme, a lower bound of its bytes."""
        return self._measures[:, M_LEAST]

    @functools.cached_property
    def are_words(self) -> np.ndarray:
        """Per lexeme, whether it is like a long keyword: every match has some bytes, and always certain letters."""
        needed = self._measures[:, M_BYTES:]
        letters = packed_bits(np.char.isalpha([chr(byte) if byte < 128 else "" for byte in range(256)])).view(np.int64)
        return (self.least_bytes >= _FEWEST_OF_WORD) & needed.any(axis=1) & ~(needed & ~letters).any(axis=1)

    @functools.cached_property
    def _measures(self) -> np.ndarray:
        """Per lexeme, the measures of its expression."""
        out = np.zeros((self.n_lexemes, MEASURE_WORDS), np.int64)
        out[:-1] = Measures(self.arena).of(self.arena.lexemes[:, layout.X_EXPRESSION])
        return out

    def _expand_all(self) -> tuple[int, int]:
        """Make the rules of all families' members now; the numbers of dots and of nonterminals."""
        arena = self.arena
        expander = arena.expand
        self.has_families = isinstance(expander, Expander)
        if not isinstance(expander, Expander):
            return len(arena.tables[layout.DOT_SYMBOL]), len(arena.tables[layout.NULLABLE])
        done = 0
        while done < expander.n_nonterminals:
            if expander.n_nonterminals > MOST_RULE_INSTANCES:
                raise LimitExceeded(
                    "infilling: the grammar makes rules on demand, and there are too many to make all of them",
                    expected=f"at most {MOST_RULE_INSTANCES} nonterminals",
                )
            if arena.tables[layout.RULE_HEADS][done] == layout.NOT_EXPANDED:
                expander(done)
            done += 1
        return expander.n_dots, expander.n_nonterminals

    def _set_rules(self) -> None:
        tables, work = self.arena.tables, self.workspace
        symbols = tables[layout.DOT_SYMBOL][: self.n_dots]
        dots = np.flatnonzero(symbols != -1)
        index = np.where(symbols[dots] >= 0, symbols[dots], self.n_nonterminals - 2 - symbols[dots])
        n_symbols = self.n_nonterminals + self.n_lexemes
        work.set(ws.SYMBOL_HEADS, np.searchsorted(np.sort(index), np.arange(n_symbols + 1)))
        turns = np.append(dots[np.argsort(index, kind="stable")], np.flatnonzero(symbols == -1))
        work.set(ws.SYMBOL_DOTS, turns)
        work.set(ws.TURN_OF, np.argsort(turns))
        is_first = np.ones(self.n_dots, np.int64)
        is_first[1:] = symbols[:-1] == -1
        work.set(ws.IS_FIRST, is_first)
        head = work.header
        head[ws.W_DOT_SET] = (self.n_dots + 63) // 64
        head[ws.W_TURN_SET] = (len(dots) + 63) // 64
        passes = np.zeros(64 * int(head[ws.W_TURN_SET]), np.uint8)
        passes[: len(dots)] = tables[layout.DOT_NULL_REST][turns[: len(dots)] + 1]
        work.set(ws.PASSES, np.packbits(passes, bitorder="little").view(np.int64))
        firsts = np.flatnonzero(is_first)
        lefts = tables[layout.DOT_LEFT][firsts]
        work.set(ws.FIRST_HEADS, np.searchsorted(np.sort(lefts), np.arange(self.n_nonterminals + 1)))
        work.set(ws.FIRST_DOTS, firsts[np.argsort(lefts, kind="stable")])
        self._set_follows(symbols, firsts, lefts)
        head[ws.W_N_SYMBOLS_NT] = self.n_nonterminals
        head[ws.W_N_LEXEMES] = self.n_lexemes
        head[ws.W_N_DOTS] = self.n_dots
        work.size_for_dots()
        head[ws.W_MOST_STATES] = MOST_STATES
        head[ws.W_MOST_CLASSES] = _CLASS_ROOM
        work.reserve(ws.WORK, max(self.n_dots, self.n_lexemes) + 2)
        work.reserve(ws.LEXEME_MARK, self.n_lexemes)
        work.reserve(ws.NT_MARK, self.n_nonterminals)
        work.reserve(ws.CLASS_HASH, 4 * _CLASS_ROOM)

    def _set_follows(self, symbols: np.ndarray, firsts: np.ndarray, lefts: np.ndarray) -> None:
        """Fill ``FOLLOWS``, which lexemes may come after which (Aho et al., "Compilers", 4.4, between lexemes), and ranks and
        chains.
        """
        nullable = self.arena.tables[layout.NULLABLE][: self.n_nonterminals].tolist()
        rights = []
        for first in firsts.tolist():
            end = first
            while symbols[end] != -1:
                end += 1
            rights.append(symbols[first:end].tolist())
        rules = list(zip(lefts.tolist(), rights, strict=True))
        turned = [(left, right[::-1]) for left, right in rules]
        self.workspace.set(ws.RANKS, ranks(rules, nullable))
        self.workspace.set(ws.LAST_RANKS, ranks(turned, nullable))
        work = self.workspace
        n_words = (self.n_lexemes + 1) * int(work.header[ws.W_TURN_SET])
        if self.n_dots <= MOST_DOTS_ALIVE and n_words <= MOST_WORDS_ALIVE:
            work.set(ws.AFTER, np.zeros(n_words, np.int64))
            work.set(ws.AFTER_KNOWN, np.zeros(self.n_lexemes + 1, np.int64))
        begins = edge_lexemes(rules, nullable)
        self._set_chains(symbols, nullable, begins)
        ends = edge_lexemes(turned, nullable)
        after_last: dict[int, int] = {}  # by the symbol that comes before: what may begin after it
        for _, right in rules:
            for i in range(len(right) - 1):
                found = 0
                for symbol in right[i + 1 :]:
                    found |= begins[symbol] if symbol >= 0 else 1 << (-2 - symbol)
                    if symbol < 0 or not nullable[symbol]:
                        break
                after_last[right[i]] = after_last.get(right[i], 0) | found
        follows = [0] * (self.n_lexemes + 1)
        for symbol, found in after_last.items():
            for lexeme in members(ends[symbol]) if symbol >= 0 else [-2 - symbol]:
                follows[lexeme] |= found
        follows[self.n_lexemes] = begins[0]
        words = (self.n_lexemes + 63) // 64
        data = b"".join(word.to_bytes(8 * words, "little") for word in follows)
        self.workspace.set(ws.FOLLOWS, np.frombuffer(data, np.int64))
        self.workspace.header[ws.W_SET] = words
        self._set_skipped(rules, nullable, begins)

    def _set_chains(self, symbols: np.ndarray, nullable: list[int], begins: list[int]) -> None:
        """Fill the tables of chains, and which lexemes may come next, for grammars with few dots."""
        if self.n_dots > min(MOST_DOTS_CHAINED, MOST_DOTS_ALIVE):
            return
        work = self.workspace
        heads, turns = work.tables[ws.SYMBOL_HEADS], work.tables[ws.SYMBOL_DOTS]
        near = near_first(symbols, nullable)
        work.set(ws.NEAR_FIRST, near)
        work.set(ws.NEXT_OF, next_of(symbols, turns, nullable, begins, self.n_lexemes))
        lefts = self.arena.tables[layout.DOT_LEFT][: self.n_dots]
        found = chains(symbols, lefts, heads, turns, near, self.n_nonterminals)
        for table, array in zip((ws.CHAIN_HEADS, ws.CHAIN_DOTS, ws.CHAIN_UPS), found, strict=True):
            work.set(table, array)
        work.header[ws.W_HAS_CHAINS] = 1

    def _set_starts(self, groups: list[np.ndarray], work: Workspace | None = None) -> None:
        """Fill ``STARTS``: a lexer state for each group of lexemes that compete."""
        work = work or self.workspace
        states = [self.start_state(numbers) for numbers in groups if len(numbers)]
        work.set(ws.STARTS, np.array(states, np.int64))
        work.header[ws.W_N_STARTS] = len(states)

    # --- the lattice's tables -----------------------------------------------------------------------------------------------

    def start_state(self, lexemes: np.ndarray) -> int:
        """The lexer state in which some lexemes (sorted) start together."""
        key = lexemes.tobytes()
        known = self._start_states.get(key)
        if known is None:
            arena = self.arena
            words = (lexemes << 32) | arena.lexemes[lexemes, layout.X_EXPRESSION]
            arena.reserve(layout.STACK, 4 * len(words) + 16)
            arena.tables[layout.STACK][: len(words)] = words
            known = self.workspace.call(kernels.OP_START_STATE, len(words))
            if len(self._start_states) < MOST_START_STATES:
                self._start_states[key] = known
        return known

    def _set_skipped(self, rules: list[tuple[int, list[int]]], nullable: list[int], begins: list[int]) -> None:
        """Fill ``SKIPPED``: per skip, the lexemes that it may stand before; the end symbol if it may end every text."""
        records = self.arena.lexemes
        words = int(self.workspace.header[ws.W_SET])
        skipped = np.zeros((self.n_lexemes, 64 * words), np.uint8)
        for lexeme in np.flatnonzero(records[:, layout.X_SKIP] >= 0):
            skipped[records[lexeme, layout.X_SKIP], lexeme] = 1
        for skip in np.flatnonzero(skipped.any(axis=1)):
            awaited = sum(1 << lexeme for lexeme in np.flatnonzero(skipped[skip]).tolist())
            skipped[skip, self.n_lexemes - 1] = goes_on(rules, nullable, begins, awaited)
        self.workspace.set(ws.SKIPPED, np.packbits(skipped, axis=1, bitorder="little").view(np.int64).ravel())
        self.workspace.reserve(ws.TARGET, 2 * words)

    @property
    def separators(self) -> Separators:
        """What skips are good for in gaps."""
        assert self.rules is not None
        if self.rules.separators is None:
            self.rules.separators = Separators.of(self)
        return self.rules.separators

    def prepare_gaps(self, work: Workspace) -> None:
        """Fill ``END_IN_GAPS`` of a workspace, once: which lexemes may end in gaps; in a loose workspace, all."""
        if len(work.tables[ws.END_IN_GAPS]) == self.n_lexemes:
            return
        ends = np.ones(self.n_lexemes, np.int64)
        if not self.is_exact and not work.header[ws.W_LOOSE]:
            assert self.rules is not None
            if self.rules.end_in_gaps is None:
                self.rules.end_in_gaps = that_end_in_gaps(self)
            ends = self.rules.end_in_gaps
        work.set(ws.END_IN_GAPS, ends)

    def classify(self, work: Workspace | None = None, most: int = _CLASS_ROOM) -> int:
        """Find the suffix classes, once, which slots need; how many there are.

        The first classes are those of the tokens that endings are made of: long canvases are planned with few classes.
        ``most``: stop, and leave it unfinished, at more classes than that.
        """
        work = work or self.workspace
        if not work.classified:
            work.reserve(ws.CLASS_OF, len(self.vocab.token_bytes) + 1)
            for token in self._tokens_of_endings:
                work.call(kernels.OP_CLASSIFY, token, token + 1)
            for first in range(0, self.vocab.size, _TOKENS_AT_ONCE):
                work.call(kernels.OP_CLASSIFY, first, min(first + _TOKENS_AT_ONCE, self.vocab.size))
                if work.header[ws.W_N_CLASSES] - 1 > most:
                    break
            else:
                complete = int(work.header[ws.W_N_CLASSES]) <= _CLASS_ROOM
                work.header[ws.W_PROFILES] = self.is_exact and complete
                work.classified = True  # not if interrupted: then it begins anew, as slots need the classes of all tokens
        return int(work.header[ws.W_N_CLASSES]) - 1

    def has_many_classes(self) -> bool:
        """Whether one slot has too many suffix classes for the loose lattice. Found once, with as few tokens as do."""
        if self._has_many_classes is None:
            self._has_many_classes = self.classify(self.loose, MOST_CLASSES) > MOST_CLASSES
        return self._has_many_classes

    @functools.cached_property
    def _tokens_of_endings(self) -> list[int]:
        """The tokens that endings are mostly made of."""
        return usual_tokens(self.grammar)
