"""Formats beside the official suite, jsonschema's checkers on texts that the expressions generate, and peers on near misses."""

from __future__ import annotations

import base64
import calendar
import doctest
import ipaddress
import itertools
import json
import random
import re
import shutil
import subprocess
import warnings
from collections.abc import Callable, Iterator
from functools import cache

import pytest
from engine_tools import cases
from json_schema_tools import suite_groups
from naive import Derivatives

from cdplugin import Compiler, GrammarError, JsonSchema, UnsupportedError, Vocabulary, expr
from cdplugin.expr import Expr
from cdplugin.frontends.json_schema import formats, formats_data
from cdplugin.frontends.json_schema.formats import SINCE, content_encoding_expr, format_expr
from cdplugin.ir import GrammarIR
from cdplugin.regex import pattern as regex
from cdplugin.regex.alphabet import JSON_CANONICAL, JSON_STRING, UTF8, Alphabet

NAMES = sorted(SINCE)
COMPILER = Compiler(Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"</s>"], eos_token_ids=256))

# --- tools ------------------------------------------------------------------------------------------------------------------


def matcher(expression: Expr) -> Callable[[bytes], bool]:
    lexer = Derivatives()
    start = lexer.convert(expression)

    def matches(text: bytes) -> bool:
        node = start
        for byte in text:
            node = lexer.derive(node, byte)
        return lexer.nullable(node)

    return matches


@cache
def format_matcher(name: str, portable: bool = True, alphabet: Alphabet = UTF8) -> Callable[[bytes], bool]:
    expression = format_expr(name, alphabet, portable=portable)
    assert expression is not None
    return matcher(expression)


def accepts(name: str, text: str, portable: bool = True) -> bool:
    """Whether plain text is accepted. As a JSON string the answer must be the same."""
    found = format_matcher(name, portable)(text.encode())
    assert format_matcher(name, portable, JSON_STRING)(JSON_CANONICAL.spell(text)) == found
    return found


def sample(node: Expr, rng: random.Random) -> bytes:
    """A word of ``node``, but of an intersection only of its first part, and nothing for a complement."""
    op, args = node.op, node.args
    if op == expr.BYTES_OP:
        return bytes([rng.choice([b for b in range(256) if args[0] >> b & 1])])
    if op == expr.LITERALS_OP:
        return rng.choice(args)
    if op == expr.CAT_OP:
        return b"".join(sample(part, rng) for part in args)
    if op == expr.ALT_OP:
        return sample(rng.choice(args), rng)
    if op == expr.AND_OP:
        return sample(args[0], rng)
    if op == expr.REPEAT_OP:
        child, low, high = args
        top = low + rng.choice((0, 0, 1, 1, 2, 3, 5, 8, 13, 64))
        return b"".join(sample(child, rng) for _ in range(rng.randint(low, top if high is None else min(top, high))))
    assert op == expr.EPSILON_OP
    return b""


def samples(name: str, count: int, seed: int, portable: bool = True) -> list[str]:
    """Distinct words of the format, spelt in JSON by the engine's expression and read by ``json``."""
    expression = format_expr(name, JSON_STRING, portable=portable)
    assert expression is not None
    matches, rng = format_matcher(name, portable, JSON_STRING), random.Random(f"{name} {seed}")
    words: dict[str, None] = {}
    for _ in range(8 * count):
        word = sample(expression, rng)
        if matches(word):
            words[json.loads(b'"' + word + b'"')] = None
        if len(words) >= count:
            break
    assert len(words) >= count // 4
    return list(words)


def mutations(words: list[str], count: int, seed: int, alphabet: str) -> Iterator[str]:
    """Words with one to three characters deleted, inserted, replaced or doubled."""
    rng = random.Random(seed)
    for _ in range(count):
        word = list(rng.choice(words))
        for _ in range(rng.randint(1, 3)):
            i = rng.randint(0, len(word))
            word[i : i + rng.randint(0, 1)] = rng.choice(
                ("", rng.choice(alphabet), rng.choice(alphabet), "".join(word[i : i + 2]) * 2)
            )
        yield "".join(word)


