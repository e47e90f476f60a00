"""Masks of a whole batch: rows are split over threads by grammar, since only one thread at a time may step a grammar."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np

from cdplugin import forking
from cdplugin.bitmask import row_address
from cdplugin.engine.arena import Arena
from cdplugin.errors import integer
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.entry import JOB_WORDS
from cdplugin.matcher.matcher import Matcher

_Row = tuple[Matcher, int, int, int | None, int]
"""A row to fill: the matcher, its cursor, the row's address, the budget, and the matcher's index among all."""
_Group = tuple[Arena, list[_Row]]
"""The rows of one arena."""
_threads = forking.Threads(os.cpu_count() or 1, "cdplugin")
_FEW = 4  # so many rows take one thread less time than starting a second one


def fill_next_token_bitmasks(
    matchers: Sequence[Matcher | None],
    bitmask: Any,
    indices: Sequence[int] | None = None,
    *,
    budgets: Sequence[int | None] | None = None,
    threads: int | None = None,
) -> None:
    """Fill the rows of a whole batch, on threads, without the GIL.

    ``matchers``: one per row to fill (``None``: the row is left alone); ``indices``: their rows, default 0, 1, …;
    ``budgets``: one per matcher, as in :meth:`Matcher.fill_next_token_bitmask` (``None``: no budget);
    ``threads``: at most so many, default the number of cores. One grammar is stepped by one thread at a time.

    A wrong bitmask, index or budget, or an index that is there twice, raises before any row is filled. Where a mask cannot be
    computed, all others are filled first; then the first such row raises, as in :meth:`Matcher.fill_next_token_bitmask`.
    """
    errors = fill_each(matchers, bitmask, indices, budgets=budgets, threads=threads)
    if errors:
        raise errors[min(errors)]


def fill_each(
    matchers: Sequence[Matcher | None],
    bitmask: Any,
    indices: Sequence[int] | None = None,
    *,
    budgets: Sequence[int | None] | None = None,
    threads: int | None = None,
) -> dict[int, Exception]:
    """Do :func:`fill_next_token_bitmasks`, but return the exceptions of rows, by the matcher's index, instead of
    raising one.
    """
    n_rows = _length("matchers", matchers)
    if indices is not None and _length("indices", indices) != n_rows:
        raise ValueError(f"indices: expected {n_rows} rows, found {len(indices)}")
    if budgets is not None and _length("budgets", budgets) != n_rows:
        raise ValueError(f"budgets: expected {n_rows}, found {len(budgets)}")
    most = os.cpu_count() or 1 if threads is None else integer("threads", threads)
    rows = range(n_rows) if indices is None else indices
    groups, errors = _grouped(matchers, bitmask, rows, [None] * n_rows if budgets is None else budgets)
    shares = _shares(groups, most)
    futures: list[Future[dict[int, Exception]]] = []
    try:
        for share in shares[1:]:
            futures.append(_threads.submit(_fill_groups, share, bitmask))
        errors |= _fill_groups(shares[0], bitmask)
        for future in futures:
            errors |= future.result()
    except BaseException:  # an interrupt: the threads write into the bitmask until they are done
        forking.finish(futures)
        raise
    return errors


def _grouped(
    matchers: Sequence[Matcher | None], bitmask: Any, rows: Sequence[int], budgets: Sequence[int | None]
) -> tuple[list[_Group], dict[int, Exception]]:
    """Return the rows to fill, by arena, large groups first; and the exceptions of matchers that could not tell their place, by
    index.
    """
    by_arena: dict[int, _Group] = {}
    taken: set[int] = set()
    errors: dict[int, Exception] = {}
    for place, (matcher, index, budget) in enumerate(zip(matchers, rows, budgets, strict=True)):
        if matcher is None:
            continue
        if not isinstance(matcher, Matcher):
            raise TypeError(f"matchers: expected cdplugin.Matcher or None, found {type(matcher).__name__}")
        address = row_address(bitmask, index, matcher._size)
        if address in taken:
            raise ValueError(f"indices: expected each row of the bitmask once, found row {index} again")
        taken.add(address)
        if budget is not None and type(budget) is not int:
            budget = integer("budget", budget)
        try:
            arena, cursor = matcher._place()
        except Exception as error:  # the other rows are filled first
            errors[place] = error
            continue
        by_arena.setdefault(id(arena), (arena, []))[1].append((matcher, cursor, address, budget, place))
    return sorted(by_arena.values(), key=_size, reverse=True), errors


def _shares(groups: list[_Group], most: int) -> list[list[_Group]]:
    """Split the groups, large ones first, over at most ``most`` threads with about equally many rows; few rows go to one
    thread.
    """
    workers = max(1, min(most, len(groups))) if sum(map(_size, groups)) > _FEW else 1
    shares: list[list[_Group]] = [[] for _ in range(workers)]
    loads = [0] * workers
    for group in groups:
        lightest = loads.index(min(loads))
        shares[lightest].append(group)
        loads[lightest] += _size(group)
    return shares


def _length(what: str, value: Any) -> int:
    """Return the length of a sequence. Raises ``TypeError`` for anything else."""
    if hasattr(value, "__len__") and hasattr(value, "__getitem__") and getattr(value, "ndim", 1) == 1:
        return len(value)
    raise TypeError(f"{what}: expected a sequence, found {type(value).__name__}")


def _size(group: _Group) -> int:
    """Return how many rows a group has."""
    return len(group[1])


def _fill_groups(groups: list[_Group], bitmask: Any) -> dict[int, Exception]:
    """Fill the rows of some grammars; return the exceptions, by index.

    One kernel call per grammar, and one more for each row whose arena has to grow. ``bitmask``: the owner of the rows, held so
    that its memory outlives the call whatever the caller does.
    """
    errors: dict[int, Exception] = {}
    for arena, rows in groups:
        jobs = np.array([(arena.address, cursor, row, m._stops_address, 0) for m, cursor, row, *_ in rows], np.int64)
        with arena.lock:
            kernels.engine(0, kernels.OP_FILL_MANY, jobs.ctypes.data, len(rows), 0)
            for job in np.flatnonzero(jobs[:, JOB_WORDS - 1] < 0).tolist():
                try:
                    arena.call(kernels.OP_FILL, *jobs[job, 1:4].tolist())
                except Exception as error:
                    errors[rows[job][-1]] = error
            for matcher, _, row, budget, place in rows:
                if budget is not None and place not in errors and not matcher._is_far(budget, 0):
                    try:
                        matcher._fit(arena, row, budget)
                    except Exception as error:
                        errors[place] = error
    return errors
