"""Regular expressions beside Python's ``re``, Node's ``RegExp`` and ``json.loads``."""

from __future__ import annotations

import bisect
import itertools
import json
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from engine_tools import cases
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_regex import accepts

from cdplugin.errors import GrammarError, LimitExceeded, UnsupportedError
from cdplugin.expr import EMPTY
from cdplugin.limits import Limits
from cdplugin.regex import lookahead, unicode
from cdplugin.regex.alphabet import JSON_STRING, UTF8
from cdplugin.regex.pattern import parse
from cdplugin.regex.tree import ALT, CAT, CHARS, REPEAT, TEXT, children_of
from cdplugin.regex.unicode import property_ranges

DATA = Path(__file__).parent / "data"
CASES = json.loads((DATA / "regex_cases.json").read_text(encoding="utf-8"))
SPECIAL = CASES["texts"]


# --- references --------------------------------------------------------------------------------------------------------------

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed: no ECMA-262 reference")
_NODE_PROGRAM = """
const cases = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const compile = (source, flags) => { try { return new RegExp(source, flags) } catch { return null } };
console.log(JSON.stringify(cases.map(([pattern, flags, texts]) => {
  const unicode = compile(pattern, flags + 'u') ? 'u' : '';
  const search = compile(pattern, flags + unicode), whole = compile('^(?:' + pattern + ')$', flags + unicode);
  return search && [texts.map((t) => search.test(t)), texts.map((t) => whole.test(t))];
})));
"""


