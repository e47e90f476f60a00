"""The engines of :mod:`bench_mask` behind one small interface, and the vocabularies that all of them get.

An engine compiles a schema, makes matchers, fills one row of a bitmask and accepts a token. It refuses a schema by an
exception whose text is the reason. Each engine runs on one thread. The vocabularies come from PyPI packages, so nothing
else is downloaded: Llama 3 (128,256 tokens; package ``llama-models``) and tekken (131,072; package ``mistral-common``),
both as tiktoken encodings.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import re
from pathlib import Path
from typing import Any, Protocol

import numpy as np

LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def package_folder(name: str) -> Path:
    """The folder of an installed package, found without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"package {name} is not installed: pip install {name.replace('_', '-')} (--no-deps for llama-models)")
    return Path(next(iter(spec.submodule_search_locations)))


class Tokenizer:
    """A tiktoken encoding and what the engines need to know: ``tokens`` (None: special), ``eos``, ``size``."""

    def __init__(self, name: str) -> None:
        import tiktoken

        self.name = name
        if name == "llama3":
            lines = (package_folder("llama_models") / "llama3" / "tokenizer.model").read_bytes().splitlines()
            ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}
            special = {
                f"<|{kind}|>": len(ranks) + i
                for i, kind in enumerate(["begin_of_text", "end_of_text", *(f"reserved_{n}" for n in range(7)), "eot_id"])
            }
            special |= {f"<|reserved_special_{i}|>": i for i in range(len(ranks) + len(special), 128_256)}
            self.eos, pattern = special["<|eot_id|>"], LLAMA3_PATTERN
        elif name == "tekken":
            data = json.loads((package_folder("mistral_common") / "data" / "tekken_240911.json").read_text())
            size, first = data["config"]["default_vocab_size"], data["config"]["default_num_special_tokens"]
            ranks = {base64.b64decode(t["token_bytes"]): t["rank"] + first for t in data["vocab"][: size - first]}
            special = {"<s>": 1, "</s>": 2} | {f"<SPECIAL_{i}>": i for i in range(first) if i not in (1, 2)}
            self.eos, pattern = special["</s>"], data["config"]["pattern"]
        else:
            raise SystemExit(f"--vocab: expected llama3 or tekken, found {name}")
        self.encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
        self.size = len(ranks) + len(special)
        self.tokens: list[bytes | None] = [None] * self.size
        for token, rank in ranks.items():
            self.tokens[rank] = token

    def encode(self, text: str) -> list[int]:
        """The canonical tokens of ``text``, specials as text."""
        return self.encoding.encode_ordinary(text)


class Engine(Protocol):
    """What :mod:`bench_mask` asks of an engine. ``bits``: the row that :meth:`fill` writes, bit t % 32 of word t // 32."""

    bits: np.ndarray

    def compile(self, schema: Any) -> Any:
        """Compile a schema. Raises if the engine refuses it."""

    def matcher(self, grammar: Any) -> Any:
        """A fresh matcher."""

    def fill(self, matcher: Any) -> None:
        """Write the mask of ``matcher`` into ``bits``. Raises where the engine gives up."""

    def accept(self, matcher: Any, token: int) -> bool:
        """Accept ``token``."""

    def counters(self, grammar: Any, matchers: list[Any]) -> dict[str, float]:
        """What the engine counts, summed over this schema."""


