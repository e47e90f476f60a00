"""Readable answers: what a state expects next, and why a token is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdplugin.arena import Arena
from cdplugin.kernels import arena as layout
from cdplugin.kernels import engine as kernels
from cdplugin.kernels.engine import TERMINATED
from cdplugin.kernels.lexer import L_VALUE, LEXER_WORDS, STATE_MASK
from cdplugin.kernels.states import ACCEPT_MARK

if TYPE_CHECKING:
    from cdplugin.matcher import Matcher

_MOST_NAMES = 8


def explain_token(matcher: Matcher, arena: Arena, cursor: int, token_id: int) -> str:
    """The answer of :meth:`cdplugin.Matcher.explain`; the caller holds the arena's lock."""
    vocab = matcher.grammar.vocab
    if cursor == TERMINATED:
        return f"token {token_id} comes after the end of the text"
    if token_id in matcher.stop_token_ids:
        if arena.call(kernels.OP_ACCEPTS, cursor):
            return f"token {token_id} ends the text and is allowed here"
        return f"token {token_id} would end the text, which is not complete: expected {expected(matcher, arena, cursor)}"
    text = vocab.tokens[token_id]
    if text is None:
        kind = "a special token" if token_id in vocab.special_tokens.values() else "no token of the vocabulary"
        return f"token {token_id} is {kind}: it never matches as text"
    if not text:
        return f"token {token_id} is empty: it would make no progress"
    for i, byte in enumerate(text):
        after = arena.call(kernels.OP_STEP, cursor, byte)
        if after == 0:
            where = f"byte {i} of token {token_id} ({show(text)}), {show(text[i : i + 1])}"
            return f"not allowed: {where}: expected {expected(matcher, arena, cursor)}"
        cursor = after
    return f"token {token_id} ({show(text)}) is allowed"


def expected(matcher: Matcher, arena: Arena, cursor: int) -> str:
    """What may come at a cursor: the next bytes, and the lexemes that they belong to. The caller holds the arena's lock."""
    if cursor == TERMINATED:
        return "nothing: the text has ended"
    allowed = [byte for byte in range(256) if arena.call(kernels.OP_STEP, cursor, byte)]
    parts = []
    if allowed:
        names = lexeme_names(matcher, arena, cursor)
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        parts.append(f"one of {show_bytes(allowed)} (in {', '.join(names[:_MOST_NAMES])}{more})")
    if arena.call(kernels.OP_ACCEPTS, cursor):
        parts.append("the end of the text")
    return " or ".join(parts) or "nothing"


def lexeme_names(matcher: Matcher, arena: Arena, cursor: int) -> list[str]:
    """Names of the lexemes that are open at a cursor."""
    if cursor >> 32:
        states = [cursor & STATE_MASK]
    else:
        states = [pair & layout.LOW_32 for pair in arena.sequence(cursor) if pair != ACCEPT_MARK]
    names: dict[str, None] = {}
    for state in states:
        if state:
            value = int(arena.tables[layout.LEXER_STATES][state * LEXER_WORDS + L_VALUE])
            for word in arena.sequence(value):
                names[matcher.grammar._tables.lexemes.names[word >> 32]] = None
    return list(names)


def show(text: bytes) -> str:
    """Bytes for a person: quoted text, bytes that are no text as ``\\xNN``."""
    return repr(text.decode("utf-8", "backslashreplace"))


def show_bytes(members: list[int]) -> str:
    """A set of bytes as ranges, such as ``'0'-'9', ','``."""
    parts = []
    i = 0
    while i < len(members):
        j = i
        while j + 1 < len(members) and members[j + 1] == members[j] + 1:
            j += 1
        first, last = show(bytes([members[i]])), show(bytes([members[j]]))
        parts.append(first if i == j else f"{first}, {last}" if j == i + 1 else f"{first}-{last}")
        i = j + 1
    return ", ".join(parts)
