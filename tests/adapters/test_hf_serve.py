"""``transformers serve`` itself, on the loopback address, with the small model: ``response_format`` is enforced."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", minversion="5.0")
for name in ("fastapi", "uvicorn", "openai", "pydantic"):
    pytest.importorskip(name, reason=f"{name} is not installed here: make hosts")

from host_tools import SCHEMAS, model_folder  # noqa: E402
from transformers.cli.serving import chat_completion as module  # noqa: E402
from vllm_tools import is_object, is_valid  # noqa: E402

import cdplugin as cd  # noqa: E402
from cdplugin.adapters.hf import serve  # noqa: E402


@pytest.fixture(scope="module")
def address(one_torch_thread: None) -> Iterator[str]:
    """A server of one model. It listens on the loopback address alone."""
    from transformers.cli.serve import Serve

    original = module.ChatCompletionHandler
    serve.install()
    serve.install()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Serve(force_model=model_folder(), device="cpu", host="127.0.0.1", port=port, non_blocking=True)
    deadline = time.monotonic() + 60
    while not server.server.started:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    yield f"http://127.0.0.1:{port}/v1/chat/completions"
    server.kill_server()
    module.ChatCompletionHandler = original


def ask(address: str, response_format: Any, **fields: Any) -> tuple[int, Any]:
    """The status and the body of an answer."""
    body = {"messages": [{"role": "user", "content": "Make up a JSON object."}], "max_tokens": 60, "temperature": 0.0, **fields}
    if response_format is not None:
        body["response_format"] = response_format
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def content(answer: str) -> str:
    return json.loads(answer)["choices"][0]["message"]["content"]


def named(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "it", "schema": schema}}


pytestmark = pytest.mark.model


def test_answers_are_valid_and_end_in_time(address: str) -> None:
    for schema in SCHEMAS:
        status, answer = ask(address, named(schema))
        assert status == 200 and is_valid(schema, content(answer)), answer
    status, answer = ask(address, {"type": "json_object"})
    assert status == 200 and is_object(content(answer)), answer


def test_streamed(address: str) -> None:
    status, answer = ask(address, named(SCHEMAS[0]), stream=True)
    events = [json.loads(line.removeprefix("data: ")) for line in answer.splitlines() if line.startswith("data: {")]
    text = "".join(event["choices"][0]["delta"].get("content") or "" for event in events)
    assert status == 200 and is_valid(SCHEMAS[0], text), answer


def test_free_text_is_free_again(address: str) -> None:
    for response_format in (None, {"type": "text"}):
        status, answer = ask(address, response_format, max_tokens=12)
        assert status == 200 and not is_valid(SCHEMAS[0], content(answer))


@pytest.mark.parametrize(
    ("response_format", "fields", "message"),
    [
        (named({"type": "integr"}), {}, "expected one of .* at /type"),
        (named(SCHEMAS[0]), {"max_tokens": 3}, "max_tokens: expected at least [0-9]+ for an answer .*found 3"),
        ({"type": "json_schema"}, {}, "expected an object with a schema"),
        ({"type": "yaml"}, {}, "unknown response_format.*found 'yaml'"),
        (3, {}, "wrong type: expected an object, found int"),
        ([{"type": "json_object"}], {}, "wrong type: expected an object, found list"),
        ({"type": "structural_tag", "format": {"type": "tag", "begin": 3}}, {}, "begin"),
    ],
)
def test_what_is_wrong_is_a_bad_request(address: str, response_format: Any, fields: Any, message: str) -> None:
    status, answer = ask(address, response_format, **fields)
    assert status == 400
    with pytest.raises(ValueError, match=message):
        raise ValueError(json.loads(answer)["detail"])
    assert ask(address, named(SCHEMAS[0]))[0] == 200


@pytest.mark.filterwarnings("ignore::cdplugin.vocab.vocabulary.VocabularyWarning")
def test_an_answer_in_fewer_tokens_than_the_shortest_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The finding: `max_tokens` of 2 were refused, although `ccc` and its end token are that short."""
    compiler = cd.Compiler(cd.Vocabulary.from_bytes([b"a", b"b", b"ccc", b"</s>"], eos_token_ids=3))
    monkeypatch.setattr(serve, "compiler_for", lambda *_: compiler)
    assert serve._compiled(None, None, cd.Regex("ab|ccc"), 2) is compiler.compile(cd.Regex("ab|ccc"))
    with pytest.raises(cd.CdpluginError, match="max_tokens: expected at least 2 .* found 1"):
        serve._compiled(None, None, cd.Regex("ab|ccc"), 1)


def test_the_event_loop_is_left_alone(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The finding: vocabularies were read and shortest answers looked for on the loop, up to seconds for one request."""
    seen: dict[str, str] = {}

    def noting(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def note(*arguments: Any, **named: Any) -> Any:
            seen.setdefault(name, threading.current_thread().name)
            return original(*arguments, **named)

        monkeypatch.setattr(owner, name, note)

    serve._compilers.clear()
    noting(cd.Vocabulary, "from_huggingface")
    noting(cd.Compiler, "compile")
    noting(cd.Matcher, "shortest_completion")
    assert ask(address, named(SCHEMAS[0]))[0] == 200
    assert len(seen) == 3 and all(name.startswith("asyncio_") for name in seen.values()), seen


@pytest.mark.parametrize("stream", [False, True])
def test_a_budget_that_is_crossed_while_an_answer_is_decoded(
    address: str, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """The finding: HTTP 500 without a word."""

    def crossed(*_: Any) -> None:
        raise cd.LimitExceeded("one step takes too much work")

    with monkeypatch.context() as patch:
        patch.setattr(serve.GrammarLogitsProcessor, "__call__", crossed)
        status, answer = ask(address, named(SCHEMAS[0]), stream=stream)
    assert status == (200 if stream else 400) and "one step takes too much work" in answer
    assert ask(address, named(SCHEMAS[0]))[0] == 200


def test_continuous_batching_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.cli.serving.utils import GenerationState

    monkeypatch.setattr(GenerationState, "use_continuous_batching", lambda *_: True)
    status, answer = ask(address, named(SCHEMAS[0]))
    assert status == 400 and "without --continuous-batching" in answer


def test_another_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ChatCompletionHandler", object)
    with pytest.raises(cd.CdpluginError, match="expected ChatCompletionHandler with _unused_fields"):
        serve.install()
