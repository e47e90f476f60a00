"""Embedded grammars with ``max_tokens=``: which of them are one lexeme, or end by themselves.

A lexeme with ``max_tokens=n`` ends at the first end of a token, from the n-th on, at which it matches. So does a grammar whose
rules are regular, as one lexeme that matches the same texts. Where no text of a grammar is the beginning of another (a JSON
value that is no number), it ends wherever it matches in any case, and the bound asks for nothing more.
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
    """Whether ``start`` derives JSON values none of which is a number: no such text is the beginning of another."""
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
    """The texts of ``start`` as one expression; None: its rules are not seen to be regular, or too many.

    A rule is regular where it leads to itself at one end only (Arden's lemma). Lexemes must be read exactly, or be fixed texts
    none of which begins another, so that the longest match is the only one.
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
    """The nonterminals below ``start``, each with those that it mentions; None where something is no plain rule."""
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
    """The texts of literals, bytes, sequences of literals of which each is one text, and alternatives of such."""
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
