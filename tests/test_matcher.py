"""What a decoding loop relies on: accept, validate, rollback, fork, stop tokens, the end, all kinds of bitmasks, messages.

The model of :func:`check_against_model` is a list of tokens and the brute-force reference. Nothing else decides what is
right.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from engine_tools import cases, mask, mask_bits, members, vocabulary
from naive import Naive

import cdplugin as cd
from cdplugin.ir import GrammarIR

VOCAB = vocabulary([b"ab", b"abc", b"b!", b"ba", "é".encode(), b"12", b"a", b'"a', b"]"])
A, B, C = b"abc"
END = VOCAB.size - 1
SPECIAL, EMPTY, ABSENT = END - 1, END - 2, END - 3
WORDS = (VOCAB.size + 31) // 32
COMPILER = cd.Compiler(VOCAB)


def regex(pattern: str) -> cd.Grammar:
    return COMPILER.compile(cd.Regex(pattern))


def token(text: bytes) -> int:
    return VOCAB.tokens.index(text)


# --- a model: a list of tokens, and naive -------------------------------------------------------------------------------------


class Model:
    """What a matcher with these stop tokens has to do, by brute force."""

    def __init__(self, ir: GrammarIR, stops: tuple[int, ...]) -> None:
        self.naive, self.stops = Naive(ir), stops
        self.memo: dict[tuple[int, ...], set[int]] = {}

    def ended(self, tokens: tuple[int, ...]) -> bool:
        return bool(tokens) and tokens[-1] in self.stops

    def accepting(self, tokens: tuple[int, ...]) -> bool:
        return self.ended(tokens) or self.naive.accepts(VOCAB.decode(tokens))

    def allowed(self, tokens: tuple[int, ...]) -> set[int]:
        """The tokens that accept_token takes."""
        if self.ended(tokens):
            return set()
        if tokens not in self.memo:
            text = VOCAB.decode(tokens)
            out = self.naive.allowed_tokens(text, VOCAB.tokens) - set(self.stops)
            self.memo[tokens] = out | set(self.stops) if self.naive.accepts(text) else out
        return self.memo[tokens]

    def mask(self, tokens: tuple[int, ...]) -> set[int]:
        return set(self.stops) if self.ended(tokens) else self.allowed(tokens)

    def leading(self, tokens: tuple[int, ...], ids: list[int]) -> int:
        count = 0
        while count < len(ids) and ids[count] in self.allowed(tokens + tuple(ids[:count])):
            count += 1
        return count


def check_against_model(matcher: cd.Matcher, model: Model, rng: random.Random, steps: int) -> int:
    """Make random calls, and compare each with the model. Returns how often the text ended."""
    tokens: tuple[int, ...] = ()
    forks: list[tuple[cd.Matcher, tuple[int, ...]]] = []
    ended = 0
    for _ in range(steps):
        allowed = sorted(model.allowed(tokens))
        some = [rng.choice(allowed) if allowed and rng.random() < 0.8 else rng.randrange(VOCAB.size) for _ in range(3)]
        action = rng.random()
        if action < 0.35:
            good = some[0] in model.allowed(tokens)
            assert matcher.accept_token(some[0]) is good
            tokens += (some[0],) if good else ()
        elif action < 0.5:
            assert matcher.validate_tokens(some) == model.leading(tokens, some)
        elif action < 0.65:
            count = model.leading(tokens, some)
            assert matcher.accept_tokens(iter(some)) == count
            tokens += tuple(some[:count])
        elif action < 0.8:
            n = rng.randint(0, len(tokens))
            matcher.rollback(n)
            tokens = tokens[: len(tokens) - n]
        elif action < 0.84:
            matcher.reset()
            tokens = ()
        elif action < 0.92:
            forks.append((matcher.fork(), tokens))
        elif forks:  # go on with the fork, and leave this one
            forks.append((matcher, tokens))
            matcher, tokens = forks.pop(rng.randrange(len(forks)))
        assert matcher.tokens == tokens
        assert matcher.is_terminated() == model.ended(tokens)
        assert matcher.is_accepting() == model.accepting(tokens)
        assert mask(matcher) == model.mask(tokens), VOCAB.decode(tokens)
        ended += bool(matcher.is_terminated())
    for fork, expected in forks:  # forks stayed where they were
        assert fork.tokens == expected and mask(fork) == model.mask(expected)
    return ended


SPECS: list[cd.Spec] = [
    cd.Regex("(ab|a)*!?"),
    cd.Regex("[a-c]{2,4}(12)?"),
    cd.Choice(["a", "ab", "abc!", "é", "éa"]),
    cd.JsonSchema({"type": "array", "items": {"enum": ["a", "ab", 12]}}, whitespace="compact"),
    cd.Regex("é{0,2}(ba)*"),
]


@pytest.mark.kernel
@pytest.mark.parametrize("stops", [None, (END, A), (token(b"ab"), SPECIAL), (ABSENT,), (), (31, 255, END)])
@pytest.mark.parametrize("number", range(len(SPECS)))
def test_random_calls_against_a_model(number: int, stops: tuple[int, ...] | None) -> None:
    """Stop tokens: the vocabulary's, text tokens, special and absent ids, none, several."""
    if not cases(1, 0) and number > 1:
        pytest.skip("two grammars are enough where kernels are slow")
    model = Model(SPECS[number].to_ir(cd.Limits()), VOCAB.eos_token_ids if stops is None else stops)
    matcher = COMPILER.compile(SPECS[number]).matcher(stops)
    assert matcher.stop_token_ids == model.stops
    ended = check_against_model(matcher, model, random.Random(number), cases(200, 40))
    assert ended or not stops or not cases(1, 0)


