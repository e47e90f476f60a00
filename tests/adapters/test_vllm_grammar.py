"""What vLLM calls, without vLLM: requests become specs; states follow vLLM's contract and never raise."""

from __future__ import annotations

import gc
import inspect
import json
import logging
import random
import sys
from collections.abc import Iterable
from types import SimpleNamespace as Any

import numpy as np
import pytest
from engine_tools import cases, members, seeds
from grammar_tools import HUNGRY
from word_choice import CHOICE, END, VOCAB, allowed

import cdplugin as cd
from cdplugin.adapters.serving.requests import MAX_CACHE_BYTES, ServerOptions, grammar_kind, spec_of
from cdplugin.adapters.vllm import grammar as vllm_grammar
from cdplugin.adapters.vllm.grammar import Engine, GrammarState, engine_for
from cdplugin.adapters.vllm.plugin import hand_over
from cdplugin.specs import popular


def state_of(text: str = CHOICE, kind: str = "CHOICE", stops: Iterable[int] | None = None, **limits: int) -> GrammarState:
    engine = Engine(VOCAB, ServerOptions(limits=limits))
    return engine.state(kind, text, stops)


def filled(state: GrammarState, rows: int = 1, row: int = 0) -> set[int]:
    """The tokens of the row that a state fills."""
    bitmask = np.full((rows, (VOCAB.size + 31) // 32), -1, np.int32)
    state.fill_bitmask(bitmask, row)
    assert (np.delete(bitmask, row, axis=0) == -1).all()
    return members(bitmask[row].tobytes())


# --- requests -------------------------------------------------------------------------------------------------------------


def test_the_collector_looks_at_little_of_what_a_check_makes() -> None:
    """The finding: it kept Python's lock, and the server's event loop, for the time in which it looked at all rules of a large
    schema that were thrown away right after.
    """
    schema = json.dumps({"type": "object", "properties": {f"{n:x}": {"type": "string"} for n in range(3000)}})
    engine = Engine(VOCAB, ServerOptions())
    engine.check("JSON", '{"enum": [1]}', 9)
    seen: list[int] = []

    def note(phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            seen.append(sum(len(gc.get_objects(generation)) for generation in (0, 1)))

    gc.collect()
    gc.callbacks.append(note)
    try:
        engine.check("JSON", schema, 1000)
        engine._find_budget("key", "JSON", schema, 1000)
    finally:
        gc.callbacks.remove(note)
    assert max(seen, default=0) < 10_000  # less than four for a property, where its rules take fifteen


def test_what_is_prepared_keeps_pythons_lock_for_a_short_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who decodes beside it gets the lock back within a fraction of a millisecond."""
    usual, seen = sys.getswitchinterval(), list[float]()
    monkeypatch.setattr(GrammarState, "_fill", lambda *_: seen.append(sys.getswitchinterval()))
    state_of().prepare()
    assert seen and max(seen) <= 0.0005 < usual == sys.getswitchinterval()


def test_kinds_of_requests() -> None:
    assert isinstance(spec_of("JSON", '{"type": "null"}'), cd.JsonSchema)
    assert spec_of("JSON_OBJECT", "").key() == cd.JsonSchema({"type": "object"}).key()
    assert spec_of("REGEX", "a+") == cd.Regex("a+")
    assert spec_of("CHOICE", '["a", "b"]').key() == cd.Choice(["a", "b"]).key()
    with pytest.raises(cd.GrammarError, match="unknown kind"):
        spec_of("PROSE", "")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('root ::= "a" | item\nitem ::= [a-z]+', "Gbnf"),
        ("  root ::=\n    'a'", "Gbnf"),
        ("<root> ::= 'a'", "Ebnf"),
        ("root ::= 'a' ;\n", "Ebnf"),
        ('start: "a" | NAME\nNAME: /[a-z]+/', "Lark"),
        ('start: "::="', "Lark"),
        ('%llguidance {}\nstart: "a"', "Lark"),
    ],
)
def test_syntax_of_grammars(text: str, kind: str) -> None:
    assert grammar_kind(text) == kind


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("JSON", '{"type": "objec"}', "keyword 'type': expected one of .* - at /type"),
        ("JSON", '{"type": ', "JSON"),
        ("JSON", '{"allOf": [{"type": "string"}, {"type": "null"}]}', "unsatisfiable"),
        ("REGEX", "(a", "unclosed group.* - at position 0"),
        ("CHOICE", '["a"', "malformed choice.*position 4"),
        ("CHOICE", '"a"', "wrong type of choices"),
        ("CHOICE", "[1]", "choice"),
        ("STRUCTURAL_TAG", "{", "malformed structural tag|no cdplugin.StructuralTag"),
    ],
)
def test_bad_requests_say_what_is_wrong_each_time(kind: str, text: str, message: str) -> None:
    engine = Engine(VOCAB, ServerOptions())
    for _ in range(2):  # remembered outcomes raise as well
        with pytest.raises(cd.GrammarError, match=message):
            engine.check(kind, text)
    with pytest.raises(cd.GrammarError, match=message):
        engine.state(kind, text)
    engine.check("CHOICE", CHOICE)
    engine.check("CHOICE", CHOICE)


def test_a_remembered_refusal_keeps_nothing_else() -> None:
    """An error's traceback would hold all that was made before it."""
    engine = Engine(VOCAB, ServerOptions(limits={"max_spec_bytes": 3}))
    for _ in range(2):
        with pytest.raises(cd.LimitExceeded, match="max_spec_bytes") as caught:
            engine.check("REGEX", "aaaa")
    (error,) = engine._outcomes.values()
    assert error is not None and error is not caught.value and str(error) == str(caught.value)
    assert error.__traceback__ is None and error.__context__ is None and error.__cause__ is None


def test_a_kind_that_is_unknown() -> None:
    with pytest.raises(cd.GrammarError, match="unknown kind of structured output"):
        spec_of("POEM", "a")


def test_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(vllm_grammar.OPTIONS_VARIABLE, '{"whitespace": "compact", "limits": {"max_pairs": 7}}')
    options = ServerOptions.from_environment(vllm_grammar.OPTIONS_VARIABLE)
    assert options == ServerOptions(whitespace="compact", limits={"max_pairs": 7})
    assert options.budgets == cd.Limits(max_pairs=7, max_cache_bytes=MAX_CACHE_BYTES)
    assert options.json_schema("{}").key() == cd.JsonSchema("{}", whitespace="compact").key()
    exact = {"separators": [", ", ": "], "indent": 2, "unique_names": True, "regex_dialect": "ecma"}
    monkeypatch.setenv(vllm_grammar.OPTIONS_VARIABLE, json.dumps(exact))
    options = ServerOptions.from_environment(vllm_grammar.OPTIONS_VARIABLE)
    del exact["regex_dialect"]
    assert options.json_schema("{}").key() == cd.JsonSchema("{}", **exact).key() and options.regex_dialect == "ecma"
    assert options.compact().json_schema("{}").key() == cd.JsonSchema("{}", whitespace="compact", unique_names=True).key()
    known = [name for name in inspect.signature(cd.JsonSchema).parameters if name not in ("schema", "registry")]
    for wrong in (
        "{",
        "[]",
        '{"white": 1}',
        '{"limits": {"max": 1}}',
        '{"registry": 1}',
        '{"indent": "x"}',
        '{"separators": 1}',
    ):
        monkeypatch.setenv(vllm_grammar.OPTIONS_VARIABLE, wrong)
        with pytest.raises(ValueError, match=vllm_grammar.OPTIONS_VARIABLE) as caught:
            ServerOptions.from_environment(vllm_grammar.OPTIONS_VARIABLE)
        assert all(name in str(caught.value) for name in [*known, "regex_dialect", "limits"])


# --- states ---------------------------------------------------------------------------------------------------------------


def test_masks_and_stop_tokens() -> None:
    comma = ord("a")  # a text token that this request stops at
    state = state_of(stops={END, 5, 10**9, -1})
    assert filled(state, 3, 2) == allowed([], [END, 5])
    assert state.accept_tokens("r", [ord("a"), ord("b")]) and filled(state) == allowed(b"ab", [END, 5])
    assert state.accept_tokens("r", [5]) and state.is_terminated()
    state = state_of(stops=[comma])
    assert filled(state) == {t for t in allowed([]) if t != comma}
    assert state.accept_tokens("r", [VOCAB.tokens.index(b"cc")]) and comma in filled(state)
    assert filled(state_of(stops=[])) == allowed([]) == filled(state_of(stops=[10**9]))


def test_the_end_and_what_comes_after_it() -> None:
    state = state_of()
    assert state.accept_tokens("r", []) and not state.is_terminated()
    assert state.accept_tokens("r", [ord("a"), ord("b"), END, 3, 4]) and state.is_terminated()
    assert state.accept_tokens("r", [7]) and state.accept_tokens("r", []) and state.validate_tokens([ord("c")]) == []
    state.rollback(3)  # 3, 4 and 7
    assert state.is_terminated()
    state.rollback(1)
    assert not state.is_terminated() and filled(state) == allowed(b"ab")
    state.rollback(100)
    assert filled(state) == allowed([])
    assert state.accept_tokens("r", [ord("c")])
    state.reset()
    assert filled(state) == allowed([])
    state.rollback(0)
    state.rollback(-1)
    assert filled(state) == allowed([])


@pytest.mark.parametrize("tokens", [[ord("a"), ord("x")], [10**9], [-1], [ord("a"), None], ["a"]])
def test_a_refusal_changes_nothing(tokens: list[int]) -> None:
    state = state_of()
    assert state.accept_tokens("r", tokens) is False
    assert filled(state) == allowed([]) and state.accept_tokens("r", [*b"abc"])


def test_drafts() -> None:
    state = state_of()
    assert state.validate_tokens([*b"abx"]) == [*b"ab"] and state.validate_tokens([]) == []
    assert state.validate_tokens([*b"abd", END, 3]) == [*b"abd", END]
    assert state.validate_tokens([ord("a"), -1, ord("b")]) == [ord("a")]
    assert state.validate_tokens([10**9]) == [] and state.validate_tokens([ord("a"), 10**9]) == [ord("a")]
    assert filled(state) == allowed([])


@pytest.mark.parametrize("seed", seeds(40, 4))
def test_speculation_as_vllm_does_it(seed: int) -> None:
    """Drafts are validated, masked one by one and rolled back. Then the chosen tokens are taken."""
    rng = random.Random(seed)
    state, text = state_of(), []
    while not (text and text[-1] == END):
        drafts = []
        while len(drafts) < 3 and rng.random() < 0.8:
            options = sorted(allowed([*text, *drafts]) if rng.random() < 0.8 else range(VOCAB.size))
            drafts.append(rng.choice(options or [ord("x")]))
        valid = state.validate_tokens(drafts)
        expected = []
        for draft in drafts:
            if END in expected or draft not in allowed([*text, *expected]):
                break
            expected.append(draft)
        assert valid == expected
        advanced = 0
        for i, draft in enumerate(valid):
            if state.is_terminated():
                break
            assert filled(state) == allowed([*text, *valid[:i]])
            assert state.accept_tokens("r", [draft])
            advanced += 1
        if not state.is_terminated():
            assert filled(state) == allowed([*text, *valid])
        state.rollback(advanced)
        chosen: list[int] = valid[: rng.randrange(len(valid) + 1)]
        if END not in chosen:
            chosen = [*chosen, rng.choice(sorted(allowed([*text, *chosen])))]
        assert state.accept_tokens("r", chosen)
        text += chosen
        assert state.is_terminated() == (END in chosen)


def asking(**options: object) -> str:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"}}, "required": ["a", "b"]}
    return json.dumps({**schema, "x-cdplugin": options})


def test_a_schema_may_ask_for_options() -> None:
    """A client over HTTP has no other place for options than the schema. Otherwise the engine's own options hold."""
    bytes_only = cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"</s>"], eos_token_ids=256)
    engine = Engine(bytes_only, ServerOptions(whitespace="compact"))

    def takes(text: str, schema: str) -> bool:
        engine.check("JSON", schema)
        state = engine.state("JSON", schema)
        return state.accept_tokens("r", [*text.encode(), 256]) and state.is_terminated()

    ordered, turned, spaced = '{"a":1,"b":null}', '{"b":null,"a":1}', '{"a": 1, "b": null}'
    assert [takes(text, asking()) for text in (ordered, turned, spaced)] == [True, False, False]
    assert [takes(text, asking(property_order="any")) for text in (ordered, turned, spaced)] == [True, True, False]
    assert [takes(text, asking(whitespace="flexible")) for text in (ordered, turned, spaced)] == [True, False, True]
    beside = {"prefixItems": [{"type": "number"}], "contains": {"const": 1.5}}
    unsupported = json.dumps({"type": "array", "uniqueItems": True, **beside})
    with pytest.raises(cd.UnsupportedError):
        engine.check("JSON", unsupported)
    relaxed = json.dumps({**json.loads(unsupported), "x-cdplugin": {"on_unsupported": "relax"}})
    assert takes("[1.5]", relaxed)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (asking(whitspace="compact"), "unknown option: expected one of whitespace, .*found 'whitspace' - at /x-cdplugin"),
        (asking(limits={"max_step_work": 1}), "unknown option"),
        (asking(registry=1), "unknown option"),
        (asking(property_order="some"), "option property_order: expected 'schema' or 'any', found 'some'"),
        ('{"x-cdplugin": 3}', "expected an object of options, found int - at /x-cdplugin"),
        ('{"x-cdplugin": {', "JSON"),
    ],
)
def test_options_that_a_schema_may_not_have(text: str, message: str) -> None:
    with pytest.raises(cd.GrammarError, match=message):
        Engine(VOCAB, ServerOptions()).check("JSON", text)
    assert isinstance(spec_of("JSON", '{"properties": {"x-cdplugin": {}}}'), cd.JsonSchema)


