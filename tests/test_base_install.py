"""`pip install cdplugin` alone: masks and logits are NumPy arrays, and what lacks a library names the extra that brings it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from doc_blocks import blocks
from hypothesis import given, settings
from hypothesis import strategies as st

import cdplugin as cd

ROOT = Path(__file__).resolve().parent.parent

BASE_ONLY = """
import sys, importlib.abc
BROUGHT = {"numpy", "numba", "llvmlite", "referencing", "rpds", "attr", "attrs", "typing_extensions", "cdplugin"}
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        first = name.partition(".")[0]
        if first not in BROUGHT and first not in sys.stdlib_module_names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
"""
"""Makes an interpreter find the standard library, cdplugin, and what its base install brings, nothing else."""


def in_base_install(code: str) -> list[str]:
    """The lines that code prints where only the base install is there."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", BASE_ONLY + code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def reference(logits: np.ndarray, bitmask: np.ndarray, rows: list[int] | None) -> np.ndarray:
    """Token by token: the mask decides, and what it does not cover is masked."""
    out = logits.copy()
    for i in range(logits.shape[0]) if rows is None else rows:
        for t in range(logits.shape[1]):
            covered = t // 32 < bitmask.shape[1]
            if not covered or not (int(bitmask[i, t // 32]) >> (t % 32)) & 1:
                out[i, t] = -np.inf
    return out


def laid_out(logits: np.ndarray, layout: str) -> tuple[np.ndarray, np.ndarray]:
    """``(owner, view)``: the same logits in memory of another layout."""
    batch, columns = logits.shape
    owner = np.zeros((2 * batch, 2 * columns + 1), logits.dtype)
    view = {
        "plain": owner[:batch, :columns],
        "stepped": owner[::2, 1::2],
        "backwards": owner[:batch, columns - 1 :: -1],
        "upside down": owner[batch - 1 :: -1, :columns],
        "transposed": np.zeros((columns, batch), logits.dtype).T,
    }.get(layout)
    if layout == "in records":  # a stride that is no multiple of an element
        owner = np.zeros((batch, columns), [("x", np.uint8), ("logit", logits.dtype)])
        view = owner["logit"]
    elif layout == "other byte order":
        owner = view = np.zeros(logits.shape, logits.dtype.newbyteorder())
    elif layout == "transposed":
        assert view is not None
        owner = view.T
    assert view is not None
    view[...] = logits
    return owner, view


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_arrays_equal_the_reference(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([np.float32, np.float16, np.float64]))
    kinds = ["plain", "stepped", "backwards", "upside down", "transposed", "in records", "other byte order"]
    layout, mask_layout = data.draw(st.sampled_from(kinds)), data.draw(st.sampled_from(["plain", "wide", "upside down"]))
    batch, columns, words = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 130)), data.draw(st.integers(1, 5))
    rows = data.draw(st.one_of(st.none(), st.lists(st.integers(0, batch - 1), unique=True)))
    random = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    logits = random.normal(size=(batch, columns)).astype(dtype)
    bitmask = random.integers(-(2**31), 2**31, (batch, words)).astype(np.int32)
    bitmask[random.random((batch, words)) < 0.25] = -1
    bitmask[random.random((batch, words)) < 0.25] = 0
    expected = reference(logits, bitmask, rows)
    if mask_layout == "wide":
        bitmask = np.concatenate([bitmask, bitmask], axis=1)[:, :words]
    elif mask_layout == "upside down":
        bitmask = bitmask[::-1].copy()[::-1]
    owner, view = laid_out(logits, layout)
    cd.apply_token_bitmask_inplace(view, bitmask, rows)
    assert np.array_equal(view, expected)
    written = owner["logit"] if layout == "in records" else owner
    assert np.isinf(written).sum() == np.isinf(expected).sum()  # nothing beside the view was written


def test_bfloat16_of_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for columns in (64, 70):
        logits = np.arange(2 * columns, dtype=np.float32).reshape(2, columns).astype(ml_dtypes.bfloat16)
        bitmask = np.array([[5, -1], [0, -(2**31)]], np.int32)
        expected = reference(logits, bitmask, None)
        backwards = logits.copy()[:, ::-1]
        backwards[...] = logits
        for array in (logits, backwards):
            cd.apply_token_bitmask_inplace(array, bitmask)
            assert np.array_equal(array.astype(np.float32), expected.astype(np.float32))


def test_one_row() -> None:
    logits = np.zeros(40, np.float32)
    cd.apply_token_bitmask_inplace(logits, np.array([0b101], np.int32))
    assert np.flatnonzero(np.isfinite(logits)).tolist() == [0, 2]


def test_tensors_and_arrays_go_together() -> None:
    torch = pytest.importorskip("torch")
    words = np.array([[0b101], [0b11]], np.int32)
    read_only = words.copy()
    read_only.flags.writeable = False
    for logits in (np.zeros((2, 8), np.float32), torch.zeros(2, 8)):
        for bitmask in (words, torch.from_numpy(words), read_only, words[::-1].copy()[::-1]):
            logits[...] = 0
            cd.apply_token_bitmask_inplace(logits, bitmask)
            assert np.isfinite(np.asarray(logits)).astype(int).tolist() == [[1, 0, 1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"logits": np.zeros((2, 64), np.int32)}, TypeError, "logits: expected float32, .* or float64, found int32"),
        ({"bitmask": np.zeros((2, 2), np.int64)}, TypeError, "bitmask: expected dtype int32, found int64"),
        ({"bitmask": np.zeros((3, 2), np.int32)}, ValueError, "bitmask: expected 2 rows as in logits, found 3"),
        ({"bitmask": np.zeros((2, 4), np.int32)[:, ::2]}, ValueError, "bitmask: expected contiguous rows, found strides"),
        ({"logits": np.broadcast_to(np.zeros(64, np.float32), (2, 64))}, ValueError, "logits: expected a writable array"),
        ({"indices": [2]}, ValueError, "indices: expected rows from 0 to 1, found 2"),
    ],
)
def test_arrays_refused(change: dict, error: type[Exception], text: str) -> None:
    arguments = {"logits": np.zeros((2, 64), np.float32), "bitmask": np.zeros((2, 2), np.int32)} | change
    with pytest.raises(error, match=text):
        cd.apply_token_bitmask_inplace(**arguments)


