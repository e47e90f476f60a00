"""``multipleOf`` beside exact fractions; formats beside patterns, lengths, enumerations and ``not``."""

from __future__ import annotations

import json
import math
import random
import re
import struct
from decimal import Decimal
from fractions import Fraction
from typing import Any

import jsonschema
import pytest
from engine_tools import cases
from json_schema_tools import Followed, dumps, grammar, suite_groups
from naive import Derivatives

from cdplugin.errors import GrammarError, UnsupportedError
from cdplugin.frontends.json_schema import Options, compile_schema
from cdplugin.frontends.json_schema.dialect import INTEGER_BIT, NUMBER_BITS
from cdplugin.frontends.json_schema.multiples import TooManyResiduesError, common_unit, is_multiple
from cdplugin.frontends.json_schema.numbers import fraction_between, number_expr

UNITS = [0.01, 0.1, 0.5, 0.25, 0.05, 5, 10, 100, 1000, 2, 4, 8, 3, 6, 7, 9, 11, 2.5, 1.5, 6.75, 37, 0.0001, 15, 60, 1.25, 0.3]
BOUNDS = [0, 1, -1, 5, 100, 99999999999.99, 10**17 + 1]


def printed(value: float) -> set[str]:
    """As Python's ``repr``, JavaScript's ``String`` (ECMA-262, Number::toString) and Rust's ``ryu`` print a double."""
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text, point = "".join(map(str, digits)), len(digits) + int(exponent)
    scientific = text[0] + ("." + text[1:] if text[1:] else "") + "e"
    if 0 < point <= 21:
        plain = text.ljust(point, "0")
        plain = plain[:point] + ("." + plain[point:] if plain[point:] else "")
    else:
        plain = "0." + "0" * -point + text
    javascript = plain if -6 < point <= 21 else f"{scientific}{point - 1:+}"
    ryu = plain if -5 < point <= 16 else f"{scientific}{point - 1}"
    ryu += "" if "." in ryu or "e" in ryu else ".0"
    return {repr(value), *("-" * sign + other for other in (javascript, ryu))}


def test_printed_doubles_are_accepted() -> None:
    """Every number as Python, JavaScript and Rust print it, whole ones as integers too."""
    rng = random.Random(1)
    values = [5e-324, 1e-323, 2.2250738585072014e-308, 1.7976931348623157e308, 1e308, 1e16, 1e21, 1e22, 123456789012345680000.0]
    values += [0.1, 1e-4, 1e-5, 1e-6, 1e-7, 9007199254740993.0, 1e15, 123456789012345.6, 1.5e300, 99999999999999990000.0]
    while len(values) < 400:
        value = struct.unpack("<d", rng.randbytes(8))[0]
        values += [value] if math.isfinite(value) else []
    values += [float(rng.randrange(10 ** rng.randrange(1, 40))) for _ in range(100)]
    number, integer = grammar({"type": "number"}), grammar({"type": "integer"})
    free, above = grammar({}), grammar({"type": "integer", "minimum": -5})
    for text in {text for value in values if value for signed in (value, -value) for text in printed(signed)}:
        value = Fraction(text)
        assert number.accepts(text.encode()) and free.accepts(text.encode()), text
        assert integer.accepts(text.encode()) == (value.denominator == 1), text
        assert above.accepts(text.encode()) == (value.denominator == 1 and value >= -5), text


def test_random_texts_of_integers_are_whole() -> None:
    rng, count = random.Random(2), cases(4_000, 400)
    schemas = [{"type": "integer"}, {"type": "integer", "minimum": -1e17}, {"type": "integer", "maximum": 3 * 10**16 + 1}]
    for schema in schemas:
        matcher, accepted = grammar(schema), 0
        for _ in range(count):
            digits = str(rng.randrange(10 ** rng.randrange(1, 19)))
            text = (
                f"{rng.choice(['', '-'])}{digits[0]}{rng.choice(['', '.' + digits])}{rng.choice(['', f'e{rng.randrange(20)}'])}"
            )
            if matcher.accepts(text.encode()):
                assert Fraction(text).denominator == 1, text
                assert Fraction(text) >= schema.get("minimum", -math.inf) and Fraction(text) <= schema.get("maximum", math.inf)
                accepted += 1
        assert accepted > count // 8


