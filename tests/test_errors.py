"""Every error can be copied and pickled, whatever its constructor takes; its text is Unicode of bounded length."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from importlib import import_module

import pytest

from cdplugin.errors import (
    CdpluginError,
    EngineError,
    GrammarError,
    LimitExceeded,
    UnsupportedError,
    VocabularyError,
    shown,
    suggestion,
)
from cdplugin.frontends.json_schema.multiples import TooManyResiduesError
from cdplugin.frontends.json_schema.sharing import MultipliesError
from cdplugin.infill.search import SearchGivenUp


def all_errors() -> Iterator[type[CdpluginError]]:
    waiting = [CdpluginError]
    while waiting:
        kind = waiting.pop()
        yield kind
        waiting += kind.__subclasses__()


def examples() -> dict[type[CdpluginError], CdpluginError]:
    out: dict[type[CdpluginError], CdpluginError] = {
        TooManyResiduesError: TooManyResiduesError(),
        **{kind: kind("what") for kind in (CdpluginError, EngineError, VocabularyError, MultipliesError)},
    }
    for kind in (GrammarError, UnsupportedError, LimitExceeded, SearchGivenUp):
        out[kind] = kind("what", location="/a", keyword="k", expected="x", found="y", context="  a\n  ^")
    return out


def adapters() -> dict[type[CdpluginError], CdpluginError]:
    pytest.importorskip("transformers")
    hf, budget = import_module("cdplugin.adapters.hf.processor"), import_module("cdplugin.adapters.hf.budget")
    return {hf.TokenNotAllowedError: hf.TokenNotAllowedError("what", 3, 7), budget.BudgetError: budget.BudgetError("what")}


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_errors_are_copied_and_pickled(again: Callable[[CdpluginError], CdpluginError]) -> None:
    known = {**examples(), **adapters()}
    assert {kind for kind in all_errors() if kind.__module__.startswith("cdplugin")} == set(known)
    for kind, error in known.items():
        error.__cause__ = KeyError("a cause")
        other = again(error)
        assert type(other) is kind and other is not error
        assert str(other) == str(error) and vars(other) == vars(error) and other.args == error.args
        assert other.__traceback__ is None


def test_amended_is_a_copy_of_the_same_class() -> None:
    error = TooManyResiduesError()
    other = error.amended(location="/a/multipleOf", message="tool 'f': no")
    assert type(other) is TooManyResiduesError and not error.location
    assert str(other) == "tool 'f': no: expected at most 256 states - at /a/multipleOf"


def test_text_is_unicode_and_bounded() -> None:
    error = GrammarError("x" * 100_000, found="\ud800", location="/\udfff")
    str(error).encode()
    assert len(str(error)) < 5_000 and "\\ud800" in str(error)


def test_only_short_names_are_guessed() -> None:
    assert suggestion("wierd", ["weird", "other"]) == " (did you mean 'weird'?)"
    assert suggestion("a" * 100_000, ["b" + "a" * 100_000] * 3) == suggestion("x", ["x" * 100_000]) == ""


def test_any_value_is_shown() -> None:
    assert shown(10**5000) == "a value of type int" and shown("a\ud800") == "'a\\ud800'"
    assert len(shown("x" * 10**6)) < 5_000
