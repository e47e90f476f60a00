"""The official test suite (json-schema.org): each group is right on every test, or refused by name. None may be wrong."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from json_schema_tools import dumps, grammar, orders, suite_groups

from cdplugin.errors import GrammarError, UnsupportedError

DIALECTS = {"draft2020-12": "https://json-schema.org/draft/2020-12/schema", "draft7": "http://json-schema.org/draft-07/schema#"}
ASSERTS_CONTENT = "content.json"  # optional in Draft 7: contentEncoding as an assertion; an annotation in later drafts


def groups(draft: str) -> list[tuple[str, dict]]:
    return [(path, group) for path, group in suite_groups(f"{draft}/") if "/optional/format" not in path]


def judge(path: str, group: dict, draft: str) -> str:
    schema: Any = group["schema"]
    if isinstance(schema, dict) and "$schema" not in schema and "no-schema" not in path:
        schema = {"$schema": DIALECTS[draft], **schema}
    try:
        matcher = grammar(schema, formats="annotation" if path.endswith("/format.json") else "enforce")
    except UnsupportedError:
        return "refused"
    except GrammarError as error:
        if "another document" in str(error):
            return "refused"
        if "unsatisfiable" in str(error) and not any(test["valid"] for test in group["tests"]):
            return "right"
        return f"wrong: {path}, {group['description']}, {error}"
    for test in group["tests"]:
        found = any(matcher.accepts(dumps(value)) for value in islice(orders(test["data"]), 120))
        if found != test["valid"]:
            return f"wrong: {path}, {group['description']}, {test['description']}"
    return "right"


@pytest.mark.parametrize(("draft", "at_least"), [("draft2020-12", 220), ("draft7", 200)])
def test_suite(draft: str, at_least: int) -> None:
    verdicts = [
        judge(path, group, draft) for path, group in groups(draft) if not path.endswith(ASSERTS_CONTENT) or draft != "draft7"
    ]
    assert [v for v in verdicts if v.startswith("wrong")] == []
    assert verdicts.count("right") >= at_least, {v: verdicts.count(v) for v in set(verdicts)}