# --- budgets --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stops", [[END], [END, 3]])
def test_a_crossed_budget_ends_one_request_only(stops: list[int], caplog: pytest.LogCaptureFixture) -> None:
    """The mask holds the stop tokens, nothing more is taken, and a rollback leads out of it."""
    caplog.set_level(logging.WARNING, "vllm.cdplugin")
    state = state_of(HUNGRY, "REGEX", stops, max_expr_width=60)
    taken = 0
    while True:
        mask = filled(state)
        if not state.accept_tokens("r", [ord("a")]):
            break
        taken += 1
    assert 40 < taken < 200
    assert filled(state) == set(stops) and filled(state) == set(stops)
    for tokens in ([ord("a")], [ord("b")], [END]):
        assert not state.accept_tokens("r", tokens)
    assert not state.is_terminated() and state.validate_tokens([ord("a")]) == [] and state.accept_tokens("r", [])
    assert "max_expr_width" in caplog.text and "Traceback" not in caplog.text
    state.rollback(30)
    assert {ord("a"), ord("b")} <= filled(state) and state.accept_tokens("r", [ord("a")] * 30)
    assert filled(state) == set(stops) and mask != set()
    state.reset()
    assert ord("a") in filled(state)


@pytest.mark.parametrize("most", [800, 1500, 3000])
def test_a_mask_that_fails_beside_drafts_ends_one_request_only(most: int) -> None:
    """The finding: the drafts were legal, the mask in front of one crossed a limit, and that draft was refused then: vLLM's
    scheduler asserts that it takes legal drafts, and ended with all requests.
    """
    state = state_of(HUNGRY, "REGEX", max_step_work=most)
    masks: list[set[int]] = []
    while {END} not in masks[:2]:
        drafts, masks = state.validate_tokens([ord("a")] * 4), []
        for draft in drafts:
            masks.append(filled(state))
            assert state.accept_tokens("r", [draft])
        masks.append(filled(state))
        state.rollback(len(drafts))
        assert state.accept_tokens("r", [ord("a")]) == ({END} not in masks[:1])
    assert filled(state) == {END} and not state.accept_tokens("r", [END]) and not state.is_terminated()


