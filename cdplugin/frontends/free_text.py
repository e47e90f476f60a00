"""Free text that watches for triggers: nothing is constrained until one of some texts, or tokens, has appeared.

The first trigger to be complete counts; of several that are complete at once, the longest, and what is excluded comes before
triggers (both as in xgrammar). A lexeme for "any text up to and including the first trigger" says so exactly, and
however tokens cut it::

    until(t)  =  any text, t    and not    any text, some trigger, at least one more byte

While such a lexeme runs, the parser has nothing to do, and there are as many lexer states as the Aho-Corasick automaton of the
triggers has: their masks are computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cdplugin import expr
from cdplugin.expr import Expr
from cdplugin.frontends.keywords import up_to
from cdplugin.frontends.spelling import utf8
from cdplugin.ir import GrammarIR, Symbol, TokenSet

_ALL = expr.complement(expr.EMPTY)
_BYTE = expr.byte_mask(expr.ALL_BYTES)


def without(texts: Iterable[str], most_chars: int | None = None) -> Expr:
    """Any text (of at most ``most_chars`` characters) that holds none of ``texts``."""
    words = list(dict.fromkeys(texts))
    free = expr.ANY_TEXT if most_chars is None else expr.repeat(expr.ANY_CHAR, 0, most_chars)
    if not words:
        return free
    plain = None if most_chars is None else up_to(words, None)
    if plain is not None:
        return expr.both(free, plain)
    return expr.both(free, expr.complement(expr.cat(_ALL, expr.literals(utf8(word) for word in words), _ALL)))


def until(text: str, stops: Iterable[str], most_chars: int | None = None) -> Expr:
    """Any text (of at most ``most_chars`` characters) and ``text``, where that is the first of ``stops`` to be complete."""
    words = list(dict.fromkeys(stops))
    plain = None if most_chars is None else up_to(words, [text])
    if plain is not None and most_chars is not None:  # the engine drops a bound that is far away from such an expression
        return expr.both(expr.repeat(expr.ANY_CHAR, 0, most_chars + len(text)), plain)
    free = expr.ANY_TEXT if most_chars is None else expr.repeat(expr.ANY_CHAR, 0, most_chars)
    earlier = expr.cat(_ALL, expr.literals(utf8(word) for word in words), _BYTE, _ALL)
    return expr.both(expr.cat(free, expr.literal(utf8(text))), expr.complement(earlier))


def dispatch_text(
    ir: GrammarIR,
    tags: Sequence[tuple[str, Sequence[Symbol]]],
    *,
    excludes: Sequence[str] = (),
    loop: bool = True,
    by_token: Sequence[Sequence[Symbol]] = (),
) -> Symbol:
    """Free text, a trigger, what follows it, and (``loop``) so on; free text may be the last. Returns a nonterminal.

    ``tags``: triggers, each with the symbols that follow it; equal triggers are alternatives. ``excludes``: what the free text
    must not hold. ``by_token``: what may come after free text that holds no trigger, since a special token (which is no text)
    takes the trigger's place.
    """
    triggers = dict.fromkeys(trigger for trigger, _ in tags)
    stops = list(dict.fromkeys([*triggers, *excludes]))
    start = ir.nonterminal("free text")
    free = ir.lexeme(without(stops), "free text")
    untils: dict[str, Symbol] = {}
    for trigger, follow in tags:
        if any(trigger.endswith(text) for text in excludes):
            continue
        if trigger not in untils:
            stronger = [text for text in (*triggers, *excludes) if text != trigger and text.endswith(trigger)]
            upto = until(trigger, stops)
            if stronger:
                upto = expr.both(upto, expr.complement(expr.cat(_ALL, expr.literals(utf8(text) for text in stronger))))
            untils[trigger] = ir.lexeme(upto, f"text up to {trigger!r}")
        ir.rule(start, [untils[trigger], *follow, *([start] if loop else ())])
    for follow in by_token:
        ir.rule(start, [free, *follow, *([start] if loop else ())])
    ir.rule(start, [free])
    return start


def dispatch_tokens(
    ir: GrammarIR, tags: Sequence[tuple[TokenSet, Sequence[Symbol]]], free: TokenSet, *, loop: bool = True
) -> Symbol:
    """Any tokens of ``free``, a trigger token, what follows it, and (``loop``) so on, or the end. Returns a nonterminal."""
    start = ir.nonterminal("free tokens")
    ir.rule(start, [ir.token(free, "free token"), start])
    for trigger, follow in tags:
        ir.rule(start, [ir.token(trigger, "trigger"), *follow, *([start] if loop else ())])
    ir.rule(start, [])
    return start
