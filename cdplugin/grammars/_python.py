"""``cd.grammars.PYTHON`` and ``python()``: the rules of ``python.lark``, extended by f-strings whose fields hold the same
expressions.

CPython 3.11 lexes an f-string as one string and parses its fields afterwards, so a field must not contain the string's own
quotes, a backslash or a comment; 3.12 lifted that (PEP 701). By default fields are legal in both: expressions of
``python.lark`` on one line, with strings in the other kind of quotes, and f-strings whose own fields hold no strings. In a
triple-quoted f-string both kinds of quotes may be used, and a field may span lines. Each kind of field is an inner grammar
(``%lark``, see ``_field``). For 3.12 there is one kind, whose strings are those outside, f-strings in it included.

An f-string is split into lexemes where a field begins or ends: ``f"a{``, ``x}``, `` b{``, ``y}``, `` c"``. A field's opening
brace belongs to the lexeme before the field, because a doubled brace is text.
"""

from __future__ import annotations

from collections.abc import Sequence

DOUBLE, SINGLE, LINES = '"', "'", r"\r\n"
_BEGIN, _END, _STRINGS = "// ---- expressions\n", "// ---- end of expressions\n", "// Strings."

_FIELD = r"""%lark {
  %llguidance {"allow_initial_skip": true}
  %word /[A-Za-z0-9_\u0080-\U0010FFFF]/ NUMBER REAL IMAGINARY
  %ignore /@SPACE+/
  start: field
  field: values "="? ("}" | ":" spec | "!" converted)
  converted: conversion (close | colon spec)
  spec: spec_text? (opening nested spec_text?)* close
  nested: values ("}" | "!" conversion close)
  values: one ("," value)* ","? | "*" operation ("," value)* "," value?
  value: "*" operation | one
  one: disjunction ("if" disjunction "else" one)?
  conversion[glued]: "r" | "s" | "a"
  close[glued]: "}"
  colon[glued]: ":"
  opening[glued]: "{"
  spec_text[glued]: /[^{}'"\\@LINES\x00]+/
  atom: NAME | NUMBER | "None" | "True" | "False" | "..." | enclosed@STRINGS
"""
_QUOTED = r"""/[uUrR]?@(FEW[^'"\\\r\n\x00])*FEW@|([bB]|[bB][rR]|[rR][bB])@(FEW[\x01-\x7f&&[^'"\\\r\n]])*FEW@/"""
_QUOTED_F = r"""
  whole_@NAME: /@PREFIX@"@TEXT@"/
  first_@NAME: /@PREFIX@"@TEXT\{/
  more_@NAME[glued]: /@TEXT\{/
  last_@NAME[glued]: /@TEXT@"/
  @NAME: whole_@NAME | first_@NAME inner (more_@NAME inner)* last_@NAME
"""
CHARACTER_NAMES = (
    "GREEK (SMALL|CAPITAL) LETTER (ALPHA|BETA|GAMMA|DELTA|EPSILON|ZETA|ETA|THETA|IOTA|KAPPA|LAMDA|MU|NU|XI|OMICRON|PI|RHO|SIGMA"
    "|TAU|UPSILON|PHI|CHI|PSI|OMEGA)|LATIN (SMALL|CAPITAL) LETTER [A-Z]|LATIN SMALL LETTER SHARP S"
    "|(DEGREE|MINUS|MULTIPLICATION|PLUS-MINUS|EURO|CENT|POUND) SIGN|E[MN] DASH|NO-BREAK SPACE|HORIZONTAL ELLIPSIS|BULLET|DAGGER"
    "|INFINITY|SNOWMAN|PRIME|(RIGHT|LEFT|UP|DOWN)WARDS ARROW|CHECK MARK|BLACK SQUARE|FULL BLOCK|VERTICAL LINE|DIGIT (ZERO|NINE)"
    "|COMBINING (TILDE|ACUTE ACCENT|GRAVE ACCENT|DIAERESIS)|BOX DRAWINGS LIGHT (HORIZONTAL|VERTICAL)"
)
"""Names that ``\\N{…}`` accepts: the most frequent in programs. All 34,000 would add lexer states to every string."""
_ESCAPE = r"\\(\r?\n|[^xuUN{}\r\n\x00]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U00(0[0-9a-fA-F]|10)[0-9a-fA-F]{4}|N\{(@NAMES)\})"
_RAW_ESCAPE = r"\\(\r?\n|[^{}\r\n\x00])"


_WIDTH = '"max_width": 96'
VERSIONS = ("3.11", "3.12", "3.13")
_BLANK = r"[ \t\f]"
_BLANK_LINES = rf"[ \t\f{LINES}]"
_BLANK_LINES_AND_COMMENTS = rf"([ \t\f{LINES}]|#[^{LINES}\x00]*[{LINES}])"
_TYPE_PARAMETERS = """
type_parameters: "[" type_parameter ("," type_parameter)* ","? "]"
type_parameter: """
"""Of functions, classes and type aliases (PEP 695)."""
_TYPE_PARAMETER = {
    "3.12": 'NAME (":" expression)? | ("*" | "**") NAME',
    "3.13": 'NAME (":" expression)? ("=" expression)? | "*" NAME ("=" star_expression)? | "**" NAME ("=" expression)?',
}
"""By version; from 3.13 on with defaults (PEP 696)."""


