"""SGLang's server with the backend ``cdplugin``: real HTTP requests. **Needs a GPU; not run yet.**

    pip install 'cdplugin[sglang]' openai jsonschema
    python examples/sglang_serve.py --model MODEL [--speculative] [-- further arguments of the server]

It starts the server on the loopback address, sends requests as OpenAI's clients and SGLang's native ones do (a JSON schema,
streamed and not; a regular expression; EBNF; a structural tag; a wrong schema; 64 requests at once), checks each answer
without cdplugin, and stops the server. ``--speculative`` drafts by n-grams, so that masks of draft trees are needed. The
exit status is not zero if an answer is wrong.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jsonschema
import openai

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Z][a-z]{1,14}$"},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
PHONE = r"\+[0-9]{1,3} [0-9]{6,8}"
EBNF = 'root ::= "(" root ")" | "x"'
TAG = {
    "type": "structural_tag",
    "format": {"type": "tag", "begin": "<call>", "content": {"type": "json_schema", "json_schema": PERSON}, "end": "</call>"},
}


def wait_until_ready(address: str, server: subprocess.Popen[bytes], seconds: float = 1200) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise SystemExit(f"the server ended with status {server.returncode}")
        try:
            with urllib.request.urlopen(f"{address}/health_generate", timeout=30):
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(2)
    raise SystemExit(f"the server was not ready within {seconds:.0f} s")


def native(address: str, **sampling: Any) -> tuple[int, str]:
    """A request to SGLang's own endpoint: the status, and the text or the error."""
    body = {"text": "Answer: ", "sampling_params": {"max_new_tokens": 200, "temperature": 0, **sampling}}
    request = urllib.request.Request(f"{address}/generate", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, json.load(answer)["text"]
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def is_person(text: str) -> bool:
    try:
        jsonschema.validate(json.loads(text), PERSON)
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


def check(address: str) -> list[str]:
    """What is wrong."""
    faults = []

    def expect(what: str, good: bool, found: Any) -> None:
        print(f"{'ok' if good else 'WRONG'}: {what}: {str(found)[:200]}", flush=True)
        if not good:
            faults.append(what)

    status, text = native(address, json_schema=json.dumps(PERSON))
    expect("JSON schema", status == 200 and is_person(text), text)
    status, text = native(address, regex=PHONE)
    expect("regular expression", status == 200 and re.fullmatch(PHONE, text) is not None, text)
    status, text = native(address, ebnf=EBNF, max_new_tokens=400)
    depth = text.count("(")
    expect("EBNF", status == 200 and (text == "(" * depth + "x" + ")" * depth or set(text) == {"("}), text)
    status, text = native(address, structural_tag=json.dumps(TAG))
    expect("structural tag", status == 200 and is_person(text.removeprefix("<call>").removesuffix("</call>")), text)
    status, text = native(address, json_schema='{"type": "integr"}')
    expect("a wrong schema is refused", status == 400 and "/type" in text, (status, text))

    client = openai.OpenAI(base_url=f"{address}/v1", api_key="none")
    asked: Any = {
        "model": "default",
        "messages": [{"role": "user", "content": "Make up a person."}],
        "max_tokens": 200,
        "temperature": 0,
        "response_format": {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}},
    }
    text = client.chat.completions.create(**asked).choices[0].message.content or ""
    expect("chat", is_person(text), text)
    stream: Any = client.chat.completions.create(**asked, stream=True)
    text = "".join(event.choices[0].delta.content or "" for event in stream if event.choices)
    expect("streamed", is_person(text), text)

    kinds = [{"json_schema": json.dumps(PERSON)}, {"regex": PHONE}, {}, {"json_schema": '{"type": "integr"}'}]
    with ThreadPoolExecutor(64) as threads:
        began = time.monotonic()
        answers = list(threads.map(lambda n: native(address, temperature=1.0, **kinds[n % 4]), range(64)))
    good = [
        all(status == 200 and is_person(text) for status, text in answers[0::4]),
        all(status == 200 and re.fullmatch(PHONE, text) for status, text in answers[1::4]),
        all(status == 200 for status, _ in answers[2::4]),
        all(status == 400 for status, _ in answers[3::4]),
    ]
    expect(f"64 at once in {time.monotonic() - began:.1f} s", all(good), good)
    return faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--speculative", action="store_true")
    parser.add_argument("rest", nargs="*", help="further arguments of the server, after --")
    arguments = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "sglang.launch_server", "--model-path", arguments.model, "--host", "127.0.0.1"]
    command += ["--port", str(port), "--grammar-backend", "cdplugin", *arguments.rest]
    if arguments.speculative:
        command += ["--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens", "8"]
    server = subprocess.Popen(command)
    try:
        address = f"http://127.0.0.1:{port}"
        wait_until_ready(address, server)
        faults = check(address)
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
    print("all answers are right" if not faults else f"wrong: {', '.join(faults)}")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
