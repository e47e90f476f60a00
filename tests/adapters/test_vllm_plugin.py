"""The entry points, with a stand-in for vLLM: what they change and when, and what happens with an unexpected version."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pydantic")
ROOT = Path(__file__).resolve().parent.parent.parent

CONFIG = """
from typing import Literal
from pydantic import ConfigDict, model_validator
from pydantic.dataclasses import dataclass
StructuredOutputsBackend = Literal["auto", "other"]
@dataclass(config=ConfigDict(extra="forbid"))
class StructuredOutputsConfig:
    backend: StructuredOutputsBackend = "auto"
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False
    @model_validator(mode="after")
    def check(self):
        if self.disable_any_whitespace and self.backend != "other":
            raise ValueError("disable_any_whitespace")
        if self.disable_additional_properties and self.backend != "other":
            raise ValueError("disable_additional_properties")
        return self
"""
PARAMS = """
class SamplingParams:
    structured_outputs = None
    def _validate_structured_outputs(self, model_config, structured_outputs_config, tokenizer):
        return "original"
"""
MANAGER = """
class StructuredOutputManager:
    def __init__(self, vllm_config):
        self.backend = None
"""
TYPES = "class StructuredOutputBackend: pass\nclass StructuredOutputGrammar: pass\nclass StructuredOutputOptions: pass\n"
MODULES = {
    "__init__": "__version__ = '0.99.0'",
    "config/__init__": "from vllm.config.structured_outputs import StructuredOutputsConfig",
    "config/structured_outputs": CONFIG,
    "sampling_params": PARAMS,
    "v1/__init__": "",
    "v1/structured_output/__init__": MANAGER,
    "v1/structured_output/backend_types": TYPES,
}
START = """
import logging, sys
logging.basicConfig(format="%(levelname)s %(message)s", stream=sys.stdout)
from cdplugin.adapters.vllm.plugin import register
"""


def run(folder: Path, code: str, modules: dict[str, str] = MODULES) -> str:
    """Run a program that finds a package ``vllm`` with these modules. Returns its output, errors included."""
    for name, text in modules.items():
        path = folder / "vllm" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{folder}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", START + code]
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


USE = """
from vllm.config import StructuredOutputsConfig as Config
def attempt(**named):
    try:
        print("taken", Config(**named).backend)
    except ValueError as error:
        print("refused", " ".join(str(error).split())[:300])
"""


@pytest.mark.parametrize(
    "order",
    ["register()\n" + USE, USE + "register()\n", "register()\nregister()\n" + USE + "register()\n"],
    ids=["before", "after", "often"],
)
def test_the_configuration_takes_our_name(tmp_path: Path, order: str) -> None:
    out = run(
        tmp_path,
        order
        + 'attempt(backend="cdplugin"); attempt(backend="cdplugin", disable_any_whitespace=True)\n'
        + 'attempt(); attempt(backend="x")\n'
        + 'attempt(disable_any_whitespace=True); attempt(backend="other", disable_any_whitespace=True)\n'
        + 'attempt(backend="cdplugin", disable_additional_properties=True)\n'
        + 'attempt(backend="other", disable_additional_properties=True)\n'
        + "from vllm.sampling_params import SamplingParams as S\n"
        + "validate = S._validate_structured_outputs\n"
        + "print(validate(S(), None, Config(), None), validate.__wrapped__.__name__)\n",
    )
    lines = out.splitlines()
    assert lines[:3] == ["taken cdplugin", "taken cdplugin", "taken auto"], out
    assert lines[3].startswith("refused") and "'cdplugin'" in lines[3]
    assert lines[4].startswith("refused") and "disable_any_whitespace" in lines[4]
    assert lines[6].startswith("refused") and 'write "additionalProperties": false' in lines[6]
    assert [lines[5], *lines[7:]] == ["taken other", "taken other", "original _validate_structured_outputs"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("sampling_params", "class SamplingParams: pass", "SamplingParams._validate_structured_outputs was not found"),
        ("sampling_params", PARAMS.replace("tokenizer", "words"), r"SamplingParams._validate_structured_outputs(tokenizer)"),
        ("v1/structured_output/__init__", "", "vllm.v1.structured_output.StructuredOutputManager was not found"),
        ("v1/structured_output/backend_types", "", "backend_types.StructuredOutputBackend was not found"),
    ],
)
def test_a_version_without_what_we_need_goes_on_without_us(tmp_path: Path, name: str, text: str, message: str) -> None:
    code = "register()\n" + USE + 'attempt(); attempt(backend="other"); attempt(backend="cdplugin")'
    out = run(tmp_path, code, {**MODULES, name: text})
    assert "taken auto" in out and "taken other" in out and "taken cdplugin" not in out
    assert message in out and "vLLM 0.99.0 (checked with" in out and "goes on with its own backends" in out
    assert "choose another backend" in out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class Config: pass\nStructuredOutputsConfig = Config", "__dataclass_fields__ was not found"),
        ("StructuredOutputsConfig = None", "structured_outputs.StructuredOutputsConfig was not found"),
        (CONFIG.replace('Literal["auto", "other"]', "str"), "backend as a Literal of names was not found"),
        (CONFIG.replace("pydantic.dataclasses", "dataclasses").replace('(config=ConfigDict(extra="forbid"))', ""), "cdplugin"),
    ],
)
def test_a_configuration_that_is_not_as_expected(tmp_path: Path, text: str, message: str) -> None:
    out = run(tmp_path, "register()\nimport vllm.config\nprint('imported')", {**MODULES, "config/structured_outputs": text})
    assert "imported" in out and message in out and "goes on with its own backends" in out


ASYNC = """
class AsyncLLM:
    def __init__(self, vllm_config):
        self.vllm_config, self.input_processor, self.tokenizer = vllm_config, self, "a tokenizer"
    async def add_request(self, request_id, prompt, params, priority=0):
        return f"added {request_id} {prompt} {priority}"
