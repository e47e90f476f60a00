"""xgrammar beside cdplugin: the same tokens, masks as sets, and random walks in which both must allow the same."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from engine_tools import mask

import cdplugin as cd

ASCII = [bytes([b]) for b in range(1, 128)]


_UTF8 = re.compile(  # RFC 3629, section 4, then the beginning of one more character
    rb"(?:[\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]"
    rb"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2})*"
    rb"(?:[\xc2-\xdf]|\xe0[\xa0-\xbf]?|[\xe1-\xec\xee\xef][\x80-\xbf]?|\xed[\x80-\x9f]?"
    rb"|\xf0(?:[\x90-\xbf][\x80-\xbf]?)?|[\xf1-\xf3][\x80-\xbf]{0,2}|\xf4(?:[\x80-\x8f][\x80-\xbf]?)?)?"
)


def begins_utf8(data: bytes) -> bool:
    """Whether the bytes are the beginning of some UTF-8 text."""
    return _UTF8.fullmatch(data) is not None


class Peer:
    """xgrammar's compiler for the tokens of a vocabulary of bytes; the last token ends the text."""

    def __init__(self, tokens: Sequence[bytes]) -> None:
        self.xgrammar = pytest.importorskip("xgrammar")
        self.tokens = [*tokens, b"</s>"]
        self.end = len(self.tokens) - 1
        self.vocab = cd.Vocabulary.from_bytes(self.tokens, eos_token_ids=self.end)
        info = self.xgrammar.TokenizerInfo(
            self.tokens, self.xgrammar.VocabType.RAW, vocab_size=len(self.tokens), stop_token_ids=[self.end]
        )
        self.compiler = self.xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.ours = cd.Compiler(self.vocab)
        self.row = self.xgrammar.allocate_token_bitmask(1, len(self.tokens))

    def mask(self, matcher: Any) -> set[int]:
        """The tokens that xgrammar allows next."""
        self.row.fill_(-1)
        matcher.fill_next_token_bitmask(self.row)
        bits = np.unpackbits(self.row.numpy().view(np.uint8), bitorder="little")[: len(self.tokens)]
        return set(np.flatnonzero(bits).tolist())

    def compare(
        self,
        spec: cd.Spec,
        theirs: Any,
        rng: random.Random,
        *,
        walks: int,
        steps: int,
        texts: Sequence[bytes] = (),
    ) -> int:
        """Walk at random, along ``texts`` while one of them goes on, and compare all masks. Returns how many were compared.

        One difference is known: xgrammar lets a class take the bytes of surrogates (ED A0 80 to ED BF BF), which no UTF-8
        text holds (RFC 3629, section 3). So xgrammar alone may allow tokens after which the text is not the beginning of
        any UTF-8 text.
        """
        grammar = self.ours.compile(spec)
        compared = 0
        for n in range(walks):
            matcher, peer = grammar.matcher(), self.xgrammar.GrammarMatcher(theirs)
            text = rng.choice(texts) if texts and n % 3 else b""
            done = b""
            for _ in range(steps):
                allowed, other = mask(matcher), self.mask(peer)
                compared += 1
                if allowed != other:
                    show = lambda ids: [self.tokens[t] for t in sorted(ids)][:12]  # noqa: E731
                    difference = f"after {done!r}: only ours {show(allowed - other)}, only theirs {show(other - allowed)}"
                    theirs_alone = [self.tokens[t] for t in other - allowed]
                    assert allowed <= other and not any(begins_utf8(done + data) for data in theirs_alone), difference
                rest = text[len(done) :] if text.startswith(done) else b""
                along = [t for t in allowed & other if rest and t != self.end and rest.startswith(self.tokens[t])]
                ids = along if along and rng.random() < 0.97 else sorted((allowed & other) - {self.end})
                if not ids:
                    break
                token = rng.choice(ids)
                assert matcher.accept_token(token) and peer.accept_token(token)
                done += self.tokens[token]
        return compared