def ask_node(cases):
    """For each (pattern, flags, texts): None (a syntax error), or the answers to search and to whole match."""
    done = subprocess.run([NODE, "-e", _NODE_PROGRAM], input=json.dumps(cases), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def check_node(cases, may_refuse=()):
    refused = 0
    for (pattern, flags, texts), answer in zip(cases, ask_node(cases), strict=True):
        assert answer is not None, f"node refuses {pattern!r}"
        try:
            parsed = parse(pattern, "ecma", flags)
            expressions = [parsed.search_expr(UTF8), parsed.match_expr(UTF8)]
        except UnsupportedError as error:
            if error.message.removeprefix("not supported: ") not in may_refuse:
                raise
            refused += 1
            continue
        for expression, expected in zip(expressions, answer, strict=True):
            got = [accepts(expression, text.encode()) for text in texts]
            assert got == expected, (pattern, flags, [t for t, g, e in zip(texts, got, expected, strict=True) if g != e])
    return refused


def check_python(pattern, texts, flags=""):
    parsed = parse(pattern, "python", flags)
    compiled = re.compile(pattern, sum(getattr(re, f.upper()) for f in flags))
    search, whole = parsed.search_expr(UTF8), parsed.match_expr(UTF8)
    for text in texts:
        assert accepts(search, text.encode()) == bool(compiled.search(text)), (pattern, text)
        assert accepts(whole, text.encode()) == bool(compiled.fullmatch(text)), (pattern, text)


def random_pattern(rng, depth, look=False):
    """A pattern over a and b, in the syntax that all dialects share."""
    kind = rng.random()
    if depth == 0 or kind < 0.3:
        return rng.choice(["a", "b", ".", "[ab]", "[^a]", "^", "$", "", "ab", "\\w", "\\S"])
    inner = random_pattern(rng, depth - 1, look)
    if kind < 0.5:
        return inner + random_pattern(rng, depth - 1, look)
    if kind < 0.65:
        return f"(?:{inner}|{random_pattern(rng, depth - 1, look)})"
    if kind < 0.75 and look:
        return f"(?{rng.choice('=!')}{inner})"
    if kind < 0.8:
        return f"({inner})"
    return f"(?:{inner})" + rng.choice(["*", "+", "?", "{2}", "{0,2}", "{1,3}", "{2,}", "*?", "{0}"])


def random_pattern_of_looks(rng, depth):
    """A pattern with look-behinds, and look-aheads beside them."""
    kind = rng.random()
    if depth == 0 or kind < 0.28:
        return rng.choice(["a", "b", ".", "[ab]", "[^a]", "ab", "-", "[a-]"] * 3 + ["^", "$", "", "\\w", "\\b"])
    inner = random_pattern_of_looks(rng, depth - 1)
    if kind < 0.5:
        return inner + random_pattern_of_looks(rng, depth - 1)
    if kind < 0.6:
        return f"(?:{inner}|{random_pattern_of_looks(rng, depth - 1)})"
    if kind < 0.75:
        return f"(?<{rng.choice('=!')}{inner})"
    if kind < 0.82:
        return f"(?{rng.choice('=!')}{inner})"
    return f"(?:{inner})" + rng.choice(["*", "+", "?", "{2}", "{0,2}", "{1,3}", "{2,}", "*?"])


def random_pattern_of_words(rng, depth):
    """A pattern with word boundaries."""
    kind = rng.random()
    if depth == 0 or kind < 0.3:
        return rng.choice(["a", ".", "[ab]", "[^a]", "^", "$", "", "ab", "\\w", "\\W", "\\b", "\\B", "\\b", "-", "[a-]"])
    inner = random_pattern_of_words(rng, depth - 1)
    if kind < 0.55:
        return inner + random_pattern_of_words(rng, depth - 1)
    if kind < 0.65:
        return f"(?:{inner}|{random_pattern_of_words(rng, depth - 1)})"
    if kind < 0.72:
        return f"(?{rng.choice('=!')}{inner})"
    return f"(?:{inner})" + rng.choice(["*", "+", "?", "{2}", "{0,2}", "{1,3}", "{2,}", "*?"])


def random_pattern_of_groups(rng, depth, groups):
    """A pattern with back-references, also to what comes later; ``groups`` counts them."""
    kind = rng.random()
    if depth == 0 or kind < 0.25:
        if groups and rng.random() < 0.5:
            return f"\\{rng.randint(1, len(groups))}"
        if rng.random() < 0.7:
            return rng.choice(["a", "b", "[ab]", "", "ab", "-"])
        groups.append(1)
        return rng.choice(["([ab])", "(a|b|)", "(ab?)"])
    if kind < 0.85 and kind >= 0.7:
        groups.append(1)
        return f"({random_pattern_of_groups(rng, depth - 1, groups)})"
    inner = random_pattern_of_groups(rng, depth - 1, groups)
    if kind < 0.6:
        return inner + random_pattern_of_groups(rng, depth - 1, groups)
    if kind < 0.7:
        return f"(?:{inner}|{random_pattern_of_groups(rng, depth - 1, groups)})"
    return f"(?:{inner})" + rng.choice(["*", "+", "?", "{2}", "{1,2}"])


def random_text(rng, node):
    """A text that the tree may match (look-aheads and anchors are passed over)."""
    if node.op == CHARS:
        low, high = rng.choice(node.args[0][:4] or ((97, 97),))
        return chr(rng.randint(low, min(high, low + 100)))
    if node.op == TEXT:
        return node.args[0]
    if node.op == ALT:
        return random_text(rng, rng.choice(node.args))
    if node.op == REPEAT:
        low, high = node.args[1], node.args[2]
        count = rng.choice([low, low + 1, low + 2, high or low])
        return "".join(random_text(rng, node.args[0]) for _ in range(min(count, high or count, 100)))
    return "".join(random_text(rng, c) for c in children_of(node)) if node.op == CAT else ""


def mutated(rng, text):
    """``text`` with a character less, more, or a part missing or doubled."""
    i = rng.randint(0, len(text))
    return rng.choice(
        [text[:i] + text[i + 1 :], text[:i] + rng.choice('aZ09 -_./:\n\u00e9"\\{') + text[i:], text[:i], text + text[:i]]
    )


SHORT_TEXTS = ["".join(t) for n in range(5) for t in itertools.product("ab", repeat=n)] + ["\n", "a\n", "\na", "ab\nb"]


WORD_TEXTS = ["".join(t) for n in range(4) for t in itertools.product("ab-", repeat=n)]
WORD_TEXTS += ["".join(t) for t in itertools.product("ab", repeat=4)] + ["ab-a", "a-ab", "--ab", "é", "aé", "é-b", "_a", "a_ b"]


# --- ECMA-262 -------------------------------------------------------------------------------------------------------


@needs_node
def test_random_patterns_and_look_aheads_agree_with_node():
    rng, count = random.Random(0), cases(500, 50)
    patterns = [(random_pattern(rng, 4, look=True), "", SHORT_TEXTS) for _ in range(count)]
    refused = check_node(patterns, ("look-ahead inside an unbounded repetition",))
    assert refused < count // 10


@needs_node
def test_word_boundaries_agree_with_node():
    rng = random.Random(1)
    refused = check_node(
        [(random_pattern_of_words(rng, 4), "", WORD_TEXTS) for _ in range(cases(700, 20, 200))],
        (
            "look-ahead inside an unbounded repetition",
            "word boundary inside an unbounded repetition",
            "look-ahead with ^ or \\b inside an unbounded repetition",
        ),
    )
    assert refused < cases(110, 10, 45)


LOOK_REFUSALS = (
    "look-around or $ inside a look-behind",
    "look-behind that sees beyond the repetition or the look-ahead it is in",
    "look-ahead inside an unbounded repetition",
    "word boundary inside an unbounded repetition",
)


@needs_node
def test_look_behinds_agree_with_node():
    rng, count = random.Random(2), cases(1200, 60, 400)
    patterns = []
    while len(patterns) < count:
        pattern = random_pattern_of_looks(rng, 4)
        if "(?<" in pattern:
            patterns.append((pattern, "", WORD_TEXTS))
    assert check_node(patterns, LOOK_REFUSALS) < 0.65 * count


LOOK_BEHINDS = [
    r"^[a-b-]*(?<!-)$",
    r"^(?!-)[ab-]*(?<!-)$",
    r"^[ab-]+(?<!-b)$",
    r"(?<!a)b",
    r"(?<=a)b(?!a)",
    r"(?<=^|-)a",
    r"(?<=^a?)b",
    r"(?<=a+)b",
    r"^(?:(?!-)[ab-]{1,3}(?<!-)-)+a$",
    r"^(?:a(?!b)+.)*$",
    r"(?:(?<=a)b|(?<!b)a)-",
    r"(?:(?<=a)b)?-",
    r"^a*(?=b)(?<!aa)b",
    r"^(?!ab)(?<!a)[ab]*(?<!b)",
    r"(?<=)(?<!^)a",
    r"(?<=a(?!b)*b)-",
]


@needs_node
def test_look_behinds_that_people_write_agree_with_node():
    assert check_node([(pattern, "", WORD_TEXTS) for pattern in LOOK_BEHINDS], ()) == 0


@pytest.mark.parametrize("pattern", [r"(?<=a)b", r"(?<!ab)(?:a|b)", r"[ab-]*(?<!-)", r"(?:(?!-)[ab](?<=a))+", r"(?<=^a)b"])
def test_look_behinds_agree_with_re(pattern):
    check_python(pattern, WORD_TEXTS)


@pytest.mark.parametrize(
    ("pattern", "dialect", "message", "position"),
    [
        ("a(?<=b)", "rust", "not supported: look-behind (not in Rust's syntax; in the dialects ecma and python)", 1),
        ("a(?<=bc?)", "python", "look-behind of several widths", 1),
        ("(?<=a)*", "ecma", "nothing to repeat", 6),
        (r"(a)(?<=a)\1", "ecma", "not supported: look-behind beside back-references", 3),
        ("(?:(?<!a)b)+", "ecma", "not supported: look-behind that sees beyond the repetition or the look-ahead it is in", 3),
        ("(?=(?<=a)b)", "ecma", "not supported: look-behind that sees beyond the repetition or the look-ahead it is in", 3),
        ("(?<=a$)b", "ecma", "not supported: look-around or $ inside a look-behind", 0),
        ("(?<=a", "ecma", "unclosed group", 0),
        ("(?:(?<!a)b|c)" * 7, "ecma", "not supported: look-behind that sees more than 64 alternatives", None),
    ],
)
def test_look_behinds_that_are_refused(pattern, dialect, message, position):
    with pytest.raises(GrammarError) as raised:
        parse(pattern, dialect).search_expr(UTF8)
    assert raised.value.message == message
    if position is not None:
        assert f"position {position}" in raised.value.location


def patterns_of_groups(count):
    rng = random.Random(2)
    while count:
        pattern = random_pattern_of_groups(rng, 5, [])
        n_groups = len(re.findall(r"\((?!\?)", pattern))
        if "\\" in pattern and all(int(digit) <= n_groups for digit in re.findall(r"\\(\d)", pattern)):
            count -= 1
            yield pattern


MANY_TEXTS = "back-reference to a group that has anchors or more than 512 texts"


@needs_node
def test_back_references_agree_with_node():
    patterns = patterns_of_groups(cases(500, 20, 200))
    assert check_node([(pattern, "", WORD_TEXTS) for pattern in patterns], (MANY_TEXTS,)) < cases(25, 5, 12)


def test_back_references_agree_with_re():
    """Where Python has them: it knows no groups that have not ended, and what it keeps from earlier rounds is refused."""
    agreed = 0
    for pattern in patterns_of_groups(cases(500, 20, 200)):
        try:
            re.compile(pattern)
        except re.error:
            continue
        try:
            check_python(pattern, WORD_TEXTS)
        except UnsupportedError:
            continue
        agreed += 1
    assert agreed >= cases(120, 3, 40)
    check_python(r"(?P<q>['\"])[ab]*(?P=q)\Z|\bb\1?", ["'a'", "'a\"", '"ab"', "b", "ab"])


def test_back_references_are_bounded():
    with pytest.raises(UnsupportedError, match=MANY_TEXTS):
        parse("([a-z]{2})" * 3 + "\\1\\2\\3")
    with pytest.raises(LimitExceeded, match="back-references need more than 20000 copies"):
        parse("([a-z])" * 6 + "\\1\\2\\3\\4\\5\\6")
    with pytest.raises(LimitExceeded, match="back-reference in a pattern of more than 100 levels"):
        parse("(a|" * 200 + "\\1" + ")" * 200)


@needs_node
def test_ecma_cases_agree_with_node():
    check_node(
        [(p, "", SPECIAL) for p in CASES["ecma"]]
        + [(p, "i", SPECIAL) for p in CASES["ecma_i"]]
        + [(p, "s", SPECIAL) for p in (".", "a.b")]
    )


@needs_node
def test_patterns_from_the_wild_agree_with_node():
    """Patterns of the JSON Schema Test Suite and of JSONSchemaBench: all parse, and agree on texts that nearly match."""
    rng = random.Random(0)
    wild = []
    for pattern in json.loads((DATA / "regex_wild.json").read_text())["patterns"]:
        texts = [random_text(rng, parse(pattern).tree) for _ in range(4)]
        wild.append((pattern, "", [t for text in texts for t in (text, mutated(rng, text)) if len(t) < 200]))
    assert check_node(wild) == 0


@needs_node
@pytest.mark.parametrize(
    "name", ["Lu", "L", "M", "N", "P", "S", "Z", "Cc", "Cn", "Script=Cyrillic", "scx=Deva", "ID_Start", "Emoji", "LC"]
)
def test_properties_agree_with_node(name):
    program = (
        f"const r = /\\p{{{name}}}/u; let out = ''; for (let c = 0; c < 0x110000; c += 7) "
        "out += (c < 0xd800 || c >= 0xe000) && r.test(String.fromCodePoint(c)) ? '1' : '0'; "
        "console.log(process.versions.unicode + out)"
    )
    shown = subprocess.run([NODE, "-e", program], capture_output=True, text=True, check=True).stdout.strip()
    if not shown.startswith("17.0"):
        pytest.skip(f"the tables are of Unicode 17.0, this node's of {shown[:4]}")
    ranges = property_ranges(name)
    lows = [low for low, _ in ranges]
    for i, expected in enumerate(shown[4:]):
        at = bisect.bisect_right(lows, 7 * i) - 1
        assert (at >= 0 and 7 * i <= ranges[at][1]) == (expected == "1"), hex(7 * i)


# --- Python ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", CASES["python"])
def test_python_cases_agree_with_re(pattern):
    check_python(pattern, [t for t in SPECIAL if t != "\u180e" and t[-1:] != "\n"] + ["a b", "A", "\x07"])


def test_python_flags():
    check_python("a.k[x-z]", ["a\nKY", "A\nky", "akky"], "is")
    check_python(r"\w\s", ["é ", "e\xa0", "e "], "a")
    check_python("a b # no", ["ab", "a b"], "x")


def test_dollar_of_python_is_the_very_end():
    """Documented: there ``$`` does not match before a last newline."""
    assert re.search("a$", "a\n")
    assert not accepts(parse("a$", "python").search_expr(UTF8), b"a\n")


ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^b]", "\\d", "é", "🐲", "^", "$", ""])
PATTERNS = st.recursive(
    ATOMS,
    lambda p: st.one_of(
        st.lists(p, min_size=1, max_size=3).map("".join),
        st.lists(p, min_size=1, max_size=3).map(lambda x: f"({'|'.join(x)})"),
        st.tuples(p, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?"])).map(
            lambda x: f"(?:{x[0]}){x[1]}"
        ),
        p.map(lambda x: f"(?=(?:{x}))"),
        p.map(lambda x: f"(?!(?:{x}))"),
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(PATTERNS, st.lists(st.text("ab1é🐲", max_size=6), min_size=1, max_size=6))
def test_generated_patterns_agree_with_re(pattern, texts):
    try:
        check_python(pattern, texts)
    except UnsupportedError as error:
        if "look-a" not in error.message:
            raise


# --- Rust --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", CASES["rust"])
def test_rust_cases_agree_with_the_rust_crate(pattern):
    """llguidance reads regular expressions with Rust's ``regex-syntax``."""
    llguidance = pytest.importorskip("llguidance")
    tokenizer = llguidance.LLTokenizer("byte")
    start = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_regex(pattern))
    assert not start.get_error(), start.get_error()
    expression = parse(pattern, "rust").match_expr(UTF8)
    for text in [*SPECIAL, "aa", "ab", "AB", "Ab", "a b", "k9", "aaaa"]:
        matcher, data = start.deep_copy(), text.encode()
        expected = matcher.try_consume_tokens(list(data)) == len(data) and matcher.is_accepting()
        assert accepts(expression, data) == expected, text


# --- errors and limits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dialect", "pattern", "kind", "text"), json.loads((DATA / "regex_errors.json").read_text()))
def test_errors_say_where_and_what(dialect, pattern, kind, text):
    with pytest.raises(GrammarError) as caught:
        parse(pattern, dialect).search_expr(UTF8)
    assert (type(caught.value).__name__, str(caught.value)) == (kind, text)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("(?i)a[b-d]", "(?i:a[b-d])"), ("(?is)^a.$", "(?is:^a.$)"), ("(?P<n>a)b", "(a)b"), (r"(?P<n>a|b)\k<n>", "aa|bb")],
)
def test_what_python_and_rust_write_in_json_schema(written, meant):
    """ECMA-262 has no flags without a group and no ``(?P<name>…)``, but pydantic writes such patterns into JSON Schema."""
    expressions = [parse(pattern, "ecma").search_expr(UTF8) for pattern in (written, meant)]
    for text in ("ab", "AD", "ae", "a\n", "A\n", "aa", "bb", "ba", "xaabx", "x"):
        one, other = (accepts(expression, text.encode()) for expression in expressions)
        assert one == other, text


