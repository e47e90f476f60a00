"""``cd.grammars.PYTHON``: the rules of ``python.lark``, and f-strings, made of the same expressions.

CPython 3.11 takes an f-string for one string and reads its fields afterwards: no quote of the string's kind, no backslash and
no comment may stand in them; 3.12 lifted that. What stands in a field here is legal in both: the expressions of
``python.lark``, with strings in the other kind of quotes, on one line.

An f-string is cut where a field begins or ends: ``f"a{``, ``x}``, `` b{``, ``y}``, `` c"``. The text before a field takes its
brace along, since two braces are text.
"""

from __future__ import annotations

_BEGIN, _END = "// ---- expressions\n", "// ---- end of expressions\n"

_FIELD = r"""%lark {
  %llguidance {"allow_initial_skip": true}
  %word /[A-Za-z0-9_\u0080-\U0010FFFF]/ NUMBER REAL IMAGINARY
  %ignore /[ \t\f]+/
  start: values "="? ("}" | ":" spec | "!" converted)
  converted: conversion (close | colon spec)
  spec: spec_text? (opening nested spec_text?)* "}"
  nested: values ("}" | "!" conversion close)
  values: value ("," value)* ","?
  value: "*" operation | one
  one: disjunction ("if" disjunction "else" one)?
  conversion[glued]: "r" | "s" | "a"
  close[glued]: "}"
  colon[glued]: ":"
  opening[glued]: "{"
  spec_text[glued]: /[^{}'"\\\r\n\x00]+/
  atom: NAME | NUMBER | QUOTED | "None" | "True" | "False" | "..." | enclosed
  QUOTED: /[uUrR]?$[^$"'\\\r\n\x00]*$|([bB]|[bB][rR]|[rR][bB])$[\x01-\x7f&&[^"'\\\r\n]]*$/
"""

_ESCAPE = r"\\(\r?\n|[^xuUN{}\r\n\x00]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U00(0[0-9a-fA-F]|10)[0-9a-fA-F]{4})"
_RAW_ESCAPE = r"\\(\r?\n|[^{}\r\n\x00])"


_WIDTH = '"max_width": 96'


def narrower(text: str, max_width: int) -> str:
    """The grammar with blocks of at most so many columns."""
    assert _WIDTH in text
    return text.replace(_WIDTH, f'"max_width": {max_width:d}')


def complete(rules: str) -> str:
    """The text of ``python.lark`` with f-strings."""
    expressions = rules[rules.index(_BEGIN) + len(_BEGIN) : rules.index(_END)]
    out = [rules]
    forms = []
    for kind, quote, other in (("double", '"', "'"), ("single", "'", '"')):
        out.append(f"field_{kind}: {_FIELD.replace('$', other)}{expressions}}}")
        for size, ends in (("", quote), ("long_", 3 * quote)):
            for raw, prefix, escape in (("", "[fF]", _ESCAPE), ("raw_", "([fF][rR]|[rR][fF])", _RAW_ESCAPE)):
                name = f"{raw}{size}{kind}"
                lines = "" if size else r"\r\n"
                few = f"{quote}?{quote}?" if size else ""
                text = f"({few}([^{quote}{{}}\\\\{lines}\\x00]|\\{{\\{{|\\}}\\}}|{escape}))*"
                opens = rf"{text}{few}\{{" if not raw else rf"{text}{few}\\?\{{"
                out.append(f"whole_{name}: /{prefix}{ends}{text}{ends}/")
                out.append(f"first_{name}: /{prefix}{ends}{opens}/")
                out.append(f"more_{name}[glued]: /{opens}/")
                out.append(f"last_{name}[glued]: /{text}{ends}/")
                fields = f"first_{name} field_{kind} (more_{name} field_{kind})* last_{name}"
                forms.append(f"whole_{name} | {fields}")
    out.append("formatted: " + "\n    | ".join(forms))
    return "\n".join(out) + "\n"
