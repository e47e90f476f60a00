"""What ``copy`` and ``pickle`` make of the objects that a program holds."""

from __future__ import annotations

import contextlib
import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from engine_tools import mask_bits, vocabulary

import cdplugin as cd

VOCAB = vocabulary([b"ab", b"aab"])
COMPILER = cd.Compiler(VOCAB)
SPECS: list[cd.Spec] = [
    cd.Regex("a+b"),
    cd.JsonSchema({"properties": {"a": {}}}),
    cd.JsonSchema({"properties": {"a": {}}}, property_order="any"),
    cd.Choice(["yes", "no"]),
    cd.JsonObject(),
    cd.Gbnf('root ::= "a"'),
    cd.Lark("start: /a+/"),
    cd.StructuralTag({"type": "structural_tag", "format": {"type": "const_string", "value": "a"}}),
]
both = pytest.mark.parametrize("make", [copy.copy, copy.deepcopy])


@both
@pytest.mark.parametrize("shared", [VOCAB, COMPILER, COMPILER.compile(SPECS[0])], ids=lambda value: type(value).__name__)
def test_what_is_shared_is_not_copied(make: Callable[[Any], Any], shared: Any) -> None:
    assert make(shared) is shared
    assert make([shared])[0] is shared


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: type(spec).__name__)
@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_a_copy_of_a_spec_has_its_grammar(make: Callable[[Any], Any], spec: cd.Spec) -> None:
    """The finding: the usual options of an unpickled JSON schema were taken for others, and it was compiled again."""
    assert COMPILER.compile(make(spec)) is COMPILER.compile(spec)


@both
def test_a_copy_of_a_matcher_is_a_fork(make: Callable[[Any], Any]) -> None:
    """The finding: ``copy.copy`` shared the lists, so that the one followed the other's tokens."""
    matcher = COMPILER.compile(SPECS[0]).matcher()
    matcher.accept_token(ord("a"))
    before = mask_bits(matcher)
    other = make(matcher)
    assert other.grammar is matcher.grammar and other.tokens == matcher.tokens and mask_bits(other) == before
    assert other.accept_token(ord("b"))
    assert matcher.tokens == (ord("a"),) and mask_bits(matcher) == before != mask_bits(other)
    matcher.rollback(1)
    assert other.tokens == (ord("a"), ord("b"))


@both
def test_a_copy_of_a_session_goes_on_apart(make: Callable[[Any], Any]) -> None:
    """Once ``copy.copy`` shared the text, so that what one session set stood in the other; and ``copy.deepcopy`` failed."""
    infill = cd.Infill(COMPILER.compile(cd.Regex("[ab]{4}")))
    assert make(infill) is infill
    session = infill.new(["a", cd.Slots(3)])
    assert session.set(0, ord("b"))
    other = make(session)
    assert other.tokens() == session.tokens() and np.array_equal(other.mask(1), session.mask(1))
    assert other.set(1, ord("a")) and session.set(2, ord("b"))
    assert session.tokens() == [ord("b"), None, ord("b")] and other.tokens() == [ord("b"), ord("a"), None]
    other.undo(2)
    assert other.open_slots() == [0, 1, 2] and session.open_slots() == [1]
    for value in (infill, session):
        with pytest.raises(TypeError, match=f"an {type(value).__name__} cannot be pickled: pickle the"):
            pickle.dumps(value)


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
@pytest.mark.parametrize("begun", [b"", b"[1, [", b'{"a": "b\\', b'{"a', b"12", b"[true, {}]"])
def test_a_copy_of_partial_json_goes_on_apart(make: Callable[[Any], Any], begun: bytes) -> None:
    reader = cd.PartialJson()
    reader.feed(begun)
    before, other = json.dumps(reader.value), make(reader)
    for more in (b"3", b'n"', b"]", b'":1}'):
        again, fresh = make(other), cd.PartialJson()
        fresh.feed(begun)
        outcomes = []
        for one in (again, fresh):
            with contextlib.suppress(ValueError):
                one.feed(more)
            outcomes.append((json.dumps(one.value), one.is_complete))
        assert outcomes[0] == outcomes[1], more
    assert json.dumps(reader.value) == json.dumps(other.value) == before


