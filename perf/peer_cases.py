"""What the peers' own tests expect beside what cdplugin does: agree, differ or refused, per file of recorded cases.

    python perf/peer_cases.py DIRECTORY [--only FILE] [--kind KIND] [--list differ refused]

``DIRECTORY`` holds ``*.jsonl.gz``, one case a line. A case has ``kind``, ``spec`` and what the peer says: ``accept`` (whole
texts), ``reject`` (refused anywhere), ``open`` (taken, not accepting), ``prefix`` / ``noprefix``, ``reject_mid``, ``walk``
(how far a text is taken and where it may end), ``out`` (a trace of llguidance's: tokens in turn, ``✖`` before those that
are refused), ``must_refuse``. The properties of a JSON Schema come in any order. The vocabulary has single bytes and the
tokens of the traces.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cdplugin as cd

_SPECIAL = re.compile(r'(?<!["\w`])<[|\w][^<>\s"\'\[\]]*>')
_LITERAL = re.compile(r'"(?:\\.|[^"\\\n])*"|/(?:\\.|[^/\\\n])+/')  # of Lark: texts and regular expressions
_IDS = re.compile(r"<\[([^\]]*)\]>")
_NAMED = re.compile(r"(<\w+>)")
_END = "≺EOS≻"
_MOST_ID = 40_000


class Case:
    """One recorded case, and the vocabulary that it runs with."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.kind = data["kind"]
        is_lark = self.kind in ("lark", "trace")
        text = json.dumps(data["spec"]) if not isinstance(data["spec"], str) else data["spec"]
        self.specials = sorted(set(_SPECIAL.findall(_LITERAL.sub('""', text)))) if is_lark else []
        self.trace = list(_trace(data)) if self.kind == "trace" else []
        self.specials += sorted({token for _, token in self.trace if _SPECIAL.fullmatch(token)} - set(self.specials))
        tokens = {token.encode() for _, token in self.trace if token != _END and not _IDS.fullmatch(token)}
        tokens -= {token.encode() for token in self.specials}
        if self.kind == "structural_tag":
            tokens |= {name.encode() for name in _NAMED.findall(text)}
        listed = [bytes([b]) for b in range(256)] + sorted(token for token in tokens if len(token) > 1)
        self.special_ids = {token: len(listed) + i for i, token in enumerate(self.specials)}
        listed += [token.encode() for token in self.specials]
        most = (
            max([int(n) for ids in _IDS.findall(text) for n in re.findall(r"\d+", ids)] or [0])
            if is_lark or self.kind == "gbnf"
            else 0
        )
        filler = [f"<[{i}]>".encode() for i in range(len(listed), min(most, _MOST_ID) + 1)]
        self.end = len(listed) + len(filler)
        self.tokens = [*listed, *filler, b"</s>"]

    @property
    def needs_ids(self) -> bool:
        """Whether the case is about the ids of a tokenizer's own tokens."""
        texts = [token for _, token in self.trace if not _IDS.fullmatch(token) and token != _END]
        named = self.kind == "gbnf" and "parts" in str(self.data["accept"]) and re.search(r"<\w+>", self.data["spec"])
        return bool(named) or (bool(texts) and bool(re.search(r"<\[[\d^]", str(self.data["spec"]))))

    def compiler(self) -> cd.Compiler:
        """A compiler for the vocabulary of this case; equal vocabularies share one."""
        key = tuple(self.tokens)
        if key not in _COMPILERS:
            _COMPILERS.clear()
            special = [
                i
                for i, token in enumerate(self.tokens)
                if i >= 256 and (token.startswith(b"<[") or i in self.special_ids.values())
            ]
            _COMPILERS[key] = cd.Compiler(
                cd.Vocabulary.from_bytes(self.tokens, eos_token_ids=self.end, special_token_ids=special)
            )
        return _COMPILERS[key]

    def ids_of(self, text: Any) -> list[int]:
        """The tokens of a recorded text; some of llama.cpp's name ids among their parts."""
        if isinstance(text, dict) and "parts" in text:
            return [i for part in text["parts"] for i in ([part] if isinstance(part, int) else part.encode())]
        return self.ids(_bytes(text))

    def ids(self, text: bytes) -> list[int]:
        """The tokens of a text: special tokens by their names, everything else byte by byte."""
        if not self.specials:
            return list(text)
        cut = re.split(b"(" + b"|".join(re.escape(token.encode()) for token in self.specials) + b")", text)
        return [
            i
            for part in cut
            for i in ([self.special_ids[part.decode()]] if part.decode("latin-1") in self.special_ids else part)
        ]


