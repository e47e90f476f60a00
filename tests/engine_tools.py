"""What the engine's tests share: small vocabularies, masks as sets, grammars of text, and random walks beside ``naive.py``."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from naive import Naive
from tiers import counted

import cdplugin as cd
from cdplugin import expr
from cdplugin.engine.arena import Arena
from cdplugin.engine.base_arena import evaluate
from cdplugin.engine.programs import Program
from cdplugin.expr import Expr
from cdplugin.ir import GrammarIR
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.jit.decorators import BOUNDSCHECK, DISABLED
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.store import layout
from cdplugin.limits import Limits

SLOW = DISABLED or BOUNDSCHECK
"""Kernels interpreted or checked: fewer cases of the same tests."""

ALL_BYTES = [bytes([b]) for b in range(256)]


QUICK = os.environ.get("CDPLUGIN_TESTS") == "quick"
"""``make test``: a part of the cases that ``make check`` tries."""


def cases(full: int, slow: int, quick: int | None = None) -> int:
    """How many cases to try: ``full`` in ``make check``; ``quick`` in ``make test`` (default: a fifth of ``full``, at least
    ``slow``); ``slow`` with kernels interpreted or with checked bounds.
    """
    return counted(_as_many(full, slow, quick), full)


def seeds(full: int, slow: int, quick: int | None = None) -> range:
    """The seeds of a test, as many as :func:`cases` says. Use each as a test by itself: then ``make check``, which has more
    seeds, need not repeat those that have passed in ``make test``.
    """
    return range(_as_many(full, slow, quick))


def _as_many(full: int, slow: int, quick: int | None) -> int:
    few = min(full, max(slow, -(-full // 5))) if quick is None else quick
    return slow if SLOW else few if QUICK else full


def at_least(full: int, few: int) -> int:
    """How many comparisons a test must make at least: ``full`` in ``make check``, ``few`` where it tries fewer cases."""
    return counted(few if SLOW or QUICK else full, full)


def vocabulary(tokens: Iterable[bytes | None] = (), *, all_bytes: bool = True) -> cd.Vocabulary:
    """The 256 bytes and ``tokens``; then an absent id, an empty token, a special token and, last, the end token."""
    listed = [*(ALL_BYTES if all_bytes else []), *tokens, None, b"", b"<special>", b"<end>"]
    return cd.Vocabulary.from_bytes(listed, eos_token_ids=len(listed) - 1, special_token_ids=[len(listed) - 2])


def mask_bits(matcher: cd.Matcher) -> bytes:
    """The mask as bytes. The row holds ones before, so a word that is not written is noticed."""
    row = np.full((1, (matcher.grammar.vocab.size + 31) // 32), -1, np.int32)
    matcher.fill_next_token_bitmask(row)
    return row.tobytes()


def members(bits: bytes | np.ndarray) -> set[int]:
    """The tokens of a mask, given as bytes or as its row (int32)."""
    return set(np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")).tolist())


YES, OPEN, NO = (True, True), (True, False), (False, False)
"""What :func:`outcome` says of a whole text, of the beginning of one, and of neither."""


def outcome(compiler: cd.Compiler, spec: cd.Spec, text: str | list[int]) -> tuple[bool, bool]:
    """Whether all tokens are taken, and whether the text may end there. The vocabulary must begin with the 256 bytes."""
    matcher = compiler.compile(spec).matcher()
    tokens = list(text.encode()) if isinstance(text, str) else text
    taken = matcher.accept_tokens(tokens) == len(tokens)
    return taken, taken and matcher.is_accepting()


def mask(matcher: cd.Matcher) -> set[int]:
    """The tokens that a matcher allows now."""
    return members(mask_bits(matcher))


def naive_mask(naive: Naive, vocab: cd.Vocabulary, prefix: bytes, stops: Sequence[int] | None = None) -> set[int]:
    """The mask by brute force."""
    stops = vocab.eos_token_ids if stops is None else stops
    out = naive.allowed_tokens(prefix, vocab.tokens) - set(stops)
    return out | set(stops) if naive.accepts(prefix) else out


FRESH = cd.Limits(max_infill_bytes=1)
"""Limits with which each Infill has new tables."""


def without_slices(grammar: cd.Grammar) -> cd.Grammar:
    """The grammar with slices switched off."""
    grammar._arena.header[layout.USE_SLICES] = 0
    return grammar


def ir_of(rules: Mapping[str, Sequence[Sequence[str | expr.Expr]]]) -> GrammarIR:
    """Rules written as ``{"S": [["A", lexeme], []]}``; the first name is the start, bytes-like names are nonterminals."""
    ir = GrammarIR()
    names = {name: ir.nonterminal(name) for name in rules}
    ir.start = 0
    for left, alternatives in rules.items():
        for right in alternatives:
            ir.rule(names[left], [names[s] if isinstance(s, str) else ir.lexeme(s) for s in right])
    return ir


# --- an arena whose tables all grow -------------------------------------------------------------------------------------------

TINY = {
    layout.DATA: 4,
    layout.VALUES: 4 * layout.VALUE_WORDS,
    layout.INDEX: 4,
    layout.MEMO: 4,
    layout.MEMO_INDEX: 4,
    layout.STACK: 4,
    layout.TRANSITIONS: 4,
    layout.LEXER_STATES: lexer_layout.LEXER_WORDS,  # record 0 is of nothing, and zeros: kernels read it
    layout.ROWS: 4,
    layout.BASES: 5,
    layout.MASKS: 3,
    layout.TOKEN_LISTS: 1,
    layout.ENDS: 2,
}
"""First sizes of an arena's tables, in items: whatever is done, they grow in the middle of it."""