"""
KEY = """
import json
from types import SimpleNamespace
def get_structured_output_key(params):
    kind, text = ("JSON", json.dumps(params.json)) if params.json else ("REGEX", params.regex)
    return SimpleNamespace(name=kind), text
"""
SERVE = """
import asyncio, threading
from types import SimpleNamespace as Any
import cdplugin, vllm.sampling_params
from cdplugin.adapters.serving.requests import ServerOptions
from cdplugin.adapters.vllm import grammar as vllm_grammar
from vllm.v1.engine.async_llm import AsyncLLM
VOCAB = cdplugin.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"<end>"], eos_token_ids=256)
class Engine(vllm_grammar.Engine):
    def _refusal(self, kind, text):
        print("checked", text, "on the loop" if threading.current_thread() is threading.main_thread() else "elsewhere")
        return super()._refusal(kind, text)
engine = Engine(VOCAB, ServerOptions())
vllm_grammar.engine_for = lambda tokenizer, size, compact: engine
class Asked(Any):
    def __post_init__(self): pass
def serve(backend, regex, json=None):
    config = Any(backend=backend, disable_any_whitespace=False)
    llm = AsyncLLM(Any(structured_outputs_config=config, model_config=Any(get_vocab_size=lambda: VOCAB.size)))
    asked = (regex or json) and Asked(regex=regex, json=json, choice=None, json_object=None, structural_tag=None, _backend=None)
    try:
        print(asyncio.run(llm.add_request("r1", "prompt", params=Any(structured_outputs=asked), priority=2)))
    except ValueError as error:
        print("refused", str(error).splitlines()[0])
    if asked:
        print(asked._backend, asked.json)
"""


def test_a_request_waits_for_its_check_off_the_loop(tmp_path: Path) -> None:
    modules = {**MODULES, "v1/engine/__init__": "", "v1/engine/async_llm": ASYNC, "v1/structured_output/request": KEY}
    code = "register()\n" + SERVE + "for text in 'a+', '(a', 'a+': serve('cdplugin', text)\n"
    code += "serve('other', '(a'); serve('cdplugin', None); serve('cdplugin', None, {'maximum': 1})"
    lines = run(tmp_path, code, modules).splitlines()
    assert [line for line in lines if "slow request" not in line] == [  # as on a busy machine
        *("checked a+ elsewhere", "added r1 prompt 2", "None None"),
        "checked (a elsewhere",
        *("refused structured_outputs: unclosed group: expected ), found the end of the pattern - at position 0", "None None"),
        *("added r1 prompt 2", "None None"),  # looked up
        *("added r1 prompt 2", "None None", "added r1 prompt 2"),  # not ours
        *('checked {"maximum": 1} elsewhere', "added r1 prompt 2", 'None {"maximum": 1}'),  # goes on as text
    ]


@pytest.mark.parametrize("text", ["", "class AsyncLLM: pass", ASYNC.replace("async def", "def")])
def test_without_the_server_that_we_know_requests_are_checked_on_the_loop(tmp_path: Path, text: str) -> None:
    modules = {**MODULES, "v1/engine/__init__": "", "v1/engine/async_llm": text}
    out = run(tmp_path, "register()\nimport vllm.v1.engine.async_llm\n" + USE + 'attempt(backend="cdplugin")', modules)
    assert out.splitlines() == ["taken cdplugin"]


GENERATES = """
    async def generate(self, *reasons):
        try:
            for i, reason in enumerate(reasons):
                last = i == len(reasons) - 1
                ended = SimpleNamespace(finish_reason=reason and reason[0], stop_reason=reason and reason[1])
                yield SimpleNamespace(finished=last, outputs=[ended])
        finally:
            print("closed")
