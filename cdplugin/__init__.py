"""cdplugin: constrained decoding for Hugging Face ``generate()`` and vLLM, with Numba kernels."""
