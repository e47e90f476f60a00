"""``cdplugin doctor --url`` with healthy and broken servers: a small one that answers as vLLM does, or fails to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from cdplugin.adapters.vllm import health
from cdplugin.cli.main import main

METRICS = "# HELP cdplugin_engines x\ncdplugin_engines 2.0\ncdplugin_compilations_total 31.0\n"
METRICS += 'cdplugin_budgets_crossed_total{place="check"} 3.0\ncdplugin_budgets_crossed_total{place="decode"} 4.0\n'


@pytest.fixture
def server() -> Iterator[Any]:
    """A server. ``said``: what it answers; ``keys``: the API keys that it got."""
    said = SimpleNamespace(health=200, metrics=METRICS, models=200, refusal=(400, "unclosed group: expected ), found x"))
    said.answer, said.chat, keys = "yes", None, []

    class Handler(BaseHTTPRequestHandler):
        def answer(self, status: int, text: str) -> None:
            keys.append(self.headers.get("Authorization"))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def do_GET(self) -> None:
            found = {
                "/health": (said.health, ""),
                "/metrics": (200, said.metrics),
                "/v1/models": (said.models, '{"data": [{"id": "m"}]}'),
            }
            self.answer(*found.get(self.path, (404, "")))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert body["model"] == "m"
            if body["structured_outputs"]["regex"] == "(yes":
                self.answer(*said.refusal)
            elif self.path == "/v1/completions":
                self.answer(200, json.dumps({"choices": [{"text": said.answer}]}))
            else:
                assert body["chat_template_kwargs"] == {"enable_thinking": False}
                self.answer(200, json.dumps({"choices": [{"message": {"content": said.chat}}]}))

        def log_message(self, *_: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    yield SimpleNamespace(url=f"http://127.0.0.1:{httpd.server_address[1]}", said=said, keys=keys)
    httpd.shutdown()


def found(server: Any, url: str = "", **said: Any) -> tuple[list[str], list[str]]:
    """The notes and the problems."""
    vars(server.said).update(said)
    notes: list[str] = []
    problems: list[str] = []
    health.check(
        url or server.url, lambda text, remedy: notes.append(text), lambda text, remedy: problems.append(text), timeout=20
    )
    return notes, problems


def test_a_server_that_is_well(server: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert found(server, server.url + "/v1/") == ([], [])
    out = capsys.readouterr().out
    assert "engines 2, compilations 31, cache_hits 0, masks_late 0, budgets_crossed 7" in out and "obeys a right one" in out
    assert found(server, answer="Well, ", chat="no") == ([], [])


def test_what_is_wrong(server: Any) -> None:
    assert "/health answers 503" in found(server, health=503)[1][0]
    assert "answers 401" in found(server, health=200, models=401)[1][0]
    assert "answered by 200" in found(server, models=200, refusal=(200, "{}"))[1][0]
    assert "answered by 400" in found(server, refusal=(400, "xgrammar: bad regex"))[1][0]
    notes, problems = found(server, refusal=(400, "expected )"), answer="maybe", chat="maybe")
    assert not problems and "was free: 'maybe'" in notes[0]
    notes, problems = found(server, metrics="vllm:x 1\n", answer="no")
    assert not problems and "does not show" in notes[0]
    assert "URLError" in found(server, "http://127.0.0.1:1")[1][0]


def test_from_the_command_line(server: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "sesame")
    assert main(["doctor", "--url", server.url]) == 0
    assert set(server.keys) == {"Bearer sesame"}
    server.said.health = 500
    assert main(["doctor", "--url", server.url]) == 1
    assert "/health answers 500" in capsys.readouterr().out