def conforms(name: str, text: str) -> bool:
    """By jsonschema's checker of Draft 2020-12. (``FormatChecker()`` takes its ``time`` from Draft 3.)"""
    jsonschema = pytest.importorskip("jsonschema")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # re: possible nested set
        return jsonschema.Draft202012Validator.FORMAT_CHECKER.conforms(text, name)


# --- the official suite -----------------------------------------------------------------------------------------------------

PUNYCODE = "validation of A-label (punycode) host names"
NAMED = "ECMA 262 named groups and backreferences are valid"
LABELS = "validation of internationalized host names"
LONG = "validation of separators in internationalized host names"
NOT_PORTABLE = {
    "validation of date-time strings": 2,  # leap seconds
    "validation of time strings": 6,
    "ECMA 262 lookbehind is valid, including variable width": 1,
    "ECMA 262 character classes and escapes": 3,
    "validation of IRIs": 5,  # [V1.fe]
    "validation of Relative JSON Pointers (RJP)": 1,  # 100
    "format: uri-template": 2,  # {%41}, {v:1000}
}
NEVER = {PUNYCODE: 15, NAMED: 2, LABELS: 4, LONG: 4}


@pytest.mark.parametrize("portable", [True, False])
@pytest.mark.parametrize(("draft", "groups"), [("draft2020-12", 28), ("draft7", 26)])
def test_official_suite(draft: str, groups: int, portable: bool) -> None:
    """No invalid instance is accepted. The tables say how many valid instances of which groups are not."""
    seen, masked = 0, {}
    for _, group in suite_groups(f"{draft}/optional/format/"):
        seen += 1
        name = group["schema"]["format"]
        if name not in SINCE:
            assert format_expr(name, JSON_STRING) is None
            continue
        for test in (t for t in group["tests"] if isinstance(t["data"], str)):
            accepted = accepts(name, test["data"], portable)
            assert test["valid"] or not accepted, (name, test)
            if test["valid"] and not accepted:
                masked[group["description"]] = masked.get(group["description"], 0) + 1
    assert seen == groups
    expected = NEVER | (NOT_PORTABLE if portable else {})
    if draft == "draft7":
        expected = {k: v for k, v in expected.items() if k in masked}
    assert masked == expected
    assert portable or seen - len(masked) >= 22


# --- what is generated is valid ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_samples_conform(name: str) -> None:
    wrong = [text for text in samples(name, cases(400, 80), 1) if not conforms(name, text)]
    assert wrong == []


@pytest.mark.parametrize("name", ["hostname", "email", "idn-email", "idn-hostname"])
def test_lengths(name: str) -> None:
    for text in samples(name, cases(300, 60), 2):
        local, _, domain = text.rpartition("@")
        assert len(local.encode()) <= 64
        if not domain.startswith("["):
            labels = re.split("[.\u3002\uff0e\uff61]", domain)
            assert max(map(len, labels)) <= 63 and len(domain) <= 253 and len(text.encode()) <= 254 + 63 * (name[:3] == "idn")


