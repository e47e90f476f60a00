"""A Hugging Face model for the playground's button: loaded on a thread, answers under a grammar."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from cdplugin.errors import CdpluginError

if TYPE_CHECKING:
    from cdplugin.matcher import Grammar
    from cdplugin.queries.trace import Trace
    from cdplugin.vocab.vocabulary import Vocabulary


class Model:
    """A model and its tokenizer. ``state``: ``loading``, ``ready``, or what went wrong."""

    def __init__(self, name: str) -> None:
        from transformers import AutoConfig, AutoTokenizer

        self.name = name.rstrip("/").rpartition("/")[2]
        self.state = "loading"
        self._path = name
        self._tokenizer: Any = AutoTokenizer.from_pretrained(name)
        self._width: int = AutoConfig.from_pretrained(name).vocab_size
        self._model: Any = None
        self._thread = threading.Thread(target=self._load, name="cdplugin-model", daemon=True)

    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the model's tokenizer, as wide as its logits."""
        from cdplugin.vocab.vocabulary import Vocabulary

        return Vocabulary.from_huggingface(self._tokenizer, self._width)

    def load(self) -> None:
        """Begin to load the weights."""
        self._thread.start()

    def _load(self) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        # a core is left to the page; and threads of a pool that wait for each other on busy cores are slower than one
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))
        try:
            self._model = AutoModelForCausalLM.from_pretrained(self._path, dtype=torch.float32).eval()  # it stays on the CPU
            self.state = "ready"
        except Exception as error:  # whatever a model folder may hold; the page shows it
            self.state = f"failed: {type(error).__name__}: {str(error)[:200]}"

    def answer(self, grammar: Grammar, prompt: str, most: int) -> Trace:
        """The greedy answer to a prompt under a grammar, at most ``most`` tokens, legal within them. Raises CdpluginError."""
        import torch

        from cdplugin.adapters.hf.processor import GrammarLogitsProcessor

        if self._model is None:
            raise CdpluginError(f"the model is not ready: {self.state}")
        processor = GrammarLogitsProcessor(grammar, max_new_tokens=most, trace=True)
        inputs = self._tokenizer(self._chat(prompt), return_tensors="pt", truncation=True, max_length=1024)
        with torch.inference_mode():
            output = self._model.generate(**inputs, logits_processor=[processor], max_new_tokens=most, do_sample=False)
        return processor.trace(0, output[0])

    def _chat(self, prompt: str) -> str:
        if not getattr(self._tokenizer, "chat_template", None):
            return prompt
        messages = [{"role": "user", "content": prompt}]
        return self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
