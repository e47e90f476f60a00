"""The arena that every grammar of a vocabulary starts from: lexer states that most grammars need are warmed in it once."""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

from cdplugin.arena import Arena
from cdplugin.limits import Limits
from cdplugin.vocab import Vocabulary

_lock = threading.Lock()
_templates: WeakKeyDictionary[Vocabulary, dict[Limits, Arena]] = WeakKeyDictionary()


def template_arena(vocab: Vocabulary, limits: Limits) -> Arena:
    """The frozen template of ``vocab``: clone it, never step it."""
    with _lock:
        by_limits = _templates.setdefault(vocab, {})
        arena = by_limits.get(limits)
        if arena is None:
            arena = by_limits[limits] = Arena(vocab, limits)
        return arena
