"""Explanations for people: what a place expects next, and why a token is refused."""

from __future__ import annotations

import re
from collections.abc import Collection

from cdplugin.engine.arena import Arena
from cdplugin.engine.expander import StaticTables
from cdplugin.expr import merge_ranges
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.entry import TERMINATED
from cdplugin.kernels.parser import layout as parser_layout
from cdplugin.kernels.store import layout
from cdplugin.queries.captures import Rules
from cdplugin.vocab.vocabulary import Vocabulary

_MOST_NAMES = 8
_MOST_RULES = 3


def explain_token(arena: Arena, tables: StaticTables, cursor: int, token_id: int, stop_token_ids: Collection[int]) -> str:
    """Compute :meth:`cdplugin.Matcher.explain`. The caller holds the arena's lock."""
    vocab = arena.vocab
    if cursor == TERMINATED:
        return f"token {token_id} comes after the end of the text"
    if token_id in stop_token_ids and arena.call(kernels.OP_ACCEPTS, cursor):
        return f"token {token_id} ends the text and is allowed here"
    if arena.header[layout.HAS_TERMINALS] and arena.call(kernels.OP_ACCEPT, cursor, token_id, 0):
        return f"token {token_id}{_named(vocab, token_id)} is allowed"
    if token_id in stop_token_ids:
        return f"token {token_id} would end the text, which is not complete: expected {expected(arena, tables, cursor)}"
    text = vocab.tokens[token_id]
    if text is None:
        if token_id not in vocab.special_tokens.values():
            return f"token {token_id} is no token of the vocabulary: it never matches as text"
        if not arena.header[layout.HAS_TERMINALS]:
            return f"token {token_id} is a special token: it never matches as text"
        what = f"token {token_id}{_named(vocab, token_id)} is a special token"
        return f"{what}, which the grammar does not name here: expected {expected(arena, tables, cursor)}"
    if not text:
        return f"token {token_id} is empty: it would make no progress"
    for i, byte in enumerate(text):
        after = arena.call(kernels.OP_STEP, cursor, byte)
        if after == 0:
            ended = _ended(arena, tables, cursor)
            before = f", before which {_several(ended)} may end" if ended else ""
            where = f"byte {i} of token {token_id} ({show(text)}), {show(text[i : i + 1])}{before}"
            return f"not allowed: {where}: expected {expected(arena, tables, cursor)}"
        cursor = after
    return f"token {token_id} ({show(text)}) is allowed"


def refused_byte(reason: str) -> int:
    """Return the byte of the token that :func:`explain_token` says is not allowed; 0 if it names none."""
    found = re.match(r"not allowed: byte (\d+) of token", reason)
    return int(found[1]) if found else 0


def expected(arena: Arena, tables: StaticTables, cursor: int) -> str:
    """Return what may come at a cursor: bytes, with their lexemes and rules; named tokens; the end. The caller holds the
    arena's lock.
    """
    if cursor == TERMINATED:
        return "nothing: the text has ended"
    allowed = [byte for byte in range(256) if arena.call(kernels.OP_STEP, cursor, byte)]
    parts = []
    places = [*arena.pairs(cursor), *after_longest(arena, cursor)]
    if allowed:
        names = _several(lexeme_names(arena, tables, cursor))
        rules = rule_names(arena, tables, places)
        parts.append(f"one of {show_bytes(allowed)} (in {names}{f'; rule {rules}' if rules else ''})")
    tokens = _terminals(arena, places)
    if tokens:
        parts.append(f"the token {tokens}")
    if arena.call(kernels.OP_ACCEPTS, cursor):
        parts.append("the end of the text")
    return " or ".join(parts) or "nothing"


def _named(vocab: Vocabulary, token_id: int) -> str:
    name = vocab.names.get(token_id)
    return f" ({name})" if name else ""


