"""Values of JSON that is still being written, beside completing each prefix by hand and parsing that."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from engine_tools import seeds

import cdplugin as cd

TEXTS = ["", "a", 'quote " and \\', "Grüße, 世界", "🙂🙃", "line\nbreak\ttab", "\ud83d alone", "x" * 30, "\u2028/", "\x7f"]

PIECE = re.compile(r"\\u[0-9a-f]{0,4}|\\[^u]?|[^\\]")
HALF = re.compile(r"\\(u[0-9a-f]{0,3})?")
FIRST = re.compile(r"\\ud[89ab][0-9a-f]{2}")


def random_value(rng: random.Random, depth: int = 3) -> Any:
    kind = rng.randrange(9 if depth else 6)
    if kind < 6:
        numbers = [0, -1, 12, 1.5, -0.25, 1e30, 10**20, 2.5e-7]
        return [None, True, False, rng.choice(numbers), rng.choice(TEXTS), rng.choice(TEXTS)][kind]
    if kind == 6:
        return [random_value(rng, depth - 1) for _ in range(rng.randrange(5))]
    return {rng.choice(TEXTS) + str(rng.randrange(9)): random_value(rng, depth - 1) for _ in range(rng.randrange(5))}


def document(rng: random.Random) -> bytes:
    """JSON with much or little whitespace, with escapes or without."""
    text = json.dumps(
        random_value(rng),
        ensure_ascii=rng.random() < 0.5,
        indent=rng.choice([None, None, 1]),
        separators=rng.choice([None, (",", ":")]),
    )
    return text.encode("utf-8", "surrogatepass") if "\ud83d" not in text else json.dumps(json.loads(text)).encode()


def completed(prefix: bytes, strings: str) -> Any:
    """The value after completing a prefix of a valid text by hand: what is half is cut off, what is open is closed."""
    text = prefix.decode("utf-8", "ignore")  # half a character at the end is dropped
    closers: list[str] = []
    starts: list[int] = []  # where the last member or item of each open container begins
    i, string_start, is_name = 0, -1, False
    expects_name = False
    while i < len(text):
        c = text[i]
        if string_start >= 0:
            if c == "\\":
                i += 6 if text[i + 1 : i + 2] == "u" else 2
                continue
            if c == '"':
                string_start = -1
            i += 1
            continue
        if c == '"':
            string_start, is_name = i, expects_name
        elif c in "{[":
            closers.append("}" if c == "{" else "]")
            starts.append(i + 1)
            expects_name = c == "{"
        elif c in "}]":
            closers.pop()
            starts.pop()
        elif c == ",":
            starts[-1] = i
            expects_name = closers[-1] == "}"
        elif c == ":":
            expects_name = False
        i += 1
    cut = False
    if string_start >= 0:
        if is_name or strings == "closed":
            cut = True
        else:
            pieces = PIECE.findall(text, string_start + 1)
            if pieces and HALF.fullmatch(pieces[-1]):  # an escape that is not complete
                text = text[: -len(pieces.pop())]
                if pieces and FIRST.fullmatch(pieces[-1]):  # and the first half of the pair that it may belong to
                    text = text[:-6]
            elif pieces and FIRST.fullmatch(pieces[-1]):
                text = text[:-6]
            text += '"'
    else:
        tail = text.rstrip(" \t\n\r")
        if tail and tail == text and tail[-1] not in '{}[],":':
            cut = True  # a number or literal that may go on
        elif closers and not _has_value(tail[starts[-1] :].lstrip(", \t\n\r"), closers[-1]):
            cut = True
    if cut:
        if not closers:
            return None
        text = text[: starts[-1]]
    if not text.strip():
        return None
    return json.loads(text + "".join(reversed(closers)))


def _has_value(member: str, closer: str) -> bool:
    """Whether the last member of a container, or item, is complete or an open container of its own."""
    wrapped = ("{" + member + "}") if closer == "}" else ("[" + member + "]")
    try:
        return bool(json.loads(wrapped))
    except ValueError:
        return False


def same(one: Any, two: Any) -> bool:
    return repr(one) == repr(two)


@pytest.mark.parametrize("strings", ["open", "closed"])
@pytest.mark.parametrize("seed", seeds(60, 6))
def test_prefixes(strings: str, seed: int) -> None:
    """At each prefix, in pieces of any size: more than 10,000 prefixes in all."""
    rng = random.Random(seed)
    for _ in range(6):
        data = document(rng)
        reader, place = cd.PartialJson(strings), 0
        while place < len(data):
            size = rng.choice([1, 1, 1, 2, 5, 40])
            reader.feed(data[place : place + size])
            place = min(len(data), place + size)
            expected = completed(data[:place], strings)
            if reader.is_complete:
                expected = json.loads(data)
            assert same(reader.value, expected), (data[:place], reader.value, expected)
            assert same(cd.partial_json(data[:place], strings=strings), expected)
        reader.close()
        assert same(reader.value, json.loads(data)) and reader.is_complete


@pytest.mark.parametrize(
    ("text", "value", "closed"),
    [
        ("", None, None),
        ("  ", None, None),
        ('"', "", None),
        ('"a', "a", None),
        ("12", None, None),
        ("12 ", 12, 12),
        ("tru", None, None),
        ("[1", [], []),
        ("[1,", [1], [1]),
        ('["', [""], []),
        ('{"a', {}, {}),
        ('{"a"', {}, {}),
        ('{"a":', {}, {}),
        ('{"a": "x', {"a": "x"}, {}),
        ('{"a": "x", "b', {"a": "x"}, {"a": "x"}),
        ('{"a": [{"b": "', {"a": [{"b": ""}]}, {"a": [{}]}),
        ('{"a": 1, "a": "x', {"a": "x"}, {"a": 1}),
        ('"\\ud83d', "", None),
        ('"\\ud83d\\ude0', "", None),
        ('"\\ud83d\\ude00', "😀", None),
        ('"\\ud83dx', "\ud83dx", None),
        ('"x\\', "x", None),
    ],
)
def test_examples(text: str, value: Any, closed: Any) -> None:
    assert same(cd.partial_json(text), value) and same(cd.partial_json(text, strings="closed"), closed)
    assert same(cd.partial_json(text.encode()), value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{1", r"expected a name or }, found b'1' - at byte 1"),
        ("[1 2", r"expected , or the end of what is open, found b'2' - at byte 3"),
        ("[}", r"expected a value or \], found b'}' - at byte 1"),
        ("[1}", r"found b'}' - at byte 2"),
        ("[nul]", r"expected a number, true, false or null, found b'nul' - before byte 4"),
        ("[01]", "found b'01'"),
        ("[NaN]", "found b'NaN'"),
        ('"\\x', r"expected an escape, found b'\\\\x' - at byte 2"),
        ('"\\u12g', "expected a hexadecimal digit, found b'g' - at byte 5"),
        ('"a\nb', "expected no control character within a string - at byte 2"),
        ("{} x", r"expected nothing, found b'x' - at byte 3"),
        (b'"\xff"', "expected UTF-8 - before byte 2"),
    ],
)
def test_what_is_no_json(text: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cd.partial_json(text)


def test_closing_and_misuse() -> None:
    for text, message in [("[", "a value or ]"), ('"a', "the end of a string"), ("[1", "the end of a number or literal")]:
        reader = cd.PartialJson()
        reader.feed(text.encode())
        with pytest.raises(ValueError, match=f"JSON ends too early: expected {message}".replace("]", r"\]")):
            reader.close()
    reader = cd.PartialJson()
    reader.feed(b"12")
    assert reader.value is None and not reader.is_complete
    reader.close()
    assert reader.value == 12 and reader.is_complete
    with pytest.raises(ValueError, match="strings: expected 'open' or 'closed', found 'both'"):
        cd.PartialJson("both")


def test_depth_and_length_are_no_trouble() -> None:
    """Nothing recurses, and each byte is looked at once, however the text is cut into pieces."""
    reader = cd.PartialJson()
    for _ in range(100_000):
        reader.feed(b"[")
    reader.feed(b"]" * 99_999)
    assert not reader.is_complete
    reader.feed(b"]")
    assert reader.is_complete
    reader = cd.PartialJson()
    reader.feed(b'{"a": "')
    for _ in range(200_000):
        reader.feed(b"word ")
    assert len(reader.value["a"]) == 1_000_000


# --- matchers -----------------------------------------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "tags": {"type": "array", "items": {"enum": ["é", "b"]}, "maxItems": 3},
    },
    "required": ["name", "tags"],
}
VOCAB = cd.Vocabulary.from_bytes(
    [*(bytes([b]) for b in range(256)), b'{"', b'": ', b"\xc3\xa9", b'", "', b"</s>"], eos_token_ids=260
)


@pytest.mark.parametrize("seed", seeds(30, 4))
def test_matchers(seed: int) -> None:
    """The value of the text so far, after each token, after rollbacks and in forks."""
    rng = random.Random(seed)
    matcher = cd.Compiler(VOCAB).compile(cd.JsonSchema(SCHEMA)).matcher()
    assert matcher.partial() is None
    for step in range(200):
        if matcher.tokens and rng.random() < 0.2:
            matcher.rollback(rng.randrange(len(matcher.tokens) + 1))
        if rng.random() < 0.1:
            matcher = matcher.fork()
        strings = rng.choice(["open", "open", "closed"])
        text = VOCAB.decode(matcher.tokens)
        assert same(matcher.partial(strings), completed(text, strings) if not matcher.is_terminated() else json.loads(text))
        if matcher.is_terminated():
            break
        ending = matcher.shortest_completion()
        options = [t for t in range(VOCAB.size) if matcher.validate_tokens([t])]
        token = rng.choice(options) if step < 60 else (ending or [260])[0]
        assert matcher.accept_token(token)
    assert step > 3


def test_forks_do_not_share_values() -> None:
    matcher = cd.Compiler(VOCAB).compile(cd.JsonSchema(SCHEMA)).matcher()
    assert matcher.accept_tokens(b'{"name": "a') == 11
    value = matcher.partial()
    other = matcher.fork()
    assert other.accept_tokens(b"b") == 1 and other.partial() == {"name": "ab"}
    assert value == {"name": "a"} == matcher.partial()


def test_a_matcher_of_other_text() -> None:
    matcher = cd.Compiler(VOCAB).compile(cd.Regex("[a-z]+")).matcher()
    assert matcher.accept_tokens(b"xyz") == 3 and matcher.partial() is None
    assert matcher.accept_token(260)
    for _ in range(2):
        with pytest.raises(ValueError, match="expected a number, true, false or null, found b'xyz'"):
            matcher.partial()


@pytest.mark.parametrize(
    ("spec", "stop", "value"), [(cd.JsonSchema({"type": "object"}), "!", {}), (cd.Regex("[0-9]+"), "5", 12)]
)
def test_a_stop_token_with_bytes_is_no_text(spec: cd.Spec, stop: str, value: Any) -> None:
    matcher = cd.Compiler(VOCAB).compile(spec).matcher(stop_token_ids=[ord(stop)])
    text = json.dumps(value).encode() + stop.encode()
    assert matcher.accept_tokens(text) == len(text) and matcher.is_terminated()
    assert matcher.partial() == value
    matcher.rollback(1)
    assert matcher.partial("closed") == (value if value == {} else None)
