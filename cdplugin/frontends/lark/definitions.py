"""Resolve the names of a Lark grammar: definitions, imports, template instances; every use is checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from itertools import chain

from cdplugin.errors import closest, suggestion
from cdplugin.frontends.lark import tree
from cdplugin.frontends.lark.options import Indentation
from cdplugin.frontends.lark.parameters import needs_parameter
from cdplugin.frontends.lark.parse import parse
from cdplugin.frontends.lark.tree import Definition, Grammar, Node, children, walk
from cdplugin.frontends.source import Source
from cdplugin.limits import Limits

_MOST_INSTANCES, _MOST_PARTS = 10_000, 500_000
_NO_TERMINAL = {
    tree.TOKENS: "special tokens match no text and cannot be part of a terminal",
    tree.JSON: "%json cannot be part of a terminal",
    tree.LARK: "%lark cannot be part of a terminal",
    tree.REFERENCE: "a reference to a grammar cannot be part of a terminal",
    tree.WHEN: "%if cannot be part of a terminal",
}

_Pending = list[tuple[Definition, list[Node], Mapping[str, Node]]]
"""Definitions whose bodies are still those of a template, with the nodes that change and what stands for parameters."""


class Scope:
    """The definitions of one grammar; a nested grammar has its own scope.

    Attributes: ``rules`` and ``terminals`` by name, without templates; ``imported``: local name -> name in the library;
    ``declared``: names for which :class:`cdplugin.Lark` gets grammars; ``layout``: the names to which ``%indent`` gives a
    meaning; ``brackets``: terminals, as messages show them -> 1 (opens) or -1 (closes). ``relaxed``: where priorities are
    recorded; without it they are refused. ``start``: the start rule.
    """

    def __init__(
        self,
        source: Source,
        grammar: Grammar,
        given: Iterable[str],
        indentation: Indentation | None = None,
        relaxed: list[tuple[str, str]] | None = None,
        start: str = "start",
    ) -> None:
        self._relaxed = relaxed
        self.start = start
        self.source = source
        self.grammar = grammar
        self.given = frozenset(given)
        self.rules: dict[str, Definition] = {}
        self.terminals: dict[str, Definition] = {}
        self.imported: dict[str, str] = {}
        self.declared = grammar.declared
        self.layout = indentation.names if indentation else {}
        self.brackets = indentation.brackets if indentation else {}
        self._templates: dict[str, Definition] = {}
        self._changing: dict[str, list[Node]] = {}  # by template
        self._parts: dict[str, Counter[str]] = {}  # of a template: how often each name stands there, and "" for other nodes
        self._n_instances = 0
        self._n_parts = 0  # of all instances
        self._lines: dict[str, int] = {}
        self._read()
        if start not in self.rules:
            where = suggestion(start, self.rules)
            source.fail(f"no rule {start!r}", grammar.at, expected=f"{start}: …", found=", ".join(list(self.rules)[:5]) + where)
        if self.rules[start].parametric:
            at = self.rules[start].at
            source.fail(f"the rule {start!r} takes no parameter", at, expected=f"{start}: …", found=f"{start}::_")
        if grammar.uses_templates:
            self._expand_templates()
        self._check_uses()

    def is_lexeme(self, rule: Definition) -> bool:
        """Whether a rule's attributes make it a single lexeme."""
        attributes = rule.attributes
        if attributes.lazy or attributes.glued or attributes.stop is not None or attributes.max_chars is not None:
            return True
        if attributes.max_tokens is None and attributes.temperature is None:
            return False
        return rule.body.op not in (tree.JSON, tree.LARK, tree.REFERENCE)

    # --- reading ----------------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        for entry in self.grammar.imports:
            self._import(entry)
        for definition in self.grammar.definitions:
            self._claim(definition.name, definition.at)
            if definition.parameters is not None:
                self._templates[definition.name] = definition
            elif definition.is_terminal:
                self.terminals[definition.name] = definition
            else:
                self.rules[definition.name] = definition
            if definition.is_terminal and definition.priority_at is not None:
                self._priority(definition.name, definition.priority_at)

    def _priority(self, name: str, at: int) -> None:
        """Refuse or relax a terminal's priority."""
        if self._relaxed is not None:
            self._relaxed.append(("priority", self.source.where(at)))
            return
        hint = 'none, since all terminals that match stay; take words out with &: NAME: /[a-z]+/ & ~("if" | "else")'
        self.source.refuse(
            f"a priority of the terminal {name!r}", at, expected=f"{hint} (on_unsupported='relax' leaves it out)"
        )

    def _import(self, entry: tree.Import) -> None:
        source = self.source
        if entry.path != "common":
            found = repr(entry.path) + suggestion(entry.path, ["common"])
            source.refuse("%import of a library that is not built in", entry.at, expected="common", found=found)
        known = [name for name in library() if name not in PRIVATE]
        if entry.name not in known:
            found = repr(entry.name) + suggestion(entry.name.upper(), known)
            source.fail("no such terminal in common", entry.at, expected="one of " + ", ".join(known), found=found)
        if entry.alias != entry.alias.upper():
            source.fail("the name of an imported terminal", entry.at, expected="capitals", found=repr(entry.alias))
        self._claim(entry.alias, entry.at)
        self.imported[entry.alias] = entry.name

    def _claim(self, name: str, at: int) -> None:
        if name in self._lines:
            found = f"another definition in line {self._lines[name]}"
            self.source.fail(f"{name!r} is defined twice", at, found=found)
        self._lines[name] = self.source.line(at)

    # --- templates --------------------------------------------------------------------------------------------------------

    def _expand_templates(self) -> None:
        """Replace each use of a template by the name of its instance, and define the instances."""
        defined = [*self.rules.values(), *self.terminals.values()]
        pending: _Pending = [(d, _changing(d.body), {}) for d in defined if d.uses_templates]
        self.grammar.ignores = [self._written(node, _changing(node), {}, pending) for node in self.grammar.ignores]
        while pending:
            definition, changing, values = pending.pop()
            definition.body = self._written(definition.body, changing, values, pending)

    def _written(self, body: Node, changing: list[Node], values: Mapping[str, Node], pending: _Pending) -> Node:
        """The tree with ``values`` for its parameters, and the names of instances for uses of templates."""
        made: dict[Node, Node] = {}
        for node in changing:
            if node.op != tree.NAME:
                if node.op in (tree.SEQ, tree.ALT, tree.AND):
                    args: tuple = tuple([made.get(child, child) for child in node.args])
                else:
                    args = (made[node.args[0]], *node.args[1:])
                made[node] = Node(node.op, args, node.at)
            elif node.args[2] is None:
                made[node] = values[node.args[0]]
            else:
                arguments = [made.get(argument, argument) for argument in node.args[2]]
                made[node] = Node(tree.NAME, (self._instance(node, arguments, pending), None, None), node.at)
        return made.get(body, body)

    def _instance(self, use: Node, arguments: list[Node], pending: _Pending) -> str:
        name = use.args[0]
        template = self._templates.get(name)
        if template is None:
            if name in self._lines:
                self.source.fail(f"{name!r} is not a template", use.at, expected=f"{name} without arguments")
            self.source.fail(f"no template {name!r}", use.at, expected="a template" + suggestion(name, self._templates))
        assert template.parameters is not None
        if len(arguments) != len(template.parameters):
            expected = f"{len(template.parameters)} arguments"
            self.source.fail(f"arguments of the template {name!r}", use.at, expected=expected, found=str(len(arguments)))
        key = name + "{" + ", ".join(map(signature, arguments)) + "}"
        known = self.terminals if template.is_terminal else self.rules
        if key in known:
            return key
        values = dict(zip((p for p, _ in template.parameters), arguments, strict=True))
        changing = self._changing.get(name)
        if changing is None:
            changing = self._changing[name] = _changing(template.body, values)
            self._parts[name] = Counter(node.args[0] if node.op == tree.NAME else "" for node in walk(template.body))
        self._n_instances += 1
        parts = self._parts[name]
        self._n_parts += parts.total() + sum(parts[p] * sum(1 for _ in walk(value)) for p, value in values.items())
        if self._n_instances > _MOST_INSTANCES or self._n_parts > _MOST_PARTS or len(key) > 10_000:
            message = f"the template {name!r} is used with too many different arguments"
            expected = f"at most {_MOST_INSTANCES} instances, of {_MOST_PARTS} parts in all"
            self.source.exceed(message, use.at, expected=expected)
        known[key] = Definition(key, template.at, template.body, template.is_terminal, attributes=template.attributes)
        pending.append((known[key], changing, values))
        return key

    # --- uses -------------------------------------------------------------------------------------------------------------

    def _check_uses(self) -> None:
        for name, kind in self.layout.items():
            if kind != "newline" and (name in self.terminals or name in self.imported):
                at = self.terminals[name].at if name in self.terminals else self.grammar.at
                self.source.fail(f"{name!r} of %indent has a definition", at, expected="a name that stands for no text")
        for definition in self.terminals.values():
            self._check_terminal(definition.body, f"the terminal {definition.name!r}")
        for node in self.grammar.ignores:
            self._check_terminal(node, "%ignore")
        for characters, names, _ in self.grammar.words:
            self._check_terminal(characters, "%word")
            for name, at in names:
                self._known(name, at, self.terminals, self.imported)
        for rule in self.rules.values():
            self._check_rule(rule)
        self._check_cycles()

    def _check_rule(self, rule: Definition) -> None:
        attributes = rule.attributes
        if attributes.stop is not None:
            self._check_terminal(attributes.stop, "stop=" if not attributes.is_suffix else "suffix=")
        if self.is_lexeme(rule):
            names = ", ".join(key for key in attributes.at if key not in ("capture", "stop_capture"))
            if rule.parametric:
                self.source.fail(f"{names} of a rule with a parameter", rule.at, expected="a rule without '::_'")
            self._check_terminal(rule.body, f"the rule {rule.name!r}, which {names} makes a terminal")
            return
        stack = [rule.body]
        while stack:
            node = stack.pop()
            if node.op == tree.NOT:
                self._check_terminal(node, "what '~' negates")
                continue
            if node.op == tree.AND:
                self.source.fail("'&' in a rule", node.at, expected="'&' in terminals only: give the part a name in capitals")
            if node.op == tree.NAME:
                self._check_name(node, rule)
            elif node.op == tree.WHEN and not rule.parametric:
                self.source.fail("%if in a rule without a parameter", node.at, expected=f"{rule.name}::_: …")
            elif node.op == tree.REFERENCE and node.args[0] not in self.given:
                expected = "a name in Lark(text, grammars={…})" + suggestion(node.args[0], self.given)
                self.source.fail(f"no grammar '@{node.args[0]}'", node.at, expected=expected)
            stack += reversed(children(node))

    def _check_name(self, node: Node, rule: Definition) -> None:
        name, parameter, _ = node.args
        target = self.rules.get(name)
        if target is None:
            self._known(name, node.at, self.rules, self.terminals, self.imported)
            if parameter is not None:
                self.source.fail(f"a parameter for {name!r}", node.at, expected="parameters of rules only")
            return
        if target.parametric and parameter is None:
            self.source.fail(f"the rule {name!r} without its parameter", node.at, expected=f"{name}::…")
        if parameter is None:
            return
        if not target.parametric:
            self.source.fail(f"a parameter for the rule {name!r}", node.at, expected=f"a rule defined as {name}::_")
        if needs_parameter(parameter) and not rule.parametric:
            expected = f"a number, or a rule defined as {rule.name}::_"
            self.source.fail(f"the rule {rule.name!r} has no parameter to pass on", node.at, expected=expected)

    def _check_terminal(self, body: Node, whose: str) -> None:
        for node in walk(body):
            if node.op in _NO_TERMINAL:
                self.source.fail(_NO_TERMINAL[node.op], node.at, found=f"{tree.KINDS[node.op]} in {whose}")
            if node.op != tree.NAME:
                continue
            name, parameter, _ = node.args
            if name in self.rules or parameter is not None:
                expected = "terminals only (names in capitals)"
                self.source.fail(f"a rule in {whose}", node.at, expected=expected, found=repr(name))
            if name in self.layout and name not in self.terminals:
                self.source.fail(f"{name!r} of %indent inside a terminal", node.at, expected="it in rules only", found=whose)
            if name in self.declared and name not in self.terminals and name not in self.imported:
                expected, found = "a terminal with a definition", f"{name!r} in {whose}"
                self.source.fail("a declared terminal inside another", node.at, expected=expected, found=found)
            self._known(name, node.at, self.terminals, self.imported)

    def _known(self, name: str, at: int, *known: Iterable[str]) -> None:
        """Raise unless a name is defined. Suggest unused definitions first (the likeliest misspellings), then ``known``."""
        if name in self.terminals or name in self.imported or name in self.layout:
            return
        if name in self._templates:
            self.source.fail(f"the template {name!r} without arguments", at, expected=name + "{…}")
        if name in self.declared:
            if name not in self.given:
                hint = "%indent, for blocks by indentation, or " if name.endswith("DENT") else ""
                expected = f"{hint}a grammar for it in Lark(text, grammars={{{name!r}: …}})"
                self.source.fail(f"{name!r} is declared but stands for nothing", at, expected=expected)
            return
        kind = "terminal" if name.lstrip("_")[:1].isupper() else "rule"
        unused = closest(name, self._unused())
        hint = suggestion(name, chain(*known))
        if unused:
            hint = f" (did you mean {unused!r}, which line {self._lines[unused]} defines and nothing uses?)"
        from_common = " (%import common." + name + "?)" if name in library() and name not in PRIVATE else ""
        self.source.fail(f"no {kind} {name!r}", at, expected=f"a {kind} that is defined" + (from_common or hint))

    def _unused(self) -> list[str]:
        definitions = (*self.rules.values(), *self.terminals.values())
        stops = [one.attributes.stop for one in definitions if one.attributes.stop is not None]
        bodies = [*(one.body for one in definitions), *stops, *self.grammar.ignores]
        used = {self.start, *(node.args[0] for body in bodies for node in walk(body) if node.op == tree.NAME)}
        return [name for name in (*self.rules, *self.terminals) if name not in used and name in self._lines]

    def _check_cycles(self) -> None:
        """Raise if a terminal contains itself. Sets ``order``: the terminals, each after those that it contains."""
        uses = {
            name: [n.args[0] for n in walk(d.body) if n.op == tree.NAME and n.args[0] in self.terminals]
            for name, d in self.terminals.items()
        }
        try:
            self.order = list(TopologicalSorter(uses).static_order())
        except CycleError as problem:
            cycle = problem.args[1][:0:-1]
            first = min(range(len(cycle)), key=lambda i: self.terminals[cycle[i]].at)
            name = cycle[first]
            found = " → ".join([*(cycle[first:] + cycle[:first])[:8], name])
            message = f"the terminal {name!r} contains itself"
            raise self.source.error(message, self.terminals[name].at, expected="a rule", found=found) from None