_COMPILERS: dict[tuple[bytes, ...], cd.Compiler] = {}


def spec_of(kind: str, spec: Any, options: dict[str, Any], data: dict[str, Any]) -> cd.Spec:
    """The spec of a case."""
    if kind == "json_schema":
        return cd.JsonSchema(spec, property_order="any", **_layout(options))
    if kind == "regex":
        return cd.Regex(spec, dialect=options.get("dialect", "rust"))
    if kind == "gbnf":
        return cd.Gbnf(spec)
    if kind == "ebnf":
        return cd.Ebnf(spec, root=options.get("root") or "root")
    if kind == "structural_tag":
        return cd.StructuralTag(spec)
    if kind in ("concat", "union"):
        parts = [spec_of(inner, one, given, data) for inner, one, given in _flat(kind, spec)]
        shape = "sequence" if kind == "concat" else "or"
        return cd.StructuralTag({"type": "structural_tag", "format": {"type": shape, "elements": parts}})
    grammars = _named((options.get("x") or {}).get("named_grammars"), data)
    if data.get("sub") is not None:
        grammars["sub"] = cd.Lark(data["sub"])
    if data.get("schema") is not None:
        grammars["sub"] = cd.JsonSchema(data["schema"])
    return cd.Lark(spec, grammars=grammars)


def _flat(kind: str, parts: list[Any]) -> Iterator[Any]:
    """The parts of a ``concat`` or ``union``; nested ones are replaced by their parts."""
    stack = list(reversed(parts))
    while stack:
        part = stack.pop()
        if part[0] == kind:
            stack += reversed(part[1])
        else:
            yield part


def _named(given: Any, data: dict[str, Any]) -> dict[str, cd.Spec]:
    """The grammars that ``@name`` stands for, if they were recorded as texts. A grammar that uses others gets them."""
    texts = {name: text for name, text in (given or {}).items() if isinstance(text, str)} if isinstance(given, dict) else {}
    out: dict[str, cd.Spec] = {}
    for _ in texts:
        for name, text in texts.items():
            used = set(re.findall(r"@(\w+)", text))
            if name not in out and used <= out.keys():
                out[name] = cd.Lark(text, grammars={one: out[one] for one in used})
    return out


def _layout(options: dict[str, Any]) -> dict[str, Any]:
    """Options of xgrammar's converter as cdplugin's options."""
    if options.get("x_any_whitespace", True):
        return {}
    indent, separators = options.get("x_indent"), options.get("x_separators")
    return {"indent": indent, "separators": separators or ([",", ": "] if indent is not None else [", ", ": "])}


def _trace(data: dict[str, Any]) -> Iterator[tuple[bool, str]]:
    """``(whether it is taken, token)`` of a trace, in order."""
    for piece in data["out"]:
        for part in piece.split("‧"):
            refused = part.split("✖")
            taken = refused.pop(0)
            if taken:
                yield True, taken
            # what follows the last mark is the refused token; what was cut by "‧" after it is taken again
            for token in refused:
                yield False, token


def _bytes(text: Any) -> bytes:
    return bytes.fromhex(text["hex"]) if isinstance(text, dict) else text.encode("utf-8", "surrogatepass")


