"""From a spec and a vocabulary to a :class:`Grammar`: cleans the rules, numbers them, and fills an arena's static tables.

Nothing here recurses; every pass is linear in the size of the rules.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cdplugin import expr
from cdplugin.arena import Arena
from cdplugin.errors import GrammarError, LimitExceeded
from cdplugin.grammar import GrammarIR
from cdplugin.kernels import arena as layout
from cdplugin.kernels import engine as kernels
from cdplugin.kernels import expressions
from cdplugin.limits import Limits
from cdplugin.matcher import Grammar
from cdplugin.specs import JsonObject, Spec
from cdplugin.template import Template, evaluate, template_of
from cdplugin.vocab import Vocabulary

_END_OF_RULE = -1
_END_NAME = "end of text"


class Compiler:
    """Compiles specs for one vocabulary; thread-safe, with a byte-bounded LRU cache of compiled grammars.

    >>> vocab = Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"</s>"], eos_token_ids=256)
    >>> from cdplugin.specs import Choice
    >>> matcher = Compiler(vocab).compile(Choice(["yes", "no"])).matcher()
    >>> matcher.accept_tokens(b"yes"), matcher.is_accepting()
    (3, True)
    """

    def __init__(self, vocab: Vocabulary, limits: Limits | None = None) -> None:
        self.vocab = vocab
        self.limits = limits or Limits()
        self._lock = threading.Lock()
        self._cache: OrderedDict[Hashable, Grammar] = OrderedDict()

    def compile(self, spec: Spec) -> Grammar:
        """The grammar of ``spec``. Raises :class:`GrammarError` (malformed, unsupported, unsatisfiable) or :class:`LimitExceeded`."""
        if not isinstance(spec, Spec):
            raise GrammarError(
                "wrong type of spec", expected="cdplugin.JsonSchema, JsonObject, Regex or Choice", found=type(spec).__name__
            )
        key = spec.key()
        if key is not None:
            with self._lock:
                grammar = self._cache.get(key)
                if grammar is not None:
                    self._cache.move_to_end(key)
                    return grammar
        grammar = self.compile_ir(spec.to_ir(self.limits))
        if key is not None:
            with self._lock:
                grammar = self._cache.setdefault(key, grammar)
                self._evict()
        return grammar

    def compile_ir(self, ir: GrammarIR) -> Grammar:
        """The grammar of rules that a caller built itself; not cached."""
        template = template_of(self.vocab, self.limits, _shared_lexemes())
        arena = template.arena.clone()
        return Grammar(_build(ir, template, arena, self.limits), template.arena, arena, ir.relaxed)

    def _evict(self) -> None:
        total = sum(grammar.nbytes for grammar in self._cache.values())
        while total > self.limits.max_cache_bytes and len(self._cache) > 1:
            _, grammar = self._cache.popitem(last=False)
            total -= grammar.nbytes


@lru_cache(maxsize=1)
def _shared_lexemes() -> tuple[expr.Expr, ...]:
    """The lexemes of any JSON object: nearly every JSON grammar has them, and they live as long as the process."""
    return tuple(_factor_prefixes(JsonObject().to_ir(Limits())).lexemes)


@dataclass(frozen=True)
class StaticTables:
    """What of a compiled grammar never changes: tables of an arena, and the program that builds its lexemes' expressions.

    An arena that was cloned from the same template gives the expressions the same ids each time, so ``tables`` may name them.
    """

    program: np.ndarray
    n_results: int
    tables: dict[int, np.ndarray]
    end_symbol: int
    n_nonterminals: int
    lexeme_names: list[str]

    def evaluate(self, arena: Arena) -> None:
        """Build the lexemes' expressions in a clone of the template."""
        literals = (self.tables[layout.LITERAL_OFFSETS], self.tables[layout.LITERAL_BYTES])
        evaluate(arena, self.program, self.n_results, literals)

    def install(self, arena: Arena) -> int:
        """Put the rules into an arena that has the expressions; returns the start cursor."""
        for table, array in self.tables.items():
            arena.set_table(table, array)
        arena.set_table(layout.MARKS, np.zeros(self.n_nonterminals, np.int64))
        arena.header[layout.END_SYMBOL] = self.end_symbol
        return arena.call(kernels.OP_ROOT)