def test_exponents_as_rfc_8259_has_them() -> None:
    """Its grammar (section 6), drawn from at random; of integers those with up to 17 digits and an exponent below 292."""
    rng = random.Random(3)
    number, free, integer, above = (grammar(s) for s in ({"type": "number"}, {}, {"type": "integer"}, {"minimum": 2}))
    for _ in range(cases(1_500, 150)):
        whole = str(rng.choice([0, rng.randrange(1, 10 ** rng.randrange(1, 18))]))
        point = "." + str(rng.randrange(10 ** rng.randrange(1, 18))) if rng.random() < 0.5 else ""
        exponent = "".join(rng.choice("0123456789") for _ in range(rng.randrange(1, 21)))
        mantissa, rest = f"{rng.choice(['', '-'])}{whole}{point}", f"{rng.choice('eE')}{rng.choice(['', '+', '-'])}{exponent}"
        text = (mantissa + rest).encode()
        assert number.accepts(text) and free.accepts(text), text
        if re.fullmatch(r"[1-9](\.\d+)?[eE]\+?0?[1-9]\d*", mantissa + rest):
            assert above.accepts(text), text
        power = rng.randrange(291)
        assert integer.accepts(f"{whole}{rng.choice('eE')}{rng.choice(['', '+'])}{power}".encode()), (whole, power)
    for text in ("453e10", "20E1", "36E+05", "91911e108"):  # as xgrammar and llguidance write them
        assert integer.accepts(text.encode()), text
    for text in ("1e", "1e+", "01e1", "1.e1", "1e1.5", "+1e1", "1e" + 21 * "1"):
        assert not number.accepts(text.encode()), text
    for text in ("19e-82", "1.5e0", "20e400", "99999999999999999e292"):
        assert not integer.accepts(text.encode()), text


def test_numbers_beyond_the_doubles() -> None:
    """Valid where nothing bounds them; never as integers, nor among distinct items, where Python compares infinities."""
    for schema in ({"type": "number"}, {"minimum": 5}, {"exclusiveMinimum": -(10**400)}):
        assert grammar(schema).accepts(b"1e400"), schema
    for schema in (
        {"type": "integer"},
        {"maximum": 10**400},
        {"maximum": 5},
        {"not": {"minimum": 5}},
        {"not": {"type": "integer"}},
    ):
        assert not grammar(schema).accepts(b"1e400"), schema
    distinct = grammar({"items": {"type": "number"}, "uniqueItems": True}, whitespace="compact")
    assert distinct.accepts(b"[1e308,1.7976931348623157e308,5e-324,0]")
    for text in (b"[1e400]", b"[0,1e-400]", b"[0.0,1e-324]", b"[5e-324,4e-324]", b"[1e308,1.0e308]", b"[1.8e308]"):
        assert not distinct.accepts(text), text


@pytest.mark.parametrize(("unit", "digits"), [(7, 64), (3, 64), (0.25, 64), (20, 64), (97, 16), (251, 16)])
def test_multiples_of_many_digits(unit: int | float, digits: int) -> None:
    """Up to 64 digits where the unit has few classes of residues, 16 at least; and no text that is no multiple."""
    matcher, rng = grammar({"multipleOf": unit, "type": "number"}), random.Random(3)
    whole = Fraction(str(unit)).numerator
    for length in {1, 9, 16, digits - 1, digits}:
        for _ in range(20):
            value = rng.randrange(10 ** (length - 1), 10**length)
            assert matcher.accepts(str(value).encode()) == (value % whole == 0), value
            multiple = value - value % whole
            assert len(str(multiple)) < length or matcher.accepts(str(multiple).encode()), multiple
    assert digits < 64 or not matcher.viable(b"1" * 65)


def some_bound(rng: random.Random) -> Any:
    if rng.random() < 0.4:
        return None
    value = rng.choice([*BOUNDS, rng.randint(-(10**6), 10**6), round(rng.uniform(-300, 300), rng.randint(0, 3))])
    return value, rng.random() < 0.4


