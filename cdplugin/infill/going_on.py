"""Can every text of a language be continued? If so, skips may come at its end, too.

A skip stands before a lexeme, so the matcher lets a skip end a text only where some lexeme may still come.
"""

from __future__ import annotations

Rules = list[tuple[int, list[int]]]
"""Left and right sides; nonterminals from 0 on, lexeme ``x`` as ``-2 - x``. Rule 0: the start symbol, then the end symbol."""


def goes_on(rules: Rules, nullable: list[int], begins: list[int], awaited: int) -> bool:
    """Whether after every text of the language one of the lexemes ``awaited`` (bits) may come. *True* is right; *False* may be
    wrong.

    After a rule's right side such a lexeme may come in three cases: another rule for the same nonterminal continues the right
    side with one; the nonterminal is left-recursive, also by way of others, and continues with one (``items: items item``); or
    one may come after all that the last symbol derives. The last case is a greatest fixpoint: it is assumed of all nonterminals
    that may end a text, until refuted.
    """
    by_left: dict[int, list[list[int]]] = {}
    for left, right in rules:
        by_left.setdefault(left, []).append(right)
    start = rules[0][1][0]
    last = [start]  # nonterminals that a text may end with
    for symbol in last:
        last += {right[-1] for right in by_left[symbol] if right and right[-1] >= 0} - set(last)

    def begins_so(symbols: list[int]) -> bool:
        return bool(symbols) and bool((begins[symbols[0]] if symbols[0] >= 0 else 1 << (-2 - symbols[0])) & awaited)

    surely = set()  # rules of the first two cases
    for left in last:
        rights = by_left[left]
        recursive = bool(_after_itself(by_left, nullable, begins, left) & awaited)
        for i, right in enumerate(rights):
            n = len(right)
            if recursive or any(other[:n] == right and begins_so(other[n:]) for other in rights):
                surely.add((left, i))
    assumed = set(last)
    changed = True
    while changed:
        refuted = {
            left
            for left in assumed
            for i, right in enumerate(by_left[left])
            if (left, i) not in surely and not (right and right[-1] in assumed)
        }
        changed = bool(refuted)
        assumed -= refuted
    return start in assumed


def _after_itself(by_left: dict[int, list[list[int]]], nullable: list[int], begins: list[int], whole: int) -> int:
    """The lexemes that may come after a nonterminal that is a left corner of itself, as bits."""
    after = {whole: 0}  # per left corner of ``whole``: the lexemes that may come after it, within ``whole``
    pending = [whole]
    itself = 0
    while pending:
        left = pending.pop()
        for right in by_left.get(left, []):
            for i, symbol in enumerate(right):
                if symbol < 0:
                    break
                found = 0
                rest = iter(right[i + 1 :])
                for other in rest:
                    found |= begins[other] if other >= 0 else 1 << (-2 - other)
                    if other < 0 or not nullable[other]:
                        break
                else:
                    found |= after[left]
                if symbol == whole:
                    itself |= found
                if symbol not in after or found & ~after[symbol]:
                    after[symbol] = after.get(symbol, 0) | found
                    pending.append(symbol)
                if not nullable[symbol]:
                    break
    return itself
