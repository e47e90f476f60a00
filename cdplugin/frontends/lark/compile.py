"""Compile the text of a Lark grammar into the IR."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from cdplugin.errors import UnsupportedError, relocated
from cdplugin.frontends.cycles import merge_cycles
from cdplugin.frontends.json_schema import Options, compile_schema
from cdplugin.frontends.lark import tree
from cdplugin.frontends.lark.bounded import folded, is_self_delimiting
from cdplugin.frontends.lark.corners import check_corners, have_few_corners, unfold
from cdplugin.frontends.lark.definitions import Scope
from cdplugin.frontends.lark.draft import Draft
from cdplugin.frontends.lark.endings import check_endings, check_productive
from cdplugin.frontends.lark.indent import rewrite_indentation
from cdplugin.frontends.lark.json_options import Guided, json_options
from cdplugin.frontends.lark.options import grammar_options, indentation
from cdplugin.frontends.lark.parse import parse
from cdplugin.frontends.lark.stops import share_stops
from cdplugin.frontends.lark.terminals import Terminals
from cdplugin.frontends.lark.tree import Attributes, Grammar, Node
from cdplugin.frontends.lark.write import RuleAt, Writer
from cdplugin.frontends.source import Source
from cdplugin.ir import GrammarIR, Symbol
from cdplugin.limits import BEYOND_TEXT, DEFAULT_LIMITS, Limits

Front = Callable[[Limits, GrammarIR], GrammarIR]
"""A function that writes another grammar into an IR: ``spec.to_ir``."""


def compile_lark(
    text: str,
    grammars: Mapping[str, Front] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    ir: GrammarIR | None = None,
    relaxes: bool = False,
    start: str = "start",
) -> GrammarIR:
    """Compile a Lark grammar.

    ``grammars``: the grammars for ``@name`` and declared names; ``relaxes``: record what is not enforced instead of refusing
    it; ``start``: the start rule (that of nested grammars is ``start``).

    Raises ``GrammarError`` (with line, column and a caret), ``UnsupportedError``, ``LimitExceeded``.
    """
    is_whole = ir is None
    ir = ir or GrammarIR()
    ir.count_text(len(text), limits)
    source = Source(text)
    source.check(limits)
    compiler = _Compiler(source, dict(grammars or {}), limits, ir, relaxes)
    ir.start, writer = compiler.grammar(parse(source, limits), start)
    if is_whole and ir.instances:
        unfold(ir, writer, limits.max_rules)
    merge_cycles(ir)
    return ir


class _Compiler:
    def __init__(self, source: Source, grammars: dict[str, Front], limits: Limits, ir: GrammarIR, relaxes: bool) -> None:
        self.source = source
        self.relaxes = relaxes
        self.grammars = grammars
        self.limits = limits
        self.ir = ir
        self.terminals = Terminals(limits)
        self.embedded: dict[str, Symbol] = {}
        self._rights: dict[Symbol, list[tuple[Symbol, ...]]] = {}  # by nonterminal, from the first `_n_read` rules of the IR
        self._n_read = 0

    def grammar(self, grammar: Grammar, start: str = "start") -> tuple[Symbol, Writer]:
        """Write one grammar; returns its start symbol and its writer.

        It recurses into nested ``%lark``, whose depth the parser bounds.
        """
        options = grammar_options(self.source, grammar.options)
        indented = indentation(self.source, grammar.indents)
        scope = Scope(self.source, grammar, self.grammars, indented, self.ir.relaxed if self.relaxes else None, start)
        draft = Draft(scope, self.terminals, self.embed, self.limits.max_rules)
        share_stops(draft)
        check_productive(draft)
        check_endings(draft, draft.ignored())
        only_widths = not any(rule.takes_parameter for rule in draft.rules)
        layout = None if indented is None else rewrite_indentation(draft, indented, self.limits.max_rules)
        writer = Writer(draft, self.ir, options, layout)
        symbol = writer.write()
        if self.ir.instances and not (layout is not None and only_widths and have_few_corners(draft, layout)):
            members = [value for of, value in self.ir.instances.values() if of is writer.family and isinstance(value, RuleAt)]
            check_corners(draft, writer.family, members)
        return symbol, writer

    def embed(self, node: Node, attributes: Attributes | None) -> Symbol:
        """The start symbol of an embedded grammar. ``attributes``: of the rule that consists of it alone,
        whose bounds apply.
        """
        symbol = self._embedded(node)
        if attributes is None or attributes.max_tokens is None:
            return symbol
        return self._bounded(symbol, attributes.max_tokens, self.source.where(attributes.at["max_tokens"]))

    def _bounded(self, symbol: Symbol, most: int, where: str) -> Symbol:
        """Apply ``max_tokens=`` to a grammar that is one lexeme or ends by itself; refuse or relax others."""
        ir, rights = self.ir, self._rights
        for left, right in ir.rules[self._n_read :]:
            rights.setdefault(left, []).append(right)
        self._n_read = len(ir.rules)
        inner = symbol
        while inner >= 0 and inner not in ir.captures and [len(right) for right in rights.get(inner, ())] == [1]:
            inner = rights[inner][0][0]
        if most > BEYOND_TEXT:
            return symbol
        if inner >= 0 or inner in ir.token_sets or inner in ir.tracked:
            if is_self_delimiting(ir, rights, symbol):
                return symbol
            whole = folded(ir, rights, symbol)
            if whole is None:
                return self._unbounded(symbol, where)
            bounded = ir.lexeme(whole, ir.names[symbol], max_tokens=most)
        else:
            t, skip = ~inner, ir.skips.get(inner)
            bounded = ir.lexeme(ir.lexemes[t], ir.lexeme_names[t], lexing=ir.lexings[t], skip=skip, max_tokens=most)
        out = ir.nonterminal(ir.names[symbol])
        ir.locate(out, ir.places.get(symbol, ()))
        ir.locate(bounded, ir.places.get(inner, ()))
        ir.rule(out, [bounded])
        return out

    def _unbounded(self, symbol: Symbol, where: str) -> Symbol:
        """Refuse or relax ``max_tokens=`` of a grammar."""
        if not self.relaxes:
            raise UnsupportedError(
                "max_tokens= of this grammar is not supported",
                location=where,
                expected="a grammar that is regular and read exactly, or a JSON value that is no number"
                " (on_unsupported='relax' leaves the bound out)",
            )
        self.ir.relaxed.append(("max_tokens", where))
        return symbol

    def _embedded(self, node: Node) -> Symbol:
        """The start symbol of ``%json``, ``%lark``, ``@name`` or a declared name. Equal ones are written once."""
        if node.op == tree.LARK:  # the argument of a template may stand in many places
            key = f"%lark {node.at}"
        else:
            key = "%json " + json.dumps(node.args[0]) if node.op == tree.JSON else "@" + node.args[0]
        symbol = self.embedded.get(key)
        if symbol is None:
            if node.op == tree.LARK:
                symbol = self.grammar(node.args[0])[0]
            else:
                symbol = self._json(node) if node.op == tree.JSON else self._referenced(node)
            self.embedded[key] = symbol
        return symbol

    def _json(self, node: Node) -> Symbol:
        (schema,) = node.args
        if not isinstance(schema, (dict, bool)):
            found = type(schema).__name__
            self.source.fail("what follows %json", node.at, expected="a JSON Schema: an object, true or false", found=found)
        guided = json_options(self.source, schema, node.at) if isinstance(schema, dict) else Guided(schema, Options())
        with self._within(node, "%json"):
            inner = self.ir.nested()
            if guided.restriction is not None:
                inner.restriction = guided.restriction
            return self.ir.adopt(compile_schema(guided.schema, guided.options, self.limits, inner))

    def _referenced(self, node: Node) -> Symbol:
        with self._within(node, f"@{node.args[0]}"):
            inner = self.ir.nested()
            return self.ir.adopt(self.grammars[node.args[0]](self.limits, inner))

    def _within(self, node: Node, what: str) -> AbstractContextManager[None]:
        """A context that adds to errors where in this grammar the inner one is embedded."""
        return relocated(lambda inner: f"{inner}{' of ' if inner else ''}{what} in {self.source.where(node.at)}")
