"""Pipeline parallelism on a CPU, where vLLM 0.32's CPU runner makes no buffers for what one stage hands to the next.

The GPU runner makes them in a profiling run that the CPU runner leaves out, so any request ends the engine there, with
structured outputs or without. Each worker imports this module by ``--worker-extension-cls vllm_pipeline.Nothing``.
"""

from __future__ import annotations

from typing import Any

from vllm.v1.worker.gpu_model_runner import GPUModelRunner

_original = GPUModelRunner.sync_and_gather_intermediate_tensors


def _with_buffers(self: Any, *arguments: Any, **named: Any) -> Any:
    if self.intermediate_tensors is None:
        self.intermediate_tensors = self.model.make_empty_intermediate_tensors(
            batch_size=self.max_num_tokens, dtype=self.model_config.dtype, device=self.device
        )
    return _original(self, *arguments, **named)


GPUModelRunner.sync_and_gather_intermediate_tensors = _with_buffers


class Nothing:
    """The class that a worker is extended by."""