# --- text: lexemes around the class that slices are made of -------------------------------------------------------------------

PLAIN = expr.utf8_ranges(expr.negate_ranges([(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C), (0x7F, 0x7F), (0x2028, 0x2029)]))
TEXT_TOKENS = [
    *(
        b"ab",
        b"abc",
        b"abcd",
        b"abcde",
        b"a!",
        b"ab!",
        b"abc!",
        b"abcd!x",
        b"!a",
        b"!!",
        b"aaaa",
        b"aaaaaaaa",
        b"x",
        b"x,",
        b", ",
    ),
    *(b'a"', b'"a', b'"', b'""', b'","', b'ab",', b'abc"!', b"a\\", b"\\n", b'\\"', b"\n", b" a", b"  ", b"\x7fa"),
    *("é".encode(), "é!".encode(), "aé".encode(), "日本".encode(), "日本語!".encode(), "🙂".encode(), "a🙂b".encode()),
    *("\u2028".encode(), "a\u2029b".encode(), "\u2027!".encode(), "a\u2028".encode()[:3], b"\xa8", b"\x80\xa8a", "€a".encode()),
    *(
        "日".encode()[:2],
        "日".encode()[1:],
        "é".encode()[1:] + b"a",
        b"\xf0\x9f",
        b"ab\xe6",
        b"\xff",
        b"\xc0\x80",
        b"\xed\xa0\x80",
    ),
]


def random_text_lexeme(rng: random.Random) -> expr.Expr:
    """A lexeme with much plain text: bounded or not, with or without quotes, with words excluded."""
    some = rng.choice(
        [PLAIN, PLAIN, PLAIN, expr.byte_class(b"ab!"), expr.utf8_ranges(((0, 0x10FFFF),)), expr.byte_range(97, 122)]
    )
    if rng.random() < 0.25:
        some = expr.alt(some, expr.cat(expr.literal(b"\\"), expr.byte_class(b'n"\\')))
    low = rng.choice([0, 0, 1, 2, 3])
    run = expr.repeat(some, low, rng.choice([None, low, low + 1, low + 3, 40]))
    shape = rng.random()
    if shape < 0.2:
        run = expr.both(run, expr.complement(expr.literals(rng.sample([b"", b"ab", b"abc", b"a!", "é".encode(), b"aaaa"], 3))))
    elif shape < 0.3:
        run = expr.alt(run, expr.literals([b"abc!", b"a\n", "日".encode()]))
    elif shape < 0.4:
        run = expr.both(run, expr.repeat(expr.cat(PLAIN, expr.byte_class(b"ab!"))))
    elif shape < 0.5:
        run = expr.cat(run, rng.choice([PLAIN, expr.literal(b"!"), expr.repeat(expr.byte_class(b"ab!"), 0, 2)]))
    if rng.random() < 0.4:
        run = expr.cat(expr.literal(b'"'), run) if rng.random() < 0.6 else run
        run = expr.cat(run, expr.literal(b'"'))
    return run


def random_text_grammar(rng: random.Random) -> GrammarIR:
    """One to three text lexemes and separators, in a sequence, a list or a choice."""
    lexemes = [random_text_lexeme(rng) for _ in range(rng.randint(1, 3))]
    lexemes += [expr.literal(rng.choice([b"!", b",", b'"', b"a", b"\n"]))]
    pick = lambda: rng.choice(lexemes)  # noqa: E731
    rules: dict[str, list[list[str | expr.Expr]]] = {"S": [[pick(), "T"]], "T": [[pick()], []]}
    rules["S"].append([pick()] if rng.random() < 0.5 else ["T", pick(), "S"])
    rules["T"].append([pick(), pick()] if rng.random() < 0.5 else ["T", pick()])
    return ir_of(rules)


# --- walking ------------------------------------------------------------------------------------------------------------------


