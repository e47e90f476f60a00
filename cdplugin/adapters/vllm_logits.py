"""Another path of the logits processor: ``logits_processors=["cdplugin.adapters.vllm_logits:GrammarLogitsProcessor"]``."""

from cdplugin.adapters.vllm.logits import GrammarLogitsProcessor

__all__ = ["GrammarLogitsProcessor"]
