"""What a caller may choose about a JSON Schema grammar."""

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
    """What stands between the parts of arrays and objects, as LLGuidance's ``x-guidance`` says it: regular expressions in
    Rust's syntax. ``space`` matches at most once wherever JSON allows white space; of all three only what is JSON counts.
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
        (none), or a regular expression for the run between two tokens; of that expression, only what is JSON whitespace counts.
    separators, indent : as ``json.dumps`` takes them; either fixes the layout to what it prints.
        ``separators``: what stands between items, and after a name; default ``(", ", ": ")``, or ``(",", ": ")`` with
        ``indent``. ``indent``: a number of spaces or the whitespace itself; arrays and objects are then at most 24 deep.
    property_order : ``"schema"``: declared properties in the order of their declaration, then required names that are not
        declared, then further names. ``"any"``: in any order.
    unique_names : whether names that are not declared occur at most once too, as declared ones always do. A grammar then
        remembers the names of each object; it costs time where they end.
    formats : ``"enforce"``: a known ``format`` (in Draft 7 and without ``$schema`` also ``contentEncoding``) is an assertion,
        kept to what ``jsonschema`` and usual readers accept too; ``"rfc"``: also what only the RFCs allow (leap seconds and the
        like, see ``formats``);
        ``"annotation"``: none is an assertion (the specification's default).
    unknown_formats : a ``format`` that no draft defines is an ``"annotation"``, or an ``"error"``.
    on_unsupported : ``"error"``: a keyword that cannot be enforced raises; ``"relax"``: it is listed in ``GrammarIR.relaxed``.
    registry : a ``referencing.Registry`` for references to other documents. The network is never used.
    gaps : separators and white space as patterns, instead of ``whitespace``; for grammars that embed a schema.
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
"""What nearly all schemas are read with."""
