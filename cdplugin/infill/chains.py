"""Tables of the rules for the facts of a check: chains of unit rules, and which lexemes the rest of a rule may begin with.

Used by :mod:`cdplugin.kernels.infill.chains` and :mod:`cdplugin.kernels.infill.asked`.
"""

from __future__ import annotations

import numpy as np

Chains = tuple[np.ndarray, np.ndarray, np.ndarray]


def near_first(symbols: np.ndarray, nullable: list[int]) -> np.ndarray:
    """``NEAR_FIRST``: per dot, 1 if all symbols before it in its rule may be empty."""
    found, near = [], True
    for symbol in symbols.tolist():
        found.append(int(near))
        near = symbol == -1 or (near and symbol >= 0 and bool(nullable[symbol]))
    return np.array(found, np.int64)


def next_of(symbols: np.ndarray, turns: np.ndarray, nullable: list[int], begins: list[int], n_lexemes: int) -> np.ndarray:
    """``NEXT_OF``: per lexeme, the dots behind whose symbol the rest of the rule may begin with it, as sets by turn.

    ``begins``: per nonterminal, the lexemes that it may begin with, as bits.
    """
    rest = [0] * (len(symbols) + 1)  # per dot: the lexemes that the rest of the rule may begin with
    listed = symbols.tolist()
    for dot in range(len(listed) - 1, -1, -1):
        symbol = listed[dot]
        if symbol >= 0:
            rest[dot] = begins[symbol] | (rest[dot + 1] if nullable[symbol] else 0)
        elif symbol < -1:
            rest[dot] = 1 << (-2 - symbol)
    n_turns = int(np.count_nonzero(symbols != -1))
    size = (n_lexemes + 7) // 8
    data = b"".join(rest[dot + 1].to_bytes(size, "little") for dot in turns[:n_turns].tolist())
    by_dot = np.unpackbits(np.frombuffer(data, np.uint8).reshape(n_turns, size), axis=1, bitorder="little")[:, :n_lexemes]
    by_lexeme = np.zeros((n_lexemes, 64 * ((n_turns + 63) // 64)), np.uint8)
    by_lexeme[:, :n_turns] = by_dot.T
    return np.packbits(by_lexeme, axis=1, bitorder="little").view(np.int64).ravel()


def chains(
    symbols: np.ndarray, lefts: np.ndarray, heads: np.ndarray, turns: np.ndarray, near: np.ndarray, n_nonterminals: int
) -> Chains:
    """``CHAIN_HEADS``, ``CHAIN_DOTS`` and ``CHAIN_UPS`` of all symbols: nonterminals, then lexemes.

    ``symbols``, ``lefts``, ``near`` (:func:`near_first`): per dot; ``heads``, ``turns``: ``SYMBOL_HEADS`` and ``SYMBOL_DOTS``.
    """
    n_symbols = len(heads) - 1
    starts = heads.tolist()
    is_near = int.from_bytes(np.packbits(near[turns[: starts[-1]]].astype(np.uint8), bitorder="little").tobytes(), "little")
    own = [is_near & (((1 << (starts[s + 1] - starts[s])) - 1) << starts[s]) for s in range(n_symbols)]
    is_first = np.append(True, symbols[:-1] == -1)
    ups: list[set[int]] = [set() for _ in range(n_symbols)]
    alone = np.flatnonzero(is_first[:-1] & (symbols[:-1] != -1) & (symbols[1:] == -1))  # dots of unit rules
    turn_of = np.empty(len(symbols), np.int64)
    turn_of[turns] = np.arange(len(turns))
    for dot, turn in zip(alone.tolist(), turn_of[alone].tolist(), strict=True):
        symbol = int(symbols[dot])
        number = symbol if symbol >= 0 else n_nonterminals - 2 - symbol
        ups[number].add(int(lefts[dot]))
        own[number] &= ~(1 << turn)
    words, nt_words = (starts[-1] + 63) // 64, (n_nonterminals + 63) // 64
    dots, above = bytearray(), bytearray()
    has_ups = np.zeros(n_symbols + 1, np.int64)
    for symbol in range(n_symbols):
        reached: set[int] = set()
        todo = [symbol]
        while todo:
            fresh = ups[todo.pop()] - reached
            reached |= fresh
            todo += fresh
        found, chain = own[symbol], 0
        for up in reached:
            found |= own[up]
            chain |= 1 << up
        has_ups[symbol] = bool(reached)
        dots += found.to_bytes(8 * words, "little")
        above += chain.to_bytes(8 * nt_words, "little")
    table = np.frombuffer(bytes(dots), np.int64).reshape(n_symbols, words)
    symbol_of, word = np.nonzero(table)
    chain_heads = 2 * np.searchsorted(symbol_of, np.arange(n_symbols + 1)) + has_ups
    return chain_heads, np.stack([word, table[symbol_of, word]], axis=1).ravel(), np.frombuffer(bytes(above), np.int64)
