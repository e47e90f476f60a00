"""Rules that derive nothing, by name: before anything is written, so that the message can say which and why."""

from __future__ import annotations

from itertools import groupby

from cdplugin.expr import EMPTY_OP
from cdplugin.frontends.lark.draft import Draft, Part, Production


def check_productive(draft: Draft) -> None:
    """Raise ``GrammarError`` for the first rule that derives no text, whatever its parameter is. Linear in the rules.

    Whether a terminal with ``&`` or ``~`` matches anything is decided when the grammar is compiled.
    """
    known = draft.deriving(lambda part: not _matches_nothing(part))
    for number, rule in enumerate(draft.rules):
        if known[number] or rule.is_helper:
            continue
        path = [number]
        while path[-1] not in path[:-1] and (blocked := _first_blocked(draft, path[-1], known)) is not None:
            if blocked.kind == "lexeme":
                owner = draft.rules[path[-1]].owner
                message = f"the rule {owner.name!r} needs {blocked.value.name or 'a terminal'}, which matches nothing"
                draft.scope.source.fail(message, owner.at)
            path.append(blocked.value)
        cycle = [name for name, _ in groupby(draft.rules[number].owner.name for number in path)]
        if len(cycle) == 1:
            cycle *= 2
        owner = rule.owner
        shown = " → ".join(cycle[:9])
        is_bare = all(len(p.parts) == 1 for number in path for p in draft.rules[number].productions)
        what = "stands for itself alone, so it is empty without end" if is_bare else "never ends"
        draft.scope.source.fail(f"the rule {owner.name!r} derives no text: it {what}", owner.at, found=shown)


def _matches_nothing(part: Part) -> bool:
    return part.kind == "lexeme" and part.value.expression.op == EMPTY_OP


def _first_blocked(draft: Draft, number: int, known: list[bool]) -> Part | None:
    """What keeps a rule's last alternative from deriving anything (the last is most often the one meant to end)."""
    productions: list[Production] = draft.rules[number].productions
    for part in productions[-1].parts if productions else ():
        if _matches_nothing(part) or (part.kind == "rule" and not known[part.value]):
            return part
    return None
