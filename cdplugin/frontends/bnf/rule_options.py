"""Parse the options after a rule's name in xgrammar's notation: ``name[lazy, max_tokens=3, capture="x"] ::= …``.

Source: xgrammar 0.2.8, ``str(grammar)`` of grammars made from Lark, and its tests; for ``excludes``, its later tests.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cdplugin.errors import suggestion
from cdplugin.expr import ALL_BYTES, ANY_CHAR, EMPTY, Expr, both, byte_mask, cat, complement, repeat
from cdplugin.frontends.bnf.scan import Scanner
from cdplugin.frontends.free_text import without
from cdplugin.limits import BEYOND_TEXT

_COUNTS = ("max_tokens", "max_chars", "capture_hidden_suffix_bytes", "capture_hidden_stop_bytes")
_RULES = ("capture_hidden_body_rule_id", "capture_hidden_marker_rule_id")
_NAMES = ("capture", "stop_capture")
KNOWN = ("lazy", "excludes", "temperature", *_NAMES, *_COUNTS, *_RULES)
_SOME = ("lazy", "max_tokens", "max_chars", "excludes", "capture", "temperature")
_REST = cat(byte_mask(ALL_BYTES), complement(EMPTY))


@dataclass
class RuleOptions:
    """The options of a rule. ``hidden``: how many bytes at its end a capture leaves out; ``marker``: instead, the number of the
    rule that matches those bytes; ``at``: the position of each option.
    """

    lazy: bool = False
    max_tokens: int | None = None
    max_chars: int | None = None
    excludes: tuple[str, ...] = ()
    capture: str | None = None
    stop_capture: str | None = None
    hidden: int = 0
    marker: int | None = None
    at: dict[str, int] = field(default_factory=dict)

    @property
    def needs_regular(self) -> str:
        """The first option that needs the rule to be regular, or ``""``."""
        return next((key for key in ("lazy", "max_chars", "excludes", "max_tokens") if key in self.at), "")

    @property
    def stands_alone(self) -> bool:
        """Whether the rule must not become part of a larger lexeme."""
        return self.max_tokens is not None or self.capture is not None or self.stop_capture is not None

    def shaped(self, expression: Expr) -> Expr:
        """Restrict the rule's texts by ``excludes`` (none of some texts inside), ``max_chars``, and ``lazy`` (no proper prefix
        matches)."""
        if self.excludes:
            expression = both(expression, without(self.excludes))
        if self.max_chars is not None and self.max_chars <= BEYOND_TEXT:
            expression = both(expression, repeat(ANY_CHAR, 0, self.max_chars))
        return both(expression, complement(cat(expression, _REST))) if self.lazy else expression


def read_options(scanner: Scanner, rule: str) -> RuleOptions:
    """The options of ``rule`` in the bracket on which the scanner stands. Raises ``GrammarError`` with line and column."""
    out = RuleOptions()
    opening = scanner.pos
    scanner.pos += 1
    while True:
        scanner.skip(newlines=False)
        at, key = scanner.pos, scanner.name()
        if key not in KNOWN:
            found = (repr(key) if key else scanner.found(at)) + suggestion(key or "", KNOWN)
            scanner.fail("bad option of a rule", at, expected="one of " + ", ".join(_SOME), found=found)
        if key in out.at:
            scanner.fail("an option twice", at, expected="each option once", found=repr(key))
        out.at[key] = at
        scanner.skip(newlines=False)
        if key == "capture" and scanner.peek() != "=":
            out.capture = rule
        elif key != "lazy":
            if scanner.peek() != "=":
                scanner.fail("bad option of a rule", expected=f"= after {key}")
            scanner.pos += 1
            scanner.skip(newlines=False)
            _value(scanner, out, key)
        elif scanner.peek() == "=":
            scanner.fail("bad option of a rule", expected="lazy without a value")
        else:
            out.lazy = True
        scanner.skip(newlines=False)
        if scanner.peek() == "]":
            scanner.pos += 1
            return out
        if scanner.peek() != ",":
            scanner.fail("unclosed options of a rule", opening, expected=", or ]", found=scanner.found())
        scanner.pos += 1


def _value(scanner: Scanner, out: RuleOptions, key: str) -> None:
    at = scanner.pos
    if key in _NAMES:
        if scanner.peek() != '"':
            scanner.fail(f"bad {key}", expected='a name "…"')
        name = scanner.literal()
        if not name:
            scanner.fail(f"bad {key}", at, expected="a name of at least one character", found='""')
        setattr(out, key, name)
    elif key == "excludes":
        out.excludes = _texts(scanner)
    elif key == "temperature":
        scanner.decimal()
    else:
        number = scanner.number(key)
        if key in _RULES:
            out.marker = number if key == "capture_hidden_marker_rule_id" else out.marker
        elif key in ("max_tokens", "max_chars"):
            setattr(out, key, number)
        else:
            out.hidden = number


def _texts(scanner: Scanner) -> tuple[str, ...]:
    """The texts of a tuple ``("a", "b")``."""
    out: list[str] = []
    opening = scanner.pos
    expected = 'texts ("…", …)'
    if scanner.peek() != "(":
        scanner.fail("bad excludes", expected=expected)
    while True:
        scanner.pos += 1
        scanner.skip(newlines=False)
        if scanner.peek() != '"':
            scanner.fail("bad excludes", expected=expected)
        at = scanner.pos
        out.append(scanner.literal())
        if not out[-1]:
            scanner.fail("bad excludes", at, expected="texts of at least one character", found='""')
        scanner.skip(newlines=False)
        if scanner.peek() == ")":
            scanner.pos += 1
            return tuple(out)
        if scanner.peek() != ",":
            scanner.fail("unclosed excludes", opening, expected=", or )", found=scanner.found())