def narrower(text: str, max_width: int) -> str:
    """The grammar with blocks indented by at most ``max_width`` columns."""
    assert _WIDTH in text
    return text.replace(_WIDTH, f'"max_width": {max_width:d}')


def _field(expressions: str, quotes: str, space: str) -> str:
    """The grammar of a field up to its closing brace. Its strings use ``quotes``; if those are both kinds, a string may contain
    at most two of the other kind in a row, since three might end the f-string.
    """
    strings, rules = [], ""
    for kind, quote, other in (("double", DOUBLE, SINGLE), ("single", SINGLE, DOUBLE)):
        if quote in quotes:
            few = other + "{0,2}" if other in quotes else ""
            strings.append(_QUOTED.replace("FEW", few).replace("@", quote))
            strings.append(f"nested_{kind}")
            text = r"([^{}'\"\\\r\n\x00]|\{\{|\}\})*"
            form = _QUOTED_F.replace("@NAME", f"nested_{kind}").replace("@PREFIX", "([fF][rR]?|[rR][fF])")
            rules += form.replace("@TEXT", text).replace('@"', quote)
    if strings:
        rules += f"inner: {_field(expressions, '', '[ ]')}\n"
    return f"{_head(space, strings, '' if LINES in space else LINES)}{rules}{expressions}}}"


def _head(space: str, strings: Sequence[str], lines: str) -> str:
    """The first rules of a field: ``space`` is ignored, an atom may be one of ``strings``, a format has none of ``lines``."""
    out = _FIELD.replace("@SPACE", space).replace("@STRINGS", "".join(f" | {one}" for one in strings))
    return out.replace("@LINES", lines)


def complete(rules: str, version: str = VERSIONS[0]) -> str:
    """``python.lark`` with the rules of f-strings, and what is new in ``version``, added."""
    expressions = rules[rules.index(_BEGIN) + len(_BEGIN) : rules.index(_END)].replace("JOINED? ", "")
    names = f"CHARACTER_NAME: /{CHARACTER_NAMES}/"
    if version == VERSIONS[0]:
        fields = [f"field_long: {_field(expressions, DOUBLE + SINGLE, _BLANK_LINES)}"]
        for kind, other in (("double", SINGLE), ("single", DOUBLE)):
            fields.append(f"field_{kind}: {_field(expressions, other, _BLANK)}")
        return "\n".join([rules, names, *fields, _formatted("field_long", "field_double", "field_single")])
    strings = rules[rules.index(_STRINGS) :]
    added = f"{names}\n{_formatted('field', 'field', 'field')}"
    head = _head(_BLANK_LINES_AND_COMMENTS, ["(STRING | formatted)+", "BYTES+"], LINES)
    for old, new in (
        ("simple: ", 'simple: "type" NAME type_parameters? "=" expression | '),
        ('"def" NAME ', '"def" NAME type_parameters? '),
        ('"class" NAME ', '"class" NAME type_parameters? '),
    ):
        assert rules.count(old) == 1
        rules = rules.replace(old, new)
    return f"{rules}{_TYPE_PARAMETERS}{_TYPE_PARAMETER[version]}\n{added}field: {head}{expressions}{strings}{added}}}\n"


def _formatted(long: str, double: str, single: str) -> str:
    """The rules of f-strings, with the names of the rules of their fields in each kind of quotes."""
    out = []
    forms = []
    for kind, quote, field_of_line in (("double", DOUBLE, double), ("single", SINGLE, single)):
        for size, ends in (("", quote), ("long_", 3 * quote)):
            field = long if size else field_of_line
            for raw, prefix, escape in (
                ("", "[fF]", _ESCAPE.replace("@NAMES", CHARACTER_NAMES)),
                ("raw_", "([fF][rR]|[rR][fF])", _RAW_ESCAPE),
            ):
                name = f"{raw}{size}{kind}"
                lines = "" if size else LINES
                few = f"{quote}?{quote}?" if size else ""
                text = f"({few}([^{quote}{{}}\\\\{lines}\\x00]|\\{{\\{{|\\}}\\}}|{escape}))*"
                opens = rf"{text}{few}\{{" if not raw else rf"{text}{few}\\?\{{"
                out.append(f"whole_{name}: /{prefix}{ends}{text}{ends}/")
                out.append(f"first_{name}: /{prefix}{ends}{opens}/")
                out.append(f"more_{name}[glued]: /{opens}/")
                out.append(f"last_{name}[glued]: /{text}{ends}/")
                fields = f"first_{name} {field} (more_{name} {field})* last_{name}"
                forms.append(f"whole_{name} | {fields}")
    out.append("formatted: " + "\n    | ".join(forms))
    return "\n".join(out) + "\n"
