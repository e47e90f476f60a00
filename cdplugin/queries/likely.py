"""Likely tokens: the few tokens of a mask that work ahead follows (:mod:`cdplugin.ahead`).

No model is asked. The cost of cold work depends on where tokens *lead*, and few tokens tell that. Brackets, quotation marks and
separators lead from one lexeme to the next; digits and plain words stay inside a number or a text; and where the grammar spells
words (property names, enums, keywords), the first token of each word goes its own way. Tokens of one kind are taken in the
order of their ids, which in vocabularies made by merging is the order of frequency.

>>> from cdplugin.vocab.vocabulary import Vocabulary
>>> vocab = Vocabulary.from_bytes([b"a", b'"', b"word", b"}", b"7", b"#", b'",', b"</s>"], eos_token_ids=7)
>>> Likely(vocab).among(np.array([0b01111111], np.int32)).tolist()
[1, 3, 6, 4, 5, 0, 2]
"""

from __future__ import annotations

import numpy as np

from cdplugin.engine.arena import Arena
from cdplugin.engine.blocks import address_of
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.masks import layout as mask_layout
from cdplugin.kernels.store import layout
from cdplugin.vocab.vocabulary import Vocabulary, once_for_a_vocabulary

_SYNTAX, _SPACE, _DIGIT, _LETTER, _SIGN, _OTHER = (1 << i for i in range(6))
_TAKEN = {"syntax": 40, "space": 4, "digits": 8, "signs": 16, "words": 12}  # tokens of each kind at one place
_LOOKED_AT = 1_000  # tokens of a kind that are looked up in a mask
_WORD_LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8)  # of plain words: if characters are counted, each length leads elsewhere
_WORDS, _NODES = 16, 64  # words that the grammar spells at one place; expression nodes visited to find them
_NO_STOPS = np.zeros(1, np.int64)
_STOPS_ADDRESS = address_of(_NO_STOPS)


def _kinds() -> np.ndarray:
    """Return the kind of each byte, uint8."""
    kinds = np.full(256, _OTHER, np.uint8)
    kinds[33:127] = _SIGN
    for chars, kind in ((b'{}[]",:', _SYNTAX), (b" \t\n", _SPACE), (b"0123456789", _DIGIT)):
        kinds[list(chars)] = kind
    kinds[ord("A") : ord("Z") + 1] = kinds[ord("a") : ord("z") + 1] = _LETTER
    return kinds


class Likely:
    """The likely tokens of a vocabulary."""

    def __init__(self, vocab: Vocabulary) -> None:
        lengths = np.diff(vocab.token_offsets)
        texts = np.flatnonzero(lengths)
        texts = texts[~np.isin(texts, vocab.eos_token_ids)]
        starts = vocab.token_offsets[texts]
        has = np.bitwise_or.reduceat(_kinds()[vocab.token_bytes], starts) if len(texts) else np.empty(0, np.uint8)
        first = vocab.token_bytes[starts]
        is_syntax = (has | _SYNTAX | _SPACE) == _SYNTAX | _SPACE
        is_word = (has == _LETTER) & (first >= ord("a"))
        groups = {
            "syntax": texts[is_syntax & (has != _SPACE)],
            "space": texts[has == _SPACE],
            "digits": _of_each_length(texts[has == _DIGIT], lengths, (1, 2, 3), 3),
            "signs": texts[(has & _SIGN != 0) & (has & _OTHER == 0)],
            "words": _of_each_length(texts[is_word], lengths, _WORD_LENGTHS, 1),
        }
        groups["words"] = np.append(groups["words"], texts[(has == _LETTER | _SPACE) & (first == ord(" "))][:1])
        parts = [tokens[:_LOOKED_AT] for tokens in groups.values()]
        self._tokens = np.concatenate(parts)
        self._words, self._bits = self._tokens >> 5, (1 << (self._tokens & 31)).astype(np.uint32).view(np.int32)
        ends = np.cumsum([len(tokens) for tokens in parts]).tolist()
        self._groups = list(zip([0, *ends[:-1]], ends, _TAKEN.values(), strict=True))

    def among(self, row: np.ndarray) -> np.ndarray:
        """Return the likely tokens of a mask row (int32 words), int64, the likeliest kind first."""
        allowed = (row[self._words] & self._bits).astype(bool)
        return np.concatenate([self._tokens[start:end][allowed[start:end]][:most] for start, end, most in self._groups])


def _of_each_length(tokens: np.ndarray, lengths: np.ndarray, wanted: tuple[int, ...], most: int) -> np.ndarray:
    """Return the first ``most`` tokens of each length."""
    return np.concatenate([tokens[lengths[tokens] == length][:most] for length in wanted])


@once_for_a_vocabulary
def likely_of(vocab: Vocabulary) -> Likely:
    """Return the likely tokens of a vocabulary; made once, in some milliseconds."""
    return Likely(vocab)


def first_tokens(arena: Arena, cursor: int) -> list[int]:
    """Return the first token of each of the first words that the grammar spells at a place.

    The caller holds the lock, and grants the work.
    """
    out: dict[int, None] = {}
    for _, state in arena.pairs(cursor) if cursor > 0 else ():
        for word in arena.open_words(state):
            for text in _texts(arena, word & layout.LOW_32):
                data = np.frombuffer(text, np.uint8)
                status = kernels.run(arena.address, kernels.OP_SPELL, address_of(data), len(data), _STOPS_ADDRESS)
                if 0 < status < mask_layout.NOT_SPELT:
                    out[int(arena.tables[layout.STACK][0])] = None
                if len(out) >= _WORDS or status < 0:
                    return list(out)
    return list(out)


def _texts(arena: Arena, expression: int) -> list[bytes]:
    """Return the literals that an expression may begin with, without what has been read of them."""
    out: list[bytes] = []
    pending, looked = [expression], 0
    while pending and len(out) < _WORDS and looked < _NODES:
        looked += 1
        e = pending.pop()
        kind, words = arena.kind(e), arena.sequence(e)
        if kind == layout.K_CAT:
            pending.append(words[0])
        elif kind == layout.K_ALT:
            pending += words[::-1]
        elif kind == layout.K_LITERALS:
            text, starts, ends = arena.literals(e)
            spans = zip(starts[:_WORDS].tolist(), ends[:_WORDS].tolist(), strict=True)
            out += [text[start:end].tobytes() for start, end in spans if start < end]
    return out
