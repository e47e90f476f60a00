"""llama-cpp-python: constrained generation through its ``LogitsProcessorList``.

    grammar = cd.Compiler(vocabulary(llama)).compile(spec)
    llama(prompt, **constrained(llama, grammar, max_tokens=200))  # the text ends legally within 200 tokens

llama.cpp calls a processor from C, where an exception is printed and lost, and the step goes on without a mask. So the
processor never raises: after a failure it allows only end tokens, and a stopping criterion raises the error in Python, where
it reaches the caller. :func:`constrained` returns both.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from cdplugin.adapters.contexts import OneText
from cdplugin.bits import bit_flags
from cdplugin.errors import CdpluginError, VocabularyError, needs
from cdplugin.vocab.vocabulary import Vocabulary

with needs("cdplugin[llama-cpp]"):
    import llama_cpp

_TEXT = llama_cpp.LLAMA_TOKEN_ATTR_NORMAL | llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED | llama_cpp.LLAMA_TOKEN_ATTR_BYTE
_LONGEST = 1 << 16


def vocabulary(llama: llama_cpp.Llama) -> Vocabulary:
    """The vocabulary of a loaded model, with the bytes that llama.cpp itself writes for each token.

    Every token that llama.cpp counts as an end of generation is an end token; control, unknown and unused tokens are special.
    Raises :class:`cdplugin.VocabularyError` if a token's bytes cannot be read.
    """
    inner = llama._model.vocab
    tokens: list[bytes | None] = []
    ends, special = [], []
    for token in range(llama.n_vocab()):
        is_end = bool(llama_cpp.llama_vocab_is_eog(inner, token))
        if is_end:
            ends.append(token)
        if is_end or not llama_cpp.llama_vocab_get_attr(inner, token) & _TEXT:
            if not is_end:
                special.append(token)
            tokens.append(llama_cpp.llama_vocab_get_text(inner, token) or b"")
        else:
            tokens.append(_piece(inner, token))
    return Vocabulary.from_bytes(tokens, eos_token_ids=ends, special_token_ids=special)


def _piece(vocab: Any, token: int) -> bytes:
    size = 64
    while size <= _LONGEST:
        buffer = ctypes.create_string_buffer(size)
        written = llama_cpp.llama_token_to_piece(vocab, token, buffer, size, 0, False)
        if written >= 0:
            return buffer.raw[:written]
        size = max(2 * size, -written)
    raise VocabularyError(f"token {token}: expected at most {_LONGEST} bytes")


class GrammarLogitsProcessor(OneText):
    """A logits processor for one text; after :meth:`reset`, for the next one. It never raises while it masks (see the module).

    ``max_new_tokens``: the text ends legally within that many tokens, its end token included; pass llama.cpp's ``max_tokens``
    the same number. If no text is that short, :attr:`error` says so.
    """

    def __init__(self, grammar: Any, max_new_tokens: int | None = None) -> None:
        super().__init__(grammar, max_new_tokens, "end")

    def __call__(self, input_ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Scores, float32, ``(vocabulary,)``, with forbidden tokens at minus infinity; ``input_ids``: the whole context."""
        bitmask, rows = self._masks.masks(np.asarray(input_ids).reshape(1, -1))
        if not rows:
            return scores
        return np.where(bit_flags(bitmask[0], scores.shape[-1]), scores, np.float32(-np.inf))

    def stop_on_error(self, input_ids: np.ndarray, logits: np.ndarray) -> bool:
        """A stopping criterion that never stops the generation, but raises :attr:`error` if there is one."""
        if self.error is not None:
            raise self.error
        return False


def constrained(llama: llama_cpp.Llama, grammar: Any, max_tokens: int | None = None) -> dict[str, Any]:
    """The arguments ``logits_processor`` and ``stopping_criteria`` for one call of the model, ``create_completion`` or
    ``generate``. With ``max_tokens``, that argument as well, and the text ends legally within it.

    Raises :class:`cdplugin.CdpluginError` for a model with a draft model, and ``ValueError`` for a grammar of another
    vocabulary. For ``create_chat_completion`` pass ``logits_processor`` only: it takes no stopping criteria.
    """
    if llama.draft_model is not None:
        raise CdpluginError(
            "llama-cpp-python: expected a model without draft_model: with one, a processor is not told which of the drafts it "
            "is asked about"
        )
    if grammar.vocab.size != llama.n_vocab():
        raise ValueError(f"grammar: expected a vocabulary of {llama.n_vocab()} tokens, found {grammar.vocab.size}")
    processor = GrammarLogitsProcessor(grammar, max_tokens)
    return {
        **({} if max_tokens is None else {"max_tokens": max_tokens}),
        "logits_processor": llama_cpp.LogitsProcessorList([processor]),
        "stopping_criteria": llama_cpp.StoppingCriteriaList([processor.stop_on_error]),
    }
