"""A vocabulary from what a command line names: ``byte``, a model folder, a hub name, or a tokenizer file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cdplugin.errors import VocabularyError
from cdplugin.vocab.vocabulary import Vocabulary
from cdplugin.warmup import byte_vocabulary

HELP = "byte (default: the 256 bytes), a model folder or hub name, a tokenizer.json, a tekken.json, a SentencePiece .model"


def load_vocabulary(name: str, vocab_size: int | None = None, end: Sequence[int] = ()) -> Vocabulary:
    """The vocabulary called ``name``; ``end``: end token ids, where the tokenizer does not say. Raises VocabularyError."""
    if name == "byte":
        return byte_vocabulary()
    ids = list(end) or None
    path = Path(name)
    if path.is_file():
        return _from_file(path, vocab_size, ids)
    if not path.is_dir() and (name.startswith((".", "/", "~")) or name.count("/") > 1):
        raise VocabularyError(f"tokenizer: expected {HELP}, found no such file or folder: {name}")
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise VocabularyError(f"tokenizer {name}: transformers is not installed: pip install 'cdplugin[hf]'") from None
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise VocabularyError(f"tokenizer {name}: {str(error).splitlines()[0]}") from None
    return Vocabulary.from_huggingface(tokenizer, vocab_size, eos_token_ids=ids)


def _from_file(path: Path, vocab_size: int | None, end: list[int] | None) -> Vocabulary:
    if path.suffix == ".json":
        try:
            content: Any = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise VocabularyError(f"tokenizer {path}: not JSON: {error}") from None
        if isinstance(content, dict) and "model" in content:
            from tokenizers import Tokenizer

            return Vocabulary.from_huggingface(Tokenizer.from_file(str(path)), vocab_size, eos_token_ids=end)
        if isinstance(content, dict) and "vocab" in content and "config" in content:
            from mistral_common.tokens.tokenizers.tekken import Tekkenizer

            return Vocabulary.from_mistral(Tekkenizer.from_file(path), vocab_size, eos_token_ids=end)
    elif path.suffix == ".model" or ".model." in path.name:
        from mistral_common.tokens.tokenizers.sentencepiece import SentencePieceTokenizer

        try:
            tokenizer = SentencePieceTokenizer(path)
        except Exception as error:
            raise VocabularyError(f"tokenizer {path}: not a SentencePiece model: {str(error)[:200]}") from None
        return Vocabulary.from_mistral(tokenizer, vocab_size, eos_token_ids=end)
    raise VocabularyError(f"tokenizer {path}: expected {HELP}")
