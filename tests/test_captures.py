"""Captures beside derivations by brute force, groups of ``re`` and captures of llguidance; long and deep texts; limits."""

from __future__ import annotations

import json
import random
import re
from functools import lru_cache

import pytest
from engine_tools import at_least, cases, seeds, vocabulary
from naive import Naive, random_grammar, random_tokens
from naive_lexing import NaiveLexing
from test_lexing import random_lexing

import cdplugin as cd
from cdplugin import expr
from cdplugin.ir import EXACT, LAZY, LONGEST, GrammarIR
from cdplugin.queries import captures

VOCAB = vocabulary([b"ab", b'"}', b", "])
COMPILER = cd.Compiler(VOCAB)
Spans = tuple[tuple[int, int, int], ...]


def captured(grammar: str, text: str | list[int]) -> list[tuple[str, bytes]]:
    ids = list(text.encode()) if isinstance(text, str) else text
    matcher = COMPILER.compile(cd.Lark(grammar)).matcher()
    assert matcher.accept_tokens(ids) == len(ids)
    return matcher.all_captures()


# --- brute force --------------------------------------------------------------------------------------------------------------


class Derivations:
    """All derivations of a short text without cycles, each as its sorted spans ``(start, end, nonterminal)``, no empty ones."""

    def __init__(self, ir: GrammarIR, text: bytes, most: int = 3_000) -> None:
        self.rules: dict[int, list[tuple[int, ...]]] = {}
        for left, right in ir.rules:
            self.rules.setdefault(left, []).append(right)
        self.naive = Naive(ir)
        self.text = text
        self.left = most

    def of(self, symbol: int, i: int, j: int, above: frozenset[tuple[int, int, int]]) -> set[Spans]:
        if symbol < 0:
            left = self.naive.lexemes[~symbol]
            for byte in self.text[i:j]:
                left = self.naive.lexer.step(left, byte)
            return {()} if self.naive.lexer.nullable(left) else set()
        if (symbol, i, j) in above:
            return set()
        here = ((i, j, symbol),) if i < j else ()
        found = set()
        for right in self.rules.get(symbol, []):
            for parts in self.sequence(right, i, j, above | {(symbol, i, j)}):
                found.add(tuple(sorted(parts + here)))
        return found

    def sequence(self, right: tuple[int, ...], i: int, j: int, above: frozenset[tuple[int, int, int]]) -> set[Spans]:
        self.left -= 1
        if self.left < 0:
            raise OverflowError
        if not right:
            return {()} if i == j else set()
        out = set()
        for k in range(i, j + 1):
            for rest in self.sequence(right[1:], k, j, above) if len(right) > 1 or k == j else ():
                for first in self.of(right[0], i, k, above):
                    out.add(first + rest)
        return out


@pytest.mark.parametrize("seed", range(4))
def test_a_derivation_by_brute_force(seed: int) -> None:
    """With every nonterminal named, the captures are one of the derivations; if there is only one, they are that one."""
    rng = random.Random(seed)
    compared = 0
    for _ in range(cases(100, 10)):
        ir = random_grammar(rng)
        naive = Naive(ir)
        words = [w for w in _words(naive, 6) if w]
        if not words:
            continue
        ir.captures = {symbol: str(symbol) for symbol in range(len(ir.names))}
        grammar = cd.Compiler(vocabulary(random_tokens(rng))).compile_ir(ir)
        for word in rng.sample(words, min(3, len(words))):
            matcher = grammar.matcher()
            assert matcher.accept_tokens(_ids(matcher, word)) and matcher.is_accepting()
            try:
                derivations = Derivations(ir, word).of(ir.start, 0, len(word), frozenset())
            except (OverflowError, RecursionError):
                continue
            found = sorted((name, text) for name, text in matcher.all_captures() if text)
            shown = [sorted((str(s), word[i:j]) for i, j, s in spans) for spans in derivations]
            assert found in shown, (word, found, shown)
            compared += 1
    assert compared > at_least(60, 5)