def test_idn_labels_fit() -> None:
    """The bound in LABEL_SIZES, by its own argument; the least delta of each length over every bias (RFC 3492, section 3.3)."""

    def digits(delta: int, bias: int) -> int:
        count, k = 0, 36
        while True:
            threshold = min(max(k - bias, 1), 26)
            count += 1
            if delta < threshold:
                return count
            delta = (delta - threshold) // (36 - threshold)
            k += 36

    least = {2: 1, 3: 36, 4: 1261, 5: 28886, 6: 288886, 7: 2888886}
    for length, delta in least.items():
        found = [digits(delta, bias) for bias in range(300)]
        assert max(found) == length and max(digits(delta - 1, bias) for bias in range(300)) == length - 1
    for n, top in formats_data.LABEL_SIZES:
        for k in range(1, n + 1):
            total = (top - 128) * n + k * n
            longest = 4 + (n - k) + (n > k) + k + sum(min(k, total // delta) for delta in least.values())
            assert longest <= 62, (n, top, k)


def test_idn_tables_are_what_they_say() -> None:
    idna = pytest.importorskip("idna")
    import unicodedata

    marks = formats_data.table(formats_data._MARKS)
    starts, spacing, rtl = (formats_data.table(getattr(formats_data, t)) for t in ("_LETTERS", "_SPACING", "_RIGHT_TO_LEFT"))
    code_points = [(c, kind) for kind, t in enumerate((starts, spacing, marks, rtl)) for a, b in t for c in range(a, b + 1)]
    assert len(code_points) > 40000
    composing = {
        d.split()[-1] for c in range(0x110000) if (d := unicodedata.decomposition(chr(c))) and d[0] != "<" and " " in d
    }
    for c, kind in code_points:
        char = chr(c)
        assert unicodedata.ucd_3_2_0.category(char) != "Cn" and f"{c:04X}" not in composing
        assert (unicodedata.combining(char) != 0) == (kind == 2)
        assert (unicodedata.category(char)[0] == "M") == (kind in (1, 2))
        assert (unicodedata.bidirectional(char) in ("R", "AL")) == (kind == 3)
        assert kind != 2 or unicodedata.bidirectional(char) == "NSM"
        assert unicodedata.bidirectional(char) != "AN"
        if c % 7 == 0 or kind:
            before = {0: "", 1: "\u0915", 2: "\u0915", 3: ""}[kind]
            idna.encode(before + char)


NODE = """
for (const p of JSON.parse(require('fs').readFileSync(0))) {
  try { new RegExp(p, 'u') } catch (e) { console.log(p, e.message) }
}"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed: no ECMA-262 reference")
def test_regexes_are_ecma() -> None:
    """The reference is ``new RegExp(text, "u")`` in Node. jsonschema would ask Python's ``re``."""
    for portable in (True, False):
        texts = samples("regex", cases(200, 50, 50), 3, portable)
        run = subprocess.run(
            ["node", "-e", NODE], input=json.dumps(texts), capture_output=True, text=True, timeout=60, check=True
        )
        assert run.stdout == ""


# --- what nearly fits: as peers have it -------------------------------------------------------------------------------------


def is_address(version: int) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            found = ipaddress.ip_address(text)
        except ValueError:
            return False
        return found.version == version and "%" not in text

    return check


def is_duration(text: str) -> bool:
    """The units of RFC 3339, appendix A, as runs without gaps."""
    found = re.fullmatch(r"P((?:[0-9]+[YMWD])*)(?:T((?:[0-9]+[HMS])+))?", text)
    if not found or text == "P" or len(text) > 90:
        return False
    date, time = ("".join(c for c in part or "" if c.isalpha()) for part in found.groups())
    return (date == "W" and not time) or (date in "YMD" and time in "HMS")


def is_uuid(text: str) -> bool:
    parts = text.split("-")
    return [len(p) for p in parts] == [8, 4, 4, 4, 12] and set("".join(parts)) <= set("0123456789abcdefABCDEF")


def is_pointer(text: str) -> bool:
    return (not text or text[0] == "/") and "~" not in text.replace("~0", "_").replace("~1", "_")


def is_hostname(text: str) -> bool:
    labels = text.split(".")
    fits = any(len(labels) <= len(row) and all(len(x) <= n for x, n in zip(labels, row)) for row in formats_data.NAME_SIZES)
    return fits and all(
        re.fullmatch("[A-Za-z0-9-]+", x)
        and x[0] != "-"
        and x[-1] != "-"
        and (x[:4].lower() != "xn--" or (i < 3 and has_one_letter(x)))
        for i, x in enumerate(labels)
    )


def has_one_letter(label: str) -> bool:
    """Whether a valid A-label stands for one letter from à to ÿ beside at most 20 of ASCII and single hyphens."""
    idna = pytest.importorskip("idna")
    try:
        text = idna.decode(label)
        if text.isascii() or idna.encode(text).decode() != label:
            return False
    except idna.IDNAError:
        return False
    others = [c for c in text if not c.isascii()]
    return (
        len(others) == 1
        and "à" <= others[0] <= "ÿ"
        and 2 <= len(text) <= 21
        and not re.search("^-|--|-$", text.replace(others[0], ""))
    )


@pytest.mark.parametrize("name", ["hostname", "idn-hostname"])
def test_a_labels_of_one_letter(name: str) -> None:
    """All three digits that may follow some beginnings; and labels that :mod:`idna` writes."""
    idna = pytest.importorskip("idna")
    digits = "abcdefghijklmnopqrstuvwxyz0123456789"
    for begun in ("a", "a1-b", "a" * 20)[: 3 if name == "hostname" else 1]:
        labels = [f"xn--{begun}-{''.join(three)}" for three in itertools.product(digits, repeat=3)]
        taken = [label for label in labels if accepts(name, label)]
        assert len(taken) == 31 * (len(begun) + 1) and all(map(has_one_letter, taken))
    rng = random.Random(8)
    for _ in range(400):
        text = "".join(rng.choice("abcxyz0189") for _ in range(rng.randrange(1, 21)))
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice("àáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿ") + text[at:]
        assert accepts(name, f"www.{idna.encode(text).decode()}.de"), text


def by_rfc3987(name: str) -> Callable[[str], bool]:
    """Package rfc3987-syntax has the grammar of RFC 3987; what is ASCII of it is RFC 3986's."""
    rule = name.replace("uri", "iri").replace("-", "_")

    def check(text: str) -> bool:
        syntax = pytest.importorskip("rfc3987_syntax")
        return (text.isascii() or name[0] == "i") and bool(syntax.is_valid_syntax(rule, text))

    return check


EXACT = [
    ("ipv4", is_address(4), "0123456789.25a: "),
    ("ipv6", is_address(6), "0123456789abcdefABg:::::."),
    ("duration", is_duration, "0123PYMWDTHS."),
    ("uuid", is_uuid, "0123456789abcdefABCDEFg-"),
    ("json-pointer", is_pointer, "/~01a/~\n"),
    ("hostname", is_hostname, "aZ09-.-.xXnN_ "),
    ("uri", by_rfc3987("uri"), "aZ9:/?#@%41.-_~!$&'()*+,;= <é"),
    ("uri-reference", by_rfc3987("uri-reference"), "aZ9:/?#@%41.-_~!$&'()*+,;= <é"),
    ("iri", by_rfc3987("iri"), "aé\u2028\ue000\U0001f600:/?#@%41. <\uffff"),
    ("iri-reference", by_rfc3987("iri-reference"), "aé\u2028\ue000\U0001f600:/?#@%41. <\uffff"),
]


@pytest.mark.parametrize(("name", "check", "alphabet"), EXACT, ids=[row[0] for row in EXACT])
def test_as_peers_have_it(name: str, check: Callable[[str], bool], alphabet: str) -> None:
    words = [w for w in samples(name, 300, 4) if len(w) < 80]
    count = 3000
    if "ri" in name:  # IP literals aside, where peers differ; this syntax is parsed in Python, which takes 20 ms for a text
        words, count = [w for w in words if "[" not in w], cases(300, 60)
    valid = 0
    for text in mutations(words, count, 5, alphabet):
        if "://[" in text:
            continue
        valid += check(text)
        assert accepts(name, text) == check(text), text
    assert count // 60 < valid < count - count // 60


def test_calendar() -> None:
    for year in (1, 4, 99, 100, 400, 1000, 1600, 1900, 1999, 2000, 2004, 2023, 2024, 2100, 9996, 9999):
        for month in range(14):
            last = calendar.monthrange(year, month)[1] if 1 <= month <= 12 else 0
            for day in (0, 1, 9, 10, 27, 28, 29, 30, 31, 32):
                assert accepts("date", f"{year:04}-{month:02}-{day:02}") == (1 <= day <= last)
    assert not accepts("date", "0000-01-01") and accepts("date", "0000-02-29", portable=False)
    assert accepts("date-time", "0000-02-29t00:00:00z", portable=False)


def test_leap_seconds() -> None:
    """23:59:60 UTC in every offset, and nothing else."""
    rng = random.Random(6)
    for local in range(0, 1440, 7):
        offsets = {(local + 1) % 1440, (local - 1439) % 1440, *(rng.randrange(1440) for _ in range(3))}
        for offset in offsets:
            for sign in (1, -1):
                text = f"{local // 60:02}:{local % 60:02}:60.25{'+' if sign > 0 else '-'}{offset // 60:02}:{offset % 60:02}"
                assert accepts("time", text, portable=False) == ((local - sign * offset) % 1440 == 1439), text
                assert not accepts("time", text)
    assert accepts("time", "23:59:60z", portable=False) and not accepts("time", "23:58:60z", portable=False)


@pytest.mark.parametrize(
    ("name", "text", "valid"),
    [
        ("hostname", "a" * 63 + ".b", True),
        ("hostname", "a" * 64 + ".b", False),
        ("hostname", ".".join(["a" * 63] * 3 + ["b" * 19] * 3), True),
        ("hostname", ".".join(["a" * 63] * 4), False),
        ("hostname", ".".join(["a" * 14] * 16), True),
        ("hostname", "x.xn.xn-a.xa--b.xnx--a.an--a", True),
        ("hostname", "a.XN--a", False),
        ("email", "a" * 64 + "@b", True),
        ("email", "a" * 65 + "@b", False),
        ("email", '"' + '\\"' * 31 + '"@b', True),
        ("email", '"' + '\\"' * 32 + '"@b', False),
        ("email", "a@[IPv6:1:2:3:4:5:6::]", True),
        ("email", "a@[IPv6:1:2:3:4:5:6:7::]", False),  # RFC 5321: "::" stands for two groups or more
        ("ipv6", "1:2:3:4:5:6:7::", True),
        ("idn-email", "é" * 32 + "@b", True),
        ("idn-email", "é" * 33 + "@b", False),
        ("idn-hostname", "правительство.рф", True),
        ("idn-hostname", "www.bücher.de", True),
        ("idn-hostname", "हिन्दी.भारत", True),
        ("idn-hostname", "שלום.example", True),
        ("idn-hostname", "שלום.1example", False),  # RFC 5893: it begins with a digit
        ("idn-hostname", "שלום.bücher", False),  # left out
        ("idn-hostname", "BÜCHER.de", False),
        ("idn-hostname", "col·lecció.cat", True),
        ("idn-hostname", "l·l·l", True),
        ("idn-hostname", "l·.l", False),
        ("idn-hostname", "ll·́l", False),
        ("idn-hostname", "α͵β", True),
        ("idn-hostname", "α͵.β", False),
        ("idn-hostname", "א׳ב״", True),
        ("idn-hostname", "׳א", False),
        ("idn-hostname", "ab・ァ", True),
        ("idn-hostname", "ab・é", False),
        ("idn-hostname", "क्‍ष", True),
        ("idn-hostname", "क‍ष", False),
        ("hostname", "xn--mnchen-3ya.de", True),
        ("hostname", "www.xn--caf-dma", True),
        ("hostname", "xn--caf-dmb", False),  # Ȝ
        ("hostname", "xn--aa-hka", False),  # ÷
        ("hostname", "xn--X", False),
        ("hostname", "xn--4gbwdl.xn--wgbh1c", False),  # left out
        ("uri", "http://[::1]:8080/", True),
        ("uri", "http://[::1]:8080]/", False),
        ("uri", "http://a:b@c:1/", True),
        ("uri", "urn:", True),
        ("time", "00:00:00." + "9" * 100 + "Z", True),
        ("uri-template", "{+a,b.c*,d:12}", True),
        ("uri-template", "{=a}", False),
        ("uri-template", "{,a.b*}", True),  # reserved for the future, and no checker minds
        ("regex", "(?:a(?=b(c{2,3}?)))*[^a-f\\d\\-]|$", True),
        ("regex", "((((a))))", False),  # left out
        ("regex", "a{3,2}", False),
        ("regex", "a{19,20}", True),
        ("regex", "a{20,19}", False),
        ("regex", "^*", False),
        ("regex", "[z-a]", False),
        ("relative-json-pointer", "10/a", True),
    ],
)
def test_by_hand(name: str, text: str, valid: bool) -> None:
    assert accepts(name, text) == valid


@pytest.mark.parametrize("operator", ["=", ",", "!", "@", "|"])
def test_reserved_operators_of_templates(operator: str) -> None:
    """RFC 6570, section 2.2, ``op-reserve``: by the grammar they are expressions, whatever they may mean one day."""
    assert accepts("uri-template", f"x{{{operator}a,b*}}", portable=False)
    for text in (f"{{{operator}}}", f"{{{operator}{operator}a}}", f"{{a{operator}}}"):
        assert not accepts("uri-template", text, portable=False), text


def test_beside_patterns() -> None:
    """An intersection with a pattern can be decided: lengths inside formats multiply few states."""
    for name, pattern, text in (
        ("email", r"@example\.com$", "john.doe@example.com"),
        ("hostname", r"\.example\.(com|org)$", "www.example.org"),
        ("uri", "^https?://", "https://example.com/a?b=c"),
        ("date-time", "Z$", "2024-02-29T00:00:00Z"),
        ("idn-hostname", r"\.de$", "www.bücher.de"),
    ):
        expression = format_expr(name, JSON_STRING)
        assert expression is not None
        ir = GrammarIR()
        ir.start = ir.nonterminal("text")
        ir.rule(ir.start, [ir.lexeme(expr.both(expression, regex.parse(pattern, "ecma", "u").search_expr(JSON_STRING)))])
        found = COMPILER.compile_ir(ir).matcher()
        assert found.accept_tokens(text.encode()) == len(text.encode()) and found.is_accepting()


def test_a_pattern_that_needs_a_byte_which_the_format_has_not() -> None:
    """That is seen at compile time; searching the automaton of both gave up in a step, where a list may do without a string."""
    found = COMPILER.compile(JsonSchema({"items": {"format": "idn-hostname", "pattern": "//"}})).matcher()
    assert found.accept_tokens(b'["') == 1 and found.accept_tokens(b"1]") == 2 and found.is_accepting()
    with pytest.raises(GrammarError, match="unsatisfiable"):
        COMPILER.compile(JsonSchema({"type": "string", "format": "idn-hostname", "pattern": "//"}))


@pytest.mark.parametrize("pattern", ["^[^a-m]{2,}", "a|/|.x", "(?=.*[b-d])^a(.b|/)*", r"\W", "^.{0,9}$"])
@pytest.mark.parametrize("name", ["idn-hostname", "hostname", "date", "iri"])
def test_patterns_within_the_bytes_of_a_format(name: str, pattern: str) -> None:
    """What a pattern leaves of a format's texts stays the same."""
    words = samples(name, 40, 11)
    finds = matcher(regex.parse(pattern, "ecma", "u").search_expr(UTF8))
    expected = [word for word in words if finds(word.encode())]
    try:
        grammar = COMPILER.compile(JsonSchema({"type": "string", "format": name, "pattern": pattern}))
    except GrammarError:
        assert not expected
        return
    texts = {word: json.dumps(word, ensure_ascii=False).encode() for word in words}
    assert [word for word in words if grammar.matcher().validate_tokens(texts[word]) == len(texts[word])] == expected


@pytest.mark.parametrize(
    ("name", "text", "taken"),
    [  # taken by "either the format or this text": None where neither is known, so that the schema is refused
        ("email", "[", True),
        ("email", "a@b", False),
        ("email", "a@[x", None),
        ("idn-email", "no mail", True),
        ("hostname", "xn--abc", None),
        ("date", "2021-02-29", True),
        ("date", "2020-02-29", False),
    ],
)
def test_a_format_or_a_fixed_text(name: str, text: str, taken: bool | None) -> None:
    schema = JsonSchema({"oneOf": [{"type": "string", "format": name}, {"const": text}]})
    if taken is None:
        with pytest.raises(UnsupportedError, match="for the fixed value .* whether it has the format is not known"):
            COMPILER.compile(schema)
        return
    matcher = COMPILER.compile(schema).matcher()
    data = json.dumps(text, ensure_ascii=False).encode()
    assert (matcher.accept_tokens(data) == len(data) and matcher.is_accepting()) == taken


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("idn-hostname", "two words", "no JSON value is valid"),
        ("idn-hostname", "", "no JSON value is valid"),
        ("idn-hostname", "a_b.de", "no JSON value is valid"),
        ("idn-hostname", "xn--abc", "is not known"),
        ("email", "[", "no JSON value is valid"),
        ("email", "a@[x", "is not known"),
        ("idn-email", "é", "no JSON value is valid"),
    ],
)
def test_a_fixed_text_without_the_format(name: str, text: str, why: str) -> None:
    with pytest.raises(GrammarError, match=why):
        COMPILER.compile(JsonSchema({"format": name, "const": text}))


