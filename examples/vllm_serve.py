"""vLLM's OpenAI-compatible server with the backend ``cdplugin``: real HTTP requests, on a small model, on the CPU if need be.

    pip install 'cdplugin[vllm]' openai jsonschema
    python examples/vllm_serve.py [--model FOLDER] [-- further arguments of `vllm serve`]

Starts the server on the loopback address, sends what OpenAI's clients send (a JSON schema as ``response_format``, streaming,
tools with ``tool_choice="required"``, reasoning followed by JSON, a schema that is wrong), and stops it. Without ``--model`` it
takes SmolLM2-135M-Instruct (see demo_model.py), whose unused tokens it renames to ``<think>`` and ``</think>``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import openai

sys.path.insert(0, str(Path(__file__).resolve().parent))
from demo_model import model_folder

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Z][a-z]{1,14}( [A-Z][a-z]{1,14})?$"},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "email": {"type": "string", "pattern": "^[a-z]{1,12}@[a-z]{1,12}\\.(com|org)$"},
    },
    "required": ["name", "age", "email"],
    "additionalProperties": False,
}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather at a place",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 20}, "unit": {"enum": ["celsius", "fahrenheit"]}},
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
}
THINK, END_OF_THINKING = "<file_sep>", "<gh_stars>"  # tokens that this model was not trained to use
DIRECTLY: Any = {"chat_template_kwargs": {"enable_thinking": False}}  # as for Qwen3: no reasoning in this answer


# ---- a server -------------------------------------------------------------------------------------------------------------


class Server:
    """``vllm serve`` in a process group of its own. As a context, it waits until the server answers, and stops it at the
    end.

    Attributes: ``url``; ``process``; ``client``: an ``openai.OpenAI``; ``log``: the path of its output.
    """

    def __init__(
        self, model: str, arguments: Sequence[str] = (), *, backend: str = "cdplugin", patience: float = 300.0
    ) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.patience = patience
        self.folder = tempfile.TemporaryDirectory(prefix="vllm-serve-")
        self.log = Path(self.folder.name) / "log"
        self.command = [
            sys.executable,
            "-m",
            "vllm.entrypoints.cli.main",
            "serve",
            model,
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        ]
        self.command += ["--served-model-name", "small", "--max-model-len", "2048", "--max-num-seqs", "64", *arguments]
        self.command += ["--structured-outputs-config.backend", backend] if backend else []
        self.client = openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", timeout=patience, max_retries=0)

    def __enter__(self) -> Server:
        env = {"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_NO_USAGE_STATS": "1", **os.environ}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, env=env, start_new_session=True)
        until = time.monotonic() + self.patience
        try:
            while not self._answers():
                if self.process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"vllm serve did not start:\n{self.log.read_text()[-4000:]}")
                time.sleep(0.5)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as response:
                return response.status == 200
        except OSError:
            return False

    def members(self) -> list[int]:
        """The living processes of the server's group, the engine and its workers included."""
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                state, _, group = path.read_text().rpartition(")")[2].split()[:3]
                if int(group) == self.process.pid and state != "Z":
                    found.append(int(path.parent.name))
        return found

    def stop(self, patience: float = 30.0) -> int | None:
        """Ask the server to end, as a service manager would; its exit status, or None if it had to be killed."""
        status: int | None = None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = self.process.wait(patience)
        if status is None or self.members():
            time.sleep(1.0)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)
        return status


@contextlib.contextmanager
def thinking_model(source: Path) -> Iterator[Path]:
    """A folder like ``source`` whose tokenizer calls two unused tokens ``<think>`` and ``</think>``."""
    with tempfile.TemporaryDirectory(prefix="thinking-") as name:
        folder = Path(name)
        for path in source.iterdir():
            if path.suffix == ".safetensors":
                (folder / path.name).symlink_to(path)
            else:
                shutil.copy(path, folder)
        text = (folder / "tokenizer.json").read_text()
        tokenizer = json.loads(text.replace(f'"{THINK}"', '"<think>"').replace(f'"{END_OF_THINKING}"', '"</think>"'))
        for token in tokenizer["added_tokens"]:
            token["special"] = token["special"] and "think" not in token["content"]  # else the server would not show them
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        yield folder


def token_ids(folder: Path) -> dict[str, int]:
    """The ids of the tokens that a tokenizer was given by name."""
    return {t["content"]: t["id"] for t in json.loads((folder / "tokenizer.json").read_text())["added_tokens"]}


