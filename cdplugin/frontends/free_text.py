"""Free text with triggers: nothing is constrained until one of some texts, or a special token, appears.

The first trigger to be complete counts; of several that are complete at once, the longest; an excluded text has precedence over
triggers (both as in xgrammar). One lexeme for "any text up to and including the first trigger" says so exactly, however the
text is tokenized::

    until(t)  =  (any text) t   &   ~( (any text) (some trigger) (at least one more byte) )

While such a lexeme runs, the parser does nothing, and there are only as many lexer states as the Aho-Corasick automaton of the
triggers has, so their masks are computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cdplugin import expr
from cdplugin.errors import LimitExceeded
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
    """Any text (of at most ``most_chars`` characters) followed by ``text``, where that is the first of ``stops`` to be
    complete.
    """
    words = list(dict.fromkeys(stops))
    plain = None if most_chars is None else up_to(words, [text])
    if plain is not None and most_chars is not None:  # next to such an expression the engine drops a bound that is far away
        return expr.both(expr.repeat(expr.ANY_CHAR, 0, most_chars + len(text)), plain)
    free = expr.ANY_TEXT if most_chars is None else expr.repeat(expr.ANY_CHAR, 0, most_chars)
    earlier = expr.cat(_ALL, expr.literals(utf8(word) for word in words), _BYTE, _ALL)
    return expr.both(expr.cat(free, expr.literal(utf8(text))), expr.complement(earlier))


def not_ending_with(expression: Expr, texts: Iterable[str]) -> Expr:
    """``expression`` without the texts that end with one of ``texts``; for no ``texts`` the expression itself."""
    ends = [utf8(text) for text in texts]
    return expr.both(expression, expr.complement(expr.cat(_ALL, expr.literals(ends)))) if ends else expression


def ends_before(text: str, stops: Sequence[str]) -> list[str] | None:
    """How free text without ``stops`` must not end so that ``text``, right after it, is the first of them to be complete.

    Used for free text whose tokens are counted, where :func:`until` does not apply. None where another stop is complete inside
    ``text``. Raises ``LimitExceeded`` where many of them overlap.

    >>> ends_before("aba", ["aba", "bb"]), ends_before("aa", ["aa"]), ends_before("abc", ["b", "abc"])
    (['ab'], ['a'], None)
    """
    left = most = _MOST_COMPARED // len(stops)
    tails: list[str] = []
    for word in stops:
        if -1 < text.find(word) < len(text) - len(word):
            return None
        if word.find(text[0], 1) < 0:  # no overlap: the common case
            continue
        left -= len(text) + len(word)
        if left < 0:
            expected = f"at most {most} characters to compare for each"
            raise LimitExceeded("triggers that begin within each other beside max_tokens are too many", expected=expected)
        # A word is complete earlier if its rest is a prefix of `text`. Longer rests come first, so that tails get longer.
        for length in _shared_lengths(word, text):
            cut = len(word) - length
            if not any(word.endswith(tail, 0, cut) for tail in tails):
                tails.append(word[:cut])
    return tails


_MOST_COMPARED = 400_000


def _shared_lengths(word: str, text: str) -> Iterator[int]:
    """Lengths, longest first, of proper suffixes of ``word`` that are proper prefixes of ``text`` (Knuth,
    Morris, Pratt 1977).
    """
    borders = [0] * len(text)
    for i in range(1, len(text)):
        k = borders[i - 1]
        while k and text[i] != text[k]:
            k = borders[k - 1]
        borders[i] = k + (text[i] == text[k])
    k = 0
    for char in word[1:]:
        while k and (k == len(text) or char != text[k]):
            k = borders[k - 1]
        k += char == text[k]
    if k == len(text):
        k = borders[k - 1]
    while k:
        yield k
        k = borders[k - 1]


def dispatch_text(
    ir: GrammarIR,
    tags: Sequence[tuple[str, Sequence[Symbol]]],
    *,
    excludes: Sequence[str] = (),
    loop: bool = True,
    by_token: Sequence[tuple[str, Sequence[Symbol]]] = (),
) -> Symbol:
    """A nonterminal: free text, a trigger, what follows it, with ``loop`` repeated. The text may also end in free text.

    ``tags``: triggers, each with the symbols that follow it; equal triggers are alternatives. ``excludes``: texts that the free
    text must not hold. ``by_token``: triggers written with a special token: the text before the token, and symbols from the
    token on. That text is the end of free text that holds no trigger.
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
            untils[trigger] = ir.lexeme(not_ending_with(until(trigger, stops), stronger), f"text up to {trigger!r}")
        ir.rule(start, [untils[trigger], *follow, *([start] if loop else ())])
    for before, follow in by_token:
        ahead = free
        if before:
            text = expr.both(without(stops), expr.cat(_ALL, expr.literal(utf8(before))))
            ahead = ir.lexeme(text, f"text up to {before!r}")
        ir.rule(start, [ahead, *follow, *([start] if loop else ())])
    ir.rule(start, [free])
    return start


def dispatch_tokens(
    ir: GrammarIR, tags: Sequence[tuple[TokenSet, Sequence[Symbol]]], free: TokenSet, *, loop: bool = True
) -> Symbol:
    """Any tokens of ``free``, a trigger token, what follows it, and with ``loop`` so on, or the end. Returns a nonterminal."""
    start = ir.nonterminal("free tokens")
    ir.rule(start, [ir.token(free, "free token"), start])
    for trigger, follow in tags:
        ir.rule(start, [ir.token(trigger, "trigger"), *follow, *([start] if loop else ())])
    ir.rule(start, [])
    return start
