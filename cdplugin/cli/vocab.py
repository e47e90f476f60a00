"""Load the vocabulary that a command line names: ``byte``, a model folder, a hub name, or a tokenizer file."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cdplugin.errors import VocabularyError, needs
from cdplugin.vocab.vocabulary import Vocabulary
from cdplugin.warmup import byte_vocabulary

HELP = "byte (default: the 256 bytes), a model folder or hub name, a tokenizer.json, a tekken.json, a SentencePiece .model"


def load_vocabulary(name: str, vocab_size: int | None = None, end: Sequence[int] = ()) -> Vocabulary:
    """The vocabulary called ``name``. ``end``: end token ids, if the tokenizer does not know them. Raises VocabularyError."""
    if name == "byte":
        if vocab_size is not None or end:
            raise VocabularyError(
                "tokenizer byte: expected neither --vocab-size nor --end: it has the 256 bytes and an end token of its own"
            )
        return byte_vocabulary()
    ids = list(end) or None
    path = Path(name)
    if path.is_file():
        return _from_file(path, vocab_size, ids)
    is_file_name = name.startswith((".", "/", "~")) or name.endswith((".json", ".model")) or name.count("/") > 1
    if is_file_name and not path.is_dir():
        raise VocabularyError(f"tokenizer: expected {HELP}, found no such file or folder: {name}")
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise VocabularyError(f"tokenizer {name}: transformers is not installed: pip install 'cdplugin[hf]'") from None
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    except Exception as error:  # whatever a folder's files may hold
        raise VocabularyError(f"tokenizer {name}: {said(error)}") from None
    return Vocabulary.from_huggingface(tokenizer, vocab_size, eos_token_ids=ids)


def _from_file(path: Path, vocab_size: int | None, end: list[int] | None) -> Vocabulary:
    if path.suffix == ".json":
        try:
            content: Any = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise VocabularyError(f"tokenizer {path}: not JSON: {error}") from None
        if isinstance(content, dict) and "model" in content:
            with _refusing(path, "a tokenizer.json", "cdplugin[hf]"):
                from tokenizers import Tokenizer

                read = Tokenizer.from_file(str(path))
            return Vocabulary.from_huggingface(read, vocab_size, eos_token_ids=end)
        if isinstance(content, dict) and "vocab" in content and "config" in content:
            with _refusing(path, "a tekken.json", "mistral-common"):
                from mistral_common.tokens.tokenizers.tekken import Tekkenizer

                tekken = Tekkenizer.from_file(path)
            return Vocabulary.from_mistral(tekken, vocab_size, eos_token_ids=end)
    elif path.suffix == ".model" or ".model." in path.name:
        with _refusing(path, "a SentencePiece model", "mistral-common[sentencepiece]"):
            from mistral_common.tokens.tokenizers.sentencepiece import SentencePieceTokenizer

            tokenizer = SentencePieceTokenizer(path)
        return Vocabulary.from_mistral(tokenizer, vocab_size, eos_token_ids=end)
    raise VocabularyError(f"tokenizer {path}: expected {HELP}")


def said(error: Exception) -> str:
    """What another library's error says, on one line of at most 300 characters."""
    text = " ".join(str(error).split())[:300]
    return text if text and isinstance(error, (OSError, ValueError)) else f"{type(error).__name__}: {text}"


@contextlib.contextmanager
def _refusing(path: Path, what: str, requirement: str) -> Iterator[None]:
    """A context for a library that reads a file: any exception becomes a VocabularyError, also if it is not installed."""
    try:
        with needs(requirement):
            yield
    except ModuleNotFoundError as error:
        raise VocabularyError(f"tokenizer {path}: {error}") from None
    except Exception as error:
        raise VocabularyError(f"tokenizer {path}: not {what}: {type(error).__name__}: {str(error)[:200]}") from None