class Cdplugin:
    """This package."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        import cdplugin as cd

        self.cd = cd
        self.vocab = cd.Vocabulary.from_tiktoken(tokenizer.encoding, eos_token_ids=tokenizer.eos)
        self.vocab_size = self.vocab.size
        self.eos = tokenizer.eos
        self.compiler = cd.Compiler(self.vocab)
        self.mask = cd.allocate_token_bitmask(1, self.vocab.size)
        self.bits = self.mask.numpy()[0]

    def compile(self, schema: Any) -> Any:
        return self.compiler.compile(self.cd.JsonSchema(schema))

    def matcher(self, grammar: Any) -> Any:
        return grammar.matcher(stop_token_ids=[self.eos])

    def fill(self, matcher: Any) -> None:
        matcher.fill_next_token_bitmask(self.mask, 0)

    def accept(self, matcher: Any, token: int) -> bool:
        return matcher.accept_token(token)

    def counters(self, grammar: Any, matchers: list[Any]) -> dict[str, float]:
        if hasattr(grammar, "counters"):
            return dict(grammar.counters())
        total: dict[str, float] = {}
        for matcher in matchers if hasattr(matchers[0], "counters") else ():
            for name, value in matcher.counters().items():
                total[name] = total.get(name, 0) + value
        return total


class Llguidance:
    """llguidance's LLMatcher as MaskBench drives it: compile once, a deep copy per instance, default options."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        import llguidance
        import llguidance.tiktoken

        self.lib = llguidance
        self.tokenizer = llguidance.tiktoken.lltokenizer_from_encoding(
            tokenizer.encoding, n_vocab=tokenizer.size, eos_token=tokenizer.eos
        )
        self.bits = np.zeros((tokenizer.size + 31) // 32, np.int32)
        self.address, self.length = self.bits.ctypes.data, self.bits.nbytes

    def compile(self, schema: Any) -> Any:
        grammar = self.lib.LLMatcher.grammar_from_json_schema(schema)
        matcher = self.lib.LLMatcher(self.tokenizer, grammar, log_level=0)
        self._check(matcher)
        return matcher

    def _check(self, matcher: Any) -> None:
        if matcher.is_error():
            raise RuntimeError(matcher.get_error())

    def matcher(self, grammar: Any) -> Any:
        return grammar.deep_copy()

    def fill(self, matcher: Any) -> None:
        matcher.unsafe_compute_mask_ptr(self.address, self.length)
        if matcher.is_error():
            raise RuntimeError(matcher.get_error())

    def accept(self, matcher: Any, token: int) -> bool:
        return matcher.consume_token(token)

    def counters(self, grammar: Any, matchers: list[Any]) -> dict[str, float]:
        return {}


class Xgrammar:
    """xgrammar; ``strict`` is its default (no undeclared properties, fixed whitespace), else MaskBench's "compliant" mode."""

    def __init__(self, tokenizer: Tokenizer, strict: bool = False) -> None:
        import xgrammar

        self.lib, self.strict = xgrammar, strict
        info = xgrammar.TokenizerInfo(
            [token or b"" for token in tokenizer.tokens],
            xgrammar.VocabType.RAW,
            vocab_size=tokenizer.size,
            stop_token_ids=[tokenizer.eos],
        )
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1)
        self.mask = xgrammar.allocate_token_bitmask(1, tokenizer.size)
        self.bits = self.mask.numpy()[0]

    def compile(self, schema: Any) -> Any:
        return self.compiler.compile_json_schema(json.dumps(schema), any_whitespace=not self.strict, strict_mode=self.strict)

    def matcher(self, grammar: Any) -> Any:
        return self.lib.GrammarMatcher(grammar)

    def fill(self, matcher: Any) -> None:
        # false where every token is allowed; the row is not written then in some versions
        if not matcher.fill_next_token_bitmask(self.mask):
            self.mask.fill_(-1)

    def accept(self, matcher: Any, token: int) -> bool:
        return matcher.accept_token(token)

    def counters(self, grammar: Any, matchers: list[Any]) -> dict[str, float]:
        return {}


def make(name: str, tokenizer: Tokenizer) -> Engine:
    """The engine called ``name``."""
    if name == "cdplugin":
        return Cdplugin(tokenizer)
    if name == "llguidance":
        return Llguidance(tokenizer)
    if name in ("xgrammar", "xgrammar-strict"):
        return Xgrammar(tokenizer, strict=name.endswith("strict"))
    raise SystemExit(f"--engines: expected cdplugin, llguidance, xgrammar or xgrammar-strict, found {name}")


def reason(error: Exception) -> str:
    """A refusal in a few words that can be counted: the keyword if the message names one, else the beginning of the message."""
    keyword = getattr(error, "keyword", "")
    if keyword:
        return f"{type(error).__name__}: {keyword}"
    text = str(error).strip()
    found = re.search(r"Unimplemented keys: \[([^\]]*)\]", text) or re.search(
        r"[Uu]n(?:known|supported|implemented) (\S+ ?\S*)", text
    )
    if found:
        return "unimplemented: " + found.group(1).replace('"', "")[:80]
    return f"{type(error).__name__}: " + re.sub(r"\s+", " ", re.sub(r"\d+|\"[^\"]*\"|'[^']*'", "…", text))[:90]