def test_bad_arguments():
    with pytest.raises(ValueError, match="unknown regex dialect: expected one of ecma, rust, python, found 'perl'"):
        parse("a", "perl")
    with pytest.raises(ValueError, match="unknown flag for ecma patterns: expected some of 'adgimsu', found 'v'"):
        parse("a", "ecma", "v")
    with pytest.raises(TypeError, match="pattern: expected str, found bytes"):
        parse(b"a")
    with pytest.raises(
        LimitExceeded, match="the pattern is too long: expected at most Limits.max_spec_bytes = 10, found 11 bytes"
    ):
        parse("a" * 11, limits=Limits(max_spec_bytes=10))


@pytest.mark.parametrize("dialect", ["ecma", "rust", "python"])
def test_deep_nesting_is_an_error_or_works(dialect):
    pattern = "(a|b" * 20_000 + ")*" * 20_000
    with pytest.raises(LimitExceeded, match=r"groups nested deeper than max_spec_depth \(1000\) - at position 4000"):
        parse(pattern, dialect)
    parsed = parse(pattern, dialect, limits=Limits(max_spec_depth=30_000))
    assert parsed.match_expr(UTF8) is not None
    assert parsed.search_expr(JSON_STRING) is JSON_STRING.any_text
    looks = parse("((?!a)b|" * 900 + "c" + ")" * 900) if dialect == "ecma" else None
    assert looks is None or looks.match_expr(UTF8) is not None


