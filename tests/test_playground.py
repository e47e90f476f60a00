"""The playground: its answers beside a matcher's, and its HTTP against what other pages and broken clients send."""

from __future__ import annotations

import http.client
import json
import random
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_tools import mask, vocabulary
from hostile.specs import entries, pasted

import cdplugin as cd
from cdplugin.cli import main as cli
from cdplugin.playground import server as playground_server
from cdplugin.playground import service
from cdplugin.playground.server import FILES, MOST_BODY, Server
from cdplugin.playground.service import LIMITS, MOST_TEXT, Playground, RequestError
from cdplugin.specs import kinds
from cdplugin.vocab.groups import NAMES

VOCAB = vocabulary([b'{"', b'": ', b"true", "ä".encode(), b"\xc3"])
SCHEMA = json.dumps(
    {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]}
)
Answer = dict[str, Any]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(Playground(VOCAB)) as one:
        thread = threading.Thread(target=one.serve_forever, args=(0.05,))
        thread.start()
        yield one
        one.shutdown()
        thread.join()


def send(
    server: Server, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any, Any]:
    """Status, headers and decoded body."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"Content-Type": "application/json"} if data is not None else {}
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    try:
        connection.request(method, path, data, {**sent, **(headers or {})})
        answer = connection.getresponse()
        text = answer.read()
        is_json = answer.headers.get_content_type() == "application/json"
        return answer.status, answer.headers, json.loads(text) if is_json and text else text.decode()
    finally:
        connection.close()


def step(server: Server, text: str, spec: str = SCHEMA, kind: str = "json-schema") -> Answer:
    status, _, answer = send(server, "POST", "/api/step", {"kind": kind, "spec": spec, "text": text})
    assert status == 200, answer
    return answer


# --- answers ---------------------------------------------------------------------------------------------------------------


def test_a_step_is_what_the_matcher_says(server: Server) -> None:
    grammar = cd.Compiler(VOCAB).compile(cd.JsonSchema(SCHEMA))
    rng = random.Random(3)
    text = '{"name": "Bä", "age": 12}'
    for _ in range(40):
        end = rng.randrange(len(text) + 1)
        part = text[:end]
        answer = step(server, part)
        matcher = grammar.matcher()
        assert matcher.accept_tokens(part.encode()) == len(part.encode()) == answer["followed"]
        assert answer["refused"] is None and not answer["stopped"]
        assert answer["allowed"] == len(mask(matcher)) and answer["may_end"] == matcher.is_accepting()
        assert sum(group["count"] for group in answer["groups"]) == answer["allowed"]
        assert all(group["name"] in NAMES and len(group["tokens"]) == min(group["count"], 24) for group in answer["groups"])
        assert "".join(answer["tokens"]).replace("\\xc3\\xa4", "ä") == part
        again = step(server, part + answer["ending"]["text"])
        assert again["may_end"] and again["refused"] is None


def test_a_refusal_says_why(server: Server) -> None:
    answer = step(server, '{"name": 12}')
    matcher = cd.Compiler(VOCAB).compile(cd.JsonSchema(SCHEMA)).matcher()
    matcher.accept_tokens(b'{"name": ')
    assert answer["followed"] == 9 and answer["refused"]["reason"] == matcher.explain(ord("1"))
    assert answer["allowed"] == len(mask(matcher)), "what could have come instead"
    assert answer["places"][-1]["lexeme"] == "value" and answer["places"][-1]["where"] == ["/properties/name"]
    assert step(server, "a\x00", "[a-z]*", "regex")["refused"]["label"] == "'\\x00'"


@pytest.mark.parametrize(
    ("kind", "spec", "fields"),
    [
        ("json-schema", '{"type": "strin"}', {"location": "/type", "keyword": "type"}),
        ("json-schema", '{"type": ', {}),
        ("lark", "start: a", {"location": "line 1, column 8"}),
        ("gbnf", 'root ::= "', {}),
        ("regex", "(", {}),
        ("choice", "", {}),
    ],
)
def test_a_grammar_that_is_wrong(server: Server, kind: str, spec: str, fields: dict[str, str]) -> None:
    error = step(server, "", spec, kind)["error"]
    assert error["message"] and error["kind"] in ("GrammarError", "UnsupportedError")
    assert {name: error[name] for name in fields} == fields


def test_why_not(server: Server) -> None:
    ask = {"kind": "json-schema", "spec": SCHEMA, "text": '{"name": '}
    status, _, answer = send(server, "POST", "/api/why", {**ask, "what": '"Bo"'})
    assert status == 200 and answer == {"allowed": True, "reason": "", "tokens": ["'\"'", "'B'", "'o'", "'\"'"]}
    _, _, answer = send(server, "POST", "/api/why", {**ask, "what": '"Bo" 3'})
    assert not answer["allowed"] and answer["reason"].startswith("not allowed: byte 0 of token 51 ('3')")
    _, _, answer = send(server, "POST", "/api/why", {**ask, "text": '{"name": 1', "what": "x"})
    assert answer == {"allowed": False, "reason": "the text before it is refused already"}


def test_edits_in_any_order(server: Server) -> None:
    """500 random edits of text and schema: each answer is that of a playground that has seen nothing before."""
    rng = random.Random(11)
    specs = [SCHEMA, '{"type": "array", "items": {"enum": ["a", "b"]}}', '{"type": "arr', "{}"]
    text, spec = "", SCHEMA
    for number in range(500):
        if rng.random() < 0.05:
            spec = rng.choice(specs)
        at = rng.randrange(len(text) + 1)
        kind = rng.random()
        if kind < 0.6:
            text = (
                text[:at]
                + rng.choice(['"', "{", "}", ":", ",", "name", " ", "1", "ä", "\n", "[", "]", "a", "true"])
                + text[at:]
            )
        elif kind < 0.9 or not text:
            text = text[:at] + text[at + rng.randrange(4) :]
        else:
            text = rng.choice(['{"name": "x"}', "", '["a", "b"]'])
        answer = step(server, text, spec)
        if number % 25 == 0:
            fresh = Playground(VOCAB).step({"kind": "json-schema", "spec": spec, "text": text})
            assert json.loads(json.dumps(fresh)) == answer, (spec, text)
        accepted = "error" not in answer and answer["refused"] is None and not answer["stopped"]
        assert accepted or answer.get("error") or answer["refused"]["reason"] or answer["stopped"], "refused in silence"


@pytest.mark.slow
def test_the_hostile_corpus(server: Server) -> None:
    """Every entry that fits into a request gets an answer: a mask, or an error that says what is wrong."""
    sent = [found for entry in entries() if (found := pasted(entry, LIMITS.max_spec_bytes)) is not None]
    sent.append(("json-schema", '{"items":' * 5_000 + "{}" + "}" * 5_000, "[[1]]"))
    assert len(sent) > 300 and max(len(spec) for _, spec, _ in sent) > 30_000
    for kind, spec, text in sent:
        answer = step(server, text, spec, kind)
        told = answer.get("error") or answer.get("stopped") or (answer.get("refused") or {}).get("reason")
        assert told or answer["allowed"] > 0 or answer["may_end"], (kind, spec[:200])


def test_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MOST_WORK", 100)
    one = Playground(VOCAB)
    spec = 'start: x*\nx: "a" x "b" | /[a-z]{3,9}/ | "(" x ")"'
    answer = one.step({"kind": "lark", "spec": spec, "text": "(abc)" * 300})
    assert answer["stopped"].startswith("the text takes more than 100 units of work") and answer["followed"] < 1500
    for number in range(3 * service._KEPT):
        one.step({"kind": "regex", "spec": f"a{{{number}}}", "text": "a"})
    assert len(one._matchers) == service._KEPT


# --- requests --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ([], "request: expected an object, found list"),
        ({"kind": "yaml", "spec": "", "text": ""}, "kind: expected one of json-schema"),
        ({"kind": "regex", "spec": 1, "text": ""}, "spec: expected a string, found int"),
        ({"kind": "regex", "spec": "a", "text": "", "more": 1}, "expected the fields kind, spec, text, found 'more'"),
        ({"kind": "regex", "spec": "a", "text": "a" * (MOST_TEXT + 1)}, f"text: expected at most {MOST_TEXT} bytes"),
        ({"kind": "regex", "spec": "a" * (LIMITS.max_spec_bytes + 1), "text": ""}, "spec: expected at most 65536 bytes"),
        ({"kind": "regex", "spec": "a", "text": "\ud800"}, "text: expected Unicode text, found a lone surrogate"),
    ],
)
def test_fields(server: Server, request_: Any, says: str) -> None:
    status, _, answer = send(server, "POST", "/api/step", request_)
    assert status == 400 and says in answer["refused"]
    with pytest.raises(RequestError, match=re.escape(says)):
        Playground(VOCAB).step(request_)


def test_no_model(server: Server) -> None:
    status, _, answer = send(server, "POST", "/api/answer", {"kind": "regex", "spec": "a", "text": "", "prompt": "x"})
    assert status == 400 and answer["refused"].startswith("model: the playground was started without one")
    assert send(server, "GET", "/api/info")[2]["model"] is None


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:{port}"},
        {"Host": "127.0.0.1"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_other_pages_get_nothing(server: Server, headers: dict[str, str]) -> None:
    sent = {name: value.format(port=server.server_port) for name, value in headers.items()}
    for method, path, body in (("GET", "/", None), ("GET", "/api/info", None), ("POST", "/api/step", {"kind": "regex"})):
        status, got, answer = send(server, method, path, body, sent)
        assert status == 403 and set(answer) == {"refused"}
        assert not any(name.lower().startswith("access-control") for name in got)


def test_own_page_is_let_in(server: Server) -> None:
    for name in ("127.0.0.1", "localhost"):
        host = f"{name}:{server.server_port}"
        sent = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
        assert send(server, "POST", "/api/step", {"kind": "regex", "spec": "a", "text": ""}, sent)[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("GET", "/../pyproject.toml", None, {}, 404),
        ("GET", "/static/index.html", None, {}, 404),
        ("POST", "/", b"{}", {}, 404),
        ("OPTIONS", "/api/step", None, {}, 501),
        ("PUT", "/api/step", b"{}", {}, 501),
        ("HEAD", "/", None, {}, 501),
        ("POST", "/api/step", b"{}", {"Content-Type": "text/plain"}, 415),
        ("POST", "/api/step", b"a=1", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ("POST", "/api/step", b"{", {}, 400),
        ("POST", "/api/step", b"\xff", {}, 400),
        ("POST", "/api/step", b"[" * 100_000, {}, 400),
        ("POST", "/api/step", b"x" * (MOST_BODY + 1), {}, 413),
        ("POST", "/api/step", None, {"Content-Type": "application/json", "Content-Length": "-1"}, 411),
        ("POST", "/api/step", None, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}, 411),
    ],
)
def test_broken_requests(server: Server, method: str, path: str, body: Any, headers: dict[str, str], status: int) -> None:
    try:
        got = send(server, method, path, body, headers)[0]
    except ConnectionError:  # refused before all of a large body was sent
        assert status == 413
        return
    assert got == status
    assert step(server, "a", "a", "regex")["may_end"], "it still answers"


def test_headers(server: Server) -> None:
    for path in (*FILES, "/api/info"):
        status, headers, _ = send(server, "GET", path)
        assert status == 200
        for name, value in playground_server.HEADERS.items():
            assert headers[name] == value
    assert "unsafe" not in playground_server.HEADERS["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("PUT / HTTP/1.1", 501),
        ("<b> / HTTP/1.1", 501),
        ("GET / HTTP/1.1 x", 400),
        ("GET / HTTP/3.0", 505),
        ("GET /" + "a" * 70_000 + " HTTP/1.1", 414),
        ("GET / HTTP/1.1\r\nX: " + "a" * 70_000, 431),
        ("GET / HTTP/1.1" + "\r\nX: a" * 200, 431),
    ],
    ids=lambda value: str(value)[:24],
)
def test_what_is_no_request_gets_the_headers_of_every_answer(server: Server, line: str, status: int) -> None:
    """The finding: such answers were pages in HTML, without any of the headers."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as one:
        one.sendall(f"{line}\r\nHost: {server.url[7:-1]}\r\n\r\n".encode())
        got = b"".join(iter(lambda: one.recv(1 << 16), b"")).decode()
    head, _, body = got.rpartition("\r\n\r\n")
    assert set(json.loads(body)) == {"refused"}
    if status not in (400, 505):  # to a version that nobody knows the answer is the oldest one's, without a head
        assert head.startswith(f"HTTP/1.1 {status} ") and "\r\nX-Content-Type-Options: nosniff" in head


