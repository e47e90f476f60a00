"""Random requests of every kind, right, changed and hostile: does the door say of each what the compiler says?

    python tests/door_fuzz.py --cases 20000 --seed 7        # longer than the test that runs some of them

A request is ``(kind, text)``, as vLLM hands it to a backend. Two engines see it: ``check`` of one (the door) and ``state``
of the other (the compiler). Both have to raise the same error, or neither any. Then the first steps are walked, in which
nothing may be given up. The door may foresee a ``LimitExceeded`` that the compiler cannot: that is no disagreement.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from json_schema_fuzz import Mutator, crowded, places, suite_cases

import cdplugin as cd
from cdplugin.adapters.serving.requests import ServerOptions, spec_of
from cdplugin.adapters.vllm.grammar import Engine
from cdplugin.errors import GrammarError

STEPS = 50
Request = tuple[str, str]

# ---- requests ----------------------------------------------------------------------------------------------------------------

NUMBERS: list[Any] = [
    0,
    1,
    2,
    3,
    7,
    30,
    64,
    1000,
    100_000,
    2**24,
    2**24 + 1,
    2**31 - 1,
    2**63,
    1e300,
    -1,
    0.5,
    1e-300,
    True,
    "3",
]
ODD: list[Any] = [None, True, [], {}, "", "x", [{}], {"": []}, [None], 0, -1, 1e300, "\ud800", [1, "1"], {"type": "string"}]
PATTERNS = [
    "^[a-z]+$",
    "(?=.*[A-Z])(?=.*[0-9]).{8,}",
    "[A-Z]",
    "[0-9]",
    "^.{14,64}$",
    "(a|b)*a(a|b){12}",
    "a.{8}b",
    "^(a{1,30}){1,30}$",
    "\\p{L}+",
    "^[^\\s@]+@[^\\s@]+\\.[a-z]{2,}$",
    "(",
    "(a)\\1",
    "a{5,2}",
    "[z-a]",
    "x{0,16777217}",
    "x{0,16777216}",
    "(?!a)b",
    "$^",
    "\\d{3}-\\d{4}",
    ".*a.*b.*c.*",
]
FORMATS = ["date", "date-time", "email", "ipv4", "ipv6", "uuid", "uri", "hostname", "regex", "no-such", "time", "json-pointer"]
COUNTS = [f"{end}{what}" for end in ("min", "max") for what in ("Length", "Items", "Properties", "Contains", "imum")] + [
    "multipleOf"
]
_MUTATOR = Mutator(list(suite_cases()))


def json_request(rng: random.Random) -> Request:
    """A schema: a changed one of the official suite, a random one, or one with hostile values."""
    schema = (crowded(rng) if rng.random() < 0.4 else _MUTATOR.case(rng)).schema
    for _ in range(rng.choice([0, 0, 1, 1, 2, 4])):
        _spoil(rng, schema)
    text = json.dumps(schema)
    return "JSON", _scribbled(rng, text, '{}[]",:0') if rng.random() < 0.05 else text


def _spoil(rng: random.Random, schema: Any) -> None:
    """Put something hostile into one of the places of a schema."""
    spots = [sub for _, _, sub, _ in places(schema) if isinstance(sub, dict)]
    if not spots:
        return
    sub = rng.choice(spots)
    way = rng.random()
    if way < 0.35:
        sub[rng.choice(COUNTS)] = rng.choice(NUMBERS)
    elif way < 0.5:
        sub.update(type="string", pattern=rng.choice(PATTERNS))
    elif way < 0.6:
        sub["allOf"] = [{"pattern": p} for p in rng.sample(PATTERNS, rng.randint(1, 4))]
        sub["not"] = {"pattern": rng.choice(PATTERNS)}
    elif way < 0.7:
        sub.update(type="string", format=rng.choice(FORMATS), maxLength=rng.choice(NUMBERS))
    elif way < 0.75:
        sub.update(type="array", uniqueItems=True, items={"enum": [0, 1, "a"]}, minItems=rng.choice([0, 2, 3, 4, 5]))
    elif way < 0.8:
        sub.update(type="object", patternProperties={rng.choice(PATTERNS): {}}, minProperties=rng.choice(NUMBERS))
    elif sub:
        sub[rng.choice(list(sub))] = copy.deepcopy(rng.choice(ODD))


def regex_request(rng: random.Random) -> Request:
    """Fragments one after the other, grouped and counted; now and then with a character too many or too few."""
    parts = [rng.choice([*PATTERNS, "a", "b?", "[^a]", ".", "\\w", "|", "é", "(?i)k"]) for _ in range(rng.randint(1, 4))]
    if rng.random() < 0.3:
        parts = ["(", *parts, ")", rng.choice(["*", "+", "{2,}", "{0,1000}", "{3}", "{0,16777217}"])]
    text = "".join(parts)
    return "REGEX", _scribbled(rng, text, "()[]{}*+?\\|,^$09az") if rng.random() < 0.3 else text


def choice_request(rng: random.Random) -> Request:
    """Texts; now and then something else."""
    texts: list[Any] = ["yes", "no", "", "a" * rng.choice([1, 1000]), "é", '"', "\n", "yesterday"]
    listed: Any = [rng.choice(texts if rng.random() < 0.95 else ODD) for _ in range(rng.choice([0, 1, 2, 5, 50]))]
    text = json.dumps(rng.choice(ODD) if rng.random() < 0.1 else listed)
    return "CHOICE", _scribbled(rng, text, '[]",\\') if rng.random() < 0.1 else text


GRAMMARS = [
    'root ::= "(" root ")" | [0-9]+\n',
    'root ::= item ("," item)*\nitem ::= [a-z]{1,5} | "\\"" [^"]* "\\""\n',
    'root ::= a b? c*\na ::= "a" | ""\nb ::= a a\nc ::= "x"{2,4}\n',
    'root ::= root "+" root | [0-9]\n',
    "<root> ::= <b> 'c' ;\n<b> ::= 'b' | 'bb' ;\n",
    'start: nested\nnested: "(" nested ")" | "x"\n',
    'start: WORD ("," WORD)*\nWORD: /[a-z]+/\n%ignore " "\n',
    "start: A B\nA: /a+/ & /(aa)*/\nB: /[^b]/ & ~/x/\n",
    'start: NAME "=" value\nvalue: NUMBER | STRING\nNAME: /[a-z_]+/\nNUMBER: /[0-9]+/\nSTRING: /"[^"]*"/\n%ignore /[ \\t]+/\n',
    'start: %json {"type": "object", "properties": {"a": {"type": "string", "maxLength": 5}}}\n',
    'start: a::0\na::_: "x" %if bit_clear(0) b::set_bit(0) | "y"\nb::_: "z" %if bit_set(0)\n',
    'start: text "!"\ntext[max_tokens=20]: /[a-z ]*/\n',
    "start: body\nbody[lazy]: /(.|\\n)*END/\n",
    'start: T{2,5} (A | B)~3\nT: "t"\nA: "a"\nB: /b{2,1000}/\n',
]
_PIECES = [
    '"a"',
    "[a-z]",
    "/x*/",
    "|",
    "(",
    ")",
    "*",
    "+",
    "?",
    "{2,3}",
    "{1000000}",
    "::=",
    ":",
    "\n",
    "a",
    "root",
    "start",
    "&",
    "~/a/",
    "",
]


def grammar_request(rng: random.Random) -> Request:
    """One of some grammars, with words replaced, lines lost or repeated, and characters changed."""
    text = rng.choice(GRAMMARS)
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        words = text.split(" ")
        words[rng.randrange(len(words))] = rng.choice(_PIECES)
        text = " ".join(words)
    lines = text.split("\n")
    if rng.random() < 0.1:
        del lines[rng.randrange(len(lines))]
    if rng.random() < 0.1:
        lines.append(rng.choice([*lines, ""]))
    text = "\n".join(lines)
    return "GRAMMAR", _scribbled(rng, text, '"/()[]{}*+?|:=~&\\ \n;<>0az') if rng.random() < 0.3 else text


_CONTENTS: list[Any] = [
    {"type": "json_schema", "json_schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}},
    {"type": "json_schema", "json_schema": {"type": "string", "minLength": 2**31}},
    {"type": "regex", "pattern": "[a-z]{1,4}"},
    {"type": "grammar", "grammar": 'root ::= "a" | "b"'},
    {"type": "const_string", "value": "done"},
    {"type": "any_text"},
    {"type": "any_text", "excludes": ["</x>"]},
    {"type": "or", "elements": [{"type": "const_string", "value": "a"}, {"type": "regex", "pattern": "b+"}]},
    {"type": "sequence", "elements": [{"type": "const_string", "value": "a"}, {"type": "any_text"}]},
]


def tag_request(rng: random.Random) -> Request:
    """A structural tag in one of vLLM's two shapes; now and then one of its values is replaced."""
    content = copy.deepcopy(rng.choice(_CONTENTS))
    tag: Any = {"begin": "<x>", "content": content, "end": rng.choice(["</x>", "", "</"])}
    shapes: list[Any] = [
        {"type": "structural_tag", "format": {"type": "tag", **tag}},
        {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<x"], "tags": [tag]}},
        {"format": {"type": "tags_with_separator", "tags": [tag, {**tag, "begin": "<y>"}], "separator": ","}},
        {"structures": [{"begin": "<x>", "schema": {"type": "integer"}, "end": "</x>"}], "triggers": ["<x"]},
        {"format": content},
    ]
    made = rng.choice(shapes)
    for _ in range(rng.choice([0, 0, 1, 2])):
        holder, key = rng.choice(list(_spots(made)))
        holder[key] = copy.deepcopy(rng.choice([*ODD, *_CONTENTS]))
    text = json.dumps(made)
    return "STRUCTURAL_TAG", _scribbled(rng, text, '{}[]",:') if rng.random() < 0.05 else text


def _spots(made: Any) -> Iterator[tuple[Any, Any]]:
    """The places of values in lists and objects."""
    waiting = [made]
    while waiting:
        part = waiting.pop()
        for key in part if isinstance(part, dict) else range(len(part)):
            yield part, key
            if isinstance(part[key], (dict, list)):
                waiting.append(part[key])


def _scribbled(rng: random.Random, text: str, characters: str) -> str:
    """A text with one to three characters inserted, removed or replaced."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(text))
        text = text[:at] + rng.choice([*characters, ""]) + text[at + rng.randint(0, 1) :]
    return text


MAKERS: dict[str, tuple[int, Callable[[random.Random], Request]]] = {
    "JSON": (10, json_request),
    "JSON_OBJECT": (1, lambda rng: ("JSON_OBJECT", "")),
    "REGEX": (3, regex_request),
    "CHOICE": (2, choice_request),
    "GRAMMAR": (4, grammar_request),
    "STRUCTURAL_TAG": (4, tag_request),
}


def request(rng: random.Random) -> Request:
    kinds = list(MAKERS)
    kind = rng.choices(kinds, [MAKERS[k][0] for k in kinds])[0]
    return MAKERS[kind][1](rng)


# ---- what two engines say ----------------------------------------------------------------------------------------------------


class Verdict(NamedTuple):
    """What became of a request: ``"admitted"``, ``"refused"``, ``"foreseen"`` (it compiles, but its first steps would cross
    a budget), or what is wrong; and the error that says so.
    """

    what: str
    error: str = ""


def said(action: Callable[..., object], *arguments: Any) -> str:
    """The error that a call raises, with its type; empty if it raises none. An error that is not cdplugin's begins with
    ``"foreign"``.
    """
    try:
        action(*arguments)
    except Exception as error:
        return f"{'' if isinstance(error, GrammarError) else 'foreign '}{type(error).__name__}: {error}"
    return ""


def verdict(door: Engine, engine: Engine, asked: Request, rng: random.Random) -> Verdict:
    """Put a request to the door of one engine and to the compiler of another. Walk if it is admitted."""
    before = said(door.check, *asked)
    after = said(engine.state, *asked)
    if before.startswith("foreign") or after.startswith("foreign"):
        return Verdict("foreign error", f"{before} / {after}")
    if before.startswith("LimitExceeded") and not after:
        return Verdict("foreseen", before)
    if before and not after:
        return Verdict("only the door refuses", before)
    if after and not before:
        return Verdict("only the compiler refuses", after)
    if before != after:
        return Verdict("different errors", f"{before} / {after}")
    if before:
        return Verdict("refused", before)
    stopped = said(walk, engine, asked, rng)
    return Verdict("given up on the way", stopped) if stopped else Verdict("admitted")


def walk(engine: Engine, asked: Request, rng: random.Random, steps: int = STEPS) -> None:
    """Follow random allowed tokens. Raises :class:`GrammarError` if the engine gives up."""
    matcher = engine.compiler.compile(spec_of(*asked, engine.options)).matcher()
    row = np.zeros((1, (engine.vocab.size + 31) // 32), np.int32)
    for _ in range(steps):
        if matcher.is_terminated():
            return
        matcher.fill_next_token_bitmask(row)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8).ravel(), bitorder="little"))
        assert len(allowed), "dead end"
        assert matcher.accept_token(int(rng.choice(allowed.tolist())))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=list(MAKERS), help="of this kind only")
    parser.add_argument("--show", type=int, default=20, help="how many of each to print")
    arguments = parser.parse_args()
    vocab = cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"<end>"], eos_token_ids=256)
    counts: Counter[str] = Counter()
    for case in range(arguments.cases):
        if case % 2000 == 0:
            door, engine = Engine(vocab, ServerOptions()), Engine(vocab, ServerOptions())
        rng = random.Random(f"{arguments.seed} {case}")
        asked = MAKERS[arguments.kind][1](rng) if arguments.kind else request(rng)
        found = verdict(door, engine, asked, rng)
        counts[found.what] += 1
        if found.what not in ("admitted", "refused", "foreseen") and counts[found.what] <= arguments.show:
            print(case, found.what, asked[0], asked[1][:600].replace("\n", "\\n"), "\n    ", found.error[:400], flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
