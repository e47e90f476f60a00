"""Vocabularies beside the tokenizers' own decode, and the trie beside the token list."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import pickle
import random
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tokenizers_data as data
from hypothesis import given, settings
from hypothesis import strategies as st

from cdplugin.errors import VocabularyError
from cdplugin.kernels.jit import cache_files
from cdplugin.vocab import sources as tokenizer_sources
from cdplugin.vocab import token_bytes as tokenizer_bytes
from cdplugin.vocab import vocabulary as vocab_module
from cdplugin.vocab.vocabulary import Vocabulary, VocabularyWarning, load_arrays, save_arrays

REAL: dict[str, tuple[Callable[[], Any], Callable[..., Vocabulary]]] = {
    "smollm2": (data.smollm2, Vocabulary.from_huggingface),
    "tekken": (data.tekken, Vocabulary.from_mistral),
    "llama3": (data.llama3, Vocabulary.from_tiktoken),
    "llama4": (data.llama4, Vocabulary.from_tiktoken),
    "mistral_v3": (data.mistral_v3, Vocabulary.from_mistral),
    "llama2_like": (data.llama2_like, Vocabulary.from_huggingface),
    "llama2_metaspace": (lambda: data.llama2_like(metaspace=True), Vocabulary.from_huggingface),
}
TEXT = 'He said: "Grüße, 世界! 👩‍🚀"\n\tdef f(x):\r\n        return {"a": [1, -2.5e3]}   # ok\x00\x7f\\n'


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Any, Vocabulary]]:
    """A tokenizer and its vocabulary by name. Each is built once, without the disk cache."""
    made: dict[str, tuple[Any, Vocabulary]] = {}

    def get(name: str) -> tuple[Any, Vocabulary]:
        if name not in made:
            load, make = REAL[name]
            tokenizer = load()
            made[name] = tokenizer, make(tokenizer, cache=False)
        return made[name]

    return get


@pytest.fixture
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cache_files, "cache_folders", lambda: cache_files.Folders((tmp_path,), tmp_path, ()))
    monkeypatch.setattr(vocab_module, "_CACHED_SIZE", 1)
    return tmp_path / "vocab"


def bits(row: np.ndarray) -> set[int]:
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


def naive_slice(token: bytes | None) -> bool:
    """The slice class by its definition, through ``str``."""
    if not token:
        return False
    try:
        text = token.decode()
    except UnicodeDecodeError:
        return False
    return not any(c in '"\\\x7f\u2028\u2029' or c < " " for c in text)


def check_trie(vocab: Vocabulary) -> None:
    """Everything the contract says of the arrays, against the token list."""
    trie, tokens = vocab.trie, vocab.tokens
    arrays = (
        trie.byte,
        trie.depth,
        trie.skip,
        trie.token,
        vocab.max_chars,
        vocab.slice_masks,
        vocab.token_bytes,
        vocab.token_offsets,
    )
    dtypes = [np.uint8, np.int32, np.int32, np.int32, np.int32, np.int32, np.uint8, np.int64]
    assert [a.dtype for a in arrays] == dtypes
    assert all(a.flags.c_contiguous and a.flags.aligned and not a.flags.writeable for a in arrays)
    assert trie.slice_end == vocab.slice_end
    n, end = len(trie), vocab.slice_end
    path = bytearray()
    found: tuple[dict[int, bytes], dict[int, bytes]] = ({}, {})
    for i, (b, d, t) in enumerate(zip(trie.byte.tolist(), trie.depth.tolist(), trie.token.tolist())):
        assert i != end or d == 1
        del path[d - 1 :]
        path.append(b)
        if t >= 0:
            found[i >= end][t] = bytes(path)
    assert found[0] == {i: t for i, t in enumerate(tokens) if naive_slice(t)}
    assert found[1] == {i: t for i, t in enumerate(tokens) if t and not naive_slice(t)}
    stops = np.arange(n) + trie.skip
    assert (stops[:end] <= end).all() and (stops <= n).all()
    for i in random.Random(0).sample(range(n), min(n, 300)):
        inside = trie.depth[i + 1 : stops[i]]
        assert (inside > trie.depth[i]).all() and (stops[i] == n or stops[i] == end or trie.depth[stops[i]] <= trie.depth[i])
        below = [len(tokens[t].decode()) for t in trie.token[i : stops[i]].tolist() if i < end and t >= 0]  # type: ignore[union-attr]
        assert vocab.max_chars[i] == (max(below) if i < end else 0)
    counts = {t: len(b.decode()) for t, b in found[0].items()}
    assert vocab.slice_chars == max(counts.values(), default=0)
    top = len(vocab.slice_masks) - 1
    assert top == min(vocab.slice_chars, 64) and vocab.slice_masks.shape[1] == -(-vocab.size // 32)
    for row in (0, 1, 2, top // 2, top - 1):
        if 0 <= row < top:
            assert bits(vocab.slice_masks[row]) == {t for t, c in counts.items() if c <= row}
    assert bits(vocab.slice_masks[top]) == set(counts)
    offsets = vocab.token_offsets.tolist()
    assert len(offsets) == vocab.size + 1 == len(tokens) + 1
    content = vocab.token_bytes.tobytes()
    assert [content[a:b] for a, b in itertools.pairwise(offsets)] == [t or b"" for t in tokens]
    singles = {t[0] for t in tokens if t and len(t) == 1}
    assert {b for b in range(256) if vocab.byte_tokens >> b & 1} == singles
    assert {b for b in range(256) if vocab.missing_bytes >> b & 1} == set(range(256)) - singles
    assert {b for b in range(256) if vocab.absent_bytes >> b & 1} == set(range(256)) - {b for t in tokens if t for b in t}
    assert vocab.max_token_bytes == max((len(t) for t in tokens if t), default=0)
    assert vocab.empty_token_ids == tuple(i for i, t in enumerate(tokens) if t == b"")


# ---- real tokenizers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REAL)
def test_real_trie(name: str, built: Callable[[str], tuple[Any, Vocabulary]]) -> None:
    check_trie(built(name)[1])


@pytest.mark.parametrize("name", ["smollm2", "llama2_like", "llama2_metaspace"])
def test_hugging_face_bytes(name: str, built: Callable[[str], tuple[Any, Vocabulary]]) -> None:
    tokenizer, vocab = built(name)
    assert vocab.size == len(tokenizer) and vocab.eos_token_ids == (tokenizer.eos_token_id,)
    ids = tokenizer.encode(TEXT, add_special_tokens=False)
    assert vocab.decode(ids) == (TEXT if name == "smollm2" else " " + TEXT).encode()
    anchor = tokenizer.encode("x", add_special_tokens=False)
    start = tokenizer.decode(anchor)
    for i in random.Random(1).sample(range(vocab.size), 2000):
        token = vocab.tokens[i]
        if token is None:
            assert i in tokenizer.all_special_ids or i in tokenizer.added_tokens_decoder
        else:
            shown = tokenizer.decode([*anchor, i])
            assert shown == start + token.decode("utf-8", "replace")


@pytest.mark.parametrize("name", ["llama3", "llama4"])
def test_tiktoken_bytes(name: str, built: Callable[[str], tuple[Any, Vocabulary]]) -> None:
    tokenizer, vocab = built(name)
    assert vocab.size == tokenizer.n_words and vocab.eos_token_ids == tuple(dict.fromkeys(tokenizer.stop_tokens))
    assert vocab.special_tokens == tokenizer.special_tokens
    assert vocab.decode(tokenizer.model.encode_ordinary(TEXT)) == TEXT.encode()
    for i, token in enumerate(vocab.tokens):
        if token is None:
            assert i in tokenizer.special_tokens.values()
        else:
            assert token == tokenizer.model.decode_single_token_bytes(i)
    assert Vocabulary.from_tiktoken(tokenizer.model, cache=False).fingerprint == vocab.fingerprint


@pytest.mark.parametrize("name", ["tekken", "mistral_v3"])
def test_mistral_bytes(name: str, built: Callable[[str], tuple[Any, Vocabulary]]) -> None:
    tokenizer, vocab = built(name)
    assert vocab.size == tokenizer.n_words and vocab.eos_token_ids == (tokenizer.eos_id,)
    assert vocab.decode(tokenizer.encode(TEXT, bos=True, eos=True)) == (TEXT if name == "tekken" else " " + TEXT).encode()
    assert vocab.special_tokens["[INST]"] == tokenizer.get_special_token("[INST]")
    for i in random.Random(2).sample(range(vocab.size), 2000):
        if vocab.tokens[i] is None:
            assert tokenizer.is_special(i) or i == tokenizer.unk_id
        elif name == "tekken":
            assert vocab.tokens[i] == tokenizer.id_to_byte_piece(i)


def test_transformers_mistral_backend(built: Callable[[str], tuple[Any, Vocabulary]]) -> None:
    module = pytest.importorskip("transformers.tokenization_mistral_common")
    path = data.package_file("mistral_common", "data", "tekken_240911.json")
    vocab = Vocabulary.from_huggingface(module.MistralCommonBackend(tokenizer_path=str(path)), cache=False)
    assert vocab.fingerprint == built("tekken")[1].fingerprint


# ---- small Hugging Face tokenizers of every kind ---------------------------------------------------------------------


def bpe(vocab: dict[str, int], decoder: Any, pre_tokenizer: Any = None, normalizer: Any = None, **options: Any) -> Any:
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, [], **options))
    if decoder is not None:
        tokenizer.decoder = decoder
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    return tokenizer


def byte_level(extra: tuple[str, ...] = ()) -> Any:
    from tokenizers import decoders, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = {c: i for i, c in enumerate([*alphabet, *extra])}
    return bpe(pieces, decoders.ByteLevel(), pre_tokenizers.ByteLevel(add_prefix_space=False))


def metaspace(pieces: list[str], decoder: Any = None, pre_tokenizer: Any = None) -> Any:
    from tokenizers import decoders, pre_tokenizers

    names = ["<unk>", *[f"<0x{b:02X}>" for b in range(256)], *pieces]
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    pre_tokenizer = pre_tokenizer or pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    vocab = {n: i for i, n in enumerate(names)}
    return bpe(vocab, decoder or decoders.Sequence(steps), pre_tokenizer, unk_token="<unk>", byte_fallback=True)


def test_byte_level_map() -> None:
    pre_tokenizers = pytest.importorskip("tokenizers").pre_tokenizers
    table = tokenizer_bytes.byte_level_alphabet()
    assert set(table) == set(pre_tokenizers.ByteLevel.alphabet()) and sorted(table.values()) == list(range(256))
    decoder = pytest.importorskip("tokenizers").decoders.ByteLevel()
    strings = ["Ġhello", "é", "日本", "a b", "", "Ċ", "Ã©"]
    for string, found in zip(strings, tokenizer_bytes.byte_level(strings)):
        assert found.decode("utf-8", "replace") == decoder.decode([string])


def test_added_tokens() -> None:
    from tokenizers import AddedToken

    tokenizer = byte_level()
    tokenizer.add_special_tokens(["<|end|>"])
    tokenizer.add_tokens(["<think>", "<tool call>", "日本", AddedToken("größe"), AddedToken("ĠÃ©")])
    vocab = Vocabulary.from_huggingface(tokenizer, eos_token_ids=256)
    assert vocab.tokens[256:] == [None, b"<think>", b"<tool call>", "日本".encode(), None, " é".encode()]
    assert vocab.special_tokens == {"<|end|>": 256}
    assert vocab.added_tokens == {"<think>": 257, "<tool call>": 258, "日本": 259, "größe": 260, "ĠÃ©": 261}
    assert vocab.unreadable_token_ids == (260,) and "\ufffd" in tokenizer.decode([260])
    assert vocab.names[256] == "<|end|>" and vocab.names[257] == "<think>"
    assert vocab.decode([256, 257, 39]) == b"<think>" + vocab.tokens[39]  # type: ignore[operator]
    check_trie(vocab)


def test_end_tokens() -> None:
    tokenizer = byte_level(("ab", "cd"))
    tokenizer.add_special_tokens(["<|end|>", "<|eot|>"])
    vocab = Vocabulary.from_huggingface(tokenizer, eos_token_ids=[259, 258, 259])
    assert vocab.eos_token_ids == (259, 258)
    odd = Vocabulary.from_huggingface(tokenizer, eos_token_ids=[258, 257])  # a text token as an end token is no text any more
    assert odd.tokens[257] is None and odd.special_tokens == {"<|end|>": 258, "<|eot|>": 259, "cd": 257}
    assert odd.fingerprint != vocab.fingerprint
    assert Vocabulary.from_huggingface(tokenizer).eos_token_ids == ()
    for wrong in (260, [258, -1], "258", [True]):
        with pytest.raises(VocabularyError, match="end token .*: expected an id from 0 to 259"):
            Vocabulary.from_huggingface(tokenizer, eos_token_ids=wrong)  # type: ignore[arg-type]


def test_vocab_size() -> None:
    tokenizer = byte_level()
    tokenizer.add_special_tokens(["<|end|>", "<|image|>"])
    wide = Vocabulary.from_huggingface(tokenizer, vocab_size=320, eos_token_ids=256)
    assert wide.size == len(wide.tokens) == 320 and wide.tokens[256:] == [None] * 64
    assert max(wide.trie.token) == 255 and wide.slice_masks.shape[1] == 10
    narrow = Vocabulary.from_huggingface(
        tokenizer, vocab_size=257, eos_token_ids=256
    )  # an added token beyond the logits is cut
    assert narrow.size == 257 and narrow.special_tokens == {"<|end|>": 256}
    with pytest.raises(VocabularyError, match="expected at least 256, the tokenizer's own vocabulary, found 255"):
        Vocabulary.from_huggingface(tokenizer, vocab_size=255)
    with pytest.raises(VocabularyError, match="end token 256: expected an id from 0 to 255"):
        Vocabulary.from_huggingface(tokenizer, vocab_size=256, eos_token_ids=256)
    for wrong in (0, -1, True, 3.5, "x"):
        with pytest.raises(VocabularyError, match="vocab_size: expected a positive int"):
            Vocabulary.from_huggingface(tokenizer, vocab_size=wrong)  # type: ignore[arg-type]


def test_holes_in_the_ids() -> None:
    from tokenizers import decoders

    tokenizer = bpe({"a": 0, "b": 3}, decoders.ByteLevel())
    vocab = Vocabulary.from_huggingface(tokenizer)
    assert vocab.tokens == [b"a", None, None, b"b"] and vocab.special_tokens == {}


def test_byte_fallback_and_metaspace() -> None:
    from tokenizers import decoders, pre_tokenizers

    tokenizer = metaspace(["▁", "▁the", "日", "▁▁", "s", "<0xZZ>", "<0x1>"])
    tokenizer.add_tokens(["▁▁▁▁", "\n\n"])
    vocab = Vocabulary.from_huggingface(tokenizer)
    assert vocab.tokens[:257] == [None, *[bytes([b]) for b in range(256)]]
    assert vocab.tokens[257:] == [b" ", b" the", "日".encode(), b"  ", b"s", b"<0xZZ>", b"<0x1>", b"    ", b"\n\n"]
    assert vocab.special_tokens == {"<unk>": 0}
    check_trie(vocab)

    plain = metaspace(["▁", "▁the", "s"], decoders.Metaspace(), pre_tokenizers.Metaspace())
    plain.model = type(plain.model)({"<unk>": 0, "▁": 1, "▁the": 2, "s": 3}, [], unk_token="<unk>")
    assert Vocabulary.from_huggingface(plain).tokens == [None, b" ", b" the", b"s"]


def test_unigram_unknown() -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(models.Unigram([("▁", -1.0), ("[UNK]", 0.0), ("a", -1.0), ("▁b", -2.0)], unk_id=1))
    tokenizer.decoder, tokenizer.pre_tokenizer = decoders.Metaspace(), pre_tokenizers.Metaspace()
    vocab = Vocabulary.from_huggingface(tokenizer)
    assert vocab.tokens == [b" ", None, b"a", b" b"] and vocab.special_tokens == {"[UNK]": 1}


@pytest.mark.parametrize("cleanup", [False, True])
def test_word_piece(cleanup: bool) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    pieces = {p: i for i, p in enumerate(["[UNK]", "the", "##s", ".", "n't", "##", "é", "do", "not"])}
    tokenizer = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece(cleanup=cleanup)
    vocab = Vocabulary.from_huggingface(tokenizer)
    for i in range(1, len(pieces)):
        assert vocab.tokens[i] == tokenizer.decode([1, i])[3:].encode()
    assert vocab.empty_token_ids == (5,)
    assert vocab.tokens[3] == (b"." if cleanup else b" .")


def test_strip_and_per_token_steps() -> None:
    from tokenizers import decoders

    chain = decoders.Sequence(
        [decoders.Strip("_", 1, 2), decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    pieces = ["a", "_b", "__c__", "___", "▁d▁", "e_"]
    found = tokenizer_bytes.decode_each(pieces, json.loads(chain.__getstate__()), "x")
    assert found == [b"a", b"b", b"_c", b"", b" d ", b"e"]
    assert b"".join(found).decode() == chain.decode(pieces)


def refused_decoders() -> dict[str, Any]:
    tokenizers = pytest.importorskip("tokenizers")
    d = tokenizers.decoders
    return {
        "no decoder": None,
        "BPEDecoder is not supported": d.BPEDecoder(),
        "CTC is not supported": d.CTC(),
        "Replace with a regular expression": d.Replace(tokenizers.Regex("a+"), "b"),
        "Strip at the end of a text": d.Sequence([d.Fuse(), d.Strip(" ", 0, 1)]),
        "Replace across tokens": d.Sequence([d.Fuse(), d.Replace("ab", "c")]),
        "Metaspace after Fuse": d.Sequence([d.Fuse(), d.Metaspace()]),
        "Replace after bytes were decoded": d.Sequence([d.ByteFallback(), d.Replace("▁", " ")]),
    }


@pytest.mark.parametrize("why", list(refused_decoders()))
def test_refused_decoders(why: str) -> None:
    tokenizer = bpe({"a": 0, "<0x41>": 1}, refused_decoders()[why])
    with pytest.raises(VocabularyError, match=f"Tokenizer: .*{why}.*; decoder: "):
        Vocabulary.from_huggingface(tokenizer)


# ---- tokenizers that lie ---------------------------------------------------------------------------------------------


class Liar:
    """A tokenizer whose ``decode`` writes other text than its description says."""

    name_or_path = "models/liar"
    eos_token_id = None
    all_special_ids: tuple[int, ...] = ()

    def __init__(self, backend: Any, change: Callable[[str], str]) -> None:
        self.backend_tokenizer, self.change = backend, change

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return self.backend_tokenizer.encode(text, add_special_tokens=add_special_tokens).ids

    def decode(self, ids: list[int], **_: Any) -> str:
        return self.change(self.backend_tokenizer.decode(ids, skip_special_tokens=False))


def test_a_lie_about_one_token_is_found() -> None:
    honest = byte_level(("abc", "Ġxyz", "Ġend"))
    Vocabulary.from_huggingface(Liar(honest, str))
    with pytest.raises(VocabularyError) as caught:
        Vocabulary.from_huggingface(Liar(honest, lambda text: text.replace(" xyz", " xyZ")))
    message = str(caught.value)
    assert "Liar models/liar: token 257 ('Ġxyz') would be misread" in message
    assert "expected b' xyz' (20 78 79 7a)" in message and "decodes it as ' xyZ'" in message


def test_a_lie_about_bytes_is_found() -> None:
    with pytest.raises(VocabularyError, match=r"token \d+ .* would be misread: expected b'.*' \(..\), but"):
        Vocabulary.from_huggingface(Liar(byte_level(), lambda text: text.replace("ö", "o")))
    with pytest.raises(VocabularyError, match="would be misread"):
        Vocabulary.from_huggingface(Liar(metaspace(["▁"]), lambda text: text.replace("\U00018000", "?").replace("\u07ff", "?")))


def test_stripped_ends_are_found() -> None:
    with pytest.raises(VocabularyError, match="would be misread"):
        Vocabulary.from_huggingface(Liar(metaspace(["▁", "▁a", "z"]), str.rstrip))


def test_a_text_with_a_prefix_is_misread_where_it_differs() -> None:
    bytewise: Any = SimpleNamespace(label="x", tokens=[bytes([b]) for b in range(256)])
    bytewise.encode = lambda text: list(
        (" " + text.replace("\n", " ")).encode()
    )  # as SentencePiece that normalizes white space
    with pytest.raises(VocabularyError, match=r"token 32 \(b' '\) at byte [1-9]\d*: expected b'\\n"):
        tokenizer_bytes.check_encoding(bytewise, ("", " "), None)


def test_a_wrong_pre_tokenizer_is_found() -> None:
    from tokenizers import pre_tokenizers

    tokenizer = byte_level()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(split=False)  # says spaces are ▁, but the decoder is byte level
    with pytest.raises(VocabularyError, match=r"a text would be misread: .*token \d+ .*expected b.*found b"):
        Vocabulary.from_huggingface(tokenizer)


def test_tiktoken_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    tiktoken = pytest.importorskip("tiktoken")
    ranks = {bytes([b]): b for b in range(256)} | {b"he": 256, b"hel": 258}
    options = {"pat_str": r"\S+|\s+", "mergeable_ranks": ranks}
    encoding = tiktoken.Encoding("small", special_tokens={"<|endoftext|>": 260, "<|x|>": 259}, **options)
    vocab = Vocabulary.from_tiktoken(encoding)
    assert vocab.size == 261 and vocab.tokens[256:] == [b"he", None, b"hel", None, None] and vocab.eos_token_ids == (260,)
    encoding._mergeable_ranks = ranks | {b"hal": 258}
    with pytest.raises(VocabularyError, match=r"tiktoken small: token 258 .* expected b'hal' .* decodes it as b'hel'"):
        Vocabulary.from_tiktoken(encoding)
    unnamed = tiktoken.Encoding("unnamed", special_tokens={"<|x|>": 259}, **options)
    with pytest.raises(VocabularyError, match="no end token: pass eos_token_ids"):
        Vocabulary.from_tiktoken(unnamed)
    assert Vocabulary.from_tiktoken(unnamed, 300, eos_token_ids=259).size == 300


def test_not_tokenizers() -> None:
    for make in (Vocabulary.from_huggingface, Vocabulary.from_tiktoken, Vocabulary.from_mistral):
        with pytest.raises(VocabularyError, match="object: "):
            make(object())
    with pytest.raises(VocabularyError, match=r"load it first: AutoTokenizer.from_pretrained"):
        Vocabulary.from_huggingface("gpt2")
    for kind, remedy in (
        ("Encoding", "Vocabulary.from_tiktoken"),
        ("SentencePieceProcessor", r"SentencePieceTokenizer\(file\)"),
    ):
        with pytest.raises(VocabularyError, match=remedy):
            Vocabulary.from_huggingface(type(kind, (), {})())
    with pytest.raises(VocabularyError, match=r"as tiktoken.get_encoding\(…\) gives it"):
        Vocabulary.from_tiktoken("cl100k_base")


# ---- slow tokenizers -------------------------------------------------------------------------------------------------


def test_slow_sentencepiece(built: Callable[[str], tuple[Any, Vocabulary]]) -> None:
    slow = pytest.importorskip("transformers.tokenization_utils_sentencepiece").SentencePieceBackend

    class Slow(slow):  # type: ignore[misc,valid-type]
        def convert_tokens_to_string(self, tokens: list[str]) -> str:
            return self.sp_model.decode(tokens)

    options = {
        "vocab_file": str(data.mistral_sentencepiece_path()),
        "unk_token": "<unk>",
        "bos_token": "<s>",
        "eos_token": "</s>",
    }
    vocab = Vocabulary.from_huggingface(Slow(**options), cache=False)
    assert vocab.tokens == built("mistral_v3")[1].tokens and vocab.eos_token_ids == (2,)
    with pytest.raises(VocabularyError, match="token 771 .'<0x00>'. would be misread"):  # the plain class writes "<0x00>"
        Vocabulary.from_huggingface(slow(**options), cache=False)


def test_unknown_slow_tokenizer() -> None:
    class Slow:
        def get_vocab(self) -> dict[str, int]:
            return {"a": 0}

    with pytest.raises(VocabularyError, match="Slow: this slow tokenizer does not say which bytes its tokens stand for"):
        Vocabulary.from_huggingface(Slow())
    slow = Slow()
    slow.byte_decoder = tokenizer_bytes.byte_level_alphabet()  # type: ignore[attr-defined]
    assert tokenizer_sources._slow_decoder(slow, "x") == {"type": "ByteLevel"}


# ---- plain bytes -----------------------------------------------------------------------------------------------------


def test_from_bytes() -> None:
    tokens = [b"a", b"</s>", b"", b"a", None, b"<tool>", '"é'.encode(), b"\xc3", b"ab"]
    vocab = Vocabulary.from_bytes(tokens, eos_token_ids=[1, 10], special_token_ids=[5], vocab_size=12)
    assert vocab.tokens == [b"a", None, b"", b"a", None, None, '"é'.encode(), b"\xc3", b"ab", None, None, None]
    assert vocab.special_tokens == {"</s>": 1, "<tool>": 5} and vocab.eos_token_ids == (1, 10)
    assert vocab.empty_token_ids == (2,) and vocab.max_token_bytes == 3
    assert vocab.decode([0, 1, 6, 11, 8]) == 'a"éab'.encode()
    check_trie(vocab)
    for wrong in (-1, 12):
        with pytest.raises(VocabularyError, match=f"token {wrong}: expected an id from 0 to 11"):
            vocab.decode([0, wrong])


def test_from_bytes_errors() -> None:
    with pytest.raises(VocabularyError, match="token 1: expected bytes or None, found str"):
        Vocabulary.from_bytes([b"a", "b"])  # type: ignore[list-item]
    with pytest.raises(VocabularyError, match="at least one token"):
        Vocabulary.from_bytes([])
    with pytest.raises(VocabularyError, match="expected at least 2"):
        Vocabulary.from_bytes([b"a", b"b"], vocab_size=1)
    with pytest.raises(VocabularyError, match="vocab_size: expected a positive int, found '3'"):
        Vocabulary.from_bytes([b"a", b"b"], vocab_size="3")  # type: ignore[arg-type]
    with pytest.raises(VocabularyError, match="expected an id from 0 to 1"):
        Vocabulary.from_bytes([b"a", b"b"], special_token_ids=[2])
    with pytest.raises(VocabularyError, match="end token '</s>': expected an id from 0 to 1"):
        Vocabulary.from_bytes([b"a", b"b"], eos_token_ids="</s>")
    with pytest.raises(VocabularyError, match="expected a list of bytes, the token's id being its index, found dict"):
        Vocabulary.from_bytes({b"a": 1, b"b": 0})  # type: ignore[arg-type]


PIECES = [
    b"a",
    b'"',
    b"\\",
    b"\x00",
    b"\x1f",
    b"\x7f",
    b" ",
    "é".encode(),
    "日".encode(),
    "😀".encode(),
    "\u2028".encode(),
    "\u202a".encode(),
    b"\xc3",
    b"\xa9",
    b"\xed\xa0\x80",
]


@given(st.lists(st.one_of(st.none(), st.lists(st.sampled_from(PIECES), max_size=4).map(b"".join)), min_size=1, max_size=40))
@settings(max_examples=200, deadline=None)
def test_any_vocabulary(tokens: list[bytes | None]) -> None:
    check_trie(Vocabulary.from_bytes(tokens))


def test_many_characters() -> None:
    vocab = Vocabulary.from_bytes([b"x" * n for n in range(1, 101)])
    assert vocab.slice_chars == 100 and len(vocab.slice_masks) == 65
    assert len(bits(vocab.slice_masks[63])) == 63 and len(bits(vocab.slice_masks[64])) == 100
    check_trie(vocab)


def test_fingerprint() -> None:
    base = Vocabulary.from_bytes([b"a", b"bc", None], eos_token_ids=2)
    assert base.fingerprint == Vocabulary.from_bytes([b"a", b"bc", None], eos_token_ids=2).fingerprint
    others = [
        Vocabulary.from_bytes([b"ab", b"c", None], eos_token_ids=2),
        Vocabulary.from_bytes([b"a", b"bc", b""]),
        Vocabulary.from_bytes([b"a", b"bc", None]),
        Vocabulary.from_bytes([b"a", b"bc", None, None], eos_token_ids=2),
        Vocabulary.from_bytes([b"a", b"bc", b"x"], eos_token_ids=2),
    ]
    assert len({base.fingerprint, *(o.fingerprint for o in others)}) == 6 and len(base.fingerprint) == 64


def test_vocabularies_that_leave_masks_empty() -> None:
    """The warning comes once, when they are made, and names the remedy. Their masks are really empty."""
    import cdplugin as cd

    with pytest.warns(
        VocabularyWarning, match="no end token: where a text can only end, no token is allowed; give eos_token_ids"
    ):
        endless = Vocabulary.from_bytes([b"a"])
    with pytest.warns(VocabularyWarning, match=r"1 bytes occur only inside longer tokens \('b'\)") as told:
        inner = Vocabulary.from_bytes([b"ab", b"a", b"</s>"], eos_token_ids=2)
    assert len(told) == 1 and told[0].filename == __file__
    for vocab, pattern, text in ((endless, "a", b"a"), (inner, "ab", b"a")):
        matcher = cd.Compiler(vocab).compile(cd.Regex(pattern)).matcher()
        row = np.full((1, 1), -1, np.int32)
        assert matcher.accept_tokens([vocab.tokens.index(text)]) == 1
        matcher.fill_next_token_bitmask(row)
        assert not row.any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        good = Vocabulary.from_bytes([b"a", b"ab", b"b", b"</s>"], eos_token_ids=3)
        assert good.shortcomings() == []
        pickle.loads(pickle.dumps(inner))  # told before


# ---- the cache -------------------------------------------------------------------------------------------------------

WORDS = [b"a", b"b", b"ab", b"ab", b'"x', "é".encode(), b"\xc3"]


def same_arrays(a: Vocabulary, b: Vocabulary) -> bool:
    pairs = [(getattr(a.trie, n), getattr(b.trie, n)) for n in ("byte", "depth", "skip", "token")]
    pairs += [(a.max_chars, b.max_chars), (a.slice_masks, b.slice_masks)]
    return a.slice_end == b.slice_end and all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in pairs)


def test_cache_hit_is_the_same(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = Vocabulary.from_bytes(WORDS)
    assert len(list(cache_folder.iterdir())) == 1
    monkeypatch.setattr(Vocabulary, "_build", lambda self: pytest.fail("built although cached"))
    again = Vocabulary.from_bytes(WORDS)
    assert same_arrays(fresh, again)
    check_trie(again)


def test_cache_off_and_small(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = Vocabulary.from_bytes(WORDS, cache=False)
    assert not cache_folder.exists()
    assert same_arrays(fresh, Vocabulary.from_bytes(WORDS))
    monkeypatch.setattr(vocab_module, "_CACHED_SIZE", 8)
    Vocabulary.from_bytes([*WORDS[:3]])
    assert len(list(cache_folder.iterdir())) == 1


def test_every_key_is_its_own(cache_folder: Path) -> None:
    Vocabulary.from_bytes(WORDS)
    Vocabulary.from_bytes(WORDS, vocab_size=9)
    Vocabulary.from_bytes(WORDS, eos_token_ids=1)
    Vocabulary.from_bytes(WORDS[::-1])
    assert len(list(cache_folder.iterdir())) == 4


@pytest.mark.parametrize("damage", ["empty", "cut", "one byte", "magic", "longer", "folder", "text"])
def test_damaged_cache_is_ignored_and_rewritten(damage: str, cache_folder: Path) -> None:
    fresh = Vocabulary.from_bytes(WORDS)
    (path,) = cache_folder.iterdir()
    good = path.read_bytes()
    middle = len(good) // 2
    bad = {
        "empty": b"",
        "cut": good[:middle],
        "one byte": good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :],
        "magic": b"X" + good[1:],
        "longer": good + b"\0",
        "text": b"not a vocabulary at all" * 20,
    }
    if damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(bad[damage])
    assert load_arrays(f"vocab/{path.name}") is None
    assert same_arrays(fresh, Vocabulary.from_bytes(WORDS))
    if damage != "folder":
        assert path.read_bytes() == good
    assert [p.name for p in cache_folder.iterdir()] == [path.name]  # no temporary file is left


def test_unwritable_cache(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache_folder.write_text("in the way")
    monkeypatch.setattr(cache_files, "_has_warned", False)
    with pytest.warns(cache_files.CacheWarning):
        assert not save_arrays("vocab/x.bin", {"byte": np.zeros(3, np.uint8)})
    assert load_arrays("vocab/x.bin") is None
    assert same_arrays(Vocabulary.from_bytes(WORDS), Vocabulary.from_bytes(WORDS, cache=False))


def _build_often(folder: str) -> bool:
    cache_files.cache_folders = lambda: cache_files.Folders((Path(folder),), Path(folder), ())  # type: ignore[assignment]
    vocab_module._CACHED_SIZE = 1  # type: ignore[misc]
    fresh = Vocabulary.from_bytes(WORDS, cache=False)
    for _ in range(30):
        if not same_arrays(fresh, Vocabulary.from_bytes(WORDS)):
            return False
        for path in Path(folder, "vocab").glob("*.bin"):
            path.unlink(missing_ok=True)
    return True


def test_concurrent_processes(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert all(pool.map(_build_often, [str(tmp_path)] * 2))
    assert not list(tmp_path.glob("vocab/.writing-*"))


def test_self_check_belongs_to_the_key(cache_folder: Path) -> None:
    from tokenizers import pre_tokenizers

    tokenizer = byte_level()
    Vocabulary.from_huggingface(tokenizer)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    with pytest.raises(VocabularyError, match="misread"):  # the same tokens, but another description: checked again
        Vocabulary.from_huggingface(tokenizer)


def test_import_is_light() -> None:
    code = "import sys, cdplugin.vocab.vocabulary; "
    code += "bad = {'torch', 'transformers', 'tokenizers', 'tiktoken'} & set(sys.modules); assert not bad, bad"
    root = Path(vocab_module.__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root, env={**os.environ, "PYTHONPATH": str(root)})
