"""Counts of all processes of a server, added up when Prometheus asks.

A server is several processes: the HTTP processes check requests, the engine processes compile them and fill masks, and only
the HTTP processes answer ``/metrics``. So each process writes its numbers to its own file, in one folder whose name all inherit
(:data:`FOLDER_VARIABLE`), and :class:`Collector` adds the files up on request. A number is eight bytes of a memory-mapped file:
counting makes no system call. Without a folder the numbers stay in the process (:func:`totals` shows them all the same).

Nothing here raises: what cannot be counted is not counted.

>>> NUMBERS.add("cdplugin_endings_forced")
>>> totals()["cdplugin_endings_forced"][""] >= 1
True
"""

from __future__ import annotations

import atexit
import logging
import mmap
import multiprocessing
import os
import shutil
import tempfile
import threading
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from cdplugin import forking

logger = logging.getLogger(__name__)

FOLDER_VARIABLE = "CDPLUGIN_METRICS_DIR"
"""The environment variable with the folder of a server's files."""
_OWNER_VARIABLE = "CDPLUGIN_METRICS_OWNER"  # id of the process that made the folder, if the user did not name one
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Family(NamedTuple):
    """A metric: name (a counter's without ``_total``), kind, help text, label, the label's values, a histogram's bounds."""

    name: str
    kind: str
    help: str
    label: str = ""
    values: tuple[str, ...] = ("",)
    bounds: tuple[float, ...] = ()

    @property
    def width(self) -> int:
        """Numbers per label value: one, or for a histogram its buckets, the last unbounded, and the sum."""
        return len(self.bounds) + 2 if self.bounds else 1


FAMILIES = (
    Family(
        "cdplugin_checks",
        "counter",
        "Requests whose check was not known and had to be made before they are scheduled (API server).",
        "outcome",
        ("admitted", "refused"),
    ),
    Family("cdplugin_check_seconds", "histogram", "Seconds that such a check took (API server).", bounds=_SECONDS),
    Family("cdplugin_compilations", "counter", "Grammars compiled for requests (engine)."),
    Family("cdplugin_compilation_failures", "counter", "Requests whose grammar could not be compiled (engine)."),
    Family("cdplugin_cache_hits", "counter", "Requests whose grammar was compiled already (engine)."),
    Family(
        "cdplugin_grammar_wait_seconds",
        "histogram",
        "Seconds from a request's arrival in the engine until its grammar was ready: waiting for a thread, compiling, a mask.",
        bounds=_SECONDS,
    ),
    Family("cdplugin_masks_late", "counter", "Masks that took longer than the option late_mask_seconds (engine)."),
    Family("cdplugin_late_mask_seconds", "histogram", "Seconds that such a mask took (engine).", bounds=_SECONDS),
    Family(
        "cdplugin_budgets_crossed",
        "counter",
        "Requests that crossed a budget of work (cd.Limits): refused in the check, failed in the compiler, ended by an error "
        "while they were decoded.",
        "place",
        ("check", "compile", "decode"),
    ),
    Family("cdplugin_endings_forced", "counter", "Answers in which the budget of tokens left tokens out of a mask (engine)."),
    Family("cdplugin_endings_missed", "counter", "Answers that may be cut off, since no ending in time is known (engine)."),
    Family("cdplugin_engines", "gauge", "Engines whose backend is ready."),
    Family("cdplugin_places", "gauge", "Places of answers that were new to their grammars, where work is done ahead (engine)."),
    Family("cdplugin_places_met", "gauge", "Of these, those whose masks had been made ahead (engine)."),
    Family("cdplugin_grammar_cache_bytes", "gauge", "Bytes of the compiled grammars that engines keep."),
)


def _places() -> tuple[dict[tuple[str, str], int], int]:
    """The index of the first number of each (metric, label value), and how many numbers there are. Number 0 is the layout's."""
    places, count = {}, 1
    for family in FAMILIES:
        for value in family.values:
            places[family.name, value] = count
            count += family.width
    return places, count


_PLACES, _COUNT = _places()
_BOUNDS = {family.name: family.bounds for family in FAMILIES}
_LAYOUT = float(zlib.crc32(repr(FAMILIES).encode()))


class Numbers:
    """The numbers of this process; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: Any = None  # float64, _COUNT of them: an array, or a view of the mapped file
        self.path: Path | None = None
        """The file; None while the numbers stay in the process."""

    def add(self, name: str, value: str = "", amount: float = 1.0) -> None:
        """Add to a counter or gauge."""
        place = _PLACES[name, value]
        with self._lock:
            (self._numbers or self._open())[place] += amount

    def set(self, name: str, amount: float) -> None:
        """Set a gauge."""
        place = _PLACES[name, ""]
        with self._lock:
            (self._numbers or self._open())[place] = amount

    def observe(self, name: str, seconds: float) -> None:
        """Add a duration to a histogram."""
        bounds = _BOUNDS[name]
        place = _PLACES[name, ""]
        bucket = place + bisect_left(bounds, seconds)
        total = place + len(bounds) + 1
        with self._lock:
            numbers = self._numbers or self._open()
            numbers[bucket] += 1.0
            numbers[total] += seconds

    def numbers(self) -> array[float]:
        """A copy of all numbers."""
        with self._lock:
            return array("d", self._numbers or self._open())

    def reopen(self) -> None:
        """Move the numbers to a file of the folder, if there is one by now."""
        with self._lock:
            if self.path is None or str(self.path.parent) != os.environ.get(FOLDER_VARIABLE):
                before, self._numbers = self._numbers, None
                numbers = self._open()
                if before is not None:
                    numbers[:] = memoryview(before)

    def after_fork(self) -> None:
        """In a forked child: drop the file, which is the parent's."""
        self._lock = threading.Lock()
        self._numbers, self.path = None, None

    def _open(self) -> Any:
        folder = os.environ.get(FOLDER_VARIABLE)
        numbers: Any = None
        if folder:
            try:
                handle, path = tempfile.mkstemp(prefix=f"{os.getpid()}-", suffix=".numbers", dir=folder)
                try:
                    os.write(handle, bytes(8 * _COUNT))  # not sparse: counting on a full disk would kill the process (SIGBUS)
                    numbers = memoryview(mmap.mmap(handle, 8 * _COUNT)).cast("d")
                finally:
                    os.close(handle)
                self.path = Path(path)
            except (OSError, ValueError) as error:
                logger.warning("cdplugin: this process's metrics are not shared: %s", error)
        if numbers is None:
            numbers = memoryview(array("d", bytes(8 * _COUNT)))
        numbers[0] = _LAYOUT
        self._numbers = numbers
        return numbers