# ---- requests -------------------------------------------------------------------------------------------------------------


def ask(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def person(client: openai.OpenAI) -> Any:
    """A JSON schema as OpenAI's clients send it."""
    answer = client.chat.completions.create(
        model="small",
        messages=ask("Make up a person."),
        max_tokens=150,
        temperature=0,
        response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}},
        extra_body=DIRECTLY,
    )
    return json.loads(answer.choices[0].message.content or "")


def person_streamed(client: openai.OpenAI) -> tuple[Any, int]:
    """The same as a stream. Returns the number of pieces too."""
    pieces = []
    stream = client.chat.completions.create(
        model="small",
        messages=ask("Make up a person."),
        max_tokens=150,
        temperature=0,
        response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}},
        extra_body=DIRECTLY,
        stream=True,
    )
    for event in stream:
        if event.choices and event.choices[0].delta.content:
            pieces.append(event.choices[0].delta.content)
            print(pieces[-1], end="", flush=True)
    print()
    return json.loads("".join(pieces)), len(pieces)


def tool_call(client: openai.OpenAI) -> tuple[str, Any]:
    """A tool call, which the model must make: its name and arguments."""
    tools: list[Any] = [WEATHER]
    answer = client.chat.completions.create(
        model="small",
        messages=ask("What is the weather in Paris?"),
        tools=tools,
        tool_choice="required",
        max_tokens=150,
        temperature=0,
        extra_body=DIRECTLY,
    )
    call: Any = (answer.choices[0].message.tool_calls or [])[0]
    return call.function.name, json.loads(call.function.arguments)


def reasoned(client: openai.OpenAI, ids: dict[str, int]) -> tuple[str, Any]:
    """Reasoning, which is free, then JSON, which is constrained.

    The model was never trained to think, so it gets help to end its thinking: that token's logit is raised, and that of the
    answer's end is lowered. The grammar still allows the end only where it is legal.
    """
    answer = client.chat.completions.create(
        model="small",
        messages=ask("Make up a person. Think first."),
        max_tokens=250,
        temperature=0,
        logit_bias={str(ids["</think>"]): 13, str(ids["<|im_end|>"]): -50},
        response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}},
    )
    message: Any = answer.choices[0].message
    thought = getattr(message, "reasoning", None) or getattr(message, "reasoning_content", None) or ""
    return thought, json.loads(message.content or "")


def regex(client: openai.OpenAI) -> str:
    """vLLM's own kinds go into ``structured_outputs``: regex, choice, grammar, structural_tag."""
    answer = client.chat.completions.create(
        model="small",
        messages=ask("A phone number?"),
        max_tokens=50,
        temperature=0,
        extra_body={"structured_outputs": {"regex": r"\+[0-9]{1,3} [0-9]{6,10}"}, **DIRECTLY},
    )
    return answer.choices[0].message.content or ""


def refused(client: openai.OpenAI) -> str:
    """A schema with a mistake: the answer is HTTP 400, and says what is wrong and where."""
    schema = {"type": "object", "properties": {"age": {"type": "integr"}}}
    try:
        client.chat.completions.create(
            model="small",
            messages=ask("Make up a person."),
            response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": schema}},
        )
    except openai.BadRequestError as error:
        return str(error)
    raise AssertionError("a schema with a mistake was taken")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="")
    parser.add_argument("rest", nargs="*", help="further arguments of `vllm serve`, after --")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(arguments.model) if arguments.model else stack.enter_context(thinking_model(model_folder()))
        further = ["--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--dtype", "float32", "--enforce-eager"]
        if not arguments.model:
            further += ["--reasoning-parser", "qwen3"]
        print("starting vllm serve …", flush=True)
        server = stack.enter_context(Server(str(folder), [*further, *arguments.rest]))
        if not arguments.model:
            thought, value = reasoned(server.client, token_ids(folder))
            print("reasoning:", thought.strip(), "\nthen JSON:", value)
            jsonschema.validate(value, PERSON)
        for name, request in {"JSON schema": person, "regex": regex, "tool call": tool_call, "refused": refused}.items():
            value = request(server.client)
            print(f"{name}: {value}")
            if name == "JSON schema":
                jsonschema.validate(value, PERSON)
        print("streamed: ", end="")
        jsonschema.validate(person_streamed(server.client)[0], PERSON)
        print("stopped with status", server.stop())


if __name__ == "__main__":
    main()
