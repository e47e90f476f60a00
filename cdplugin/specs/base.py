"""The base class of specs, and the simple ones: JSON Schema, any JSON object, regular expressions, choices."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cdplugin.errors import GrammarError, LimitExceeded
from cdplugin.expr import Expr
from cdplugin.frontends import json_schema, literals
from cdplugin.frontends.json_schema.options import Options
from cdplugin.frontends.json_schema.source import content_key
from cdplugin.ir import GrammarIR
from cdplugin.limits import Limits
from cdplugin.tally import counting

_MOST_DEPTH = 32
_MOST_SPECS = 10_000
"""Nesting depth of specs, and their number; a shared spec counts at each occurrence."""


class Spec:
    """A grammar as the caller wrote it. Subclasses know how to become rules over lexemes."""

    _depth = 1
    _size = 1

    def _hold(self, inner: Iterable[Spec]) -> None:
        """Record the specs inside this one. Raises :class:`LimitExceeded` if they are nested too deeply, or too many."""
        held = list(inner)
        self._depth = 1 + max((spec._depth for spec in held), default=0)
        self._size = 1 + sum(spec._size for spec in held)
        if self._depth > _MOST_DEPTH:
            raise LimitExceeded("specs are nested too deeply", expected=f"at most {_MOST_DEPTH}", found=str(self._depth))
        if self._size > _MOST_SPECS:
            raise LimitExceeded("too many specs inside one", expected=f"at most {_MOST_SPECS}", found=str(self._size))

    def key(self) -> Hashable | None:
        """A cache key: equal keys compile to the same grammar. ``None``: do not cache."""
        raise TypeError("a Spec is one of its subclasses: cdplugin.JsonSchema, Regex, Choice, Gbnf, …")

    def to_ir(self, limits: Limits, ir: GrammarIR | None = None) -> GrammarIR:
        """Write the rules, into ``ir`` if given (:meth:`GrammarIR.nested`). Raises :class:`GrammarError` with a location."""
        raise TypeError("a Spec is one of its subclasses: cdplugin.JsonSchema, Regex, Choice, Gbnf, …")

    def rules(self, limits: Limits) -> GrammarIR:
        """:meth:`to_ir` for a grammar of its own, with its nodes bounded by ``Limits.max_expr_nodes``."""
        with counting(limits.max_expr_nodes):
            return self.to_ir(limits)


def key_of(*parts: Any) -> Hashable | None:
    """``parts`` as a key; None if one is None or not hashable (the front end will report what is wrong with it)."""
    try:
        hash(parts)
    except TypeError:
        return None
    return None if None in parts else parts


class PlainSpec(Spec):
    """A spec that its attributes describe completely."""

    def key(self) -> Hashable | None:
        return key_of(type(self), *vars(self).values())


_DEFAULT = json_schema.USUAL
_USUAL = (_DEFAULT.whitespace, _DEFAULT.property_order, _DEFAULT.formats, _DEFAULT.unknown_formats, _DEFAULT.on_unsupported)


class JsonSchema(Spec):
    """JSON that is valid under a JSON Schema (Draft 2020-12 unless ``$schema`` says otherwise).

    Parameters
    ----------
    schema : dict, bool, JSON text, or a pydantic model class.
    whitespace : ``"flexible"`` (bounded runs between tokens), ``"compact"``, or a regular expression for each run.
    separators, indent : as in ``json.dumps``; the layout is then exactly what that prints (with ``indent``, arrays and objects
        are at most 24 deep).
    property_order : ``"schema"``: properties come in the order in which the schema declares them; ``"any"``: in any order.
    unique_names : whether undeclared names occur at most once in an object, too. (RFC 8259 only says that names should be
        unique; of equal ones, readers keep the last.)
    formats : ``"enforce"``, ``"rfc"`` (also what only the RFCs allow, such as leap seconds), or ``"annotation"`` (the
        specification's default: ``format`` does not validate).
    unknown_formats : a ``format`` that no draft defines is an ``"annotation"``, or an ``"error"``.
    on_unsupported : ``"error"``: refuse a keyword that cannot be enforced, by name; ``"relax"``: drop it, and list it in
        ``grammar.relaxed``.
    registry : a ``referencing.Registry`` for remote ``$ref``; nothing is ever fetched.

    Raises :class:`cdplugin.GrammarError` for other values of the options; the schema is checked when it is compiled.
    """

    def __init__(
        self,
        schema: Any,
        *,
        whitespace: str = "flexible",
        separators: Sequence[str] | None = None,
        indent: int | str | None = None,
        property_order: str = "schema",
        unique_names: bool = False,
        formats: str = "enforce",
        unknown_formats: str = "annotation",
        on_unsupported: str = "error",
        registry: Any = None,
    ) -> None:
        self.schema = schema
        if (
            (whitespace, property_order, formats, unknown_formats, on_unsupported) == _USUAL
            and separators is indent is registry is None
            and unique_names is False
        ):
            self.options = _DEFAULT
            return
        self.options = Options(
            whitespace=whitespace,
            separators=tuple(separators) if isinstance(separators, list) else separators,  # type: ignore[arg-type]
            indent=indent,
            property_order=property_order,
            unique_names=unique_names,
            formats=formats,
            unknown_formats=unknown_formats,
            on_unsupported=on_unsupported,
            registry=registry,
        )

    def key(self) -> Hashable | None:
        if self.options.registry is not None:
            return None
        schema = self.schema
        if not isinstance(schema, (str, type)):
            schema = content_key(schema)
            if self.options is _DEFAULT or self.options == _DEFAULT:  # a copy of them, in an unpickled spec
                return schema  # `bytes` are the key of no other spec, and are hashed only once, unlike a tuple
        return key_of(JsonSchema, schema, self.options)

    def to_ir(self, limits: Limits, ir: GrammarIR | None = None) -> GrammarIR:
        return json_schema.compile_schema(self.schema, self.options, limits, ir)


class JsonObject(PlainSpec):
    """Any JSON object."""

    def __init__(self, *, whitespace: str = "flexible") -> None:
        self.options = Options(whitespace=whitespace)

    def to_ir(self, limits: Limits, ir: GrammarIR | None = None) -> GrammarIR:
        return json_schema.compile_schema({"type": "object"}, self.options, limits, ir)

    @staticmethod
    def characters() -> list[Expr]:
        """Expressions that nearly every JSON grammar shares: the characters of property names."""
        return json_schema.characters()


@dataclass(frozen=True)
class Regex(PlainSpec):
    """Text that a regular expression matches from beginning to end.

    ``dialect``: ``"rust"`` (the default; no look-around, no back-references), ``"python"`` or ``"ecma"``. Refused are
    back-references to groups of more than 512 texts, word boundaries inside unbounded repetitions, and look-around inside them
    that depends on more than the text beside it.
    """

    pattern: str
    dialect: str = "rust"

    def to_ir(self, limits: Limits, ir: GrammarIR | None = None) -> GrammarIR:
        return literals.compile_regex(self.pattern, limits, self.dialect, ir)


class Choice(PlainSpec):
    """One of some texts."""

    def __init__(self, choices: Sequence[str]) -> None:
        if isinstance(choices, str) or not isinstance(choices, Sequence):
            raise GrammarError("wrong type of choices", expected="a list of strings", found=type(choices).__name__)
        self.choices = tuple(choices)

    def to_ir(self, limits: Limits, ir: GrammarIR | None = None) -> GrammarIR:
        return literals.compile_choice(self.choices, limits, ir)
