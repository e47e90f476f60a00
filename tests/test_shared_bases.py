"""Mask bases that grammars of one vocabulary take over from each other: the masks are the same, and found sooner."""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import json
import os
import pickle
import random
import string
import threading
import warnings

import numpy as np
import pytest
from engine_tools import DISABLED, at_least, cases, vocabulary
from shared_data import MASKBENCH, needs
from tokenizers_data import llama3

import cdplugin as cd
from cdplugin import expr
from cdplugin.engine import shared_bases
from cdplugin.engine.shared_bases import FOLDER_VARIABLE, SharedBases
from cdplugin.ir import EXACT, LAZY, LONGEST, GrammarIR
from cdplugin.kernels.masks import bases
from cdplugin.kernels.store import layout

NOTHING = cd.Limits(max_learned_bytes=1)


def _vocabulary(last: str = "zz") -> cd.Vocabulary:
    """Enough tokens for long walks: the bytes, three letters, two digits, and what JSON has between lexemes."""
    words = ["".join(letters) for letters in itertools.product(string.ascii_lowercase, repeat=3)]
    digits = ["".join(pair) for pair in itertools.product(string.digits, repeat=2)]
    joints = ['":', '": "', '", "', '"}', "}, ", '["', '"]', "12.", ".5", " tr", "ue", last]
    tokens = [bytes([b]) for b in range(256)] + [t.encode() for t in dict.fromkeys([*words, *digits, *joints])]
    return cd.Vocabulary.from_bytes([*tokens, b"</s>"], eos_token_ids=len(tokens))


@pytest.fixture(scope="module")
def vocab() -> cd.Vocabulary:
    return _vocabulary()


PATTERNS = ["^[a-z]{4,40}$", "^[a-z]+-[0-9]{2}$", "^(?:cat|dog)[a-f]*x?$", "^[^aeiou]{3,}$"]
VALUES: list[dict[str, object]] = [
    {"type": "string", "maxLength": 30},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "uuid"},
    {"type": "integer", "minimum": 3},
    {"type": "number"},
    {"enum": ["cart", "care", "dot"]},
    {"enum": ["cart", "cares", "dots"]},
    *({"type": "string", "pattern": pattern} for pattern in PATTERNS),
]


def _schemas(count: int, seed: int = 5) -> list[dict[str, object]]:
    """Objects whose names differ and whose values are often those of others."""
    rng = random.Random(seed)
    out = []
    for i in range(count):
        names = rng.sample(["name", "size", "kind", "code", "note", f"own{i}"], rng.randint(1, 4))
        values = rng.choices(VALUES, k=len(names))
        out.append({"type": "object", "properties": dict(zip(names, values, strict=True)), "required": names})
    return out