def texts_near(rng: random.Random, unit: Fraction, low: Any, high: Any) -> set[str]:
    out = set()
    for _ in range(60):
        base = rng.choice([0, rng.randint(-(10**5), 10**5), 10 ** rng.randint(0, 16), *(b[0] for b in (low, high) if b)])
        times = int(Fraction(Decimal(repr(base))) / unit) + rng.choice([0, 0, 1, -1, 2, rng.randint(-100, 100)])
        exact = times * unit
        value = Decimal(exact.numerator) / Decimal(exact.denominator)
        near = value + Decimal(rng.choice([1, -1])) * Decimal(10) ** -rng.randint(0, 4)
        out |= {f"{value:f}", f"{near:f}", "-" + f"{value:f}".lstrip("-"), f"{int(value)}.0", str(int(value))}
    return out


def fits(text: str, low: Any, high: Any, units: tuple, no_units: tuple) -> bool:
    exact, value = Fraction(Decimal(text)), json.loads(text)
    if low and not (value > low[0] or (value == low[0] and not low[1])):
        return False
    if high and not (value < high[0] or (value == high[0] and not high[1])):
        return False
    return all(exact % common_unit((u,)) == 0 for u in units) and all(exact % common_unit((u,)) for u in no_units)


@pytest.mark.parametrize("seed", range(4))
def test_multiples(seed: int) -> None:
    """Nothing but multiples is accepted, and every multiple of at most 13 characters is."""
    rng = random.Random(seed)
    for _ in range(cases(30, 6)):
        units = tuple(rng.choice(UNITS) for _ in range(rng.choice([0, 1, 1, 1, 2])))
        no_units = tuple(rng.choice(UNITS) for _ in range(rng.choice([0, 0, 1, 2]) if units else 1))
        low, high, floats = some_bound(rng), some_bound(rng), rng.random() < 0.8
        if low and high and low[0] > high[0]:
            low, high = high, low
        types = rng.choice([INTEGER_BIT, NUMBER_BITS])
        try:
            expression = number_expr(types, low, high, floats, units, no_units)
        except TooManyResiduesError:
            continue
        lexer = Derivatives()
        start = lexer.convert(expression)
        for text in texts_near(rng, common_unit(units or no_units), low, high):
            node = start
            for byte in text.encode():
                node = lexer.derive(node, byte)
            expected = fits(text, low, high, units, no_units)
            if types == INTEGER_BIT:
                expected = expected and Decimal(text) == int(Decimal(text)) and (floats or "." not in text)
            case = (text, units, no_units, low, high, types)
            if lexer.nullable(node):
                assert expected, case
            else:
                assert not expected or len(text) > 13, case


