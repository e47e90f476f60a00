"""What many requests name is computed before one of them asks for it (:mod:`cdplugin.specs.popular`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

ASK = """
import json, sys
import cdplugin as cd
from cdplugin.memory import account
from cdplugin.specs import popular

if sys.argv[1] == "compile":
    vocab = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)], eos_token_ids=255)
    cd.Compiler(vocab).compile(cd.Choice(["a"]))
else:
    popular.meet_all()
made = {}
for form in json.loads(sys.argv[2]):
    before = account()["shared by compilations"]
    cd.JsonSchema({"type": "string", "format": form}).rules(cd.Limits())
    made[form] = account()["shared by compilations"] - before
for pattern in json.loads(sys.argv[3]):
    before = account()["shared by compilations"]
    cd.Lark(f"start: /{pattern}/").rules(cd.Limits())
    made[pattern] = account()["shared by compilations"] - before
print(json.dumps(made))
"""


def made_after(began: str, forms: list[str], patterns: list[str]) -> dict[str, int]:
    """Bytes of shared expressions that each still adds, in a fresh process that has compiled something, or was warmed."""
    command = [sys.executable, "-c", ASK, began, json.dumps(forms), json.dumps(patterns)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_is_named_most_is_met_with_the_first_grammar() -> None:
    forms, patterns = ["date", "date-time", "time", "email", "uri", "uuid"], [r"\w+", r"\d+", r"\s+"]
    met = made_after("compile", [*forms, "hostname"], [*patterns, r"\W+"])
    assert met["hostname"] > 100_000 and met[r"\W+"] > 10_000  # so the measure does notice
    assert all(met[name] < 3_000 for name in forms + patterns), met


def test_a_server_has_met_every_format() -> None:
    from cdplugin.frontends.json_schema.formats import SINCE

    met = made_after("warm", [*SINCE], [r"\W", r"\p{L}", r"\p{Lu}", r"\p{N}"])
    assert all(nbytes < 3_000 for nbytes in met.values()), met
