"""Hugging Face transformers: :class:`GrammarLogitsProcessor` for ``generate()``, and continuous batching.

``processor`` masks the scores of ``generate()``: ``loops`` tells what kind of loop calls it, ``budget`` ends outputs in time,
``recorder`` notes what the model preferred, ``host_copy`` copies scores while the device works on. ``batching`` is continuous
batching, ``serve`` the server of transformers.
"""

from cdplugin.errors import needs

with needs("cdplugin[hf]"):
    import torch  # noqa: F401
    import transformers  # noqa: F401

from cdplugin.adapters.hf.processor import GrammarLogitsProcessor

__all__ = ["GrammarLogitsProcessor"]
