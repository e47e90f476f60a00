"""Adapters: cdplugin inside the decoding loops of other libraries.

Each adapter imports its library; the core imports no adapter. ``hf``, ``vllm`` and ``sglang`` are packages; ``serving`` holds
what the two servers share. ``mlx``, ``llama_cpp``, ``outlines`` and ``tensorrt_llm`` are one module each, on top of
``contexts`` (masks for hosts that pass the whole context at each call) and ``prefixes`` (which matcher belongs to which row).
``diffusion`` has decoding loops that fill canvases and gaps. ``vllm_logits`` is a second import path of one class.
"""
