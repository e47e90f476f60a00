"""The lexemes of a compiled grammar as kernels read them: records by number, and the token ranges of token terminals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cdplugin.engine.rules import KINDS
from cdplugin.errors import GrammarError
from cdplugin.expr import Expr, merge_ranges
from cdplugin.ir import EXACT, GrammarIR, Symbol, TokenSet, texts_bytes
from cdplugin.kernels.store import layout
from cdplugin.vocab.vocabulary import Vocabulary

_END_NAME = "end of text"

_PLAIN_RECORD = np.zeros(layout.LEXEME_WORDS, np.int64)
_PLAIN_RECORD[[*layout.X_NONE]] = -1

TokenRanges = tuple[tuple[int, int], ...]


@dataclass(eq=False)
class LexemeTable:
    """``records``: int64 ``(numbers, LEXEME_WORDS)``. ``ranges``: int64 ``(pairs, 2)``, token ids. ``numbers``: int64, from the
    IR's number to the lexeme's own (-1: not used). ``spec_names`` and ``spec_places``: the IR's. ``begun``: for the numbers
    after the end of the text, the numbers of the lexemes that they stand for. ``has_clocks``: whether some lexeme counts its
    tokens. ``all_exact``: whether none is LONGEST or LAZY.
    """

    records: np.ndarray
    ranges: np.ndarray
    numbers: np.ndarray
    spec_names: list[str]
    spec_places: Mapping[Symbol, tuple[str, ...]]
    begun: list[int]
    has_clocks: bool
    all_exact: bool

    @property
    def compete(self) -> bool:
        """Whether what one reading of a text allows may change where lexemes of another end: several are LONGEST or LAZY, or
        there are skips. (One alone competes with none, and EXACT ones and token terminals never do.)
        """
        if self.all_exact:
            return False
        ends = self.records[self.records[:, layout.X_KIND] != layout.EXACT, layout.X_SYMBOL]
        return len(np.unique(ends)) > 1 or bool((self.records[:, layout.X_SKIP] >= 0).any())

    @cached_property
    def names(self) -> list[str]:
        """The names, by number."""
        names = [self.spec_names[t] for t in self._used()]
        names.append(_END_NAME)
        return names + [names[number] for number in self.begun]

    @cached_property
    def places(self) -> list[tuple[str, ...]]:
        """Where the spec has the lexemes, by number (:meth:`cdplugin.ir.GrammarIR.locate`)."""
        places = [self.spec_places.get(~t, ()) for t in self._used()]
        places.append(())
        return places + [places[number] for number in self.begun]

    def _used(self) -> list[int]:
        """Return the IR's numbers of the lexemes used, in the order of their own numbers."""
        return np.flatnonzero(self.numbers >= 0).tolist()

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, the names, and the lists by number. The places are counted with the rules."""
        n_lists = 2 * len(self.records) + 2 * len(self.spec_names)
        return self.records.nbytes + self.ranges.nbytes + texts_bytes(self.spec_names) + _POINTER * n_lists


_POINTER = 8
_NO_RANGES = np.empty((0, 2), np.int64)


def plain_table(ir: GrammarIR, lexeme_numbers: np.ndarray, lexemes: Sequence[Expr], records: np.ndarray) -> LexemeTable:
    """Return :func:`lexeme_table` for records that are known already (:func:`cdplugin.engine.rules.prepare_rules`)."""
    names = _named(ir, lexemes)
    return LexemeTable(records, _NO_RANGES, lexeme_numbers, names, ir.places, [], has_clocks=False, all_exact=ir.is_exact())


def _named(ir: GrammarIR, lexemes: Sequence[Expr]) -> list[str]:
    """Return the names of an IR's lexemes; a lexeme without a name gets its expression."""
    names = ir.lexeme_names
    return [name or repr(e) for name, e in zip(names, lexemes, strict=True)] if "" in names else names


def lexeme_table(
    ir: GrammarIR,
    lexeme_numbers: np.ndarray,
    lexemes: Sequence[Expr],
    expressions_of: np.ndarray,
    nullable: Iterable[Symbol],
    tokens: Mapping[Symbol, TokenRanges],
    fences: Mapping[Symbol, int],
) -> LexemeTable:
    """Make the records of the lexemes that the rules use, then of the end of the text, then of the numbers of lexemes that have
    begun.

    ``lexeme_numbers``, ``lexemes``, ``expressions_of``: by the IR's number, the lexeme's own number (-1: not used), its
    expression, and the arena's id of that.

    A lexeme that has begun gets a number of its own in three cases: it matches the empty string (at its start, a LONGEST lexeme
    does not count that as a match), its tokens are counted, or it tracks its value (:mod:`cdplugin.kernels.lexer.tracked`).
    """
    used = [t for t, number in enumerate(lexeme_numbers.tolist()) if number >= 0]  # their own numbers ascend with the IR's
    lexings = {*map(ir.lexings.__getitem__, used)}
    records = np.empty((len(used) + 1, layout.LEXEME_WORDS), np.int64)  # the last one is the end of the text
    records[:] = _PLAIN_RECORD
    records[:, layout.X_SYMBOL] = records[:, layout.X_BEGUN] = np.arange(len(used) + 1)
    records[:-1, layout.X_EXPRESSION] = expressions_of[used]
    if lexings - {EXACT}:
        records[:-1, layout.X_KIND] = [KINDS[ir.lexings[t]] for t in used]
    are_plain = not (lexings - {EXACT} or ir.skips or fences or tokens or ir.max_tokens or ir.tracked)
    numbers = {} if are_plain else {~t: number for number, t in enumerate(used)}
    for symbol, skip in ir.skips.items():
        if symbol in numbers and skip in numbers:
            records[numbers[symbol], layout.X_SKIP] = numbers[skip]
            records[numbers[skip], layout.X_IS_SKIP] = True
    for symbol, fence in fences.items():
        if symbol in numbers:
            records[numbers[symbol], layout.X_FENCE] = fence
    ranges: list[tuple[int, int]] = []
    for symbol, of_tokens in tokens.items():
        if symbol in numbers:
            records[numbers[symbol], layout.X_RANGES : layout.X_N_RANGES + 1] = len(ranges), len(of_tokens)
            ranges += of_tokens
    begun = _begun(ir, numbers, records, nullable)
    return LexemeTable(
        np.concatenate((records, [record for _, record in begun])) if begun else records,
        np.array(ranges, np.int64).reshape(-1, 2),
        lexeme_numbers,
        _named(ir, lexemes),
        ir.places,
        [number for number, _ in begun],
        has_clocks=any(record[layout.X_TICK] >= 0 for _, record in begun),
        all_exact=lexings <= {EXACT},
    )