def test_a_failure_forgives_legal_drafts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    state, take = state_of(), cd.Matcher.accept_token

    def full(matcher: cd.Matcher, token: int) -> bool:
        if len(matcher.tokens) == 1:
            raise MemoryError("no room")
        return take(matcher, token)

    monkeypatch.setattr(cd.Matcher, "accept_token", full)
    assert state.validate_tokens([*b"abd", END]) == [*b"abd", END]
    for draft in [*b"abd", END]:
        assert state.accept_tokens("r", [draft])
        assert filled(state) == (allowed([ord("a")]) if draft == ord("a") else {END})
    assert not state.accept_tokens("r", [END])
    state.rollback(4)
    assert filled(state) == allowed([])
    for chosen in (b"ac", b"abc"):
        assert not state.accept_tokens("r", [*chosen])
    assert filled(state) == allowed([]) and state.accept_tokens("r", [ord("a")])


def test_a_draft_refused_behind_the_end_of_reasoning_is_no_reason() -> None:
    """The finding: vLLM lets such a draft be refused, and the request, which went on, ended with a reason all the same."""
    state, told = state_of(), list[str]()
    state.tell = told.append
    assert not state.accept_tokens("r", [ord("x")]) and len(told) == 1
    assert filled(state) == allowed([]) and told[1:] == [""] and filled(state) and len(told) == 2
    request = Any()
    hand_over(state, request, Any(kv_transfer_config=None), None, 0.0)
    assert not state.accept_tokens("r", [ord("x")]) and request.stop_reason.startswith("cdplugin: after 0 tokens")
    assert filled(state) == allowed([]) and request.stop_reason is None


