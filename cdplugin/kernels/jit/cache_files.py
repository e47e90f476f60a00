"""The files of cdplugin's disk caches: where they are, who may have written them, and how they stay intact.

A cache file becomes machine code, or tables that kernels index unchecked. Therefore:

- A *file* counts only if it is a regular file, not a symbolic link, owned by this user or root, and writable by nobody else.
  The opened file is checked, so it cannot be exchanged in between; a planted file is ignored, whatever the folders above it
  allow.
- A *folder* counts only if this user or root owns it and not everybody may write there (except with the sticky bit, as in
  ``/tmp``). The one below the system's temporary folder, whose name anybody can guess, must be this user's own, no symbolic
  link, and writable by nobody else; otherwise a fresh private folder is used and removed at exit.
- Each file ends with a sha256 of its name and content. A file that does not match (truncated, damaged, renamed) is removed, and
  its user makes it again.
- A file appears under its name at once or not at all. A full or read-only disk causes one warning (:class:`CacheWarning`), and
  the process continues with what it has in memory.

On systems without user ids (Windows) the owner is not checked.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
import time
import uuid
import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

_DIGEST_BYTES = 32
_WRITING = ".writing-"
_ABANDONED_SECONDS = 3600  # a temporary file of this age has been abandoned by its writer
_USED_SECONDS = 3600  # a folder's modification time is renewed if it is older
_UNUSED_SECONDS = 7 * 86400  # a folder that was not used for so long may be removed
_KEPT, _MOST = 4, 24  # so many of the newest folders are always kept; more than _MOST never are
SUFFIX = ".code"
"""The suffix of machine code files."""
_own_folders: list[Path] = []  # private ones of this process
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OPEN_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_BINARY"))
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | sum(getattr(os, n, 0) for n in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"))


class CacheWarning(UserWarning):
    """A cache folder cannot be used, or a file cannot be stored. All work is done nevertheless, and again in the next
    process.
    """


class Folders(NamedTuple):
    """``readable``: the folders in which files are looked up, in this order. ``writable``: the folder to which they are
    written, or None.

    ``refused``: why other folders are not used, in words.
    """

    readable: tuple[Path, ...]
    writable: Path | None
    refused: tuple[str, ...]


@lru_cache(maxsize=1)
def cache_folders() -> Folders:
    """Return the cache folders. The first writable candidate is the one to write to; readable ones before it are only read.

    The candidates: ``CDPLUGIN_CACHE_DIR``, the XDG cache folder, ``cdplugin-<uid>`` in the temporary folder, a private folder
    that is removed at exit.
    """
    readable: list[Path] = []
    refused: list[str] = []
    for folder, is_named in _candidates():
        fault = _fault(folder)
        if fault is None:
            readable.append(folder)
            if _is_writable(folder):
                return Folders(tuple(readable), folder, tuple(refused))
            fault = "it cannot be written"
        refused.append(f"{folder}: {fault}")
        if is_named:
            warn(f"CDPLUGIN_CACHE_DIR={folder}: {fault}")
    temporary = _temporary_folder(refused)
    return Folders((*readable, temporary) if temporary else tuple(readable), temporary, tuple(refused))


@lru_cache(maxsize=1)
def carried_folders() -> tuple[Path, ...]:
    """Return the folders of files that were made elsewhere and are only read: ``CDPLUGIN_CARRIED``, and ``carried`` in the
    package.

    The ownership rules of cache folders apply to them, too.
    """
    named = os.environ.get("CDPLUGIN_CARRIED")
    folders = [Path(named).absolute()] if named else []
    folders.append(Path(__file__).resolve().parents[2] / "carried")
    return tuple(folder for folder in folders if folder.is_dir() and _fault(folder) is None)


def cache_root() -> Path | None:
    """Return the folder that the caches are written to, or None if no folder can be written."""
    return cache_folders().writable


def read(name: str) -> memoryview | None:
    """Return the content of a cached file; None if it is absent, damaged (then it is removed), or not ours."""
    for folder in cache_folders().readable:
        content = _read(folder / name)
        if content is not None:
            if _is_whole(name, content):
                return content[:-_DIGEST_BYTES]
            _unlink(folder / name)
    return None


def read_carried(name: str) -> memoryview | None:
    """Return the content of a file that was made elsewhere; None if it is absent, damaged or not ours."""
    for folder in carried_folders():
        content = _read(folder / name)
        if content is not None and _is_whole(name, content):
            return content[:-_DIGEST_BYTES]
    return None


def write(name: str, parts: Iterable[bytes]) -> bool:
    """Write a file, given in parts, under a relative ``name``; return whether that succeeded. Failures cause one warning per
    process.
    """
    root = cache_root()
    if root is None:
        warn("no folder can be written")
        return False
    path = root / name
    temporary = path.with_name(_WRITING + uuid.uuid4().hex)
    digest = hashlib.sha256(name.encode())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path.parent)
        # 0644 at most: in an image, root writes what others read; the file's owner alone may change it
        with os.fdopen(os.open(temporary, _CREATE_FLAGS, 0o644), "wb") as file:
            for part in parts:
                digest.update(part)
                file.write(part)
            file.write(digest.digest())
        os.replace(temporary, path)
    except BaseException as error:
        _unlink(temporary)
        if not isinstance(error, OSError):
            raise
        warn(f"{path}: {error.strerror or error}")
        return False
    return True


def remove(name: str) -> None:
    """Remove a cached file from every folder that allows it."""
    for folder in cache_folders().readable:
        _unlink(folder / name)


def names(folder: str, prefix: str = "", *, carried: bool = False) -> list[str]:
    """Return the relative names of the files in ``folder`` that begin with ``prefix``, for :func:`read` (or
    :func:`read_carried`, if ``carried``).
    """
    found: set[str] = set()
    for root in carried_folders() if carried else cache_folders().readable:
        with contextlib.suppress(OSError):
            found.update(entry for entry in os.listdir(root / folder) if not entry.startswith(_WRITING))
    return [f"{folder}/{entry}" for entry in sorted(found) if entry.startswith(prefix)]


def note_use(folder: str) -> None:
    """Note that files of ``folder`` are in use, so that :func:`prune` keeps it: renews its modification time, to the hour."""
    root = cache_root()
    if root is not None:
        with contextlib.suppress(OSError):
            if time.time() - (root / folder).stat().st_mtime > _USED_SECONDS:
                os.utime(root / folder)


def prune(folder: str, kept: str) -> list[str]:
    """Remove the subfolders of ``folder`` that have long been unused, except the newest few and ``kept``; return the names of
    those removed.

    Each version of the sources leaves one behind. Only folders and files of this user are touched, links are not followed, and
    only files that :func:`write` makes are removed. Other processes may prune at the same time, or use what is removed: they
    have read whole files, and make missing ones again.
    """
    root = cache_root()
    if root is None:
        return []
    found: list[tuple[float, os.DirEntry[str]]] = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(root / folder):
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if entry.name != kept and stat.S_ISDIR(status.st_mode) and _user() in (None, status.st_uid):
                    found.append((status.st_mtime, entry))
    found.sort(key=lambda pair: pair[0], reverse=True)
    oldest = time.time() - _UNUSED_SECONDS
    return [e.name for i, (used, e) in enumerate(found) if i >= _KEPT and (used < oldest or i >= _MOST) and _remove(e.path)]


def _remove(folder: str) -> bool:
    """Remove a folder of cached files; return whether it is gone."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.endswith(SUFFIX) or entry.name.startswith(_WRITING):
                _unlink(Path(entry.path))
        os.rmdir(folder)
        return True
    return not os.path.lexists(folder)


