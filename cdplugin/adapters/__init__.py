"""Adapters: cdplugin inside other libraries' decoding loops. Each imports its library; none is imported by the core.

``hf``, ``vllm`` and ``sglang`` are folders; ``serving`` is what servers have in common. ``mlx``, ``llama_cpp``, ``outlines``
and ``tensorrt_llm`` are a file each, over ``contexts`` (hosts that show a processor the whole context) and ``prefixes`` (which
matcher belongs to which row). ``diffusion`` has decoding loops for canvases and gaps. ``vllm_logits`` is another path of a
class.
"""
