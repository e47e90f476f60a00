"""What the tests of the shipped grammars share: a vocabulary of words and signs, following texts, random walks."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import numpy as np

import cdplugin as cd

HUNGRY = "((a|b)(a|b))*a(a|b){400}"
"""A pattern that crosses a budget while it is followed, in a mask or a step after some 50 characters: each ``a`` so far may
be the one 400 characters before the end.
"""


class Walker:
    """Random texts of a grammar over the 256 bytes and ``words``. Each word is also a token with a space before it, and one
    with a space after it.
    """

    def __init__(self, words: Iterable[str], signs: Iterable[str]) -> None:
        listed = [word.encode() for word in words]
        tokens = [bytes([b]) for b in range(256)] + listed + [b" " + w for w in listed] + [w + b" " for w in listed]
        self.tokens = list(dict.fromkeys([*tokens, *(sign.encode() for sign in signs)]))
        vocab = cd.Vocabulary.from_bytes([*self.tokens, b"</s>"], eos_token_ids=len(self.tokens))
        self.compiler = cd.Compiler(vocab)
        self._row = np.zeros((1, (vocab.size + 31) // 32), np.int32)
        self._closing = [i for i, token in enumerate(self.tokens) if token[-1:] in b")]};:\n"]

    def follow(self, spec: cd.Spec, text: str) -> cd.Matcher:
        """A matcher after ``text``, which the grammar must accept."""
        matcher = self.compiler.compile(spec).matcher()
        data = text.encode()
        taken = matcher.accept_tokens(list(data))
        assert taken == len(data), (data[max(0, taken - 60) : taken], data[taken : taken + 20])
        return matcher

    def takes(self, spec: cd.Spec, text: str) -> bool:
        """Whether the whole text is in the language."""
        matcher = self.compiler.compile(spec).matcher()
        data = list(text.encode())
        return matcher.accept_tokens(data) == len(data) and matcher.is_accepting()

    def walk(self, matcher: cd.Matcher, rng: random.Random, steps: int) -> str:
        """A word of the language: some random tokens, most of them long, then the shortest ending."""
        for _ in range(steps):
            matcher.fill_next_token_bitmask(self._row)
            bits = np.unpackbits(self._row.view(np.uint8)[0], bitorder="little")[: len(self.tokens)]
            allowed = [i for i in np.flatnonzero(bits).tolist() if self.tokens[i].isascii() or rng.random() < 0.02]
            if not allowed:
                break
            closing = [i for i in self._closing if bits[i]]
            long = [i for i in allowed if len(self.tokens[i]) > 1]
            choice = rng.random()
            pool = closing if closing and choice < 0.25 else long if long and choice < 0.85 else allowed
            assert matcher.accept_token(rng.choice(pool))
        ending = matcher.shortest_completion()
        assert matcher.accept_tokens(ending) == len(ending) and matcher.is_accepting()
        return b"".join(self.tokens[i] for i in matcher.tokens if i < len(self.tokens)).decode()

    def walks(self, spec: cd.Spec, beginnings: list[str], count: int, keep: Callable[[str], bool] = bool) -> list[str]:
        """``count`` texts. One that ``keep`` rejects is walked again."""
        out: list[str] = []
        for number in range(4 * count):
            rng = random.Random(f"{number} of {beginnings[0]}")
            text = self.walk(self.follow(spec, beginnings[number % len(beginnings)]), rng, rng.choice([5, 15, 40, 80]))
            if keep(text):
                out.append(text)
            if len(out) == count:
                return out
        raise AssertionError("most walks are turned down")


Rules = list[tuple[int, tuple[int, ...]]]


def random_rules(rng: random.Random) -> tuple[Rules, int, int]:
    """Rules over a few nonterminals and lexemes, with cycles, empty ones and duplicates."""
    n, n_lexemes = rng.randint(1, 7), rng.randint(1, 4)
    rules: Rules = []
    for _ in range(rng.randint(1, 14)):
        right = [
            rng.randrange(n) if rng.random() < 0.5 else ~rng.randrange(n_lexemes) for _ in range(rng.choice((0, 1, 1, 2, 3)))
        ]
        rules.append((rng.randrange(n), tuple(right)))
    return rules, n, n_lexemes


def grown(rules: Rules, counts: set[int]) -> set[int]:
    """The nonterminals that derive a string of the symbols in ``counts``."""
    known: set[int] = set()
    while True:
        more = {left for left, right in rules if all(symbol in known or symbol in counts for symbol in right)}
        if more <= known:
            return known
        known |= more
