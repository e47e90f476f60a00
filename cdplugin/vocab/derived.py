"""What is made from a vocabulary when it is asked for first, and kept as long as the vocabulary lives."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import TypeVar

from cdplugin.vocab.vocabulary import Vocabulary

T = TypeVar("T")


def once_for_a_vocabulary(make: Callable[[Vocabulary], T]) -> Callable[[Vocabulary], T]:
    """Decorator: a function of a vocabulary whose result is kept beside it. The result may not refer to the vocabulary."""
    kept: weakref.WeakKeyDictionary[Vocabulary, T] = weakref.WeakKeyDictionary()

    @functools.wraps(make)
    def find(vocab: Vocabulary) -> T:
        found = kept.get(vocab)
        if found is None:
            found = kept[vocab] = make(vocab)
        return found

    return find
