"""The bytes of each token: derived from the tokenizer's own description, and checked against its ``decode``.

A fast Hugging Face tokenizer describes its decoder in JSON. That decoder is simulated here for one token at a time, as in the
middle of a text; a decoder for which a token's text depends on its neighbours is refused. Differences at the very start of a
text (the space that Metaspace, ``Strip`` or WordPiece drop there) are ignored, because generated text follows a prompt.

- byte level: each character stands for a byte (the GPT-2 map); a token with any other character stands for its own UTF-8
- ``Sequence[Replace, ByteFallback, Fuse, Strip]``, ``Metaspace``: ``▁`` is a space, ``<0x0A>`` is the byte 0x0A
- WordPiece: ``##s`` is ``s``, ``the`` is `` the``; its ``cleanup`` rules are applied

Special tokens, end tokens and the unknown token are None: they never match as text. Other added tokens are text, as the decoder
writes it (``<think>`` unchanged; a ``▁▁`` added to a Gemma vocabulary as two spaces). The byte-level decoder breaks an added
token such as ``größe``: it takes its characters for bytes, which are not UTF-8. Such a token is never allowed.

Source: the Rust sources of ``tokenizers`` 0.2x, ``src/decoders/*.rs`` and ``src/pre_tokenizers/byte_level.rs``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cdplugin.errors import VocabularyError

SAMPLES = (
    "The quick brown fox jumps over the lazy dog. 0123456789 don't I'll we've",
    '{"name": "Zoë", "tags": ["a\\n", "\\u00e9"], "n": -1.5e+10, "ok": true, "x": null}\n',
    "def f(x):\n    if x <= 0:\n\t\treturn [x ** 2, ~x]  # done\r\n\n\n\n        return {'a': x % 7}\n",
    "ÄÖÜäöüß éèêë ñ ç ø å þ ð ł ž ğ ı İ",
    "Русский текст. Ελληνικά. עברית. العربية. हिन्दी. ไทย. ქართული. Հայերեն.",
    "日本語のテキスト。中文文本，標點。한국어 텍스트. 𠮷野家",
    "emoji 😀👩‍👩‍👧‍👦🏳️‍🌈🇩🇪 math ∑∫√∞≠ 𝔘𝔫𝔦 arrows →⇒ box ┼█ nbsp\u00a0zwsp\u200b bom\ufeff",
    "a  b   c    d        e                f\t\tg\n\n\nh \n i",
    "control \x00\x01\x02\x07\x08\x0b\x0c\x1b\x1f\x7f\x80\x85\x9f end",
    "<b class='x'>&amp;</b> /* c */ // $^~`|\\ @#%^&*()_+-=[]{};:,.<>?!",
)
_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@dataclass
class TokenSource:
    """A tokenizer's tokens as read, before the trie is built.

    Attributes
    ----------
    label : the tokenizer's name, for messages.
    tokens : bytes by id; None: never matches as text.
    special : name → id of tokens that never match as text.
    eos : the ids that end a text.
    added : name → id of added tokens that are text.
    unreadable : added tokens that the tokenizer cannot decode to UTF-8.
    context : bytes that the result of the self-check depends on, besides the tokens.
    encode : text → ids, without adding special tokens; None if there is no tokenizer.
    check : compares the tokens with the tokenizer; raises ``VocabularyError``. None if there is no tokenizer.
    """

    label: str
    tokens: list[bytes | None]
    special: dict[str, int]
    eos: tuple[int, ...]
    added: dict[str, int] = field(default_factory=dict)
    unreadable: tuple[int, ...] = ()
    context: bytes = b""
    encode: Callable[[str], list[int]] | None = None
    check: Callable[[TokenSource], None] | None = None


# ---- the decoder of a fast tokenizer, one token at a time ----------------------------------------------------------------


def byte_level_alphabet() -> dict[str, int]:
    """GPT-2's map: printable Latin-1 characters stand for themselves, the other 68 bytes for U+0100 and up."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(b): b for b in plain}
    for byte in range(256):
        if byte not in plain:
            table[chr(256 + len(table) - len(plain))] = byte
    return table