def is_removed_at_exit(folder: Path) -> bool:
    """Return whether a folder is the private one of this process."""
    return folder in _own_folders


# ---- inside ----------------------------------------------------------------------------------------------------------------


def _candidates() -> Iterator[tuple[Path, bool]]:
    """Yield the folders to try before the temporary one, each with whether the user named it for cdplugin."""
    if os.environ.get("CDPLUGIN_CACHE_DIR"):
        yield Path(os.environ["CDPLUGIN_CACHE_DIR"]).absolute(), True
    xdg = os.environ.get("XDG_CACHE_HOME")
    with contextlib.suppress(RuntimeError):  # no home folder
        yield (Path(xdg) if xdg else Path.home() / ".cache") / "cdplugin", False


def _user() -> int | None:
    """Return the effective user id; None on systems without user ids (Windows)."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def _is_owner(uid: int) -> bool:
    """Return whether ``uid`` is this user or root."""
    user = _user()
    return user is None or uid in (user, 0)


def _fault(folder: Path) -> str | None:
    """Return why a folder (which is created if absent) may not be used; None if it may."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        return f"it cannot be made: {error.strerror or error}"
    if not _is_owner(status.st_uid):
        return f"expected a folder that belongs to user {_user()} or root, found one of user {status.st_uid}"
    if _user() is not None and status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        return f"expected a folder that not everybody can write, found mode {stat.S_IMODE(status.st_mode):04o}"
    return None


