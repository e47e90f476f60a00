"""Hugging Face transformers: :class:`GrammarLogitsProcessor` for ``generate()``, and continuous batching."""

from cdplugin.errors import needs

with needs("cdplugin[hf]"):
    import torch  # noqa: F401
    import transformers  # noqa: F401

from cdplugin.adapters.hf.processor import GrammarLogitsProcessor

__all__ = ["GrammarLogitsProcessor"]