def check_walk(
    grammar: cd.Grammar, naive: Naive, rng: random.Random, steps: int, seen: dict[tuple[int, ...], bytes] | None = None
) -> int:
    """Walk at random (accept, refuse, roll back, fork, reset) and compare each new mask with naive. Returns how many were
    compared.

    ``seen``: masks by tokens. A place that is reached again must have the same mask, bit for bit.
    """
    vocab = grammar.vocab
    seen = {} if seen is None else seen
    spellable = vocab.byte_tokens | vocab.absent_bytes == expr.ALL_BYTES  # else a needed byte may lie in longer tokens only
    stack = [grammar.matcher()]
    compared = 0
    for _ in range(steps):
        matcher = stack[-1]
        prefix = vocab.decode(matcher.tokens)
        bits = mask_bits(matcher)
        allowed = members(bits)
        if matcher.is_terminated():
            assert allowed == set(vocab.eos_token_ids) and matcher.is_accepting()
        else:
            if matcher.tokens not in seen:
                expected = naive_mask(naive, vocab, prefix)
                assert allowed == expected, describe(vocab, prefix, allowed, expected)
                compared += 1
            assert matcher.is_accepting() == naive.accepts(prefix), prefix
            assert allowed or not spellable, f"dead end after {prefix!r}"
        assert seen.setdefault(matcher.tokens, bits) == bits, f"another mask after {prefix!r}"
        action = rng.random()
        tokens = matcher.tokens
        if matcher.is_terminated() or action < 0.12:
            n = rng.randint(min(1, len(tokens)), len(tokens))
            matcher.rollback(n)
            assert matcher.tokens == tokens[: len(tokens) - n]
            again = tokens[len(tokens) - n :][: rng.randint(0, n)]
            if vocab.eos_token_ids[0] not in again:
                assert matcher.accept_tokens(again) == len(again)
        elif action < 0.2:
            stack.append(matcher.fork())
        elif action < 0.23 and len(stack) > 1:
            stack.pop()
        elif action < 0.25:
            matcher.reset()
        elif action < 0.35:
            refused = rng.randrange(vocab.size)
            assert matcher.accept_token(refused) == (refused in allowed)
        elif allowed:
            long = [t for t in allowed if len(vocab.tokens[t] or b"") > 1]
            ids = long if long and rng.random() < 0.6 else sorted(allowed)
            token = rng.choice(sorted(ids))
            assert matcher.validate_tokens([token]) == 1 and matcher.accept_token(token)
    return compared


def followed(matcher: cd.Matcher) -> set[int]:
    """The tokens that a matcher accepts, each tried by itself: what its mask should be."""
    return {token for token in range(matcher.grammar.vocab.size) if matcher.validate_tokens([token])}


def compare_masks(grammar: cd.Grammar, rng: random.Random, walks: int, steps: int) -> int:
    """Compare the masks along random walks with trying each token by itself. Returns how many were compared."""
    vocab, compared = grammar.vocab, 0
    for _ in range(walks):
        matcher = grammar.matcher()
        for _ in range(steps):
            allowed = mask(matcher)
            expected = followed(matcher)
            assert allowed == expected, describe(vocab, vocab.decode(matcher.tokens), allowed, expected)
            compared += 1
            choices = sorted(allowed - set(vocab.eos_token_ids))
            if not choices or not matcher.accept_token(rng.choice(choices)):
                break
    return compared


def describe(vocab: cd.Vocabulary, prefix: bytes, allowed: set[int], expected: set[int]) -> str:
    """The difference between two masks, readable."""
    extra = [vocab.tokens[t] or t for t in sorted(allowed - expected)][:8]
    lost = [vocab.tokens[t] or t for t in sorted(expected - allowed)][:8]
    return f"after {prefix!r}: allowed but should not be: {extra}; refused but should not be: {lost}"


EVERY_BYTE = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)])


def ids_of(*trees: Expr, arena: Arena | None = None, allowed: int = expr.ALL_BYTES) -> tuple[Arena, list[int]]:
    """Build the trees in a fresh arena, evaluated by one program."""
    arena = arena or Arena(EVERY_BYTE, Limits())
    program = Program(arena.limits, bytes(byte for byte in range(256) if allowed >> byte & 1))
    numbers = [program.add(tree) for tree in trees]
    evaluate(arena, program.code(), program.n_results, program.literal_tables())
    return arena, arena.tables[layout.VISIT_STAMPS][np.array(numbers)].tolist()


def status(arena: Arena, e: int) -> tuple[bool, bool]:
    """``(not empty, nullable)``."""
    bits = arena.call(kernels.OP_STATUS, e)
    return bool(bits & kernels.MATCHES_SOMETHING), bool(bits & kernels.MATCHES_EMPTY)
