"""Members of objects in their order, without a memory: declared names, then further ones."""

from __future__ import annotations

from collections.abc import Sequence

from cdplugin.ir import GrammarIR, Symbol

Declared = tuple[Symbol, Symbol, bool]
"""A declared or required name: the symbols of its key and of its value, and whether it is required."""


def sequence(
    ir: GrammarIR,
    entries: Sequence[Declared],
    further: Sequence[tuple[Symbol, Symbol]],
    comma: Symbol,
    closings: tuple[Symbol, Symbol],
    pointer: str,
) -> Symbol:
    """What follows the opening brace. ``further``: keys and values; ``closings``: of an empty object, and of another.

    Written from the end: ``after`` is what follows once a member was written, ``first`` what may stand right after the
    brace. Both are kept reversed, as they grow at their front.
    """
    rule, nonterminal, where = ir.rules.append, ir.nonterminal, ir.at(pointer)
    after, first = [closings[1]], [closings[0]]
    if further:
        more, start = nonterminal("members", where), nonterminal("members", where)
        ir.rules += ((more, (closings[1],)), (start, (closings[0],)))
        for key, value in further:
            rule((more, (comma, key, value, more)))
            rule((start, (key, value, more)))
        after, first = [more], [start]
    # The last entry that may come first is the first required one.
    opening = len(entries)
    for i, entry in enumerate(entries):
        if entry[2]:
            opening = i
            break
    for i in range(len(entries) - 1, -1, -1):
        key, item, required = entries[i]
        if i <= opening:
            if required:
                first = [*after, item, key]
            else:
                choice = nonterminal(pointer, where)
                rule((choice, (key, item, *after[::-1])))
                rule((choice, (*first[::-1],)))
                first = [choice]
        if required:
            after += (item, key, comma)
        else:
            choice = nonterminal(pointer, where)
            rule((choice, (comma, key, item, *after[::-1])))
            rule((choice, (*after[::-1],)))
            after = [choice]
    body = nonterminal(pointer, where)
    rule((body, (*first[::-1],)))
    return body
