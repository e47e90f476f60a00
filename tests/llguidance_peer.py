"""llguidance and cdplugin side by side, with a vocabulary of single bytes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest

import cdplugin as cd

llguidance = pytest.importorskip("llguidance")
END = 256
TOKENS = [*(bytes([b]) for b in range(256)), b"</s>"]
COMPILER = cd.Compiler(cd.Vocabulary.from_bytes(TOKENS, eos_token_ids=END))


class _Tokenizer:
    """What llguidance asks of a tokenizer."""

    eos_token_id, bos_token_id, tokens, special_token_ids = END, None, TOKENS, [END]

    def __call__(self, text: bytes | str) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)


PEER = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Tokenizer()), n_vocab=END + 1, eos_token=END)


def taken(matcher: Any, text: str) -> bool:
    data = list(text.encode())
    take = matcher.accept_tokens if isinstance(matcher, cd.Matcher) else matcher.try_consume_tokens
    return take(data) == len(data) and matcher.is_accepting()


@lru_cache(8)
def _peer(grammar: str) -> Any:
    text_of = llguidance.LLMatcher.grammar_from_lark('%llguidance {"no_forcing": true}\n' + grammar)
    return llguidance.LLMatcher(PEER, text_of, log_level=0)


@lru_cache(8)
def _ours(grammar: str) -> cd.Grammar:
    return COMPILER.compile(cd.Lark(grammar))


def peer_takes(grammar: str, text: str) -> bool:
    return taken(_peer(grammar).deep_copy(), text)


def takes(grammar: str, text: str) -> bool:
    return taken(_ours(grammar).matcher(), text)