def test_the_body_of_a_get_is_no_request(server: Server) -> None:
    """The finding: it was read as the connection's next request."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as one:
        inner = f"GET /api/info HTTP/1.1\r\nHost: {server.url[7:-1]}\r\n\r\n"
        one.sendall(
            f"GET /api/info HTTP/1.1\r\nHost: {server.url[7:-1]}\r\nContent-Length: {len(inner)}\r\n\r\n{inner}".encode()
        )
        one.shutdown(socket.SHUT_WR)
        assert b"".join(iter(lambda: one.recv(1 << 16), b"")).count(b"HTTP/1.1 ") == 1


def test_a_thread_that_cannot_start_holds_no_connection(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The finding: each counted as an open connection for ever, so that after sixteen the page was gone."""

    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(server, "handle_error", lambda *_: None)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        for _ in range(playground_server.MOST_CONNECTIONS + 1):
            with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as one:
                assert one.recv(100) == b""
    assert step(server, "a", "a", "regex")["may_end"]


def test_only_the_loopback_address(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1" and server.url.startswith("http://127.0.0.1:")


def test_too_many_connections(server: Server) -> None:
    held = [socket.create_connection(("127.0.0.1", server.server_port)) for _ in range(playground_server.MOST_CONNECTIONS)]
    try:
        with socket.create_connection(("127.0.0.1", server.server_port)) as one:
            one.settimeout(30)
            assert one.recv(100).startswith(b"HTTP/1.1 503 ")
    finally:
        for connection in held:
            connection.close()
    for _ in range(200):
        try:
            if step(server, "a", "a", "regex")["may_end"]:
                break
        except (OSError, http.client.HTTPException, AssertionError):
            threading.Event().wait(0.05)
    else:
        pytest.fail("connections that were closed still count")


def test_the_page_loads_only_its_own_files() -> None:
    folder = Path(playground_server.__file__).parent / "static"
    assert {name for name, _ in FILES.values()} == {path.name for path in folder.iterdir()}
    page = (folder / "index.html").read_text()
    assert re.findall(r'(?:src|href)="([^"]*)"', page) == ["data:,", "playground.css", "playground.js"]
    assert not re.search(r'style="|\son\w+="|<script>(?!</script>)', page), "inline code would be stopped by the page's policy"
    script = (folder / "playground.js").read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", script)


def test_kinds_are_those_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.KINDS == kinds.KINDS
    with pytest.raises(cd.GrammarError, match="no such kind of spec"):
        kinds.spec_of("yaml", "")
    assert cli.main(["playground", "--port", "70000"]) == 2
    assert "--port: expected 0 to 65535, found 70000" in capsys.readouterr().err


@pytest.mark.slow
def test_the_model_s_answer(model_folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real generate() with a small random model behind the button."""
    from cdplugin.playground.model import Model

    monkeypatch.setattr(service, "MOST_ANSWER", 16)
    model = Model(model_folder)
    one = Playground(model.vocabulary(), model.name, model)
    ask = {"kind": "json-schema", "spec": SCHEMA, "text": "", "prompt": "A person:"}
    with pytest.raises(cd.CdpluginError, match="the model is not ready: loading"):
        one.answer(ask)
    model.load()
    model._thread.join()
    assert one.info()["model"] == {"name": "m", "state": "ready"}
    answer = one.answer(ask)
    assert isinstance(json.loads(answer["text"])["name"], str)
    assert all(step["preference"] for step in answer["steps"] if step["token"] is not None)
    assert one.answer({**ask, "spec": '{"type": 3}'})["error"]["keyword"] == "type"


def test_the_model_counts_in_float32(model_folder: str, tmp_path: Path) -> None:
    """It stays on the CPU, where bfloat16, in which most models are kept, is slow."""
    import torch
    from transformers import AutoModelForCausalLM

    from cdplugin.playground.model import Model

    kept = shutil.copytree(model_folder, tmp_path / "kept")
    AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.bfloat16).save_pretrained(kept)
    model = Model(str(kept))
    model.load()
    model._thread.join()
    assert model.state == "ready" and model._model.dtype == torch.float32


def test_prompts_that_a_model_cannot_take(model_folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The finding: an empty prompt, where no chat template adds anything, closed the connection without an answer."""
    from cdplugin.playground.model import Model

    monkeypatch.setattr(service, "MOST_ANSWER", 4)
    model = Model(model_folder)
    one = Playground(model.vocabulary(), model.name, model)
    model.load()
    model._thread.join()
    seen: list[int] = []
    generate = model._model.generate

    def noting(**inputs: Any) -> Any:
        seen.append(inputs["input_ids"].shape[1])
        return generate(**inputs)

    monkeypatch.setattr(model._model, "generate", noting)
    model._tokenizer.chat_template, model._context = None, 60
    ask = {"kind": "choice", "spec": "a\nb", "text": ""}
    assert one.answer({**ask, "prompt": ""})["error"]["message"] == "prompt: expected at least a token, found none"
    assert one.answer({**ask, "prompt": "x y " * 900})["text"] in ("a", "b") and seen == [56]
    monkeypatch.setattr(model._model, "generate", lambda **_: 1 // 0)
    assert "the model failed: ZeroDivisionError" in one.answer({**ask, "prompt": "x"})["error"]["message"]
    model._tokenizer.chat_template = "{{ raise_exception('a system message is missing') }}"
    assert "the model failed: TemplateError: a system message" in one.answer({**ask, "prompt": "x"})["error"]["message"]
