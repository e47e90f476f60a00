"""Random Backus-Naur grammars, as trees of tuples and as GBNF text, and the set of their short words by brute force.

Nodes: ``("text", str)``, ``("class", str, negated)`` over :data:`LETTERS`, ``("ref", name)``, ``("seq", nodes)``, ``("alt",
nodes)``, ``("rep", node, low, high or None)``. This module shares nothing with the front end, so tests can use it as a
reference.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable

LETTERS = "abcé"
Tree = tuple
Grammar = dict[str, Tree]


def random_tree(rng: random.Random, names: list[str], depth: int) -> Tree:
    """A body of a rule, or a part of one."""
    kind = rng.random()
    if depth == 0 or kind < 0.3:
        leaf = rng.random()
        if leaf < 0.4:
            return ("text", "".join(rng.choice(LETTERS) for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3]))))
        if leaf < 0.6:
            return ("class", "".join(rng.sample(LETTERS, rng.randint(1, 2))), rng.random() < 0.2)
        return ("ref", rng.choice(names))
    if kind < 0.55:
        return ("seq", tuple(random_tree(rng, names, depth - 1) for _ in range(rng.choice([0, 2, 2, 2, 3]))))
    if kind < 0.8:
        return ("alt", tuple(random_tree(rng, names, depth - 1) for _ in range(rng.choice([2, 2, 3]))))
    low = rng.choice([0, 0, 0, 1, 2])
    return ("rep", random_tree(rng, names, depth - 1), low, rng.choice([None, None, low + 1, low + 2, max(low, 1)]))


def random_bnf(rng: random.Random) -> Grammar:
    """One to four rules, each with an alternative that ends. Left recursion, cycles and empty rules are on purpose."""
    names = ["root", "x", "y-1", "z"][: rng.randint(1, 4)]
    out: Grammar = {}
    for name in names:
        branches = [random_tree(rng, names, rng.choice([1, 2, 2]))]
        shape = rng.random()
        if shape < 0.25:
            branches.append(("seq", (("ref", name), random_tree(rng, names, 1))))
        elif shape < 0.4:
            branches.append(("seq", (random_tree(rng, names, 1), ("ref", name))))
        elif shape < 0.5:
            branches.append(("ref", rng.choice(names)))
        elif shape < 0.6:
            branches.append(("seq", (("ref", name), ("ref", rng.choice(names)))))
        elif shape < 0.7:
            branches.append(("seq", (("ref", rng.choice(names)), ("ref", name), ("text", rng.choice(LETTERS)))))
        branches.append(("text", rng.choice(["", "a", "b", "cé", "ab"])))
        rng.shuffle(branches)
        out[name] = ("alt", tuple(branches))
    return out


def gbnf_of(grammar: Grammar, rng: random.Random, nested_counts: bool = True) -> str:
    """The grammar as text, with spaces, line breaks and comments here and there."""
    lines = ["# a random grammar" if rng.random() < 0.3 else ""]
    for name, body in grammar.items():
        sign = rng.choice([" ::= ", " ::=\n  ", "::=", " ::= # " + name + "\n"])
        branches = [show(branch, rng) for branch in body[1]]
        lines.append(name + sign + rng.choice([" | ", "|", " |\n  "]).join(branches))
    return "\n".join(lines) + rng.choice(["", "\n", "\n\n# end"])


def show(tree: Tree, rng: random.Random) -> str:
    """A tree as GBNF."""
    op = tree[0]
    if op == "text":
        return '"' + "".join("\\u00E9" if c == "é" and rng.random() < 0.3 else c for c in tree[1]) + '"'
    if op == "class":
        if tree[2]:
            return "[^" + tree[1] + "\\x00-`d-\\u00e8ê-\\U0010ffff]"
        return "[" + ("a-" + tree[1][1] if sorted(tree[1]) == ["a", "b"] and tree[1][1] == "b" else tree[1]) + "]"
    if op == "ref":
        return str(tree[1])
    if op == "seq":
        return "(" + rng.choice([" ", "\n ", "  "]).join(show(t, rng) for t in tree[1]) + ")"
    if op == "alt":
        return "(" + rng.choice([" | ", "|", "\n|"]).join(show(t, rng) for t in tree[1]) + ")"
    _, child, low, high = tree
    counts = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    braces = f"{{{low}}}" if high == low else f"{{{low},{'' if high is None else high}}}"
    return show(child, rng) + counts.get((low, high), braces)


def words_of(grammar: Grammar, longest: int) -> set[str]:
    """All words of at most ``longest`` letters that the rule ``root`` derives: the least fixed point, by sets of words."""
    known: dict[str, frozenset[str]] = {name: frozenset() for name in grammar}
    while True:
        new = {name: _words(body, known, longest) for name, body in grammar.items()}
        if new == known:
            return set(known["root"])
        known = new


def _words(tree: Tree, known: dict[str, frozenset[str]], longest: int) -> frozenset[str]:
    op = tree[0]
    if op == "text":
        return frozenset([tree[1]] if len(tree[1]) <= longest else [])
    if op == "class":
        return frozenset(c for c in LETTERS if (c in tree[1]) != tree[2])
    if op == "ref":
        return known[tree[1]]
    if op == "alt":
        return frozenset().union(*(_words(t, known, longest) for t in tree[1]))
    if op == "seq":
        out = frozenset([""])
        for part in tree[1]:
            out = _joined(out, _words(part, known, longest), longest)
        return out
    _, child, low, high = tree
    words = _words(child, known, longest)
    out = frozenset([""])
    for _ in range(low):
        out = _joined(out, words, longest)
    rounds = itertools.count() if high is None else range(high - low)
    for _ in rounds:
        more = out | _joined(out, words, longest)
        if more == out:
            break
        out = more
    return out


def _joined(left: Iterable[str], right: Iterable[str], longest: int) -> frozenset[str]:
    return frozenset(a + b for a in left for b in right if len(a) + len(b) <= longest)
