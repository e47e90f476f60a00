"""Compile the kernels before the first request, and show progress meanwhile.

The first use of a new version compiles the kernels, for up to a minute, into the cache folder; later processes load them from
there in a fraction of a second. ``cdplugin warmup`` does so while an image is built, for infilling's kernels too; adapters call
:func:`warm_kernels`.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

import numpy as np

from cdplugin.bits import bitmask_words
from cdplugin.compiler import Compiler
from cdplugin.kernels.entry import engine
from cdplugin.kernels.jit.decorators import FirstCall, is_cached
from cdplugin.kernels.masks.bitmask import MINUS_INFINITY, mask_rows
from cdplugin.specs.base import JsonSchema
from cdplugin.vocab.vocabulary import Vocabulary

if TYPE_CHECKING:
    from cdplugin.matcher import Grammar


def byte_vocabulary() -> Vocabulary:
    """A vocabulary of the 256 bytes (id = byte) and an end token (256): enough to check texts without a model."""
    return Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"<end>"], eos_token_ids=256)


def is_warm(infill: bool = False) -> bool:
    """Whether the cache folder holds compiled kernels (``infill``: infilling's too), or none are needed."""
    if not infill or not is_cached(engine):
        return is_cached(engine)
    from cdplugin.kernels.infill.entry import infill_engine

    return is_cached(infill_engine)


def warm_kernels(show: TextIO | None = None, *, infill: bool = False) -> float:
    """Compile or load the kernels; returns the seconds it took.

    ``show``: the stream for a progress line. ``infill``: also the kernels that only :class:`cdplugin.Infill` uses, which take
    as long as all others.
    """
    began = time.monotonic()
    vocab = byte_vocabulary()
    with FirstCall.silenced():
        with _progress("kernels", is_warm(), show):
            grammar = _warm_engine(vocab)
            for fill in MINUS_INFINITY.values():
                mask = np.zeros(1, np.int32)
                mask_rows(np.zeros(32, fill.dtype), 32, 1, 32, mask, 1, 1, np.empty(0, np.int64), 1, fill)
        if infill:
            with _progress("infilling's kernels", is_warm(infill=True), show):
                from cdplugin.infill.parts import GAP
                from cdplugin.infill.session import Infill

                Infill(grammar).new([GAP]).completable()
    return time.monotonic() - began


def _progress(what: str, are_cached: bool, show: TextIO | None) -> Ticker:
    return Ticker(f"loading {what}" if are_cached else f"compiling {what} (once for this version)", show)


def _warm_engine(vocab: Vocabulary) -> Grammar:
    compiler = Compiler(vocab)
    grammar = compiler.compile(JsonSchema({"properties": {"a": {}}}, property_order="any"))
    matcher = grammar.matcher()
    matcher.fill_next_token_bitmask(np.zeros((1, bitmask_words(vocab.size)), np.int32), 0, 1 << 20)
    matcher.accept_token(ord("{"))
    matcher.shortest_completion()  # a server calls it when it admits a request
    return grammar


class Ticker:
    """A context that shows the seconds passed; on a terminal it rewrites its line in place."""

    def __init__(self, text: str, stream: TextIO | None) -> None:
        self.text, self.stream = text, stream
        self.done = threading.Event()
        self.thread: threading.Thread | None = None

    def __enter__(self) -> Ticker:
        self.began = time.monotonic()
        if self.stream is not None:
            if self.stream.isatty():
                self.thread = threading.Thread(target=self._tick, daemon=True)
                self.thread.start()
            else:
                print(self.text + " …", file=self.stream, flush=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.done.set()
        if self.thread is not None:
            self.thread.join()
        if self.stream is not None:
            start = "\r\x1b[K" if self.stream.isatty() else ""
            end = "failed after" if error is not None else "done in"
            print(f"{start}{self.text}: {end} {time.monotonic() - self.began:.1f} s", file=self.stream, flush=True)

    def _tick(self) -> None:
        assert self.stream is not None
        while not self.done.wait(0.2):
            print(f"\r\x1b[K{self.text}: {time.monotonic() - self.began:.0f} s", end="", file=self.stream, flush=True)


def warm_if_cold() -> None:
    """For command-line programs: explain on stderr why the first run takes a while; later runs print nothing."""
    if not is_warm():
        warm_kernels(sys.stderr)