def test_the_kind_of_array_is_what_was_asked_for() -> None:
    torch = pytest.importorskip("torch")
    array = cd.allocate_token_bitmask(2, 70, array="numpy")
    assert type(array) is np.ndarray and array.dtype == np.int32 and array.shape == (2, 3) and (array == -1).all()
    assert isinstance(cd.allocate_token_bitmask(2, 70), torch.Tensor)
    assert isinstance(cd.allocate_token_bitmask(2, 70, "torch"), torch.Tensor)


# ---- where nothing but the base install is there ----------------------------------------------------------------------------


def test_masks_are_arrays_without_torch() -> None:
    code = (
        "import cdplugin as cd; mask = cd.allocate_token_bitmask(2, 70); print(type(mask).__name__, mask.dtype, mask.shape);"
        "print([name for name in ('torch', 'transformers') if name in sys.modules])"
    )
    assert in_base_install(code) == ["ndarray int32 (2, 3)", "[]"]


def test_what_needs_torch_names_its_extra() -> None:
    code = """
import cdplugin as cd, importlib
def told(call):
    try:
        call()
    except ImportError as error:
        print(error)
told(lambda: cd.allocate_token_bitmask(1, 8, array="torch"))
for name in cd.__all__:
    told(lambda: getattr(cd, name))
for name in ("diffusion", "hf.serve", "mlx", "llama_cpp", "outlines", "tensorrt_llm"):
    told(lambda: importlib.import_module("cdplugin.adapters." + name))
"""
    text = "{} is not installed, which this part of cdplugin needs: pip install '{}'"
    wanted = [("torch", "cdplugin[hf]")] * 4 + [("mlx", "cdplugin[mlx]"), ("llama_cpp", "cdplugin[llama-cpp]")]
    wanted += [("outlines", "cdplugin[outlines]"), ("torch", "tensorrt-llm")]
    assert in_base_install(code) == [text.format(*pair) for pair in wanted]


@pytest.mark.parametrize("name", ["README.md", "docs/quick-start.md", "docs/index.md"])
def test_what_a_page_says_needs_nothing_runs(name: str) -> None:
    listed = [block.source for block in blocks(ROOT / name) if not block.needs and not block.not_run]
    assert listed
    code = f"import json; names = {{}}\nfor block in json.loads({json.dumps(json.dumps(listed))}): exec(block, names)\n"
    in_base_install(code + "print('numpy' in sys.modules, 'torch' in sys.modules)")


def test_a_requirement_is_named_for_what_it_brings_only() -> None:
    from cdplugin.errors import needs

    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'cdplugin\.nowhere'$"), needs("cdplugin[hf]"):
        import cdplugin.nowhere  # type: ignore[import-not-found]  # noqa: F401
    with (
        pytest.raises(ModuleNotFoundError, match=r"^nowhere is not installed.*'cdplugin\[hf\]'$") as raised,
        needs("cdplugin[hf]"),
    ):
        import nowhere.inside  # type: ignore[import-not-found]  # noqa: F401
    assert raised.value.name == "nowhere" and isinstance(raised.value.__cause__, ModuleNotFoundError)
    with pytest.raises(ImportError, match=r"^cannot import name 'nothing'"), needs("cdplugin[hf]"):
        from json import nothing  # noqa: F401


@pytest.mark.parametrize("error", [ModuleNotFoundError("No module named 'x'"), NameError("name 'X' is not defined")], ids=type)
def test_a_server_without_its_libraries_says_what_brings_them(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Before transformers 5.5 the module is missing. Without what ``[serving]`` brings, it fails with a NameError."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from cdplugin.adapters.hf import serve

    class Failing:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            if name.startswith("transformers.cli.serving"):
                raise error

    for name in [name for name in sys.modules if name.startswith("transformers.cli.serving")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Failing, *sys.meta_path])
    found = (
        rf"^transformers serve: expected 'transformers\[serving\]>=5\.5', found transformers \d\S+: {re.escape(str(error))}$"
    )
    with pytest.raises(cd.CdpluginError, match=found):
        serve.install()
    with pytest.raises(SystemExit, match=found):
        serve.main()
