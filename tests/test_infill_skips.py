"""Infilling beside the matcher, where texts begin, end and are cut inside skips, comments and keywords beside names.

Every answer, mask and completion is compared with all fillings (:mod:`exhaustive_infill`), on grammars of all lexing modes.
``CDPLUGIN_INFILL_SKIPS=20000 pytest tests/test_infill_skips.py`` tries that many problems.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections import Counter
from typing import Any

import pytest
from engine_tools import cases, members
from exhaustive_infill import GAP, SLOT, Element, Fillings
from naive import random_tokens
from naive_lexing import NaiveLexing
from test_infill_longest import KINDS, TooManyThreadsError, legal, random_longest

import cdplugin as cd
from cdplugin import expr
from cdplugin.infill.session import InfillSession
from cdplugin.ir import EXACT, LAZY, LONGEST, GrammarIR
from cdplugin.kernels import entry as engine
from cdplugin.kernels.infill import layout as ws

pytestmark = pytest.mark.kernel

N_SEEDS = 4


def problems_of_a_seed() -> int:
    """How many problems a seed tries."""
    return (int(os.environ.get("CDPLUGIN_INFILL_SKIPS", "0")) or cases(400, 8)) // N_SEEDS


GIVEN_UP, NONE_FOUND = "was not found out", "no legal text was found"
MASKS = 0.2  # of the problems

SPACE = "%ignore / +/\n"
COMMENT = "%ignore /#[^\\n]*\\n/\n"
COVER = "%ignore / +/\n%ignore /<[^>]*>/\n"
BLANKS = "%ignore /[ \\n]+/\n" + COMMENT

LARK: dict[str, tuple[str, bytes]] = {
    "words": ('start: A+\nA: "a"\n' + BLANKS, b"a# \n"),
    "one word": ('start: A\nA: "a"\n' + BLANKS, b"a# \n"),
    "open comments": ('start: A+\nA: "a"\n%ignore / /\n%ignore /#[a# ]*/\n', b"a# "),
    "names": ("start: N+\nN: /[ab]+/\n" + BLANKS, b"ab# \n"),
    "keywords": ('start: ("if" N ";" | N "=" N ";")+\nN: /[fi]+/ & ~IF\nIF: "if"\n' + SPACE, b"if=; "),
    "contextual keywords": ('start: ("i" N ";" | N "=" N ";")+\nN: /[fi]+/\n' + SPACE, b"if=; "),
    "keywords and comments": ('start: ("i" N | "f")+\nN: /[fi]+/ & ~("i" | "f")\n' + BLANKS, b"if# \n"),
    "signs": ('start: e\ne: ("-" | "--")* A "--"* ("-" e)?\nA: "a"\n' + SPACE, b"a- "),
    "signs, no skip": ('start: e\ne: ("-" | "--")* A "--"* ("-" e)?\nA: "a"\n', b"a-"),
    "charges": ('start: (A | "-" N | "[" A C? "]")+\nA: "a"\nN: /1/\nC: /-1?/\n', b"a-1[]"),
    "strings": ('start: (A | S)+\nA: "a"\nS: /"[^"\\n]*"/\n' + BLANKS, b'a"# \n'),
    "nested": ('start: "(" start* ")" | A\nA: /a+/\n' + BLANKS, b"a()# "),
    "between": ('start: A ("+" A)*\nA: /a/\n%ignore " "\n', b"a+ "),
    "numbers": ("start: (N | W)+\nN: /[0-1]+(\\.[0-1]+)?/\nW: /[a]+/ | /\\./\n" + SPACE, b"01a. "),
    "prefix": ('start: (X | Y | "ab" Z)+\nX: "a"\nY: "b"\nZ: "c"\n' + SPACE, b"abc "),
    "layout": ('start: (A E)+\nA: "a"\nE: /[\\n]+/\n%ignore / /\n%ignore /#[^\\n]*/\n', b"a# \n"),
    "fences": ('start: (T | A)+\nT: /[ab]+"/\nA: "a"\n%word /[ab]/ T\n', b'ab"'),
    "fences and skips": ('start: ("if" N | N ";" | S)+\nN: /[fi]+/ & ~"if"\nS: /"f*"/\n%word /[fi]/ S\n' + SPACE, b'if;" '),
    "covers": ('start: (A | S)+\nA: "a"\nS: /"[^"]*"/\n' + COVER, b'a"<> '),
    "covers beside signs": (
        'start: A ("/" A | "*" A)*\nA: /a+/\n%ignore / /\n%ignore /\\/\\*([^*]|\\*[^\\/])*\\*\\//\n',
        b"a/* ",
    ),
    "covers beside lexemes": ('start: (A | R)+\nA: "a"\nR: /<[ab]*;/\n%ignore /<[^>;]*>/\n', b"ab<>;"),
    "covers and fences": ('start: (T | A)+\nT: /[ab]+"/\nA: "a"\n%word /[ab]/ T\n' + COVER, b'ab"<>'),
    "no covers": ('start: (A | R)+\nA: "a"\nR: /<[^;]*;/\n%ignore /<[^>]*>/\n', b"a<>;"),
    "typed": ('start: (T N ";" | N ";")+\nT: "i" / +/\nN: /[ia]+/ & ~"i"\n' + SPACE, b"ia; "),
}


def block_comments(rng: random.Random) -> GrammarIR:
    """Words, strings that are LAZY, and LAZY comments as a skip."""
    ir = GrammarIR()
    ir.start = ir.nonterminal("start")
    comment = expr.cat(expr.literal(b"/*"), expr.repeat(expr.byte_class(b"a*/")), expr.literal(b"*/"))
    skip = ir.lexeme(comment, "C", lexing=rng.choice([LAZY, LONGEST]))
    some = rng.choice([None, skip])
    word = ir.lexeme(expr.repeat(expr.literal(b"a"), 1, None), "A", lexing=LONGEST, skip=skip)
    divide = ir.lexeme(expr.literal(b"/"), "D", lexing=rng.choice([LAZY, LONGEST, EXACT]), skip=None)
    times = ir.lexeme(expr.literal(b"*"), "T", lexing=LONGEST, skip=some)
    for right in ([word], [ir.start, divide, word], [ir.start, times, word]):
        ir.rule(ir.start, right)
    return ir


class Case:
    """A grammar with a small vocabulary."""

    def __init__(self, rng: random.Random) -> None:
        self.naive: NaiveLexing | None = None
        kind = rng.random()
        spec: Any = None
        if kind < 0.6:
            self.name = rng.choice(list(LARK))
            lark, self.alphabet = LARK[self.name]
            spec = cd.Lark(lark)
        elif kind < 0.7:
            self.name, self.alphabet, ir = "block comments", b"a*/", block_comments(rng)
        else:
            self.name = rng.choice(list(KINDS))
            self.alphabet = b"xy"
            ir = random_longest(rng, KINDS[self.name])
            while NaiveLexing(ir).empty:
                ir = random_longest(rng, KINDS[self.name])
        self.rules = LARK[self.name][0] if spec is not None else (ir.rules, ir.lexemes)
        if spec is None:
            self.naive = NaiveLexing(ir)
        words = {bytes([byte]) for byte in self.alphabet}
        words |= set(random_tokens(rng, self.alphabet, rng.choice([2, 4, 8]), 3))
        self.tokens = sorted(words)
        vocab = cd.Vocabulary.from_bytes([*self.tokens, b"</s>"], eos_token_ids=len(self.tokens))
        compiler = cd.Compiler(vocab)
        self.grammar = compiler.compile(spec) if spec is not None else compiler.compile_ir(ir)
        self.infill = cd.Infill(self.grammar)

    def word(self, rng: random.Random) -> bytes:
        """A text that is legal, or the beginning of one, or neither."""
        arena, cursor, text = self.grammar._arena, self.grammar._arena.start, b""
        for _ in range(rng.randint(0, 12)):
            try:
                steps = [(byte, arena.call(engine.OP_STEP, cursor, byte)) for byte in self.alphabet]
            except cd.LimitExceeded:
                break
            steps = [(byte, after) for byte, after in steps if after]
            if not steps:
                break
            byte, cursor = rng.choice(steps)
            text += bytes([byte])
        return text

    def problem(self, rng: random.Random) -> list[Element]:
        text = list(self.word(rng))
        if rng.random() < 0.2:
            text += self.word(rng)
        out: list[Element] = list(text)
        for _ in range(rng.choice([1, 1, 1, 2, 2, 3])):
            at = rng.randint(0, len(out))
            cut = rng.choice([0, 1, 2, 4])
            while any(not isinstance(e, int) for e in out[at : at + cut]):
                cut -= 1
            out[at : at + cut] = [GAP] if rng.random() < 0.6 else [SLOT] * rng.choice([1, 1, 2, 2, 3])
        return out

    def session(self, elements: list[Element]) -> InfillSession:
        return self.infill.new(
            cd.GAP if element == GAP else cd.Slots(1) if element == SLOT else bytes([element])  # type: ignore[list-item]
            for element in elements
        )

    def fits(self, elements: list[Element], text: bytes) -> bool:
        """Whether a text is one that the elements can become."""
        places = {0}
        for element in elements:
            if element == GAP:
                places = set(range(min(places), len(text) + 1)) if places else set()
            elif element == SLOT:
                places = {i + len(t) for i in places for t in self.tokens if text.startswith(t, i)}
            else:
                places = {i + 1 for i in places if text[i : i + 1] == bytes([element])}  # type: ignore[list-item]
        return len(text) in places

    def legal(self, text: bytes) -> bool:
        """Whether the matcher accepts a text, and, of a random grammar, brute-force lexing and parsing, too."""
        matcher = self.grammar.matcher()
        ids = [self.tokens.index(bytes([byte])) for byte in text]
        answer = matcher.accept_tokens(ids) == len(ids) and matcher.is_accepting()
        if self.naive is not None and len(text) <= 10:
            with contextlib.suppress(TooManyThreadsError):
                assert legal(self.naive, text) == answer, (self.rules, text)
        return answer


def check(case: Case, elements: list[Element], rng: random.Random, counts: Counter[str]) -> None:
    """Put a problem's answer, completions and, now and then, a mask to all fillings."""
    fillings = Fillings(case.grammar, elements, dict(enumerate(case.tokens)), case.alphabet)
    session = case.session(elements)
    where = (case.name, case.tokens, shown(elements), case.rules)
    counts["problems"] += 1
    try:
        answer = session.completable()
    except cd.LimitExceeded as error:
        if GIVEN_UP not in str(error):
            raise
        counts["given up, here alone" if fillings.answer is not None else "given up"] += 1
        return
    counts["accepted"] += answer
    if fillings.answer is None:  # too many cursors: nothing was found so far
        counts["unknown"] += 1
        counts["unknown, but accepted"] += answer
    else:
        assert answer == fillings.answer, where
    for generator in (None, random.Random(rng.random())) if answer else ():
        counts["completions"] += 1
        try:
            data = session.complete(generator).encode()
        except cd.LimitExceeded as error:  # each token of a slot takes longer to find out than a mask may
            if NONE_FOUND not in str(error):
                raise
            counts["completions given up"] += 1
            continue
        assert case.legal(data) and case.fits(elements, data), (*where, data)
    if session.open_places() and rng.random() < MASKS:
        check_mask(case, elements, session, fillings, rng.choice(session.open_places()), where)
        counts["masks"] += 1


