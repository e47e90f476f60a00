"""The vocabulary: the bytes of each token, the ids that end a text, and the token trie, on which masks are computed.

A :class:`Vocabulary` is made once for a tokenizer and shared by all grammars and threads; its arrays are read-only. It is built
in two steps. Reading the tokens' bytes (``sources.py``) is quick and always done; their hash is the cache key. The self-check
and the trie are skipped if the cache folder has a file with the result.

>>> vocab = Vocabulary.from_bytes([b"a", b"b", b"ab", b"</s>"], eos_token_ids=3)
>>> vocab.decode([0, 2, 3])
b'aab'
>>> bytes(vocab.trie.byte), vocab.trie.skip.tolist(), vocab.trie.token.tolist()
(b'abb', [2, 1, 1], [0, 2, 1])
"""

from __future__ import annotations

import functools
import hashlib
import json
import warnings
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from cdplugin.bits import members
from cdplugin.errors import VocabularyError, integer, iterable
from cdplugin.kernels.jit import cache_files
from cdplugin.kernels.masks import trie as kernels
from cdplugin.vocab import sources, token_bytes

MAX_SLICE_ROWS = 64
"""Largest number of the last row of :attr:`Vocabulary.slice_masks`."""

TokenIds = int | Iterable[int] | None
"""One id, several, or none given."""
_CACHED_SIZE = 8192
"""Smaller vocabularies are built in a few milliseconds, so they are not cached on disk."""

_MAGIC = b"cdplugin vocabulary 1\n"
_TRIE_ARRAYS = ("byte", "depth", "skip", "token", "children", "first_child", "below", "rank", "listed", "reach")
_ARRAYS = (*_TRIE_ARRAYS, "max_chars", "slice_masks", "sizes")
_OUTSIDE_SLICE = np.zeros(256, bool)
_OUTSIDE_SLICE[[*range(0x20), 0x22, 0x5C, 0x7F]] = True
_LINE_ENDS = frozenset("\u2028\u2029")  # "." of ECMA-262 does not match these


@dataclass(frozen=True, eq=False)
class Trie:
    """Two token tries, one after the other, as flat depth-first arrays: C-contiguous, read-only, one entry per node, no root.

    Attributes
    ----------
    byte : uint8[n], the byte that leads to the node. Siblings ascend by byte.
    depth : int32[n], bytes from the root; 1 for the root's children.
    skip : int32[n], nodes in the subtree, including the node itself: the next sibling (or whatever follows) is ``i + skip[i]``.
    token : int32[n], the token that ends here, or -1. Further ids with the same bytes are leaves of the same byte and depth,
        directly after the first one's subtree.
    children : int32[n], the nodes ordered by parent, then by place.
    first_child : int32[n + 3]. The children of node i are ``children[first_child[i]:first_child[i + 1]]``; those of the root
        are node n's (the first trie) and node n + 1's (the second).
    below : int32[n], bit k set if a byte of kind k (:data:`cdplugin.kernels.masks.trie.BYTE_KIND`) lies below the node.
    listed : int32[...], the tokens in the order of their nodes.
    rank : int32[n + 1], how many tokens end before a node: those of its subtree are ``listed[rank[i]:rank[i + skip[i]]]``.
    reach : uint8[n], how many levels the deepest node of the subtree lies below, at most 255.
    slice_end : nodes ``[0, slice_end)`` are the trie of the slice tokens, the others that of all other text tokens.
    """

    byte: np.ndarray
    depth: np.ndarray
    skip: np.ndarray
    token: np.ndarray
    children: np.ndarray
    first_child: np.ndarray
    below: np.ndarray
    rank: np.ndarray
    listed: np.ndarray
    reach: np.ndarray
    slice_end: int

    def __len__(self) -> int:
        return len(self.byte)


class VocabularyWarning(UserWarning):
    """A vocabulary with which some masks may be empty (:meth:`Vocabulary.shortcomings`)."""


