"""The options of a JSON Schema grammar, and their checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from cdplugin.errors import GrammarError, shown

_CHOICES = {
    "property_order": ("schema", "any"),
    "formats": ("enforce", "rfc", "annotation"),
    "unknown_formats": ("annotation", "error"),
    "on_unsupported": ("error", "relax"),
}
_MOST_INDENT = 64


class Gaps(NamedTuple):
    """Separators and white space of arrays and objects as regular expressions in Rust's syntax (LLGuidance's ``x-guidance``).

    ``space`` matches at most once wherever JSON allows white space. Of all three, only matches that are valid JSON count.
    """

    item: str
    key: str
    space: str


@dataclass(frozen=True)
class Options:
    """Serialisation and strictness of a JSON Schema grammar.

    Attributes
    ----------
    whitespace : ``"flexible"`` (runs of at most 40 of space, tab, line feed, carriage return between tokens), ``"compact"``
        (none), or a regular expression for the run between two tokens; only its matches that are JSON white space count.
    separators, indent : as in ``json.dumps``; either fixes the layout to what that prints.
        ``separators``: the texts between items, and after a name; default ``(", ", ": ")``, or ``(",", ": ")`` with
        ``indent``. ``indent``: a number of spaces or the white space itself; arrays and objects are then at most 24 deep.
    property_order : ``"schema"``: declared properties in the order of their declaration, then required names that are not
        declared, then further names. ``"any"``: in any order.
    unique_names : whether undeclared names, too, occur at most once, as declared ones always do. A grammar then remembers the
        names of each object, which costs time where a name ends.
    formats : ``"enforce"``: a known ``format`` (in Draft 7 and without ``$schema`` also ``contentEncoding``) is an assertion,
        restricted to what ``jsonschema`` and usual readers accept; ``"rfc"``: also what only the RFCs allow (leap seconds and
        the like, see ``formats``); ``"annotation"``: no format is an assertion (the specification's default).
    unknown_formats : a ``format`` that no draft defines is an ``"annotation"``, or an ``"error"``.
    on_unsupported : ``"error"``: a keyword that cannot be enforced raises; ``"relax"``: it is listed in ``GrammarIR.relaxed``.
    registry : a ``referencing.Registry`` for references to other documents. The network is never used.
    gaps : separators and white space as patterns, instead of ``whitespace``; for grammars that embed a schema.

    Raises ``GrammarError`` for other values.
    """

    whitespace: str = "flexible"
    property_order: str = "schema"
    formats: str = "enforce"
    unknown_formats: str = "annotation"
    on_unsupported: str = "error"
    registry: Any = None
    separators: tuple[str, str] | None = None
    indent: int | str | None = None
    unique_names: bool = False
    gaps: Gaps | None = None

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if not isinstance(value, str) or value not in allowed:
                raise GrammarError(f"option {name}", expected=" or ".join(map(repr, allowed)), found=shown(value))
        if self.registry is not None and not hasattr(self.registry, "crawl"):
            found = type(self.registry).__name__
            raise GrammarError("option registry", expected="a referencing.Registry", found=found)
        if not isinstance(self.unique_names, bool):
            raise GrammarError("option unique_names", expected="True or False", found=shown(self.unique_names))
        if not isinstance(self.whitespace, str):
            raise GrammarError(
                "option whitespace",
                expected="'flexible', 'compact' or a regular expression",
                found=type(self.whitespace).__name__,
            )
        self._check_layout()

    def _check_layout(self) -> None:
        if self.separators is None and self.indent is None:
            return
        if self.whitespace != "flexible":
            beside = "'flexible' beside separators or indent"
            raise GrammarError("option whitespace", expected=beside, found=shown(self.whitespace))
        pair = self.separators
        if pair is not None and not (
            isinstance(pair, tuple)
            and len(pair) == 2
            and all(isinstance(text, str) and text.strip(" \t\r\n") == mark for text, mark in zip(pair, ",:", strict=True))
        ):
            raise GrammarError("option separators", expected="a comma and a colon, each with whitespace", found=shown(pair))
        indent = self.indent
        is_count = isinstance(indent, int) and not isinstance(indent, bool) and 0 <= indent <= _MOST_INDENT
        is_text = isinstance(indent, str) and len(indent) <= _MOST_INDENT and not indent.strip(" \t\r\n")
        if indent is not None and not is_count and not is_text:
            raise GrammarError("option indent", expected=f"0 to {_MOST_INDENT}, or so much whitespace", found=shown(indent))


USUAL = Options()
"""The default options, which nearly all schemas use."""
