"""Infilling masks, exhaustively, over the first 2,000 tokens of a real vocabulary.

A token must be in the mask of a place exactly if the text can be completed with the token there. (``perf/mask_samples.py``
samples the same over all 128,256 tokens.)
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from engine_tools import cases
from tokenizers_data import llama3

import cdplugin as cd
from cdplugin.bits import bit_members
from cdplugin.infill import answers
from cdplugin.infill.session import surely

TEXTS: dict[str, tuple[Any, list[str]]] = {
    "json": (
        cd.JsonSchema(
            {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "maxLength": 20},
                    "tags": {"type": "array", "items": {"enum": ["first", "last"]}},
                    "size": {"type": "integer", "minimum": -5},
                },
                "required": ["name", "size"],
            }
        ),
        [
            '{"name": "Ada Lovelace", "tags": ["first", "last"], "size": 36}',
            '{"name": "x\\u00e9", "size": -4, "more": [null, {}]}',
        ],
    ),
    "arithmetic": (cd.grammars.ARITHMETIC, ["(1 + 23) * 4 - 5 / (6 + 78)"]),
    "smiles": (cd.grammars.SMILES, ["CC(=O)Oc1ccccc1C(=O)O", "CC(C)Cc1ccc(cc1)[C@@H](C)C(=O)O"]),
    "cpp": (
        cd.grammars.CPP,
        ["int sum(int limit) {\n    for (int i = 0; i < limit; i++) { total += i * 2; }\n    return 0;\n}\n"],
    ),
}


@pytest.fixture(scope="module")
def vocab() -> cd.Vocabulary:
    tokens = [*cd.Vocabulary.from_tiktoken(llama3()).tokens[:2000], b"<end>"]
    return cd.Vocabulary.from_bytes(tokens, eos_token_ids=2000)


def problem(rng: random.Random, text: str) -> list[Any]:
    """A text with up to three spans cut out, each a gap or some slots."""
    cuts = sorted(rng.sample(range(len(text) + 1), 2 * rng.randint(1, 3)))
    pieces: list[Any] = [text[: cuts[0]]]
    for i in range(0, len(cuts), 2):
        pieces.append(cd.GAP if rng.random() < 0.5 else cd.Slots(rng.randint(1, 3)))
        pieces.append(text[cuts[i + 1] : cuts[i + 2] if i + 2 < len(cuts) else len(text)])
    return pieces


@pytest.mark.parametrize("name", TEXTS)
def test_every_token_of_a_mask_and_no_other(name: str, vocab: cd.Vocabulary) -> None:
    spec, texts = TEXTS[name]
    infill = cd.Infill(cd.Compiler(vocab).compile(spec))
    rng = random.Random(name)
    allowed = refused = undecided = 0
    for _ in range(cases(6 if name == "cpp" else 20, 1, 2)):
        pieces = problem(rng, rng.choice(texts))
        session = infill.new(pieces)
        while not session.completable():
            pieces = problem(rng, rng.choice(texts))
            session = infill.new(pieces)
        place = rng.choice(session.open_places())
        mask = np.unpackbits(session.mask(place).view(np.uint8), bitorder="little")[: vocab.size].astype(bool)
        if session.undecided:  # lexemes compete, and many tokens do
            undecided += 1
            continue
        other = infill.new(pieces)  # has seen no mask: every answer is looked for
        change = other.set if other._parts[other._places[place]].slot else other.insert
        for token in range(vocab.size):
            answer = change(place, token)
            if answer:
                other.undo()
            assert answer == mask[token], (pieces, place, vocab.tokens[token])
        allowed += int(mask.sum())
        refused += int((~mask).sum())
    # of C++, three slots are too many for a lattice with all 569 classes: what the matcher does not find stays open
    assert allowed > 0 and refused > 0 and undecided <= (2 if name == "cpp" else 1)


@pytest.mark.parametrize("name", ["smiles", "cpp"])
def test_only_tokens_in_doubt_are_asked_about(name: str, vocab: cd.Vocabulary) -> None:
    """Some tokens, few, many or one byte's, put to the loose lattice: those of its whole mask, and, by their first bytes, no
    fewer.
    """
    spec, texts = TEXTS[name]
    infill = cd.Infill(cd.Compiler(vocab).compile(spec))
    tables, rng = infill._tables, random.Random(name)
    texts_of = [token for token in range(vocab.size) if vocab.tokens[token] and token not in vocab.eos_token_ids]
    narrowed = 0
    for _ in range(cases(30, 1, 6)):
        session = infill.new(problem(rng, rng.choice(texts)))
        place = rng.choice(session.open_places())
        parts, hole, answers = session._parts, session._places[place], session._answers
        with session._asking():
            whole = set(answers.possible(parts, hole, np.array(texts_of), False).tolist())
            first = rng.choice([b"-", b"1", b"a", b"(", b" "])
            for chosen in (
                rng.sample(texts_of, 5),
                rng.sample(texts_of, 1500),
                [token for token in texts_of if vocab.tokens[token][:1] == first],  # type: ignore[index]
                [token for token in texts_of if token not in whole],
            ):
                found = set(answers.possible(parts, hole, np.array(chosen, np.int64), False).tolist())
                assert found == whole & set(chosen), (parts, place)
                if not tables.is_exact:
                    by_first = set(answers.possible(parts, hole, np.array(chosen, np.int64), False, True).tolist())
                    assert found <= by_first <= set(chosen), (parts, place)
                    narrowed += len(by_first) < len(chosen)
    assert tables.is_exact or narrowed


@pytest.mark.parametrize(
    "grammar",
    [
        'root ::= e\ne ::= t | t e | t "+" e\nt ::= [a-z]+ | [a-z] t | "(" e ")"',
        'root ::= s+\ns ::= [a-z ]+ | [a-z]* " " [a-z]* | "(" s+ ")"',
    ],
)
def test_lexemes_that_may_end_anywhere(grammar: str) -> None:
    """Tokens of n letters that lexemes split in 2**n ways: masks were given up, after seconds."""
    rng = random.Random(0)
    tokens = {bytes(rng.choices(b"abcxyz+() ", [6, 6, 6, 6, 6, 6, 1, 1, 1, 2], k=rng.randint(2, 40))) for _ in range(150)}
    tokens |= {b"abcdefgh" * 8, b"a" * 70, b"(" + b"x" * 60 + b")", b"ab" * 30 + b"+", b"c" * 50 + b"))"}
    vocab = cd.Vocabulary.from_bytes(
        [*(bytes([b]) for b in range(256)), *sorted(tokens), b"</s>"], eos_token_ids=256 + len(tokens)
    )
    infill = cd.Infill(cd.Compiler(vocab).compile(cd.Gbnf(grammar)))
    texts = [["(a", cd.GAP, "b)", cd.GAP], ["x", cd.GAP, ")"], ["(", cd.Slots(1), "b)"], ["(a", cd.Slots(1), cd.GAP, "c)"]]
    for pieces in texts:
        session = infill.new(pieces)
        assert session.completable()
        places = [i for i, piece in enumerate(pieces) if not isinstance(piece, str)]
        for place, at in enumerate(places):
            allowed = set(bit_members(session.mask(place)).tolist())
            for token in [*range(256, 256 + len(tokens)), *b"ax( )+,"]:
                after = [cd.GAP] if pieces[at] is cd.GAP else []
                with_it = infill.new([*pieces[:at], [token], *after, *pieces[at + 1 :]])
                assert with_it.completable() == (token in allowed), (pieces, place, vocab.tokens[token])


@pytest.mark.parametrize("name", ["arithmetic", "cpp"])
def test_one_token_of_a_class_decides_all(name: str, vocab: cd.Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lattice that is asked about one token of each class gives the mask that it gives when it is asked about all of them;
    where lexemes compete, it may know less of one than of another: of ``>>::`` than of ``<::`` behind ``i <``.
    """
    spec, texts = TEXTS[name]
    infill = cd.Infill(cd.Compiler(vocab).compile(spec))
    rng = random.Random(name)
    asked = []
    lay = answers.Answers.lay_for_mask

    def counted(self: answers.Answers, *arguments: Any) -> bool:
        asked.append(self)
        return lay(self, *arguments)

    monkeypatch.setattr(answers.Answers, "lay_for_mask", counted)
    n_tokens = 0
    for _ in range(cases(60, 1, 8)):
        session = infill.new(problem(rng, rng.choice(texts)))
        if infill._tables.is_exact or not surely(session.completable):
            continue
        masks = []
        for few in (0, 10**9):
            monkeypatch.setattr(answers, "_FEW_DOTS", few)
            other = infill.new([part.text or (cd.Slots(1) if part.slot else cd.GAP) for part in session._parts])
            masks.append(other.mask(0))
            if other.undecided:
                masks = []
                break
        if masks:
            assert (masks[0] == masks[1]).all(), session._parts
            n_tokens += len(bit_members(masks[0]))
    assert n_tokens
    assert asked


def test_a_class_of_which_the_lattice_knows_another_token() -> None:
    """Behind ``i <``, ``>>::`` and ``<::`` are of one class, and the lattice knows the second alone."""
    vocab = cd.Vocabulary.from_bytes([*(bytes([byte]) for byte in range(256)), b">>::", b"<::", b"</s>"], eos_token_ids=258)
    infill = cd.Infill(cd.Compiler(vocab).compile(cd.grammars.CPP))
    pieces = ["int f(int l) {\n    for (int i = 0; i <", cd.GAP, "l < 100) {\n        l += i * 2;\n    }\n    return l;\n}\n"]
    assert {256, 257} <= set(bit_members(infill.new(pieces).mask(0)).tolist())
