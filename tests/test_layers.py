"""The plan of the house: which part may import which, and what nobody may import at the top of a file."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "cdplugin"

# part → parts whose modules it may import, itself included
ARROWS = {
    "kernels": {"kernels"},
    "base": {"base"},
    "regex": {"regex", "base"},
    "frontends": {"frontends", "regex", "base"},
    "core": {"core", "kernels", "base"},
    "specs": {"specs", "frontends", "base"},
    "matcher": {"matcher", "core", "kernels", "base"},
    "compiler": {"compiler", "matcher", "specs", "core", "kernels", "base"},
    "warmup": {"warmup", "compiler", "specs", "core", "kernels", "base"},
    "adapters": {"adapters", "package", "warmup", "compiler", "matcher", "specs", "core", "base"},
    "package": {"package", "adapters", "compiler", "matcher", "specs", "core", "base"},
    "cli": {"cli", "frontends", "package", "warmup", "compiler", "matcher", "specs", "core", "kernels", "base"},
}
BASE = {"errors", "limits", "memory", "expr", "grammar", "version"}
LIGHT = {"numpy", "numba", "llvmlite", "referencing", "cdplugin"}  # what may be imported at the top of a file
HEAVY_ALLOWED = {"adapters": {"torch", "transformers", "vllm"}, "cli": {"rich", "typer"}}


def part_of(module: str) -> str:
    """The part of the plan that ``cdplugin…`` belongs to; what has no line of its own is core."""
    names = module.split(".")[1:]
    if not names:
        return "package"
    first = names[0]
    if first in ("kernels", "frontends", "adapters"):
        return first
    if first in BASE:
        return "base"
    if first.startswith(("regex", "alphabet", "unicode")):
        return "regex"
    if first == "explain":
        return "matcher"
    if first == "admission":
        return "compiler"
    if first.startswith("cli"):
        return "cli"
    if first.startswith("specs") or first == "grammars":
        return "specs"
    if first == "__main__":
        return "cli"
    return first if first in ARROWS else "core"


def imports(tree: ast.Module, module: str, is_package: bool) -> Iterator[tuple[str, int, bool]]:
    """``(module, line, at the top of the file)`` of every import that runs; those under TYPE_CHECKING do not."""
    pending: list[tuple[ast.AST, bool]] = [(tree, True)]
    while pending:
        node, top = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            pending.extend((child, top) for child in node.orelse)
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, top
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                names = module.split(".")
                names = names[: len(names) - node.level + is_package]
                base = ".".join([*names, base] if base else names)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                is_module = (ROOT / inner.replace(".", "/")).is_dir() or (ROOT / (inner.replace(".", "/") + ".py")).exists()
                yield (inner if is_module else base), node.lineno, top
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        pending.extend((child, top and not inside) for child in ast.iter_child_nodes(node))


def sources() -> list[tuple[str, Path]]:
    out = []
    for path in sorted(PACKAGE.rglob("*.py")):
        names = [PACKAGE.name, *path.relative_to(PACKAGE).with_suffix("").parts]
        out.append((".".join(names[:-1] if names[-1] == "__init__" else names), path))
    return out


def faults(module: str, path: Path) -> list[str]:
    part, out = part_of(module), []
    for target, line, top in imports(ast.parse(path.read_text()), module, path.name == "__init__.py"):
        first = target.split(".")[0]
        if first == "cdplugin":
            if part_of(target) not in ARROWS[part]:
                out.append(f"{path.relative_to(ROOT)}:{line}: {part} must not import {target} ({part_of(target)})")
        elif part == "kernels" and first not in sys.stdlib_module_names | {"numpy", "numba"}:
            if not path.name.endswith("_triton.py"):
                out.append(f"{path.relative_to(ROOT)}:{line}: kernels import NumPy and Numba only, found {target}")
        elif top and first not in sys.stdlib_module_names | LIGHT | HEAVY_ALLOWED.get(part, set()):
            out.append(f"{path.relative_to(ROOT)}:{line}: import {target} inside the function that needs it")
    return out


@pytest.mark.parametrize(("module", "path"), sources(), ids=[m for m, _ in sources()])
def test_arrows(module: str, path: Path) -> None:
    assert not faults(module, path)


def test_the_check_can_fail(tmp_path: Path) -> None:
    path = PACKAGE / "kernels" / "x.py"
    text = "import torch\nfrom cdplugin.matcher import Matcher\nfrom ..errors import GrammarError\nimport numba, math\n"
    found = [t for t, _, _ in imports(ast.parse(text), "cdplugin.kernels.x", False)]
    assert sorted(found) == ["cdplugin.errors", "cdplugin.matcher", "math", "numba", "torch"]
    assert {part_of(t) for t in found if t.startswith("cdplugin")} - ARROWS["kernels"] == {"base", "matcher"}
    assert path.parent.is_dir() and not path.exists()
    inner = "def f():\n    import torch\nif TYPE_CHECKING:\n    import vllm\nelse:\n    import json\n"
    assert sorted((t, top) for t, _, top in imports(ast.parse(inner), "cdplugin.x", False)) == [
        ("json", True),
        ("torch", False),
    ]


def test_import_is_light() -> None:
    """`import cdplugin` must be ready in well under a second: none of the heavy libraries comes with it."""
    heavy = ["torch", "transformers", "triton", "vllm", "jsonschema", "rich", "typer", "matplotlib", "pydantic", "scipy"]
    code = f"import sys, cdplugin, cdplugin.cli; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
