"""Specs for grammars written as text: GBNF and EBNF."""

from __future__ import annotations

import re
from collections.abc import Hashable
from importlib import import_module

from cdplugin.errors import GrammarError, UnsupportedError, shown
from cdplugin.frontends.bnf import compile_bnf
from cdplugin.ir import GrammarIR
from cdplugin.limits import DEFAULT_LIMITS, Limits
from cdplugin.specs.base import PlainSpec, Spec, key_of
from cdplugin.tally import counting

_SYNTAXES = {"gbnf": "gbnf", "xgrammar": "xgrammar", "ebnf": "xgrammar", "lark": "lark", "auto": "auto"}
_OPTIONS = r'\[(?:"(?:\\.|[^"\\\n])*"|[^]"\n])*\]|\[[^]\n]*\]'  # with texts in quotes, which may hold brackets; or anything
_RULE = re.compile(rf"^[ \t]*[?!]?[A-Za-z_][\w.-]*(?![\w.-])(?:{_OPTIONS})?[^\n\"'/#:=]*(::=|:|=)", re.MULTILINE)


class Gbnf(PlainSpec):
    """Text that a GBNF grammar derives, as llama.cpp defines the format.

    Rules are over characters: there is no lexer, so every text is matched exactly. Left recursion, cycles and empty rules are
    fine. ``root``: the rule that the whole text must match.

    >>> from cdplugin.limits import Limits
    >>> ir = Gbnf('root ::= "(" root ")" | [0-9]+').to_ir(Limits())
    >>> len(ir.rules), len(ir.lexemes)
    (2, 3)
    """

    def __init__(self, grammar: str, *, root: str = "root") -> None:
        self.grammar = grammar
        self.root = root

    def to_ir(self, limits: Limits, ir: GrammarIR | None = None) -> GrammarIR:
        return compile_bnf(self.grammar, "gbnf", self.root, limits, ir)


class Ebnf(PlainSpec):
    """Text that a grammar in one of several notations derives.

    ``syntax``: ``"xgrammar"`` (or ``"ebnf"``; what users of xgrammar and vLLM write), ``"gbnf"`` (llama.cpp), ``"lark"``, or
    ``"auto"``, which looks at the rules: with ``:`` it is Lark; with ``::=`` it is xgrammar's notation if the text is legal
    there, else GBNF. :meth:`resolved_syntax` returns the choice. ``root``: the rule that the whole text must match (``"start"``
    in Lark).

    >>> Ebnf('root ::= "a" . "b"', syntax="auto").resolved_syntax()
    'gbnf'
    """

    def __init__(self, grammar: str, syntax: str = "xgrammar", *, root: str = "root") -> None:
        if not isinstance(syntax, str) or syntax not in _SYNTAXES:
            raise GrammarError("unknown syntax of a grammar", expected="one of " + ", ".join(_SYNTAXES), found=shown(syntax))
        self.grammar = grammar
        self.syntax = syntax
        self.root = root
        self._syntax = "" if syntax == "auto" else _SYNTAXES[syntax]

    def key(self) -> Hashable | None:
        return key_of(Ebnf, self.grammar, self.syntax, self.root)

    def resolved_syntax(self) -> str:
        """The syntax that the grammar is read in: ``"xgrammar"``, ``"gbnf"`` or ``"lark"``.

        With ``syntax="auto"`` the first call reads the grammar. Raises :class:`UnsupportedError` for an unknown notation.
        """
        return self._resolved(DEFAULT_LIMITS)

    def _resolved(self, limits: Limits) -> str:
        if not self._syntax:
            self._syntax = _recognise(self.grammar, self.root, limits)
        return self._syntax

    def to_ir(self, limits: Limits, ir: GrammarIR | None = None) -> GrammarIR:
        syntax = self._resolved(limits)
        if syntax != "lark":
            return compile_bnf(self.grammar, syntax, self.root, limits, ir)
        start = "start" if self.root == "root" else self.root
        spec: Spec = import_module("cdplugin.specs.lark").Lark(self.grammar, start=start)
        return spec.to_ir(limits, ir)


def _recognise(grammar: str, root: str, limits: Limits) -> str:
    """The syntax of a text. A text that is legal in none gets the syntax in which its first error comes last."""
    if not isinstance(grammar, str):
        return "xgrammar"  # compiling says what is wrong
    rule = _RULE.search(grammar)
    if rule is not None and rule.group(1) == ":":
        return "lark"
    if rule is not None and rule.group(1) == "=":
        raise UnsupportedError(
            "no supported notation has rules like this",
            expected="name ::= … (GBNF, xgrammar) or name: … (Lark)",
            found=rule.group().strip()[:60],
        )
    places: dict[str, tuple[int, int]] = {}
    for syntax in ("xgrammar", "gbnf"):
        try:
            with counting(limits.max_expr_nodes):
                compile_bnf(grammar, syntax, root, limits)
        except GrammarError as problem:
            numbers = [int(n) for n in re.findall(r"\d+", problem.location)]
            places[syntax] = (numbers[0], numbers[1]) if len(numbers) == 2 else (0, 0)
        else:
            return syntax
    return max(places, key=lambda syntax: places[syntax])
