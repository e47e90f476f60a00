"""Hugging Face transformers: :class:`GrammarLogitsProcessor` for ``generate()``, and continuous batching."""

from __future__ import annotations

from cdplugin.adapters.hf.processor import GrammarLogitsProcessor

__all__ = ["GrammarLogitsProcessor"]
