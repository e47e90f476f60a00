"""Masks of Lark grammars beside those of llguidance, bit for bit, along texts of the language and at random after them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from lark_cases import CASES, DIFFERENCES, END, SPECIAL, TOKENS

import cdplugin as cd

llguidance = pytest.importorskip("llguidance")
N_TEXT = len(TOKENS)
IDS = {token: i for i, token in enumerate([*SPECIAL, END], N_TEXT)}
SIZE = N_TEXT + len(IDS)
ALL_TOKENS = [*TOKENS, *(token.encode() for token in IDS)]
NO_FORCING = '%llguidance {"no_forcing": true}\n'


class _Tokenizer:
    """What llguidance asks of a tokenizer."""

    def __init__(self) -> None:
        self.eos_token_id = IDS[END]
        self.bos_token_id = None
        self.tokens = ALL_TOKENS
        self.special_token_ids = list(IDS.values())

    def __call__(self, text: bytes | str) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)


@lru_cache(maxsize=1)
def engines() -> tuple[Any, cd.Compiler]:
    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Tokenizer()), n_vocab=SIZE, eos_token=IDS[END])
    vocab = cd.Vocabulary.from_bytes(ALL_TOKENS, eos_token_ids=IDS[END], special_token_ids=list(IDS.values()))
    return tokenizer, cd.Compiler(vocab)


def peer_of(grammar: str) -> Any:
    tokenizer, _ = engines()
    peer = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_lark(NO_FORCING + grammar), log_level=0)
    assert not peer.is_error(), peer.get_error()
    return peer


def mask_of(matcher: cd.Matcher) -> np.ndarray:
    row = np.zeros((1, (SIZE + 31) // 32), np.int32)
    matcher.fill_next_token_bitmask(row)
    return np.unpackbits(row.view(np.uint8)[0], bitorder="little")[:SIZE].astype(bool)


def peer_mask(peer: Any) -> np.ndarray:
    return np.frombuffer(peer.compute_logit_bias(), np.uint8) != 0


def tokens_of(text: str, rng: random.Random) -> Iterator[int]:
    """A random tokenization."""
    data = text.encode()
    at = 0
    while at < len(data):
        special = next((token for token in SPECIAL if data.startswith(token.encode(), at)), None)
        if special is not None:
            yield IDS[special]
            at += len(special)
            continue
        fitting = [i for i, token in enumerate(TOKENS) if data.startswith(token, at)]
        token = rng.choice(fitting) if rng.random() < 0.5 else max(fitting, key=lambda i: len(TOKENS[i]))
        yield token
        at += len(TOKENS[token])


def show(ids: list[int]) -> str:
    return repr(b"".join(ALL_TOKENS[i] for i in ids))


def check_mask(matcher: cd.Matcher, peer: Any, taken: list[int]) -> np.ndarray:
    ours, theirs = mask_of(matcher), peer_mask(peer)
    if not np.array_equal(ours, theirs):
        extra = [ALL_TOKENS[i] for i in np.flatnonzero(ours & ~theirs)][:12]
        lost = [ALL_TOKENS[i] for i in np.flatnonzero(theirs & ~ours)][:12]
        pytest.fail(f"after {show(taken)}: only here {extra}; only there {lost}")
    return ours


def walk(grammar: str, text: str, rng: random.Random, steps: int) -> int:
    """Follow ``text`` for a while, then go on at random. Returns how many masks were compared."""
    _, compiler = engines()
    matcher, peer = compiler.compile(cd.Lark(grammar)).matcher(), peer_of(grammar)
    given = list(tokens_of(text, rng))
    given = given[: rng.choice([0, rng.randint(0, len(given)), len(given)])]
    taken: list[int] = []
    for step in range(len(given) + steps):
        mask = check_mask(matcher, peer, taken)
        if step < len(given) and mask[given[step]]:
            token = given[step]
        else:
            allowed = np.flatnonzero(mask)
            long = [i for i in allowed if i < N_TEXT and len(TOKENS[i]) > 1]
            ascii_ = [i for i in allowed if i >= N_TEXT or TOKENS[i].isascii()]
            pool = long if long and rng.random() < 0.6 else ascii_ if ascii_ and rng.random() < 0.8 else list(allowed)
            if not pool:
                return step
            token = int(rng.choice(pool))
        assert matcher.accept_token(int(token)) and peer.consume_token(int(token)), show([*taken, int(token)])
        taken.append(int(token))
        if token == IDS[END] or peer.is_stopped():
            return step + 1
    return len(given) + steps


@pytest.mark.parametrize("name", CASES)
def test_equal_masks(name: str) -> None:
    grammar, texts = CASES[name]
    rng = random.Random(name)
    compared = sum(walk(grammar, rng.choice(texts), rng, 25) for _ in range(25))
    assert compared >= 40


@pytest.mark.parametrize("name", CASES)
def test_the_texts_are_followed(name: str) -> None:
    """The texts of the table are prefixes of words (most are words), for both engines."""
    grammar, texts = CASES[name]
    _, compiler = engines()
    for text in texts:
        ids = list(tokens_of(text, random.Random(0)))
        n = compiler.compile(cd.Lark(grammar)).matcher().accept_tokens(ids)
        assert n == peer_of(grammar).try_consume_tokens(ids)


@pytest.mark.parametrize("reason", DIFFERENCES)
def test_differences(reason: str) -> None:
    grammar, before, ours_only, theirs_only = DIFFERENCES[reason]
    _, compiler = engines()
    matcher, peer = compiler.compile(cd.Lark(grammar)).matcher(), peer_of(grammar)
    ids = [TOKENS.index(bytes([byte])) for byte in before.encode()]
    assert matcher.accept_tokens(ids) == len(ids) == peer.try_consume_tokens(ids)
    ours, theirs = mask_of(matcher), peer_mask(peer)
    assert ours_only <= {TOKENS[i].decode("utf-8", "replace") for i in np.flatnonzero(ours & ~theirs) if i < N_TEXT}
    assert theirs_only <= {TOKENS[i].decode("utf-8", "replace") for i in np.flatnonzero(theirs & ~ours) if i < N_TEXT}
    assert ours_only or not (ours & ~theirs).any()
    assert theirs_only or not (theirs & ~ours).any()


def test_there_are_enough() -> None:
    assert len(CASES) >= 20
