"""Programs: names and keys that kernels write, beside the trees that they stand for, and what an arena makes of the trees."""

from __future__ import annotations

import random
from array import array

import pytest
from engine_tools import EVERY_BYTE, ids_of, seeds
from naive_regex import accepts

from cdplugin import expr
from cdplugin.engine.base_arena import base_arena_of, evaluate
from cdplugin.engine.programs import Program
from cdplugin.frontends.json_schema.strings import characters, names_text
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.store import layout
from cdplugin.limits import Limits

COLON = expr.literal(b'": ')
LETTERS = 'ab"\\/ ~c'


def random_names(rng: random.Random) -> list[str]:
    return ["".join(rng.choices(LETTERS, k=rng.randint(0, 5))) for _ in range(rng.randint(1, 9))]


def spelt(rng: random.Random, name: str) -> bytes:
    """One of the spellings of a name in JSON."""
    return b"".join(f"\\u{ord(c):04x}".encode() if c in '"\\' or rng.random() < 0.3 else c.encode() for c in name)


@pytest.mark.parametrize("seed", seeds(20, 4))
def test_names_are_the_tree_that_they_stand_for(seed: int) -> None:
    """The kernel's expression is the very value that the tree gives, and the tree matches all spellings and no other text."""
    rng = random.Random(seed)
    template = base_arena_of(EVERY_BYTE, Limits(), (), characters())
    for _ in range(10):
        names = random_names(rng)
        node = names_text(names)
        assert isinstance(node, expr.Names)
        program = template.program()
        found, tree = program.add(node), program.add(node.args[0])
        arena = template.arena.clone()
        evaluate(arena, program.code(), program.n_results, program.literal_tables())
        results = arena.tables[layout.VISIT_STAMPS]
        assert results[found] == results[tree]
        for name in names:
            assert accepts(node, spelt(rng, name))
        for other in random_names(rng):
            assert accepts(node, spelt(rng, other)) == (other in names)


@pytest.mark.parametrize("seed", seeds(20, 4))
def test_a_run_of_keys_is_evaluated_as_one_by_one(seed: int) -> None:
    """Literals before an expression that the arena has, mixed with others, give what the same trees give on their own."""
    rng = random.Random(seed)
    template = base_arena_of(EVERY_BYTE, Limits(), (COLON, expr.ANY_TEXT), characters())
    literals = [expr.literal(text) for text in (b'"a', b'"bb', b"x", b'"')]
    others = expr.Expr(expr.AND_OP, (expr.ANY_TEXT, expr.complement(names_text(["a", "bb"]))))
    quoted = expr.cat(literals[3], others, literals[3])
    kinds = (
        lambda: expr.cat(rng.choice(literals), COLON),
        lambda: rng.choice(literals),
        lambda: expr.ANY_TEXT,
        lambda: expr.cat(quoted, COLON),
    )
    roots = [rng.choice(kinds)() for _ in range(12)]
    together = template.program()
    arena = template.arena.clone()
    numbers = together.add_lexemes(roots, 1_000)
    evaluate(arena, together.code(), together.n_results, together.literal_tables())
    kept = arena.tables[layout.VISIT_STAMPS].tolist()
    ids = [kept[number] if number >= 0 else ~number for number in numbers]
    for root, found in zip(roots, ids, strict=True):
        for text in (b'"a": ', b'"bb": ', b"x", b'x": ', b'"": ', b'"a', b"", b'"a"": ', b'"bb"": ', b'"b"": ', b'"x"": '):
            state = found
            for byte in text:
                state = arena.call(kernels.OP_DERIVE, state, byte)
            assert bool(arena.call(kernels.OP_STATUS, state) & kernels.MATCHES_EMPTY) == accepts(root, text)


def test_lexemes_are_added_until_there_are_too_many() -> None:
    template = base_arena_of(EVERY_BYTE, Limits(), (COLON,), characters())
    roots = [expr.cat(expr.literal(b"a%d" % i), COLON) for i in range(5)]
    assert template.program().add_lexemes([COLON, *roots], 3)[1:] == [0, 1, 2, 3]
    other = template.program()
    assert len(other.add_lexemes([expr.repeat(expr.literal(b"a%d" % i)) for i in range(5)], 3)) == 4 == other.n_results


def test_a_cut_vocabulary_has_no_names_of_its_own() -> None:
    """Where some byte cannot be spelt, names are written out, and texts that need that byte are gone."""
    program = Program(
        Limits(),
        bytes(b for b in range(256) if b != ord("b")),
        characters=base_arena_of(EVERY_BYTE, Limits(), (), characters()).characters,
    )
    program.add(names_text(["ab", "c"]))
    assert not program._has_names


def random_automaton(rng: random.Random) -> expr.Automaton:
    """An automaton over ``012.``, in which some states match nothing."""
    tails = (expr.EPSILON, expr.literal(b"00"), expr.repeat(expr.literal(b"0"), 0, 3))
    states = array("q")
    n_states = rng.randint(1, 8)
    for number in range(n_states):
        edges: dict[int, int] = {}
        for byte in b"012.":
            if number and rng.random() < 0.7:
                child = rng.randrange(number)
                edges[child] = edges.get(child, 0) | 1 << byte
        states.extend((rng.randint(0, len(tails)), len(edges)))
        for child, mask in edges.items():
            states.extend((mask, child))
    return expr.Automaton(tails, states, n_states)


@pytest.mark.parametrize("seed", seeds(60, 10))
def test_an_automaton_is_the_tree_that_it_stands_for(seed: int) -> None:
    """The kernel's expression is the very value that the tree gives: alone, denied, and where a byte cannot be spelt."""
    rng = random.Random(seed)
    node = random_automaton(rng)
    (tree,) = node.args
    for allowed in (expr.ALL_BYTES, expr.ALL_BYTES & ~(1 << ord("1"))):
        _, (found, expected, denied, expected_denied) = ids_of(
            node, tree, expr.complement(node), expr.complement(tree), allowed=allowed
        )
        assert found == expected
        assert denied == expected_denied
    for _ in range(30):
        text = bytes(rng.choices(b"012.", k=rng.randint(0, 6)))
        assert accepts(tree, text) == _follows(node, node.n_states - 1, text)
    assert node.args[0] is tree
    assert "automaton" in repr(node)


def _follows(node: expr.Automaton, state: int, text: bytes) -> bool:
    """Whether an automaton matches a text from a state on, read off its words."""
    first, end = list(node._edges())[state]
    tail = node.states[first - 2]
    if tail and accepts(node.tails[tail - 1], text):
        return True
    edges = range(first, end, 2)
    return any(text and node.states[at] >> text[0] & 1 and _follows(node, node.states[at + 1], text[1:]) for at in edges)