def _masks(grammar: cd.Grammar, seed: int, steps: int = 25) -> list[bytes]:
    """The masks along a random text; equal masks give the same text."""
    rng, matcher, out = random.Random(seed), grammar.matcher(), []
    bits = np.zeros((1, (grammar.vocab.size + 31) // 32), np.int32)
    for _ in range(steps):
        matcher.fill_next_token_bitmask(bits, 0)
        out.append(bits.tobytes())
        allowed = np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")).tolist()
        longer = [token for token in allowed if token >= 256]
        token = rng.choice(longer or allowed)
        if not matcher.accept_token(token) or matcher.is_terminated():
            break
    return out


def _lender(compiler: cd.Compiler) -> SharedBases:
    lender = compiler._base_arena().arena.lender
    assert lender is not None
    return lender


compiled = pytest.mark.skipif(DISABLED, reason="a vocabulary of 18,000 tokens, interpreted")


@pytest.mark.kernel
@compiled
def test_the_same_masks_with_and_without(vocab):
    learning, alone = cd.Compiler(vocab), cd.Compiler(vocab, NOTHING)
    assert alone._base_arena().arena.lender is None
    taken = 0
    for i, schema in enumerate(_schemas(40)):
        grammar = learning.compile(cd.JsonSchema(schema))
        assert _masks(grammar, i) == _masks(alone.compile(cd.JsonSchema(schema)), i), schema
        taken += grammar._arena.counters()["shared_bases"]
    assert taken > 20
    assert alone.compile(cd.JsonSchema(schema))._arena.counters()["shared_bases"] == 0


@pytest.mark.kernel
@compiled
def test_lexemes_that_end_keep_their_numbers(vocab):
    """Two lexemes are open in one state, and end at different places: which ends where is told by place, not by number."""
    learning, alone = cd.Compiler(vocab), cd.Compiler(vocab, NOTHING)
    words = ["[a-z]{2,9}", "[a-m]{3,12}", "[a-z]{4}x?"]
    for i, (left, right) in enumerate(itertools.permutations(words, 2)):
        # other lexemes before them, so that the numbers differ; what follows tells the two apart
        grammar = f'start: {"P " * (i % 3)}(A B | C D)\nP: "#"\nB: "!"\nD: "?"\nA: /{left}/\nC: /{right}/\n'
        spec: cd.Spec = cd.Lark(grammar)
        for seed in range(3):
            assert _masks(learning.compile(spec), seed) == _masks(alone.compile(spec), seed)
    for i, (left, right) in enumerate(itertools.permutations(words, 2)):
        spec = cd.Gbnf(f'root ::= {"[#] " * (i % 3)}(a "!" | c "?")\na ::= {_gbnf(left)}\nc ::= {_gbnf(right)}\n')
        for seed in range(3):
            assert _masks(learning.compile(spec), seed) == _masks(alone.compile(spec), seed)


def _gbnf(pattern: str) -> str:
    return pattern.replace("x?", " [x]?")


SOME, LETTER = expr.byte_class(b"abct"), expr.byte_range(97, 122)
WORDS = expr.literals([b"a", b"act", b"cat", b"tab"])
LEXED = [
    WORDS,
    expr.repeat(LETTER, 2, 9),
    expr.both(expr.repeat(LETTER, 1, 12), expr.complement(WORDS)),
    expr.alt(WORDS, expr.repeat(SOME, 4)),
    expr.cat(SOME, expr.repeat(LETTER, 0, 3), expr.optional(expr.literal(b"1"))),
    expr.cat(expr.repeat(SOME, 1), WORDS),
]


def _lexed(rng: random.Random, expressions: list[expr.Expr], kinds: list[str]) -> GrammarIR:
    """Some expressions side by side, each before a lexeme or before all, lexed in some ways; skips before those not EXACT."""
    ir = GrammarIR()
    ir.start = ir.nonterminal("S")
    skip = ir.lexeme(expr.repeat(expr.literal(b"1"), 1), lexing=LONGEST) if rng.random() < 0.3 else None
    ways = [rng.choice(kinds) for _ in expressions]
    lexemes = [ir.lexeme(e, lexing=way, skip=None if way == EXACT else skip) for e, way in zip(expressions, ways, strict=True)]
    for lexeme in lexemes:
        ir.rule(ir.start, [lexeme, rng.choice([*lexemes, ir.start])])
    ir.rule(ir.start, [rng.choice(lexemes)])
    return ir


@pytest.mark.kernel
@pytest.mark.parametrize("seed", range(3))
def test_a_lexeme_of_one_grammar_is_lexed_otherwise_in_another(seed, monkeypatch):
    """The same expressions, EXACT in some grammars and LONGEST or LAZY in others, in any order: EXACT ones only are shared."""
    monkeypatch.setattr(bases, "LEAST_NODES", 1)  # heeded where kernels are interpreted
    rng, taken = random.Random(seed), 0
    vocab = vocabulary(bytes(one) for n in range(2, 4 if DISABLED else 6) for one in itertools.product(b"abct1", repeat=n))
    learning = cd.Compiler(vocab)
    for i in range(cases(30, 3)):
        expressions = rng.sample(LEXED, rng.choice([1, 2, 3]))
        others = [[LONGEST], [LAZY], [EXACT, LONGEST], [EXACT, LONGEST, LAZY]]
        for kinds in rng.sample([[EXACT], [EXACT], [EXACT], *others], 7):
            ir = _lexed(rng, expressions, kinds)
            grammar = learning.compile_ir(ir)
            assert _masks(grammar, i, 6) == _masks(cd.Compiler(vocab, NOTHING).compile_ir(ir), i, 6), (kinds, ir.rules)
            taken += grammar._arena.counters()["shared_bases"]
    assert taken > at_least(100, 2), taken


@pytest.mark.kernel
@compiled
def test_a_full_store_begins_anew(vocab, monkeypatch):
    small, alone = cd.Compiler(vocab, cd.Limits(max_learned_bytes=1 << 20)), cd.Compiler(vocab, NOTHING)
    monkeypatch.setitem(shared_bases._SHARES, layout.TOKEN_LISTS, 0.1)
    lender = _lender(small)
    grammars = []
    for i, schema in enumerate(_schemas(60, seed=8) * 2):
        own = {"type": "string", "pattern": f"^[a-z]{{2,{i % 9 + 3}}}$"}
        schema = {"type": "object", "properties": {"own": own, "all": schema}, "required": ["own", "all"]}
        grammar = small.compile(cd.JsonSchema(schema))
        assert _masks(grammar, i) == _masks(alone.compile(cd.JsonSchema(schema)), i)
        grammars.append((schema, grammar))
    assert lender.n_resets > 0
    assert lender.store.nbytes < 1 << 20
    for i, (schema, grammar) in enumerate(grammars[:10]):  # those that read what was given up read it still
        assert _masks(grammar, i + 500) == _masks(alone.compile(cd.JsonSchema(schema)), i + 500)


@pytest.mark.kernel
@pytest.mark.skipif(not DISABLED, reason="a constant of a kernel is changed")
def test_short_walks_are_learned_as_well(monkeypatch):
    monkeypatch.setattr(bases, "LEAST_NODES", 1)
    tokens = [*(bytes([b]) for b in range(256)), b"ca", b"car", b'":', b'"}', b"12", b"-0", b'a"', b'x"}', b"</s>"]
    few = cd.Vocabulary.from_bytes(tokens, eos_token_ids=len(tokens) - 1)
    learning, alone = cd.Compiler(few), cd.Compiler(few, NOTHING)
    taken = 0
    for i, schema in enumerate(_schemas(6)):
        grammar = learning.compile(cd.JsonSchema(schema))
        assert _masks(grammar, i, 12) == _masks(alone.compile(cd.JsonSchema(schema)), i, 12)
        taken += grammar._arena.counters()["shared_bases"]
    assert taken > 5


def _learned(vocab: cd.Vocabulary, count: int = 30) -> cd.Compiler:
    compiler = cd.Compiler(vocab)
    for i, schema in enumerate(_schemas(count)):
        _masks(compiler.compile(cd.JsonSchema(schema)), i)
    return compiler


def test_a_file_of_what_was_learned(vocab, tmp_path):
    path = tmp_path / "learned.npz"
    n_bases = _learned(vocab).save_learned(path)
    assert n_bases > 5
    assert [p.name for p in tmp_path.iterdir()] == ["learned.npz"]
    alone = cd.Compiler(vocab, NOTHING)
    fresh = cd.Compiler(vocab, cd.Limits(max_rules=399_999))  # a base arena of its own
    assert fresh.load_learned(path) == n_bases
    taken = 0
    for i, schema in enumerate(_schemas(12, seed=99)):
        grammar = fresh.compile(cd.JsonSchema(schema))
        assert _masks(grammar, i) == _masks(alone.compile(cd.JsonSchema(schema)), i)
        taken += grammar._arena.counters()["shared_bases"]
    assert taken > 0
    assert fresh.save_learned(path) >= n_bases
    (tmp_path / "folder").mkdir()
    assert fresh.save_learned(tmp_path / "folder") == fresh.load_learned(tmp_path / "folder") >= n_bases
    assert alone.save_learned(path) == alone.load_learned(path) == 0


def test_files_of_others_and_damaged_ones(vocab, tmp_path):
    path = tmp_path / "learned.npz"
    compiler = _learned(vocab)
    n_bases = compiler.save_learned(path)
    assert cd.Compiler(_vocabulary("yy")).load_learned(path) == 0
    whole = path.read_bytes()
    one_array = io.BytesIO()
    np.save(one_array, np.arange(3))
    place = whole.index(b"PK\1\2")  # of a name in the archive's list, the version that reads it, its flags, how it is packed
    packed = [whole[: place + at] + bytes([value]) + whole[place + at + 1 :] for at, value in ((6, 99), (8, 1), (10, 99))]
    for damaged in (
        whole[:-30],
        b"",
        b"no file",
        whole[:2000] + b"\0\1\2\3" + whole[2004:],
        one_array.getvalue(),
        pickle.dumps(3),
        *packed,
    ):
        path.write_bytes(damaged)
        with pytest.raises(cd.CdpluginError, match="expected a file that save_learned wrote, found another"):
            compiler.load_learned(path)
    path.write_bytes(whole)
    arrays = dict(np.load(path))
    tokens = str(layout.TOKEN_LISTS)
    arrays[tokens] = arrays[tokens] ^ 1  # a whole file with other content
    np.savez_compressed(path, **arrays)
    with pytest.raises(cd.CdpluginError, match="damaged"):
        compiler.load_learned(path)
    with pytest.raises(FileNotFoundError):
        compiler.load_learned(tmp_path / "nowhere.npz")
    assert _lender(compiler).store.n_bases == n_bases


def test_files_that_are_written_at_once(vocab, tmp_path, monkeypatch):
    """By two threads, or by the first processes of two containers, which have one number: each file is whole."""
    path = tmp_path / "learned.npz"
    compiler = _learned(vocab)
    write = np.savez_compressed

    def write_after_another(file, **arrays):
        monkeypatch.setattr(np, "savez_compressed", write)
        assert compiler.save_learned(path) == compiler.load_learned(path) > 5
        write(file, **arrays)

    monkeypatch.setattr(np, "savez_compressed", write_after_another)
    assert compiler.save_learned(path) == compiler.load_learned(path) > 5
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_written_while_bases_are_learned(vocab, tmp_path, monkeypatch):
    """What is added after the file was begun is not in it: neither numbers of bases that it lacks, which would name others to
    whoever loads it, nor what comes between its hash and its content, which would damage it.
    """
    monkeypatch.setattr(shared_bases, "_TURN", 1)
    path, schemas = tmp_path / "learned.npz", _schemas(60)
    compiler = cd.Compiler(vocab, cd.Limits(max_rules=399_993))
    lender = _lender(compiler)

    def learn(some: list[dict[str, object]]) -> None:
        for i, schema in enumerate(some):
            _masks(compiler.compile(cd.JsonSchema(schema)), i)
        lender.harvest()

    def write_behind_others(file, **arrays):
        learn(schemas[20:30])
        write(file, **arrays)

    write = np.savez_compressed
    monkeypatch.setattr(np, "savez_compressed", write_behind_others)
    learn(schemas[:8])
    with monkeypatch.context() as patch:  # as if another thread were adding bases
        patch.setattr(shared_bases.Store, "publish", lambda store: None)
        learn(schemas[8:20])
        n_bases = lender.save(path)
    assert 0 < n_bases < lender.store.n_bases
    alone, fresh = cd.Compiler(vocab, NOTHING), cd.Compiler(vocab, cd.Limits(max_rules=399_992))
    assert fresh.load_learned(path) == n_bases
    for i, schema in enumerate(schemas[30:] + schemas[:30]):
        assert _masks(fresh.compile(cd.JsonSchema(schema)), i) == _masks(alone.compile(cd.JsonSchema(schema)), i), schema


def test_the_folder_in_the_environment(vocab, tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "learned"))
    monkeypatch.setattr(shared_bases, "_LEAST_KEPT", 4)
    compiler = cd.Compiler(vocab, cd.Limits(max_rules=399_998))
    for i, schema in enumerate(_schemas(30)):
        _masks(compiler.compile(cd.JsonSchema(schema)), i)
    for thread in threading.enumerate():
        if thread.name == "cdplugin-learned":
            thread.join()
    (file,) = (tmp_path / "learned").iterdir()
    again = cd.Compiler(vocab, cd.Limits(max_rules=399_997))
    assert _lender(again).store.n_bases >= 4
    file.write_bytes(b"damaged")
    with pytest.warns(RuntimeWarning, match="left out"):
        broken = _lender(cd.Compiler(vocab, cd.Limits(max_rules=399_996)))
    assert broken.store.n_bases == 0
    monkeypatch.setenv(FOLDER_VARIABLE, "/proc/nowhere")
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        unwritable = cd.Compiler(vocab, cd.Limits(max_rules=399_995))
        for i, schema in enumerate(_schemas(30)):
            _masks(unwritable.compile(cd.JsonSchema(schema)), i)


def test_threads_read_while_one_learns(vocab):
    alone, learning = cd.Compiler(vocab, NOTHING), cd.Compiler(vocab, cd.Limits(max_rules=399_994))
    schemas = _schemas(24, seed=3)
    expected = [_masks(alone.compile(cd.JsonSchema(schema)), i) for i, schema in enumerate(schemas)]
    failures: list[int] = []
    grammars: list[cd.Grammar] = []

    def run(first: int) -> None:
        for i in [*range(first, len(schemas)), *range(first)]:
            grammars.append(learning.compile_ir(cd.JsonSchema(schemas[i]).rules(learning.limits)))
            if _masks(grammars[-1], i) != expected[i]:
                failures.append(i)

    threads = [threading.Thread(target=run, args=(6 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert _lender(learning).store.n_bases >= 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_of_a_process_that_was_learning(vocab):
    compiler = _learned(vocab)
    lender = _lender(compiler)
    before = lender.store
    with lender._lock:  # as if another thread were adding bases
        lender.after_fork()
    assert lender.store is before  # what was published may be read
    lender.harvest()
    assert lender.store is not before and lender.store.n_bases == 0
    assert _masks(compiler.compile(cd.JsonSchema(_schemas(1, seed=4)[0])), 0)


def test_nobody_is_hurt_by_another_grammar(vocab, monkeypatch):
    """What one grammar's limits forbid, or an exception has broken, is left out, and looked at only once."""
    compiler, schemas = cd.Compiler(vocab), _schemas(12, seed=6)
    grammars = [compiler.compile(cd.JsonSchema(schema)) for schema in schemas[:6]]
    lender = _lender(compiler)
    lender.harvest()
    for i, grammar in enumerate(grammars):
        _masks(grammar, i)
    grammars[-1]._arena.abandon()
    monkeypatch.setattr(shared_bases, "_WORK", 1)
    lender._n_harvests = shared_bases._TURN - 1  # all of them are looked at
    n_bases = lender.store.n_bases
    compiler.compile(cd.JsonSchema(schemas[6]))
    assert lender.store.n_bases == n_bases
    walked = [grammar for grammar in grammars[:-1] if grammar._arena.header[layout.C_UNSHARED]]
    assert walked and all(grammar._arena.n_learned == grammar._arena.header[layout.C_UNSHARED] for grammar in walked)
    for i, grammar in enumerate(grammars):
        assert _masks(grammar, i) == _masks(cd.Compiler(vocab, NOTHING).compile(cd.JsonSchema(schemas[i])), i)


@needs(MASKBENCH)
def test_schemas_of_maskbench_with_and_without() -> None:
    """The mechanism on and off: the same masks along the instances, and bases are taken over."""
    encoding = llama3().model
    vocab = cd.Vocabulary.from_tiktoken(llama3())
    learning, alone = cd.Compiler(vocab), cd.Compiler(vocab, NOTHING)
    with gzip.open(MASKBENCH, "rt") as lines:
        rows = [json.loads(line) for line in itertools.islice(lines, 0, None, 5555 // cases(500, 8, 40))]
    bits = np.zeros((1, (vocab.size + 31) // 32), np.int32)
    taken = 0
    for row in rows:
        text = json.dumps(row["tests"][0]["data"] if row["tests"] else {}, ensure_ascii=False)
        tokens = encoding.encode(text, allowed_special=set(), disallowed_special=())
        found = []
        for compiler in (learning, alone):
            try:
                grammar = compiler.compile(cd.JsonSchema(row["schema"]))
            except cd.CdpluginError as error:
                found.append(str(error))
                continue
            matcher, digest = grammar.matcher(), hashlib.sha256()
            try:
                for token in tokens[:120]:
                    matcher.fill_next_token_bitmask(bits, 0)
                    digest.update(bits.tobytes())
                    if not matcher.accept_token(token):
                        break
            except cd.LimitExceeded as error:
                digest.update(str(error).encode())
            found.append(digest.hexdigest())
            taken += grammar._arena.counters()["shared_bases"]
        assert found[0] == found[1], row["id"]
    assert taken > at_least(300, 8)
