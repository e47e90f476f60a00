"""Token sources: read the tokens of Hugging Face, tiktoken and mistral-common tokenizers into one form.

Each ``from_…`` function returns a :class:`~cdplugin.vocab.token_bytes.TokenSource`, whose ``check`` is the self-check. Reading
takes 0.1 s for 128,000 tokens, so it is done at every start. This module imports no tokenizer library: it uses the object that
the caller passes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from cdplugin.errors import VocabularyError
from cdplugin.vocab import token_bytes
from cdplugin.vocab.token_bytes import TokenSource, check_decoding, check_encoding

_REMEDIES = {
    "str": "; load it first: AutoTokenizer.from_pretrained(…)",
    "Encoding": "; Vocabulary.from_tiktoken takes it",
    "SentencePieceProcessor": "; Vocabulary.from_mistral takes mistral-common's SentencePieceTokenizer(file)",
}
"""What to write instead, by the type of what is no Hugging Face tokenizer."""
_LLAMA_END_TOKENS = ("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>", "<|eom|>", "<|eot|>")


def end_tokens(ids: Any, size: int, label: str) -> tuple[int, ...]:
    """End token ids, given as an int, an iterable or None, as a tuple without repeats. Raises VocabularyError
    if out of range.
    """
    if ids is None:
        return ()
    listed = list(ids) if isinstance(ids, Iterable) and not isinstance(ids, (str, bytes)) else [ids]
    for token in listed:
        if not isinstance(token, (int, np.integer)) or isinstance(token, bool) or not 0 <= token < size:
            raise VocabularyError(f"{label}: end token {token!r}: expected an id from 0 to {size - 1}")
    return tuple(dict.fromkeys(int(t) for t in listed))


MOST_TOKENS = 1 << 24
"""Largest vocabulary, padding included: each token takes some bytes of every table."""


def fit(tokens: list[bytes | None], vocab_size: int | None, label: str, base: int) -> list[bytes | None]:
    """Fit the token list to the width of the logits. Ids beyond the tokenizer's are absent, and never allowed.

    Added tokens beyond the logits cannot be sampled and are dropped (Gemma 3 has one). ``base``: the number of ids of the model
    itself. Raises VocabularyError if the logits are narrower than that.
    """
    if vocab_size is None:
        return tokens
    if isinstance(vocab_size, bool) or not isinstance(vocab_size, (int, np.integer)) or vocab_size < 1:
        raise VocabularyError(f"{label}: vocab_size: expected a positive int, found {vocab_size!r}")
    if vocab_size > MOST_TOKENS:
        raise VocabularyError(f"{label}: vocab_size: expected at most {MOST_TOKENS}, found {vocab_size}")
    if vocab_size < base:
        raise VocabularyError(
            f"{label}: vocab_size: expected at least {base}, the tokenizer's own vocabulary, found {vocab_size}"
        )
    return tokens[:vocab_size] + [None] * (int(vocab_size) - len(tokens))


def _finish(source: TokenSource, vocab_size: int | None, base: int, eos_token_ids: Any) -> TokenSource:
    """Fit the width, and set the end tokens, which no longer match as text."""
    source.tokens = fit(source.tokens, vocab_size, source.label, base)
    source.eos = end_tokens(eos_token_ids, len(source.tokens), source.label)
    for names in (source.special, source.added):
        for name in [n for n, i in names.items() if i >= len(source.tokens)]:
            del names[name]
    for token in source.eos:
        source.tokens[token] = None
    for name in [n for n, i in source.added.items() if i in source.eos]:
        source.special[name] = source.added.pop(name)
    source.unreadable = tuple(i for i in source.unreadable if i < len(source.tokens))
    return source


# ---- Hugging Face --------------------------------------------------------------------------------------------------------


def _state(component: Any) -> dict[str, Any] | None:
    """A component of a fast tokenizer as JSON. (``to_str`` of the tokenizer would write vocabulary and merges, too.)"""
    return None if component is None else json.loads(component.__getstate__())


def _prefixes(*parts: dict[str, Any] | None) -> tuple[str, ...]:
    """What the tokenizer may prepend to a text: nothing, or one space."""
    text = json.dumps([p for p in parts if p is not None])
    spaced = '"prepend_scheme": "always"' in text or '"prepend_scheme": "first"' in text or '"add_prefix_space": true' in text
    return ("", " ") if spaced or '"Prepend"' in text else ("",)


def _unknown(model: Any) -> int | None:
    """The id of the unknown token in the model of a fast tokenizer, or None."""
    if type(model).__name__ == "Unigram":
        found = re.match(rb'\{"type":"Unigram","unk_id":(\d+)', model.__getstate__())
        return int(found[1]) if found else None
    name = getattr(model, "unk_token", None)
    return model.token_to_id(name) if name else None


class _HuggingFace:
    """A Hugging Face tokenizer as read. ``backend``: the ``tokenizers.Tokenizer`` that it wraps or is; None for slow ones.

    ``strings``: the tokenizer's own spelling of each token by id, None for absent ids; ``added``: its added tokens by id;
    ``special``: ids that never match as text; ``decoder``, ``normalizer``, ``pre_tokenizer``: its components as JSON.
    """

    def __init__(self, tokenizer: Any, backend: Any) -> None:
        self.tokenizer, self.backend = tokenizer, backend
        name = getattr(tokenizer, "name_or_path", "") or ""
        self.label = type(tokenizer).__name__ + (f" {name}" if name else "")
        self.normalizer: dict[str, Any] | None
        self.pre_tokenizer: dict[str, Any] | None
        if backend is not None:
            vocab: dict[str, int] = backend.get_vocab(with_added_tokens=False)
            self.added: dict[int, Any] = backend.get_added_tokens_decoder()
        elif hasattr(tokenizer, "get_vocab"):
            vocab, self.added = tokenizer.get_vocab(), getattr(tokenizer, "added_tokens_decoder", {})
        else:
            remedy = _REMEDIES.get(type(tokenizer).__name__, "")
            has = "it has neither backend_tokenizer nor get_vocab"
            raise VocabularyError(f"{self.label}: not a Hugging Face tokenizer: {has}{remedy}")
        self.strings: list[str | None] = [None] * (max([*vocab.values(), *self.added], default=-1) + 1)
        for string, token in vocab.items():
            self.strings[token] = string
        self.base = len(self.strings)  # one more than the last id that is not an added token
        while self.base and (self.strings[self.base - 1] is None or self.base - 1 in self.added):
            self.base -= 1
        for token, entry in self.added.items():
            self.strings[token] = entry.content
        special = {i for i, entry in self.added.items() if entry.special} | {*getattr(tokenizer, "all_special_ids", ())}
        if backend is not None:
            parts = backend.decoder, backend.normalizer, backend.pre_tokenizer
            self.decoder, self.normalizer, self.pre_tokenizer = map(_state, parts)
            special.add(_unknown(backend.model))
        else:
            self.decoder, self.normalizer, self.pre_tokenizer = _slow_decoder(tokenizer, self.label), {"type": "slow"}, None
            special |= _hidden_pieces(getattr(tokenizer, "sp_model", None), self.strings)
        self.special: set[int] = {i for i in special if i is not None and i < len(self.strings)}

    def tokens(self) -> tuple[list[bytes | None], tuple[int, ...]]:
        """The tokens' bytes, None for those that never match as text; and the added tokens that are not UTF-8 when decoded."""
        absent = [i for i, s in enumerate(self.strings) if s is None] if None in self.strings else []
        filled: list[str] = [s or "" for s in self.strings] if absent else self.strings  # type: ignore[assignment]
        tokens: list[bytes | None] = [*token_bytes.decode_each(filled, self.decoder, self.label)]
        for i in (*absent, *self.special):
            tokens[i] = None
        unreadable = tuple(sorted(i for i in self.added if tokens[i] is not None and not token_bytes.is_utf8(tokens[i] or b"")))
        for i in unreadable:
            tokens[i] = None
        return tokens, unreadable

    def decode(self, ids: list[int]) -> str:
        """The text of some tokens, including special ones, without clean-up."""
        extra: dict[str, bool] = {} if self.tokenizer is self.backend else {"clean_up_tokenization_spaces": False}
        if self.backend is None:
            extra["spaces_between_special_tokens"] = False
        return self.tokenizer.decode(ids, skip_special_tokens=False, **extra)

    def check(self, source: TokenSource) -> None:
        """The self-check: the tokenizer must decode tokens to their bytes, and encode texts to tokens with the same bytes."""
        components = json.dumps(self.decoder)
        check_decoding(source, self.decode, lambda i: self.strings[i], '"ByteLevel"' in components)
        if not (token_bytes.loses_text(self.pre_tokenizer) or self.decoder is None or '"WordPiece"' in components):
            normalizer = None if self.backend is None else self.backend.normalizer
            prefixes = ("", " ") if self.backend is None else _prefixes(self.decoder, self.normalizer, self.pre_tokenizer)
            check_encoding(source, prefixes, None if normalizer is None else normalizer.normalize_str)


