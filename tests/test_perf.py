"""The benchmarks count what they say: a tiny MaskBench, random walks, and refusals that are only a matter of order."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "perf"))
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "child": {"$ref": "#"}},
    "required": ["name"],
    "additionalProperties": False,
}
CASES = [
    {
        "id": "order",
        "schema": PERSON,
        "tests": [
            {"data": {"name": "a", "child": {"name": "b"}}, "valid": True},
            {"data": {"child": {"name": "b"}, "name": "a"}, "valid": True},
            {"data": {"child": {"name": "b"}}, "valid": False},
        ],
    },
    {
        "id": "refused",
        "schema": {"uniqueItems": True, "prefixItems": [{}], "contains": {"type": "null"}},
        "tests": [{"data": [1], "valid": True}],
    },
    {"id": "wrong label", "schema": {"type": "integer"}, "tests": [{"data": 1, "valid": False}, {"data": "x", "valid": True}]},
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    pytest.importorskip("tiktoken")
    pytest.importorskip("llama_models")
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in CASES))
    return path


@pytest.mark.slow
def test_mask_bench(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("llguidance")
    out, plot = tmp_path / "out.json", tmp_path / "plot.png"
    command = [sys.executable, "perf/bench_mask.py", data, "--engines", "cdplugin,llguidance", "--out", out, "--plot", plot]
    done = subprocess.run([str(c) for c in command], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(out.read_text())["engines"]
    assert rows["cdplugin"]["schemas"] == 3
    assert rows["cdplugin"]["passing"] == 0 and rows["cdplugin"]["passing_but_for_order"] == 1
    assert rows["cdplugin"]["order_only_schemas"] == ["order"] and rows["cdplugin"]["order_only_instances"] == 1
    assert rows["cdplugin"]["refused"] == 1 and next(iter(rows["cdplugin"]["reasons"])).startswith("UnsupportedError: ")
    for engine in ("cdplugin", "llguidance"):
        assert rows[engine]["invalid_accepted_schemas"] == rows[engine]["valid_rejected_schemas"] == ["wrong label"]
        assert rows[engine]["mask_us"]["p50"] > 0
    assert rows["cdplugin"]["schemas_in_common"] >= 2 and rows["cdplugin"]["mask_ratio"]["mean"] > 0
    assert plot.stat().st_size > 1000


def test_mask_bench_without_data(tmp_path: Path) -> None:
    command = [sys.executable, "perf/bench_mask.py", str(tmp_path / "absent.jsonl.gz")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "skipped: the MaskBench data is not here" in done.stderr


@pytest.mark.slow
def test_random_walks(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "walks.json"
    command = [sys.executable, "perf/random_walks.py", str(data), "--walks", "20", "--seed", "3", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = json.loads(out.read_text())["counts"]
    assert counts["schemas"] == 2 and counts["schemas refused"] == 1
    assert counts["ended"] + counts["closed"] == 40 and counts["ended"] > 30
    assert counts["invalid"] == counts["dead end"] == counts["gave up"] == 0


def test_walks_find_faults() -> None:
    from random_walks import fault

    assert fault(PERSON, b'{"name": "a", "child": {"name": "b"}}') == ""
    assert "not JSON" in fault(PERSON, b'{"name": "a"')
    assert "repeated" in fault(PERSON, b'{"name": "a", "name": "b"}')
    assert "'name' is a required property - at $.child" in fault(PERSON, b'{"name": "a", "child": {}}')
    assert fault({"type": "integer"}, b"1.0") == fault({"type": "integer"}, b"12e1") == ""
    assert fault({"pattern": "^[.]a.$"}, b'".a\\r"') and not fault({"pattern": "^[.]a\\.$"}, b'".a."')
    assert fault({"type": "integer"}, b"1.5") and fault({"type": "string", "format": "date"}, b'"2024-02-30"')


def test_reorderings() -> None:
    from schema_order import reorderings

    (other,) = reorderings(PERSON, {"child": {"child": {"name": "c"}, "name": "b"}, "name": "a"})
    assert json.dumps(other) == '{"name": "a", "child": {"name": "b", "child": {"name": "c"}}}'
    assert list(reorderings(PERSON, {"name": "a", "child": {"name": "b"}})) == []
    branches = {"anyOf": [{"properties": {"a": {}, "b": {"const": 1}}}, {"properties": {"b": {}, "a": {}}}]}
    orders = [json.dumps(o) for o in reorderings(branches, {"z": 0, "a": 1, "b": 2})]
    assert '{"b": 2, "a": 1, "z": 0}' in orders  # only the second branch fits
    lists = {"prefixItems": [True, PERSON], "items": {"allOf": [PERSON]}}
    someone = {"child": {"name": "b"}, "name": "a"}
    (other,) = reorderings(lists, [someone, someone, someone])
    assert [next(iter(o)) for o in other] == ["child", "name", "name"]


def _is_valid(text: str, schema: dict[str, Any]) -> bool:
    """Whether a text is JSON that the schema allows."""
    import jsonschema

    try:
        return jsonschema.Draft202012Validator(schema).is_valid(json.loads(text))
    except ValueError:
        return False


FORMATRON_PEERS = ("formatron", "llguidance", "xgrammar", "lm-format-enforcer")


def test_formatron_s_texts() -> None:
    """The grammars of the tasks accept their texts and refuse the wrong ones. ``jsonschema`` judges JSON texts too."""
    pytest.importorskip("jsonschema")
    from formatron_cases import RUNS, TASKS, UNSEEN, sessions

    import cdplugin as cd

    compiler = cd.Compiler(cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"</s>"], eos_token_ids=256))
    asked = sessions()
    assert {session.task for session in asked} == set(TASKS) and len(asked) > 20
    for session in asked:
        given: cd.Spec = cd.JsonObject() if session.spec is None else cd.JsonSchema(session.spec)
        grammar = compiler.compile(cd.Lark(session.spec) if session.task == "geoquery" else given)
        right = (*session.texts, *session.unseen)
        assert len(right) == len(set(right)) == RUNS + UNSEEN
        for text in (*right, *session.wrong):
            matcher = grammar.matcher()
            data = text.encode()
            taken = matcher.accept_tokens(data) == len(data) and matcher.is_accepting()
            assert taken == (text in right), (session.name, text)
            if session.task == "json_schema":
                assert taken == _is_valid(text, session.spec)


@pytest.mark.slow
@pytest.mark.parametrize("peer", FORMATRON_PEERS)
def test_formatron_s_tasks(peer: str, tmp_path: Path) -> None:
    """A peer and this package on one schema and FunQL: both take all texts and refuse the wrong ones, and are timed."""
    for name in ("tiktoken", "llama_models", {"lm-format-enforcer": "lmformatenforcer"}.get(peer, peer)):
        pytest.importorskip(name, reason=f"perf/README.md says how to install {name}")
    out = tmp_path / "out.json"
    command = [
        "perf/formatron_tasks.py",
        "--engines",
        f"cdplugin,{peer}",
        "--schemas",
        "1",
        "--repeats",
        "1",
        "--out",
        str(out),
    ]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads(out.read_text())
    assert record["left_out"] == [] and record["sessions"] == {"json_schema": 1, "json_grammar": 1, "geoquery": 4}
    for task, of_task in record["engines"][peer].items():
        if (peer, task) == ("lm-format-enforcer", "geoquery"):
            assert "context-free" in of_task["dropped"]
            continue
        ours = record["engines"]["cdplugin"][task]["tokens_per_s"]
        assert record["against_the_best"][task]["warm"]["ratios"] == {
            peer: pytest.approx(ours["warm"] / of_task["tokens_per_s"]["warm"], abs=0.006)
        }


def test_formatron_s_switches() -> None:
    """Engines and switches are known by name, and others refused."""
    import formatron_engines

    with pytest.raises(ValueError, match="-nothing"):
        formatron_engines.make("cdplugin -nothing", None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected one of cdplugin, formatron"):
        formatron_engines.make("outlines", None)  # type: ignore[arg-type]
    assert formatron_engines.is_installed("cdplugin -slices") and not formatron_engines.is_installed("no_such_engine -cache")
