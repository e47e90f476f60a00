"""The engines of :mod:`formatron_tasks` behind one interface. Each uses its own calls to write a mask and to take a token.

All write a bitmask of int32, bit t % 32 of word t // 32, and get the same bytes for the same token ids. An engine's name
may be followed by what is switched off: ``cdplugin -slices``, ``formatron -pruning -cache`` (:data:`SWITCHES`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

import numpy as np
from formatron_cases import as_gbnf, as_kbnf, as_lark
from mask_engines import Tokenizer

SWITCHES = {
    "cdplugin": ("slices", "states", "grammars"),
    "formatron": ("pruning", "cache", "prefixes"),
}
"""What can be switched off.

cdplugin: *slices*, the ready masks of plain text (a word of the arena's header); *states*, with what is known of them, masks
included: before each text the grammar's arena counts as over its budget, so that a fresh one takes its place; *grammars*: none
is kept, each text compiles it anew. Within a text there is nothing to switch: rows, lexer states and masks are values, found by
their ids (docs/how-it-works.md), and a row never holds an item to which nothing can refer, which is what Formatron prunes.
Formatron: ``EngineConfig``'s compaction (*pruning*), *cache*, and *prefixes* of rejected tokens.
"""


class Text(NamedTuple):
    """One text that is being followed.

    ``fill`` writes the mask of the next token, and ``accept`` takes a token. ``ends`` tells, after a ``fill``, whether the
    text may end here. ``is_over`` tells whether nothing may follow; then ``fill`` is not called.
    """

    fill: Callable[[], object]
    accept: Callable[[int], object]
    ends: Callable[[], bool]
    is_over: Callable[[], bool] = lambda: False


class Engine(Protocol):
    """What :mod:`formatron_tasks` asks of an engine. ``bits``: the row that :attr:`Text.fill` writes. ``forgets``: whether
    each text asks for its grammar anew. ``is_narrow``: whether the engine refuses some tokens of texts that it accepts.
    """

    bits: np.ndarray
    forgets: bool
    is_narrow: bool

    def compile(self, task: str, spec: Any) -> Any:
        """Compile a grammar afresh. Raises :class:`NotImplementedError` if the engine has no such grammars."""

    def begin(self, grammar: Any) -> Text:
        """Begin a text."""


def _bit(bits: np.ndarray, token: int) -> bool:
    return bool(bits[token >> 5] >> (token & 31) & 1)


class Cdplugin:
    """This package."""

    forgets, is_narrow = False, False

    def __init__(self, tokenizer: Tokenizer, off: frozenset[str]) -> None:
        import cdplugin as cd
        from cdplugin.kernels.store import layout

        self.cd, self.eos = cd, tokenizer.eos
        self.vocab = cd.Vocabulary.from_tiktoken(tokenizer.encoding, eos_token_ids=tokenizer.eos)
        self.kept = cd.Compiler(self.vocab)  # whose template all others share
        self.kept.compile(cd.Choice(["a"]))
        self.off, self.word, self.forgets = off, layout.USE_SLICES, "grammars" in off
        self.mask = np.zeros((1, (self.vocab.size + 31) // 32), np.int32)
        self.bits = self.mask[0]

    def compile(self, task: str, spec: Any) -> Any:
        given = self.cd.Lark(spec) if task == "geoquery" else self.cd.JsonObject() if spec is None else self.cd.JsonSchema(spec)
        return self.cd.Compiler(self.vocab).compile(given)

    def begin(self, grammar: Any) -> Text:
        if "states" in self.off:
            grammar._arena.over_budget = True
        matcher = grammar.matcher()
        if "slices" in self.off:
            grammar._arena.header[self.word] = 0
        fill = partial(matcher.fill_next_token_bitmask, self.mask, 0)
        return Text(fill, matcher.accept_token, lambda: _bit(self.bits, self.eos))


class Formatron:
    """Formatron's grammar on its engine (kbnf); a text begins by ``reset``, which keeps the engine's cache."""

    forgets, is_narrow = False, False

    def __init__(self, tokenizer: Tokenizer, off: frozenset[str]) -> None:
        import kbnf
        from formatron.formatter import FormatterBuilder
        from formatron.schemas.json_schema import create_schema

        self.kbnf, self.builder, self.schema = kbnf, FormatterBuilder, create_schema
        known = {i: token for i, token in enumerate(tokenizer.tokens) if token is not None}
        texts = {i: token.decode("utf-8", "replace") for i, token in known.items()}
        self.vocab = kbnf.Vocabulary({i: kbnf.Token(token) for i, token in known.items()}, texts)
        self.config = kbnf.Config()
        options = self.config.engine_config
        options.compaction_enabled = "pruning" not in off
        options.cache_enabled = "cache" not in off
        options.rejected_token_prefix_cache_enabled = "prefixes" not in off
        self.config.engine_config = options
        self.bits = np.zeros((tokenizer.size + 31) // 32, np.int32)

    def compile(self, task: str, spec: Any) -> Any:
        if task == "geoquery":
            return self.kbnf.Engine(as_kbnf(spec), self.vocab, self.config)
        meta = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.org/schema"}
        builder = self.builder()
        builder.append_str(f"{builder.json(self.schema(meta | self._unanchored(spec or {'type': 'object'})))}")
        return builder.build(self.vocab, lambda _: "", self.config)._engine

    def _unanchored(self, schema: Any) -> Any:
        """Its patterns are anchored, and may not say so."""
        if isinstance(schema, dict):
            return {k: v.strip("^$") if k == "pattern" else self._unanchored(v) for k, v in schema.items()}
        return [self._unanchored(value) for value in schema] if isinstance(schema, list) else schema

    def begin(self, grammar: Any) -> Text:
        grammar.reset()
        compute, write, address = grammar.compute_allowed_token_ids, grammar.fill_torch_bitmask, self.bits.ctypes.data

        def fill() -> None:
            compute()
            write(address)

        return Text(fill, grammar.try_accept_new_token, grammar.is_finished, grammar.is_finished)


class Llguidance:
    """llguidance's LLMatcher, a deep copy for each text."""

    forgets, is_narrow = False, False

    def __init__(self, tokenizer: Tokenizer, off: frozenset[str]) -> None:
        import llguidance
        import llguidance.tiktoken

        self.lib, self.eos = llguidance, tokenizer.eos
        self.tokenizer = llguidance.tiktoken.lltokenizer_from_encoding(
            tokenizer.encoding, n_vocab=tokenizer.size, eos_token=tokenizer.eos
        )
        self.bits = np.zeros((tokenizer.size + 31) // 32, np.int32)

    def compile(self, task: str, spec: Any) -> Any:
        matcher = self.lib.LLMatcher
        if task == "geoquery":
            grammar = matcher.grammar_from_lark(as_lark(spec))
        else:
            grammar = matcher.grammar_from_json_schema({"type": "object"} if spec is None else spec)
        found = matcher(self.tokenizer, grammar, log_level=0)
        if found.is_error():
            raise RuntimeError(found.get_error())
        return found

    def begin(self, grammar: Any) -> Text:
        matcher = grammar.deep_copy()
        fill = partial(matcher.unsafe_compute_mask_ptr, self.bits.ctypes.data, self.bits.nbytes)
        return Text(fill, matcher.consume_token, lambda: _bit(self.bits, self.eos))


class Xgrammar:
    """xgrammar with ``any_whitespace``, one thread, its cache of compiled grammars off (each session compiles)."""

    forgets, is_narrow = False, False

    def __init__(self, tokenizer: Tokenizer, off: frozenset[str]) -> None:
        import xgrammar

        self.lib, self.eos = xgrammar, tokenizer.eos
        info = xgrammar.TokenizerInfo(
            [token or b"" for token in tokenizer.tokens],
            xgrammar.VocabType.RAW,
            vocab_size=tokenizer.size,
            stop_token_ids=[tokenizer.eos],
        )
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.mask = xgrammar.allocate_token_bitmask(1, tokenizer.size)
        self.bits = self.mask.numpy()[0]

    def compile(self, task: str, spec: Any) -> Any:
        if task == "geoquery":
            return self.compiler.compile_grammar(as_gbnf(spec))
        if spec is None:
            return self.compiler.compile_builtin_json_grammar()
        return self.compiler.compile_json_schema(json.dumps(spec), any_whitespace=True)

    def begin(self, grammar: Any) -> Text:
        matcher = self.lib.GrammarMatcher(grammar)
        fill = partial(matcher.fill_next_token_bitmask, self.mask)
        return Text(fill, matcher.accept_token, lambda: _bit(self.bits, self.eos))


class LmFormatEnforcer:
    """lm-format-enforcer's TokenEnforcer with bitmasks; JSON only: it has no context-free grammars."""

    forgets, is_narrow = False, True

    def __init__(self, tokenizer: Tokenizer, off: frozenset[str]) -> None:
        import lmformatenforcer as lib

        self.lib, self.eos = lib, tokenizer.eos
        words = [(i, token.decode("utf-8", "replace"), False) for i, token in enumerate(tokenizer.tokens) if token is not None]
        self.data = lib.TokenEnforcerTokenizerData(
            words, lambda ids: tokenizer.encoding.decode(ids).rstrip("\ufffd"), tokenizer.eos, True, tokenizer.size
        )
        self.bits = np.zeros((tokenizer.size + 31) // 32, np.int32)

    def compile(self, task: str, spec: Any) -> Any:
        if task == "geoquery":
            raise NotImplementedError("no context-free grammars")
        return self.lib.TokenEnforcer(self.data, self.lib.JsonSchemaParser(spec or {"type": "object"}))

    def begin(self, grammar: Any) -> Text:
        tokens: list[int] = []

        def fill() -> None:
            self.bits = grammar.get_allowed_tokens(tokens).allowed_tokens.numpy()

        return Text(fill, tokens.append, lambda: _bit(self.bits, self.eos))


ENGINES: dict[str, Callable[[Tokenizer, frozenset[str]], Engine]] = {
    "cdplugin": Cdplugin,
    "formatron": Formatron,
    "llguidance": Llguidance,
    "xgrammar": Xgrammar,
    "lm-format-enforcer": LmFormatEnforcer,
}


def is_installed(name: str) -> bool:
    """Whether the package of an engine is installed."""
    base = name.split(" -")[0]
    return find_spec({"lm-format-enforcer": "lmformatenforcer"}.get(base, base)) is not None


def make(name: str, tokenizer: Tokenizer) -> Engine:
    """The engine of a name such as ``formatron -pruning -cache``. Raises ``ValueError`` for an unknown engine or switch."""
    base, *off = name.split(" -")
    unknown = set(off) - set(SWITCHES.get(base, ()))
    if base not in ENGINES or unknown:
        raise ValueError(f"expected one of {', '.join(ENGINES)} and switches of {SWITCHES}, found {name}")
    return ENGINES[base](tokenizer, frozenset(off))


def versions(names: list[str]) -> dict[str, str]:
    """The versions of those of the peers that are among the engines."""
    found = {name: version(name) for name in dict.fromkeys(n.split(" -")[0] for n in names) if name != "cdplugin"}
    return found | ({"kbnf": version("kbnf")} if "formatron" in found else {})
