"""A real ``vllm serve`` on the CPU and OpenAI's client: what the example shows, good and bad requests mixed, the shutdown."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import vllm_tools as tools
from grammar_tools import HUNGRY
from vllm_tools import is_valid, needs_vllm, schemas

pytestmark = needs_vllm
ARGUMENTS = ["--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--reasoning-parser", "qwen3"]


@pytest.fixture(scope="module")
def served() -> Iterator[Any]:
    """The example's module, its server, and the ids of its tokens."""
    import vllm_serve
    from demo_model import model_folder

    with vllm_serve.thinking_model(model_folder()) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CDPLUGIN_VLLM_OPTIONS", '{"strict_tools": true, "limits": {"max_expr_width": 30}}')
        arguments = [*ARGUMENTS, "--dtype", "float32", "--enforce-eager"]
        with vllm_serve.Server(str(folder), arguments) as server:
            yield vllm_serve, server, vllm_serve.token_ids(folder)


def test_the_log_says_that_kernels_and_vocabulary_are_ready(served: Any) -> None:
    _, server, _ = served
    assert re.search(
        r"cdplugin: structured outputs are ready: <Vocabulary .*49152 ids.*kernels loaded in", server.log.read_text()
    )


def test_json_schema_and_streaming(served: Any) -> None:
    example, server, _ = served
    value = example.person(server.client)
    assert is_valid(example.PERSON, json.dumps(value))
    streamed, pieces = example.person_streamed(server.client)
    assert streamed == value and pieces > 5


def test_an_answer_that_may_be_cut_off(served: Any) -> None:
    import openai

    _, server, _ = served

    def finish(**arguments: Any) -> str:
        body = {"structured_outputs": {"regex": "[a-z]{200,300}!"}, **arguments}
        answer = server.client.completions.create(model="small", prompt="x", max_tokens=2, temperature=0, extra_body=body)
        return str(answer.choices[0].finish_reason)

    with pytest.raises(openai.BadRequestError, match="max_tokens=2: expected at least"):
        finish()
    for off in (False, "false"):
        assert finish(vllm_xargs={"cdplugin_budget": off}) == "length"


@pytest.mark.parametrize("stream", [False, True])
def test_a_budget_crossed_while_an_answer_is_decoded(served: Any, stream: bool) -> None:
    """Nobody could foresee it. The client gets HTTP 400, or an event of its stream, that says where and which budget."""
    import openai

    def send() -> None:
        body = {"structured_outputs": {"regex": HUNGRY}, "vllm_xargs": {"cdplugin_budget": "false"}}
        only_a = {str(ids[0]): 100}
        answer = server.client.chat.completions.create(
            model="small",
            messages=example.ask("Write letters."),
            max_tokens=400,
            temperature=0,
            logit_bias=only_a,
            stream=stream,
            extra_body=body | example.DIRECTLY,
        )
        for _ in answer if stream else ():
            pass

    example, server, _ = served
    ids = server.client.post("/../tokenize", body={"model": "small", "prompt": "a"}, cast_to=dict[str, Any])["tokens"]
    assert len(ids) == 1
    with pytest.raises(openai.APIError, match=r"after \d+ tokens of the answer: .*max_expr_width") as refused:
        send()
    assert stream or isinstance(refused.value, openai.BadRequestError)
    assert numbers(server)["cdplugin_budgets_crossed_total decode"] == 1 + stream


@pytest.mark.parametrize("stream", [False, True])
def test_constraints_that_leave_no_token(served: Any, stream: bool) -> None:
    """The finding: HTTP 500 "Internal server error", and nothing said."""
    import openai

    def send() -> None:
        answer = server.client.chat.completions.create(
            model="small", messages=messages, max_tokens=9, temperature=0, stream=stream, extra_body=body
        )
        for _ in answer if stream else ():
            pass

    example, server, _ = served
    ids = server.client.post("/../tokenize", body={"model": "small", "prompt": "a"}, cast_to=dict[str, Any])["tokens"]
    messages = example.ask("Write digits.")
    body = {"structured_outputs": {"regex": "[0-9]{4}"}, "allowed_token_ids": ids} | example.DIRECTLY
    with pytest.raises(openai.APIError, match=r"after 0 tokens of the answer: .*allowed_token_ids") as refused:
        send()
    assert stream or isinstance(refused.value, openai.BadRequestError)


def test_tools_that_must_be_called(served: Any) -> None:
    example, server, _ = served
    name, arguments = example.tool_call(server.client)
    assert name == "get_weather"
    assert is_valid(example.WEATHER["function"]["parameters"], json.dumps(arguments))


