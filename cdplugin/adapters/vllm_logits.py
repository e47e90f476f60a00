"""A second import path of the logits processor: ``cdplugin.adapters.vllm_logits:GrammarLogitsProcessor``."""

from cdplugin.adapters.vllm.logits import GrammarLogitsProcessor

__all__ = ["GrammarLogitsProcessor"]