def _is_writable(folder: Path) -> bool:
    """Return whether a file can be created in a folder. It tries, since permissions do not tell about read-only or
    full disks.
    """
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _temporary_folder(refused: list[str]) -> Path | None:
    """Return this user's folder in the temporary folder, or a fresh one; None if that cannot be written either."""
    try:
        own = Path(tempfile.gettempdir()) / f"cdplugin-{'user' if _user() is None else _user()}"
        with contextlib.suppress(FileExistsError):
            own.mkdir(mode=0o700)
        if _is_private(own.lstat()) and _is_writable(own):
            return own
        refused.append(f"{own}: expected a folder of user {_user()} that nobody else can write")
        folder = Path(tempfile.mkdtemp(prefix="cdplugin-"))
    except OSError as error:
        refused.append(f"the temporary folder: {error.strerror or error}")
        return None
    _own_folders.append(folder)
    atexit.register(_remove_own, folder, os.getpid())
    return folder


def _is_private(status: os.stat_result) -> bool:
    """Return whether a folder (not a link to one) is this user's own and nobody else may write there."""
    if not stat.S_ISDIR(status.st_mode):
        return False
    return _user() is None or (status.st_uid == _user() and not status.st_mode & _OTHERS_WRITE)


def _remove_own(folder: Path, process: int) -> None:
    """Remove the private folder of a process at its exit."""
    if os.getpid() == process:  # not the forked children, which run this too
        shutil.rmtree(folder, ignore_errors=True)


def _is_whole(name: str, content: memoryview) -> bool:
    """Return whether a file ends with the hash of its name and content."""
    digest = hashlib.sha256(name.encode())
    digest.update(content[:-_DIGEST_BYTES])
    return digest.digest() == content[-_DIGEST_BYTES:]


def _read(path: Path) -> memoryview | None:
    """Return the bytes of a file that this user or root wrote; None if it is absent, too short for a digest, or not theirs."""
    try:
        with os.fdopen(os.open(path, _OPEN_FLAGS), "rb") as file:
            status = os.fstat(file.fileno())
            is_safe = stat.S_ISREG(status.st_mode) and _is_owner(status.st_uid)
            if not is_safe or (_user() is not None and status.st_mode & _OTHERS_WRITE):
                return None
            content = memoryview(bytearray(max(status.st_size, _DIGEST_BYTES)))
            file.readinto(content)
            return content
    except OSError:
        return None


def _unlink(path: Path) -> None:
    """Remove a file if possible. A file that stays does no harm."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def _remove_abandoned(folder: Path) -> None:
    """Remove temporary files of processes that were killed while writing."""
    oldest = time.time() - _ABANDONED_SECONDS
    for entry in os.scandir(folder):
        if entry.name.startswith(_WRITING):
            with contextlib.suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mtime < oldest:
                    os.unlink(entry.path)


_has_warned = False


def warn(why: str) -> None:
    """Warn, the first time in this process, that something cannot be cached."""
    global _has_warned
    if not _has_warned:
        _has_warned = True
        text = f"cdplugin's cache: {why}. Nothing is lost, but the next process starts slowly; `cdplugin doctor` says more"
        warnings.warn(text, CacheWarning, stacklevel=3)
