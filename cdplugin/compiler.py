"""Compile a spec for a vocabulary into a :class:`Grammar`.

The front end writes the spec's rules into an IR. Then :func:`_build` evaluates the lexemes' expressions in a clone of the
vocabulary's base arena, splits off a shared optional prefix (white space), finds which lexemes match nothing or the empty text,
removes unproductive rules, numbers the rest and lays it out as static tables of the arena.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from cdplugin import expr
from cdplugin.collector import gc_paused
from cdplugin.engine.arena import Arena
from cdplugin.engine.base_arena import BaseArena, base_arena_of, evaluate
from cdplugin.engine.expander import StaticTables
from cdplugin.engine.lexemes import TokenRanges, lexeme_table, plain_table, resolve_tokens
from cdplugin.engine.rules import SEARCH_BYTES, Lexemes, RuleSet, build_rules, prepare_rules
from cdplugin.engine.tracked import count_along_path, count_words, states_for_each
from cdplugin.errors import GrammarError, LimitExceeded, UnsupportedError, kind_of
from cdplugin.ir import EXACT, LAZY, GrammarIR, Symbol, enough_values
from cdplugin.kernels.regex import expressions
from cdplugin.kernels.store import layout
from cdplugin.limits import Limits, at_most
from cdplugin.matcher import Grammar
from cdplugin.memory import ByteLru, short_key, size_of
from cdplugin.specs import popular
from cdplugin.specs.base import JsonObject, JsonSchema, Spec
from cdplugin.tally import too_many_nodes
from cdplugin.vocab.vocabulary import Vocabulary


class Compiler:
    """Compiles specs for one vocabulary; thread-safe, with a byte-bounded LRU cache of compiled grammars.

    ``copy.copy`` and ``copy.deepcopy`` return the compiler itself. Pickling keeps the vocabulary and limits, not the cache.

    >>> vocab = Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"</s>"], eos_token_ids=256)
    >>> from cdplugin.specs.base import Choice
    >>> matcher = Compiler(vocab).compile(Choice(["yes", "no"])).matcher()
    >>> matcher.accept_tokens(b"yes"), matcher.is_accepting()
    (3, True)
    """

    def __init__(self, vocab: Vocabulary, limits: Limits | None = None) -> None:
        if not isinstance(vocab, Vocabulary):
            raise TypeError(f"vocab: expected a cdplugin.Vocabulary, found {type(vocab).__name__}")
        if limits is not None and not isinstance(limits, Limits):
            raise TypeError(f"limits: expected a cdplugin.Limits, found {type(limits).__name__}")
        self.vocab = vocab
        self.limits = Limits() if limits is None else limits
        self._base: BaseArena | None = None
        most = self.limits.max_cache_bytes
        self._cache: ByteLru[Grammar] = ByteLru("compiled grammars", most, most // 2)
        self._in_use: WeakValueDictionary[Hashable, Grammar] = WeakValueDictionary()  # grammars alive somewhere, cached or not

    def __copy__(self) -> Compiler:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiler:
        return self

    def __reduce__(self) -> Any:
        return Compiler, (self.vocab, self.limits)

    def compile(self, spec: Spec) -> Grammar:
        """The grammar of ``spec``. Raises :class:`GrammarError` (malformed, unsupported, unsatisfiable) or
        :class:`LimitExceeded`.
        """
        if not isinstance(spec, Spec):
            expected = "a cdplugin.Spec: JsonSchema(a schema or a pydantic model), Regex(…), Choice(…), Lark(…), Gbnf(…), …"
            raise GrammarError("wrong type of spec", expected=expected, found=kind_of(spec))
        return self.compile_or_find(spec)[0]

    def compile_or_find(self, spec: Spec) -> tuple[Grammar, bool]:
        """:meth:`compile`, and whether the grammar was compiled before."""
        key = short_key(spec.key())
        if key is None:
            with gc_paused():
                return self.compile_ir(spec.rules(self.limits)), False
        grammar: Grammar | None = self._cache.get(key)
        is_known = grammar is not None
        if grammar is None:
            grammar = self._in_use.get(key)
            is_known = grammar is not None
            if grammar is None:
                with gc_paused():
                    grammar = self.compile_ir(spec.rules(self.limits))
                grammar.account.note("key", size_of(key))
            nbytes = grammar.nbytes
            grammar, serial = self._cache.put(key, grammar, nbytes)
            grammar.account.keep_in(self._cache, key, serial, nbytes)
            self._in_use[key] = grammar
        return grammar, is_known

    @property
    def cached_bytes(self) -> int:
        """Bytes of the grammars that the cache holds."""
        return self._cache.nbytes

    def compile_ir(self, ir: GrammarIR) -> Grammar:
        """Compile rules that the caller built itself; not cached."""
        base = self._base_arena()
        if base.arena.lender is not None:
            base.arena.lender.harvest()
        arena = base.arena.clone()
        with arena.compile_budget():
            return Grammar(_build(ir, base, arena, self.limits), base.arena, arena, ir.relaxed)

    def _base_arena(self) -> BaseArena:
        if self._base is None:
            popular.meet()
            self._base = base_arena_of(self.vocab, self.limits, _shared_lexemes(), _characters())
        return self._base

    def save_learned(self, path: str | PathLike[str]) -> int:
        """Write the mask bases that grammars of this vocabulary share to a file for :meth:`load_learned`; returns their number.

        Written into a folder, the file is read by any process with ``CDPLUGIN_LEARNED=folder``. Raises ``OSError``.
        """
        lender = self._base_arena().arena.lender
        if lender is None:
            return 0
        lender.harvest()
        return lender.save(Path(path))

    def load_learned(self, path: str | PathLike[str]) -> int:
        """Let grammars that are compiled from now on start with the mask bases of a file of :meth:`save_learned`.

        Returns the number of mask bases, 0 if the file is of another vocabulary or version. Masks are the same with and without
        it, only found sooner. Load only files that you trust. Raises ``OSError``; :class:`CdpluginError` if the file is
        damaged.
        """
        lender = self._base_arena().arena.lender
        return 0 if lender is None else lender.load(Path(path))


@lru_cache(maxsize=1)
def _shared_lexemes() -> tuple[expr.Expr, ...]:
    """The lexemes of any JSON object and of arrays of one scalar type. Nearly every JSON grammar has them, so each base arena
    evaluates them once.
    """
    shared: list[expr.Expr] = []
    types = ("integer", "number", "boolean", "null")
    for spec in (JsonObject(), *(JsonSchema({"type": "array", "items": {"type": name}}) for name in types)):
        ir = spec.rules(Limits())
        lexemes = _factor_prefixes(ir)
        shared += lexemes.expressions
    return tuple(dict.fromkeys(shared))


@lru_cache(maxsize=1)
def _characters() -> tuple[expr.Expr, ...]:
    """The characters of property names."""
    return tuple(JsonObject.characters())


def _build(ir: GrammarIR, base: BaseArena, arena: Arena, limits: Limits) -> StaticTables:
    """Evaluate the lexemes, remove unproductive rules, and number what is left."""
    for name, found, most in (("rules", len(ir.rules), limits.max_rules), ("lexemes", len(ir.lexemes), limits.max_lexemes)):
        if found > most:
            raise LimitExceeded(f"too many {name}", expected=at_most(limits, f"max_{name}"), found=str(found))
    lexemes = _factor_prefixes(ir)
    tokens = resolve_tokens(ir, base.arena.vocab)
    used: Sequence[int] = range(len(ir.lexemes))
    if not lexemes.is_led:
        used = [t for t in used if lexemes.leads[t] >= 0 or ~t not in lexemes.rewrite]
    program = base.program()
    results = program.add_lexemes([lexemes.expressions[t] for t in used], limits.max_expr_nodes)
    if program.n_results > limits.max_expr_nodes:
        raise too_many_nodes(limits.max_expr_nodes).amended(location=ir.places.get(~used[len(results) - 1], ("",))[0])
    plain = {symbol: expr.both(ir.lexemes[~symbol], ir.tracked[symbol].plain) for symbol in ir.twins}
    plain_results = {symbol: program.add(e) for symbol, e in plain.items()}
    fences = {symbol: program.add(e) for symbol, e in ir.fences.items()}
    code = program.code()
    literals = program.literal_tables()
    evaluate(arena, code, program.n_results, literals)
    if lexemes.is_led and ir.is_bare():
        prepared = prepare_rules(ir, lexemes, arena, results)
        if prepared is not None:
            rules, records, searched = prepared
            table = plain_table(ir, rules.lexeme_numbers, lexemes.expressions, records)
            return StaticTables(code, program.n_results, literals, table, rules.compact(), searched)
    kept = arena.tables[layout.VISIT_STAMPS].tolist()
    ids_of_used = np.array([kept[result] if result >= 0 else ~result for result in results], np.int64)
    ids = ids_of_used
    if len(used) < len(ir.lexemes):
        ids = np.full(len(ir.lexemes), expressions.EMPTY, np.int64)
        ids[used] = ids_of_used
    plain_ids = {symbol: kept[result] for symbol, result in plain_results.items()}
    fence_ids = {symbol: kept[result] for symbol, result in fences.items()}
    nullable, searched = _judge(ir, lexemes, arena, used, ids_of_used, tokens)
    rules = build_rules(ir, lexemes)
    _count_values(ir, rules, arena, plain_ids)
    return StaticTables(
        program=code,
        n_results=program.n_results,
        literals=literals,
        lexemes=lexeme_table(ir, rules.lexeme_numbers, lexemes.expressions, ids, nullable, tokens, fence_ids),
        rules=rules.compact(),
        searched=searched,
    )


def _factor_prefixes(ir: GrammarIR) -> Lexemes:
    """Split an optional prefix that several lexemes share (mostly white space) off into a lexeme of its own.

    Then all rows share the states of a run of white space, which otherwise would be one set of states for each row's lexemes.
    """
    expressions = list(ir.lexemes)
    lexemes = Lexemes(expressions, [-1] * len(expressions))
    if ir.restriction is not None:
        return lexemes
    kept = ir.tracked
    is_exact = ir.is_exact() and not ir.max_tokens
    with_prefix, alone = _prefixes(expressions, kept)
    whole: list[tuple[int, Symbol]] = []  # lexemes that are just the prefix, and the nonterminal that replaces them
    leads = lexemes.leads
    for those in with_prefix.values():
        if len(those) < 2:
            continue
        prefix = expressions[those[0]].args[0]
        split = those if is_exact else [t for t in those if ir.lexings[t] == EXACT and ~t not in ir.max_tokens]
        written = [t for t in alone if expressions[t] is prefix and ir.lexings[t] == EXACT and ~t not in ir.max_tokens]
        if not split and not written:
            continue
        symbol = ir.nonterminal()
        space = lexemes.optional[symbol] = ir.lexeme(prefix.rest, "whitespace")
        if len(expressions) < len(ir.lexemes):
            expressions.append(prefix.rest)
            leads.append(-1)
        lexemes.rules += [(symbol, (space,)), (symbol, ())]
        for t in split:
            e = expressions[t]
            expressions[t] = e._rest or e.rest
            leads[t] = symbol
        whole += [(t, symbol) for t in written if ~t not in kept]
    for t, symbol in whole:
        lexemes.rewrite[~t] = (symbol,)
        lexemes.is_led = False
    return lexemes


def _prefixes(expressions: Sequence[expr.Expr], kept: Container[Symbol]) -> tuple[dict[int, list[int]], list[int]]:
    """The lexemes of each optional prefix, by the prefix's id, without ``kept`` ones; and the lexemes that may be such a
    prefix.
    """
    cat, repeat = expr.CAT_OP, expr.REPEAT_OP
    found: dict[int, list[int]] = {}
    alone: list[int] = []
    last, those = None, list[int]()
    for t, e in enumerate(expressions):
        if e.op == cat:
            first = e.args[0]
            if first is not last:
                if first.op != repeat or first.args[1] != 0:
                    continue
                last, those = first, found.setdefault(id(first), [])
            if ~t not in kept:
                those.append(t)
        elif e.op == repeat and e.args[1] == 0:
            alone.append(t)
    return found, alone


def _judge(
    ir: GrammarIR, lexemes: Lexemes, arena: Arena, used: Sequence[int], found: np.ndarray, tokens: dict[Symbol, TokenRanges]
) -> tuple[dict[Symbol, None], list[int]]:
    """Find which lexemes match any non-empty text, and replace each nullable lexeme by a nonterminal. Returns the nullable
    lexemes, and the expressions of which only a search tells whether they match anything.

    ``found``: int64, the expressions of the lexemes ``used``. A lexeme in a rule never matches the empty text: the nonterminal
    of a nullable one derives the empty string, and the lexeme if that matches any other text. A LAZY lexeme that matches the
    empty text matches nothing else. A token terminal matches if any token does.
    """
    barren = lexemes.barren
    flags = arena.flags(found) & (expressions.NULLABLE | expressions.PURE)
    nullable: dict[Symbol, None] = {}
    unsure: list[tuple[Symbol, int]] = []
    searched: list[int] = []
    for place in np.flatnonzero((flags != expressions.PURE) | (found <= expressions.EPSILON)).tolist():
        symbol, expression = ~used[place], int(found[place])
        if expression <= expressions.EPSILON:
            barren.add(symbol)
        if flags[place] & expressions.NULLABLE:
            nullable[symbol] = None
        if not flags[place] & expressions.PURE:
            searched.append(expression)
            if symbol not in barren:
                unsure.append((symbol, expression))
    if unsure:
        arena.max_bytes = min(arena.max_bytes, arena.nbytes + SEARCH_BYTES)
        barren.update(symbol for symbol, expression in unsure if not _matches_text(arena, expression, symbol in nullable))
        arena.max_bytes = arena.limits.max_arena_bytes
        arena.over_budget = arena.nbytes > arena.max_bytes
    for symbol, ranges in tokens.items():
        (barren.discard if ranges else barren.add)(symbol)
    skips = set(ir.skips.values())
    for symbol in nullable:
        if symbol in skips:
            continue
        if ir.lexings[~symbol] == LAZY:
            barren.add(symbol)
        wrapper = ir.nonterminal(ir.lexeme_names[~symbol])
        ir.locate(wrapper, ir.places.get(symbol, ()))
        lexemes.replace(symbol, (wrapper,))
        lexemes.rules.append((wrapper, ()))
        if symbol not in barren:
            lexemes.rules.append((wrapper, (symbol,)))
    return nullable, searched


def _count_values(ir: GrammarIR, rules: RuleSet, arena: Arena, plain_ids: dict[Symbol, int]) -> None:
    """Count the values of each tracked lexeme. Raises :class:`UnsupportedError` if there are fewer than its reader needs."""
    used = rules.lexeme_number if plain_ids else {}
    most: dict[int, int] = {}
    tracked = [(ir.tracked[symbol], expression) for symbol, expression in plain_ids.items() if symbol in used]
    readers = [(reader, id(reader.group or reader), expression) for reader, expression in tracked]
    distinct = dict.fromkeys(expression for _, expression in tracked if expression != expressions.EMPTY)
    most_states = states_for_each(len(distinct))
    counts = {expression: count_words(arena, expression, most_states) for expression in distinct} | {expressions.EMPTY: 0}
    for _, group, expression in readers:
        most[group] = max(most.get(group, 0), counts[expression])
    for reader, group, expression in readers:
        if most[group] < reader.needs:
            counts[expression] = max(counts[expression], count_along_path(arena, expression))
            most[group] = max(most[group], counts[expression])
    for reader, group, expression in readers:
        reader.enough = enough_values(counts[expression], arena.vocab.max_token_bytes)
        if most[group] < reader.needs:
            raise UnsupportedError(
                f"keyword {reader.keyword!r} is not supported where so few values may be left",
                location=reader.location,
                keyword=reader.keyword,
            )


def _matches_text(arena: Arena, expression: int, nullable: bool) -> bool:
    """Whether an expression with ``&`` or ``~`` matches a text of at least one byte. For a nullable one: whether some
    derivative is not empty.
    """
    try:
        if not arena.is_nonempty(expression):
            return False
    except LimitExceeded as error:
        message = "deciding whether an expression with '&' or '~' matches anything takes too much"
        raise LimitExceeded(message, expected=error.expected) from None
    if not nullable:
        return True
    return any(arena.is_nonempty(after) for _, after in arena.derivatives(expression))
