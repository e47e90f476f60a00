"""Infilling beside brute force, on small random problems: spanning lexemes, several or empty gaps, exact numbers of tokens.

``CDPLUGIN_INFILL_PROBLEMS=20000 pytest tests/test_infill_fuzz.py`` runs that many problems.
"""

from __future__ import annotations

import os
import random

import pytest
from engine_tools import FRESH, cases, members, vocabulary
from naive import Naive, random_grammar, random_tokens
from naive_infill import Piece, fits, random_pieces, short_words

import cdplugin as cd
from cdplugin.infill import tables as infill_tables
from cdplugin.infill import workspace as infill_workspace
from cdplugin.infill.parts import Part
from cdplugin.infill.session import InfillSession
from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.jit import decorators as jit

pytestmark = pytest.mark.kernel

ALPHABET = b"xy"
N_SEEDS = 4


def problems_of_a_seed() -> int:
    """How many problems a seed tries."""
    return (int(os.environ.get("CDPLUGIN_INFILL_PROBLEMS", "0")) or cases(800, 8)) // N_SEEDS


def session_of(infill: cd.Infill, pieces: list[Piece]) -> InfillSession:
    return infill.new(p if isinstance(p, bytes) else cd.GAP if p[0] == "gap" else cd.Slots(p[1]) for p in pieces)


