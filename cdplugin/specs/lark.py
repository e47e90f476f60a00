"""The spec for grammars in Lark's notation."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from cdplugin.errors import GrammarError, shown
from cdplugin.frontends.lark import compile_lark
from cdplugin.ir import GrammarIR
from cdplugin.limits import Limits
from cdplugin.specs.base import Spec, key_of


class Lark(Spec):
    """Text that a grammar in Lark's notation derives, with LLGuidance's extensions (docs/grammars.md).

    Rules are over terminals: at each place, longest match decides among the terminals that the rules allow there.
    ``start``: the rule that the whole text must match. ``grammars``: the specs for ``@name`` and for names after ``%declare``.
    ``on_unsupported="relax"``: what is not enforced (``max_tokens=`` of grammars that are not regular, priorities of terminals)
    is left out and listed in ``grammar.relaxed``.

    >>> from cdplugin.limits import Limits
    >>> ir = Lark('start: WORD ("," WORD)*  WORD: /[a-z]+/'.replace("  ", chr(10))).to_ir(Limits())
    >>> ir.lexeme_names, ir.lexings
    (['WORD', '","'], ['longest', 'longest'])
    """

    def __init__(
        self,
        grammar: str,
        *,
        start: str = "start",
        grammars: Mapping[str, Spec] | None = None,
        on_unsupported: str = "error",
    ) -> None:
        if not isinstance(grammar, str):
            raise GrammarError("wrong type of Lark grammar", expected="str", found=type(grammar).__name__)
        if on_unsupported not in ("error", "relax"):
            raise GrammarError("bad on_unsupported", expected="'error' or 'relax'", found=shown(on_unsupported))
        if not isinstance(start, str):
            raise GrammarError("wrong type of start", expected="the name of a rule", found=type(start).__name__)
        self.grammar = grammar
        self.start = start
        self.on_unsupported = on_unsupported
        if grammars is not None and not isinstance(grammars, Mapping):
            raise GrammarError("wrong type of grammars", expected="a mapping of names to specs", found=type(grammars).__name__)
        self.grammars = dict(grammars or {})
        for name, spec in self.grammars.items():
            if not isinstance(name, str) or not isinstance(spec, Spec):
                found = f"{type(name).__name__}: {type(spec).__name__}"
                expected = "names and specs, as {'x': cdplugin.Regex(…)}"
                raise GrammarError("wrong type in grammars", expected=expected, found=found)
        self._hold(self.grammars.values())

    def key(self) -> Hashable | None:
        names = sorted(self.grammars)
        given = [self.grammars[name].key() for name in names]
        return key_of(Lark, self.grammar, self.start, self.on_unsupported, *names, *given)

    def to_ir(self, limits: Limits, ir: GrammarIR | None = None) -> GrammarIR:
        fronts = {name: spec.to_ir for name, spec in self.grammars.items()}
        return compile_lark(self.grammar, fronts, limits, ir, self.on_unsupported == "relax", self.start)
