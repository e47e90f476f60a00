"""``cdplugin keywords``: print the keyword map of JSON Schema, as text or JSON."""

from __future__ import annotations

import argparse
import json

from cdplugin.cli.main import CommandError
from cdplugin.frontends.json_schema import keyword_map
from cdplugin.frontends.json_schema.keyword_map import DRAFTS, KEYWORDS, NO_DRAFT, of_draft

_NAME_WIDTH = max(map(len, KEYWORDS)) + 2
_STATUS_WIDTH = 12


def keywords(args: argparse.Namespace) -> bool:
    """Print the map; returns whether all keywords asked for are in it. Raises CommandError for an unknown draft."""
    if args.draft not in (None, *DRAFTS):
        raise CommandError(f"--draft: expected one of {', '.join(DRAFTS)}, found {args.draft!r}")
    drafts = DRAFTS if args.draft is None else (args.draft,)
    names = set(args.keywords or KEYWORDS)
    if args.json:
        print(json.dumps([entry for entry in keyword_map.as_json(drafts) if entry["keyword"] in names], indent=2))
    else:
        print("\n".join(line for draft in drafts for line in _section(draft, names)))
        for name in sorted(names - set(KEYWORDS)):
            print(f"{name}: in no draft from 4 to 2020-12; an annotation")
    return names <= set(KEYWORDS)


def _section(draft: str, names: set[str]) -> list[str]:
    """The lines about one draft."""
    out = ["without $schema (2020-12 and older forms)" if draft == NO_DRAFT else f"draft {draft}"]
    for keyword, status in of_draft(draft).items():
        if keyword.name not in names:
            continue
        refused = [f"refused: {refusal.why}" for refusal in keyword.refusals if status == keyword_map.ENFORCED]
        remarks = [*refused, *([keyword.note] if keyword.note else [])] or [""]
        lead = f"  {keyword.name:<{_NAME_WIDTH}}{status:<{_STATUS_WIDTH}}"
        out += [(lead if i == 0 else " " * len(lead)) + remark for i, remark in enumerate(remarks)]
    return [line.rstrip() for line in out] if len(out) > 1 else []
