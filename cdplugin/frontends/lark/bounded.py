"""Embedded grammars with ``max_tokens=``: find those that can be one lexeme, or that end by themselves.

A lexeme with ``max_tokens=n`` ends at the first token boundary, from the n-th token on, at which it matches. A grammar whose
rules are regular is written as one such lexeme. A grammar none of whose texts is a proper prefix of another (JSON values other
than numbers) ends wherever it matches anyway, so the bound adds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from cdplugin.bits import members
from cdplugin.expr import ALT_OP, BYTES_OP, CAT_OP, LITERALS_OP, Expr, byte_class, nullable
from cdplugin.frontends.lark.byte_sets import Bytes
from cdplugin.frontends.regular import Regular, leaves_first, solution
from cdplugin.ir import EXACT, LONGEST, GrammarIR, Symbol

_MOST_RULES = 10_000
_MOST_TEXTS = 1_000
_NUMBER = byte_class(b"-0123456789").args[0]

Rights = Mapping[Symbol, Sequence[Sequence[Symbol]]]


def is_self_delimiting(ir: GrammarIR, rights: Rights, start: Symbol) -> bool:
    """Whether ``start`` derives JSON values, but no numbers: then no text is a proper prefix of another."""
    while start not in ir.json_values:
        only = rights.get(start, ())
        if len(only) != 1 or len(only[0]) != 1 or only[0][0] < 0:
            return False
        start = only[0][0]
    firsts = Bytes(generous=True)
    seen, stack = {start}, [start]
    while stack:
        symbol = stack.pop()
        if symbol in ir.instances or len(seen) > _MOST_RULES:
            return False
        for right in rights.get(symbol, ()):
            if not right:
                return False
            first = right[0]
            if first >= 0:
                stack += [first] if first not in seen else []
                seen.add(first)
            elif nullable(ir.lexemes[~first], {}) or firsts.first(ir.lexemes[~first]) & _NUMBER:
                return False
    return True


def folded(ir: GrammarIR, rights: Rights, start: Symbol) -> Expr | None:
    """The texts of ``start`` as one expression; None if its rules are too many or not visibly regular.

    A rule counts as regular if it refers to itself at one end only (Arden's lemma). Lexemes must be EXACT, or be fixed texts
    none of which is a prefix of another, so that longest match makes no difference.
    """
    mentioned = _reached(ir, rights, start)
    if mentioned is None:
        return None
    if not _lexemes_are_exact(ir, {part for symbol in mentioned for right in rights[symbol] for part in right if part < 0}):
        return None
    done: dict[Symbol, Regular] = {}

    def solve(symbol: Symbol) -> bool:
        found = solution(rights[symbol], symbol.__eq__, lambda part: Regular(ir.lexemes[~part], 1) if part < 0 else done[part])
        if found is not None:
            done[symbol] = found
        return found is not None

    leaves_first(mentioned, solve)
    return done[start].expr if start in done else None


def _reached(ir: GrammarIR, rights: Rights, start: Symbol) -> dict[Symbol, set[Symbol]] | None:
    """The nonterminals reachable from ``start``, each with those that it mentions; None if one has no plain rules."""
    out: dict[Symbol, set[Symbol]] = {}
    stack = [start]
    while stack:
        symbol = stack.pop()
        if symbol in out:
            continue
        if symbol not in rights or symbol in ir.captures or symbol in ir.stops or len(out) >= _MOST_RULES:
            return None
        out[symbol] = {part for right in rights[symbol] for part in right if part >= 0}
        stack += out[symbol]
    return out


def _lexemes_are_exact(ir: GrammarIR, lexemes: set[Symbol]) -> bool:
    if any(s in ir.skips or s in ir.token_sets or s in ir.tracked or s in ir.max_tokens for s in lexemes):
        return False
    if all(ir.lexings[~s] == EXACT for s in lexemes):
        return True
    if not all(ir.lexings[~s] == LONGEST for s in lexemes):
        return False
    texts: list[bytes] = []
    for symbol in lexemes:
        some = _texts(ir.lexemes[~symbol])
        if some is None or b"" in some or len(texts) + len(some) > _MOST_TEXTS:
            return False
        texts += some
    texts.sort()
    return not any(longer.startswith(text) for text, longer in pairwise(texts) if text != longer)


def _texts(expression: Expr) -> Sequence[bytes] | None:
    """The texts of literals, single bytes, concatenations of single literals, and alternations of these; None for others."""
    if expression.op == ALT_OP:
        some = [texts for part in expression.args if (texts := _texts(part)) is not None]
        return [text for texts in some for text in texts] if len(some) == len(expression.args) else None
    if expression.op == LITERALS_OP:
        return expression.args
    if expression.op == BYTES_OP:
        return [bytes([b]) for b in members(expression.args[0])]
    if expression.op == CAT_OP and all(part.op == LITERALS_OP and len(part.args) == 1 for part in expression.args):
        return [b"".join(part.args[0] for part in expression.args)]
    return None