# --- accepting and refusing ---------------------------------------------------------------------------------------------------


def test_a_refused_token_changes_nothing() -> None:
    matcher = regex("ab!").matcher()
    assert matcher.accept_token(A)
    before = mask_bits(matcher)
    for refused in (C, token(b"abc"), EMPTY, SPECIAL, ABSENT, END):
        assert matcher.accept_token(refused) is False
        assert matcher.tokens == (A,) and mask_bits(matcher) == before and not matcher.is_accepting()
    assert matcher.accept_tokens([B, C, ord("!")]) == 1
    assert matcher.tokens == (A, B)
    assert matcher.accept_token(ord("!")) and matcher.is_accepting() and not matcher.is_terminated()


def test_a_token_that_goes_wrong_in_its_middle_changes_nothing() -> None:
    matcher = regex("ab?").matcher()
    assert matcher.accept_token(token(b"abc")) is False
    assert matcher.tokens == () and mask(matcher) == {A, token(b"ab"), VOCAB.tokens.index(b"a", 256)}


def test_ids_with_equal_bytes_are_both_allowed() -> None:
    first, second = A, VOCAB.tokens.index(b"a", 256)
    matcher = regex("a").matcher()
    assert {first, second} <= mask(matcher)
    assert matcher.fork().accept_token(first) and matcher.fork().accept_token(second)


def test_validate_tokens_stays_where_it_is() -> None:
    matcher = regex("(ab)*").matcher()
    assert matcher.accept_tokens([A, B]) == 2
    before = mask_bits(matcher)
    assert matcher.validate_tokens([A, B, A, A]) == 3
    assert (
        matcher.validate_tokens([END]) == 1
        and matcher.validate_tokens([END, A]) == 1
        and matcher.validate_tokens([END, END]) == 1
    )
    assert matcher.validate_tokens([]) == 0 and matcher.validate_tokens(iter([B])) == 0
    assert matcher.validate_tokens(np.array([A, B], np.int32)) == 2
    assert matcher.tokens == (A, B) and mask_bits(matcher) == before and not matcher.is_terminated()
    with pytest.raises(ValueError, match=f"token id: expected 0 to {END}, found {END + 1}"):
        matcher.validate_tokens([A, END + 1])
    assert matcher.tokens == (A, B)