def _build(ir: GrammarIR, template: Template, arena: Arena, limits: Limits) -> StaticTables:
    """Evaluate the lexemes, clean the rules, number what is left."""
    ir = _factor_prefixes(ir)
    if len(ir.rules) > limits.max_rules:
        raise LimitExceeded("too many rules", expected=f"at most Limits.max_rules = {limits.max_rules}", found=str(len(ir.rules)))
    if len(ir.lexemes) > limits.max_lexemes:
        raise LimitExceeded(
            "too many lexemes", expected=f"at most Limits.max_lexemes = {limits.max_lexemes}", found=str(len(ir.lexemes))
        )
    program = template.program()
    results = [program.add(lexeme) for lexeme in ir.lexemes]
    words = np.array(program.words, np.int64)
    offsets, text = program.literal_tables()
    literal_tables = {layout.LITERAL_OFFSETS: offsets, layout.LITERAL_BYTES: text}
    evaluate(arena, words, program.n_results, (offsets, text))
    ids = arena.tables[layout.MARKS][np.array(results, np.int64)] if results else np.empty(0, np.int64)
    productive, nullable = _lexeme_status(arena, ids)
    rules = _clean(ir, productive, nullable)
    if not rules:
        raise GrammarError("the grammar matches nothing: it is unsatisfiable")
    tables = _number(ir, rules, nullable)
    used = sorted({~s for _, right in rules for s in right if s < 0})
    return StaticTables(
        program=words,
        n_results=program.n_results,
        tables=literal_tables | tables.arrays | {layout.LEXEMES: ids[used]},
        end_symbol=len(used),
        n_nonterminals=tables.n_nonterminals,
        lexeme_names=[ir.lexeme_names[t] or repr(ir.lexemes[t]) for t in used] + [_END_NAME],
    )


_SPLITS: dict[int, tuple[expr.Expr, expr.Expr]] = {}
_MOST_SPLITS = 1 << 14


def _split(e: expr.Expr) -> tuple[expr.Expr, expr.Expr]:
    """``(e, what is left of e)``: of a concatenation all but its first part, of ``R{0,n}`` the non-empty ``R{1,n}``.

    The same object for the same ``e``, since expressions are compared by identity.
    """
    known = _SPLITS.get(id(e))
    if known is None:
        if len(_SPLITS) >= _MOST_SPLITS:
            _SPLITS.clear()
        rest = expr.cat(*e.args[1:]) if e.op == expr.CAT_OP else expr.repeat(e.args[0], 1, e.args[2])
        known = _SPLITS[id(e)] = (e, rest)  # holds e, so that its id stays its own
    return known


def _factor_prefixes(ir: GrammarIR) -> GrammarIR:
    """Split an optional prefix that several lexemes share (whitespace, most of the time) off into a lexeme of its own."""
    counts: dict[int, int] = {}
    for e in ir.lexemes:
        if e.op == expr.CAT_OP and e.args[0].op == expr.REPEAT_OP and e.args[0].args[1] == 0:
            counts[id(e.args[0])] = counts.get(id(e.args[0]), 0) + 1
    shared = {prefix for prefix, count in counts.items() if count > 1}
    if not shared:
        return ir
    out = GrammarIR()
    out.names = list(ir.names)
    out.start, out.relaxed = ir.start, ir.relaxed
    prefix_symbol: dict[int, int] = {}
    replacement: dict[int, tuple[int, ...]] = {}
    for t, (e, name) in enumerate(zip(ir.lexemes, ir.lexeme_names, strict=True)):
        if e.op == expr.CAT_OP and id(e.args[0]) in shared:
            prefix = e.args[0]
            if id(prefix) not in prefix_symbol:
                symbol = prefix_symbol[id(prefix)] = out.nonterminal("prefix")
                out.rule(symbol, [out.lexeme(_split(prefix)[1], "whitespace")])
                out.rule(symbol, [])
            replacement[~t] = (prefix_symbol[id(prefix)], out.lexeme(_split(e)[1], name))
        else:
            replacement[~t] = (out.lexeme(e, name),)
    for left, right in ir.rules:
        out.rule(left, [s for symbol in right for s in replacement.get(symbol, (symbol,))])
    return out


def _lexeme_status(arena: Arena, ids: np.ndarray) -> tuple[list[bool], list[bool]]:
    """For each lexeme: whether it matches some text that is not empty, and whether it matches the empty text."""
    flags = arena.flags(ids)
    productive = (ids != expressions.EMPTY) & (ids != expressions.EPSILON)
    nullable = flags & expressions.NULLABLE != 0
    for i in np.flatnonzero(productive & (flags & expressions.PURE == 0)).tolist():
        productive[i] = _matches_text(arena, int(ids[i]))
    return productive.tolist(), nullable.tolist()


def _matches_text(arena: Arena, expression: int) -> bool:
    """Whether an expression with ``&`` or ``~`` matches a text of at least one byte: whether some derivative is not empty."""
    if not arena.call(kernels.OP_STATUS, expression) & 1:
        return False
    return any(arena.call(kernels.OP_STATUS, arena.call(kernels.OP_DERIVE, expression, byte)) & 1 for byte in range(256))