@pytest.mark.parametrize("strict", [None, False])
def test_tools_are_strict_on_the_server_s_wish(served: Any, strict: bool | None) -> None:
    """The client does not say ``strict``: arguments are as the schema says, of which the model knows nothing. It says no: they
    are not.
    """
    example, server, _ = served
    schema = tools.obj(key={"type": "string", "pattern": "^zq[0-9]{3}$"}, mode={"enum": ["xx1", "yy2"]})
    function = {"name": "unlock", "parameters": schema} | ({} if strict is None else {"strict": strict})
    answer = server.client.chat.completions.create(
        model="small",
        messages=example.ask("Unlock the door with the key abc, please."),
        tools=[{"type": "function", "function": function}],
        tool_choice="required",
        max_tokens=150,
        temperature=0,
        extra_body=example.DIRECTLY,
    )
    calls = answer.choices[0].message.tool_calls or []
    assert all(call.function.name == "unlock" for call in calls)
    assert (len(calls) > 0 and all(is_valid(schema, call.function.arguments) for call in calls)) == (strict is None)


def test_a_tool_call_streamed(served: Any) -> None:
    example, server, _ = served
    parts = ""
    for event in server.client.chat.completions.create(
        model="small",
        messages=example.ask("What is the weather in Rome?"),
        tools=[example.WEATHER],
        tool_choice={"type": "function", "function": {"name": "get_weather"}},
        max_tokens=150,
        temperature=0,
        stream=True,
        extra_body=example.DIRECTLY,
    ):
        for call in (event.choices[0].delta.tool_calls or []) if event.choices else []:
            parts += call.function.arguments or ""
    assert is_valid(example.WEATHER["function"]["parameters"], parts)


def test_reasoning_is_free_and_what_follows_is_not(served: Any) -> None:
    example, server, ids = served
    thought, value = example.reasoned(server.client, ids)
    assert is_valid(example.PERSON, json.dumps(value))
    assert thought.strip() and not thought.lstrip().startswith("{")


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        ({"regex": tools.PHONE}, re.compile(tools.PHONE).fullmatch),
        ({"choice": ["Rome", "Paris"]}, {"Rome", "Paris"}.__contains__),
        ({"grammar": tools.GBNF}, tools.brackets),
        ({"grammar": tools.LARK}, tools.brackets),
        ({"structural_tag": json.dumps(tools.STRUCTURAL)}, re.compile('<call>{[^{]*"city"[^}]*}[^}]*</call>').fullmatch),
    ],
    ids=["regex", "choice", "gbnf", "lark", "structural tag"],
)
def test_other_kinds(served: Any, kind: dict[str, Any], check: Any) -> None:
    example, server, _ = served
    answer = server.client.chat.completions.create(
        model="small",
        messages=example.ask("Rome?"),
        max_tokens=60,
        temperature=0,
        extra_body={"structured_outputs": kind, **example.DIRECTLY},
    )
    choice = answer.choices[0]
    assert check(choice.message.content) or choice.finish_reason == "length"


def numbers(server: Any) -> dict[str, float]:
    """The server's metrics that are ours: name and label → number."""
    from prometheus_client.parser import text_string_to_metric_families

    with urllib.request.urlopen(f"{server.url}/metrics", timeout=30) as response:
        families = text_string_to_metric_families(response.read().decode())
    return {
        " ".join([s.name, *s.labels.values()]): s.value for f in families if f.name.startswith("cdplugin_") for s in f.samples
    }


def test_metrics_of_both_processes(served: Any) -> None:
    """``/metrics``, which the API server answers, shows what the engine's process counted, beside vLLM's own."""
    import openai

    _, server, _ = served

    def send(regex: str, most: int) -> str:
        body = {"structured_outputs": {"regex": regex}, "chat_template_kwargs": {"enable_thinking": False}}
        answer = server.client.chat.completions.create(
            model="small", messages=[{"role": "user", "content": "x"}], max_tokens=most, temperature=0, extra_body=body
        )
        return str(answer.choices[0].finish_reason)

    before = numbers(server)
    assert before["cdplugin_engines"] == 1
    assert [send("[a-z ]{60,90}", 60) for _ in range(2)] == ["stop", "stop"]
    with pytest.raises(openai.BadRequestError):
        send("[a-z ]{60,91", 60)
    grown = {name: number - before.get(name, 0.0) for name, number in numbers(server).items()}
    assert (grown["cdplugin_checks_total admitted"], grown["cdplugin_checks_total refused"]) == (1, 1)  # the API server's
    assert (grown["cdplugin_compilations_total"], grown["cdplugin_cache_hits_total"]) == (1, 1)  # the engine's
    assert grown["cdplugin_grammar_wait_seconds_count"] == 2
    assert grown["cdplugin_grammar_wait_seconds_sum"] > 0
    assert grown["cdplugin_budgets_crossed_total decode"] == 0