def test_a_token_that_something_else_chose_is_named() -> None:
    """The finding: HTTP 500 without a word, where ``allowed_token_ids`` leaves no token that the grammar allows."""
    state, told = state_of(), list[str]()
    state.tell = told.append
    token = min(allowed([]))
    assert state.accept_tokens("r", [token]) and not told
    other = min(set(range(VOCAB.size)) - allowed([token]))
    for tokens in ([other], [min(allowed([token])), VOCAB.size], [-1]):
        assert not state.accept_tokens("r", tokens)
        at = "after 1 tokens" if len(tokens) == 1 else "after 2 tokens"
        assert f"{at} of the answer: expected a token that the grammar allows there, found token {tokens[-1]}:" in told.pop()
    assert state.accept_tokens("r", []) and not told
    assert not state.accept_tokens("r", None) and told  # type: ignore[arg-type]


def test_whatever_goes_wrong_nothing_is_raised(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    state = state_of()

    def broken(*_: object) -> None:
        raise MemoryError("no room")

    for name in ("fill_next_token_bitmask", "accept_token", "validate_tokens"):
        monkeypatch.setattr(cd.Matcher, name, broken)
    assert filled(state) == {END} and not state.accept_tokens("r", [ord("a")]) and state.validate_tokens([1]) == []
    assert "MemoryError: no room" in caplog.text
    state.fill_bitmask(np.zeros((1, 1), np.int64), 0)
    state.fill_bitmask(None, 0)


@pytest.mark.parametrize("fault", [MemoryError("no room"), ValueError("a replay that failed")])
def test_what_cannot_be_taken_back_ends_the_request(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """The finding: ``rollback``, ``reset`` and ``is_terminated`` raised what the matcher raised, and ended the engine."""
    state = state_of()
    token = min(allowed([]))
    assert state.accept_tokens("r", [token])

    def broken(*_: object) -> None:
        raise fault

    with monkeypatch.context() as patch:
        patch.setattr(cd.Matcher, "rollback", broken)
        patch.setattr(cd.Matcher, "is_terminated", broken)
        patch.setattr(cd.Matcher, "tokens", property(broken))
        state.rollback(1)
        state.reset()
        assert state.is_terminated()
    assert str(fault) in caplog.text
    assert filled(state) == {END} and not state.accept_tokens("r", [token]) and state.validate_tokens([token]) == []
    state.rollback(None)  # type: ignore[arg-type]


def test_a_refusal_that_cannot_be_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    state = state_of()
    first = min(allowed([]))

    def broken(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(cd.Matcher, "rollback", broken)
    assert not state.accept_tokens("r", [first, 0])
    assert filled(state) == {END} and not state.accept_tokens("r", [first])


def test_a_budget_belongs_to_its_request() -> None:
    engine = Engine(VOCAB, ServerOptions(limits={"max_expr_width": 60}))
    good, bad = engine.state("CHOICE", CHOICE), engine.state("REGEX", HUNGRY)
    while bad.accept_tokens("bad", [ord("a")]):
        pass
    assert filled(good) == allowed([]) and good.accept_tokens("good", [*b"abc", END]) and good.is_terminated()


# --- engines --------------------------------------------------------------------------------------------------------------


def test_grammars_are_shared_and_forgotten() -> None:
    engine = Engine(VOCAB, ServerOptions(limits={"max_cache_bytes": 1}))  # too little for any: only their users keep them
    one, two = engine.state("CHOICE", CHOICE), engine.state("CHOICE", CHOICE)
    assert one._matcher.grammar is two._matcher.grammar
    for i in range(5):
        engine.state("REGEX", "a" * (i + 1))
    assert len(engine.compiler._cache) == 0
    assert one.accept_tokens("r", [*b"abc"]) and filled(two) == allowed([])


def test_the_cache_is_bounded_though_grammars_grow_after_they_are_compiled() -> None:
    engine = Engine(VOCAB, ServerOptions(limits={"max_cache_bytes": 8 << 20}))
    for i in range(cases(80, 20)):
        state = engine.state("REGEX", f"(a|b)*a(a|b){{7}}c{{{i + 1}}}")
        for step in range(cases(300, 10)):
            assert state.accept_tokens("r", [*b"aababbbabaabb"][step % 13 : step % 13 + 1]) and filled(state)
        cached = engine.compiler._cache.values()
        assert sum(grammar.nbytes for grammar in cached) <= 8 << 20
    assert 0 < len(cached) < cases(80, 21)


def test_an_engine_belongs_to_a_tokenizer_and_a_width() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    alphabet = {chr(c): i for i, c in enumerate([*range(0x21, 0x7F), 0x120])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(alphabet, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    engine = engine_for(tokenizer, 96)
    assert engine_for(tokenizer, 96) is engine is not engine_for(tokenizer, 128)
    assert engine_for(tokenizer, 128).vocab.size == 128
    compact = engine_for(tokenizer, 96, compact=True)
    assert compact is not engine and compact.options.whitespace == "compact"
    engine.warm()
    assert popular.meet_all.cache_info().currsize == 1