def _changing(body: Node, parameters: Container[str] = ()) -> list[Node]:
    """The nodes of a tree that are a parameter, use a template or have such a node below them, children first."""
    nodes = list(walk(body))
    found: set[Node] = set()
    for node in reversed(nodes):
        is_parameter = node.op == tree.NAME and node.args[0] in parameters and node.args[1:] == (None, None)
        if is_parameter or (node.op == tree.NAME and node.args[2] is not None) or not found.isdisjoint(children(node)):
            found.add(node)
    return [node for node in reversed(nodes) if node in found]


def signature(root: Node) -> str:
    """A text that equal trees share, wherever they stand."""
    out: list[str] = []
    stack: list[Node | str] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            out.append(node)
            continue
        below = children(node)
        if node.op == tree.NAME and not below:
            out.append(node.args[0] + (f"::{node.args[1]}" if node.args[1] is not None else ""))
        elif not below:
            out.append(repr(node.args) if node.op != tree.LARK else f"%lark at {node.at}")
        else:
            extra = node.args[1:] if node.op in (tree.REPEAT, tree.WHEN) else node.args[:1] if node.op == tree.NAME else ()
            out.append(f"{node.op}{extra or ''}(")
            stack.append(")")
            for child in reversed(below):
                stack += [",", child]
    return "".join(out)


