"""Is a running vLLM server well? ``cdplugin doctor --url http://127.0.0.1:8000``, or :func:`check`.

vLLM's ``/health`` says that the engine is alive, and nothing about constraints. Here the server must also refuse a malformed
constraint with our message, and obey a valid one. vLLM is not imported: the check may run on another machine.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

Tell = Callable[[str, str], None]
ANSWERS = ("yes", "no")
_LINE = re.compile(r"^(cdplugin_\w+)(\{[^}]*\})? ([0-9.eE+-]+|NaN)$", re.MULTILINE)
_SHOWN = (
    "cdplugin_compilations_total",
    "cdplugin_cache_hits_total",
    "cdplugin_masks_late_total",
    "cdplugin_budgets_crossed_total",
    "cdplugin_endings_forced_total",
)


def check(url: str, note: Tell, problem: Tell, key: str | None = None, timeout: float = 60.0) -> None:
    """Print findings; ``note`` and ``problem`` are called with a finding and its remedy. Does not raise.

    ``url``: the server's, without ``/v1``; ``key``: its API key; ``timeout``: seconds for each of at most six requests, of
    which the model answers at most two, with a few tokens each.
    """
    url = url.rstrip("/").removesuffix("/v1")

    def ask(path: str, body: Any = None) -> tuple[int, str]:
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(url + path, data, headers), timeout=timeout) as response:
                return response.status, response.read().decode(errors="replace")
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(errors="replace")

    try:
        _check(url, ask, note, problem)
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        problem(f"{url}: {type(error).__name__}: {error}", "see whether the server runs, and its log")


def _check(url: str, ask: Callable[..., tuple[int, str]], note: Tell, problem: Tell) -> None:
    status, _ = ask("/health")
    if status != 200:
        problem(f"{url}/health answers {status}", "the engine is not ready or is gone: see the server's log")
        return
    _check_metrics(url, ask, note)
    status, text = ask("/v1/models")
    if status != 200:
        problem(f"{url}/v1/models answers {status}", "give the server's API key in VLLM_API_KEY")
        return
    model = json.loads(text)["data"][0]["id"]

    def complete(regex: str, path: str = "/v1/completions", **asked: Any) -> tuple[int, str]:
        constraint = {"structured_outputs": {"regex": regex}, "max_tokens": 8, "temperature": 0}
        return ask(path, {"model": model, **constraint, **(asked or {"prompt": "Yes or no?"})})

    status, text = complete("(" + ANSWERS[0])
    if status != 400 or "expected )" not in text:
        told = f"{url}: a malformed constraint is answered by {status}, expected 400 and cdplugin's message"
        problem(told, "start the server with --structured-outputs-config.backend cdplugin")
        return
    status, text = complete("|".join(ANSWERS))
    if status != 200:
        problem(f"{url}: a request is answered by {status}: {text[:300]}", "see the server's log")
        return
    answer = json.loads(text)["choices"][0]["text"]
    if answer not in ANSWERS:  # a server with a reasoning parser does not constrain reasoning; templates may disable it
        messages, template = [{"role": "user", "content": "Yes or no?"}], {"enable_thinking": False}
        status, text = complete("|".join(ANSWERS), "/v1/chat/completions", messages=messages, chat_template_kwargs=template)
        answer = json.loads(text)["choices"][0]["message"]["content"] if status == 200 else answer
    if answer in ANSWERS:
        print(f"{url}: refuses a malformed constraint, obeys a right one")
    else:
        remedy = "none, if the server has a reasoning parser, for reasoning is free; else report this with the server's log"
        note(f"{url}: an answer was free: {answer!r}, expected one of {ANSWERS}", remedy)


def _check_metrics(url: str, ask: Callable[..., tuple[int, str]], note: Tell) -> None:
    """Print the counters that matter to operators."""
    status, text = ask("/metrics")
    found: dict[str, float] = {}
    for name, _, value in _LINE.findall(text) if status == 200 else ():
        found[name] = found.get(name, 0.0) + float(value)
    if "cdplugin_engines" not in found:
        note(f"{url}/metrics does not show cdplugin's numbers", "see docs/operating.md: they need this vLLM's registry")
        return
    shown = ", ".join(f"{name.removeprefix('cdplugin_').removesuffix('_total')} {found.get(name, 0.0):.0f}" for name in _SHOWN)
    print(f"{url}: engines {found['cdplugin_engines']:.0f}, {shown}")
