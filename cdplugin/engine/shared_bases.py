"""The owner of the shared store: mask bases that grammars of a vocabulary take over from each other
(:mod:`cdplugin.kernels.masks.shared`).

::

    compile(spec) ── harvest: bases that recent grammars walked ──> store, tables that never move
                  └─ clone of the template, which reads the store <── publish: a copy of the header

Only :meth:`SharedBases.harvest` writes, under a lock that nobody waits for. A grammar reads the store through the header copy
of the time when it was cloned, so it does not see later additions. When the store is full, a fresh one replaces it, as regular
expression engines clear their state caches: what is common comes back at once, and grammars that read the old tables keep them
alive.
"""

from __future__ import annotations

import hashlib
import os
import threading
import uuid
import warnings
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, ref

import numpy as np

from cdplugin import forking
from cdplugin.engine.blocks import address_of, dtype_of
from cdplugin.errors import CdpluginError
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.jit.machine_code import sources_hash
from cdplugin.kernels.masks import layout as mask_layout
from cdplugin.kernels.store import layout

if TYPE_CHECKING:
    from cdplugin.engine.arena import Arena

FOLDER_VARIABLE = "CDPLUGIN_LEARNED"
"""The environment variable that names a folder: learned bases are read from it at the start, and written to it."""
LEAST_BYTES = 1 << 20
"""With a smaller limit, nothing is learned."""
_MOST_BYTES = 1 << 30  # of a store, whose tables have their full size from the beginning

_SHARES = {layout.TOKEN_LISTS: 8, layout.DATA: 4, layout.VALUES: 2, layout.BASES: 0.5, layout.ENDS: 0.5}  # of 16 parts
_STACK = 1 << 16  # words: the most that one value may have
_RECENT = 64  # the last grammars, which are harvested now and again
_TURN = 16  # compilations from one harvest of all recent grammars to the next; the last grammar is harvested at each
_MORE, _LEAST_KEPT = 1.5, 32  # a new file is worth it with _MORE times as many bases and _LEAST_KEPT more
_WORK = 2_000_000  # units of work for adding one grammar's bases
_UNBOUNDED = 1 << 60

# the tables that a file has: the counter of what is in use, and the items of a record
_SAVED = {
    layout.VALUES: (layout.N_VALUES, layout.VALUE_WORDS),
    layout.DATA: (layout.DATA_USED, 1),
    layout.BASES: (layout.N_BASES, mask_layout.BASE_WORDS),
    layout.TOKEN_LISTS: (layout.TOKENS_USED, 1),
    layout.ENDS: (layout.ENDS_USED, 1),
}