NUMBERS = Numbers()
forking.in_child(NUMBERS.after_fork)


def share() -> None:
    """Make the processes that this one starts share their numbers with it: makes the folder, unless there is one.

    The folder is removed when this process ends. A separate program that another server's process started gets a folder of its
    own: only what ``multiprocessing`` starts belongs to a server.
    """
    owner = str(os.getpid())
    is_another_program = os.environ.get(_OWNER_VARIABLE, owner) != owner and multiprocessing.parent_process() is None
    if os.environ.get(FOLDER_VARIABLE) and not is_another_program:
        return
    try:
        folder = tempfile.mkdtemp(prefix="cdplugin-metrics-")
    except OSError as error:
        logger.warning("cdplugin: the metrics of other processes are not shown: %s", error)
        return
    os.environ[FOLDER_VARIABLE], os.environ[_OWNER_VARIABLE] = folder, owner
    NUMBERS.reopen()
    atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True) if str(os.getpid()) == owner else None)


def is_shared() -> bool:
    """Whether the server's processes share a folder."""
    return bool(os.environ.get(FOLDER_VARIABLE))


def _others() -> Iterator[tuple[bool, array[float]]]:
    """The files of the other processes: whether the process is alive, and its numbers."""
    folder = os.environ.get(FOLDER_VARIABLE)
    for path in sorted(Path(folder).glob("*.numbers")) if folder else ():
        if path == NUMBERS.path:
            continue
        try:
            content = array("d", path.read_bytes())
            process = int(path.name.partition("-")[0])
        except (OSError, ValueError):
            continue
        if len(content) == _COUNT and content[0] == _LAYOUT:
            yield _lives(process), content


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


def totals() -> dict[str, dict[str, float | list[float]]]:
    """All numbers of the server's processes: metric → label value (``""`` without label) → number.

    A histogram is a list: its buckets, not cumulative, the last unbounded, and the sum of its seconds. Gauges count only
    processes that are alive.
    """
    listed = [(True, NUMBERS.numbers()), *_others()]
    out: dict[str, dict[str, float | list[float]]] = {}
    for family in FAMILIES:
        parts = [numbers for lives, numbers in listed if lives or family.kind != "gauge"]
        for value in family.values:
            place = _PLACES[family.name, value]
            sums = [sum(numbers[place + i] for numbers in parts) for i in range(family.width)]
            out.setdefault(family.name, {})[value] = sums if family.bounds else sums[0]
    return out


class Collector:
    """A custom collector for a ``prometheus_client`` registry."""

    def collect(self) -> Iterator[Any]:
        """The current metrics of all processes."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        found = totals()
        for family in FAMILIES:
            labels = [family.label] if family.label else []
            if family.bounds:
                numbers = found[family.name][""]
                assert isinstance(numbers, list)
                buckets, so_far = [], 0.0
                for bound, count in zip((*map(str, family.bounds), "+Inf"), numbers, strict=False):
                    so_far += count
                    buckets.append((bound, so_far))
                yield HistogramMetricFamily(family.name, family.help, buckets=buckets, sum_value=numbers[-1])
                continue
            metric = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}[family.kind](
                family.name, family.help, labels=labels
            )
            for value, number in found[family.name].items():
                metric.add_metric([value] if labels else [], number)
            yield metric


def register(registry: Any = None) -> None:
    """Make a ``prometheus_client`` registry show the metrics; ``None``: its default one. May be called again.

    Where ``prometheus_client`` itself adds up processes (``PROMETHEUS_MULTIPROC_DIR``: several API servers), each request for
    ``/metrics`` makes a new registry; there its multiprocess collector is extended to show our metrics too.
    """
    import prometheus_client

    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        _extend_multiprocess()
        return
    registry = registry or prometheus_client.REGISTRY
    if getattr(registry, "_cdplugin", None) is None:
        registry.register(Collector())
        registry._cdplugin = True


def _extend_multiprocess() -> None:
    from prometheus_client import multiprocess

    original = multiprocess.MultiProcessCollector.collect
    if getattr(original, "_cdplugin", None) is None:

        def collect(self: Any) -> list[Any]:
            return [*original(self), *Collector().collect()]

        collect._cdplugin = True  # type: ignore[attr-defined]
        multiprocess.MultiProcessCollector.collect = collect
