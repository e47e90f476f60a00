"""The layers of the code: which part may import which, and what no file may import at its top."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "cdplugin"

KERNELS = ("kernels.jit", "kernels.store", "kernels.regex", "kernels.lexer", "kernels.parser", "kernels.masks", "kernels.entry")
GROUND = ("errors", "limits", "tally", "memory", "forking", "bits", "walks", "expr", "ir")

# folder (or file of the ground floor) → folders that it may import besides itself: arrows go down only
ARROWS: dict[str, set[str]] = {
    "kernels.jit": set(),
    "kernels.store": {"kernels.jit"},
    "kernels.regex": {"kernels.jit", "kernels.store"},
    "kernels.lexer": {"kernels.jit", "kernels.store", "kernels.regex"},
    "kernels.parser": {"kernels.jit", "kernels.store", "kernels.regex", "kernels.lexer"},
    "kernels.masks": {"kernels.jit", "kernels.store", "kernels.regex", "kernels.lexer", "kernels.parser"},
    "kernels.entry": {"kernels.jit", "kernels.store", "kernels.regex", "kernels.lexer", "kernels.parser", "kernels.masks"},
    "kernels.infill": {"kernels.jit", "kernels.store", "kernels.lexer", "kernels.masks"},
    "errors": set(),
    "bits": set(),
    "walks": set(),
    "limits": {"errors"},
    "tally": {"errors", "limits"},
    "memory": {"tally", "forking"},
    "forking": set(),
    "collector": set(),
    "expr": {"tally", "memory", "walks"},
    "ir": {"errors", "limits", "expr"},
    "bitmask": {"bits", "errors", "kernels.masks"},
    "regex": {*GROUND},
    "frontends.productive": set(),
    "frontends.regular": {*GROUND},
    "frontends.cycles": {*GROUND, "frontends.productive"},
    "frontends.repeats": {*GROUND},
    "frontends.spelling": {*GROUND},
    "frontends.source": {"errors", "limits"},
    "frontends.literals": {*GROUND, "regex"},
    "frontends.keywords": {*GROUND, "regex"},
    "frontends.free_text": {*GROUND, "frontends.keywords", "frontends.spelling"},
    "frontends.json_schema": {*GROUND, "languages", "regex", "frontends.productive", "frontends.repeats"},
    "frontends.lark": {
        *GROUND,
        "regex",
        "frontends.cycles",
        "frontends.json_schema",
        "frontends.productive",
        "frontends.regular",
        "frontends.repeats",
        "frontends.source",
    },
    "frontends.bnf": {
        *GROUND,
        "regex",
        "frontends.lark",
        "frontends.cycles",
        "frontends.free_text",
        "frontends.productive",
        "frontends.regular",
        "frontends.repeats",
        "frontends.source",
    },
    "frontends.tags": {
        *GROUND,
        "regex",
        "frontends.json_schema",
        "frontends.bnf",
        "frontends.lark",
        "frontends.free_text",
        "frontends.literals",
        "frontends.repeats",
        "frontends.spelling",
    },
    "specs": {
        *GROUND,
        "frontends.json_schema",
        "frontends.lark",
        "frontends.bnf",
        "frontends.tags",
        "frontends.free_text",
        "frontends.literals",
        "frontends.spelling",
    },
    "grammars": {"errors", "specs"},
    "vocab": {"bits", "errors", "kernels.jit", "kernels.masks"},
    "engine": {*GROUND, *KERNELS, "vocab", "collector"},
    "languages": {*GROUND, *KERNELS, "vocab", "engine"},
    "queries": {*GROUND, *KERNELS, "vocab", "engine"},
    "matcher": {*GROUND, *KERNELS, "vocab", "engine", "queries", "bitmask"},
    "compiler": {*GROUND, *KERNELS, "vocab", "engine", "matcher", "specs", "collector"},
    "ahead": {*GROUND, *KERNELS, "engine", "matcher", "queries"},
    "admission": {*GROUND, "bitmask", "collector", "compiler", "matcher", "specs"},
    "infill": {*GROUND, *KERNELS, "kernels.infill", "bitmask", "collector", "engine", "matcher", "queries"},
    "warmup": {*KERNELS, "bits", "kernels.infill", "vocab", "specs", "compiler", "matcher", "infill"},
    "package": {*GROUND, "vocab", "specs", "grammars", "queries", "matcher", "compiler", "bitmask", "infill", "adapters.hf"},
    "adapters.prefixes": set(),
    "adapters.diffusion": {"bitmask", "bits", "errors", "infill"},
    "adapters.hf": {*GROUND, "ahead", "adapters.prefixes", "bitmask", "compiler", "matcher", "queries", "specs", "vocab"},
    "adapters.serving": {
        *GROUND,
        "admission",
        "ahead",
        "bitmask",
        "collector",
        "compiler",
        "matcher",
        "specs",
        "vocab",
        "warmup",
    },
    "adapters.vllm": {*GROUND, "ahead", "adapters.serving", "bitmask", "collector", "compiler", "matcher", "specs", "vocab"},
    "adapters.vllm_logits": {"adapters.vllm"},
    "adapters.sglang": {*GROUND, "ahead", "adapters.serving", "bitmask", "matcher", "package", "vocab"},
    "adapters.contexts": {"bits", "errors", "adapters.prefixes", "bitmask", "matcher"},
    "adapters.mlx": {"errors", "adapters.contexts", "vocab"},
    "adapters.llama_cpp": {"bits", "errors", "adapters.contexts", "vocab"},
    "adapters.tensorrt_llm": {"adapters.contexts", "bitmask", "compiler", "errors", "memory", "specs", "vocab"},
    "adapters.outlines": {
        "errors",
        "limits",
        "adapters.mlx",
        "adapters.llama_cpp",
        "adapters.hf",
        "compiler",
        "specs",
        "vocab",
    },
    "playground": {*GROUND, "adapters.hf", "compiler", "matcher", "queries", "specs", "vocab"},
    "cli": {
        *GROUND,
        "package",
        "playground",
        "adapters.vllm",
        "kernels.jit",
        "frontends.json_schema",
        "specs",
        "vocab",
        "queries",
        "matcher",
        "compiler",
        "warmup",
    },
    "__main__": {"cli"},
}
LIGHT = {"numpy", "numba", "llvmlite", "referencing", "cdplugin"}  # what may be imported at the top of a file
HEAVY_ALLOWED = {
    "adapters": {"torch", "transformers", "vllm", "sglang", "mlx", "mlx_lm", "llama_cpp", "outlines", "tensorrt_llm"},
    "cli": {"rich", "typer"},
}


def part_of(module: str) -> str:
    """The folder, or the file of the ground floor, that ``cdplugin…`` belongs to: a key of ``ARROWS``."""
    names = module.split(".")[1:]
    if not names:
        return "package"
    return ".".join(names[:2] if names[0] in ("kernels", "frontends", "adapters") else names[:1])


def imports(tree: ast.Module, module: str, is_package: bool) -> Iterator[tuple[str, int, bool]]:
    """``(module, line, whether it runs when the file is imported)`` of every import, those under TYPE_CHECKING included."""
    pending: list[tuple[ast.AST, bool]] = [(tree, True)]
    while pending:
        node, top = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            pending.extend((child, False) for child in node.body)
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
            if part_of(target) not in {part, *ARROWS[part]}:
                out.append(f"{path.relative_to(ROOT)}:{line}: {part} must not import {target} ({part_of(target)})")
        elif part.startswith("kernels") and first not in sys.stdlib_module_names | {"numpy", "numba"}:
            if not path.name.endswith("_triton.py"):
                out.append(f"{path.relative_to(ROOT)}:{line}: kernels import NumPy and Numba only, found {target}")
        elif top and first not in sys.stdlib_module_names | LIGHT | HEAVY_ALLOWED.get(part.split(".")[0], set()):
            out.append(f"{path.relative_to(ROOT)}:{line}: import {target} inside the function that needs it")
    return out


@pytest.mark.parametrize(("module", "path"), sources(), ids=[m for m, _ in sources()])
def test_arrows(module: str, path: Path) -> None:
    assert not faults(module, path)


def test_arrows_make_no_circle() -> None:
    floors = list(TopologicalSorter(ARROWS).static_order())  # raises CycleError
    assert set(floors) == set(ARROWS), f"arrows to what has no line: {set(floors) - set(ARROWS)}"
    assert {part_of(module) for module, _ in sources()} - {"kernels", "frontends", "adapters"} == set(ARROWS)


def test_the_check_can_fail() -> None:
    text = "import torch\nfrom cdplugin.matcher import Matcher\nfrom ..errors import GrammarError\nimport numba, math\n"
    found = [t for t, _, _ in imports(ast.parse(text), "cdplugin.kernels.x", False)]
    assert sorted(found) == ["cdplugin.errors", "cdplugin.matcher", "math", "numba", "torch"]
    assert {part_of(t) for t in found if t.startswith("cdplugin")} - ARROWS["kernels.lexer"] == {"errors", "matcher"}
    inner = "def f():\n    import torch\nif TYPE_CHECKING:\n    import vllm\nelse:\n    import json\n"
    assert sorted((t, top) for t, _, top in imports(ast.parse(inner), "cdplugin.x", False)) == [
        ("json", True),
        ("torch", False),
        ("vllm", False),
    ]


def test_import_is_light() -> None:
    """`import cdplugin` must be ready in well under a second: none of the heavy libraries comes with it."""
    heavy = ["torch", "transformers", "triton", "vllm", "jsonschema", "rich", "typer", "matplotlib", "pydantic", "scipy"]
    code = f"import sys, cdplugin, cdplugin.cli.main; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_the_map_names_what_exists() -> None:
    """Each row of CONTRIBUTING's table: the files exist, and define the functions that are named after them."""
    rows = [line for line in (ROOT / "CONTRIBUTING.md").read_text().split("\n") if line.startswith("| wh")]
    assert len(rows) >= 16
    for row in rows:
        parts = re.findall(r"`(cdplugin/[\w/]+\.py)`: `([\w.]+)`", row)
        assert parts, row
        for file, function in parts:
            names = function.split(".")
            tree: ast.AST = ast.parse((ROOT / file).read_text())
            for name in names:
                found = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef) and n.name == name]
                assert found, f"{file} defines no {function}"
                tree = found[0]


def test_the_drawing_goes_down() -> None:
    """What is drawn above something else does not lie below it."""
    drawing = (ROOT / "docs/how-it-works.md").read_text().split("```\n")[1]
    floor = {name: number for number, line in enumerate(drawing.split("\n")) for name in re.findall(r"[a-z]+", line[:48])}
    drawn = {part: floor[part.split(".")[0]] for part in ARROWS if part.split(".")[0] in floor}
    assert len({part.split(".")[0] for part in drawn}) >= 15
    for part, below in ARROWS.items():
        for other in below & drawn.keys():
            if part in drawn:
                assert drawn[part] <= drawn[other], f"{part} imports {other}, which is drawn above it"