"""
READ = """
import asyncio
from vllm.v1.engine.async_llm import AsyncLLM
async def read(*reasons):
    try:
        async for output in AsyncLLM(None).generate(*reasons):
            print(output.outputs[0].finish_reason)
    except ValueError as error:
        print("refused", error)
"""


def test_a_budget_that_is_crossed_in_the_middle_is_named(tmp_path: Path) -> None:
    text = "from types import SimpleNamespace" + ASYNC + GENERATES
    modules = {**MODULES, "v1/engine/__init__": "", "v1/engine/async_llm": text}
    code = "register()\n" + READ + "asyncio.run(read(None, ('error', 'cdplugin: after 1 tokens')))\n"
    code += "asyncio.run(read(('error', 'cdplugin: while another of n goes on'), None))\n"
    code += "asyncio.run(read(None, ('error', None))); asyncio.run(read(('stop', 'cdplugin: is a stop string')))"
    assert run(tmp_path, code, modules).splitlines() == [
        *("None", "closed", "refused structured_outputs: after 1 tokens"),
        *("closed", "refused structured_outputs: while another of n goes on"),
        *("None", "error", "closed"),
        *("stop", "closed"),
    ]


PROMETHEUS = """
class Registry:
    collectors = []
    def register(self, collector):
        self.collectors.append(type(collector).__name__)
one = Registry()
def get_prometheus_registry():
    return one
"""


def test_the_registry_shows_our_numbers_where_our_backend_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("prometheus_client")
    monkeypatch.delenv("CDPLUGIN_METRICS_DIR", raising=False)
    modules = {**MODULES, "v1/metrics/__init__": "", "v1/metrics/prometheus": PROMETHEUS}
    code = "register()\n" + USE + "from vllm.v1.metrics import prometheus\nimport os\n"
    code += "for name in 'other', 'cdplugin':\n    attempt(backend=name)\n"
    code += "    for _ in range(2): print(prometheus.get_prometheus_registry().collectors)\n"
    code += "print(os.path.isdir(os.environ['CDPLUGIN_METRICS_DIR']))"
    assert run(tmp_path, code, modules).splitlines() == [
        *("taken other", "[]", "[]"),
        *("taken cdplugin", "['Collector']", "['Collector']", "True"),
    ]
    for text in ("", "def get_prometheus_registry(): raise OSError"):
        modules["v1/metrics/prometheus"] = text
        out = run(tmp_path, "register()\n" + USE + 'import vllm.v1.metrics.prometheus\nattempt(backend="cdplugin")', modules)
        assert out.splitlines() == ["taken cdplugin"]


def test_nothing_heavy_is_imported_and_nothing_raised_without_vllm(tmp_path: Path) -> None:
    code = "register()\nregister()\nprint([m for m in ('torch', 'vllm', 'numba', 'numpy', 'pydantic') if m in sys.modules])"
    assert run(tmp_path, code, {}).strip() == "[]"


def test_entry_points() -> None:
    """Both of vLLM's groups have the same name, since ``VLLM_PLUGINS`` filters by name. There is none for logits processors."""
    tomllib = pytest.importorskip("tomllib")
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    points = {"cdplugin": "cdplugin.adapters.vllm.plugin:register"}
    theirs = {group: named for group, named in groups.items() if group.startswith("vllm.")}
    assert theirs == {"vllm.general_plugins": points, "vllm.platform_plugins": points}