def _clean(ir: GrammarIR, productive: list[bool], nullable: list[bool]) -> list[tuple[int, tuple[int, ...]]]:
    """Drop useless rules (Hopcroft and Ullman, 7.1.1): first those that derive nothing, then those that are out of reach.

    A nullable lexeme becomes a nonterminal, numbered after the others, with the lexeme (if it matches any text) and the empty
    string as alternatives; a lexeme here never matches the empty string.
    """
    wrapper: dict[int, int] = {}
    rules: list[tuple[int, tuple[int, ...]]] = []
    if any(nullable):
        for t, is_nullable in enumerate(nullable):
            if is_nullable:
                wrapper[~t] = len(ir.names) + len(wrapper)
                rules.append((wrapper[~t], ()))
                if productive[t]:
                    rules.append((wrapper[~t], (~t,)))
        rules += [(left, tuple([wrapper.get(s, s) for s in right])) for left, right in ir.rules]
    else:
        rules = ir.rules
    rules = list(dict.fromkeys(rules))
    # productive nonterminals, by counting the symbols of each rule that are not known to be productive yet
    waiting: dict[int, list[int]] = {}
    missing = [0] * len(rules)
    known = [False] * (len(ir.names) + len(wrapper))
    done: list[int] = []
    for r, (left, right) in enumerate(rules):
        count = 0
        for symbol in right:
            if symbol >= 0:
                waiting.setdefault(symbol, []).append(r)
                count += 1
            elif not productive[~symbol]:
                count = -len(right) - 1  # never becomes 0
                break
        missing[r] = count
        if count == 0 and not known[left]:
            known[left] = True
            done.append(left)
    while done:
        for r in waiting.get(done.pop(), ()):
            missing[r] -= 1
            left = rules[r][0]
            if missing[r] == 0 and not known[left]:
                known[left] = True
                done.append(left)
    by_left: dict[int, list[int]] = {}
    for r, (left, _) in enumerate(rules):
        if missing[r] == 0:
            by_left.setdefault(left, []).append(r)
    start = wrapper.get(ir.start, ir.start)
    if start not in by_left:
        return []
    reached = {start}
    order = [start]
    out: list[tuple[int, tuple[int, ...]]] = []
    for left in order:
        for r in by_left[left]:
            rule = rules[r]
            out.append(rule)
            for symbol in rule[1]:
                if symbol >= 0 and symbol not in reached:
                    reached.add(symbol)
                    order.append(symbol)
    return out


@dataclass(frozen=True)
class _Numbered:
    arrays: dict[int, np.ndarray]
    n_nonterminals: int


def _number(ir: GrammarIR, rules: list[tuple[int, tuple[int, ...]]], nullable: list[bool]) -> _Numbered:
    """Lay the rules out as dots. The first rule is ``S' -> S END``; nonterminal 0 is ``S'``."""
    number: dict[int, int] = {}
    for left, _ in rules:
        number.setdefault(left, len(number) + 1)
    lexeme_number = {t: i for i, t in enumerate(sorted({~s for _, right in rules for s in right if s < 0}))}
    n = len(number) + 1
    end_symbol = len(lexeme_number)
    numbered = [(0, [1, -2 - end_symbol])]
    for left, right in rules:
        numbered.append((number[left], [number[s] if s >= 0 else -2 - lexeme_number[~s] for s in right]))
    null = _nullable_nonterminals(numbered, n)
    symbols: list[int] = []
    lefts: list[int] = []
    null_rest: list[int] = []
    rule_dots: list[list[int]] = [[] for _ in range(n)]
    corner_dots: list[list[int]] = [[] for _ in range(n)]
    for left, right in numbered:
        first = len(symbols)
        rule_dots[left].append(first)
        symbols += right
        symbols.append(_END_OF_RULE)
        lefts += [left] * (len(right) + 1)
        rest = [1] * (len(right) + 1)
        for i in range(len(right) - 1, -1, -1):
            rest[i] = 1 if rest[i + 1] and right[i] >= 0 and null[right[i]] else 0
        null_rest += rest
        for i, symbol in enumerate(right):
            if symbol < 0:
                break
            corner_dots[symbol].append(first + i)
            if not null[symbol]:
                break
    rule_offsets, rule_flat = _rows(rule_dots)
    corner_offsets, corner_flat = _rows(corner_dots)
    arrays = {
        layout.DOT_SYMBOL: np.array(symbols, np.int64),
        layout.DOT_LEFT: np.array(lefts, np.int64),
        layout.DOT_NULL_REST: np.array(null_rest, np.int64),
        layout.RULE_OFFSETS: rule_offsets,
        layout.RULE_DOTS: rule_flat,
        layout.CORNER_OFFSETS: corner_offsets,
        layout.CORNER_DOTS: corner_flat,
        layout.NULLABLE: np.array(null, np.int64),
    }
    return _Numbered(arrays, n)


def _rows(lists: Iterable[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Lists of different lengths as offsets and one flat array (both int64)."""
    offsets = [0]
    flat: list[int] = []
    for row in lists:
        flat += row
        offsets.append(len(flat))
    return np.array(offsets, np.int64), np.array(flat, np.int64)


def _nullable_nonterminals(rules: list[tuple[int, list[int]]], n: int) -> list[int]:
    """1 for each nonterminal that derives the empty string."""
    null = [0] * n
    waiting: dict[int, list[int]] = {}
    missing = [0] * len(rules)
    done: list[int] = []
    for r, (left, right) in enumerate(rules):
        if right and min(right) < 0:
            continue
        missing[r] = len(right)
        for symbol in right:
            waiting.setdefault(symbol, []).append(r)
        if not right and not null[left]:
            null[left] = 1
            done.append(left)
    while done:
        for r in waiting.get(done.pop(), ()):
            missing[r] -= 1
            left = rules[r][0]
            if missing[r] == 0 and not null[left]:
                null[left] = 1
                done.append(left)
    return null
