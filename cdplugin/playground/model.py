"""The model behind the playground's button: a Hugging Face model, loaded on a thread, that answers under a grammar."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cdplugin.errors import CdpluginError

if TYPE_CHECKING:
    from cdplugin.matcher import Grammar
    from cdplugin.queries.trace import Trace
    from cdplugin.vocab.vocabulary import Vocabulary


_MOST_PROMPT = 1024
"""Most tokens of a prompt; fewer if the model's context is shorter."""


@contextlib.contextmanager
def _shown() -> Iterator[None]:
    """A context in which any exception of a model folder's code becomes a ``ValueError``, which the page shows."""
    try:
        yield
    except CdpluginError:
        raise
    except Exception as error:
        raise ValueError(f"the model failed: {type(error).__name__}: {str(error)[:200]}") from error


class Model:
    """A model and its tokenizer. ``state``: ``loading``, ``ready``, or what went wrong."""

    def __init__(self, name: str) -> None:
        from transformers import AutoConfig, AutoTokenizer

        self.name = name.rstrip("/").rpartition("/")[2]
        self.state = "loading"
        self._path = name
        self._tokenizer: Any = AutoTokenizer.from_pretrained(name)
        config = AutoConfig.from_pretrained(name)
        self._width: int = config.vocab_size
        self._context: int = getattr(config, "max_position_embeddings", None) or _MOST_PROMPT
        self._model: Any = None
        self._thread = threading.Thread(target=self._load, name="cdplugin-model", daemon=True)

    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the model's tokenizer, as wide as its logits."""
        from cdplugin.vocab.vocabulary import Vocabulary

        return Vocabulary.from_huggingface(self._tokenizer, self._width)

    def load(self) -> None:
        """Start loading the weights, on a thread."""
        self._thread.start()

    def _load(self) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        # Leave cores to the page; a pool's threads that wait for each other on busy cores are slower than one thread.
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))
        try:
            self._model = AutoModelForCausalLM.from_pretrained(self._path, dtype=torch.float32).eval()  # it stays on the CPU
            self.state = "ready"
        except Exception as error:  # whatever a model folder may hold; the page shows it
            self.state = f"failed: {type(error).__name__}: {str(error)[:200]}"

    def answer(self, grammar: Grammar, prompt: str, most: int) -> Trace:
        """The greedy answer to a prompt under a grammar: legal, and at most ``most`` tokens long.

        Raises CdpluginError, and ``ValueError`` for a prompt without tokens and for whatever the model itself raises.
        """
        import torch

        from cdplugin.adapters.hf.processor import GrammarLogitsProcessor

        if self._model is None:
            raise CdpluginError(f"the model is not ready: {self.state}")
        processor = GrammarLogitsProcessor(grammar, max_new_tokens=most, trace=True)
        most_prompt = max(1, min(_MOST_PROMPT, self._context - most))
        with _shown():
            inputs = self._tokenizer(self._chat(prompt), return_tensors="pt", truncation=True, max_length=most_prompt)
        if not inputs["input_ids"].shape[1]:
            raise ValueError("prompt: expected at least a token, found none")
        with _shown(), torch.inference_mode():
            output = self._model.generate(**inputs, logits_processor=[processor], max_new_tokens=most, do_sample=False)
        return processor.trace(0, output[0])

    def _chat(self, prompt: str) -> str:
        if not getattr(self._tokenizer, "chat_template", None):
            return prompt
        messages = [{"role": "user", "content": prompt}]
        return self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