def test_nested_classes_and_quantifiers_are_limited():
    with pytest.raises(LimitExceeded, match="classes nested deeper than max_spec_depth"):
        parse("[" * 2000, "rust")
    with pytest.raises(LimitExceeded, match="quantifiers nested deeper than max_spec_depth"):
        parse("a" + "{2}" * 2000, "rust")


@pytest.mark.parametrize("unit", ["a", "ab*", "[a-z]", "\\d", "(a|b)", "x|", "{", "(?:a$|b)*", "^"])
def test_long_patterns_parse(unit):
    assert parse(unit * (200_000 // len(unit))).search_expr(JSON_STRING) is not None


def test_counts_stay_symbolic():
    assert repr(parse("a{0,100000}").match_expr(UTF8)) == 'repeat("a", 0, 100000)'


def test_search_has_no_needless_text_around():
    assert repr(parse("^a$").search_expr(UTF8)) == '"a"'
    assert parse("a*").search_expr(UTF8) is UTF8.any_text
    assert parse("^").search_expr(UTF8) is UTF8.any_text
    assert repr(parse("^a{2,9}").search_expr(UTF8)).startswith('cat(repeat("a", 2, 2), repeat(')
    assert parse("a^b").search_expr(UTF8) is EMPTY
    pattern = parse("[a-z]+")
    assert pattern.search_expr(UTF8) is pattern.search_expr(UTF8)


def test_what_a_word_boundary_takes_for_a_word_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each made the class of all letters and its complement anew: 2,000 of them took 3.5 seconds."""
    made: list[object] = []

    def counted(left: unicode.Ranges, right: unicode.Ranges) -> unicode.Ranges:
        made.append(right)
        return unicode.difference(left, right)

    monkeypatch.setattr(lookahead, "difference", counted)
    expr = parse(r"\b" * 500 + "a", "rust").match_expr(UTF8)
    assert expr is not EMPTY and len(made) == 1


@pytest.mark.parametrize(
    "pattern",
    [
        "[ ^a]",
        "[ ^ - a]",
        "[ - - a]",
        "[a- ]",
        "[\\ - a]",
        "[ ]a]",
        "[a - c]",
        "( ?:a)b",
        "( ?i:a)b",
        "( a | b )",
        "[a-c&& [^b]]",
    ],
)
def test_white_space_in_verbose_rust_agrees_with_llguidance(pattern):
    """``(?x)[ ^a]`` was read as the class of ``^`` and ``a``."""
    pytest.importorskip("llguidance")
    from llguidance_peer import peer_takes

    grammar, expression = f"start: /(?x){pattern}/", parse(f"(?x){pattern}", "rust").match_expr(UTF8)
    for text in ["", *"abc^-] #:?i\n", "ab", "Ab", "bb"]:
        assert accepts(expression, text.encode()) == peer_takes(grammar, text), text


@pytest.mark.parametrize("part", ["\\pL", "[\\pL]", "\\pL&&", "\\pL--[^a]~~", "\\w"])
@pytest.mark.parametrize("flags", ["", "i"])
def test_all_sets_of_a_class_are_charged(part, flags):
    """Only the ranges of the whole class were: 2 kB of these took up to 40 seconds, and were legal."""
    parse(f"[{part}a]", "rust", flags)
    with pytest.raises(LimitExceeded, match="more parts and ranges of characters than max_expr_nodes"):
        parse(f"[{part * 800}a]", "rust", flags)


@pytest.mark.parametrize("pattern", [r"[\W]", r"[^\W\d_]", r"[\W\u0345]", r"[^\S]", r"[\Dk]", r"[^\W\u03b9]"])
def test_escapes_in_python_classes_ignore_case_by_themselves(pattern):
    """U+0345 is no word character, but the case variant of iota, which is one: ``(?i)[^\\W]`` refused Greek words."""
    check_python(pattern, ["\u0345", "\u03b9", "\u0399", "\u1fbe", "k", "K", "\u212a", "1", "_", " ", "-"], "i")