def _encode(tokenizer: Any, is_bare: bool, text: str) -> list[int]:
    """Encode a text without adding special tokens."""
    found = tokenizer.encode(text, add_special_tokens=False)
    return found.ids if is_bare else found


def from_huggingface(tokenizer: Any, vocab_size: int | None, eos_token_ids: Any) -> TokenSource:
    """Tokens of a Hugging Face tokenizer: fast, a bare ``tokenizers.Tokenizer``, or slow of a known kind."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None and hasattr(tokenizer, "to_str"):
        backend = tokenizer
    if backend is None and _mistral_inside(tokenizer) is not None:
        return from_mistral(tokenizer, vocab_size, eos_token_ids)
    read = _HuggingFace(tokenizer, backend)
    strings = read.strings
    tokens, unreadable = read.tokens()
    special = {name: i for i in sorted(read.special) if (name := strings[i]) is not None}
    added = {entry.content: i for i, entry in read.added.items() if i not in read.special}
    version = getattr(sys.modules.get("tokenizers"), "__version__", "")
    encode = partial(_encode, tokenizer, tokenizer is backend)  # holds the tokenizer, but not the strings that were read
    context = json.dumps([read.label, version, read.decoder, read.normalizer, read.pre_tokenizer]).encode()
    source = TokenSource(read.label, tokens, special, (), added, unreadable, context, encode, read.check)
    if eos_token_ids is None:
        eos_token_ids = getattr(tokenizer, "eos_token_id", None)
    source = _finish(source, vocab_size, read.base, eos_token_ids)
    for i in source.eos:
        if i < len(strings) and (name := strings[i]) is not None:
            source.special.setdefault(name, i)
    return source


def _slow_decoder(tokenizer: Any, label: str) -> dict[str, Any]:
    """The decoder of a slow tokenizer as JSON of a fast one: SentencePiece, or byte level with GPT-2's map."""
    model = getattr(tokenizer, "sp_model", None)
    if model is not None:
        replace = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
        return {"type": "Sequence", "decoders": [replace, {"type": "ByteFallback"}, {"type": "Fuse"}]}
    if getattr(tokenizer, "byte_decoder", None) == token_bytes.byte_level_alphabet():
        return {"type": "ByteLevel"}
    raise VocabularyError(f"{label}: this slow tokenizer does not say which bytes its tokens stand for; use its fast version")


