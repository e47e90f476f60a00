"""Numbers of the engine at which it switches or gives up a strategy, and small values for them.

An answer must not depend on whether a schema has more than 40 names in any order, or a search looks at more than 512
places. A test's text seldom reaches such a number, so :func:`patched` makes some of them small. Numbers that say what is
matched (digits of a number, labels of a host name), what messages show, and how work or memory is counted, are not
thresholds.
"""

from __future__ import annotations

import contextlib
import pkgutil
import random
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

from cdplugin import frontends, infill, memory, queries, regex, specs
from cdplugin.frontends.json_schema import matching

for _package in (frontends, infill, queries, regex, specs):  # one that is imported later would have what was patched for good
    for _module in pkgutil.walk_packages(_package.__path__, _package.__name__ + "."):
        import_module(_module.name)

SPEED = "speed"
"""Crossed, an answer takes another way, and is the same."""
LIMIT = "limit"
"""Crossed, a documented limit may be raised; else the answer is the same."""
ENDING = "ending"
"""Crossed, an ending may be longer, a token that needs a long search may be missed under a budget, and it may be known of fewer
texts that they end soon; masks are the same."""
DOUBT = "doubt"
"""Of infilling: crossed, a question may be undecided."""
PLAN = "plan"
"""Of infilling: crossed, open slots are planned with fewer classes of tokens, so that a text may count as not completable until
fewer slots are open (``docs/infilling.md``)."""


class Threshold(NamedTuple):
    """``module.name`` is set to one of ``values``."""

    module: str
    name: str
    values: tuple[Any, ...]
    kind: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


def _of(module: str, kind: str, **values: Any) -> list[Threshold]:
    return [
        Threshold(f"cdplugin.{module}", name, some if isinstance(some, tuple) else (some,), kind)
        for name, some in values.items()
    ]