def test_same_object_and_one_spelling() -> None:
    assert doctest.testmod(formats).failed == 0
    for name in NAMES:
        assert format_expr(name, JSON_STRING) is format_expr(name, JSON_CANONICAL) is not None
    assert format_expr("no-such-format", UTF8) is None
    assert not format_matcher("date", True, JSON_STRING)(b"2024-01-0\\u0031")
    assert formats.format_expr("uuid", UTF8, portable=False) is not None


# --- content encodings ------------------------------------------------------------------------------------------------------

ENCODERS = {
    "base64": base64.b64encode,
    "base64url": base64.urlsafe_b64encode,
    "base32": base64.b32encode,
    "base32hex": base64.b32hexencode,
    "base16": base64.b16encode,
}
DECODERS = {
    "base64": lambda t: base64.b64decode(t, validate=True),
    "base64url": lambda t: base64.b64decode(t, altchars=b"-_", validate=True),
    "base32": base64.b32decode,
    "base32hex": base64.b32hexdecode,
    "base16": base64.b16decode,
}


@pytest.mark.parametrize("name", sorted(ENCODERS))
def test_content_encodings(name: str) -> None:
    """Exactly what the encoder writes: whatever decodes and encodes back to itself."""
    expression = content_encoding_expr(name.upper(), JSON_STRING)
    assert expression is not None and expression is content_encoding_expr(name, JSON_STRING)
    matches, rng = matcher(expression), random.Random(7)
    encoded = [ENCODERS[name](rng.randbytes(n)).decode() for n in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 30) for _ in range(20)]
    assert all(matches(text.encode()) for text in encoded)
    digits = sorted({c for text in encoded for c in text})
    for text in mutations([t for t in encoded if len(t) < 20], 2000, 8, "".join(digits) + "==_"):
        try:
            canonical = ENCODERS[name](DECODERS[name](text.encode())) == text.encode()
        except ValueError:
            canonical = False
        padded = name != "base64url" or "=" in text or len(text) % 4 == 0
        if padded:
            assert matches(text.encode()) == canonical, text
    assert content_encoding_expr("quoted-printable", UTF8) is None
    if name == "base64url":
        assert matches(b"_-8") and not matches(b"_-9") and not matches(b"_")
    if name == "base16":
        assert matches(b"aF") and not matches(b"aFa")