@pytest.mark.parametrize("keyword", ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"])
def test_multiples_beside_bounds_that_no_double_is(keyword: str) -> None:
    """Digits alone are read as integers, for which such a bound holds exactly, also beside a unit with a point. A bound with an
    exponent holds as a double, too.
    """
    rng = random.Random(keyword)
    for bound in (2**53, 2**53 + 1, -(2**53) - 1, 10**20 + 7, -(10**30), 10**35, 2.0**64, -(2.0**64)):
        exact = int(bound)
        for beside in ({"multipleOf": 0.5}, {"multipleOf": 1.5}, {"multipleOf": 0.1, "not": {"multipleOf": 3}}):
            schema = {"type": "number", keyword: bound, **beside}
            matcher = grammar(schema)
            bounds = bound, int(Decimal(repr(bound)))
            validators = [jsonschema.Draft202012Validator({**schema, keyword: read, "multipleOf": 1}) for read in bounds]
            for value in [exact, exact + 1, exact - 1, *(exact + rng.randint(-40, 40) for _ in range(6)), 2 * exact]:
                expected = all(v.is_valid(value) for v in validators) and is_multiple(value, beside["multipleOf"])
                assert matcher.accepts(str(value).encode()) == expected, (schema, value)


def test_fractions_between_two_are_those_of_their_value() -> None:
    """By the value of the digits; ``naive`` reads the expression."""
    rng = random.Random(4)
    for _ in range(cases(150, 15)):
        first, second = sorted(rng.sample("0123456789", 2))
        low, high = (f"{d}{''.join(rng.choices('0912', k=rng.randrange(4)))}" for d in (first, second))
        low, high = (f"{digits}{rng.choice('123456789')}" if digits[-1] == "0" else digits for digits in (low, high))
        lexer = Derivatives()
        start = lexer.convert(fraction_between(low, high))
        for _ in range(40):
            text = rng.choice([low, high, ""])[: rng.randrange(5)] + "".join(rng.choices("0129", k=rng.randrange(4)))
            node = start
            for byte in text.encode():
                node = lexer.derive(node, byte)
            value = Fraction(f"0.{text}") if text else None
            expected = value is not None and Fraction(f"0.{low}") <= value <= Fraction(f"0.{high}")
            assert lexer.nullable(node) == expected, (low, high, text)


def test_no_multiples_of_a_fraction() -> None:
    """Numbers with more decimals than the unit are no multiples of it."""
    finer = grammar({"type": "number", "not": {"multipleOf": 0.01}})
    assert finer.accepts(b"0.005") and finer.accepts(b"-17.125") and not finer.accepts(b"0.25") and not finer.accepts(b"3.1000")
    # in Draft 4, 1.0 is no integer, and a multiple of 1
    draft4 = {"$schema": "http://json-schema.org/draft-04/schema#"}
    assert grammar({**draft4, "multipleOf": 1}).accepts(b"7.0")
    fractions = grammar({**draft4, "type": "number", "not": {"multipleOf": 1}})
    assert fractions.accepts(b"7.5") and not fractions.accepts(b"7.0") and not fractions.accepts(b"7e0")
    assert not grammar({**draft4, "type": "integer", "multipleOf": 1}).accepts(b"7.0")


@pytest.mark.parametrize("type_", [None, "integer", "number", ["integer", "string"]])
def test_listed_numbers_beside_choices_in_draft_4(type_: Any) -> None:
    """Each spelling is judged by its type, whatever else there is to choose from."""
    numbers: dict[str, Any] = {"$schema": "http://json-schema.org/draft-04/schema#"} | ({"type": type_} if type_ else {})
    choices: list[Any] = [
        {"anyOf": [{"minimum": 1}, {"type": "string"}]},
        {"oneOf": [{"type": "integer"}, {"type": "string"}]},
        {"anyOf": [{"multipleOf": 1}, {"type": "null"}]},
        {"anyOf": [{"not": {"type": "integer"}}, {"minimum": 9}]},
    ]
    for listed in ([3], [3.0], [3, 3.5], [3.0, "a", None]):
        for choice in choices:
            schema = {**numbers, "enum": listed, **choice}
            try:
                matcher = grammar(schema)
            except GrammarError:  # nothing is valid
                matcher = None
            for text in ("3", "3.0", "3.5", '"a"', "null", "3e0"):
                expected = jsonschema.Draft4Validator(schema).is_valid(json.loads(text))
                assert (matcher is not None and matcher.accepts(text.encode())) == expected, (schema, text)


def test_several_automata() -> None:
    """As exact arithmetic has it, for texts near the multiples of units with too many residues for one automaton."""
    rng = random.Random(4)
    for units, no_units in [
        ((8721,), ()),
        ((97, 89), (2, 3)),
        ((13,), (2, 3, 5, 7, 11)),
        ((0.5,), (6.5, 37, 11, 5)),
        ((2310,), (13,)),
    ]:
        schema = {"allOf": [{"multipleOf": u} for u in units] + [{"not": {"multipleOf": u}} for u in no_units]}
        matcher, accepted = Followed(compile_schema(schema)), 0
        for text in {text for _ in range(cases(12, 2)) for text in texts_near(rng, common_unit(units), None, None)}:
            if matcher.accepts(text.encode()):
                assert fits(text, None, None, units, no_units), (text, units, no_units)
                accepted += 1
            else:
                assert not fits(text, None, None, units, no_units) or len(text) > 13, (text, units, no_units)
        assert accepted > 10


def test_units() -> None:
    assert common_unit((4, 6)) == 12 and common_unit((0.25, 0.1)) == Fraction(1, 2) and common_unit((2.5, 2)) == 10
    assert is_multiple(19.99, 0.01) and is_multiple(0.0075, 0.0001) and not is_multiple(0.00751, 0.0001)
    assert is_multiple(1e308, 0.5) and not is_multiple(7, 2)


CASES: list[tuple[Any, list[Any], list[Any]]] = [
    ({"type": "number", "multipleOf": 0.01}, [0, 19.99, -0.07, 5.5, 12345678.12], [0.001, 1e-05, "1"]),
    ({"multipleOf": 5, "allOf": [{"multipleOf": 3}], "type": "integer"}, [0, 15, -30, 45.0], [3, 5, 20]),
    (  # too many residues for an automaton: the few that there are, one by one
        {"multipleOf": 13, "not": {"anyOf": [{"multipleOf": p} for p in (2, 3, 5, 7, 11)]}, "minimum": -99, "maximum": 999},
        [13, 13.0, -13, 169, 221, 923, 247.0],
        [0, 26, 39, 65, 91, 143, 999, 1001, 13.5],
    ),
    (  # too many residues, and too many numbers: an automaton for each prime power
        {"multipleOf": 13, "not": {"anyOf": [{"multipleOf": p} for p in (2, 3, 5, 7, 11)]}},
        [13, 13.0, -13, 169, 221, 1_000_000_000_001 * 13],
        [0, 26, 39, 65, 91, 143, 13.5, 1_000_000_000_002 * 13, 12],
    ),
    ({"multipleOf": 8721}, [0, 8721, -17442, 87210.0, 8721 * 10**10], [1, 8722, 27 * 17, 19 * 17, 8721 * 10**10 + 1]),
    ({"multipleOf": 6.75, "allOf": [{"multipleOf": 19}, {"multipleOf": 2.125}], "minimum": 9000}, [17442], [0, 8721, 513]),
    (
        {"type": "number", "not": {"anyOf": [{"multipleOf": p} for p in (2, 6.5, 5, 37, 11)]}},
        [1, 1.5, 41],
        [6.5, 2, 13, 0, 74.0],
    ),
    ({"type": "integer", "multipleOf": 0.5}, [1, 2, 1e308, -3e20], [0.5]),
    ({"type": "number", "multipleOf": 2.5, "minimum": 2, "maximum": 10}, [2.5, 5, 10.0], [0, 2, 12.5, 7]),
    ({"type": "integer", "not": {"multipleOf": 3}}, [1, 2, 100], [0, 3, 99]),
    ({"type": "number", "oneOf": [{"multipleOf": 5}, {"multipleOf": 3}]}, [5, 9, 10.0], [15, 7, 0, 7.5]),
    ({"type": "number", "not": {"multipleOf": 2}}, [1, 2.5, 3.0], [2, 4.0]),
    ({"enum": [1, 2, 2.5, 7.5, "a"], "multipleOf": 2.5}, [2.5, 7.5, "a"], [1, 2]),
    (
        {"type": "string", "format": "uri", "pattern": "^https:", "maxLength": 12},
        ["https://x.io"],
        ["https://xx.io", "ftp://x"],
    ),
    ({"type": "string", "format": "email", "minLength": 6}, ["ab@c.de"], ["a@b.c", "abcdefg"]),
    ({"type": "string", "format": "date", "maxLength": 10, "minLength": 1}, ["2024-02-29"], ["2023-02-29", ""]),
    ({"type": "string", "format": "hostname", "maxLength": 3}, ["a.b", "abc"], ["abcd", "a..b", ""]),
    ({"type": "string", "allOf": [{"format": "hostname"}, {"format": "ipv4"}]}, ["1.2.3.4"], ["a.b", "1.2.3.256"]),
    ({"format": "uuid"}, [5, "2eb8aa08-aa98-11ea-b4aa-73b441d16380"], ["2eb8aa08"]),
    ({"enum": ["a@b.de", "b", 1], "format": "email"}, ["a@b.de", 1], ["b"]),
    ({"type": "string", "contentEncoding": "base64", "minLength": 1}, ["aGk=", "aGVs"], ["", "aGk", "%%%%"]),
    ({"type": "string", "not": {"format": "date"}}, ["x", "2023-02-29"], ["2024-02-29"]),
    ({"type": "string", "not": {"format": "uri-template"}}, ["{a", "a}", "{{a}}"], ["{a}", "x", "/{+a,b}/c", ""]),
    ({"type": "string", "not": {"format": "regex"}}, ["*a", "+", "?"], ["a*", "", "[a]", "^"]),
    ({"type": "string", "not": {"format": "idn-hostname"}}, ["a b", "\t"], ["stra\u00dfe.de", "a.b"]),
    ({"oneOf": [{"format": "uri"}, {"format": "hostname"}], "type": "string"}, ["http://a/", "a.b"], ["a b", "/x"]),
]


@pytest.mark.parametrize(("schema", "valid", "invalid"), CASES, ids=[json.dumps(case[0])[:60] for case in CASES])
def test_keyword(schema: Any, valid: list[Any], invalid: list[Any]) -> None:
    matcher = grammar(schema)
    for value in valid:
        assert matcher.accepts(dumps(value)), value
    for value in invalid:
        assert not matcher.accepts(dumps(value)), value


def test_escaped_spellings_of_a_format_are_not_its_complement() -> None:
    matcher = grammar({"type": "string", "not": {"format": "ipv4"}})
    assert matcher.accepts(b'"1.2.3"') and not matcher.accepts(b'"\\u0031.2.3.4"') and not matcher.accepts(b'"1.2.3.4"')
    matcher = grammar({"type": "string", "not": {"format": "uri"}})
    assert matcher.accepts(b'"\\u0031:"') and not matcher.accepts(b'"\\u0061:"')


def test_options() -> None:
    leap = b'"23:59:60Z"'
    assert not grammar({"type": "string", "format": "time"}).accepts(leap)
    assert grammar({"type": "string", "format": "time"}, formats="rfc").accepts(leap)
    assert grammar({"type": "string", "format": "time"}, formats="annotation").accepts(b'"x"')
    assert grammar({"type": "string", "format": "x"}).accepts(b'"y"')
    with pytest.raises(UnsupportedError, match="'format' is not supported for 'x'"):
        compile_schema({"type": "string", "format": "x"}, Options(unknown_formats="error"))
    draft_2020 = {"$schema": "https://json-schema.org/draft/2020-12/schema", "contentEncoding": "base64", "type": "string"}
    assert grammar(draft_2020).accepts(b'"%"')
    for unit in (0, -1, "1", True, float("inf")):
        with pytest.raises(GrammarError):
            compile_schema({"multipleOf": unit})
    with pytest.raises(UnsupportedError, match="'multipleOf'"):
        compile_schema({"multipleOf": 86401})


@pytest.mark.parametrize(("draft", "right"), [("draft2020-12", 24), ("draft7", 22)])
def test_official_formats(draft: str, right: int) -> None:
    """No invalid text is accepted. Four groups have valid text that is left out (see ``formats``)."""
    found = 0
    for _, group in suite_groups(f"{draft}/optional/format/"):
        matcher = grammar(group["schema"], formats="rfc")
        accepted = [(test, matcher.accepts(dumps(test["data"]))) for test in group["tests"]]
        assert all(test["valid"] for test, yes in accepted if yes), group["description"]
        found += all(yes == test["valid"] for test, yes in accepted)
    assert found == right


def test_what_has_a_format_is_never_taken_for_a_text_without_it() -> None:
    for _, group in suite_groups("draft2020-12/optional/format/"):
        matcher = grammar({"anyOf": [{"const": None}, {"not": {"format": group["schema"]["format"]}}]})
        texts = [test["data"] for test in group["tests"] if test["valid"] and isinstance(test["data"], str)]
        wrong = [text for text in texts if matcher.accepts(dumps(text))]
        assert not wrong, group["description"]
