"""A real vLLM on the CPU, in this process and its engine's: every kind of request, batches, speculation, budgets."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import vllm_tools as tools
from vllm_tools import brackets, is_valid, needs_vllm, obj, schemas, validator

pytestmark = needs_vllm

END = 2  # <|im_end|>
BY_VALUE = ("VLLM_ALLOW_INSECURE_SERIALIZATION", "1")  # a test sends a function to the worker
NAMES = ["a person", "a city", "a book", "a horse"]


@pytest.fixture(scope="module")
def engines() -> Iterator[Any]:
    """Make the engine of a name, one at a time."""
    held: dict[str, Any] = {}

    def get(name: str) -> Any:
        if name not in held:
            close()
            held[name] = start(**({} if name == "plain" else SPECULATION))
        return held[name]

    def close() -> None:
        for llm in held.values():
            llm.llm_engine.engine_core.shutdown()
        held.clear()
        gc.collect()

    yield get
    close()


SPECULATION = {
    "speculative_config": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1},
}


def start(**options: Any) -> Any:
    from demo_model import model_folder
    from vllm import LLM

    patch = pytest.MonkeyPatch()
    with patch.context() as environment:
        environment.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        environment.setenv(*BY_VALUE)
        environment.setenv("CDPLUGIN_VLLM_OPTIONS", json.dumps({"whitespace": "compact", "limits": {"max_expr_width": 30}}))
        if "speculative_config" not in options:
            options["logits_processors"] = ["cdplugin.adapters.vllm.logits:GrammarLogitsProcessor"]
        return LLM(
            str(model_folder()),
            structured_outputs_config={"backend": "cdplugin"},
            dtype="float32",
            max_model_len=512,
            max_num_seqs=16,
            enforce_eager=True,
            **options,
        )


def params(
    tokens: int = 60, *, stops: list[int] | None = None, temperature: float = 0.0, logprobs: int | None = None, **kind: Any
) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    structured = StructuredOutputsParams(**kind) if kind else None
    return SamplingParams(
        temperature=temperature,
        seed=1,
        max_tokens=tokens,
        stop_token_ids=stops,
        structured_outputs=structured,
        logprobs=logprobs,
    )


def chat(llm: Any, requests: list[tuple[str, Any]]) -> list[Any]:
    """The completions of some prompts."""
    messages = [[{"role": "user", "content": text}] for text, _ in requests]
    return [output.outputs[0] for output in llm.chat(messages, [p for _, p in requests], use_tqdm=False)]


# --- kinds of requests -----------------------------------------------------------------------------------------------------

PERSON = obj(name={"type": "string", "pattern": "^[A-Z][a-z]{1,10}$"}, age={"type": "integer", "minimum": 0, "maximum": 130})
KINDS = {
    "json": ({"json": PERSON}, validator(PERSON)),
    "json text": ({"json": json.dumps(PERSON)}, validator(PERSON)),
    "regex": ({"regex": tools.PHONE}, re.compile(tools.PHONE).fullmatch),
    "choice": ({"choice": ["Rome", "Paris", "Berlin"]}, {"Rome", "Paris", "Berlin"}.__contains__),
    "lark": ({"grammar": tools.LARK}, brackets),
    "gbnf": ({"grammar": tools.GBNF}, brackets),
    "structural tag": (
        {"structural_tag": json.dumps(tools.STRUCTURAL)},
        lambda text: is_valid(tools.TAG["json_schema"], text.removeprefix("<call>").removesuffix("</call>")),
    ),
}


def test_every_kind_in_one_batch(engines: Any) -> None:
    requests = [("Which city is the capital of France? Describe it.", params(**kind)) for kind, _ in KINDS.values()]
    for (name, (_, check)), done in zip(KINDS.items(), chat(engines("plain"), requests), strict=True):
        assert done.finish_reason == "stop" or name in ("lark", "gbnf"), (name, done)
        assert check(done.text) or done.finish_reason == "length", (name, done.text)


def test_any_json_object_and_tags_in_free_text(engines: Any) -> None:
    text = "Say <call> and call the function with Rome."
    requests = [(text, params(json_object=True)), (text, params(structural_tag=json.dumps(tools.LEGACY))), (text, params(10))]
    value, tagged, free = chat(engines("plain"), requests)
    if value.finish_reason == "stop":
        assert isinstance(json.loads(value.text), dict)
    assert value.text.lstrip().startswith("{") and free.text
    for inside in re.findall("<call>(.*?)</call>", tagged.text, re.DOTALL):
        assert is_valid(tools.TAG["json_schema"], inside)


def test_stop_tokens_of_a_request(engines: Any) -> None:
    """A user's stop token ends the text where it may end, and only there."""
    llm = engines("plain")
    dot = llm.get_tokenizer().encode(".", add_special_tokens=False)[0]
    requests = [("Count.", params(40, stops=[dot], regex="[0-9]{3}( [0-9]{3}){2}")), ("Count.", params(40, regex="[0-9. ]{6}"))]
    stopped, other = chat(llm, requests)
    assert re.fullmatch("[0-9]{3}( [0-9]{3}){2}", stopped.text) and stopped.finish_reason == "stop"
    assert stopped.stop_reason in (dot, None)
    assert re.fullmatch("[0-9. ]{6}", other.text)