def disagreements(case: Case, grammar: cd.Grammar) -> Iterator[str]:
    """Where the peer says something else, in words."""
    data = case.data

    def run(text: Any) -> tuple[int, bool, int]:
        ids = case.ids_of(text)
        matcher = grammar.matcher()
        taken = matcher.accept_tokens(ids)
        return taken, taken == len(ids) and matcher.is_accepting(), len(ids)

    wanted = {"accept": (True, True), "reject": (None, False), "open": (True, False), "prefix": (True, None)}
    wanted |= {"noprefix": (False, None), "reject_mid": (False, None)}
    for key, (whole, accepting) in wanted.items():
        for text in data.get(key, ()):
            taken, ends, length = run(text)
            if (whole is not None and whole != (taken == length)) or (accepting is not None and accepting != ends):
                yield f"{key} {text!r:.120}: {taken} of {length} tokens, {'accepting' if ends else 'not accepting'}"
    for walk in data.get("walk", ()):
        yield from _walked(case, grammar, bytes.fromhex(walk["hex"]), walk["marks"])
    if case.trace and not any("↶" in token for _, token in case.trace):
        yield from _traced(case, grammar)


def _walked(case: Case, grammar: cd.Grammar, text: bytes, marks: list[Any]) -> Iterator[str]:
    for length, accepting in marks:
        matcher = grammar.matcher()
        ids = case.ids(text[:length])
        taken = matcher.accept_tokens(ids)
        if taken != len(ids) or matcher.is_accepting() != accepting:
            yield f"walk {text[:length]!r:.120}: {taken} taken, accepting {matcher.is_accepting()}, the peer {accepting}"
            return


def _traced(case: Case, grammar: cd.Grammar) -> Iterator[str]:
    numbers = {token: i for i, token in enumerate(case.tokens)}
    matcher = grammar.matcher()
    text = case.data["prompt"] or ""
    for taken, token in case.trace:
        if token == _END:
            if matcher.is_accepting() != taken:
                yield f"trace {text!r}: accepting {matcher.is_accepting()}"
                return
            continue
        is_id = _IDS.fullmatch(token)
        number = int(is_id[1]) if is_id else case.special_ids.get(token, numbers.get(token.encode()))
        assert number is not None
        if taken != bool(matcher.validate_tokens([number])):
            yield f"trace {text!r} {'+' if taken else '-'} {token!r}"
            return
        if taken:
            matcher.accept_token(number)
            text += token


def verdict(data: dict[str, Any]) -> tuple[str, list[str]]:
    """``agree``, ``differ`` or ``refused`` for one case, and why."""
    if "orig" in data:  # a macro of xgrammar's, as it was written
        data = {**data, "kind": "ebnf", "spec": data["orig"], "options": {}}
    case = Case(data)
    if case.needs_ids:
        return "skipped", []
    wants_error = bool(data.get("must_refuse"))
    try:
        grammar = case.compiler().compile(spec_of(case.kind, data["spec"], data.get("options") or {}, data))
    except cd.GrammarError as error:
        if wants_error or data.get("peer_error") or data.get("llama_refuses"):
            return "agree", []
        return "refused", [str(error).replace("\n", " ⏎ ")[:300]]
    if wants_error:
        return "differ", [f"the peer refuses it: {str(data.get('err') or data.get('peer_error'))[:120]}"]
    found = list(disagreements(case, grammar))
    return ("differ", found) if found else ("agree", [])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", default="", help="files whose names hold this")
    parser.add_argument("--kind", default="")
    parser.add_argument("--list", nargs="*", default=[], choices=["agree", "differ", "refused"])
    parser.add_argument("--every", type=int, default=1, help="only every n-th case")
    given = parser.parse_args()
    for path in sorted(given.directory.glob("*.jsonl.gz")):
        if given.only not in path.name:
            continue
        counts: dict[str, Counter[str]] = {}
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for i, line in enumerate(lines):
                data = json.loads(line)
                if i % given.every or (given.kind and data["kind"] != given.kind):
                    continue
                found, why = verdict(data)
                counts.setdefault(data["kind"], Counter())[found] += 1
                if found in given.list:
                    print(f"{found}: {path.name}:{i + 1} {data['source']}", *why[:3], sep="\n    ", flush=True)
        for kind, counter in counts.items():
            row = " / ".join(
                f"{counter[key]} {key}" for key in ("agree", "differ", "refused", "skipped") if counter[key] or key != "skipped"
            )
            print(f"{path.name.removesuffix('.jsonl.gz'):12} {kind:15} {row}", flush=True)


if __name__ == "__main__":
    main()
