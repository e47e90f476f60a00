"""What a caller may choose about a JSON Schema grammar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cdplugin.errors import GrammarError

_CHOICES = {
    "property_order": ("schema", "any"),
    "formats": ("enforce", "rfc", "annotation"),
    "unknown_formats": ("annotation", "error"),
    "on_unsupported": ("error", "relax"),
}


@dataclass(frozen=True)
class Options:
    """Serialisation and strictness of a JSON Schema grammar.

    Attributes
    ----------
    whitespace : ``"flexible"`` (runs of at most 40 of space, tab, line feed, carriage return between tokens), ``"compact"``
        (none), or a regular expression for the run between two tokens; of that expression, only what is JSON whitespace counts.
    property_order : ``"schema"``: declared properties in the order of their declaration, then required names that are not
        declared, then further names. ``"any"``: in any order.
    formats : ``"enforce"``: a known ``format`` (in Draft 7 and without ``$schema`` also ``contentEncoding``) is an assertion,
        kept to what ``jsonschema`` and usual readers accept too; ``"rfc"``: also what only the RFCs allow (leap seconds and the
        like, see ``formats``);
        ``"annotation"``: none is an assertion (the specification's default).
    unknown_formats : a ``format`` that no draft defines is an ``"annotation"``, or an ``"error"``.
    on_unsupported : ``"error"``: a keyword that cannot be enforced raises; ``"relax"``: it is listed in ``GrammarIR.relaxed``.
    registry : a ``referencing.Registry`` for references to other documents. The network is never used.
    """

    whitespace: str = "flexible"
    property_order: str = "schema"
    formats: str = "enforce"
    unknown_formats: str = "annotation"
    on_unsupported: str = "error"
    registry: Any = None

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value not in allowed:
                raise GrammarError(f"option {name}", expected=" or ".join(map(repr, allowed)), found=repr(value))
        if not isinstance(self.whitespace, str):
            raise GrammarError(
                "option whitespace",
                expected="'flexible', 'compact' or a regular expression",
                found=type(self.whitespace).__name__,
            )