def test_a_pickled_vocabulary_is_equal() -> None:
    again = pickle.loads(pickle.dumps(VOCAB))
    assert again is not VOCAB and again.fingerprint == VOCAB.fingerprint and again.label == VOCAB.label
    for name in ("tokens", "size", "eos_token_ids", "special_tokens", "added_tokens", "unreadable_token_ids", "slice_chars"):
        assert getattr(again, name) == getattr(VOCAB, name), name
    for name in ("byte", "depth", "skip", "token"):
        assert np.array_equal(getattr(again.trie, name), getattr(VOCAB.trie, name))
    assert np.array_equal(again.slice_masks, VOCAB.slice_masks) and again.encode is None


def test_a_pickled_tokenizer_s_vocabulary_is_equal() -> None:
    data = pytest.importorskip("tokenizers_data")
    vocab = cd.Vocabulary.from_huggingface(data.llama2_like(), cache=False)
    again = pickle.loads(pickle.dumps(vocab))
    assert again.fingerprint == vocab.fingerprint and again.names == vocab.names


def test_a_pickled_compiler_compiles_alike() -> None:
    limits = cd.Limits(max_rules=4321)
    again = pickle.loads(pickle.dumps(cd.Compiler(VOCAB, limits)))
    assert again.limits == limits and again.vocab.fingerprint == VOCAB.fingerprint
    for spec in SPECS:
        assert mask_bits(again.compile(spec).matcher()) == mask_bits(COMPILER.compile(spec).matcher())


@pytest.mark.parametrize("make", [lambda g: g, lambda g: g.matcher()], ids=["Grammar", "Matcher"])
def test_what_is_not_pickled_says_what_to_do(make: Callable[[cd.Grammar], Any]) -> None:
    value = make(COMPILER.compile(SPECS[0]))
    with pytest.raises(TypeError, match=f"a {type(value).__name__} cannot be pickled: pickle its spec and"):
        pickle.dumps(value)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: type(spec).__name__)
def test_what_to_do_can_be_done(spec: cd.Spec) -> None:
    """A spec and tokens travel; at the other end they make the same matcher."""
    matcher = COMPILER.compile(spec).matcher()
    allowed = np.flatnonzero(np.unpackbits(np.frombuffer(mask_bits(matcher), np.uint8), bitorder="little"))
    matcher.accept_token(int(allowed[0]))
    spec, tokens, compiler = pickle.loads(pickle.dumps((spec, matcher.tokens, COMPILER)))
    again = compiler.compile(spec).matcher()
    assert again.accept_tokens(tokens) == len(tokens) and mask_bits(again) == mask_bits(matcher)


def errors() -> list[cd.CdpluginError]:
    """Every error class, as the package raises it."""
    found: list[cd.CdpluginError] = [cd.CdpluginError("plain")]
    actions: list[Callable[[], Any]] = [
        lambda: COMPILER.compile(cd.Regex("a(")),
        lambda: COMPILER.compile(cd.JsonSchema({"type": "strin"})),
        lambda: COMPILER.compile(cd.JsonSchema({"$dynamicRef": "#x", "contentSchema": 3, "uniqueItems": True})),
        lambda: cd.Compiler(VOCAB, cd.Limits(max_rules=1)).compile(SPECS[1]),
        lambda: cd.Vocabulary.from_bytes([]),
    ]
    for action in actions:
        try:
            action()
        except cd.CdpluginError as error:
            found.append(error)
    found.append(cd.UnsupportedError("not so", location="/a", keyword="b", expected="c", found="d", context="e"))
    return found


def test_errors() -> None:
    """Copied and pickled errors say the same and know the same."""
    found = errors()
    try:
        from cdplugin.adapters.hf.processor import TokenNotAllowedError
    except ImportError:
        pass
    else:
        found.append(TokenNotAllowedError("a token", 3, 4))
    assert len({type(error) for error in found}) >= 5
    for error in found:
        for again in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
            assert type(again) is type(error) and str(again) == str(error) and vars(again) == vars(error)
