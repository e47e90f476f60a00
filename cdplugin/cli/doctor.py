"""``cdplugin doctor``: report versions, cache folders, and whether everything works. Each problem comes with a remedy."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from cdplugin import __version__
from cdplugin.bits import bit_members
from cdplugin.cli.vocab import load_vocabulary
from cdplugin.compiler import Compiler
from cdplugin.errors import CdpluginError
from cdplugin.kernels.jit import cache_files, machine_code
from cdplugin.kernels.jit import decorators as jit
from cdplugin.specs.base import Regex
from cdplugin.vocab.vocabulary import VocabularyWarning
from cdplugin.warmup import byte_vocabulary, is_warm, warm_kernels

_ENOUGH_BYTES = 32 << 20  # kernels with infilling's, and some vocabularies
_LIBRARIES = ("numpy", "numba", "llvmlite", "referencing", "torch", "triton", "transformers", "vllm")
_OWN_FOLDER = "set CDPLUGIN_CACHE_DIR to a folder of your own that nobody else can write, in every process that uses cdplugin"


class _Report:
    """Prints findings, and remembers whether there was a problem."""

    def __init__(self) -> None:
        self.failed = False

    def note(self, text: str, remedy: str) -> None:
        """Report something that works, but not as well as it could."""
        print(f"note: {text}\n  remedy: {remedy}")

    def problem(self, text: str, remedy: str) -> None:
        """Report something that does not work."""
        self.failed = True
        print(f"problem: {text}\n  remedy: {remedy}")


def doctor(args: argparse.Namespace) -> bool:
    """Print the report; returns whether all is well. ``args``: those of
    :func:`cdplugin.cli.vocab.load_vocabulary`, and more.
    """
    report = _Report()
    _show_versions()
    _check_folders(report)
    _check_files(report)
    _check_kernels(report)
    _check_tokenizer(report, args)
    if args.vllm:
        from cdplugin.adapters.vllm import doctor as of_vllm

        of_vllm.check(report.note, report.problem)
    if args.url:
        from cdplugin.adapters.vllm import health

        health.check(args.url, report.note, report.problem, key=os.environ.get("VLLM_API_KEY"))
    return not report.failed


def _show_versions() -> None:
    print(f"cdplugin {__version__}, {Path(__file__).parents[1]}")
    print(f"Python {platform.python_version()}, {platform.platform()}, {os.cpu_count()} CPUs")
    for name in _LIBRARIES:
        try:
            print(f"  {name:<14}{version(name)}")
        except PackageNotFoundError:
            print(f"  {name:<14}not installed")


def _check_folders(report: _Report) -> None:
    folders = cache_files.cache_folders()
    for why in folders.refused:
        report.note(f"a cache folder is not used: {why}", f"mend or remove that folder, or {_OWN_FOLDER}")
    root = folders.writable
    if root is None:
        report.problem("no cache folder can be written: kernels are compiled at every start, for a minute", _OWN_FOLDER)
        return
    size = sum(f.stat().st_size for f in root.rglob("*") if f.is_file())
    print(f"cache folder: {root} ({size / 1e6:.1f} MB)")
    if cache_files.is_removed_at_exit(root):
        report.problem(f"{root} is removed at exit: kernels are compiled at every start, for a minute", _OWN_FOLDER)
    free = shutil.disk_usage(root).free
    if free < _ENOUGH_BYTES:
        text = f"only {free / 1e6:.1f} MB are free in {root}: what is compiled may not be kept"
        report.problem(text, f"free at least {_ENOUGH_BYTES >> 20} MB there, or {_OWN_FOLDER}")


def _check_files(report: _Report) -> None:
    for name in [*cache_files.names(f"kernels/{machine_code.source_key()}"), *cache_files.names("vocab")]:
        if cache_files.read(name) is None:
            text = f"{name} in the cache is damaged, or somebody else can write it: it is ignored"
            remedy = "none is needed for a damaged file, it is made again now; remove one that comes back, and check the disk"
            report.note(text, remedy)


def _check_kernels(report: _Report) -> None:
    mode = "interpreted (NUMBA_DISABLE_JIT)" if jit.DISABLED else "with checked bounds" if jit.BOUNDSCHECK else "compiled"
    print(f"kernels: {mode}, {'in the cache' if is_warm() else 'not compiled yet'}, {machine_code.source_key()}")
    try:
        seconds = warm_kernels(sys.stdout)
        _self_check()
    except Exception as error:  # reporting whatever is wrong with an installation is this command's job
        remedy = f"remove {cache_files.cache_root()}; reinstall (pip install --force-reinstall cdplugin numba); "
        remedy += "report it with this output if neither helps"
        report.problem(f"kernels: FAILED: {type(error).__name__}: {error}", remedy)
        return
    print(f"kernels: work (ready in {seconds:.2f} s)")
    if not is_warm():
        report.problem("kernels were compiled and could not be kept: they are compiled at every start", _OWN_FOLDER)


def _check_tokenizer(report: _Report, args: argparse.Namespace) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", VocabularyWarning)  # reported below
            vocab = load_vocabulary(args.tokenizer, args.vocab_size, args.end)
    except CdpluginError as error:
        remedy = (
            "name a model folder with its tokenizer's files, and give --vocab-size or --end where the message asks for them"
        )
        report.problem(f"tokenizer: FAILED: {error}", remedy)
        return
    print(f"tokenizer: {vocab}: self-check passed")
    for text, remedy in vocab.shortcomings():
        report.note(f"tokenizer: {text}", remedy)


def _self_check() -> None:
    """Check one grammar by hand: after ``{"a":`` an integer from 10 to 99 begins with a digit from 1."""
    matcher = Compiler(byte_vocabulary()).compile(Regex(r'\{"a":[1-9][0-9]\}')).matcher()
    bits = np.zeros((1, 9), np.int32)
    if matcher.accept_tokens(b'{"a":') != 5:
        raise RuntimeError("the engine refuses a legal text")
    matcher.fill_next_token_bitmask(bits, 0)
    allowed = bit_members(bits).tolist()
    if allowed != list(b"123456789"):
        raise RuntimeError(f"the engine allows {bytes(b for b in allowed if b < 256)!r}, expected b'123456789'")