class Vocabulary:
    """Token bytes, end tokens and the token trie. Make one with a ``from_…`` class method.

    ``copy.copy`` and ``copy.deepcopy`` return the vocabulary itself. Unpickled, it has the same tokens and fingerprint, but no
    tokenizer (``encode`` is None).

    Attributes
    ----------
    size : width of the logits. Ids that the tokenizer does not have are absent and never allowed.
    tokens : list of ``bytes | None``, length ``size``; None: special, end token or absent, never matches as text.
    eos_token_ids : the ids that end a text. They never match as text.
    special_tokens : name → id of the tokens that never match as text.
    added_tokens : name → id of added tokens that are text.
    empty_token_ids : text tokens without bytes; never allowed, since they would make no progress.
    unreadable_token_ids : added tokens that the tokenizer itself cannot decode to UTF-8; never allowed.
    max_token_bytes : bytes of the longest text token.
    byte_tokens : 256-bit int, bit b set where a token is the single byte b.
    missing_bytes : its complement.
    absent_bytes : 256-bit int of the bytes that occur in no text token at all.
    fingerprint : sha256 (hex) of the tokens and of all ids above.
    token_bytes : uint8[...], the text tokens' bytes one after the other.
    token_offsets : int64[size + 1]; token t lies in ``[token_offsets[t], token_offsets[t + 1])``. Special and absent tokens
        have length 0.
    trie : :class:`Trie`.
    slice_end : that of the trie. Slice tokens are complete UTF-8 without ``"``, ``\\``, 0x00-0x1F, 0x7F, U+2028, U+2029.
    slice_chars : the most code points of a slice token (0 without slice tokens).
    slice_masks : int32[K + 1, ceil(size / 32)]: row k < K holds the slice tokens of at most k code points, row K all of them.
        K is ``slice_chars``, or 64 if that is smaller.
    max_chars : int32[len(trie)], for slice nodes the most code points of a token in the subtree; 0 elsewhere.
    encode : text → ids without special tokens, as at the start of a text, or None where there is no tokenizer.
    label : the tokenizer's name, for messages.
    """

    def __init__(self, source: token_bytes.TokenSource, cache: bool = True) -> None:
        """Build from a token source; use a ``from_...`` method instead. Raises VocabularyError if the self-check fails."""
        self.tokens = source.tokens
        self.size = len(source.tokens)
        self.eos_token_ids = source.eos
        self.special_tokens = source.special
        self.added_tokens = source.added
        self.unreadable_token_ids = source.unreadable
        self.encode: Callable[[str], list[int]] | None = source.encode
        self.label = source.label
        self._context = source.context
        filled = [t or b"" for t in self.tokens]
        lengths = np.fromiter(map(len, filled), np.int64, self.size)
        self.token_offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        self.token_bytes = np.frombuffer(b"".join(filled), np.uint8)
        self.max_token_bytes = int(lengths.max(initial=0))
        self.empty_token_ids = tuple(i for i in np.flatnonzero(lengths == 0).tolist() if self.tokens[i] is not None)
        singles = self.token_bytes[self.token_offsets[:-1][lengths == 1]]
        self.byte_tokens = sum(1 << b for b in np.unique(singles).tolist())
        self.missing_bytes = ~self.byte_tokens & ((1 << 256) - 1)
        self.absent_bytes = sum(1 << b for b in np.flatnonzero(np.bincount(self.token_bytes, minlength=256) == 0).tolist())
        self.fingerprint = self._fingerprint()
        arrays = self._arrays(source, cache)
        frozen: list[np.ndarray] = [self.token_offsets, self.token_bytes, *arrays.values()]
        for array in frozen:
            array.flags.writeable = False
        self.slice_end, self.slice_chars = arrays["sizes"].tolist()
        self.trie = Trie(**{name: arrays[name] for name in _TRIE_ARRAYS}, slice_end=self.slice_end)
        self.max_chars = arrays["max_chars"]
        self.slice_masks = arrays["slice_masks"]

    @classmethod
    def _made(cls, source: token_bytes.TokenSource, cache: bool) -> Vocabulary:
        """Make a vocabulary for a ``from_...`` method, and warn of its :meth:`shortcomings`."""
        vocab = cls(source, cache)
        for text, remedy in vocab.shortcomings():
            warnings.warn(f"{vocab.label}: {text}; {remedy}", VocabularyWarning, stacklevel=3)
        return vocab

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Vocabulary:
        return self

    __copy__ = __deepcopy__

    def __reduce__(self) -> Any:
        names = (self.special_tokens, self.eos_token_ids, self.added_tokens, self.unreadable_token_ids)
        return _restored, ((self.label, self.tokens, *names, self._context),)

    @classmethod
    def from_huggingface(
        cls, tokenizer: Any, vocab_size: int | None = None, *, eos_token_ids: TokenIds = None, cache: bool = True
    ) -> Vocabulary:
        """The vocabulary of a Hugging Face tokenizer (fast, or slow of a known kind) or of a ``tokenizers.Tokenizer``.

        Parameters
        ----------
        vocab_size : width of the logits, if they are padded; default: the tokenizer's own.
        eos_token_ids : the end tokens, as in ``generation_config.eos_token_id``; default: the tokenizer's ``eos_token_id``.
        cache : whether the cache folder may be used.

        Raises
        ------
        VocabularyError : the decoder cannot be simulated token by token, a token decodes to other bytes than expected,
            ``vocab_size`` is smaller than the vocabulary, or an end token is out of range.
        """
        return cls._made(sources.from_huggingface(tokenizer, vocab_size, eos_token_ids), cache)

    @classmethod
    def from_tiktoken(
        cls, encoding: Any, vocab_size: int | None = None, *, eos_token_ids: TokenIds = None, cache: bool = True
    ) -> Vocabulary:
        """The vocabulary of a ``tiktoken.Encoding``, or of a tokenizer of llama-models, which wraps one.

        ``eos_token_ids``: default ``<|endoftext|>``, or llama-models' ``stop_tokens``. Parameters and errors as in
        :meth:`from_huggingface`; also raises VocabularyError if no end token is known.
        """
        return cls._made(sources.from_tiktoken(encoding, vocab_size, eos_token_ids), cache)

    @classmethod
    def from_mistral(
        cls, tokenizer: Any, vocab_size: int | None = None, *, eos_token_ids: TokenIds = None, cache: bool = True
    ) -> Vocabulary:
        """The vocabulary of a mistral-common tokenizer, tekken or SentencePiece; the rest as in :meth:`from_huggingface`."""
        return cls._made(sources.from_mistral(tokenizer, vocab_size, eos_token_ids), cache)

    @classmethod
    def from_bytes(
        cls,
        tokens: Sequence[bytes | None],
        eos_token_ids: TokenIds = (),
        special_token_ids: TokenIds = (),
        vocab_size: int | None = None,
        *,
        cache: bool = True,
    ) -> Vocabulary:
        """A vocabulary from the tokens' bytes by id; None for absent ids.

        End tokens and ``special_token_ids`` never match as text; their bytes become their names. Raises VocabularyError for
        ids out of range, for items that are not bytes, and for an empty list.
        """
        return cls._made(sources.from_bytes(tokens, vocab_size, eos_token_ids, special_token_ids), cache)

    def decode(self, ids: Iterable[int]) -> bytes:
        """The bytes of text tokens; special and absent ones have none. Raises VocabularyError for ids out of range."""
        parts = []
        for token in iterable("ids", ids):
            if type(token) is not int:
                token = integer("token id", token)
            if not 0 <= token < self.size:
                raise VocabularyError(f"{self.label}: token {token}: expected an id from 0 to {self.size - 1}")
            parts.append(self.tokens[token] or b"")
        return b"".join(parts)

    def shortcomings(self) -> list[tuple[str, str]]:
        """The reasons why some masks may be empty, each with its remedy.

        - There is no end token: where a text can only end, nothing is allowed.
        - A byte is no token by itself and occurs only inside longer tokens. Where a text needs it and none of those tokens
          fits, nothing is allowed: with the tokens ``ab`` and ``c``, the text ``b`` cannot be written. (Bytes that occur in no
          token at all do no harm: grammars are compiled without them.)
        """
        found = []
        if not self.eos_token_ids:
            remedy = "give eos_token_ids, or stop_token_ids to every matcher"
            found.append(("no end token: where a text can only end, no token is allowed", remedy))
        inner = self.missing_bytes & ~self.absent_bytes
        if inner:
            listed = [repr(bytes([b]))[1:] for b in members(inner)]
            shown = ", ".join(listed[:8]) + (", …" if len(listed) > 8 else "")
            text = f"{len(listed)} bytes occur only inside longer tokens ({shown}): where a text needs one and none fits, "
            remedy = "keep grammars to texts that the tokens can write, or use a tokenizer with a token for each byte"
            found.append((text + "no token is allowed", remedy))
        return found

    @cached_property
    def names(self) -> dict[int, str]:
        """Id → name of special tokens and of added text tokens, for messages."""
        return {i: n for n, i in (*self.added_tokens.items(), *self.special_tokens.items())}

    @cached_property
    def token_of(self) -> tuple[dict[bytes, int], tuple[int, ...]]:
        """The lowest id of each text token by its bytes, and the lengths of text tokens, longest first."""
        ids: dict[bytes, int] = {}
        for token, text in enumerate(self.tokens):
            if text:
                ids.setdefault(text, token)
        return ids, tuple(sorted(set(map(len, ids)), reverse=True))

    def is_inner_prefix(self, text: bytes) -> bool:
        """Whether ``text`` is a proper prefix of a text token."""
        i = bisect_right(self._sorted, text)
        return i < len(self._sorted) and self._sorted[i].startswith(text)

    @cached_property
    def _sorted(self) -> list[bytes]:
        return sorted(self.token_of[0])

    def __repr__(self) -> str:
        return f"<Vocabulary {self.label}: {self.size} ids, {len(self.trie)} nodes, end {list(self.eos_token_ids)}>"

    # ---- building --------------------------------------------------------------------------------------------------------

    def _fingerprint(self) -> str:
        names = [sorted(self.special_tokens.items()), sorted(self.added_tokens.items())]
        digest = hashlib.sha256(json.dumps([self.size, self.eos_token_ids, names, self.unreadable_token_ids]).encode())
        digest.update(self.token_offsets.tobytes())
        digest.update(bytes([t is None for t in self.tokens]))
        digest.update(self.token_bytes.tobytes())
        return digest.hexdigest()

    def _arrays(self, source: token_bytes.TokenSource, cache: bool) -> dict[str, np.ndarray]:
        """The trie's arrays, from the cache, or checked, built and cached."""
        name = None
        if cache and self.size >= _CACHED_SIZE:
            key = hashlib.sha256(_code_key() + self.fingerprint.encode() + source.context).hexdigest()
            name = f"vocab/{key[:40]}.bin"
            arrays = load_arrays(name)
            if arrays is not None:
                return arrays
        if source.check is not None:
            source.check(source)
        arrays = self._build()
        if name is not None:
            save_arrays(name, arrays)
        return arrays

    def _build(self) -> dict[str, np.ndarray]:
        starts, stops = self.token_offsets[:-1], self.token_offsets[1:]
        lengths = stops - starts
        in_slice = _slice_tokens(self.tokens, self.token_bytes, self.token_offsets)
        characters = _cumulative((self.token_bytes & 0xC0) != 0x80)
        chars = characters[stops] - characters[starts]  # bytes that start a code point; right for slice tokens
        order = np.array(sorted(np.flatnonzero(lengths).tolist(), key=self.tokens.__getitem__), np.int64)  # stable: ids ascend
        halves = []
        for ids in (order[in_slice[order]], order[~in_slice[order]]):
            halves.append(kernels.build_trie(self.token_bytes, starts[ids], lengths[ids], ids.astype(np.int32)))
        slice_end = len(halves[0][0])
        byte, depth, skip, token = (np.ascontiguousarray(np.concatenate(pair)) for pair in zip(*halves))
        ends_here = halves[0][3]
        own = np.where(ends_here >= 0, chars[ends_here], 0) if slice_end else np.zeros(0, np.int64)
        max_chars = np.zeros(len(byte), np.int32)
        max_chars[:slice_end] = kernels.subtree_maximum(halves[0][1], own)
        slice_ids = np.flatnonzero(in_slice)
        slice_chars = int(chars[slice_ids].max(initial=0))
        top = min(slice_chars, MAX_SLICE_ROWS)
        masks = kernels.cumulative_masks(slice_ids, np.minimum(chars[slice_ids], top), top + 1, self.size)
        sizes = np.array([slice_end, slice_chars], np.int64)
        children = kernels.child_lists(depth, slice_end)
        below = kernels.kinds_below(byte, depth)
        rank = _cumulative(token >= 0).astype(np.int32)
        listed = token[token >= 0]
        reach = kernels.reaches(depth)
        return dict(zip(_ARRAYS, (byte, depth, skip, token, *children, below, rank, listed, reach, max_chars, masks, sizes)))


