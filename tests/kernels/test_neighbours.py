"""Bases made from a neighbour's (:mod:`cdplugin.kernels.masks.neighbours`): masks equal stepping each token."""

from __future__ import annotations

import itertools
import random

import pytest
from engine_tools import at_least, cases, compare_masks, followed, mask, vocabulary

import cdplugin as cd
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.masks import layout as mask_layout
from cdplugin.kernels.store import layout

WORDS = [b"foo", b"bar", b"fob", b"oo", b"*/", b'"""', b"<!", b"!>", b"ab", b"ba"]
TOKENS = [bytes([b]) for b in b'abfor*/"<!> \n']
TOKENS += [a + b for a in WORDS for b in (b"", b"a", b"o", b"*", b">", b'"')]
TOKENS += [b" f", b"a\n", b"o/ba", b'r"f', b"*/a*/", b"> <"]
VOCAB = vocabulary(list(dict.fromkeys(TOKENS)))
COMPILER = cd.Compiler(VOCAB)


def random_grammar(rng: random.Random) -> str:
    """Texts without some words, comments and strings up to what ends them: beside each other, with something behind them."""
    first, second, third = (word.decode().replace("*", r"\*").replace("/", r"\/") for word in rng.sample(WORDS, 3))
    terminals = [
        f"/[^<>]{rng.choice('*+')}/ & ~/(?s:.*)({first}|{second})(?s:.*)/",
        f"/[abfor ]+/ & ~/.*{first}.*/",
        r"/\/\*/ /([^*]|\*+[^*\/])*\*+\//",
        f"/{second}(?s:.*)/ & ~/(?s:.*){third}(?s:.+)/ & /(?s:.*){third}/",
        r'/"""([^"]|""?[^"])*"""/',
        f"/[a-r*]+/ & ~/.*{third}/",
    ]
    texts = rng.sample(terminals, 2)
    flag = rng.choice(["", "[lazy]"])
    shape = rng.choice(['start: A ">"', 'start: (A | B)+ "!"', 'start: "<" A? ">" B', "start: A\n%ignore B"])
    return f"{shape}\nA{flag if 'ignore' not in shape else ''}: {texts[0]}\nB: {texts[1]}\n"


@pytest.mark.parametrize("seed", range(6))
def test_masks_are_what_stepping_says(seed: int) -> None:
    rng = random.Random(seed)
    compared = made = 0
    for _ in range(cases(60, 3)):
        try:
            grammar = COMPILER.compile(cd.Lark(random_grammar(rng)))
        except cd.GrammarError:
            continue
        compared += compare_masks(grammar, rng, cases(4, 2), cases(12, 6))
        made += with_neighbours(grammar)
    assert compared > at_least(300, 5)
    assert made > at_least(20, 0)


def test_an_end_before_a_token_that_only_the_neighbour_has() -> None:
    """Names end before a comma, all but the one that is left out: what follows it goes on as other names do."""
    words = ["".join(letters).encode() for n in (2, 3) for letters in itertools.product("fix", repeat=n)]
    vocab = vocabulary([b"f", b"i", b"x", b",", *words, b",f", b",ix"], all_bytes=False)
    grammar = cd.Compiler(vocab).compile(cd.Lark('start: NAME ("," NAME)*\nNAME: /[fix]+/ & ~/f/'))
    for text in (b"i", b"f", b"ff", b"i,f", b"f"):
        matcher = grammar.matcher()
        assert matcher.accept_tokens(map(b"fix,".index, text)) == len(text)
        assert mask(matcher) == followed(matcher), text
    assert with_neighbours(grammar)


def with_neighbours(grammar: cd.Grammar) -> int:
    """How many bases of the whole trie have a parent that is no simplified state's."""
    arena = grammar._arena
    found = 0
    for state in range(1, int(arena.header[layout.N_LEXER_STATES])):
        base = arena.of_state(state, lexer_layout.L_BASE)
        if base >= 0 and arena.of_state(state, lexer_layout.L_SIMPLIFIED) == state:
            found += int(arena.tables[layout.BASES][base * mask_layout.BASE_WORDS + mask_layout.B_PARENT]) >= 0
    return found


def test_few_walks_of_the_whole_trie() -> None:
    """Where a text must not contain a word, the states inside the word are made from the one outside it."""
    grammar = COMPILER.compile(cd.Lark('start: A ">"\nA: /[^<>]+/ & ~/(?s:.*)(foo|bar)(?s:.*)/\n'))
    matcher = grammar.matcher()
    for token in b"aobafoba":
        mask(matcher)
        assert matcher.accept_token(token)
    assert with_neighbours(grammar) >= 3
