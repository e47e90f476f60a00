"""Several processes on one machine: tensor and data parallelism. Slow: `make vllm` leaves these out (``-m vllm`` runs them)."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from vllm_tools import is_valid, needs_vllm, schemas

pytestmark = [*needs_vllm, pytest.mark.slow]


def answers(server: Any, example: Any) -> list[str | None]:
    """What a server writes for twelve schemas, greedily, six at a time; None: not finished."""

    def send(schema: Any) -> str | None:
        extra = {"structured_outputs": {"json": schema}, **example.DIRECTLY}
        messages = example.ask("Make something up.")
        done = server.client.chat.completions.create(
            model="small", messages=messages, max_tokens=80, temperature=0, extra_body=extra
        )
        return done.choices[0].message.content if done.choices[0].finish_reason == "stop" else None

    with ThreadPoolExecutor(6) as pool:
        return list(pool.map(send, schemas()[:12]))


@pytest.mark.parametrize(
    ("arguments", "binding", "engines"),
    [(["--tensor-parallel-size", "3"], "0|1|0", 1), (["--data-parallel-size", "2"], "0|1", 2)],
    ids=["tensor", "data"],
)
def test_parallel_engines(arguments: list[str], binding: str, engines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All valid; grammars and masks once per engine, however many workers it has."""
    import vllm_serve
    from demo_model import model_folder

    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", binding)
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    monkeypatch.setenv("CDPLUGIN_VLLM_OPTIONS", json.dumps({"whitespace": "compact"}))
    options = ["--dtype", "float32", "--enforce-eager", *arguments]
    with vllm_serve.Server(str(model_folder()), options, patience=540) as server:
        texts = answers(server, vllm_serve)
        log = server.log.read_text()
        assert server.stop(60) == 0 and server.members() == []
    assert len(re.findall("cdplugin: structured outputs are ready", log)) == engines
    assert sum(text is not None for text in texts) >= 10
    for schema, text in zip(schemas()[:12], texts, strict=True):
        assert text is None or is_valid(schema, text), (schema, text)
