"""The public path of the logits processor: ``logits_processors=["cdplugin.adapters.vllm.logits:GrammarLogitsProcessor"]``."""

from __future__ import annotations

from cdplugin.adapters.vllm.logits import GrammarLogitsProcessor

__all__ = ["GrammarLogitsProcessor"]