def _words(naive: Naive, longest: int) -> list[bytes]:
    layer, out = [b""], []
    for _ in range(longest + 1):
        out += [word for word in layer if naive.accepts(word)]
        layer = [word + bytes([byte]) for word in layer for byte in b"xy" if naive.viable(word + bytes([byte]))][:60]
    return out


def _ids(matcher: cd.Matcher, word: bytes) -> list[int]:
    tokens = matcher.grammar.vocab.tokens
    return [tokens.index(bytes([byte])) for byte in word]


@pytest.mark.parametrize("kinds", [(LONGEST,), (LAZY,), (LONGEST, LONGEST, LAZY), (EXACT, LONGEST)], ids=str)
def test_other_lexing_parses(kinds: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the engine accepts is parsed, with the same lexing. The start symbol's capture is the whole text."""
    fallbacks = []
    original = captures.Lexing

    def lexing(*arguments: object, **options: object) -> object:
        fallbacks.append(bool(options))
        return original(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(captures, "Lexing", lexing)
    parsed = 0
    for seed in range(cases(100, 8)):
        rng = random.Random(seed)
        ir, tokens, terminals = random_lexing(rng, kinds)
        if NaiveLexing(ir, terminals).empty:
            continue
        vocab = vocabulary(tokens, all_bytes=False)
        ir.captures = {ir.start: "all"}
        matcher = cd.Compiler(vocab).compile_ir(ir).matcher()
        for _ in range(8):
            token = next((t for t in rng.sample(range(vocab.size), vocab.size) if matcher.accept_token(t)), None)
            if token is None or matcher.is_terminated():
                break
            if matcher.is_accepting():
                parsed += 1
                text = vocab.decode(matcher.tokens)
                whole = matcher.captures()["all"]
                assert text.endswith(whole) if not ir.skips else whole in text
    assert parsed > at_least(60, 5)
    assert sum(fallbacks) <= 0.02 * parsed, f"{sum(fallbacks)} of {parsed}"


# --- re and llguidance --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(20, 12))
def test_groups_of_re(seed: int) -> None:
    """A form with fields, read by ``re`` as well."""
    rng = random.Random(seed)
    word = lambda: "".join(rng.choice("abc") for _ in range(rng.randint(1, 4)))  # noqa: E731
    text = f"Name: {word()}; age: {rng.randrange(100)}; tags: {','.join(word() for _ in range(rng.randint(1, 4)))}."
    grammar = r"""
    start: "Name: " name "; age: " age "; tags: " tag ("," tag)* "."
    name[capture]: /[a-z]+/
    age[capture]: /[0-9]+/
    tag[capture]: /[a-z]+/
    """
    match = re.fullmatch(r"Name: (?P<name>[a-z]+); age: (?P<age>[0-9]+); tags: (?:(?P<tag>[a-z]+),?)+\.", text)
    assert match is not None
    matcher = COMPILER.compile(cd.Lark(grammar)).matcher()
    assert matcher.accept_tokens(text.encode()) == len(text)
    assert matcher.captures() == {name: value.encode() for name, value in match.groupdict().items()}
    tags = text.split("tags: ")[1][:-1].split(",")
    assert [value.decode() for name, value in matcher.all_captures() if name == "tag"] == tags


PEERS = {
    "suffix": ('start: a b\na[capture, suffix=";"]: /[^;]*/\nb[capture="last"]: /[a-z]+/', "x y;end"),
    "stop": ('start: a "!"\na[capture, stop=/[0-9]/]: /(.|\\n)*/', "text 7!"),
    "ignored": ('start: a b\na[capture]: /[a-z]+/\nb[capture]: /[0-9]+/ "!"\n%ignore / +/', "ab   12  !"),
    "nested": ('start: pair\npair[capture]: "(" key ")"\nkey[capture]: /[a-z]+/', "(ab)"),
    "list": ('start: item ("," item)*\nitem[capture]: /[a-z]+/', "ab,c,de"),
    "left": ('start: list\nlist[capture]: item | list "," item\nitem: /[a-z]+/', "ab,c,de"),
    "empty": ('start: a "x"\na[capture]: /[0-9]*/', "x"),
    "json": (
        'start: "value: " v\nv[capture]: %json {"type": "object", "properties": {"k": {"type": "integer"}}}',
        'value: {"k":1}',
    ),
    "empty inside empty": ('start: a "x"\na[capture]: b\nb[capture]: /[0-9]*/', "x"),
    "stop_capture": ('start: a "."\na[capture, suffix=/;+/, stop_capture="end"]: /[a-z]*/', "ab;."),
}


@pytest.mark.parametrize("name", PEERS)
def test_beside_llguidance(name: str) -> None:
    peers = pytest.importorskip("llguidance")
    grammar, text = PEERS[name]
    peer = peers.LLMatcher(_peer_tokenizer(), peers.LLMatcher.grammar_from_lark(grammar), log_level=0)
    assert not peer.is_error(), peer.get_error()
    assert peer.consume_tokens([*text.encode(), 256])  # only at the end token does it take note of the last lexeme
    theirs = dict(peer.get_captures())
    if name == "ignored":  # it keeps what is ignored before the rule's first lexeme
        theirs = {key: value.lstrip(b" ") for key, value in theirs.items()}
    assert dict(captured(grammar, text)) == theirs


class _Bytes:
    eos_token_id = 256
    bos_token_id = None
    tokens = (*(bytes([b]) for b in range(256)), b"<end>")
    special_token_ids = (256,)

    def __call__(self, text: bytes | str) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)


@lru_cache(maxsize=1)
def _peer_tokenizer() -> object:
    llguidance = pytest.importorskip("llguidance")
    return llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Bytes()), n_vocab=257, eos_token=256)


