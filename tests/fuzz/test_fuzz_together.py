"""Everything that may be asked of a process, in turns, with small thresholds: work ahead, hosts, captures, two vocabularies.

First, walks are taken with the engine as it is. Then several grammars are asked about the places of these walks, in any
order and under other numbers (:mod:`fuzz.thresholds`): by matchers and as hosts do, while work ahead goes on and arenas are
replaced. Each answer must be that of the walk. A second vocabulary has the same texts under other ids, so its answers must
be those of the first.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from engine_tools import SLOW, check_walk, describe, mask, members
from engine_tools import vocabulary as with_tokens
from fuzz.test_fuzz_thresholds import END, TOKENS, compiled, endings, judge, spec_of, vocabulary, walk
from fuzz.thresholds import AHEAD, ENGINE, FRONT, LIMIT, QUERIES, Threshold, patched, some_of
from fuzz.turns import seeds
from naive import Naive, random_grammar, random_tokens
from test_partial_json import completed, same

import cdplugin as cd
from cdplugin.adapters.contexts import ContextMasks
from cdplugin.adapters.vllm.grammar import GrammarState
from cdplugin.ahead import Ahead

pytestmark = pytest.mark.skipif(SLOW, reason="the numbers are Python's")

Tokens = tuple[int, ...]
NUMBERS = [threshold for threshold in (*FRONT, *ENGINE, *QUERIES, *AHEAD) if threshold.kind != LIMIT]
TURNS = 60
_CAPTURING = [
    'start: item ("," item)* ";"?\nitem[capture]: /[ab]+/ | "[" item "]" | n\nn[capture="number"]: /[0-9]+/\n%ignore " "',
    'start: a b?\na[capture, suffix=";"]: /[^;]*/\nb[capture, stop=/[0-9]/]: /(.|\\n)*/',
    'start: x*\nx[capture]: "(" x ")" | "a" y | y\ny[capture, lazy]: /b+a?/\n',
    'start: "v:" v\nv[capture]: %json {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}',
]


class Place(NamedTuple):
    """What is said after some tokens: what may come, what must, and what was captured where a text may end."""

    allowed: set[int]
    forced: list[int]
    longest: list[int]
    captures: list[tuple[str, bytes]] | None


def said(matcher: cd.Matcher) -> Place:
    captures = matcher.all_captures() if matcher.is_accepting() else None
    return Place(mask(matcher), matcher.forced_tokens(limit=6), matcher.forced_tokens(True, limit=6), captures)


class Known(NamedTuple):
    """A grammar under other numbers, in one of the vocabularies, and what the engine as it is says at places of walks.

    ``number``: the id in this vocabulary of each token.
    """

    spec: cd.Spec
    usual: cd.Grammar
    grammar: cd.Grammar
    places: dict[Tokens, Place]
    number: list[int]

    def ids(self, tokens: Tokens | list[int]) -> list[int]:
        return [self.number[token] for token in tokens]

    def compare(self, tokens: Tokens, found: set[int], who: str) -> None:
        """Whether a mask is what it should be."""
        expected = set(self.ids([*self.places[tokens].allowed]))
        assert found == expected, (
            who,
            self.spec,
            describe(self.grammar.vocab, self.grammar.vocab.decode(self.ids(tokens)), found, expected),
        )

    def followers(self, tokens: Tokens) -> list[Tokens]:
        """The places one token on."""
        return [(*tokens, token) for token in range(END) if (*tokens, token) in self.places]


def places_of(grammar: cd.Grammar, rng: random.Random) -> dict[Tokens, Place]:
    """The places of some walks."""
    found = [place.tokens for _ in range(3) for place in walk(grammar, rng, rng.choice([5, 12, 20]))]
    out = {}
    for tokens in found:
        matcher = grammar.matcher()
        assert matcher.accept_tokens(tokens) == len(tokens)
        with contextlib.suppress(cd.LimitExceeded):
            out[tokens] = said(matcher)
    return {tokens: place for tokens, place in out.items() if not tokens or tokens[:-1] in out}


# --- who asks -----------------------------------------------------------------------------------------------------------------


def by_matcher(known: Known, rng: random.Random, visitor: Ahead) -> Iterator[None]:
    """Goes from place to place: back, on, by forks, to the end."""
    matcher, at = known.grammar.matcher(), ()
    while True:
        goal = rng.choice([*known.places])
        common = next((i for i, (a, b) in enumerate(zip(at, goal, strict=False)) if a != b), min(len(at), len(goal)))
        matcher.rollback(len(at) - common)
        rest = known.ids(goal[common:])
        assert matcher.validate_tokens(rest) == matcher.accept_tokens(rest) == len(rest)
        at = goal
        if rng.random() < 0.7:
            visitor.follow(matcher)
        expected, found = known.places[at], said(matcher)
        known.compare(at, found.allowed, "matcher")
        assert found.forced == known.ids(expected.forced) and found.longest == known.ids(expected.longest), (known.spec, at)
        assert found.captures == expected.captures, (known.spec, at)
        if isinstance(known.spec, cd.JsonSchema):
            text, strings = known.grammar.vocab.decode(matcher.tokens), rng.choice(["open", "closed"])
            assert same(matcher.partial(strings), completed(text, strings)), (known.spec, text)
        if expected.captures is not None:
            after = matcher.fork()
            assert after.accept_token(known.number[END]) and mask(after) == {known.number[END]} and after.is_terminated()
            assert after.all_captures() == expected.captures
            if isinstance(known.spec, cd.JsonSchema):
                assert same(after.partial(), json.loads(text))
        elif known.number[0] == 0 and rng.random() < 0.3:
            asked = []
            with contextlib.suppress(cd.EngineError, cd.LimitExceeded):  # where there is none, or it is far
                asked.extend(endings(matcher.fork(), rng))
            judge(known.usual, asked)
        matcher = matcher.fork() if rng.random() < 0.2 else matcher
        yield


def by_vllm(known: Known, rng: random.Random, visitor: Ahead) -> Iterator[None]:
    """A request of vLLM: drafts are looked at, tokens followed and taken back."""
    state, at = GrammarState(known.grammar.matcher(), ahead=visitor), ()
    state.meet_ahead()
    while True:
        known.compare(at, _written(lambda row: state.fill_bitmask(row, 0), known), "vLLM")
        goal = rng.choice([place for place in known.places if place[: len(at)] == at])
        drafts, wrong = known.ids(goal[len(at) :]), rng.randrange(END)
        if wrong not in known.places[goal].allowed:
            assert state.validate_tokens([*drafts, known.number[wrong]]) == drafts
            assert not state.accept_tokens("r", [*drafts, known.number[wrong]])
        assert state.validate_tokens([*drafts, -1]) == drafts and state.accept_tokens("r", drafts)
        back = rng.choice([0, 0, rng.randint(0, len(goal)), len(goal)])
        state.rollback(back)
        at = goal[: len(goal) - back]
        yield


def _written(write: Callable[[np.ndarray], object], known: Known) -> set[int]:
    row = np.zeros((1, (known.grammar.vocab.size + 31) // 32), np.int32)
    write(row)
    return members(row.tobytes())


def by_context(masks: Callable[[list[list[int]]], list[set[int]]], two: list[Known], rng: random.Random) -> Iterator[None]:
    """A host that shows all ids: two prompts with beams of each, which grow, change places and are cut back."""
    beams = rng.choice([1, 1, 2, 3])
    rows: list[Tokens] = [()] * (2 * beams)
    while True:
        for row, (at, found) in enumerate(
            zip(rows, masks([[7, *two[r // beams].ids(at)] for r, at in enumerate(rows)]), strict=True)
        ):
            two[row // beams].compare(at, found, "context")
        yield
        if rng.random() < 0.3:
            rows = [at for known in (0, 1) for at in rng.choices(rows[known * beams : (known + 1) * beams], k=beams)]
        further = [two[row // beams].followers(at) for row, at in enumerate(rows)]
        if all(further) and rng.random() < 0.85:
            rows = [rng.choice(places) for places in further]
        else:
            length = rng.randint(0, len(rows[0]))
            rows = [at[:length] for at in rows]


def contexts(two: list[Known], rng: random.Random) -> Iterator[None]:
    masks = ContextMasks([known.grammar for known in two])

    def ask(ids: list[list[int]]) -> list[set[int]]:
        bitmask, rows = masks.masks(np.array(ids))
        assert rows == [*range(len(ids))]
        return [members(row.tobytes()) for row in bitmask]

    return by_context(ask, two, rng)


def transformers(two: list[Known], rng: random.Random) -> Iterator[None]:
    torch = pytest.importorskip("torch")
    processors = pytest.importorskip("cdplugin.adapters.hf.processor")
    processor = processors.GrammarLogitsProcessor([known.grammar for known in two], ahead=0)

    def ask(ids: list[list[int]]) -> list[set[int]]:
        shown = torch.tensor(ids)
        if rng.random() < 0.6:  # what was sampled, or a draft that is not taken
            processor.lookahead(shown if rng.random() < 0.7 else torch.cat([shown, torch.full((len(ids), 1), 3)], 1), None)
        scores = processor(shown, torch.zeros(len(ids), two[0].grammar.vocab.size))
        return [set(torch.isfinite(row).nonzero().ravel().tolist()) for row in scores]

    return by_context(ask, two, rng)


# --- the comparison -----------------------------------------------------------------------------------------------------------


def _specs(rng: random.Random) -> list[cd.Spec]:
    return [cd.Lark(rng.choice(_CAPTURING)) if rng.random() < 0.25 else spec_of(rng) for _ in range(2)]


def compare(seed: int, values: dict[Threshold, Any] | None = None) -> bool:
    """False if a spec is refused. Otherwise ask about its places in turns."""
    rng = random.Random(seed)
    specs = _specs(rng)
    numbers = rng.choice([NUMBERS, [each for each in NUMBERS if each not in FRONT], AHEAD])
    values = some_of(rng, numbers) if values is None else values
    usual = [compiled(spec) for spec in specs]
    walked = [places_of(grammar, rng) for grammar in usual if isinstance(grammar, cd.Grammar)]
    if len(walked) < len(specs):
        return False
    number = [*range(END + 1)]
    shuffled = rng.sample(number, len(number))
    texts = [text for _, text in sorted(zip(shuffled, [*TOKENS, b"<end>"], strict=True))]
    with patched(values):
        other = cd.Vocabulary.from_bytes(texts, eos_token_ids=shuffled[END])
        askers: list[Iterator[None]] = []
        grammars: list[cd.Grammar] = []
        visitor = Ahead(0)
        for vocab, ids in ((vocabulary(), number), (other, shuffled)):
            compiler = cd.Compiler(vocab)
            two = [Known(*each, ids) for each in zip(specs, usual, map(compiler.compile, specs), walked, strict=True)]
            grammars += [known.grammar for known in two]
            askers += [contexts(two, rng), transformers(two, rng)]
            askers += [by(known, rng, visitor) for known in two for by in (by_matcher, by_vllm)]
        for _ in range(TURNS):
            next(rng.choice(askers))
            visitor.run(rng.choice([0, 1, 5_000, 1 << 40]))
            if rng.random() < 0.1:
                rng.choice(grammars)._arena.over_budget = True
        assert visitor.counters()["failed"] == 0
    return True


@pytest.mark.parametrize("seed", seeds(10))
def test_in_turns(seed: int) -> None:
    compare(seed)


@pytest.mark.parametrize("seed", seeds(10))
def test_small_grammars_in_two_vocabularies(seed: int) -> None:
    """Beside brute force, each step ahead or not."""
    rng = random.Random(seed)
    ir = random_grammar(rng)
    naive = Naive(ir)
    if naive.empty:
        return
    with patched(some_of(rng, [*ENGINE, *QUERIES, *AHEAD])):
        visitor = Ahead(0)
        grammars = [cd.Compiler(with_tokens(random_tokens(rng))).compile_ir(ir) for _ in range(2)]
        for _ in range(4):
            grammar = rng.choice(grammars)
            visitor.follow(grammar.matcher())
            visitor.run(rng.choice([0, 1, 1 << 40]))
            check_walk(grammar, naive, rng, 10)
        assert visitor.counters()["failed"] == 0