def byte_level(strings: list[str]) -> list[bytes]:
    """The bytes of byte-level tokens. As in ``tokenizers``, a token with a character outside the map stands
    for its own UTF-8.
    """
    if not strings:
        return []
    codes = np.frombuffer("".join(strings).encode("utf-32-le", "surrogatepass"), np.uint32)
    table = np.full(0x144, -1, np.int16)
    for char, byte in byte_level_alphabet().items():
        table[ord(char)] = byte
    mapped = np.where(codes < len(table), table[np.minimum(codes, len(table) - 1)], np.int16(-1))
    ends = np.cumsum(np.fromiter(map(len, strings), np.int64, len(strings)))
    data = mapped.astype(np.uint8).tobytes()
    stops = ends.tolist()
    tokens = [data[a:b] for a, b in zip([0, *stops], stops)]
    for index in np.unique(np.searchsorted(ends, np.flatnonzero(mapped < 0), side="right")).tolist():
        tokens[index] = strings[index].encode("utf-8", "surrogatepass")
    return tokens


def _strip(text: str, content: str, start: int, stop: int) -> str:
    left = 0
    while left < min(start, len(text)) and text[left] == content:
        left += 1
    right = len(text)
    while right > left and len(text) - right < stop and text[right - 1] == content:
        right -= 1
    return text[left:right]


_CLEANUP = [(" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m")]
_CLEANUP += [(" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re")]


def _word_piece(text: str, prefix: str, cleanup: bool) -> str:
    text = text[len(prefix) :] if text.startswith(prefix) else " " + text
    for old, new in _CLEANUP if cleanup else []:
        text = text.replace(old, new)
    return text


def decode_each(strings: list[str], decoder: dict[str, Any] | None, label: str) -> list[bytes]:
    """The bytes of each token in the middle of a text, according to the decoder's JSON.

    Raises VocabularyError, which names the decoder, if they depend on neighbours or the decoder is unknown.
    """

    def refuse(why: str) -> VocabularyError:
        return VocabularyError(f"{label}: {why}; decoder: {json.dumps(decoder)}")

    if decoder is None:
        raise refuse("the tokenizer has no decoder, so the bytes between tokens are unknown")
    steps = decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]
    bytes_of: dict[int, bytes] = {}  # by index, tokens that are decoded to a single byte
    raw: list[bytes] | None = None
    fused = False
    for step in steps:
        kind = step["type"]
        if kind == "Strip" and fused:
            if step["stop"]:
                raise refuse("Strip at the end of a text is not supported")
            continue  # only the start of a text changes
        if kind == "Fuse":
            fused = True
        elif raw is not None or bytes_of:
            raise refuse(f"{kind} after bytes were decoded is not supported")
        elif fused and kind != "Replace":
            raise refuse(f"{kind} after Fuse is not supported")
        elif kind == "ByteLevel":
            raw, fused = byte_level(strings), True
        elif kind == "ByteFallback":
            for i, s in enumerate(strings):
                if len(s) == 6 and (piece := _PIECE.fullmatch(s)):
                    bytes_of[i] = bytes([int(piece[1], 16)])
        else:
            strings = list(map(_change_of_each(step, fused, refuse), strings))
    if raw is None:
        raw = [s.encode("utf-8", "surrogatepass") for s in strings]
        for index, value in bytes_of.items():
            raw[index] = value
    return raw


def _change_of_each(step: dict[str, Any], fused: bool, refuse: Callable[[str], VocabularyError]) -> Callable[[str], str]:
    """The function that a decoder's step applies to each token's text. Raises ``refuse(why)`` if it depends on other tokens."""
    kind = step["type"]
    if kind == "Replace":
        pattern = step["pattern"].get("String")
        if pattern is None:
            raise refuse("Replace with a regular expression is not supported")
        if fused and len(pattern) != 1:
            raise refuse("Replace across tokens is not supported")
        return lambda s: s.replace(pattern, step["content"])
    if kind == "Metaspace":
        return lambda s: s.replace(step["replacement"], " ")
    if kind == "Strip":
        return lambda s: _strip(s, step["content"], step["start"], step["stop"])
    if kind == "WordPiece":
        return lambda s: _word_piece(s, step["prefix"], step["cleanup"])
    raise refuse(f"{kind} is not supported: what a token stands for depends on its neighbours")


def loses_text(pre_tokenizer: dict[str, Any] | None) -> bool:
    """Whether a pre-tokenizer drops characters (usually white space), so that encoding is not reversible."""
    if pre_tokenizer is None:
        return False
    if pre_tokenizer["type"] == "Sequence":
        return any(loses_text(p) for p in pre_tokenizer["pretokenizers"])
    if pre_tokenizer["type"] in ("Split", "Punctuation"):
        return pre_tokenizer.get("behavior") == "Removed"
    return pre_tokenizer["type"] not in ("ByteLevel", "Metaspace", "Digits", "UnicodeScripts", "FixedLength")


# ---- the self-check ------------------------------------------------------------------------------------------------------


