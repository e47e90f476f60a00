"""The front end of the two simplest specs: a regular expression, and a choice of literal strings."""

from __future__ import annotations

from collections.abc import Sequence

from cdplugin.errors import GrammarError, shown
from cdplugin.expr import EMPTY, Expr, literals
from cdplugin.ir import GrammarIR
from cdplugin.limits import DEFAULT_LIMITS, Limits, check_length
from cdplugin.regex.alphabet import UTF8
from cdplugin.regex.pattern import parse
from cdplugin.regex.syntax import DIALECTS


def compile_regex(
    pattern: str, limits: Limits = DEFAULT_LIMITS, dialect: str = "rust", ir: GrammarIR | None = None
) -> GrammarIR:
    """One lexeme: the texts that ``pattern`` matches from end to end. Raises ``GrammarError``, also where nothing matches."""
    if not isinstance(pattern, str):
        raise GrammarError("wrong type of regular expression", expected="str", found=type(pattern).__name__)
    if dialect not in DIALECTS:
        raise GrammarError(
            "unknown dialect of regular expressions", expected=f"one of {', '.join(DIALECTS)}", found=shown(dialect)
        )
    ir = ir or GrammarIR()
    ir.count_text(len(pattern), limits)
    expression = parse(pattern, dialect, limits=limits).match_expr(UTF8)
    if expression is EMPTY:
        raise GrammarError("the regular expression matches nothing", found=shown(pattern[:60]))
    return _single(expression, "regex", ir)


def compile_choice(choices: Sequence[str], limits: Limits = DEFAULT_LIMITS, ir: GrammarIR | None = None) -> GrammarIR:
    """One lexeme: exactly one of ``choices``, as a set of literals. Duplicates count once. Linear in the total length.

    Raises ``GrammarError`` for an empty list, and for an item that is not a string or holds a lone surrogate, with its index.
    """
    if isinstance(choices, (str, bytes)) or not isinstance(choices, Sequence):
        raise GrammarError("bad choice", expected="a list of strings", found=type(choices).__name__)
    if not choices:
        raise GrammarError("bad choice", expected="at least one string", found="an empty list")
    ir = ir or GrammarIR()
    texts, size = [], 0
    for i, choice in enumerate(choices):
        if not isinstance(choice, str):
            raise GrammarError("bad choice", expected="a string", found=type(choice).__name__, location=f"index {i}")
        try:
            texts.append(choice.encode())
        except UnicodeEncodeError as error:
            found = f"a lone surrogate at position {error.start}"
            raise GrammarError("bad choice", expected="Unicode text", found=found, location=f"index {i}") from None
        size += len(texts[-1])
        check_length("the list of choices", size, limits, f"index {i}")
    ir.count_text(size, limits)
    return _single(literals(texts), "choice", ir)


def _single(expression: Expr, name: str, ir: GrammarIR) -> GrammarIR:
    """Complete a grammar whose start symbol derives one lexeme."""
    ir.start = ir.nonterminal("start")
    ir.rule(ir.start, [ir.lexeme(expression, name)])
    return ir
