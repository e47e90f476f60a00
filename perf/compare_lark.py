"""Masks of Lark grammars beside llguidance's, bit for bit, along recorded texts and along random walks after them.

    python perf/compare_lark.py ../shared/peer-cases [--vocab llama3] [--walks 6] [--steps 25] [--json FILE]

The grammars are those of llguidance's and guidance's own tests, as recorded (``perf/peer_cases.py``), and those of
``tests/lark_cases.py``. The vocabulary has all bytes and some 60 longer tokens. With ``--vocab`` it is a model's: the
engine walks large subtrees and long lists in other ways than small ones.

Each grammar is *equal* (apart from tokens that :data:`KNOWN` explains, which are counted), *differs* (the first difference
is shown: the text before it, and the tokens that only one side allows), is *refused* by one side, or needs tokens that the
vocabulary does not have. docs/grammars.md, "Beside LLGuidance", and docs/dialects.md say which side follows what.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llguidance
import numpy as np
from mask_engines import Llguidance, Tokenizer

import cdplugin as cd

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

LONGER = (
    "  ,    ,ab,abc,aa,bb, a, b, x, y, q,ok,no,the, the,true,false,null,name,12,123,00,-1,1., .5,e1,\n\n,\n ,\t\t,\r\n,//,/*,"
    "*/,"
    '{",",":"":,": ,",",{},[],[1,1],],,}},},{,"a",\\n,\\",\\u00,é,日本,😀,==,!=,(),((,)),<a,</,/>,>>,;\n,...,::'
)
_NUMBERS = "integers as 1.0 and 1e5, zero as -0, exponents under bounds (JSON Schema, Core 4.2.3, Validation 6.2)"
_DIGITS = "at most 64 digits before the point, 40 after it, three of an exponent"
_NAMES = "fourth labels of host names of at most 19 characters (formats_data.NAME_SIZES), 64 before the @ (RFC 5321, 4.5.3.1.1)"
_SPACE = "white space in JSON: space, tab, line feed, carriage return (RFC 8259, 2), at most 40 of them"
_ESCAPES = "any legal escape, also under a pattern (RFC 8259, 7)"
# Differences that are explained, where the grammar has JSON: which side allows a token, a pattern of the text with it, and why.
KNOWN = (
    ("here", rb"(?s).*\x7f.*", "DEL is a character of strings (RFC 8259, 7)"),
    ("here", rb"(?s).*(?<![0-9.eE])[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]*)?(?:</s>)?", _NUMBERS),
    ("here", rb"(?s).*(?:^|[ :,\[])-", _NUMBERS),
    ("here", rb"(?s).*\\(?:[\"\\/bfnrt]|u[0-9A-Fa-f]{0,4})?[^\"\\]*(?:\"[,:\]} \n]*)?", _ESCAPES),
    ("here", rb"(?s).*://\[V", "letters of RFC 3986 in either case (RFC 5234, 2.3)"),
    ("here", rb"(?s).*@\[I[PVpv6:]*", "mail to an address literal (RFC 5321, 4.1.3)"),
    ("here", rb"(?s)\"\xef(?:\xbb\xbf?)?", "\\\\s in a pattern has U+FEFF (ECMA-262, 12.2)"),
    ("there", rb"(?s).*\\r[^\"\\]*", "the dot of a pattern is no carriage return (ECMA-262, 22.2.2.7)"),
    ("there", rb"(?s).*(?:[eE][+-]?[0-9]{3,}\]?|\.[0-9]{39,}|[0-9]{64,})", _DIGITS),
    ("there", rb"(?s).*:6.*", "leap seconds only where UTC has them (RFC 3339, 5.7)"),
    ("there", rb"(?s).*(?:[\x0b\x0c\x85\xc2\xe1\xe2\xe3][\x80-\xc2\x20]*|[ \t\n\r]{39,})[^ ]{0,8}", _SPACE),
    ("there", rb"\"(?:(?:[A-Za-z0-9-]+\.){3,}[A-Za-z0-9.-]*\"?|[!-~]{64,})", _NAMES),
    ("there", rb"(?s).*</s>", 'the end token never stands inside a text (stop="")'),
)


class _Tokenizer:
    """What llguidance asks of a tokenizer."""

    def __init__(self, tokens: list[bytes]) -> None:
        self.eos_token_id, self.bos_token_id, self.tokens = len(tokens) - 1, None, tokens
        self.special_token_ids = [len(tokens) - 1]

    def __call__(self, text: bytes | str) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)


class Pair:
    """Both engines over one vocabulary."""

    def __init__(self, vocab: str | None = None) -> None:
        self.explained: Counter[str] = Counter()
        self.is_json = False  # whether the grammar has %json in it
        if vocab is None:
            longer = sorted({token.encode() for token in LONGER.split(",") if len(token.encode()) > 1})
            self.tokens = [*(bytes([b]) for b in range(256)), *longer, b"</s>"]
            self.end = len(self.tokens) - 1
            self.encode: Callable[[bytes], list[int]] = list
            wrapper = llguidance.TokenizerWrapper(_Tokenizer(self.tokens))
            self.tokenizer = llguidance.LLTokenizer(wrapper, n_vocab=len(self.tokens), eos_token=self.end)
            ours = cd.Vocabulary.from_bytes(self.tokens, eos_token_ids=self.end)
        else:
            tokenizer = Tokenizer(vocab)
            self.tokens, self.end = [token or b"" for token in tokenizer.tokens], tokenizer.eos
            self.tokens[self.end] = b"</s>"
            self.encode = lambda text: tokenizer.encode(text.decode(errors="ignore"))
            self.tokenizer = Llguidance(tokenizer).tokenizer
            ours = cd.Vocabulary.from_bytes(tokenizer.tokens, eos_token_ids=tokenizer.eos)
        self.compiler = cd.Compiler(ours)

    def ours(self, text: str) -> cd.Grammar | str:
        """The grammar, or why it is refused."""
        try:
            return self.compiler.compile(cd.Lark(text))
        except cd.GrammarError as error:
            return str(error).splitlines()[0]

    def theirs(self, text: str) -> Any:
        """A matcher, or why the grammar is refused."""
        grammar = llguidance.LLMatcher.grammar_from_lark('%llguidance {"no_forcing": true}\n' + text)
        matcher = llguidance.LLMatcher(self.tokenizer, grammar, log_level=0)
        return str(matcher.get_error()).splitlines()[0] if matcher.is_error() else matcher

    def masks(self, matcher: cd.Matcher, peer: Any) -> tuple[np.ndarray, np.ndarray]:
        """The tokens that each engine allows, as booleans."""
        row = np.zeros((1, (len(self.tokens) + 31) // 32), np.int32)
        matcher.fill_next_token_bitmask(row)
        ours = np.unpackbits(row.view(np.uint8)[0], bitorder="little")[: len(self.tokens)].astype(bool)
        return ours, np.frombuffer(peer.compute_logit_bias(), np.uint8) != 0

    def _explained(self, side: str, before: bytes, token: bytes) -> bool:
        """Whether a known difference explains why only one side allows a token; counts it."""
        why = next((why for who, pattern, why in KNOWN if who == side and re.fullmatch(pattern, before + token)), "")
        self.explained[why] += bool(why)
        return bool(why) and self.is_json

    def walk(self, grammar: cd.Grammar, peer: Any, text: bytes, rng: random.Random, steps: int) -> tuple[int, str]:
        """How many masks were compared, and the first difference or ``""``."""
        matcher, given = grammar.matcher(), self.encode(text)
        for step in range(len(given) + steps):
            ours, theirs = self.masks(matcher, peer)
            before = b"".join(self.tokens[t] for t in matcher.tokens)
            extra, lost = ([self.tokens[i] for i in np.flatnonzero(d)] for d in (ours & ~theirs, theirs & ~ours))
            extra = [token for token in extra if not self._explained("here", before, token)]
            lost = [token for token in lost if not self._explained("there", before, token)]
            if extra or lost:
                return step, f"after {before!r}: only here {extra[:6]}, only there {lost[:6]}"
            ours &= theirs
            allowed = np.flatnonzero(ours)
            plain = [i for i in allowed if i != self.end and self.tokens[i].isascii()]
            pool = [given[step]] if step < len(given) and ours[given[step]] else plain or list(allowed)
            if not pool:
                return step, ""
            token = int(rng.choice(pool))
            if not (matcher.accept_token(token) and peer.consume_token(token)) or token == self.end or peer.is_stopped():
                return step, ""
        return len(given) + steps, ""


def recorded(directory: Path) -> Iterator[tuple[str, str, list[bytes]]]:
    """Names, grammars and texts."""
    from lark_cases import CASES

    for name, (grammar, texts) in CASES.items():
        yield f"lark_cases: {name}", grammar, [text.encode() for text in texts]
    for file in ("llguidance", "guidance"):
        with gzip.open(directory / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for i, line in enumerate(lines):
                data = json.loads(line)
                if data["kind"] not in ("lark", "trace") or not isinstance(data["spec"], str) or data.get("sub"):
                    continue
                keys = ("accept", "reject", "open", "prefix", "reject_mid")
                texts = [text for key in keys for text in data.get(key, ())]
                raw = [bytes.fromhex(text["hex"]) if isinstance(text, dict) else text.encode() for text in texts]
                yield f"{file}:{i + 1}", data["spec"], raw or [b""]


def compare(pair: Pair, name: str, text: str, texts: list[bytes], walks: int, steps: int) -> tuple[str, str, int]:
    """``equal``, ``differs`` or ``refused …`` with a reason, and how many masks were compared."""
    grammar, peer = pair.ours(text), pair.theirs(text)
    if isinstance(grammar, str) or isinstance(peer, str):
        who = "both" if isinstance(grammar, str) and isinstance(peer, str) else "here" if isinstance(grammar, str) else "there"
        return f"refused {who}", str(grammar if isinstance(grammar, str) else peer)[:200], 0
    pair.is_json = "%json" in text or 'stop=""' in text
    rng, total = random.Random(name), 0
    for _ in range(walks):
        whole = rng.choice(texts)[:200]
        cut = whole[: rng.choice([0, rng.randint(0, len(whole)), len(whole)])]
        count, why = pair.walk(grammar, pair.theirs(text), cut, rng, steps)
        total += count
        if why:
            return "differs", why, total
    return "equal", "", total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--vocab", choices=["llama3", "tekken"])
    parser.add_argument("--walks", type=int, default=6)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    pair, counts, masks, others, seen = Pair(given.vocab), Counter[str](), 0, [], set()
    for name, text, texts in recorded(given.directory):
        if text in seen:
            continue
        seen.add(text)
        verdict, why, n = compare(pair, name, text, texts, given.walks, given.steps)
        counts[verdict] += 1
        masks += n
        if verdict not in ("equal", "refused both"):
            others.append({"name": name, "verdict": verdict, "why": why})
            print(verdict, name, why, sep=": ", flush=True)
    reasons = {why: n for why, n in pair.explained.items() if why}
    print(*(f"{n} tokens: {why}" for why, n in reasons.items()), sep="\n")
    print(f"{sum(counts.values())} grammars, {masks} masks", dict(counts))
    if given.json:
        given.json.write_text(
            json.dumps({"counts": counts, "masks": masks, "explained": reasons, "others": others}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