def misread(source: TokenSource, token: int, name: Any, found: Any) -> VocabularyError:
    expected = source.tokens[token]
    return VocabularyError(
        f"{source.label}: token {token} ({name!r}) would be misread: expected {expected!r} ({(expected or b'').hex(' ')}), "
        f"but the tokenizer decodes it as {found!r}"
    )


def is_utf8(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True


def check_decoding(source: TokenSource, decode: Callable[[list[int]], str], name: Callable[[int], Any], lossy: bool) -> None:
    """Check every token's bytes against the tokenizer's ``decode``. A first token is put before, so no token is at a text's
    start.

    All tokens that are UTF-8 by themselves are decoded in one call. Of tokens with incomplete characters, single bytes are
    combined to characters; if ``lossy`` (a byte-level decoder writes U+FFFD as Python does), all are compared. Raises
    VocabularyError.
    """
    tokens = source.tokens
    whole: list[int] = []
    partial: list[int] = []
    for i, token in enumerate(tokens):
        if token:
            (whole if token.isascii() or is_utf8(token) else partial).append(i)
    anchor = [i for i in whole if tokens[i].strip().isalnum()][:1] or whole[:1]  # type: ignore[union-attr]
    start = decode(anchor) if anchor else ""

    def text_of(ids: list[int]) -> str:
        return b"".join(tokens[i] or b"" for i in ids).decode("utf-8", "replace")

    def compare(ids: list[int]) -> None:
        if not ids or decode(anchor + ids) == start + text_of(ids):
            return
        low, high = 0, len(ids)  # bisect: the shortest prefix that differs ends with the wrong token
        while high - low > 1:
            middle = (low + high) // 2
            if decode(anchor + ids[:middle]) == start + text_of(ids[:middle]):
                low = middle
            else:
                high = middle
        raise misread(source, ids[low], name(ids[low]), decode([*anchor, ids[low]])[len(start) :])

    compare(whole)
    compare([i for i in whole if tokens[i][-1:].isspace()][:1])  # type: ignore[index]  # some decoders strip a text's end
    if lossy:
        compare(partial)
    byte_ids = {tokens[i][0]: i for i in reversed(partial) if len(tokens[i]) == 1}  # type: ignore[index,arg-type]
    points = [
        *range(0x80, 0x800),
        *range(0x800, 0xD800, 0x3FF),
        *range(0xE000, 0x10000, 0x3FF),
        *range(0x10000, 0x110000, 0x3FFF),
    ]
    spelled = [chr(p).encode() for p in points]
    compare([byte_ids[b] for char in spelled if all(c in byte_ids for c in char) for b in char])


def _agreement(a: bytes, b: bytes) -> int:
    """How many bytes two texts have in common at their beginning."""
    return next((k for k, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def check_encoding(source: TokenSource, prefixes: tuple[str, ...], normalize: Callable[[str], str] | None) -> None:
    """Check that encoding sample texts yields their bytes, after one of the ``prefixes`` that the tokenizer may prepend.

    Characters that the vocabulary cannot spell are removed from the samples; a text with an unknown token is skipped.
    ``normalize``: what the tokenizer applies to a text first. Raises VocabularyError.
    """
    assert source.encode is not None
    tokens = source.tokens
    known = {t for t in tokens if t and len(t) <= 4}
    by_bytes = any(t and not is_utf8(t) for t in tokens)  # then any text can be spelled byte by byte, else by characters

    def spelled(char: str) -> bool:
        return all(bytes([b]) in known for b in char.encode()) if by_bytes else char.encode() in known

    for sample in SAMPLES:
        text = "".join(filter(spelled, sample))
        ids = source.encode(text)
        if any(tokens[i] is None for i in ids):
            continue
        found = b"".join(tokens[i] or b"" for i in ids)
        wanted = [text] if normalize is None else [text, normalize(text).replace("\u2581", " ")]
        expected = [(p + w).encode() for p in prefixes for w in wanted]
        if found in expected:
            continue
        at, nearest = max((_agreement(other, found), other) for other in expected)
        spot, passed = 0, 0
        while spot + 1 < len(ids) and passed + len(tokens[ids[spot]] or b"") <= at:
            passed += len(tokens[ids[spot]] or b"")
            spot += 1
        token = f"token {ids[spot]} ({tokens[ids[spot]]!r}) at byte {at}" if ids else "no tokens"
        raise VocabularyError(
            f"{source.label}: a text would be misread: {token}: "
            f"expected {nearest[at : at + 16]!r}, found {found[at : at + 16]!r}"
        )
