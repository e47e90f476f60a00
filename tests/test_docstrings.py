"""Docstrings that list attributes list those that there are."""

from __future__ import annotations

import dataclasses
import inspect
import re

import pytest

import cdplugin as cd
from cdplugin.errors import GrammarError
from cdplugin.frontends.json_schema.keyword_map import Keyword
from cdplugin.frontends.json_schema.options import Options
from cdplugin.frontends.json_schema.schema import Subschema
from cdplugin.vocab.token_bytes import TokenSource


def listed(kind: type) -> set[str]:
    """The names of an ``Attributes`` section: ``a, b : what they are``, at the section's own indentation."""
    section = re.split(r"^Attributes\n-+\n", inspect.getdoc(kind) or "", flags=re.MULTILINE)[1]
    heads = re.findall(r"^(\w+(?:, \w+)*) : ", section, re.MULTILINE)
    names = [name for head in heads for name in head.split(", ")]
    assert len(set(names)) == len(names), "listed twice"
    return set(names)


@pytest.mark.parametrize("kind", [TokenSource, Options, Keyword])
def test_dataclasses(kind: type) -> None:
    assert listed(kind) == {field.name for field in dataclasses.fields(kind)}


def test_subschema() -> None:
    assert listed(Subschema) == set(Subschema.__slots__)


def test_vocabulary_and_errors() -> None:
    vocab = cd.Vocabulary.from_bytes([b"a", b"</s>"], eos_token_ids=1)
    assert listed(cd.Vocabulary) == {name for name in vars(vocab) if not name.startswith("_")}
    assert listed(GrammarError) == set(vars(GrammarError("what")))


def test_json_schema_takes_and_documents_every_option() -> None:
    taken = {name: p.default for name, p in inspect.signature(cd.JsonSchema).parameters.items() if name != "schema"}
    own = {"gaps"}  # for grammars that embed a schema
    assert taken == {field.name: field.default for field in dataclasses.fields(Options) if field.name not in own}
    heads = re.findall(r"^(\w+(?:, \w+)*) : ", inspect.getdoc(cd.JsonSchema) or "", re.MULTILINE)
    assert {name for head in heads for name in head.split(", ")} == {"schema", *taken}