def check_mask(
    case: Case, elements: list[Element], session: InfillSession, fillings: Fillings, place: int, where: tuple
) -> None:
    """A mask has the tokens after which some filling is legal, and these are what the session takes."""
    allowed, unknown = fillings.mask([i for i, element in enumerate(elements) if not isinstance(element, int)][place])
    found = members(session.mask(place))
    lacking = [case.tokens[t] for t in allowed - found] if session.undecided == 0 else []
    beyond = [case.tokens[t] for t in found - allowed - unknown]
    assert not lacking and not beyond, (*where, place, lacking, beyond)
    part = session._parts[session._places[place]]
    for token in range(len(case.tokens)) if session.undecided == 0 else ():
        taken = session.insert(place, token) if part.gap else session.set(place, token)
        if taken:
            session.undo()
        assert taken == (token in found), (*where, place, case.tokens[token], taken)


def shown(elements: list[Element]) -> str:
    return "".join(chr(e) if isinstance(e, int) else {GAP: "□", SLOT: "▪"}[e] for e in elements)


@pytest.mark.parametrize("seed", range(N_SEEDS))
def test_equal_to_all_fillings(seed: int) -> None:
    counts: Counter[str] = Counter()
    most = problems_of_a_seed()
    while counts["problems"] < most:
        rng = random.Random(f"{seed} {counts['cases']}")
        counts["cases"] += 1
        case = Case(rng)
        try:
            for _ in range(min(20, most)):
                check(case, case.problem(rng), rng, counts)
        except cd.LimitExceeded as error:  # a random grammar that is too ambiguous for the matcher
            if case.naive is None or "ambiguous" not in str(error):
                raise
            counts["too ambiguous"] += 1
    print(dict(counts))
    if counts["problems"] >= 100:
        assert counts["accepted"] > counts["problems"] // 4 and counts["unknown"] < counts["problems"] // 20, counts
        assert counts["given up, here alone"] < counts["problems"] // 20, counts
        assert counts["completions given up"] <= counts["completions"] // 200, counts