def _restored(source: tuple[Any, ...]) -> Vocabulary:
    """Rebuild an unpickled vocabulary, whose tokens have passed the self-check before."""
    return Vocabulary(token_bytes.TokenSource(*source))


def _cumulative(flags: np.ndarray) -> np.ndarray:
    """How many of the first i flags are set: int64[n + 1]."""
    total = np.zeros(len(flags) + 1, np.int64)
    np.cumsum(flags, out=total[1:])
    return total


def _slice_tokens(tokens: list[bytes | None], data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """bool[size]: the non-empty tokens that are *plain text* (:mod:`cdplugin.kernels.regex.slices`) and complete UTF-8."""
    outside = _cumulative(_OUTSIDE_SLICE[data])
    inside = (outside[offsets[1:]] == outside[offsets[:-1]]) & (offsets[1:] > offsets[:-1])
    high = _cumulative(data >= 0x80)
    for i in np.flatnonzero(inside & (high[offsets[1:]] > high[offsets[:-1]])).tolist():
        try:
            inside[i] = _LINE_ENDS.isdisjoint(tokens[i].decode())  # type: ignore[union-attr]
        except UnicodeDecodeError:
            inside[i] = False
    return inside


# ---- the on-disk cache ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _code_key() -> bytes:
    """A hash of the source code on which a cached result depends."""
    digest = hashlib.sha256()
    for module in (__file__, token_bytes.__file__, sources.__file__, kernels.__file__):
        digest.update(Path(module).read_bytes())
    return digest.digest()


def save_arrays(name: str, arrays: dict[str, np.ndarray]) -> bool:
    """Write arrays to a cache file: magic, a line of JSON (name, dtype, shape, offset), the data. Returns whether it worked."""
    listed, body, offset = [], [], 0
    for array_name, array in arrays.items():
        data = np.ascontiguousarray(array).tobytes()
        data += bytes(-len(data) % 64)
        listed.append([array_name, array.dtype.str, array.shape, offset])
        body.append(data)
        offset += len(data)
    head = _MAGIC + json.dumps(listed).encode()
    head += b" " * ((-len(head) - 1) % 64) + b"\n"
    return cache_files.write(name, (head, *body))


def load_arrays(name: str) -> dict[str, np.ndarray] | None:
    """The arrays that :func:`save_arrays` wrote; None if they are missing or damaged."""
    whole = cache_files.read(name)
    if whole is None or bytes(whole[: len(_MAGIC)]) != _MAGIC:
        return None
    content = np.frombuffer(whole, np.uint8)
    line = bytes(whole[len(_MAGIC) : len(_MAGIC) + 4096]).split(b"\n", 1)[0]
    base = len(_MAGIC) + len(line) + 1
    arrays = {}
    for array_name, dtype, shape, offset in json.loads(line):
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        arrays[array_name] = content[base + offset : base + offset + size].view(dtype).reshape(shape)
    return arrays if tuple(arrays) == _ARRAYS else None


T = TypeVar("T")


def once_for_a_vocabulary(make: Callable[[Vocabulary], T]) -> Callable[[Vocabulary], T]:
    """Decorator: cache a function of a vocabulary as long as the vocabulary lives. The result must not refer to it."""
    kept: weakref.WeakKeyDictionary[Vocabulary, T] = weakref.WeakKeyDictionary()

    @functools.wraps(make)
    def find(vocab: Vocabulary) -> T:
        found = kept.get(vocab)
        if found is None:
            found = kept[vocab] = make(vocab)
        return found

    return find