@pytest.mark.parametrize("seed", range(N_SEEDS))
def test_equal_to_brute_force(seed: int) -> None:
    """Completable: the completion is a word that fits. Not completable: no short word fits. Masks say what may come next."""
    rng = random.Random(seed)
    done = accepted = refused = 0
    most = problems_of_a_seed()
    while done < most:
        ir = random_grammar(rng, ALPHABET)
        tokens = random_tokens(rng, ALPHABET, 12, 4)
        vocab = vocabulary(tokens, all_bytes=False)
        texts = [t or b"" for t in vocab.tokens]
        spelt = bytes({byte for text in texts for byte in text})
        naive = Naive(ir, spellable=spelt)
        if naive.empty:
            continue
        infill = cd.Infill(cd.Compiler(vocab).compile_ir(ir))
        words, length = short_words(naive, spelt, 60)
        for _ in range(min(40, most)):
            pieces = random_pieces(rng, words, ALPHABET)
            session = session_of(infill, pieces)
            answer = session.completable()
            done += 1
            if not answer:
                refused += 1
                legal = [word for word in words if fits(word, pieces, texts)]
                assert not legal, (ir.rules, ir.lexemes, pieces, legal[:3], length)
                continue
            accepted += 1
            text = session.complete(rng if rng.random() < 0.3 else None)
            data = text.encode()
            assert naive.accepts(data), (ir.rules, ir.lexemes, pieces, text)
            assert fits(data, pieces, texts), (pieces, text)
            places = session.open_places()
            if places and rng.random() < 0.15:
                check_mask(session, infill, rng.choice(places))
    assert done < 100 or (accepted > done // 20 and refused > done // 20), (accepted, refused)


def check_mask(session: InfillSession, infill: cd.Infill, place: int) -> None:
    """A mask holds a token exactly if the text is completable after it."""
    allowed = members(session.mask(place))
    is_gap = session._parts[session._places[place]].gap
    for token in range(infill.vocab.size):
        changed = session.insert(place, token) if is_gap else session.set(place, token)
        assert changed == (token in allowed), (token, infill.vocab.tokens[token], session._parts, place)
        if changed:
            session.undo()


@pytest.mark.parametrize("switch", ["wide rows", "all dots alive"])
def test_fast_paths_change_nothing(switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of several words, in which facts are taken over from node to node; facts also where no prediction asks for them."""
    rng = random.Random(switch)
    done = 0
    while done < cases(160, 8):
        ir = random_grammar(rng, ALPHABET)
        if Naive(ir).empty:
            continue
        grammar = cd.Compiler(vocabulary(random_tokens(rng, ALPHABET, 12, 4)), FRESH).compile_ir(ir)
        words = [bytes(rng.choice(ALPHABET) for _ in range(rng.randint(0, 8))) for _ in range(20)]
        problems = [random_pieces(rng, words, ALPHABET) for _ in range(cases(20, 8, 20))]
        plain = [answers(cd.Infill(grammar), pieces) for pieces in problems]
        with monkeypatch.context() as patch:
            if switch == "wide rows":
                patch.setattr(infill_workspace, "_WIDTHS", (3, 8, 32))
            else:
                patch.setattr(infill_tables, "MOST_DOTS_ALIVE", 0)
            assert plain == [answers(cd.Infill(grammar), pieces) for pieces in problems], ir.rules
        done += len(problems)


def answers(infill: cd.Infill, pieces: list[Piece]) -> tuple[bool, list[set[int]]]:
    """Whether a problem is completable, and its masks."""
    session = session_of(infill, pieces)
    return session.completable(), [members(session.mask(place)) for place in session.open_places()[:2]]


@pytest.mark.parametrize("growth", ["twice as large", "by a fifth"])
@pytest.mark.parametrize("kind", ["random", "json", "arithmetic", *(["cpp"] if not jit.DISABLED else [])])  # cpp: minutes
def test_what_is_kept_of_the_last_text_changes_nothing(kind: str, growth: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two texts of one grammar are changed in turns: every answer is that of a workspace that knows of no text before. And
    something is kept. An operation may begin again wherever a table grows.
    """
    rng = random.Random(kind)
    if growth == "by a fifth":
        monkeypatch.setattr(infill_workspace, "_GROWTH", 1.2)
        small = {t: n if t in infill_workspace._HASHES else min(n, 64) for t, n in infill_workspace._INITIAL.items()}
        monkeypatch.setattr(infill_workspace, "_INITIAL", small)
    rounds = {"random": cases(200, 3), "json": cases(8, 1), "arithmetic": cases(40, 2), "cpp": cases(12, 1)}[kind]
    saved = 0
    for _ in range(rounds):
        infill, sessions = problems_of(kind, rng)
        header = infill._tables.workspace.header
        for _ in range(cases(40, 8)):
            session = rng.choice(sessions)
            before = int(header[ws.W_C_ELEMENTS] + header[ws.W_C_FACTS])
            change(session, infill, rng)
            answer, ends, useful = with_rests(session)
            between = int(header[ws.W_C_ELEMENTS] + header[ws.W_C_FACTS])
            infill._tables.workspace.forget_texts()
            expected, expected_ends, asked = with_rests(session)
            assert answer == expected, [part.spelt for part in session._parts]
            asked &= useful  # in a gap a plan also has facts of rules that are empty
            if kind == "cpp" and any(symbol not in expected_ends and found & asked for symbol, found in ends.items()):
                # kept, and not asked for: where all is asked for, they have to be the same
                more = ends_of_all(session, monkeypatch)
                expected_ends = {symbol: more.get(symbol, 0) for symbol in ends} | expected_ends
            for symbol in ends.keys() | expected_ends.keys():
                assert (ends.get(symbol, 0) ^ expected_ends.get(symbol, 0)) & asked == 0, [p.spelt for p in session._parts]
            saved += (int(header[ws.W_C_ELEMENTS] + header[ws.W_C_FACTS]) - between) > (between - before)
    assert saved > 0 or cases(1, 0) == 0  # a few changes may all be at the first element


@pytest.mark.parametrize("growth", [1.05, 1.2, 2.0])
def test_tables_that_grow_between_two_texts(growth: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node whose facts were cut off, and begun again since a table grew, has all of them. (Found where a block of 20 columns
    made tables grow at the second text: ``c:`` before the gap was called not completable.)
    """
    monkeypatch.setattr(infill_workspace, "_GROWTH", growth)
    rules = 'start: stmt+\nstmt: NAME _NEWLINE | NAME ":" _NEWLINE _INDENT stmt+ _DEDENT\nNAME: /[cd]/\n%ignore / +/\n'
    spec = cd.Lark(f'%indent {{"max_width": {cases(20, 9)}}}\n{rules}')
    answers_of = cd.Infill(cd.Compiler(vocabulary([])).compile(spec)).new([cd.GAP])._answers
    with answers_of.tables:
        for before in (b"", b"c", b"c:", b"c:\n", b"c:\n ", b"c:\n c", b"c:\n c:"):
            parts = [Part(before), Part(gap=True), Part(b"\n  c\n d")]
            assert answers_of.build(parts[not before :], answers_of.tables.loose) == 1, before


def problems_of(kind: str, rng: random.Random) -> tuple[cd.Infill, list[InfillSession]]:
    """An infilling grammar over bytes and some tokens, and two sessions."""
    tokens = (
        random_tokens(rng, ALPHABET, 12, 4) if kind == "random" else [b'": ', b'"a"', b"int ", b"; ", b"return", b", ", b"{}"]
    )
    compiler = cd.Compiler(vocabulary(tokens))
    if kind == "random":
        ir = random_grammar(rng, ALPHABET)
        while Naive(ir).empty:
            ir = random_grammar(rng, ALPHABET)
        words = [bytes(rng.choice(ALPHABET) for _ in range(rng.randint(0, 8))) for _ in range(20)]
        infill = cd.Infill(compiler.compile_ir(ir))
        return infill, [session_of(infill, random_pieces(rng, words, ALPHABET)) for _ in range(2)]
    if kind == "json":
        schema = {"properties": {"a": {"type": "string"}, "b": {"items": {"type": "integer"}}}, "required": ["a"]}
        infill = cd.Infill(compiler.compile(cd.JsonSchema({"type": "object", **schema})))
        return infill, [infill.canvas([-1] * cases(70, 12), -1), infill.new(['{"a": "', cd.GAP, '"', cd.Slots(3), cd.GAP, "}"])]
    if kind == "arithmetic":
        infill = cd.Infill(compiler.compile(cd.grammars.ARITHMETIC))
        return infill, [infill.canvas([-1] * rng.randint(4, 20), -1) for _ in range(2)]
    infill = cd.Infill(compiler.compile(cd.grammars.CPP))
    text = "int f(int x) {\n    int y = x + 1;\n    return y * (x - 2);\n}\n"
    return infill, [infill.new([text[:at], cd.GAP, text[at + 4 : 40], cd.GAP, text[44:]]) for at in (9, 22)]


def ends_of_all(session: InfillSession, monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """:func:`with_rests` of all nonterminals of C++, also of those that may not come there."""
    with monkeypatch.context() as patch:
        patch.setattr(infill_tables, "MOST_DOTS_ALIVE", 0)
        other = cd.Infill(cd.Compiler(session._infill.vocab).compile(cd.grammars.CPP))  # whose rules are its own
        found = with_rests(InfillSession(other, list(session._parts), list(session._places), padded=session._padded))
        assert not other._tables.workspace.header[ws.W_ALIVE]
    return found[1]


def change(session: InfillSession, infill: cd.Infill, rng: random.Random) -> None:
    """Set, insert, close or undo something, with whatever answer."""
    places = session.open_places()
    if session._history and (not places or rng.random() < 0.2):
        session.undo(rng.randint(1, len(session._history)))
    elif places:
        place = rng.choice(places)
        part = session._parts[session._places[place]]
        allowed = sorted(members(session.mask(place))) if rng.random() < 0.5 else range(infill.vocab.size)
        token = rng.choice(allowed) if allowed else 0
        if part.gap and rng.random() < 0.2:
            session.close(place)
        elif part.gap:
            session.insert(place, token)
        else:
            session.set(place, token)


def with_rests(session: InfillSession) -> tuple[int, dict[int, int], int]:
    """Whether a session's text can be completed; where the nonterminals may end that begin where the text does, as bit sets of
    nodes; and the nodes that have facts.

    (There may be kept facts that nobody asks for any more, and ends at which nothing is known are left out or not.)
    """
    work = session._tables.workspace
    with session._tables:
        answer = session._answers.build(session._parts)
    if session._answers.length(session._parts) is None:
        return answer, {}, 0
    width = int(work.header[ws.W_WIDTH])
    at = int(work.header[ws.W_FIRST]) * session._tables.n_nonterminals
    rows = work.tables[ws.DERIVED][at : at + session._tables.n_nonterminals]
    words = work.tables[ws.BITS]
    ends = {
        symbol: int.from_bytes(words[row : row + width].tobytes(), "little") for symbol, row in enumerate(rows.tolist()) if row
    }
    return answer, ends, int.from_bytes(work.tables[ws.USEFUL][:width].tobytes(), "little")