def _hidden_pieces(model: Any, strings: list[str | None]) -> set[int]:
    """Ids of a SentencePiece model's control, unknown and unused pieces, if the tokenizer uses the model's ids."""
    if model is None:
        return set()
    ids = (i for i, s in enumerate(strings[: model.get_piece_size()]) if s == model.id_to_piece(i))
    return {i for i in ids if model.is_control(i) or model.is_unknown(i) or model.is_unused(i)}


# ---- tiktoken, mistral-common, plain bytes -------------------------------------------------------------------------------


def _by_id(ranks: dict[bytes, int], offset: int, size: int) -> list[bytes | None]:
    tokens: list[bytes | None] = [None] * size
    for token, rank in ranks.items():
        tokens[rank + offset] = token
    return tokens


def from_tiktoken(encoding: Any, vocab_size: int | None, eos_token_ids: Any) -> TokenSource:
    """Tokens of a ``tiktoken.Encoding``, or of an object with one in ``.model`` (llama-models, which also has
    ``stop_tokens``).
    """
    if not hasattr(encoding, "_mergeable_ranks") and hasattr(getattr(encoding, "model", None), "_mergeable_ranks"):
        if eos_token_ids is None:
            eos_token_ids = getattr(encoding, "stop_tokens", None)
        encoding = encoding.model
    if not hasattr(encoding, "_mergeable_ranks"):
        remedy = ", as tiktoken.get_encoding(…) gives it" if isinstance(encoding, str) else ""
        raise VocabularyError(f"{type(encoding).__name__}: expected a tiktoken.Encoding{remedy}")
    label = f"tiktoken {encoding.name}"
    special = dict(encoding._special_tokens)
    tokens = _by_id(encoding._mergeable_ranks, 0, encoding.max_token_value + 1)
    base = max(encoding._mergeable_ranks.values()) + 1
    if eos_token_ids is None:
        known = ("<|endoftext|>",) if "<|endoftext|>" in special else _LLAMA_END_TOKENS
        eos_token_ids = [special[n] for n in known if n in special]
        if not eos_token_ids:
            raise VocabularyError(f"{label}: no end token: pass eos_token_ids; special tokens: {sorted(special)[:20]}")
    encode = encoding.encode_ordinary

    def check(source: TokenSource) -> None:
        _check_ids(source, lambda i: encoding.decode_single_token_bytes(i))
        check_encoding(source, ("",), None)

    source = TokenSource(label, tokens, special, (), context=label.encode(), encode=encode, check=check)
    return _finish(source, vocab_size, base, eos_token_ids)


