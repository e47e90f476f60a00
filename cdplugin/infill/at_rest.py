"""Tables at rest: those of an :class:`~cdplugin.infill.session.Infill` that is gone, for the next one of the same grammar.

Some of what the tables hold takes long to compute: the rules laid out (Python: 0.3 s), closures of lexer states, the shortest
endings of rules. If each request makes an ``Infill``, the next request takes over the tables of the last one::

    Infill(grammar) ── take_tables ──> tables at rest, the latest ones first; else new ones
    the Infill goes ── leave_tables ──> at rest, at most Limits.max_infill_bytes in the process: beyond that, tables first
                                        give back the memory of their largest arrays, then go

Two ``Infill`` that live at the same time never share tables, except what depends on the rules alone. Tables at rest forget what
earlier texts taught, so an answer depends on no other request's text (:meth:`cdplugin.infill.tables.InfillGrammar.rest`).
"""

from __future__ import annotations

import sys
import threading
import weakref
from typing import TYPE_CHECKING

from cdplugin import forking, memory
from cdplugin.infill.tables import InfillGrammar
from cdplugin.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from cdplugin.infill.workspace import Rules
    from cdplugin.matcher import Grammar

_tables: list[InfillGrammar] = []  # those that have rested longest first
_rules: weakref.WeakKeyDictionary[Grammar, Rules] = weakref.WeakKeyDictionary()
_lock = threading.Lock()
forking.renew(sys.modules[__name__], "_lock")


def nbytes() -> int:
    """Bytes of all tables at rest."""
    return sum(tables.nbytes for tables in list(_tables))


memory.register("infilling at rest", nbytes, DEFAULT_LIMITS.max_infill_bytes)


def take_tables(grammar: Grammar) -> InfillGrammar:
    """Tables that nobody else has, from those at rest or new. Raises what :class:`InfillGrammar` does."""
    with _lock:
        gone = _without_owner()
        at = next((i for i in range(len(_tables) - 1, -1, -1) if _tables[i].owner() is grammar), None)
        found = None if at is None else _tables.pop(at)
    del gone
    if found is None:
        found = InfillGrammar(grammar, _rules.get(grammar))
        if grammar not in _rules and found.rules is not None and found.rules.nbytes <= found.arena.limits.max_infill_bytes:
            _rules[grammar] = found.rules
            grammar.account.note("infilling", found.rules.nbytes)
            weakref.finalize(grammar, leave_tables, []).atexit = False
    return found


def leave_tables(several: list[InfillGrammar]) -> None:
    """Put tables to rest.

    It is called from finalizers, wherever something is freed, so it never blocks: if a thread, even this one, is using the
    list, the tables are dropped.
    """
    if not _lock.acquire(blocking=False):
        return
    try:
        gone = _without_owner()
        for tables in several:
            owner = tables.owner()
            most = 0 if owner is None else tables.arena.limits.max_infill_bytes
            if tables.arena.nbytes > most or not tables.rest():
                continue
            if tables.nbytes > most:
                tables.grow_lean()
            if tables.nbytes > most:
                continue
            _tables.append(tables)
            while nbytes() > most:
                rich = next((one for one in _tables if not one.is_lean), None)
                if rich is not None:
                    rich.grow_lean()
                else:
                    gone.append(_tables.pop(0))
    finally:
        _lock.release()
    del gone


def _without_owner() -> list[InfillGrammar]:
    """Remove the tables whose grammar is gone from the list, and return them: freeing them takes long, so the caller does it
    later.
    """
    gone = [tables for tables in _tables if tables.owner() is None]
    for tables in gone:
        _tables.remove(tables)
    return gone