def _several(names: list[str]) -> str:
    """Return some of the names, and how many more there are."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


# --- places: (row, lexer state) ---------------------------------------------------------------------------------------------


def after_longest(arena: Arena, cursor: int) -> list[tuple[int, int]]:
    """Return the pairs (row, lexer state) right after the LONGEST lexemes that match at a cursor."""
    out = []
    for row, state in arena.pairs(cursor):
        for lexeme in arena.longest(state):
            after = arena.call(kernels.OP_SCAN, row, lexeme)
            starts = (arena.of_row(after, parser_layout.R_START), arena.of_row(after, parser_layout.R_LONGEST))
            out += [(after, start) for start in starts if start]
    return out


def _words(arena: Arena, state: int) -> list[int]:
    """Return the numbers of the lexemes that are open in a state."""
    return [word >> 32 for word in arena.open_words(state)]


def rule_name(arena: Arena, tables: StaticTables, nonterminal: int) -> str:
    """Return the name of a nonterminal, also of a late one."""
    names = tables.rules.names
    return names[nonterminal] if arena.expand is None or nonterminal < len(names) else arena.expand.name(nonterminal)


def lexeme_name(arena: Arena, tables: StaticTables, lexeme: int) -> str:
    names = tables.lexemes.names
    if lexeme >= len(names):  # made while a text was followed
        lexeme = arena.of_lexeme(lexeme, layout.X_TRACKED)
    return names[lexeme]


def _ended(arena: Arena, tables: StaticTables, cursor: int) -> list[str]:
    """Return the names of the LONGEST lexemes that match at a cursor, without skips."""
    names: dict[str, None] = {}
    for _, state in arena.pairs(cursor):
        for lexeme in arena.longest(state):
            if not arena.of_lexeme(lexeme, layout.X_IS_SKIP):
                names[lexeme_name(arena, tables, lexeme)] = None
    return list(names)


def lexeme_names(arena: Arena, tables: StaticTables, cursor: int) -> list[str]:
    """Return the names of the lexemes that are open at a cursor, and of those that may begin there once LONGEST ones have
    ended.
    """
    names: dict[str, None] = {}
    for _, state in [*arena.pairs(cursor), *after_longest(arena, cursor)]:
        for lexeme in _words(arena, state):
            if not arena.of_lexeme(lexeme, layout.X_N_RANGES):
                names[lexeme_name(arena, tables, lexeme)] = None
    return list(names)


def _terminals(arena: Arena, places: list[tuple[int, int]]) -> str:
    """Return the tokens that the grammar names at some place, by name or id; empty if there are none."""
    if not arena.header[layout.HAS_TERMINALS]:
        return ""
    ranges = arena.tables[layout.TOKEN_RANGES]
    names = arena.vocab.names
    found: dict[str, None] = {}
    for _, state in places:
        for lexeme in _words(arena, state):
            first = arena.of_lexeme(lexeme, layout.X_RANGES)
            for i in range(first, first + arena.of_lexeme(lexeme, layout.X_N_RANGES)):
                low, high = int(ranges[2 * i]), int(ranges[2 * i + 1])
                found[names.get(low, str(low)) if low == high else f"{low} to {high}"] = None
    return _several(list(found))


def open_lexemes(arena: Arena, rules: Rules, row: int, state: int) -> tuple[list[int], list[tuple[int, list[int]]]]:
    """Return the dots of a row's items, also those past nullable symbols; and the open lexemes of a state, each with the dots
    before it.

    These dots are among the first ones and those that they predict.
    """
    dots: list[int] = []
    for item in arena.items(row):
        dot = item >> 32
        dots.append(dot)
        while rules.symbols[dot] >= 0 and rules.nullable[rules.symbols[dot]]:
            dot += 1
            dots.append(dot)
    predicted = rules.closure(frozenset(rules.symbols[dot] for dot in dots if rules.symbols[dot] >= 0)).dots
    found = []
    for lexeme in _words(arena, state):
        symbol = -2 - arena.of_lexeme(lexeme, layout.X_SYMBOL)
        found.append((lexeme, [*(dot for dot in dots if rules.symbols[dot] == symbol), *predicted.get(symbol, ())]))
    return dots, found


def rule_names(arena: Arena, tables: StaticTables, places: list[tuple[int, int]]) -> str:
    """Return the names of the rules that the lexemes at some places are in; if these have no names, of the rules
    around them.
    """
    rules = Rules(arena)
    static = tables.rules
    names: dict[str, None] = {}
    for row, state in places:
        found: dict[str, None] = {}
        for _, dots in open_lexemes(arena, rules, row, state)[1]:
            for left in (rules.lefts[dot] for dot in dots):
                found[rule_name(arena, tables, left)] = None
        found.pop("", None)
        around = (rules.lefts[item >> 32] for item in arena.items(row))
        names.update(found or {static.names[left]: None for left in around if left < len(static.names)})
    names.pop("", None)
    return ", ".join(f"`{name}`" for name in list(names)[:_MOST_RULES])


def show(text: bytes) -> str:
    """Return bytes for a person: quoted text, with bytes that are no text as ``\\xNN``."""
    return re.sub(r"(?<!\\)\\udc", r"\\x", repr(text.decode("utf-8", "surrogateescape")))


def show_bytes(members: list[int]) -> str:
    """Return a set of bytes as ranges, such as ``'0'-'9', ','``."""
    parts = []
    for low, high in merge_ranges((byte, byte) for byte in members):
        first, last = show(bytes([low])), show(bytes([high]))
        parts.append(first if low == high else f"{first}, {last}" if high == low + 1 else f"{first}-{last}")
    return ", ".join(parts)