_SCHEMA = "frontends.json_schema."
FRONT = [
    *_of("frontends.keywords", SPEED, _MOST_TARGETS=(0, 1), _MOST_NODES=(0, 20)),
    *_of("frontends.free_text", SPEED, _MOST_COMPARED=(0, 10, 100)),
    *_of("frontends.regular", LIMIT, MOST_NODES=(1, 5, 20)),
    *_of("frontends.repeats", SPEED, CHAIN=(1, 2, 4)),
    *_of(_SCHEMA + "distinct_items", LIMIT, _MOST_COMPARED=(1, 3, 10, 40), _MOST_SEARCHED=(1, 5, 20)),
    *_of(_SCHEMA + "distinct_items", LIMIT, _MOST_PLACES=(1, 5, 20), _MOST_HELD=(1, 20), _ENTRIES=1),
    *_of(_SCHEMA + "distinct_items", SPEED, _MOST_SURE=(0, 1, 3)),
    *_of(_SCHEMA + "distinct_stacks", SPEED, _MOST_KNOWN=(0, 1, 4)),
    *_of(_SCHEMA + "members", SPEED, _MOST_COUNTED=(0, 5, 40), _MOST_TOLD_APART=(0, 1, 2), _MOST_KINDS=(0, 1, 2)),
    *_of(_SCHEMA + "members", LIMIT, _MOST_COVERED=(1, 2, 5)),
    *_of(_SCHEMA + "distinct", SPEED, _MOST_TOLD=(0, 5, 40)),
    *_of(_SCHEMA + "disjoint", LIMIT, _MOST_POSITIONS=(0, 1), _MOST_SEARCH=(0, 5, 50)),
    *_of(_SCHEMA + "unevaluated", LIMIT, MOST_BRANCHES=(0, 1, 2)),
    *_of(_SCHEMA + "sharing", SPEED, _FIRST_ATTEMPT=(1, 10**9), _WORK_PER_BYTE=0),
    *_of(_SCHEMA + "sharing", LIMIT, _OF_A_PLACE=(1, 1_000)),
    *_of(_SCHEMA + "multiples", LIMIT, MAX_CLASSES=(2, 10), _MAX_RESIDUES=(1, 20), _MOST_LISTED=(0, 3), _MOST_WANTED=(0, 10)),
    *_of(_SCHEMA + "multiples", LIMIT, _MOST_SEARCHED=(0, 100), _MAX_STATES=(1, 60)),
    *_of(_SCHEMA + "values", SPEED, _FEW=(0, 1, 100)),
    *_of(_SCHEMA + "names", LIMIT, MOST_PATTERNS=(0, 1, 2), _MOST_COMPARED=(0, 1, 2)),
    *_of(_SCHEMA + "source", SPEED, _MOST_WRITTEN=(0, 5), _MOST_ON_A_LEVEL=(0, 2)),
    *_of(_SCHEMA + "source", LIMIT, MOST_LISTED=(0, 5)),
    *_of(_SCHEMA + "reader", LIMIT, MOST_POINTER_BYTES=(0, 20, 200)),
    *_of(_SCHEMA + "usual", SPEED, MOST_POINTER_BYTES=(0, 20)),
    *_of(_SCHEMA + "negation", LIMIT, _MOST_POSITIONS=(0, 1)),
    *_of(_SCHEMA + "objects", LIMIT, _MOST_LISTED=(0, 1, 3), _MOST_MET=(0, 1, 2), _MOST_LOOSE=(0, 1, 2)),
    *_of(_SCHEMA + "any_order", SPEED, FEWEST=(0, 1, 2, 3), _PER_GROUP=(0, 1, 2), _MOST_KEPT=(0, 10), _EXACT=(0, 1, 2)),
    *_of(_SCHEMA + "arrays", LIMIT, _MOST_WANTED=(0, 1, 2), _MOST_COUNTED=(0, 1), _MOST_STATES=(1, 5)),
    *_of(_SCHEMA + "signs", LIMIT, _MOST_LISTED=(0, 1, 3)),
    *_of(_SCHEMA + "barren", SPEED, _MOST_LEFT=(0, 0.5, 1)),
    *_of(_SCHEMA + "shapes", LIMIT, _MAX_ALTERNATIVES=(3, 20, 100)),
    *_of(_SCHEMA + "compile", SPEED, _SHARED_AT_ONCE=(0, 10**9), _MOST_AT_FIRST=(0, 10**9)),
    *_of(_SCHEMA + "usual_reader", SPEED, _MOST_FOLLOWED=(0, 1), _MOST_UNIONS=(0, 1)),
    *_of("languages", LIMIT, FUEL=(1, 20, 200)),
    *_of("languages", SPEED, _MOST_VALUES=(0, 100)),
    *_of("frontends.lark.bounded", SPEED, _MOST_RULES=(0, 1, 4), _MOST_TEXTS=(0, 1, 4)),
    *_of("frontends.lark.corners", LIMIT, MOST_CORNERS=(1, 8, 40), _MOST_FOLLOWED=(0, 3)),
    *_of("frontends.lark.corners", SPEED, MOST_MEMBERS=(0, 3)),
    *_of("frontends.lark.definitions", LIMIT, _MOST_INSTANCES=(1, 5)),
    *_of("frontends.lark.draft", SPEED, _FEW_TEXTS=(0, 1, 3), _MOST_LEADING=(1, 2)),
    *_of("frontends.lark.indent", SPEED, _MOST_UNSURE=(1, 2)),
    *_of("frontends.lark.search", LIMIT, _FEW=(1, 3), _FARTHER=2, _AROUND=(1, 2)),
    *_of("frontends.lark.stops", LIMIT, _MOST_DEPTH=(0, 1)),
    *_of("frontends.lark.terminals", LIMIT, _MOST_NODES=(5, 30)),
    *_of("frontends.lark.write", LIMIT, _FUEL=(1, 10, 100), _MOST_FUEL=(1, 10, 100)),
    *_of("regex.lookahead", LIMIT, _MOST_COPIES=(0, 2), _MOST_STEPS=(0, 5, 50)),
    *_of("regex.references", LIMIT, _MOST_STEPS=(1, 5, 50), _MOST_TEXTS=(0, 1, 4), _MOST_CHARS=(0, 4)),
    *_of("memory", SPEED, _LONG=(0, 3), _LONG_BYTES=(0, 3)),
    *_of("bits", SPEED, _FEW_BITS=(0, 10**6)),
]
ENGINE = [
    *_of("engine.arena", SPEED, _MOST_ANSWER=(1, 100), _PADDED=1),
    *_of("engine.pages", SPEED, LARGE=1 << 12, _MOST_KEPT=0, _HUGE=1),
    *_of("engine.owned_tables", SPEED, _MANY_GROWTHS=0, _LISTED=(0, 1), _GROWTH_SMALL=1.1, _HUGE=1),
    *_of("engine.tracked", LIMIT, _MOST_LEVELS=(0, 1, 4), _MOST_STATES=(0, 3), _LEAST_STATES=(0, 3), _STATES_IN_ALL=(0, 10)),
    *_of("engine.shared_bases", SPEED, _RECENT=1, _TURN=1, _WORK=(1, 1000), _LEAST_KEPT=0),
]
QUERIES = [
    *_of("matcher.matcher", SPEED, _NEAR_STEPS=(0, 1, 3), _REPLAYED_IN_A_STEP=(1, 2)),
    *_of("matcher.endings", SPEED, _MOST_STOP_SETS=1),
    *_of("queries.measures", ENDING, _MOST_DERIVED=(0, 1, 5), _BESIDE=0),
    *_of("queries.costs", ENDING, _SLACK=0, _FEW_RULES=(0, 2, 10**6), _MOST_SWEEPS=(0, 1)),
    *_of(
        "queries.budgets", ENDING, SEARCH_GAP=(0, 1), SEARCH_WORK=(0, 50), MOST_PLACES=(1, 3), LOOKED_AT=(1, 5), PLACES_WORK=0
    ),
    *_of("queries.budgets", ENDING, _SOME=(1, 3), _MOST_WAYS=(0, 1), _MOST_CURSORS=(0, 2)),
    *_of("queries.profiles", ENDING, _SAMPLED=(1, 2)),
    *_of("queries.budgets", ENDING, _MOST_PROFILE_BYTES=(0, 2000), _MOST_AFTER_BYTES=0),
    *_of("queries.completion", ENDING, _MOST_KEPT=(0, 1, 3), _MANY_EDGES=(0, 1), _FIRST_EDGES=(1, 2), _MORE_EDGES=2),
    *_of("queries.completion", ENDING, _MOST_TEXT_BYTES=(0, 10), _SHORT_PART=(1, 1000), _SOUGHT_PART=(1, 1000)),
    *_of("queries.completion", ENDING, _GREED=((1, 8), (8,), (2, 1))),
    *_of("queries.growth", ENDING, _MOST_RULES=0, _MOST_CURSORS=(0, 2), GRANT=(1, 2000, 50_000), _MOST_SETS=1, _AT_ONCE=(1, 2)),
    *_of("queries.separators", ENDING, _MOST_PARTS=(0, 1), _MOST_LITERALS=(0, 1)),
    *_of("queries.words", ENDING, _LONGEST_WORD=(0, 2), _MOST_WORD_BYTES=(0, 10), _SPELT_AT_ONCE=1),
    *_of("queries.successors", SPEED, _FIRST_SLOTS=1),
]
AHEAD = [
    *_of(
        "ahead", SPEED, GRANT=(1, 500), FIRST_WORK=(1, 3_000), PLACE_WORK=(0, 1_000), MOST_WORK=(1, 10_000), FURTHER=(0, 1, 200)
    ),
    *_of("ahead", SPEED, FIRST_BYTES=(0, 1 << 12), PLACE_BYTES=0, _PART=(0, 1 << 40), _LARGE_TABLE=(0, 1 << 12)),
    *_of("ahead", SPEED, _TRIES=((1,), (2, 1, 1)), _NEAR=1, _FURTHER=(0, 1), _QUEUED=(0, 1)),
    *_of("queries.likely", SPEED, _LOOKED_AT=1, _WORDS=(0, 1), _NODES=(0, 1), _WORD_LENGTHS=((1,), (2, 1))),
    *_of("matcher.batch", SPEED, _FEW=(0, 1)),
]
INFILL = [
    *_of(
        "infill.parts",
        PLAN,
        MOST_PLANNED=(1, 20),
        MOST_COMPETING=(1, 20),
        MOST_CLASSES=(1, 5),
        _FEWEST_CLASSES=(2, 3),
        _NEAR=(0, 1),
    ),
    *_of("infill.parts", DOUBT, FEW_PLACES=(0, 1), MANY_PLACES=(0, 1, 2)),
    *_of("infill.search", DOUBT, MOST_SEARCH_STATES=(1, 5, 30), MOST_WORK=(1, 100), MOST_TOKENS=(1, 3)),
    *_of("infill.complete", DOUBT, MOST_DERIVATIONS=(0, 1)),
    *_of("infill.text_tree", SPEED, _MOST_FORGOTTEN=(0, 1)),
    *_of("infill.gap_texts", DOUBT, _MOST_TEXTS=(0, 1), _FEW_TEXTS=(0, 1), _MOST_ENDINGS=(0, 1), _FEW_ENDINGS=(0, 10**6)),
    *_of("infill.gap_texts", DOUBT, _ENDING_STEPS=10**5, _MOST_FAILURES=0, MOST_ELEMENTS=(1, 2), _MOST_BEHIND=(1, 2)),
    *_of("infill.gap_texts", DOUBT, _MOST_LENGTHENED=(0, 1), _MOST_POSITIONS=(0, 1), _MOST_JOINTS=(0, 1), _MOST_CLOSERS=(0, 1)),
    *_of("infill.gap_texts", SPEED, _MOST_KNOWN=(0, 3), _MOST_KNOWN_IN_ALL=(0, 8)),
    *_of(
        "infill.tables",
        SPEED,
        MOST_START_STATES=(0, 2),
        MOST_DOTS_CHAINED=(0, 5),
        _TOKENS_AT_ONCE=(1, 7),
        _FEWEST_OF_WORD=(1, 100),
    ),
    *_of("infill.session", SPEED, _MOST_BEGUN=(0, 1)),
    *_of("infill.tables", SPEED, MOST_DOTS_ALIVE=(0, 5), MOST_WORDS_ALIVE=(0, 5)),
    *_of("infill.steps", SPEED, _MOST_STEPS=(0, 5), _LONG_STEP=(0, 2), _MOST_TOKEN_SUCCESSORS=(0, 5)),
    *_of(
        "infill.slot_proofs",
        DOUBT,
        MOST_WORK=(1, 1000),
        STATES_OF_A_CLASS=(0, 1),
        _FEW_TOKENS=(0, 10**6),
        _FEW_STEPS=(0, 10**6),
    ),
    *_of(
        "infill.slot_proofs", DOUBT, _STATES_BEFORE=(0, 1), _STATES_TOGETHER=(0, 1), _MOST_TOGETHER=(0, 1), _MOST_ROUNDS=(0, 1)
    ),
    *_of("infill.slot_proofs", DOUBT, _NEAR=(0, 1), _NEAR_STATES=(0, 1), _MOST_CHANGED=(0, 1)),
    *_of("infill.slot_proofs", DOUBT, _MOST_BEFORE=(0, 1), _MOST_PROVEN_AT=(0, 1), _SAMPLE=(1, 2), _MOST_ALIKE=(0, 1)),
    *_of("infill.proofs", DOUBT, FEW_CLASSES=(0, 1, 10**6), MOST_TRIES=(0, 20), MOST_WORK_OF_MASK=(0, 100), _MOST_ASKED=(0, 1)),
    *_of(
        "infill.proofs", DOUBT, _MOST_ROUNDS=(0, 1), _FEW_WIDE_CLASSES=(0, 1), _MOST_OPENINGS=(0, 1), _FEW_TOKENS=(0, 3, 10**6)
    ),
    *_of("infill.proofs", DOUBT, _MOST_MISSES=(0, 1), _MOST_ASKED_AHEAD=(0, 1), _MOST_HEAD=(0, 1), _MOST_CURSORS=(0, 1)),
    *_of("infill.proofs", DOUBT, _MOST_VAIN=(0, 1)),
    *_of("infill.token_classes", SPEED, _MOST_KEPT=(1, 2)),
    *_of("infill.openings", DOUBT, _MOST_HEADS=(0, 1), _FEWEST_OPENINGS=(0, 1), _FEW_OPENINGS=(0, 1)),
    *_of("infill.together", DOUBT, _MOST_BYTES=(0, 1), _WORK=(0, 1000), _WORK_OF_A_TOKEN=(0, 10), FEW_TOGETHER=(0, 10**6)),
    *_of("infill.answers", SPEED, _FEW_DOTS=(0, 10**9)),
    *_of(
        "infill.answers",
        DOUBT,
        BRIEF=(2, 4),
        MOST_TRIES=(0, 5),
        MOST_TRIES_OF_SLOTS=(0, 5),
        MOST_STATES=(0, 3),
        FEW_STATES=(0, 3),
        _STATES_TOGETHER=(0, 3),
        _WORK_TOGETHER=(1, 1000),
    ),
    *_of("infill.characters", DOUBT, _MOST_DERIVED=(0, 3), _MOST_ROWS=1),
    *_of("infill.workspace", SPEED, _GROWTH=1.2, _SPARSE=1 << 14, _MOVED_AT_ONCE=1 << 9, _LEAST_GROWTH=10**6),
    *_of("infill.workspace", LIMIT, MOST_STATES=(3, 30)),
    *_of("infill.room", DOUBT, MOST_SETS=(0, 1, 5)),
    *_of("infill.beam", DOUBT, _MOST_OF_A_KIND=(0, 1)),
    *_of("infill.canvases", DOUBT, MOST_WORK=(1, 1000), FEW_WORK=(1, 1000), _LEFT_WORK=1000),
    *_of("infill.canvases", DOUBT, _MOST_GUIDES=(0, 1), _FEW_GUIDES=(0, 1), _MOST_ROUNDS=(0, 1)),
    *_of("infill.usual_tokens", DOUBT, _WALKS=0, _WALK_LENGTH=(0, 1)),
]


