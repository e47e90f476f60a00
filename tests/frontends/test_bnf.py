"""GBNF and EBNF grammars accept exactly the language that their text says, with literals folded or not."""

from __future__ import annotations

import random

import pytest
from bnf_tools import LETTERS, gbnf_of, random_bnf, words_of
from engine_tools import check_walk, seeds, vocabulary
from naive import Naive

import cdplugin as cd
from cdplugin.frontends.bnf import compile_bnf

VOCAB = vocabulary([b"ab", b"ba", b"aa", b"cab", "éa".encode(), "bé".encode(), b"b\xc3", b"\xa9c", b"abcab", b"ccc"])


def explore(grammar: cd.Grammar, naive: Naive, longest: int) -> set[str]:
    """The words of at most ``longest`` letters. Every string that is alive, and each that just died, is compared with naive."""
    matcher = grammar.matcher()
    words: set[str] = set()
    stack = [""]
    while stack:
        text = stack.pop()
        data = text.encode()
        matcher.reset()
        alive = matcher.accept_tokens(data) == len(data)
        assert alive == naive.viable(data), text
        if not alive:
            continue
        assert matcher.is_accepting() == naive.accepts(data), text
        if matcher.is_accepting():
            words.add(text)
        if len(text) < longest:
            stack += [text + letter for letter in LETTERS]
    return words


@pytest.mark.parametrize("seed", seeds(8, 1, 3))
def test_every_short_string(seed: int) -> None:
    """25 random grammars per seed: left recursion, cycles, empty rules, literals of which one is a prefix of another.

    Each string of up to six letters over four is accepted exactly when naive accepts it (on unfolded rules), and alive exactly
    when it is viable; up to four letters, the words are those of a brute-force derivation that does not know the front end.
    """
    rng = random.Random(seed)
    compiler = cd.Compiler(VOCAB)
    sizes = []
    for _ in range(25):
        tree = random_bnf(rng)
        text = gbnf_of(tree, rng)
        naive = Naive(compile_bnf(text, "gbnf", fold=False))
        words = explore(compiler.compile(cd.Gbnf(text)), naive, 6)
        assert {w for w in words if len(w) <= 4} == words_of(tree, 4), text
        sizes.append(len(words))
    assert sum(size > 50 for size in sizes) >= 3


@pytest.mark.parametrize("seed", range(3))
def test_folding_changes_nothing(seed: int) -> None:
    """Masks with and without folding, along walks with rollbacks, are those of naive on the other's rules."""
    rng = random.Random(100 + seed)
    compiler = cd.Compiler(VOCAB)
    compared = 0
    for _ in range(12):
        text = gbnf_of(random_bnf(rng), rng)
        folded, plain = (compile_bnf(text, "gbnf", fold=fold) for fold in (True, False))
        compared += check_walk(compiler.compile_ir(folded), Naive(compile_bnf(text, "gbnf", fold=False)), rng, 12)
        compared += check_walk(compiler.compile_ir(plain), Naive(compile_bnf(text, "gbnf")), rng, 12)
    assert compared > 100


SPECIAL, END = VOCAB.special_tokens["<special>"], VOCAB.eos_token_ids[0]


@pytest.mark.parametrize(
    ("spec", "yes", "no"),
    [
        (
            cd.Gbnf("root ::= <special> [a-z]+ <special>"),
            [[SPECIAL, 97, 98, SPECIAL]],
            [[97], [SPECIAL, SPECIAL], [*b"<special>"]],
        ),
        (cd.Gbnf("root ::= <[97]> <[98]>?"), [[97], [97, 98]], [[98], [97, 97]]),
        (cd.Gbnf('root ::= !<special>* "!"'), [[97, 33], [33], [33, 33]], [[97, SPECIAL], [END]]),
        (cd.Gbnf("root ::= !<[97]>{2}"), [[98, SPECIAL], [SPECIAL, 98]], [[97], [98, 97], [98, END]]),
        (cd.Ebnf("root ::= Token(97, 98) ExcludeToken(97)"), [[97, 98], [98, SPECIAL]], [[97, 97], [99], [97, END]]),
        (
            cd.Ebnf('root ::= TokenTagDispatch((97, x), excludes=(98,))\nx ::= "!"'),
            [[], [99, 97, 33, SPECIAL]],
            [[98], [97, 99], [END]],
        ),
    ],
    ids=range(6),
)
def test_tokens(spec: cd.Spec, yes: list[list[int]], no: list[list[int]]) -> None:
    """Token references. What negates a set holds no end tokens: an output that ended there would be incomplete."""
    for ids, expected in [(ids, True) for ids in yes] + [(ids, False) for ids in no]:
        matcher = cd.Compiler(VOCAB).compile(spec).matcher(stop_token_ids=[SPECIAL - 1])
        assert (matcher.accept_tokens(ids) == len(ids) and matcher.is_accepting()) == expected, ids


def test_a_token_that_is_not_there() -> None:
    with pytest.raises(cd.GrammarError, match="the vocabulary has no token '<nope>'") as caught:
        cd.Compiler(VOCAB).compile(cd.Gbnf('root ::= "x" <nope>'))
    assert caught.value.location == "line 1, column 14"


@pytest.mark.parametrize(
    ("spec", "location"),
    [
        (cd.Gbnf('root ::= "x" | <[99999]>'), "line 1, column 16"),
        (cd.Gbnf('root ::= "x" !<[99999]>'), "line 1, column 14"),
        (cd.Ebnf('root ::= "x" ExcludeToken(1, 99999)'), "line 1, column 14"),
        (cd.Ebnf('root ::= TokenTagDispatch((1, r), (99999, r))\nr ::= "x"'), "line 1, column 43"),
        (cd.StructuralTag({"type": "structural_tag", "format": {"type": "token", "token": 99999}}), "/format"),
    ],
)
def test_a_token_id_that_is_not_there(spec: cd.Spec, location: str) -> None:
    """A token id outside the vocabulary is refused, as both peers do. Once it was an alternative that nothing matches, and
    its complement was all tokens.
    """
    with pytest.raises(cd.GrammarError, match=f"a token id outside the vocabulary: expected ids below {VOCAB.size}") as caught:
        cd.Compiler(VOCAB).compile(spec)
    assert caught.value.location == location
