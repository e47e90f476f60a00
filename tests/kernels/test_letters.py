"""Subtrees of letters, digits and characters beyond ASCII in any order, taken whole: masks equal stepping each token."""

from __future__ import annotations

import random
from itertools import product

import pytest
from engine_tools import at_least, cases, compare_masks, describe, followed, mask, vocabulary

import cdplugin as cd

LETTERS = [bytes(text) for size in (1, 2, 3) for text in product(b"abzAZ07", repeat=size)]
BEYOND = ["é", "ü", "я", "ять", "日", "日本", "\U0001f600", "\u2027", "\u2028", "né", "a日b", "éa", "яA0"]
TOKENS = [*LETTERS, *(text.encode() for text in BEYOND), b"\xc3", b"\xa9", b"\xe6\x97", b"\xa5\xd1"]
TOKENS += [
    mark + text for mark in (b"-", b".", b"_", b"/", b" ") for text in (b"", b"a", b"abz", b"0", b"Az", b"aZ0a", "é".encode())
]
TOKENS += [b'"', b"\\", b'a"', b"\n", b"a-b", b"aa.a0", b"zzzzzzzz", b"azazazazAZ0", b"0707070707"]
VOCAB = vocabulary(list(dict.fromkeys(TOKENS)))
COMPILER = cd.Compiler(VOCAB)


def random_pattern(rng: random.Random) -> str:
    """Classes that are counted, in parts, with what ends them."""
    classes = [
        "[a-z]",
        "[A-Z0-9]",
        "[0-9a-zA-Z]",
        "[a-f0-7]",
        "[a-zA-Z0-9._-]",
        "[^/]",
        '[^-"]',
        "[a-z0-9é]",
        r"\w",
        "[^a]",
        "[0-9]",
    ]
    counts = ["+", "*", "{3}", "{2,7}", "{0,20}", "{1,63}", "{8}", "?"]

    def part() -> str:
        return rng.choice(classes) + rng.choice(counts)

    shape = rng.choice(["{}", "{}-{}", "{}({}[.-])*{}", "({}|{})/{}", "{}{}", "({}-)+{}"])
    return shape.format(*(part() for _ in range(3)))


@pytest.mark.parametrize("seed", range(6))
def test_masks_are_what_stepping_says(seed: int) -> None:
    rng = random.Random(seed)
    compared = 0
    for _ in range(cases(20, 3)):
        pattern = random_pattern(rng)
        in_lark = pattern.replace("[^/]", r"[^\/]").replace(")/", r")\/")
        spec = rng.choice(
            [
                cd.Regex(pattern),
                cd.JsonSchema({"type": "string", "pattern": f"^{pattern}$", "maxLength": rng.choice([9, 30])}),
                cd.Lark(f"start: A B?\nA: /{in_lark}/\nB: /[a-z]{{2,5}}[0-9]?/"),
            ]
        )
        try:
            grammar = COMPILER.compile(spec)
        except cd.GrammarError:
            continue
        compared += compare_masks(grammar, rng, cases(3, 2), cases(10, 6))
    assert compared > at_least(300, 5)


@pytest.mark.parametrize("members", ["a-z", "a-zé", "a-zéü", "^/", "^é", "a-zа-я", "a-z\u0080-\U0010ffff", "^\u2029"])
def test_characters_beyond_ascii(members: str) -> None:
    """Below a letter there are so many nodes that it is asked which kinds of bytes lead back."""
    words = [bytes(text) for size in (1, 2, 3) for text in product(b"abcdefghijklmnop", repeat=size)]
    texts = [
        "é",
        "ë",
        "éü",
        "éüa",
        "ü",
        "éa",
        "я",
        "ят",
        "яты",
        "ята",
        "\u2027",
        "\u2028",
        "\u2029a",
        "日",
        "日本",
        "日a本",
        "\U0001f600",
    ]
    beyond = [text.encode() for text in texts]
    vocab = vocabulary([*words, *(b"a" + text for text in beyond), *beyond, b"a/", "日/".encode()])
    matcher = cd.Compiler(vocab).compile(cd.Regex(f"[{members}]*!")).matcher()
    for text in (b"", b"a", b"bc"):
        assert matcher.accept_tokens(text) == len(text)  # the first tokens are the bytes
        allowed = mask(matcher)
        expected = followed(matcher)
        assert allowed == expected, describe(vocab, text, allowed, expected)


@pytest.mark.parametrize(("pattern", "longest"), [("[a-k]{0,9}!?", 4), ("[^/]*", 5), ("[a-k-]{3}", 3), ("[a-j]{0,9}", 4)])
def test_many_tokens_become_a_bitmask_on_the_way(pattern: str, longest: int) -> None:
    """16,104 words, more than a token list has room for at first: they are folded into a bitmask while the trie is walked."""
    words = [bytes(text) for size in (1, 2, 3, 4) for text in product(b"abcdefghijk", repeat=size)]
    marked = [word + mark for word in words[:1500] if word.startswith(b"a") for mark in (b"-", b"/")]
    tokens = [*words, *marked, b"-", b"/", b"!", b"ab!"]
    vocab = vocabulary(tokens)
    matcher = cd.Compiler(vocab).compile(cd.Regex(pattern)).matcher()
    allowed = mask(matcher)
    assert allowed == followed(matcher) | (allowed & set(vocab.eos_token_ids))
    assert max(len(vocab.tokens[t] or b"") for t in allowed) == longest


def test_many_tokens_behind_another_lexeme() -> None:
    """Below the ends of a lexeme a list stays one of ids, and grows."""
    words = [bytes(text) for size in (1, 2, 3, 4) for text in product(b"abcdefghijk", repeat=size)]
    vocab = vocabulary([b"-" + word + mark for word in words for mark in (b"", b"!")][: 2 * 9_000])
    matcher = cd.Compiler(vocab).compile(cd.Lark('start: "-" W\nW: /([a-j]|k[!a])*x?/')).matcher()
    allowed = mask(matcher)
    assert allowed == followed(matcher)
    assert len(allowed) > 8_192


def test_a_counted_class_is_not_walked_token_by_token() -> None:
    words = [bytes(text) for size in (1, 2, 3) for text in product(b"abcdefghijklmnop", repeat=size)]
    matcher = cd.Compiler(vocabulary([*words, b"-"])).compile(cd.Regex("[a-z]{1,63}(-[a-z]{1,63})*")).matcher()
    assert mask(matcher) >= {matcher.grammar.vocab.tokens.index(word) for word in words}
    assert matcher.grammar.counters()["nodes_walked"] < len(words) // 4
