"""vLLM with several processes on one machine: tensor, pipeline and data parallelism.

These tests are slow: `make vllm` leaves them out (``-m vllm`` runs them).
"""

from __future__ import annotations

import json
import os
import re
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from vllm_tools import ROOT, Written, differences, is_valid, needs_vllm, schemas

pytestmark = [*needs_vllm, pytest.mark.slow]


@pytest.fixture(scope="module")
def alone() -> list[Written]:
    """What one engine in one process writes."""
    with pytest.MonkeyPatch.context() as patch:
        written, log = serve([], None, patch)
    assert len(re.findall("cdplugin: structured outputs are ready", log)) == 1
    return written


def serve(arguments: list[str], binding: str | None, patch: pytest.MonkeyPatch) -> tuple[list[Written], str]:
    """Answers of a server that ends cleanly, and its log with what ``/metrics`` says."""
    import vllm_serve
    from demo_model import model_folder

    if binding is not None:
        patch.setenv("VLLM_CPU_OMP_THREADS_BIND", binding)
    patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]))
    patch.setenv("CDPLUGIN_VLLM_OPTIONS", json.dumps({"whitespace": "compact"}))
    options = ["--dtype", "float32", "--enforce-eager", *arguments]
    with vllm_serve.Server(str(model_folder()), options, patience=540) as server:
        written = answers(server, vllm_serve)
        log = server.log.read_text()
        with urllib.request.urlopen(f"{server.url}/metrics", timeout=60) as response:
            log += response.read().decode()
        assert server.stop(60) == 0 and server.members() == []
    return written, log


def answers(server: Any, example: Any) -> list[Written]:
    """What a server writes for twelve schemas, greedily, six at a time. An empty text means that the answer did not finish."""

    def send(schema: Any) -> Written:
        extra = {"structured_outputs": {"json": schema}, **example.DIRECTLY}
        messages = example.ask("Make something up.")
        done = server.client.chat.completions.create(
            model="small",
            messages=messages,
            max_tokens=80,
            temperature=0,
            logprobs=True,
            top_logprobs=2,
            extra_body=extra,
        )
        choice = done.choices[0]
        steps = choice.logprobs.content
        scores = [[other.logprob for other in step.top_logprobs] for step in steps]
        text = choice.message.content if choice.finish_reason == "stop" else ""
        return Written(text, [step.token for step in steps], scores)

    with ThreadPoolExecutor(6) as pool:
        return list(pool.map(send, schemas()[:12]))


@pytest.mark.parametrize(
    ("arguments", "binding", "engines"),
    [
        (["--tensor-parallel-size", "3"], "0|1|0", 1),
        (["--pipeline-parallel-size", "2", "--worker-extension-cls", "vllm_pipeline.Nothing"], "0|1", 1),
        (["--data-parallel-size", "2"], "0|1", 2),
    ],
    ids=["tensor", "pipeline", "data"],
)
def test_parallel_engines(
    arguments: list[str], binding: str, engines: int, alone: list[Written], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several engines give the same valid outputs as one. Each engine makes grammars and masks once, however many workers it
    has.
    """
    written, log = serve(arguments, binding, monkeypatch)
    assert len(re.findall("cdplugin: structured outputs are ready", log)) == engines
    assert re.search(rf"^cdplugin_engines {engines}\.0$", log, re.MULTILINE)  # with two API servers, whichever answered
    ended = [(schema, w.text) for schema, w in zip(schemas()[:12], written, strict=True) if w.text]
    assert len(ended) >= 10
    assert [pair for pair in ended if not is_valid(*pair)] == []
    assert differences(alone, written) == []