def test_forty_schemas_sampled(engines: Any) -> None:
    """Two requests of each schema at temperature 1, sixteen at a time: whatever ended is valid, and nearly all end."""
    requests = [
        (f"Make up {NAMES[i % 4]}.", params(60, json=schema, temperature=1.0)) for i in range(2) for schema in schemas()
    ]
    done = chat(engines("plain"), requests)
    ended = [(s, d.text) for s, d in zip(schemas() * 2, done, strict=True) if d.finish_reason == "stop"]
    assert [pair for pair in ended if not is_valid(*pair)] == []
    assert len(ended) >= 0.9 * len(requests)


@pytest.mark.slow
def test_two_hundred_requests(engines: Any) -> None:
    """Forty schemas and all other kinds, sampled, sixteen at a time: what ended is valid."""
    asked = tools.two_hundred()
    requests = [(f"Make up {NAMES[i % 4]}.", params(100, temperature=1.0, **kind)) for i, (kind, _) in enumerate(asked)]
    done = chat(engines("plain"), requests)
    wrong = [
        (kind, d.text) for (kind, check), d in zip(asked, done, strict=True) if d.finish_reason == "stop" and not check(d.text)
    ]
    assert wrong == []
    ended = sum(d.finish_reason == "stop" for d in done)
    print(f"{ended} of {len(asked)} requests ended, all valid")
    assert ended >= 0.8 * len(asked)


# --- the same text, however it is made -------------------------------------------------------------------------------------


def differences(one: list[Any], two: list[Any]) -> list[str]:
    """:func:`vllm_tools.differences` of two lists of vLLM's outputs."""

    def written(done: Any) -> tools.Written:
        scores = [[entry.logprob for entry in step.values()] for step in done.logprobs]
        return tools.Written(done.text, list(done.token_ids), scores)

    return tools.differences([*map(written, one)], [*map(written, two)])


def greedy() -> list[tuple[str, Any]]:
    """Sixteen requests with the scores that :func:`differences` reads."""
    return [(f"Make up {NAMES[i % 4]}.", params(24, json=schema, logprobs=2)) for i, schema in enumerate(schemas()[:16])]


def test_batch_of_one_and_of_sixteen(engines: Any, request: pytest.FixtureRequest) -> None:
    llm = engines("plain")
    together = chat(llm, greedy())
    request.config.stash[TOGETHER] = [*together]
    alone = [chat(llm, [pair])[0] for pair in greedy()[::2]]
    assert differences(together[::2], alone) == []


TOGETHER = pytest.StashKey[list[Any]]()


def test_the_logits_processor_writes_the_same(engines: Any) -> None:
    from vllm import SamplingParams

    pairs = greedy()[::4]
    extra = [{"cdplugin_json": json.dumps(p.structured_outputs.json)} for _, p in pairs]
    processed = [SamplingParams(temperature=0, max_tokens=24, logprobs=2, extra_args=e) for e in extra]
    llm = engines("plain")
    assert differences(chat(llm, pairs), chat(llm, [(t, p) for (t, _), p in zip(pairs, processed, strict=True)])) == []
    from vllm.exceptions import VLLMValidationError

    for wrong, message in (({"cdplugin_json": '{"type": 1}'}, "/type"), ({"cdplugin_x": 1}, "cdplugin_x")):
        with pytest.raises(VLLMValidationError, match=message):
            chat(llm, [("x", SamplingParams(extra_args=wrong))])


