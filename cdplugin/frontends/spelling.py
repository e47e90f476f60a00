"""Fixed texts that may contain special tokens: ``<|python_tag|>{"name": …``.

Special tokens never match as text. A fixed text that names one may be written with it or with ordinary tokens. Which of the two
exists depends on the vocabulary, so both become alternatives, and the compiler drops the one that the vocabulary lacks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from cdplugin.errors import GrammarError
from cdplugin.expr import literal
from cdplugin.ir import GrammarIR, Symbol, TokenSet

_SPECIAL = re.compile(
    r"<[|｜][^<>\s]{1,60}[|｜]>|<[^<>\s\"'=｜]{1,60}>|\[/?[A-Z][A-Z_]{1,40}\]|｜[A-Z]{2,20}｜|\]<\]\w{2,20}\[>\["
)
"""The usual forms of special tokens' names."""


def utf8(text: str, message: str = "bad text") -> bytes:
    """The bytes of a text. Raises ``GrammarError`` for a lone surrogate, which has none."""
    try:
        return text.encode()
    except UnicodeEncodeError as problem:
        where = f"position {problem.start}"
        raise GrammarError(message, expected="Unicode text", found="a lone surrogate", location=where) from None


def token_set(tokens: Iterable[int | str], **options: Any) -> TokenSet:
    """Tokens by their ids and their texts. ``options``: those of :class:`TokenSet`."""
    listed = list(tokens)
    names = tuple(token for token in listed if isinstance(token, str))
    return TokenSet(names, tuple((token, token) for token in listed if isinstance(token, int)), **options)


def spell_out(ir: GrammarIR, text: str) -> list[Symbol]:
    """Symbols for ``text`` without special tokens: one lexeme, or none for the empty text."""
    return [ir.lexeme(literal(utf8(text)), repr(text))] if text else []


def spell(ir: GrammarIR, text: str) -> list[Symbol]:
    """Symbols for ``text``: a sequence of lexemes, with an alternative of text and token for each special token."""
    out: list[Symbol] = []
    for piece, is_token in pieces(text):
        lexeme = ir.lexeme(literal(utf8(piece)), repr(piece))
        if not is_token:
            out.append(lexeme)
            continue
        either = ir.nonterminal(piece)
        ir.rule(either, [lexeme])
        ir.rule(either, [ir.token(TokenSet(names=(piece,), optional=True), piece)])
        out.append(either)
    return out


def ways_with_token(ir: GrammarIR, text: str, within: int | None = None) -> list[tuple[str, list[Symbol]]]:
    """The ways to write ``text`` with a special token: what is spelled out before the first one, and symbols from there on.

    ``within``: the first token begins in that many characters. It is one of the first :data:`_MOST_SPELLED` names of ``text``.
    """
    out: list[tuple[str, list[Symbol]]] = []
    at = 0
    for piece, is_token in pieces(text):
        if (within is not None and at >= within) or len(out) == _MOST_SPELLED:
            break
        end = at + len(piece)
        if is_token:
            token = ir.token(TokenSet(names=(piece,), optional=True), piece)
            out.append((text[:at], [token, *spell(ir, text[end:])]))
        at = end
    return out


_MOST_SPELLED = 16


def pieces(text: str) -> list[tuple[str, bool]]:
    """``text`` cut into pieces, each with whether it has the form of a special token."""
    out: list[tuple[str, bool]] = []
    at = 0
    for match in _SPECIAL.finditer(text):
        if match.start() > at:
            out.append((text[at : match.start()], False))
        out.append((match.group(), True))
        at = match.end()
    if at < len(text):
        out.append((text[at:], False))
    return out
