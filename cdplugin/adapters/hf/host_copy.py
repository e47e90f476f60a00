"""Tensors copied to the host while the device works on."""

from __future__ import annotations

import torch


class HostCopy:
    """A copy of ``tensor`` on the host, begun at once. Making it does not wait for the device. A tensor of the host is not
    copied.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self._host = tensor
        self._event: torch.cuda.Event | None = None
        if tensor.device.type == "cuda":
            self._host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            self._host.copy_(tensor, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record(torch.cuda.current_stream(tensor.device))

    def wait(self) -> torch.Tensor:
        """The copy, once it is complete. Waits for what the device was given before it, not for what came later."""
        if self._event is not None:
            self._event.synchronize()
        return self._host.cpu()