@pytest.mark.parametrize("method", ["accept_token", "explain", "validate_tokens", "accept_tokens"])
def test_ids_out_of_range(method: str) -> None:
    matcher = regex("a*").matcher()
    for wrong in (-1, END + 1, 1 << 40, -(1 << 70)):
        with pytest.raises(ValueError, match=f"token id: expected 0 to {END}, found {wrong}"):
            getattr(matcher, method)([wrong] if method.endswith("tokens") else wrong)
    assert matcher.tokens == ()


WRONG_TYPES: list[tuple[Any, str]] = [
    (True, "bool"),
    (97.0, "float"),
    ("a", "str"),
    (None, "NoneType"),
    (np.float32(97), "float32"),
    (np.array([97]), "ndarray"),
    ([97], "list"),
]


@pytest.mark.parametrize(("wrong", "name"), WRONG_TYPES, ids=[n for _, n in WRONG_TYPES])
def test_wrong_types(wrong: Any, name: str) -> None:
    matcher = regex("a*").matcher()
    for call in (matcher.accept_token, matcher.explain, lambda x: matcher.validate_tokens([x])):
        with pytest.raises(TypeError, match=f"token id: expected an integer, found {name}"):
            call(wrong)
    with pytest.raises(TypeError, match=f"rollback: expected an integer, found {name}"):
        matcher.rollback(wrong)
    with pytest.raises(TypeError, match=f"bitmask row: expected an integer, found {name}"):
        matcher.fill_next_token_bitmask(np.zeros((1, WORDS), np.int32), wrong)
    with pytest.raises(TypeError, match=f"stop token id: expected an integer, found {name}"):
        matcher.grammar.matcher([wrong])
    assert matcher.tokens == ()


def test_integers_of_other_kinds() -> None:
    torch = pytest.importorskip("torch")
    matcher = regex("a*").matcher([np.int32(END)])
    given = [np.int8(A), np.uint64(A), np.array(A), torch.tensor(A), torch.tensor([A]), torch.tensor(A, dtype=torch.uint8)]
    for one in given:
        assert matcher.accept_token(one)
    assert matcher.accept_tokens(torch.tensor([A, A])) == 2
    assert matcher.accept_tokens(np.array([A, A], np.uint16)) == 2
    assert matcher.validate_tokens(torch.tensor([A, B])) == 1
    assert matcher.tokens == (A,) * (len(given) + 4) and {type(t) for t in matcher.tokens} == {int}
    assert matcher.stop_token_ids == (END,) and type(matcher.stop_token_ids[0]) is int
    matcher.rollback(np.int64(3))
    matcher.rollback(torch.tensor(1))
    assert len(matcher.tokens) == len(given)
    for wrong in (torch.tensor(97.0), torch.tensor([97, 98])):
        with pytest.raises(TypeError, match="token id: expected an integer, found Tensor"):
            matcher.accept_token(wrong)


def test_a_boolean_tensor_is_no_token() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="token id: expected an integer"):
        regex("a*").matcher().accept_token(torch.tensor(True))


# --- rollback, reset, fork ----------------------------------------------------------------------------------------------------


def test_rollback_and_reset() -> None:
    matcher = regex("(ab)*").matcher()
    masks = [mask_bits(matcher)]
    for t in (A, B, token(b"ab"), A):
        assert matcher.accept_token(t)
        masks.append(mask_bits(matcher))
    for n in (0, 1, 2):
        matcher.rollback(n)
        assert mask_bits(matcher) == masks[len(matcher.tokens)]
    assert matcher.tokens == (A,)
    for wrong in (-1, 2):
        with pytest.raises(ValueError, match=f"rollback: expected 0 to 1 tokens, found {wrong}"):
            matcher.rollback(wrong)
    assert matcher.tokens == (A,)
    matcher.reset()
    assert matcher.tokens == () and mask_bits(matcher) == masks[0]
    matcher.reset()
    matcher.rollback(0)
    assert matcher.tokens == ()


