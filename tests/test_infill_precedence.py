"""Operators by precedence, with operands of many bytes: what the matcher accepts is completable, whole or with gaps.

If an operand may end at many places, rows keep what follows it; if at few, the rules of one symbol are followed at once
(:mod:`cdplugin.kernels.infill.chains`). Both meet where an operator follows a long operand.
"""

from __future__ import annotations

import random

import pytest
from engine_tools import ALL_BYTES, cases

import cdplugin as cd
from cdplugin import expr
from cdplugin.ir import GrammarIR

VOCAB = cd.Vocabulary.from_bytes([*ALL_BYTES, b"</s>"], eos_token_ids=256)
OPERATORS = ("+-", "*/", "^", "=<", "&", "|")
SUMS = """root ::= root [-+] p | p
p ::= p [*/] a | a
a ::= [0-9]+ | "(" root ")" | "x"
"""


def infill_of(grammar: str) -> cd.Infill:
    return cd.Infill(cd.Compiler(VOCAB).compile(cd.Gbnf(grammar)))


@pytest.mark.parametrize("text", ["1-9999/x", "1-99999/9", "x-9999/x-x", "x-(9)+1311/x+1", "1-999/x", "9999*9999/x-1"])
def test_an_operator_behind_a_long_number(text: str) -> None:
    infill = infill_of(SUMS)
    assert infill.accepts(text.encode())
    assert infill.new([text]).completable()


@pytest.mark.parametrize("word", [b"9999/", None], ids=["one text", "any number"])
def test_an_operand_of_few_ends_beside_one_of_many(word: bytes | None) -> None:
    """``9999/`` is an operand, and so is ``9999``: what the chain of the first gave is added to what the second gives."""
    ir = GrammarIR()
    ir.start, product, operand = map(ir.nonterminal, ("SUM", "PRODUCT", "OPERAND"))
    digits = expr.repeat(expr.byte_class(b"0123456789"), 1)
    few = ir.lexeme(expr.cat(digits, expr.literal(b"/")) if word is None else expr.literal(word))
    many, minus, over = map(ir.lexeme, (digits, expr.literal(b"-"), expr.literal(b"/")))
    for left, shapes in {
        ir.start: [[ir.start, minus, product], [product]],
        product: [[product, over, operand], [operand]],
        operand: [[few], [many]],
    }.items():
        for right in shapes:
            ir.rule(left, right)
    infill = cd.Infill(cd.Compiler(VOCAB).compile_ir(ir))
    for text in (b"1-9999/", b"1-9999//1", b"99-99/9/9999/", b"1-1/9999/"):
        assert infill.accepts(text)
        assert infill.new([text]).completable(), text


def test_a_slot_takes_what_its_mask_has() -> None:
    tokens = [b"(", b")", b"*", b"+", b"-", b"/", b"0", b"1", b"3", b"9", b"x", b"+1", b"311/x"]
    vocab = cd.Vocabulary.from_bytes([*tokens, b"</s>"], eos_token_ids=len(tokens))
    session = cd.Infill(cd.Compiler(vocab).compile(cd.Gbnf(SUMS))).new(["x-(9)+1", cd.Slots(1), "+1"])
    row = int(session.mask(0)[0])
    for token in range(len(tokens)):
        assert session.set(0, token) == bool(row >> token & 1), tokens[token]
        if row >> token & 1:
            session.undo()


class Language:
    """A random grammar of up to four levels of operators, and texts of it."""

    _OTHERS = ('"\\"" [a-z]* "\\""', '"[" (root ("," root)*)? "]"', '[a-c]+ "(" root? ")"', "[a-f]+", '"s" [0-9]+ "e"?')

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.operators = rng.sample(OPERATORS, rng.randint(1, 4))
        self.others = rng.sample(range(5), rng.randint(0, 3))
        names = ["root", *(f"level{i}" for i in range(1, len(self.operators))), "atom"]
        lines = []
        for own, above, signs in zip(names, names[1:], self.operators, strict=False):
            sign = "[" + signs.replace("^", "\\x5E").replace("-", "\\-") + "]"
            shapes = [f"{own} {sign} {above} | {above}"] * 3
            shapes += [f"{above} {sign} {own} | {above}", f"{above} ({sign} {above})*", f"{sign} {own} | {above}"]
            lines.append(f"{own} ::= {rng.choice(shapes)}")
        lines.append("atom ::= " + " | ".join(['[0-9]+ | "(" root ")" | "x"', *(self._OTHERS[i] for i in self.others)]))
        self.grammar = "\n".join(lines)

    def text(self, depth: int = 2) -> str:
        """A text, mostly a legal one."""
        parts = [self._atom(depth)]
        for _ in range(self.rng.choice([0, 1, 1, 2, 3])):
            parts += [self.rng.choice(self.rng.choice(self.operators)), self._atom(depth)]
        return "".join(parts)

    def _atom(self, depth: int) -> str:
        rng = self.rng
        inner = self.text(depth - 1) if depth else "7777"
        letters = "abcabcabc"[: rng.randint(1, 9)]
        number = str(rng.randrange(10 ** rng.choice([1, 1, 2, 4, 9])))
        others = [f'"{letters}"', f"[{inner},{inner}]", f"{letters}({inner})", letters, f"s{number}e"]
        return rng.choice([number, f"({inner})", "x", *(others[i] for i in self.others)])


@pytest.mark.parametrize("seed", range(cases(60, 6, 12)))
def test_what_is_accepted_is_completable(seed: int) -> None:
    rng = random.Random(seed)
    language = Language(rng)
    infill = infill_of(language.grammar)
    for _ in range(60):
        text = language.text()[:500]
        if rng.random() < 0.3:
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice("19x()+*/a,[") + text[at + rng.randrange(2) :]
        is_legal = infill.accepts(text.encode())
        assert infill.new([text]).completable() == is_legal, (text, language.grammar)
        if is_legal and len(text) > 4:
            first, second, third, last = sorted(rng.sample(range(len(text) + 1), 4))
            session = infill.new([text[:first], cd.GAP, text[second:third], cd.GAP, text[last:]])
            assert session.completable(), (text, language.grammar)