# --- what is documented -------------------------------------------------------------------------------------------------------


def test_earlier_parts_take_more() -> None:
    assert captured("start: a b\na[capture]: A\nb[capture]: A?\nA: /a+/", "aaa") == [("a", b"aaa"), ("b", b"")]
    ir = GrammarIR()
    run = expr.repeat(expr.literal(b"a"), 1)
    ir.start, left, right = ir.nonterminal("S"), ir.nonterminal("A"), ir.nonterminal("B")
    ir.rule(ir.start, [left, right])
    ir.rule(left, [ir.lexeme(run)])
    ir.rule(right, [ir.lexeme(run)])
    ir.captures = {left: "a", right: "b"}
    matcher = cd.Compiler(VOCAB).compile_ir(ir).matcher()
    assert matcher.accept_tokens(b"aaaaa") == 5 and matcher.captures() == {"a": b"aaaa", "b": b"a"}


@pytest.mark.parametrize(
    ("grammar", "text", "expected"),
    [
        ('start: x\nx[capture]: y\ny[capture]: "a"', "a", "y:a x:a"),
        ('start: l\nl[capture]: m\nm[capture]: "a" l | "b"', "ab", "m:b l:b m:ab l:ab"),
        ('start: "q" a b "x"\na: c\nb[capture]: c c\nc[capture]: ""', "qx", "c: c: c: b:"),
        ('start[capture]: x\nx[capture]: x | y\ny[capture]: ""', "", "y: x: start:"),
        ('start: l\nl[capture]: "a" l | e\ne[capture]: "b" | ""', "aa", "e: l: l:a l:aa"),
        ('start: x y?\nx[capture]: z\nz[capture]: /[ab]+/\ny[capture]: x\n%ignore " "', "a  b", "z:a x:a z:b x:b y:b"),
    ],
)
def test_inner_ones_come_first(grammar: str, text: str, expected: str) -> None:
    """Also where an outer rule has the same text, in chains of last parts and where all is empty."""
    assert [f"{name}:{found.decode()}" for name, found in captured(grammar, text)] == expected.split()


def test_special_tokens_have_no_bytes() -> None:
    special = VOCAB.special_tokens["<special>"]
    grammar = 'start: a b\na[capture]: /[a-z]*/ <special>\nb[capture]: <special> "b"'
    assert captured(grammar, [97, 97, special, special, 98]) == [("a", b"aa"), ("b", b"b")]