def _check_ids(source: TokenSource, look: Callable[[int], bytes]) -> None:
    """Compare about 1,000 evenly spread tokens with what the tokenizer returns for each."""
    ids = [i for i, t in enumerate(source.tokens) if t is not None]
    for i in ids[:: max(1, len(ids) // 1000)]:
        if look(i) != source.tokens[i]:
            raise token_bytes.misread(source, i, source.tokens[i], look(i))


def _mistral_inside(tokenizer: Any) -> Any:
    """The ``Tekkenizer`` or ``SentencePieceTokenizer`` that an object is or wraps, or None."""
    for _ in range(4):
        if tokenizer is None or all(hasattr(tokenizer, name) for name in ("n_words", "bos_id", "_model")):
            return tokenizer
        held = (getattr(tokenizer, name, None) for name in ("instruct_tokenizer", "tokenizer", "instruct", "mistral"))
        tokenizer = next((h for h in held if h is not None), None)
    return None


def from_mistral(tokenizer: Any, vocab_size: int | None, eos_token_ids: Any) -> TokenSource:
    """Tokens of mistral-common: a ``MistralTokenizer``, ``Tekkenizer``, ``SentencePieceTokenizer``, or a wrapper of one."""
    inner = _mistral_inside(tokenizer)
    if inner is None:
        raise VocabularyError(f"{type(tokenizer).__name__}: expected a tokenizer of mistral-common")
    label = f"{type(inner).__name__} {getattr(getattr(inner, 'file_path', None), 'name', '')}".strip()
    if eos_token_ids is None:
        eos_token_ids = inner.eos_id
    size = inner.n_words

    def encode(text: str) -> list[int]:
        return inner.encode(text, bos=False, eos=False)

    if hasattr(inner, "id_to_byte_piece"):
        first = inner.num_special_tokens
        ranks = getattr(inner, "_tekken_token2id_nospecial", None)
        if ranks is None:
            ranks = {inner.id_to_byte_piece(i): i - first for i in range(first, size)}
        tokens = _by_id(ranks, first, size)
        special = {inner.id_to_piece(i): i for i in range(first)}

        def check(source: TokenSource) -> None:
            _check_ids(source, inner.id_to_byte_piece)
            check_encoding(source, ("",), None)

    else:
        model = inner._model
        hidden = [model.IsControl(i) or model.IsUnknown(i) or model.IsUnused(i) for i in range(size)]
        pieces = [model.id_to_piece(i) for i in range(size)]
        special = {pieces[i]: i for i in range(size) if hidden[i]}
        texts = (
            bytes([int(p[1:5], 16)]) if model.IsByte(i) else p.replace("\u2581", " ").encode() for i, p in enumerate(pieces)
        )
        tokens = [None if is_hidden else text for is_hidden, text in zip(hidden, texts)]

        def check(source: TokenSource) -> None:
            check_decoding(source, inner.decode, model.id_to_piece, lossy=False)
            check_encoding(source, ("", " "), None)

    source = TokenSource(label, tokens, special, (), context=label.encode(), encode=encode, check=check)
    return _finish(source, vocab_size, size, eos_token_ids)


def from_bytes(
    tokens: Sequence[bytes | None], vocab_size: int | None, eos_token_ids: Any, special_token_ids: Any
) -> TokenSource:
    """Tokens given as bytes, None for absent ids. End tokens and ``special_token_ids`` never match as text; their bytes become
    their names.
    """
    label = "token bytes"
    if isinstance(tokens, (str, bytes, dict)) or not isinstance(tokens, Iterable):
        raise VocabularyError(
            f"{label}: expected a list of bytes, the token's id being its index, found {type(tokens).__name__}"
        )
    listed: list[bytes | None] = []
    for i, token in enumerate(tokens):
        if token is not None and not isinstance(token, (bytes, bytearray, memoryview)):
            raise VocabularyError(f"{label}: token {i}: expected bytes or None, found {type(token).__name__}")
        listed.append(None if token is None else bytes(token))
    if not listed:
        raise VocabularyError(f"{label}: expected at least one token")
    n_given = len(listed)
    listed = fit(listed, vocab_size, label, n_given)
    hidden = end_tokens(special_token_ids, n_given, label)
    special: dict[str, int] = {}
    for i in hidden + end_tokens(eos_token_ids, len(listed), label):
        if name := listed[i]:
            special.setdefault(name.decode("utf-8", "replace"), i)
    for i in hidden:
        listed[i] = None
    return _finish(TokenSource(label, listed, special, ()), None, len(listed), eos_token_ids)