def test_doctor_asks_the_server(served: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from cdplugin.adapters.vllm import health

    _, server, _ = served
    told: list[str] = []
    health.check(f"{server.url}/v1/", lambda *note: told.append(note[0]), lambda *problem: told.append(f"problem: {problem}"))
    out = capsys.readouterr().out
    assert "engines 1, compilations" in out and not [text for text in told if text.startswith("problem")], told
    assert "obeys a right one" in out, told


def bad_formats(count: int) -> list[tuple[dict[str, Any], str]]:
    """Requests that are wrong, with what the message must name."""
    out: list[tuple[dict[str, Any], str]] = []
    for i in range(count // 4):
        schema = {"type": "object", "properties": {f"p{i}": {"type": "strng"}}}
        out.append(({"json": schema}, f"/properties/p{i}/type"))
        out.append(({"regex": "a" * i + "("}, f"position {i}"))
        out.append(({"grammar": f'root ::= "a" missing{i}\n'}, f"missing{i}"))
        out.append(({"json": {"allOf": [{"const": i}, {"const": -1}]}}, "unsatisfiable"))
    return out


Outcome = tuple[Any, Any]


def send_all(served: Any, kinds: list[dict[str, Any]], at_once: int, temperature: float = 0.0) -> list[Outcome]:
    """How each request ended, and its text; or its HTTP status and the message."""
    import openai

    example, server, _ = served

    def send(kind: dict[str, Any]) -> Outcome:
        try:
            done = server.client.chat.completions.create(
                model="small",
                messages=example.ask("Make something up."),
                max_tokens=120,
                temperature=temperature,
                seed=1,
                extra_body={"structured_outputs": kind, **example.DIRECTLY},
            )
        except openai.APIStatusError as error:
            return error.status_code, str(error)
        return done.choices[0].finish_reason, done.choices[0].message.content

    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(send, kinds))


@pytest.mark.parametrize("count", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_bad_requests_between_good_ones(served: Any, count: int) -> None:
    """As many of each, at once: clear errors, valid answers, the same engine before and after."""
    engine = sorted(served[1].members())
    good = (schemas() * 3)[:count]
    bad = bad_formats(count)
    mixed = [kind for pair in zip([{"json": s} for s in good], [kind for kind, _ in bad], strict=True) for kind in pair]
    answers = send_all(served, mixed, min(len(mixed), 64))
    for schema, (reason, text) in zip(good, answers[::2], strict=True):
        assert reason == "length" or (reason == "stop" and is_valid(schema, text)), (schema, reason, text)
    ended = sum(reason == "stop" for reason, _ in answers[::2])
    print(f"{ended} of {count} good requests ended, all valid")
    assert ended >= 0.75 * count
    for (_, name), (status, text) in zip(bad, answers[1::2], strict=True):
        assert status == 400 and name in text, (name, status, text)
    assert sorted(served[1].members()) == engine


@pytest.mark.slow
def test_two_hundred_requests(served: Any) -> None:
    """Forty schemas and all other kinds, sampled, sixteen at a time: what ended is valid."""
    asked = tools.two_hundred()
    answers = send_all(served, [kind for kind, _ in asked], 16, temperature=1.0)
    wrong = [
        (kind, text) for (kind, check), (how, text) in zip(asked, answers, strict=True) if how == "stop" and not check(text)
    ]
    assert wrong == []
    assert {how for how, _ in answers} <= {"stop", "length"}
    ended = sum(how == "stop" for how, _ in answers)
    print(f"{ended} of {len(asked)} requests ended, all valid")
    assert ended >= 0.8 * len(asked)


def running(server: Any) -> bool:
    """Whether the server's engine has requests now."""
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=30) as response:
        found = re.search(r"^vllm:num_requests_running\{.*\} ([0-9.]+)$", response.read().decode(), re.MULTILINE)
    return found is not None and float(found[1]) > 0


def test_sigterm_under_load(served: Any) -> None:
    """The last: a clean end while requests run, and no process is left.

    vLLM cancels its task that hands out answers before or after that task has told the waiting requests that the engine is gone
    (its issue 48745; seen with every backend and without one). If before, the server goes on until the clients give up: these
    give up after some seconds.
    """
    import openai

    example, server, _ = served
    client = server.client.with_options(timeout=15.0)

    def send(_: int) -> str:
        try:
            example.person(client)
        except (openai.OpenAIError, ValueError) as error:  # refused, cut off or given up
            return type(error).__name__
        return "answered"

    before = len(server.members())
    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(send, i) for i in range(8)]
        until = time.monotonic() + 30
        while not running(server) and time.monotonic() < until:
            time.sleep(0.1)
        assert server.stop(90.0) == 0
        outcomes = [job.result() for job in jobs]
    until = time.monotonic() + 20
    while server.members() and time.monotonic() < until:
        time.sleep(0.2)
    assert before > 1 and server.members() == [], outcomes
    assert "/cdplugin/" not in server.log.read_text().partition("[shutdown]")[2]  # no traceback through our files