@pytest.mark.parametrize("pieces", [["a", GAP, "b\n"], [GAP, "b\n"], ["a ", GAP, " x\na"], ["a", SLOT, "b\n"], ["a#", GAP]])
def test_a_comment_swallows_the_rest(pieces: list[str]) -> None:
    """The filling must open, or end, a comment: a skip that the text ends with."""
    tokens = [bytes([b]) for b in b"a# \nbx"]
    vocab = cd.Vocabulary.from_bytes([*tokens, b"</s>"], eos_token_ids=len(tokens))
    infill = cd.Infill(cd.Compiler(vocab).compile(cd.Lark(LARK["words"][0])))
    session = infill.new(cd.GAP if p == GAP else cd.Slots(1) if p == SLOT else p for p in pieces)
    assert session.completable() and infill.accepts(session.complete().encode())


def test_a_skip_ends_the_text_that_no_lexeme_at_hand_has() -> None:
    """After ``y`` either more may come, or another lexeme with its skip, or the end: the skip may come before the end, too."""
    ir = GrammarIR()
    ir.start, first = ir.nonterminal("start"), ir.nonterminal("first")
    skip = ir.lexeme(expr.repeat(expr.byte_class(b"xy"), 1, None), "SKIP", lexing=LONGEST)
    more = ir.lexeme(expr.repeat(expr.literal(b"y")), "MORE", lexing=LONGEST)
    one = ir.lexeme(expr.literal(b"y"), "ONE", lexing=LONGEST, skip=skip)
    ir.rule(ir.start, [first, more])
    ir.rule(first, [more, one])
    vocab = cd.Vocabulary.from_bytes([b"x", b"y", b"</s>"], eos_token_ids=2)
    infill = cd.Infill(cd.Compiler(vocab).compile_ir(ir))
    assert infill.accepts(b"yx")
    for open_part in (cd.Slots(1), cd.GAP):
        session = infill.new(["y", open_part])
        assert members(session.mask(0)) == {0} and session.undecided == 0
        assert infill.accepts(session.complete().encode())


