"""What a user asks for: the kinds of grammar that :meth:`cdplugin.Compiler.compile` takes."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from cdplugin.errors import GrammarError
from cdplugin.expr import Expr
from cdplugin.frontends import json_schema, literals
from cdplugin.frontends.json_schema.options import Options
from cdplugin.grammar import GrammarIR
from cdplugin.limits import Limits


class Spec:
    """A grammar as the user wrote it. Subclasses know how to become rules over lexemes."""

    def key(self) -> Hashable | None:
        """Equal keys compile to the same grammar; ``None``: do not cache."""
        raise TypeError("a Spec is one of its subclasses: cdplugin.JsonSchema, Regex, Choice, Gbnf, …")

    def to_ir(self, limits: Limits, ir: GrammarIR | None = None) -> GrammarIR:
        """The rules, written into ``ir`` if one is given (see :meth:`GrammarIR.nested`).

        Raises :class:`GrammarError` with the location of what is wrong.
        """
        raise TypeError("a Spec is one of its subclasses: cdplugin.JsonSchema, Regex, Choice, Gbnf, …")


_MOST_WRITTEN = 1_000_000
"""Values that a schema may have, written out, to be remembered: one that has parts in common may have exponentially many."""


def _written_size(value: Any, known: dict[int, int]) -> int:
    """How many JSON values a Python value has when it is written out; ``known``: of those that were met, by id."""
    if type(value) is not dict and type(value) is not list:
        return 1
    size = known.get(id(value))
    if size is None:
        children = value.values() if type(value) is dict else value
        size = known[id(value)] = 1 + sum([_written_size(child, known) for child in children])
    return size


class JsonSchema(Spec):
    """JSON that is valid under a JSON Schema (draft 2020-12 unless ``$schema`` says otherwise).

    Parameters
    ----------
    schema : dict, bool, JSON text, or a pydantic model class.
    whitespace : ``"flexible"`` (bounded runs between tokens), ``"compact"``, or a regular expression for each run.
    separators, indent : as ``json.dumps`` takes them: the layout is then exactly what it prints (arrays and objects at most 24
        deep with ``indent``).
    property_order : ``"schema"``: properties come in the order in which the schema declares them.
    unique_names : whether undeclared names occur at most once in an object too. (RFC 8259 only says that names should be
        unique; of equal ones, readers keep the last.)
    formats : ``"enforce"``, ``"rfc"`` (also what only the RFCs allow, as leap seconds), or ``"annotation"`` (the
        specification's default: ``format`` does not validate).
    unknown_formats : a ``format`` that no draft defines is an ``"annotation"``, or an ``"error"``.
    on_unsupported : ``"error"``: refuse a keyword that is not enforced, by name; ``"relax"``: let it go and list it in
        ``grammar.relaxed``.
    registry : a ``referencing.Registry`` for remote ``$ref``; nothing is ever fetched.
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
        if not isinstance(schema, str):
            if isinstance(schema, type):
                return (JsonSchema, schema, self.options)
            try:
                if _written_size(schema, {}) > _MOST_WRITTEN:
                    return None
                schema = json.dumps(schema, ensure_ascii=False)
            except (TypeError, ValueError, RecursionError):
                return None  # the front end says what is wrong with it
        return (JsonSchema, schema, self.options)

    def to_ir(self, limits: Limits, ir: GrammarIR | None = None) -> GrammarIR:
        return json_schema.compile_schema(self.schema, self.options, limits, ir)


class JsonObject(Spec):
    """Any JSON object."""

    def __init__(self, *, whitespace: str = "flexible") -> None:
        self.options = Options(whitespace=whitespace)

    def key(self) -> Hashable:
        return (JsonObject, self.options)

    def to_ir(self, limits: Limits, ir: GrammarIR | None = None) -> GrammarIR:
        return json_schema.compile_json_object(self.options, limits, ir)

    @staticmethod
    def characters() -> list[Expr]:
        """Expressions that nearly every JSON grammar shares: the characters that names are made of."""
        return json_schema.characters()


@dataclass(frozen=True)
class Regex(Spec):
    """Text that matches a regular expression from its beginning to its end.

    ``dialect``: ``"rust"`` (default), ``"python"`` or ``"ecma"``. Look-around and back-references are refused.
    """

    pattern: str
    dialect: str = "rust"

    def key(self) -> Hashable:
        return (Regex, self.pattern, self.dialect)

    def to_ir(self, limits: Limits, ir: GrammarIR | None = None) -> GrammarIR:
        if not isinstance(self.pattern, str):
            raise GrammarError("wrong type of regular expression", expected="str", found=type(self.pattern).__name__)
        return literals.compile_regex(self.pattern, limits, self.dialect, ir)


class Choice(Spec):
    """One of some texts."""

    def __init__(self, choices: Sequence[str]) -> None:
        if isinstance(choices, str) or not isinstance(choices, Sequence):
            raise GrammarError("wrong type of choices", expected="a sequence of str", found=type(choices).__name__)
        self.choices = tuple(choices)

    def key(self) -> Hashable:
        return (Choice, self.choices)

    def to_ir(self, limits: Limits, ir: GrammarIR | None = None) -> GrammarIR:
        return literals.compile_choice(self.choices, limits, ir)