def test_bitmasks_are_applied_by_our_kernel(engines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def how(worker: Any) -> str:
        from vllm.v1.structured_output import utils

        return type(utils.xgr).__name__

    monkeypatch.setenv(*BY_VALUE)
    assert engines("plain").collective_rpc(how) == ["CpuMasks"]


def test_beam_search(engines: Any) -> None:
    from vllm.sampling_params import BeamSearchParams, StructuredOutputsParams

    choice = StructuredOutputsParams(choice=["Rome", "Paris"])
    search = BeamSearchParams(beam_width=2, max_tokens=6, structured_outputs=choice)
    (found,) = engines("plain").beam_search([{"prompt": "The capital of France is "}], search)
    for beam in found.sequences:
        assert beam.text.removeprefix("The capital of France is ").removesuffix("<|im_end|>").strip() in ("Rome", "Paris")


# --- requests that go wrong ------------------------------------------------------------------------------------------------

BAD = {
    "a type that is none": ({"json": {"properties": {"a": {"type": "objec"}}}}, "/properties/a/type"),
    "no JSON": ({"json": '{"type": '}, "JSON"),
    "nothing is valid": ({"json": {"allOf": [{"type": "string"}, {"type": "null"}]}}, "unsatisfiable"),
    "empty text": ({"json": " "}, "empty"),
    "a group": ({"regex": "(a"}, "position 0"),
    "look-behind": ({"regex": "(?<=a)b"}, "position"),
    "NUL": ({"regex": "a\x00"}, "NUL"),
    "no choices": ({"choice": []}, "empty"),
    "a rule that is missing": ({"grammar": 'root ::= "a" item\n'}, "item"),
    "Lark": ({"grammar": 'start: "a" item\n'}, "item"),
    "a tag": ({"structural_tag": '{"format": {"type": "tagg"}}'}, "tagg|type"),
    "no object": ({"json_object": False}, "json_object"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_requests_are_refused_at_the_door(engines: Any, name: str) -> None:
    from vllm.exceptions import VLLMValidationError

    kind, message = BAD[name]
    with pytest.raises(VLLMValidationError, match=message):
        chat(engines("plain"), [("x", params(**kind))])


def test_integers_beyond_64_bits(engines: Any) -> None:
    """vLLM sends requests to its engine in a format that has none, and waits for those that it could not send."""
    (done,) = chat(engines("plain"), [("x", params(json={"const": 10**30}))])
    assert json.loads(done.text) == 10**30


def test_a_budget_that_is_crossed_ends_that_request_only(engines: Any) -> None:
    """Its mask holds stop tokens, its token is refused, and vLLM ends it with an error. Other requests do not notice."""
    hard, good = params(300, regex="((a|b)(a|b))*a(a|b){2000}"), params(**KINDS["json"][0])
    one, failed, two = chat(engines("plain"), [("x", good), ("aaaaaaaa", hard), ("y", good)])
    assert failed.finish_reason == "error"
    assert is_valid(PERSON, one.text) and is_valid(PERSON, two.text)


# --- answers end within max_tokens -----------------------------------------------------------------------------------------

LONG = obj(
    title={"type": "string"},
    chapters={"type": "array", "items": obj(name={"type": "string"}, pages={"type": "integer"})},
    notes={"type": "object"},
)


def check_budgets(llm: Any) -> None:
    """Greedy and sampled, from the smallest budget that is taken up: all end, in time, and are valid."""
    from vllm.exceptions import VLLMValidationError

    with pytest.raises(VLLMValidationError, match=r"max_tokens=5: expected at least \d+, since no shorter answer") as caught:
        chat(llm, [("x", params(5, json=LONG))])
    least = int(re.findall(r"at least (\d+)", str(caught.value))[0])
    budgets = [least, least + 1, least + 5, 40, 60]
    requests = [
        (f"Write a long story about {NAMES[i % 4]}.", params(n, json=LONG, temperature=t))
        for t in (0.0, 1.0)
        for i, n in enumerate(budgets)
    ]
    asked = params(200, json=LONG)
    asked.extra_args = {"cdplugin_budget": 30}
    free = params(30, json=LONG)
    free.extra_args = {"cdplugin_budget": False}
    # greedy and sampled rows apart: vLLM 0.32's speculation on the CPU takes masked tokens in batches that have both
    half = len(requests) // 2
    *done, short, cut = chat(llm, [*requests[:half], (requests[0][0], asked), (requests[0][0], free)])
    done += chat(llm, requests[half:])
    for (_, given), one in zip(requests, done, strict=True):
        assert one.finish_reason == "stop" and is_valid(LONG, one.text), (given.max_tokens, one)
        assert len(one.token_ids) <= given.max_tokens
    assert short.finish_reason == "stop" and is_valid(LONG, short.text) and len(short.token_ids) <= 30
    assert cut.finish_reason == "length"


def test_answers_end_within_max_tokens(engines: Any) -> None:
    check_budgets(engines("plain"))


def test_the_models_context_is_a_budget(engines: Any) -> None:
    """Without ``max_tokens``: what the prompt leaves of 512 tokens."""
    llm = engines("plain")
    given = params(60, json=LONG)
    given.max_tokens = None
    (done,) = chat(llm, [("Repeat. " * 200 + "Write a very long story.", given)])
    assert done.finish_reason == "stop" and is_valid(LONG, done.text)


def test_the_logits_processor_ends_answers_too(engines: Any) -> None:
    given = params(30)
    given.extra_args = {"cdplugin_json": json.dumps(LONG)}
    (done,) = chat(engines("plain"), [("Write a long story.", given)])
    assert done.finish_reason == "stop" and is_valid(LONG, done.text) and len(done.token_ids) <= 30


# --- speculative decoding: the last, for it needs another engine -----------------------------------------------------------


def test_speculation_writes_the_same(engines: Any, request: pytest.FixtureRequest) -> None:
    together = request.config.stash.get(TOGETHER, None) or chat(engines("plain"), greedy())
    llm = engines("speculating")
    assert differences(together, chat(llm, greedy())) == []
    text = 'Repeat: {"name": "Anna", "age": 31} {"name": "Anna", "age": 31}'
    done = chat(llm, [(text, params(**kind)) for kind, _ in KINDS.values()])
    for (name, (_, check)), one in zip(KINDS.items(), done, strict=True):
        assert check(one.text) or one.finish_reason == "length", (name, one.text)
    llm.llm_engine.do_log_stats()


def test_answers_end_within_max_tokens_with_speculation(engines: Any) -> None:
    check_budgets(engines("speculating"))
