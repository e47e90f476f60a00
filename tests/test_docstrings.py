"""Docstrings that list attributes list exactly those that exist; and enough lines of the kernels are docstrings."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from pathlib import Path

import pytest

import cdplugin as cd
from cdplugin.errors import GrammarError
from cdplugin.frontends.json_schema.keyword_map import Keyword
from cdplugin.frontends.json_schema.options import Options
from cdplugin.frontends.json_schema.schema import Subschema
from cdplugin.vocab.token_bytes import TokenSource


def listed(kind: type) -> set[str]:
    """The names of an ``Attributes`` section: ``a, b : what they are``, at the section's own indentation."""
    section = re.split(r"^Attributes\n-+\n", inspect.getdoc(kind) or "", flags=re.MULTILINE)[1]
    heads = re.findall(r"^(\w+(?:, \w+)*) : ", section, re.MULTILINE)
    names = [name for head in heads for name in head.split(", ")]
    assert len(set(names)) == len(names), "listed twice"
    return set(names)


@pytest.mark.parametrize("kind", [TokenSource, Options, Keyword])
def test_dataclasses(kind: type) -> None:
    assert listed(kind) == {field.name for field in dataclasses.fields(kind)}


def test_subschema() -> None:
    assert listed(Subschema) == set(Subschema.__slots__)


def test_vocabulary_and_errors() -> None:
    vocab = cd.Vocabulary.from_bytes([b"a", b"</s>"], eos_token_ids=1)
    assert listed(cd.Vocabulary) == {name for name in vars(vocab) if not name.startswith("_")}
    assert listed(GrammarError) == set(vars(GrammarError("what")))


def test_json_schema_takes_and_documents_every_option() -> None:
    taken = {name: p.default for name, p in inspect.signature(cd.JsonSchema).parameters.items() if name != "schema"}
    own = {"gaps"}  # for grammars that embed a schema
    assert taken == {field.name: field.default for field in dataclasses.fields(Options) if field.name not in own}
    heads = re.findall(r"^(\w+(?:, \w+)*) : ", inspect.getdoc(cd.JsonSchema) or "", re.MULTILINE)
    assert {name for head in heads for name in head.split(", ")} == {"schema", *taken}


_MANY_MODULES = 6
KERNELS = Path(cd.__file__).parent / "kernels"
LEAST_SHARE = 0.18
"""Of the lines of the kernels, docstrings (also those under constants): algorithms are read more often than changed."""


def docstring_lines(tree: ast.AST) -> int:
    """The lines, blank ones included, of all strings that stand alone as a statement."""
    return sum(
        node.end_lineno - node.lineno + 1
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )


def test_docstring_lines_are_counted() -> None:
    assert docstring_lines(ast.parse('"""a\n\nb"""\nX = 1\n"""c"""\ndef f():\n    """d"""\n    return "e"\n')) == 5


def test_kernels_are_explained() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(KERNELS.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    assert len(texts) > 50
    share = sum(map(docstring_lines, trees.values())) / sum(text.count("\n") for text in texts.values())
    assert share >= LEAST_SHARE, f"docstrings are {share:.1%} of the kernels' lines, expected at least {LEAST_SHARE:.0%}"
    silent = [str(path.relative_to(KERNELS)) for path, tree in trees.items() if not ast.get_docstring(tree)]
    assert not silent, f"modules without a docstring: {silent}"


def test_kernels_docstrings() -> None:
    """Each function of the kernels says what it computes, but for those that Numba's interfaces name."""
    silent = [
        f"{path.relative_to(KERNELS)}: {node.name}"
        for path in sorted(KERNELS.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and not ast.get_docstring(node)
    ]
    assert [where for where in silent if not where.startswith("jit/")] == []


def test_references_lead_somewhere() -> None:
    """A role such as ``:func:`cdplugin.bits.bit_flags``` names a module, or what that module defines."""
    root = Path(cd.__file__).parent
    lost = []
    for path in sorted(root.rglob("*.py")):
        for name in re.findall(r":\w+:`~?cdplugin\.([\w.]+)`", path.read_text(encoding="utf-8")):
            folder, parts = root, name.split(".")
            while parts and (folder / parts[0]).is_dir():
                folder /= parts.pop(0)
            if parts and (folder / f"{parts[0]}.py").exists():
                text = (folder / f"{parts[0]}.py").read_text(encoding="utf-8")
                known = [rf"\b(def|class) {part}\b|^(\w+, )*{part}\b.* = " for part in parts[1:]]
            else:
                text = (folder / "__init__.py").read_text(encoding="utf-8")
                known = [rf"\b{part}\b" for part in parts[:1]]  # what a package hands on
            if not all(re.search(pattern, text, re.MULTILINE) for pattern in known):
                lost.append(f"{path.relative_to(root)}: {name}")
    assert not lost


def test_packages_name_their_modules() -> None:
    """Whoever opens a folder with many files is told of each: its package's docstring names them all."""
    root = Path(cd.__file__).parent
    unnamed = []
    for package in sorted(root.rglob("__init__.py")):
        modules = [path.stem for path in sorted(package.parent.glob("*.py")) if not path.stem.startswith("_")]
        text = ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) or ""
        if len(modules) > _MANY_MODULES and package.parent != root:
            unnamed += [f"{package.parent.relative_to(root)}/{name}.py" for name in modules if f"``{name}``" not in text]
    assert not unnamed
