"""Find rules that never end, because they derive nothing or because of longest match.

Both are refused by name before anything is written, so that the message can say which rule and why.

Under longest match, ``/[a-z]+/ "x"`` never ends: the terminal takes every character that could follow it. A lexeme *eats* a
byte if it can be extended by that byte after every text that it matches. If a lexeme eats every byte that may come next,
longest match never ends it there; nor if ``%word`` never ends it before the bytes that it does not eat. That is refused

- where it leaves a rule without any text, and
- where the lexeme never ends at any of its places, and begins with a byte with which no other lexeme begins: after that byte
  there would be no way to go on.

Both computations err towards silence: the set of eaten bytes is read off the end of the expression and may be too small; the
FOLLOW sets (Aho, Sethi, Ullman 1986, 4.4) may be too large. So some such places remain possible.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import NamedTuple, NoReturn

from cdplugin.bits import members
from cdplugin.expr import ALL_BYTES, EMPTY_OP, Expr
from cdplugin.frontends.lark.byte_sets import Bytes
from cdplugin.frontends.lark.draft import Draft, Part, Production
from cdplugin.ir import LONGEST
from cdplugin.walks import reached

_OPEN = 1 << 256
"""A flag beside a set of bytes: the end of the text, a token, or an embedded grammar may come as well."""


class Stuck(NamedTuple):
    """A lexeme that never ends at its place in a production; ``follow``: what may come next."""

    rule: int
    production: int
    part: Part
    follow: int


def check_endings(draft: Draft, ignored: Expr | None) -> None:
    """Raise ``GrammarError`` for a rule that can never end. Linear in the rules, apart from the propagation of byte sets."""
    firsts = Bytes(generous=True)
    stuck = _stuck(draft, firsts, firsts.first(ignored) if ignored is not None else 0)
    if not stuck:
        return
    # A nullable lexeme can be left out, so it blocks nothing.
    blocked = {(s.rule, s.production): s for s in stuck if not s.part.value.is_nullable}
    known = draft.deriving(lambda part: True, blocked)
    for number, rule in enumerate(draft.rules):
        if not known[number] and not rule.is_helper:
            below = reached([number], lambda rule: [below for below in _mentioned(draft, rule) if not known[below]])
            _refuse(draft, next(s for key, s in blocked.items() if key[0] in below))
    only = _alone(draft, stuck, firsts.first(ignored) if ignored is not None else 0)
    if only is not None:
        _refuse(draft, only)


def _refuse(draft: Draft, stuck: Stuck) -> NoReturn:
    owner = draft.rules[stuck.rule].owner
    some = _shown(stuck.follow & ALL_BYTES)
    lexeme = stuck.part.value
    if stuck.follow & ~Bytes(generous=False).eaten(lexeme.expression):
        why, expected = "never ends before what may follow it", "something between two words of %word"
    else:
        why, expected = "goes on with whatever may follow it", "a terminal that stops before what follows, [lazy] or suffix="
    draft.scope.source.fail(f"the rule {owner.name!r} never ends: {lexeme.name} {why} ({some})", owner.at, expected=expected)


def _alone(draft: Draft, stuck: list[Stuck], ignored: int) -> Stuck | None:
    """A lexeme that never ends at any of its places, and begins with a byte with which nothing else begins."""
    parts = [part for rule in draft.rules for production in rule.productions for part in production.parts]
    if any(part.kind == "symbol" for part in parts):
        return None  # its first bytes are not known
    counts = Counter(part.value.expression for part in parts if part.kind == "lexeme")
    counts.subtract(s.part.value.expression for s in stuck)
    generous, surely = Bytes(generous=True), Bytes(generous=False)
    others = ignored
    for expression in +counts:
        others |= generous.first(expression)
    return next((s for s in stuck if not counts[e := s.part.value.expression] and surely.first(e) & ~others), None)


def _mentioned(draft: Draft, number: int) -> list[int]:
    """The rules to which a rule refers."""
    return [part.value for production in draft.rules[number].productions for part in production.parts if part.kind == "rule"]


def _stuck(draft: Draft, firsts: Bytes, ignored: int) -> list[Stuck]:
    """All lexemes that never end at their place, in rules reachable from ``start`` (so not in ``x`` of ``x{0}``)."""
    greedy = _greedy(draft, ignored)
    if not greedy:
        return []
    empty = draft.may_be_empty
    first = _first(draft, firsts, empty)
    follow = _follow(draft, firsts, first, empty)
    out: list[Stuck] = []
    for number in sorted(reached([0], lambda rule: _mentioned(draft, rule))):
        for i, production in enumerate(draft.rules[number].productions):
            rest = follow[number]
            for part in reversed(production.parts):
                # If nothing may follow, the rest of the production matches nothing; then that is the error to report.
                if rest and part.kind == "lexeme" and rest & ~greedy.get(id(part.value), 0) == 0:
                    out.append(Stuck(number, i, part, rest))
                may, is_empty = _of(part, firsts, first, empty)
                rest = may | rest if is_empty else may
    return out


def _greedy(draft: Draft, ignored: int) -> dict[int, int]:
    """For each lexeme that never ends before ignored text, by its id: all bytes before which it never ends. There are few, and
    in most grammars none.
    """
    surely = Bytes(generous=False)
    parts = (part for rule in draft.rules for production in rule.productions for part in production.parts)
    lexemes = {id(part.value): part.value for part in parts if part.kind == "lexeme"}
    out: dict[int, int] = {}
    for key, lexeme in lexemes.items():
        if lexeme.lexing == LONGEST and lexeme.max_tokens is None:
            never = surely.eaten(lexeme.expression) | (surely.first(lexeme.fence) if lexeme.fence is not None else 0)
            if never and not ignored & ~never:
                out[key] = never
    return out


def _of(part: Part, firsts: Bytes, first: list[int], empty: list[bool]) -> tuple[int, bool]:
    """The first bytes of a part, and whether it is nullable."""
    if part.kind == "rule":
        return first[part.value], empty[part.value]
    if part.kind == "lexeme":
        return firsts.first(part.value.expression), part.value.is_nullable
    return _OPEN, part.kind == "symbol"


def _first(draft: Draft, firsts: Bytes, empty: list[bool]) -> list[int]:
    """The FIRST set of each rule, as a set of bytes and ``_OPEN``."""
    first = [0] * len(draft.rules)
    larger: list[list[int]] = [[] for _ in draft.rules]
    for number, rule in enumerate(draft.rules):
        for production in rule.productions:
            for part in production.parts:
                if part.kind == "rule":
                    larger[part.value].append(number)
                    if not empty[part.value]:
                        break
                    continue
                may, is_empty = _of(part, firsts, first, empty)
                first[number] |= may
                if not is_empty:
                    break
    _spread(first, larger)
    return first


def _follow(draft: Draft, firsts: Bytes, first: list[int], empty: list[bool]) -> list[int]:
    """FOLLOW of each rule, as a set of bytes and ``_OPEN``."""
    follow = [0] * len(draft.rules)
    follow[0] = _OPEN
    larger: list[list[int]] = [[] for _ in draft.rules]
    for number, rule in enumerate(draft.rules):
        for production in rule.productions:
            rest, at_end = 0, True
            for part in reversed(production.parts):
                if part.kind == "rule":
                    follow[part.value] |= rest
                    if at_end:
                        larger[number].append(part.value)
                may, is_empty = _of(part, firsts, first, empty)
                rest = may | rest if is_empty else may
                at_end = at_end and is_empty
    _spread(follow, larger)
    return follow


def _spread(sets: list[int], larger: list[list[int]]) -> None:
    """Propagate sets along edges: each set becomes a superset of those that have it in ``larger``."""
    pending = [i for i, value in enumerate(sets) if value]
    while pending:
        i = pending.pop()
        for target in larger[i]:
            if sets[i] & ~sets[target]:
                sets[target] |= sets[i]
                pending.append(target)


def _shown(mask: int) -> str:
    """Some bytes of a set, for a message."""
    some = members(mask)
    return ", ".join(repr(chr(b)) if b < 128 else f"byte {b:#x} of UTF-8" for b in some[:6]) + (", …" if len(some) > 6 else "")


def check_productive(draft: Draft) -> None:
    """Raise ``GrammarError`` for the first rule that derives no text for any parameter. Linear in the rules.

    Whether a terminal with ``&`` or ``~`` matches anything is decided later, when the grammar is compiled.
    """
    known = draft.deriving(lambda part: part.kind != "lexeme" or part.value.expression.op != EMPTY_OP)
    for number, rule in enumerate(draft.rules):
        if known[number] or rule.is_helper:
            continue
        path, met = [number], set[int]()
        while path[-1] not in met and (blocked := _first_blocked(draft, path[-1], known)) is not None:
            if blocked.kind == "lexeme":
                owner = draft.rules[path[-1]].owner
                message = f"the rule {owner.name!r} needs {blocked.value.name or 'a terminal'}, which matches nothing"
                draft.scope.source.fail(message, owner.at)
            met.add(path[-1])
            path.append(blocked.value)
        cycle = [name for name, _ in groupby(draft.rules[number].owner.name for number in path)]
        if len(cycle) == 1:
            cycle *= 2
        owner = rule.owner
        shown = " → ".join(cycle[:9])
        is_bare = all(len(p.parts) == 1 for number in path for p in draft.rules[number].productions)
        what = "stands for itself alone, so it is empty without end" if is_bare else "never ends"
        draft.scope.source.fail(f"the rule {owner.name!r} derives no text: it {what}", owner.at, found=shown)


def _first_blocked(draft: Draft, number: int, known: list[bool]) -> Part | None:
    """An unproductive part of a rule's last alternative (which mostly is the one meant to end the recursion)."""
    productions: list[Production] = draft.rules[number].productions
    for part in productions[-1].parts if productions else ():
        if not known[part.value] if part.kind == "rule" else part.kind == "lexeme" and part.value.expression.op == EMPTY_OP:
            return part
    return None
