"""Names of requests for logs, and the line that tells of slow ones.

A schema may hold what nobody should read in a log (names, constants): a line shows a hash, by which the request is found in the
client's own records, and the first characters, as many as the option ``log_characters`` allows.

>>> Asked("REGEX", "[a-z]{3}").named(4)
'REGEX of 8 characters, sha256 ca380da43cee, begins "[a-z"'
"""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256

from cdplugin import forking

_MOST_NAMES = 1024


@dataclass(frozen=True)
class Asked:
    """What a request asks for: its kind and text, as in :func:`cdplugin.adapters.serving.requests.spec_of`."""

    kind: str
    text: str

    def digest(self) -> str:
        """The first 12 digits of the text's SHA-256."""
        return sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()[:12]

    def named(self, characters: int) -> str:
        """Kind, length, hash and so many first characters."""
        text = f"{self.kind} of {len(self.text)} characters, sha256 {self.digest()}"
        return f"{text}, begins {json.dumps(self.text[:characters])}" if characters > 0 else text


class SlowLog:
    """Tells once of each slow request and what was slow, showing so many ``characters`` of the request; thread-safe."""

    def __init__(self, logger: logging.Logger, characters: int) -> None:
        self._logger = logger
        self._characters = characters
        self._told: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        self._lock = threading.Lock()
        forking.watch(self)

    def tell(self, what: str, seconds: float, asked: Asked) -> None:
        """Log that ``what`` took so many seconds, unless that was told of this request."""
        key = (what, asked.kind, asked.digest())
        with self._lock:
            if key in self._told:
                return
            self._told[key] = None
            if len(self._told) > _MOST_NAMES:
                self._told.popitem(last=False)
        self._logger.warning("cdplugin: slow request: %s took %.3f s: %s", what, seconds, asked.named(self._characters))

    def after_fork(self) -> None:
        """In a forked child: nobody holds the lock."""
        self._lock = threading.Lock()