class Store:
    """Tables with one writer, and a copy of the header for readers. The tables never move."""

    def __init__(self, values: np.ndarray, data: np.ndarray, n_words: int, most_bytes: int) -> None:
        """``values``, ``data``: the used parts of the template's VALUES and DATA; ``n_words``: of a mask row."""
        part = most_bytes // 16
        sizes = {table: int(share * part) // np.dtype(dtype_of(table)).itemsize for table, share in _SHARES.items()}
        sizes[layout.INDEX] = 1 << (2 * sizes[layout.VALUES] // layout.VALUE_WORDS - 1).bit_length()
        sizes[layout.STACK] = _STACK
        self.tables: dict[int, np.ndarray] = {table: np.zeros(size, dtype_of(table)) for table, size in sizes.items()}
        self.header = np.zeros(layout.HEADER_WORDS, np.int64)
        for table, array in self.tables.items():
            self.header[2 * table], self.header[2 * table + 1] = address_of(array), len(array)
        self.header[layout.WORK_LEFT] = self.header[layout.WORK_GRANTED] = self.header[layout.MAX_WORK] = _UNBOUNDED
        self.header[layout.WORDS] = n_words
        self.header[layout.INDEX_SLOTS] = sizes[layout.INDEX]  # all at once: readers look up values while others are added
        self.fill({layout.VALUES: values, layout.DATA: data})
        self.same = int(self.header[layout.N_VALUES])

    def fill(self, parts: dict[int, np.ndarray]) -> None:
        """Begin with the given used parts of tables."""
        for table, array in parts.items():
            counter, words = _SAVED[table]
            self.tables[table][: len(array)] = array
            self.header[counter] = len(array) // words
        self.tables[layout.INDEX][:] = 0
        kernels.engine(address_of(self.header), kernels.OP_REINDEX, 0, 0, 0)
        self.publish()

    def publish(self) -> None:
        """Let grammars that are compiled from now on read the present content."""
        header = self.header.copy()
        self.published = header, address_of(header)

    @property
    def n_bases(self) -> int:
        """The number of bases."""
        return int(self.header[layout.N_BASES])

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        in_use = sum(
            int(self.header[counter]) * words * self.tables[table].itemsize for table, (counter, words) in _SAVED.items()
        )
        return in_use + self.tables[layout.INDEX].nbytes


class SharedBases:
    """The store of a template, and the grammars from which it learns. Thread-safe."""

    def __init__(self, template: Arena, most_bytes: int) -> None:
        """``template``: frozen; ``most_bytes``: of the store's tables."""
        head = template.header
        values = template.tables[layout.VALUES][: int(head[layout.N_VALUES]) * layout.VALUE_WORDS].copy()
        values.reshape(-1, layout.VALUE_WORDS)[:, layout.V_AUX] = 0
        data = template.tables[layout.DATA][: int(head[layout.DATA_USED])].copy()
        self._template = values, data, int(head[layout.WORDS])
        content = sources_hash() + template.vocab.fingerprint.encode() + values.tobytes() + data.tobytes()
        self._key = hashlib.sha256(content).hexdigest()
        self._most_bytes = min(most_bytes, _MOST_BYTES)
        self._recent: deque[ReferenceType[Arena]] = deque(maxlen=_RECENT)
        self.store = Store(*self._template, self._most_bytes)
        self.n_resets = self._n_harvests = 0
        self._lock = threading.Lock()
        self._is_torn = False  # whether somebody may have stopped half-way
        forking.watch(self)
        self._n_kept = 0
        self._folder = Path(os.environ[FOLDER_VARIABLE]) if os.environ.get(FOLDER_VARIABLE) else None
        if self._folder is not None:
            self._load_there()

    def after_fork(self) -> None:
        """In a forked child: mark the store as torn if another thread was adding to it. It may still be read, since additions
        are not published, but not extended.
        """
        self._is_torn = self._lock.locked()
        self._lock = threading.Lock()

    def lend(self, arena: Arena) -> None:
        """Let a fresh clone of the template read the store, and learn from it later."""
        store = arena.shared = self.store
        arena.shared_header, arena.header[layout.SHARED] = store.published
        arena.header[layout.SHARED_SAME] = store.same
        self._recent.append(ref(arena))

    def harvest(self) -> None:
        """Add the bases that recent grammars have walked and the store lacks. Called when a grammar is compiled.

        It takes some microseconds for each base, and waits for nobody. The last grammar is harvested each time, the others in
        turns.
        """
        if not self._recent or not self._lock.acquire(blocking=False):
            return
        try:
            if self._is_torn:
                self._begin_anew()
            before = self.store.n_bases
            self._n_harvests += 1
            for one in [*self._recent] if self._n_harvests % _TURN == 0 else (self._recent[-1],):
                arena = one()
                if arena is not None and arena.header[layout.C_UNSHARED] != arena.n_learned:
                    self._learn_from(arena)
            if self.store.n_bases > before:
                self.store.publish()
                self._keep()
        finally:
            self._lock.release()

    def _keep(self) -> None:
        """Write the bases into the folder that :data:`FOLDER_VARIABLE` names, if there are many more than the last time."""
        if self._folder is not None and self.store.n_bases >= _MORE * self._n_kept + _LEAST_KEPT:
            self._n_kept = self.store.n_bases
            threading.Thread(target=self._save_there, name="cdplugin-learned", daemon=True).start()

    def _save_there(self) -> None:
        try:
            assert self._folder is not None
            self.save(self.file_in(self._folder))
        except OSError as error:
            warnings.warn(f"{FOLDER_VARIABLE}={self._folder}: {error}", RuntimeWarning, stacklevel=2)
            self._folder = None

    def _learn_from(self, arena: Arena) -> None:
        """Add the bases that an arena has made since it was last harvested, unless somebody is stepping it."""
        if arena.shared is not self.store or arena.over_budget or not arena.lock.acquire(blocking=False):
            return
        try:
            first = arena.n_looked_at
            arena.n_looked_at = int(arena.header[layout.N_BASES])  # each base is offered once, even if a limit stops this
            arena.n_learned = int(arena.header[layout.C_UNSHARED])
            with arena.one_budget(_WORK):
                is_full = arena.call(kernels.OP_LEARN, first, address_of(self.store.header))
        except CdpluginError:  # a limit of that grammar must not concern the one that is being compiled
            return
        finally:
            arena.lock.release()
        if is_full:
            self._begin_anew()

    def _begin_anew(self) -> None:
        self.store = Store(*self._template, self._most_bytes)
        self._is_torn = False
        self.n_resets += 1

    # --- on disk ----------------------------------------------------------------------------------------------------------

    def file_in(self, folder: Path) -> Path:
        """Return the path of the file for this vocabulary and version of the engine in a folder."""
        return folder / f"learned-{self._key[:24]}.npz"

    def _load_there(self) -> None:
        assert self._folder is not None
        try:
            self._n_kept = self.load(self.file_in(self._folder))
        except FileNotFoundError:
            pass
        except CdpluginError as error:
            warnings.warn(f"{FOLDER_VARIABLE}: {error}; it is left out", RuntimeWarning, stacklevel=2)

    def save(self, path: Path) -> int:
        """Write the published bases to a file (for a folder, to :meth:`file_in` it); return how many they are.

        The file is written beside and then moved, so readers find it whole.
        """
        path = self.file_in(path) if path.is_dir() else path
        store = self.store
        header, _ = store.published
        n_bases = int(header[layout.N_BASES])
        arrays: dict[str, Any] = {
            str(table): store.tables[table][: int(header[counter]) * words] for table, (counter, words) in _SAVED.items()
        }
        # of what the header counts only keys change: the number of a base that is added now would name another to who loads it
        values = arrays[str(layout.VALUES)] = arrays[str(layout.VALUES)].copy()
        numbers = values[layout.V_AUX :: layout.VALUE_WORDS]
        numbers[numbers > n_bases] = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            with beside.open("wb") as file:
                np.savez_compressed(file, key=np.array(self._key), hash=np.array(_hash_of(arrays)), **arrays)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
        return n_bases

    def load(self, path: Path) -> int:
        """Begin with the bases of a file that :meth:`save` wrote; return how many they are.

        0 if it is of another vocabulary or version of the engine. Raises :class:`CdpluginError` if the file is damaged. As with
        all code and data that a process begins with: only load files that you trust.
        """
        path = self.file_in(path) if path.is_dir() else path
        try:
            with np.load(path, allow_pickle=False) as file:
                content = {name: file[name] for name in file.files}
            if str(content.pop("key")) != self._key:
                return 0
            is_whole = str(content.pop("hash")) == _hash_of(content)
            parts = {int(name): array for name, array in content.items()}
        except OSError:
            raise
        except Exception:  # of a damaged file, whatever zipfile and NumPy stumble over
            is_whole = False
        if not is_whole or parts.keys() != _SAVED.keys():
            raise CdpluginError(f"{path}: expected a file that save_learned wrote, found another, or a damaged one")
        store = Store(*self._template, self._most_bytes)
        if any(len(array) > len(store.tables[table]) for table, array in parts.items()):
            return 0
        store.fill(parts)
        with self._lock:
            self.store = store
        return store.n_bases


def _hash_of(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(name.encode() + b"\0" + arrays[name].tobytes())
    return digest.hexdigest()