def test_many_comments_in_a_row() -> None:
    """Skips after skips are followed without recursion."""
    tokens = [bytes([b]) for b in b"a# \n"]
    vocab = cd.Vocabulary.from_bytes([*tokens, b"</s>"], eos_token_ids=len(tokens))
    infill = cd.Infill(cd.Compiler(vocab).compile(cd.Lark('start: A+\nA: "a"\n%ignore / +/\n%ignore /#[^\\n]*\\n/\n')))
    session = infill.new(["a", cd.GAP, "#\n" * cases(1500, 20)])
    assert infill.accepts(session.complete().encode())


def test_a_word_does_not_end_in_a_gap_before_what_its_fence_forbids() -> None:
    """After ``a"`` only a letter could begin what follows, before which the word does not end."""
    tokens = [bytes([b]) for b in b'ab" ']
    vocab = cd.Vocabulary.from_bytes([*tokens, b"</s>"], eos_token_ids=len(tokens))
    for ignored, found in (("", set()), ('\n%ignore " "', {3})):
        grammar = cd.Lark(f'start: T+\nT: /[ab]+"/\n%word /[ab]/ T{ignored}')
        infill = cd.Infill(cd.Compiler(vocab).compile(grammar))
        session = infill.new(['a"', cd.GAP, '"'])
        assert session.completable() == bool(found) and members(session.mask(0)) == found and session.undecided == 0
        assert not found or infill.accepts(session.complete().encode())


@pytest.mark.parametrize(
    ("text", "is_covered"),
    [(b"a b\n", True), (b"/* a", True), (b"*", True), (b"a*//", False), (b"a*/ /* b", False), (b"a\0", False), (b'"', True)],
)
def test_what_a_comment_covers(text: bytes, is_covered: bool) -> None:
    vocab = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"</s>"], eos_token_ids=256)
    grammar = (
        'start: (/[a-z]+/ | /"[^"]*"/ | "/" | "*")+\n%ignore /[ \\n]+/\n%ignore /\\/\\*([^*\\x00]|\\*+[^*\\/\\x00])*\\*+\\//'
    )
    infill = cd.Infill(cd.Compiler(vocab).compile(cd.Lark(grammar)))
    cover = infill._tables.separators.cover
    assert cover is not None and cover.takes(text) == is_covered


def test_gaps_that_a_comment_covers_are_checked_without_what_lies_between() -> None:
    """The lattice does not grow with the text between, unless that ends comments of both kinds."""
    vocab = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"</s>"], eos_token_ids=256)
    infill = cd.Infill(cd.Compiler(vocab).compile(cd.grammars.CPP))
    nodes = []
    for between in ("x(); y = f(x, 1);\n", "x(); y = f(x, 1);\n" * 9, "x(); /* y = */\n f(x, 1);\n" * 9):
        session = infill.new(["int f() { ", cd.GAP, between, cd.GAP, " return 0; }"])
        assert session.completable()
        nodes.append(int(infill._tables.workspace.header[ws.W_NODES]))
        assert infill.accepts(session.complete().encode())
    assert nodes[0] == nodes[1] < nodes[2] // 2
