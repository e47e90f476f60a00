"""How much plain text a lexer state survives: the result of :mod:`cdplugin.kernels.lexer.plain_text` beside short texts."""

from __future__ import annotations

import pytest
from engine_tools import vocabulary
from naive import Derivatives

import cdplugin as cd
from cdplugin.ir import GrammarIR
from cdplugin.kernels.jit import decorators as jit
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.lexer import plain_run_of
from cdplugin.kernels.lexer.plain_text import plain_chars

MOST = 6
VOCAB = vocabulary([b"a" * MOST, "é".encode() * MOST])
CHARACTERS = [*"abz1 ~", "é", "ß", "日", "🙂"]
"""One of each class of plain characters that the patterns below tell apart."""
PATTERNS = [
    "(.{0,2}|.*é.*)a?",
    "([^a]|a[^b])*",
    "(.[^é]?){0,2}",
    "((.|..)é?){0,2}!?",
    "([ab]|.){3}x*",
    "(.|[^é]{3}|日){2}",
    ".*ab.*",
    "(a|[^a]{2})*",
    "([^ ]+( [^ ]+)*)?",
    "(.|..)!?",
    "([^x]|x.)*y?",
]


def lived_through(pattern: str) -> int:
    """How many plain characters, whichever they are, some match begins with: by stepping all of them."""
    reference = Derivatives()
    (tree,) = cd.Regex(pattern).to_ir(cd.Limits()).lexemes
    level = {reference.convert(tree)}
    for length in range(MOST):
        following = set()
        for node in level:
            for character in CHARACTERS:
                after = node
                for byte in character.encode():
                    after = reference.step(after, byte)
                if not reference.alive(after):
                    return length
                following.add(after)
        level = following
    return MOST


@pytest.mark.skipif(not jit.DISABLED, reason="an inner kernel is called")
@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_search_finds_what_stepping_finds(pattern: str) -> None:
    ir = GrammarIR()
    (tree,) = cd.Regex(pattern).to_ir(cd.Limits()).lexemes
    ir.start = ir.nonterminal("start")
    ir.rule(ir.start, [ir.lexeme(tree, "text")])
    arena = cd.Compiler(VOCAB).compile_ir(ir)._current()
    state = arena.start & lexer_layout.STATE_MASK
    answer = plain_chars(arena.address, state)
    while answer < 0:
        arena.recover(answer)
        answer = plain_chars(arena.address, state)
    assert min(answer >> 1, MOST) <= lived_through(pattern)
    if plain_run_of(arena.address, state) == 0:  # else what the expression's structure says is taken, a lower bound
        assert min(answer >> 1, MOST) == lived_through(pattern)


def test_the_patterns_live_through_this_much_and_that() -> None:
    assert {lived_through(pattern) for pattern in PATTERNS} >= {1, 2, 3, 4, MOST}