def _begun(
    ir: GrammarIR, numbers: Mapping[Symbol, int], records: np.ndarray, nullable: Iterable[Symbol]
) -> list[tuple[int, np.ndarray]]:
    """Return records for the numbers of lexemes that have begun, each with its lexeme's number, where the lexeme's own record
    does not do.

    The new records follow ``records``, whose X_BEGUN and so on are set to them.
    """
    again = {symbol for symbol in nullable if ir.lexings[~symbol] != EXACT}
    begun: list[tuple[int, np.ndarray]] = []
    for symbol in sorted((again | ir.tracked.keys() | ir.max_tokens.keys()) & numbers.keys(), key=numbers.__getitem__):
        number = numbers[symbol]
        record = records[number]
        first = len(records) + len(begun)
        if symbol in ir.tracked:
            # a shadow; then its number once it has begun, and the number under which tracking lexemes end
            twin = symbol not in ir.twins
            record[layout.X_ROLE] = (layout.SIGN if ir.tracked[symbol].is_sign else layout.UNSURE) if twin else layout.NEXT
            if not twin:
                record[layout.X_BEGUN] = first
                record[layout.X_TRACKED] = first + 1
                later, ended = record.copy(), record.copy()
                later[layout.X_ROLE], ended[layout.X_ROLE] = layout.SHADOW, layout.TRACKS
                ended[layout.X_BEGUN] = ended[layout.X_SYMBOL] = first + 1
                later[layout.X_TRACKED] = -1
                begun += [(number, later), (number, ended)]
            continue
        clock = ir.max_tokens.get(symbol)
        record[layout.X_BEGUN] = first
        last = first + (clock or 0)
        for here in range(first, last + 1):
            later = record.copy()
            later[layout.X_SKIP] = -1
            later[layout.X_BEGUN] = here
            later[layout.X_TICK] = -1 if clock is None else min(here + 1, last)
            begun.append((number, later))
    return begun


def resolve_tokens(ir: GrammarIR, vocab: Vocabulary) -> dict[Symbol, TokenRanges]:
    """Return the token ids of each token terminal, as sorted inclusive ranges inside the vocabulary.

    Raises :class:`GrammarError` for a name or an id that the vocabulary does not have.
    """
    return {symbol: _ranges_of(tokens, vocab) for symbol, tokens in ir.token_sets.items()}


def _ranges_of(tokens: TokenSet, vocab: Vocabulary) -> TokenRanges:
    beyond = max((high for _, high in tokens.ranges), default=0)
    if beyond >= vocab.size:
        raise GrammarError(
            "a token id outside the vocabulary", location=tokens.where, expected=f"ids below {vocab.size}", found=str(beyond)
        )
    pairs = list(tokens.ranges)
    names = [name for name in tokens.names if not tokens.optional or name in vocab.special_tokens]
    pairs += [(token, token) for token in (_token_named(name, tokens, vocab) for name in names)]
    if tokens.negated and not tokens.ends:
        pairs += [(token, token) for token in vocab.eos_token_ids]
    merged = merge_ranges(pairs)
    if not tokens.negated:
        return tuple(merged)
    starts = [0, *(high + 1 for _, high in merged)]
    ends = [*(low - 1 for low, _ in merged), vocab.size - 1]
    return tuple((low, high) for low, high in zip(starts, ends, strict=True) if low <= high)


def _token_named(name: str, tokens: TokenSet, vocab: Vocabulary) -> int:
    """Return the id of a special or added token, or of one whose text is the name."""
    for known in (vocab.special_tokens, vocab.added_tokens):
        if name in known:
            return known[name]
    text = name.encode("utf-8", "surrogatepass")  # a caller's text may hold anything
    if tokens.ordinary and text in vocab.token_of[0]:
        return vocab.token_of[0][text]
    some = sorted([*vocab.special_tokens, *vocab.added_tokens])
    raise GrammarError(
        f"the vocabulary has no token {name!r}",
        location=tokens.where,
        expected=f"one of {', '.join(some[:8])}{' …' if len(some) > 8 else ''}" if some else "a special or added token",
    )