def test_a_fork_is_independent() -> None:
    matcher = regex("ab|ac").matcher([END, SPECIAL])
    assert matcher.accept_token(A)
    fork = matcher.fork()
    assert fork.grammar is matcher.grammar and fork.stop_token_ids == (END, SPECIAL) and fork.tokens == (A,)
    assert fork.accept_token(B) and matcher.accept_token(C)
    assert fork.tokens == (A, B) and matcher.tokens == (A, C)
    assert fork.accept_token(SPECIAL) and fork.is_terminated() and not matcher.is_terminated()
    matcher.reset()
    fork.rollback(1)
    assert fork.tokens == (A, B) and fork.is_accepting() and matcher.tokens == ()


# --- stop tokens and the end --------------------------------------------------------------------------------------------------


def test_the_end() -> None:
    matcher = regex("a+").matcher()
    assert not matcher.is_accepting() and END not in mask(matcher) and not matcher.accept_token(END)
    assert matcher.accept_token(A) and matcher.is_accepting() and END in mask(matcher)
    assert matcher.accept_token(END)
    assert matcher.is_terminated() and matcher.is_accepting() and matcher.tokens == (A, END)
    assert mask(matcher) == {END}
    for t in (A, END, SPECIAL, EMPTY):
        assert matcher.accept_token(t) is False and matcher.validate_tokens([t]) == 0
    assert matcher.tokens == (A, END)
    with pytest.raises(ValueError, match="token id"):
        matcher.accept_token(END + 1)
    fork = matcher.fork()
    assert fork.is_terminated() and mask(fork) == {END}
    matcher.rollback(1)
    assert not matcher.is_terminated() and matcher.is_accepting() and mask(matcher) >= {A, END}
    assert matcher.accept_tokens([A, END, A]) == 2
    matcher.rollback(3)
    assert matcher.tokens == () and not matcher.is_accepting()
    assert fork.is_terminated()


def test_an_empty_text() -> None:
    matcher = regex("").matcher()
    assert matcher.is_accepting() and mask(matcher) == {END} and not matcher.accept_token(A) and matcher.accept_token(END)


def test_several_stop_tokens() -> None:
    stops = [SPECIAL, END, SPECIAL, 200]
    matcher = regex("a{1,2}").matcher(stops)
    assert matcher.stop_token_ids == (SPECIAL, END, 200)
    assert not mask(matcher) & {SPECIAL, END, 200}
    assert matcher.accept_token(A) and mask(matcher) >= {SPECIAL, END, 200}
    for t in (SPECIAL, END, 200):
        assert matcher.accept_token(t) and matcher.is_terminated() and mask(matcher) == {SPECIAL, END, 200}
        matcher.rollback(1)


def test_only_the_stop_tokens_that_were_given_stop() -> None:
    matcher = regex("a*").matcher([SPECIAL])
    assert SPECIAL in mask(matcher) and END not in mask(matcher) and not matcher.accept_token(END)
    assert matcher.accept_token(SPECIAL) and matcher.is_terminated()


def test_text_tokens_as_stops_are_no_text() -> None:
    """A stop token is never text, even where the text could go on with its bytes. Another token with the same bytes is."""
    matcher = regex("a*b?").matcher([A, token(b"ab")])
    twin = VOCAB.tokens.index(b"a", 256)
    assert mask(matcher) == {A, token(b"ab"), twin, B}
    assert matcher.accept_token(twin) and matcher.accept_token(A)
    assert matcher.is_terminated() and mask(matcher) == {A, token(b"ab")}
    inside = regex("ab").matcher([A])
    assert mask(inside) == {token(b"ab"), twin} and not inside.accept_token(A)


def test_no_stop_tokens() -> None:
    matcher = regex("ab?").matcher([])
    assert matcher.stop_token_ids == () and matcher.accept_token(A) and matcher.is_accepting()
    assert mask(matcher) == {B} and not matcher.accept_token(END)
    assert matcher.accept_token(B) and mask(matcher) == set() and not matcher.is_terminated()


