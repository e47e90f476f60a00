"""Whether a request can be served: it compiles, and its first steps stay within the budgets.

For a process that validates requests which another process will serve, and that wants to refuse at once what would fail later.
Besides compiling, :func:`admit` takes a few steps from the beginning, as long as they take no more work than one step may; and,
for every part of a lexeme in which much may be at work at once (``&`` and ``~`` between large languages), a few steps of that
part alone, wherever in the grammar it stands. Work that only a longer text causes is not foreseen. It is bounded all the same,
step by step.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from cdplugin import expr
from cdplugin.bitmask import bitmask_words
from cdplugin.bits import bit_flags
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
"""How much text is followed, with a mask at each token: some three ordinary ones."""
_MOST_PARTS = 8
"""Parts of lexemes that are looked at, the first ones of a grammar."""


def admit(compiler: Compiler, spec: Spec) -> Grammar:
    """The grammar of a request that can be served.

    Raises the :class:`cdplugin.GrammarError` that compiling ``spec`` raises, or :class:`cdplugin.LimitExceeded` if its first
    steps cross a budget.

    Costs as much as compiling it and its first masks; and for what else is foreseen at most another compilation and two steps.
    The compiler does not keep the grammar.
    """
    with gc_paused():
        ir = spec.rules(compiler.limits)
        doubtful = doubtful_parts(ir)
        grammar = compiler.compile_ir(ir)
        del ir  # before the collector, which holds Python's lock, may look at it
        _walk(grammar, _TEXT_BYTES, compiler.limits.max_step_work)
        left = compiler.limits.max_step_work
        for part in doubtful:
            left -= _work_of(compiler, part)
            if left < 0:
                break
    return grammar


def _work_of(compiler: Compiler, part: Expr) -> int:
    """What a few steps of a part of a lexeme cost, in units of work. Raises :class:`cdplugin.LimitExceeded`."""
    ir = GrammarIR()
    ir.start = ir.nonterminal()
    ir.rule(ir.start, (ir.lexeme(part),))
    try:
        alone = compiler.compile_ir(ir)
    except LimitExceeded:
        raise
    except GrammarError:  # it matches nothing: one alternative of several
        return 0
    _walk(alone, _TEXT_BYTES, compiler.limits.max_step_work)
    return alone.counters()["work"]


def _walk(grammar: Grammar, text_bytes: int, most_work: int) -> None:
    """Make the first masks along a text of so many bytes, always the same one, while they take at most ``most_work``.

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


# ---- where much may be at work at once ---------------------------------------------------------------------------------------


def doubtful_parts(ir: GrammarIR) -> list[Expr]:
    """The first eight parts of lexemes of which it cannot be told by their look that each step is cheap. Linear in ``ir``.

    That are ``&`` and ``~``, but for the common one: any string but some names, an endless set without a finite one.
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
    """The conjunctions in JSON's integers, which keep to the range of doubles: every step of these is cheap."""
    lexemes = JsonSchema({"type": "integer"}).rules(Limits()).lexemes
    return tuple(node for lexeme in lexemes for node in walk(lexeme, _children) if node.op == expr.AND_OP)


def _all_but_some(node: Expr, finite: set[int]) -> Expr | None:
    """``R`` if a node is ``R & ~A & …`` with an endless repetition ``R`` and finite ``A``."""
    if node.op != expr.AND_OP:
        return None
    endless = [part for part in node.args if part.op != expr.NOT_OP]
    if len(endless) != 1 or endless[0].op != expr.REPEAT_OP or endless[0].args[2] is not None:
        return None
    excluded = [part.args[0] for part in node.args if part.op == expr.NOT_OP]
    return endless[0] if _are_finite(excluded, finite) else None


def _are_finite(nodes: list[Expr], known: set[int]) -> bool:
    """Whether nodes surely match finitely many texts. ``known``: ids of nodes that do; grows."""
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
    """The parts of a concatenation, an alternation or a repetition."""
    return () if node.op in (expr.AND_OP, expr.NOT_OP) else node.parts
