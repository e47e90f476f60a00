"""Decide whether a request can be served: it must compile, and its first steps must stay within the budgets.

A process that validates requests for another one (vLLM's front end, a server's door) calls :func:`admit`, so that what would
fail later is refused at once. :func:`admit` compiles the spec and then samples its cost twice:

- it walks a few tokens from the beginning of the grammar, with a mask at each, until one step's work is spent;
- it compiles each doubtful part of a lexeme (``&`` and ``~`` between large languages) as a grammar of its own, wherever that
  part stands, and walks a few tokens of it.

Work that only a longer text causes is not foreseen; the budget of each step still bounds it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from cdplugin import expr
from cdplugin.bits import bit_flags, bitmask_words
from cdplugin.collector import gc_paused
from cdplugin.compiler import Compiler
from cdplugin.errors import GrammarError, LimitExceeded
from cdplugin.expr import Expr
from cdplugin.ir import GrammarIR
from cdplugin.limits import Limits
from cdplugin.matcher import Grammar
from cdplugin.specs.base import JsonSchema, Spec
from cdplugin.walks import walk

_TEXT_BYTES = 16
"""Bytes of text that a walk follows, with a mask at each token: about three ordinary tokens."""
_MOST_PARTS = 8
"""Doubtful parts of lexemes that are tried, the first ones of a grammar."""


def admit(compiler: Compiler, spec: Spec) -> Grammar:
    """Compile ``spec`` and try its first steps; returns the grammar, which the compiler does not cache.

    Raises the :class:`cdplugin.GrammarError` that compiling ``spec`` raises, or :class:`cdplugin.LimitExceeded` if its first
    steps cross a budget. Costs a compilation and the first masks; doubtful parts cost at most one more compilation and two
    steps.
    """
    with gc_paused():
        ir = spec.rules(compiler.limits)
        doubtful = doubtful_parts(ir)
        grammar = compiler.compile_ir(ir)
        del ir  # free it now: otherwise the collector would traverse it, holding the GIL
        _walk(grammar, _TEXT_BYTES, compiler.limits.max_step_work)
        left = compiler.limits.max_step_work
        for part in doubtful:
            left -= _work_of(compiler, part)
            if left < 0:
                break
    return grammar


def _work_of(compiler: Compiler, part: Expr) -> int:
    """Units of work that a few steps of one part of a lexeme take. Raises :class:`cdplugin.LimitExceeded`."""
    ir = GrammarIR()
    ir.start = ir.nonterminal()
    ir.rule(ir.start, (ir.lexeme(part),))
    try:
        alone = compiler.compile_ir(ir)
    except LimitExceeded:
        raise
    except GrammarError:  # the part matches nothing; the lexeme may have other alternatives
        return 0
    _walk(alone, _TEXT_BYTES, compiler.limits.max_step_work)
    return alone.counters()["work"]


def _walk(grammar: Grammar, text_bytes: int, most_work: int) -> None:
    """Fill masks along a pseudo-random text of ``text_bytes`` bytes, always the same, until ``most_work`` is spent.

    Raises :class:`cdplugin.LimitExceeded`.
    """
    rng = random.Random(0)
    matcher = grammar.matcher()
    stops = list(matcher.stop_token_ids)
    row = np.zeros((1, bitmask_words(grammar.vocab.size)), np.int32)
    while True:
        matcher.fill_next_token_bitmask(row)
        bits = bit_flags(row[0])
        bits[stops] = 0
        allowed = np.flatnonzero(bits)
        if text_bytes <= 0 or not len(allowed) or grammar.counters()["work"] > most_work:
            return
        token = int(allowed[rng.randrange(len(allowed))])
        matcher.accept_token(token)
        text_bytes -= len(grammar.vocab.tokens[token] or b"x")


# ---- which parts of lexemes may be expensive to step -------------------------------------------------------------------------


def doubtful_parts(ir: GrammarIR) -> list[Expr]:
    """The first eight parts of lexemes whose shape does not show that each of their steps is cheap. Linear in ``ir``.

    These are intersections and complements, except the common harmless one: an unbounded repetition without some finite
    language (any string but some names).
    """
    seen: set[int] = set()
    finite: set[int] = set()
    found: list[Expr] = []
    waiting = [e for number, e in enumerate(ir.lexemes) if ~number not in ir.token_sets][::-1]
    while waiting and len(found) < _MOST_PARTS:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        endless = _all_but_some(node, finite)
        if endless is not None:
            waiting.append(endless)
        elif node.op in (expr.AND_OP, expr.NOT_OP):
            if node not in _of_integers():
                found.append(node)
        else:
            waiting += _children(node)
    return found


@lru_cache(maxsize=1)
def _of_integers() -> tuple[Expr, ...]:
    """The conjunctions in the lexeme of JSON integers, which keep to the range of doubles: each of their steps is cheap."""
    lexemes = JsonSchema({"type": "integer"}).rules(Limits()).lexemes
    return tuple(node for lexeme in lexemes for node in walk(lexeme, _children) if node.op == expr.AND_OP)


def _all_but_some(node: Expr, finite: set[int]) -> Expr | None:
    """``R`` if the node is ``R & ~A & …`` with an unbounded repetition ``R`` and finite languages ``A``, else None."""
    if node.op != expr.AND_OP:
        return None
    endless = [part for part in node.args if part.op != expr.NOT_OP]
    if len(endless) != 1 or endless[0].op != expr.REPEAT_OP or endless[0].args[2] is not None:
        return None
    excluded = [part.args[0] for part in node.args if part.op == expr.NOT_OP]
    return endless[0] if _are_finite(excluded, finite) else None


def _are_finite(nodes: list[Expr], known: set[int]) -> bool:
    """Whether nodes certainly match finitely many texts. ``known``: ids of nodes that do; it grows."""
    seen: set[int] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if id(node) not in known and id(node) not in seen:
            seen.add(id(node))
            if node.op in (expr.AND_OP, expr.NOT_OP) or (node.op == expr.REPEAT_OP and node.args[2] is None):
                return False
            waiting += _children(node)
    known |= seen
    return True


def _children(node: Expr) -> Sequence[Expr]:
    """The parts of a concatenation, an alternation or a repetition; none of ``&`` and ``~``."""
    return () if node.op in (expr.AND_OP, expr.NOT_OP) else node.parts
