"""Whether patterns share texts, beside texts that are tried one by one."""

from __future__ import annotations

import itertools
import re

import pytest

from cdplugin.frontends.json_schema.matching import share_no_text

PATTERNS = [
    "a",
    "b",
    "^a",
    "^b",
    "a$",
    "b$",
    "ab",
    "^ab$",
    "^b|a",
    "a|b$",
    "^[ab]$",
    "^b?$",
    "^a+$",
    "^(?!a)",
    "^[^a]*$",
    "aa.bb",
    "[^\\s\\S]",
]
TEXTS = ["".join(letters) for n in range(7) for letters in itertools.product("ab", repeat=n)]


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations_with_replacement(PATTERNS, 2)))
def test_patterns_that_share_a_text(first: str, second: str) -> None:
    """What is said to share no text shares none, and short texts are enough to tell these patterns apart."""
    shares = any(re.search(first, text) and re.search(second, text) for text in TEXTS)
    found, taken = share_no_text(first, second)
    assert found != shares
    assert (found, taken) == share_no_text(second, first)


def test_words_to_be_found_anywhere_are_no_search() -> None:
    """A match of one behind a match of the other: that takes no derivative."""
    assert share_no_text("ON_APPROVAL", "ON_SIGNING") == (False, 1)
    assert share_no_text("^begin", "end$") == (False, 1)
