"""The official test suite (json-schema.org): each group is judged right on every test or refused by name; none is wrong.

The suite's drafts 7 and 2020-12 come from a later version; the other drafts are those that jsonschema 4.26 has.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from json_schema_tools import dumps, grammar, orders, suite_groups

from cdplugin.errors import GrammarError, UnsupportedError

DIALECTS = {
    **{f"draft{year}": f"https://json-schema.org/draft/{year}/schema" for year in ("2019-09", "2020-12")},
    **{f"draft{n}": f"http://json-schema.org/draft-0{n}/schema#" for n in (4, 6, 7)},
}
OTHERWISE = {
    "draft7/optional/content.json",  # asks whether the content of contentMediaType is JSON; an annotation in later drafts
    "draft4/optional/float-overflow.json",  # 1e308 beside multipleOf, which is without exponents (docs/json-schema.md)
}


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


@pytest.mark.parametrize(
    ("draft", "at_least"),
    [("draft2020-12", 220), ("draft2019-09", 380), ("draft7", 200), ("draft6", 250), ("draft4", 180)],
)
def test_suite(draft: str, at_least: int) -> None:
    verdicts = [judge(path, group, draft) for path, group in groups(draft) if path not in OTHERWISE]
    assert [v for v in verdicts if v.startswith("wrong")] == []
    assert verdicts.count("right") >= at_least, {v: verdicts.count(v) for v in set(verdicts)}