def _forget() -> None:
    """Drop what the process remembers, as other numbers made it."""
    memory._shared.clear()
    for cache, _ in memory._fixed:
        cache.cache_clear()
    matching._idle.clear()


def _homes(threshold: Threshold) -> list[Any]:
    """The modules that hold the number: its own, and those that import it by name."""
    owner = import_module(threshold.module)
    value = getattr(owner, threshold.name)
    if threshold.name.startswith("_"):
        return [owner]
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("cdplugin.")]
    return [owner, *(m for m in modules if m is not owner and vars(m).get(threshold.name) == value)]


@contextlib.contextmanager
def patched(values: dict[Threshold, Any]) -> Iterator[None]:
    """Run with these numbers, and with nothing remembered from others."""
    before = [(home, threshold.name, getattr(home, threshold.name)) for threshold in values for home in _homes(threshold)]
    _forget()
    try:
        for threshold, value in values.items():
            for home in _homes(threshold):
                setattr(home, threshold.name, value)
        yield
    finally:
        for home, name, value in before:
            setattr(home, name, value)
        _forget()


def some_of(rng: random.Random, thresholds: list[Threshold]) -> dict[Threshold, Any]:
    """One, a few or many thresholds, each with one of its values."""
    count = rng.choice([1, 2, 4, 8, 16, len(thresholds) // 2, len(thresholds)])
    return {each: rng.choice(each.values) for each in rng.sample(thresholds, min(count, len(thresholds)))}
