"""What is wrong with a grammar that can be read: no root, undefined rules, rules that match nothing. Linear in its size."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from cdplugin.errors import GrammarError
from cdplugin.frontends.bnf.tree import Grammar, references
from cdplugin.frontends.productive import Productive
from cdplugin.ir import Symbol
from cdplugin.walks import reached

_MOST_NAMES = 2_000


def check_references(grammar: Grammar, root: str) -> dict[str, set[str]]:
    """The rules within reach of ``root``, it first, each with the rules that it mentions.

    Raises :class:`GrammarError` for a missing root and for undefined rules. Rules that are out of reach may be unused on
    purpose; only their references are looked at.
    """
    rules = grammar.rules
    if not rules:
        raise GrammarError(
            "the grammar has no rules", expected=f"{root} ::= …", found="no text" if not grammar.source.text else "none"
        )
    if root not in rules:
        raise GrammarError(f"no rule is named {root!r}{_similar(grammar, root)}", expected=f"a rule {root!r}, or root=…")
    mentioned: dict[str, set[str]] = {}
    undefined: dict[str, int] = {}
    for rule in rules.values():
        names = mentioned[rule.name] = set()
        for name, at in references(rule.body):
            names.add(name)
            if name not in rules:
                undefined.setdefault(name, at)
    if undefined:
        used = set().union(*mentioned.values())
        name, at = next(iter(undefined.items()))
        more = f" (and {len(undefined) - 1} more)" if len(undefined) > 1 else ""
        grammar.source.fail(f"rule {name!r} is not defined{more}{_similar(grammar, name, used)}", at)
    needed = reached([root], lambda name: sorted(mentioned[name], key=lambda other: rules[other].at))
    return {name: mentioned[name] for name in needed}


def _similar(grammar: Grammar, name: str, used: set[str] | None = None) -> str:
    """``: did you mean 'x'?``, rules that nothing uses first."""
    names = [n for n in grammar.rules if abs(len(n) - len(name)) <= 3][:_MOST_NAMES]
    folded = {n.lower().replace("_", "-"): n for n in names}
    match = get_close_matches(name.lower().replace("_", "-"), folded, 3, 0.6)
    if not match:
        return ""
    unused = [m for m in match if used is not None and folded[m] not in used]
    best = folded[(unused or match)[0]]
    return f": did you mean {best!r}{', which no rule uses' if unused else ''}?"


def unproductive(rules: Iterable[tuple[Symbol, tuple[Symbol, ...]]], wanted: Iterable[Symbol]) -> set[Symbol]:
    """Which nonterminals of ``wanted`` derive no text. Lexemes and tokens derive some."""
    return set(wanted) - Productive((left, (s for s in right if s >= 0)) for left, right in rules).known


def fail_unproductive(grammar: Grammar, mentioned: dict[str, set[str]], dead: set[str]) -> None:
    """Raise for the first cycle of rules none of which can end. Each dead rule needs another one, so there is a cycle."""
    name = next(name for name in mentioned if name in dead)
    path: dict[str, None] = {}
    while name not in path:
        path[name] = None
        name = min(mentioned[name] & dead)
    cycle = list(path)[list(path).index(name) :]
    through = f" (through {', '.join(repr(n) for n in cycle[1:4])})" if len(cycle) > 1 else ""
    grammar.source.fail(
        f"rule {name!r} matches nothing: every derivation of it contains {name!r} again{through}",
        grammar.rules[name].at,
        expected="an alternative that ends",
    )