def test_the_end_token_is_no_text() -> None:
    matcher = COMPILER.compile(cd.Lark('start[capture]: "ab"')).matcher()
    assert matcher.accept_tokens([97, 98, VOCAB.eos_token_ids[0]]) == 3 and matcher.captures() == {"start": b"ab"}


def test_counted_tokens() -> None:
    """Where a lexeme ends depends on where tokens end."""
    grammar = "start: a b\na[capture, max_tokens=2]: /[a-z]+/\nb[capture]: /[a-z]*/"
    ab = VOCAB.tokens.index(b"ab")
    assert captured(grammar, [ab, ab, 97]) == [("a", b"abab"), ("b", b"a")]
    assert captured(grammar, [97, 98, 97]) == [("a", b"ab"), ("b", b"a")]


def test_members_of_families() -> None:
    grammar = (
        'start: v\nv[capture]: %json {"type": "array", "items": {"type": "integer"}, "minItems": 2, "contains": {"const": 7}}'
    )
    assert captured(grammar, "[1,7]") == [("v", b"[1,7]")]


def test_incomplete_and_nothing_named() -> None:
    matcher = COMPILER.compile(cd.Lark('start[capture]: "ab"')).matcher()
    assert matcher.accept_token(97)
    with pytest.raises(ValueError, match="captures: expected a complete text"):
        matcher.captures()
    assert captured('start: "a"', "a") == []


LONG = {
    "right recursion": ('start: list\nlist: item | item "," list\nitem[capture]: /[0-9]+/', lambda n: ",".join(["12"] * n)),
    "repetition": ('start: (item ";")*\nitem[capture]: /[0-9]+/', lambda n: "12;" * n),
    "depth": ('start: x\nx: "(" x ")" | item\nitem[capture]: /[0-9]+/', lambda n: "(" * n + "12" + ")" * n),
    "ignored": ("start: item*\nitem[capture]: /[0-9]+/\n%ignore / +/", lambda n: "12 " * n),
    "json": ("start: v\nv[capture]: %json {}", lambda n: json.dumps({"a": [{"b": None, "c": "text"}] * (n // 4)})),
}


@pytest.mark.parametrize("name", LONG)
def test_steps_grow_with_the_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the text takes twice the steps. A depth of thousands recurses nowhere."""
    grammar, text = LONG[name]
    made = []
    original = captures.Lexing

    def lexing(*arguments: object, **options: object) -> object:
        made.append(original(*arguments, **options))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(captures, "Lexing", lexing)
    for n in cases(1, 0) * [1_500, 3_000] or [150, 300]:
        assert captured(grammar, text(n))
    assert len(made) == 2
    assert made[1].steps <= 2.1 * made[0].steps  # type: ignore[attr-defined]


def test_a_limit_names_itself() -> None:
    compiler = cd.Compiler(VOCAB, cd.Limits(max_capture_steps=1_000))
    matcher = compiler.compile(cd.Lark("start: item*\nitem[capture]: /[0-9]+/\n%ignore / +/")).matcher()
    assert matcher.accept_tokens(b"1 " * 1_000) == 2_000
    with pytest.raises(cd.LimitExceeded, match="at most Limits.max_capture_steps = 1000"):
        matcher.captures()


@pytest.mark.parametrize(
    ("grammar", "n"), [('start[capture]: start start | "a" |', 120), ('start: e\ne[capture]: "a" e "a" | "a"', 301)]
)
def test_all_that_an_ambiguous_text_takes_is_counted(grammar: str, n: int) -> None:
    """Cubic and quadratic: what was looked at and known already was not counted, what was kept counted as little."""
    for most, is_enough in ((2_000_000, True), (200_000, False)):
        matcher = cd.Compiler(VOCAB, cd.Limits(max_capture_steps=most)).compile(cd.Lark(grammar)).matcher()
        assert matcher.accept_tokens([ord("a")] * n) == n
        if is_enough:
            assert matcher.captures()
        else:
            with pytest.raises(cd.LimitExceeded, match="at most Limits.max_capture_steps = 200000 steps"):
                matcher.captures()