@pytest.mark.parametrize(
    ("stops", "error", "text"),
    [
        ([END + 1], ValueError, f"stop token id: expected 0 to {END}, found {END + 1}"),
        ([-1], ValueError, f"stop token id: expected 0 to {END}, found -1"),
        (END, TypeError, "stop_token_ids: expected a sequence of integers, found int"),
        ("ab", TypeError, "stop_token_ids: expected a sequence of integers, found str"),
        (b"ab", TypeError, "stop_token_ids: expected a sequence of integers, found bytes"),
        ([[END]], TypeError, "stop token id: expected an integer, found list"),
    ],
)
def test_wrong_stop_tokens(stops: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        regex("a*").matcher(stops)


def test_stop_tokens_of_any_iterable() -> None:
    torch = pytest.importorskip("torch")
    kinds: list[Any] = [{END}, (END,), np.array([END]), torch.tensor([END]), iter([END]), range(END, END + 1)]
    for stops in kinds:
        assert regex("a*").matcher(stops).stop_token_ids == (END,)


# --- bitmasks -----------------------------------------------------------------------------------------------------------------


def test_rows_of_numpy_and_torch() -> None:
    torch = pytest.importorskip("torch")
    matcher = regex("[a-c]{2}").matcher()
    expected = mask(matcher)
    for bitmask in (
        np.full((3, WORDS), -1, np.int32),
        torch.full((3, WORDS), -1, dtype=torch.int32),
        cd.allocate_token_bitmask(3, VOCAB.size),
    ):
        matcher.fill_next_token_bitmask(bitmask)
        matcher.fill_next_token_bitmask(bitmask, -1)
        array = np.asarray(bitmask)
        assert members(array[0].tobytes()) == members(array[2].tobytes()) == expected
        assert (array[1] == -1).all()
        matcher.fill_next_token_bitmask(bitmask, index=np.int64(1))
        assert members(np.asarray(bitmask)[1].tobytes()) == expected
        for wrong in (3, -4, 1 << 40):
            with pytest.raises(ValueError, match=f"bitmask row: expected 0 to 2, found {wrong}"):
                matcher.fill_next_token_bitmask(bitmask, wrong)


def test_memory_around_a_row_is_left_alone() -> None:
    owner = np.full((5, WORDS), -1, np.int32)
    regex("a").matcher().fill_next_token_bitmask(owner[1:4], 1)
    assert (owner[[0, 1, 3, 4]] == -1).all() and not (owner[2] == -1).any()
    one = np.zeros((1, WORDS), np.int32)
    regex("[a-c]*").matcher().fill_next_token_bitmask(one)
    assert not np.unpackbits(one.view(np.uint8), bitorder="little")[VOCAB.size :].any()


def wrong_bitmasks() -> list[tuple[str, Any, type[Exception], str]]:
    good = np.zeros((2, WORDS), np.int32)
    locked = good.copy()
    locked.flags.writeable = False
    shape = rf"bitmask: expected shape \(rows, {WORDS}\) for a vocabulary of {VOCAB.size} tokens, found "
    return [
        ("int64", good.astype(np.int64), TypeError, "bitmask: expected dtype int32, found int64"),
        ("uint32", good.view(np.uint32), TypeError, "bitmask: expected dtype int32, found uint32"),
        ("float", good.astype(np.float32), TypeError, "bitmask: expected dtype int32, found float32"),
        ("big endian", good.astype(">i4"), TypeError, "bitmask: expected dtype int32, found >i4"),
        ("one dimension", good[0], ValueError, shape + rf"\({WORDS},\)"),
        ("three dimensions", good[None], ValueError, shape + rf"\(1, 2, {WORDS}\)"),
        ("narrow", good[:, 1:].copy(), ValueError, shape + rf"\(2, {WORDS - 1}\)"),
        ("wide", np.zeros((2, WORDS + 1), np.int32), ValueError, shape + rf"\(2, {WORDS + 1}\)"),
        ("columns first", np.asfortranarray(good), ValueError, "bitmask: expected C-contiguous memory, found strides"),
        ("part of a wider one", np.zeros((2, WORDS + 1), np.int32)[:, :WORDS], ValueError, "expected C-contiguous memory"),
        ("read-only", locked, ValueError, "bitmask: expected a writable array, found a read-only one"),
        ("list", [[0] * WORDS], TypeError, "bitmask: expected a torch.Tensor or numpy.ndarray, found list"),
        ("None", None, TypeError, "bitmask: expected a torch.Tensor or numpy.ndarray, found NoneType"),
        ("no rows", np.zeros((0, WORDS), np.int32), ValueError, "bitmask row: expected 0 to -1, found 0"),
    ]


@pytest.mark.parametrize(("name", "bitmask", "error", "text"), wrong_bitmasks(), ids=[case[0] for case in wrong_bitmasks()])
def test_wrong_bitmasks(name: str, bitmask: Any, error: type[Exception], text: str) -> None:
    matcher = regex("a").matcher()
    for call in (matcher.fill_next_token_bitmask, lambda b: cd.fill_next_token_bitmasks([matcher], b)):
        mask(matcher)  # the last good bitmask is remembered: it must not lend its address
        with pytest.raises(error, match=text):
            call(bitmask)


def test_wrong_tensors() -> None:
    torch = pytest.importorskip("torch")
    matcher = regex("a").matcher()
    good = torch.zeros((2, WORDS), dtype=torch.int32)
    for wrong, error, text in (
        (good.long(), TypeError, "bitmask: expected dtype int32, found int64"),
        (good.float(), TypeError, "bitmask: expected dtype int32, found float32"),
        (good[:, 1:], ValueError, "bitmask: expected shape"),
        (good[0], ValueError, "bitmask: expected shape"),
        (torch.zeros((WORDS, 2), dtype=torch.int32).t(), ValueError, "bitmask: expected C-contiguous memory"),
        (torch.zeros((4, WORDS), dtype=torch.int32)[::2], ValueError, "bitmask: expected C-contiguous memory"),
        (good.to("meta"), ValueError, "bitmask: expected a tensor on the CPU, found one on meta"),
    ):
        with pytest.raises(error, match=text):
            matcher.fill_next_token_bitmask(wrong)


def test_the_remembered_bitmask_is_looked_at_again() -> None:
    torch = pytest.importorskip("torch")
    matcher = regex("a").matcher()
    array = np.zeros((2, WORDS), np.int32)
    matcher.fill_next_token_bitmask(array)
    array.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        matcher.fill_next_token_bitmask(array)
    tensor = torch.zeros((2, WORDS), dtype=torch.int32)
    matcher.fill_next_token_bitmask(tensor)
    old = tensor.numpy()
    tensor.set_(torch.full((2, WORDS), -1, dtype=torch.int32))
    old[:] = 0
    matcher.fill_next_token_bitmask(tensor)
    assert members(tensor[0].numpy().tobytes()) == mask(matcher) and not old.any()
    tensor.resize_((1, WORDS))
    matcher.fill_next_token_bitmask(tensor, -1)
    with pytest.raises(ValueError, match="bitmask row: expected 0 to 0, found 1"):
        matcher.fill_next_token_bitmask(tensor, 1)


def test_the_remembered_bitmask_is_not_moved() -> None:
    """The finding: ``ndarray.resize`` moved an array whose address was remembered, and masks went to where it had been."""
    matcher = regex("a").matcher()
    array = np.zeros((1, WORDS), np.int32)
    matcher.fill_next_token_bitmask(array)
    try:
        array.resize((5000, WORDS), refcheck=False)
    except ValueError:
        assert array.shape == (1, WORDS)
    matcher.fill_next_token_bitmask(array)
    assert members(array[0].tobytes()) == mask(matcher)
    other = np.zeros((1, WORDS), np.int32)
    matcher.fill_next_token_bitmask(other)
    array.resize((5000, WORDS), refcheck=False)  # no longer remembered
    matcher.fill_next_token_bitmask(array, 4999)
    assert members(array[4999].tobytes()) == mask(matcher)


def test_vocabularies_of_one_width_share_a_bitmask() -> None:
    """The remembered bitmask belongs to a size; another vocabulary's rows are checked anew."""
    other = vocabulary([b"zz"] * 40)
    bitmask = np.zeros((1, WORDS), np.int32)
    regex("a").matcher().fill_next_token_bitmask(bitmask)
    with pytest.raises(ValueError, match=f"for a vocabulary of {other.size} tokens"):
        cd.Compiler(other).compile(cd.Regex("a")).matcher().fill_next_token_bitmask(bitmask)


# --- messages -----------------------------------------------------------------------------------------------------------------


def test_explain() -> None:
    matcher = regex("a[b-d]é?").matcher()
    assert matcher.accept_token(A)
    before = mask_bits(matcher)
    assert matcher.explain(B) == f"token {B} ('b') is allowed"
    text = matcher.explain(ord("x"))
    assert text.startswith(f"not allowed: byte 0 of token {ord('x')} ('x'), 'x': expected one of 'b'-'d' (in ")
    text = matcher.explain(token(b"b!"))
    assert text.startswith(f"not allowed: byte 1 of token {token(b'b!')} ('b!'), '!': expected one of ")
    assert "xc3' (in " in text and text.endswith(") or the end of the text")
    assert (
        matcher.explain(END)
        == f"token {END} would end the text, which is not complete: expected one of 'b'-'d' (in {lexeme(text)})"
    )
    assert matcher.explain(SPECIAL) == f"token {SPECIAL} is a special token: it never matches as text"
    assert matcher.explain(EMPTY) == f"token {EMPTY} is empty: it would make no progress"
    assert mask_bits(matcher) == before and matcher.tokens == (A,)
    assert matcher.accept_token(B) and matcher.explain(END) == f"token {END} ends the text and is allowed here"
    assert matcher.accept_token(END) and matcher.explain(A) == f"token {A} comes after the end of the text"


def lexeme(text: str) -> str:
    """The lexemes named in an explanation."""
    return text.split("(in ", 1)[1].split(")", 1)[0]


def test_explain_names_the_lexemes() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"], "additionalProperties": False}
    matcher = COMPILER.compile(cd.JsonSchema(schema, whitespace="compact")).matcher()
    assert matcher.accept_tokens(b'{"') == 2
    text = matcher.explain(ord("x"))
    assert "'x': expected one of 'n' (in " in text and "name" in text
    assert "special token" in matcher.explain(SPECIAL)


@pytest.mark.parametrize("stops", [None, [A, SPECIAL], []])
def test_explain_says_allowed_exactly_for_what_is_allowed(stops: list[int] | None) -> None:
    matcher = regex("(ab)*!?").matcher(stops)
    for ids in ((), (token(b"ab"),), (token(b"ab"), ord("!"))):
        matcher.reset()
        assert matcher.accept_tokens(ids) == len(ids)
        allowed = mask(matcher)
        for t in range(VOCAB.size):
            says = matcher.explain(t)
            assert (("is allowed" in says) and "not allowed" not in says) == (t in allowed), says


def test_explain_of_an_absent_id() -> None:
    assert "no token" in regex("a").matcher().explain(ABSENT) or "absent" in regex("a").matcher().explain(ABSENT)


def test_counters() -> None:
    grammar = cd.Compiler(VOCAB).compile(cd.Regex("[a-c]{3}"))
    matcher = grammar.matcher()
    start = matcher.counters()
    assert start == grammar.counters() and start["mask_misses"] == start["mask_hits"] == 0
    mask(matcher)
    once = matcher.counters()
    assert once["mask_misses"] == 1 and once["bases"] == 1 and once["nodes_walked"] > 0
    mask(matcher)
    mask(matcher.fork())
    mask(grammar.matcher([SPECIAL]))  # stop tokens are no part of the cached mask
    again = grammar.counters()
    assert again["mask_hits"] == 3 and again["mask_misses"] == 1 and again["nodes_walked"] == once["nodes_walked"]
    assert all(again[name] >= once[name] for name in once) and all(isinstance(n, int) for n in again.values())
    assert grammar.nbytes >= again["bytes"] > 0
