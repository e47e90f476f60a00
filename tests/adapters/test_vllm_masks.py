"""Bitmasks that vLLM applies on the CPU: cdplugin's kernel gives the same logits as xgrammar's, which is used elsewhere."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from cdplugin.adapters.vllm import masks  # noqa: E402


class Others:
    """A stand-in for the module ``xgrammar``."""

    name = "xgrammar"

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def apply_token_bitmask_inplace(self, logits: Any, bitmask: Any, **named: Any) -> None:
        self.asked.append(named)


def module_with(monkeypatch: pytest.MonkeyPatch, **names: Any) -> ModuleType:
    module = ModuleType("of_vllm")
    vars(module).update(names)
    monkeypatch.setitem(sys.modules, "of_vllm", module)
    masks.install("of_vllm")
    return module


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("indices", [None, [2], [0, 1]])
def test_logits_on_the_cpu_are_masked_here(dtype: str, indices: list[int] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    others = Others()
    module = module_with(monkeypatch, xgr=others)
    logits = torch.arange(3 * 64).reshape(3, 64).to(getattr(torch, dtype))
    bitmask = torch.tensor([[5, 0], [-1, -1], [0, 1 << 30]], dtype=torch.int32)
    expected = logits.clone()
    for row in range(3) if indices is None else indices:
        for token in range(64):
            if not int(bitmask[row, token // 32]) >> token % 32 & 1:
                expected[row, token] = -torch.inf
    module.xgr.apply_token_bitmask_inplace(logits, bitmask, indices=indices)
    assert torch.equal(logits, expected)
    assert not others.asked and module.xgr.name == "xgrammar"


@pytest.mark.parametrize(
    ("dtype", "device", "named"), [("float64", "cpu", {}), ("float32", "meta", {}), ("float32", "cpu", {"vocab_size": 9})]
)
def test_xgrammar_masks_the_others(dtype: str, device: str, named: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    others = Others()
    module = module_with(monkeypatch, xgr=others)
    logits = torch.zeros(1, 32, dtype=getattr(torch, dtype), device=device)
    module.xgr.apply_token_bitmask_inplace(logits, torch.zeros(1, 1, dtype=torch.int32, device=device), **named)
    assert others.asked == [{"indices": None, **named}]


def test_a_module_is_changed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    module = module_with(monkeypatch, xgr=Others())
    before = module.xgr
    masks.install("of_vllm")
    assert module.xgr is before
    assert not hasattr(module_with(monkeypatch), "xgr")