_TEXT = r"""
DIGIT: "0".."9"
HEXDIGIT: DIGIT | "a".."f" | "A".."F"
INT: DIGIT+
SIGNED_INT: ("+" | "-")? INT
DECIMAL: INT "." INT? | "." INT
_EXP: "e"i SIGNED_INT
FLOAT: INT _EXP | DECIMAL _EXP?
SIGNED_FLOAT: ("+" | "-")? FLOAT
NUMBER: FLOAT | INT
SIGNED_NUMBER: ("+" | "-")? NUMBER

_STRING_INNER: /[^"\\]/ | /\\./
ESCAPED_STRING: "\"" _STRING_INNER* "\""

LCASE_LETTER: "a".."z"
UCASE_LETTER: "A".."Z"
LETTER: LCASE_LETTER | UCASE_LETTER
WORD: LETTER+
CNAME: ("_" | LETTER) ("_" | LETTER | DIGIT)*

WS_INLINE: (" " | "\t")+
WS: /[ \t\f\r\n]/+
CR: "\r"
LF: "\n"
NEWLINE: (CR? LF)+

SH_COMMENT: "#" /[^\n]/*
CPP_COMMENT: "//" /[^\n]/*
SQL_COMMENT: "--" /[^\n]/*
C_COMMENT: "/*" (/[^*]/ | "*"+ /[^*\/]/)* "*"+ "/"
"""


@lru_cache(maxsize=1)
def library() -> dict[str, Definition]:
    """The terminals of ``common``, by name."""
    source = Source(_TEXT, "common")
    return {definition.name: definition for definition in parse(source, Limits()).definitions}


PRIVATE = ("_STRING_INNER",)
"""Helpers of the library that cannot be imported."""
