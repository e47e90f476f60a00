"""Turn rule bodies into productions; groups and repetitions become helper rules.

A draft precedes the :class:`cdplugin.ir.GrammarIR`: it still knows which rules take a parameter, and does not yet say where
``%ignore`` applies. Bodies are worked off from a queue, so nothing recurses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import Any, NamedTuple

from cdplugin.expr import Expr
from cdplugin.frontends.lark import tree
from cdplugin.frontends.lark.byte_sets import Bytes
from cdplugin.frontends.lark.definitions import Scope, signature
from cdplugin.frontends.lark.parameters import SELF, Condition, Function, holds, needs_parameter
from cdplugin.frontends.lark.terminals import Terminals
from cdplugin.frontends.lark.tree import Attributes, Definition, Node, children, walk
from cdplugin.frontends.productive import Productive
from cdplugin.frontends.repeats import Repeats
from cdplugin.ir import LAZY, LONGEST, Symbol, TokenSet


class Words(NamedTuple):
    """``%word /[a-z]/ NUMBER``: a string that ends with such a character, or a named terminal, never ends before one.

    Longest match keeps keywords and names apart only where the rules allow both: then ``android`` is a name and not ``and``.
    Where the rules allow only the keyword, as after an operand, it would end inside ``a androi``. Programming languages split a
    text into words without asking the parser, so here it must not end there.

    ``fence``: the characters of words; ``first``: their first bytes, as a bit set; ``names``: the named terminals.
    """

    fence: Expr
    first: int
    names: frozenset[str]

    def holds(self, node: tree.Node) -> bool:
        """Whether a string or a named terminal never ends before a word character."""
        if node.op == tree.NAME:
            return node.args[0] in self.names
        return node.op == tree.TEXT and bool(node.args[0]) and bool(self.first >> node.args[0][-1].encode()[0] & 1)


def words_of(scope: Scope, terminals: Terminals, named: Mapping[str, Expr]) -> Words | None:
    """The ``%word`` statement of a grammar, None if there is none. Raises ``GrammarError``."""
    if not scope.grammar.words:
        return None
    if len(scope.grammar.words) > 1:
        _, _, first = scope.grammar.words[0]
        at = scope.grammar.words[1][2]
        scope.source.fail("%word is written twice", at, found=f"another one in line {scope.source.line(first)}")
    characters, names, at = scope.grammar.words[0]
    fence = terminals.lower(scope.source, characters, dict(named))
    if terminals.nullable(fence):
        scope.source.fail("%word", at, expected="the characters of words, as /[A-Za-z0-9_]/", found="the empty text")
    for name, place in names:
        if name in scope.layout or name in scope.declared:
            scope.source.fail("%word", place, expected="a terminal with a definition", found=repr(name))
    return Words(fence, Bytes(generous=True).first(fence), frozenset(name for name, _ in names))


_FEW_TEXTS = 16
"""More string literals than this as alternatives of one rule become one lexeme."""
_MOST_LEADING = 16
"""Nullable rules with which a production begins, where the first lexeme of a text is told apart."""


class Part(NamedTuple):
    """One element of a production. ``kind``: ``"rule"`` (``value``: its number; ``function``: the parameter passed on, None if
    it takes none), ``"lexeme"`` (a :class:`Lexeme`), ``"token"`` (a :class:`TokenSet`), ``"symbol"`` (of the IR, from another
    front end); with ``%indent`` (:mod:`cdplugin.frontends.lark.indent`) first ``"layout"`` (``"newline"``, ``"indent"``,
    ``"dedent"``), later ``"lead"``: what begins a line of a block whose width is the rule's parameter.
    """

    kind: str
    value: Any
    function: Function | None = None


class Lexeme(NamedTuple):
    """A lexeme without its ``%ignore``. ``is_glued``: nothing is ignored before it; ``is_inside``: it stands between brackets,
    where line ends are ignored too (``%indent``); ``fence``: it never ends before this (``%word``).
    """

    expression: Expr
    name: str
    lexing: str
    is_nullable: bool
    max_tokens: int | None = None
    is_glued: bool = False
    is_inside: bool = False
    fence: Expr | None = None


@dataclass
class Production:
    """One alternative of a rule; ``condition``: for which parameters it applies."""

    parts: tuple[Part, ...]
    condition: Condition | None = None


@dataclass
class Rule:
    """A named rule, or a helper of one.

    ``owner``: the definition it comes from; ``capture``: the name under which its text is captured; ``stop``: what ends it, for
    ``suffix=`` and ``stop=``.
    """

    owner: Definition
    takes_parameter: bool
    productions: list[Production] = field(default_factory=list)
    capture: str | None = None
    stop: Expr | None = None
    is_helper: bool = True


class Draft:
    """All rules reachable from ``start``, by number; ``start`` is number 0.

    ``embed(node, attributes)`` returns the IR's symbol for ``%json``, ``%lark`` and ``@name``; ``attributes``: of the rule that
    consists of it alone, or None.
    """

    def __init__(
        self, scope: Scope, terminals: Terminals, embed: Callable[[Node, Attributes | None], Symbol], max_rules: int
    ) -> None:
        self.scope = scope
        self.rules: list[Rule] = []
        self._terminals = terminals
        self.named = self._named = terminals.of_scope(scope)
        self._embed = embed
        self._max_rules = max_rules
        self._words = words_of(scope, terminals, self.named)
        self._number: dict[str, int] = {}
        self._queue: deque[tuple[int, Node]] = deque()
        self._lexeme_of: dict[Hashable, Part] = {}
        self._dependent: set[int] = set()
        self._count = 0
        self._rule(scope.start)
        while self._queue:
            number, node = self._queue.popleft()
            self._fill(number, node)

    def ignored(self) -> Expr | None:
        """The expression of everything that ``%ignore`` names, or None."""
        bodies = self.scope.grammar.ignores
        if not bodies:
            return None
        lower = self._terminals.lower
        return self._terminals.alt(*(lower(self.scope.source, body, self._named) for body in bodies))

    def deriving(self, allowed: Callable[[Part], bool], without: Collection[tuple[int, int]] = ()) -> list[bool]:
        """Which rules derive something from ``allowed`` parts if all conditions hold. ``without``: productions to leave out."""
        found = Productive[int](())
        known = found.known
        for number in range(len(self.rules) - 1, -1, -1):  # a rule mostly needs rules with higher numbers
            for i, production in enumerate(self.rules[number].productions):
                if number in known:
                    break
                needed = []
                for part in production.parts:
                    if part.kind == "rule":
                        if part.value not in known:
                            needed.append(part.value)
                    elif not allowed(part):
                        break
                else:
                    if (number, i) not in without:
                        found.rule(number, needed)
        return [number in known for number in range(len(self.rules))]

    @cached_property
    def may_be_empty(self) -> list[bool]:
        """Which rules are nullable if every condition holds and embedded grammars are nullable."""
        return self.deriving(lambda part: part.kind == "symbol" or (part.kind == "lexeme" and part.value.is_nullable))

    # --- rules ------------------------------------------------------------------------------------------------------------

    def _new(self, owner: Definition, takes_parameter: bool, *, is_helper: bool = True) -> int:
        self.rules.append(Rule(owner, takes_parameter, is_helper=is_helper))
        return len(self.rules) - 1

    def add_rule(self, rule: Rule) -> int:
        """Add a rule with its productions; returns its number. Raises ``LimitExceeded``."""
        number = self._new(rule.owner, rule.takes_parameter)
        for production in rule.productions:
            self._add(number, *production.parts, condition=production.condition)
        self.rules[number] = rule
        return number

    def cut_long(self) -> None:
        """Cut productions that begin with many nullable rules. The first lexeme of a text may be in any of these, and each such
        alternative is written with all that follows.
        """
        empty = self.may_be_empty
        for rule in self.rules[:]:
            function = SELF if rule.takes_parameter else None
            for production in rule.productions:
                parts = [*production.parts]
                leading = sum(1 for _ in takewhile(lambda part: part.kind == "rule" and empty[part.value], parts))
                for at in range((leading - 1) // _MOST_LEADING * _MOST_LEADING, 0, -_MOST_LEADING):
                    rest = Rule(rule.owner, rule.takes_parameter, [Production(tuple(parts[at:]))])
                    parts[at:] = [Part("rule", self.add_rule(rest), function)]
                production.parts = tuple(parts)
        self.__dict__.pop("may_be_empty", None)

    def replace_rules(self, rules: list[Rule]) -> None:
        """Replace all rules; number 0 is ``start``."""
        self.rules = rules
        self.__dict__.pop("may_be_empty", None)

    def _add(self, number: int, *parts: Part, condition: Condition | None = None) -> None:
        self._count += 1
        if self._count > self._max_rules:
            most = f"at most Limits.max_rules = {self._max_rules}"
            self.scope.source.exceed("too many rules", self.rules[number].owner.at, expected=most)
        self.rules[number].productions.append(Production(parts, condition))

    def _rule(self, name: str) -> int:
        """The number of a named rule; its body is queued at the first use."""
        number = self._number.get(name)
        if number is None:
            definition = self.scope.rules[name]
            number = self._number[name] = self._new(definition, definition.parametric, is_helper=False)
            self.rules[number].capture = definition.attributes.capture
            if self.scope.is_lexeme(definition):
                self._add(number, self._attributed(definition, self.rules[number]))
            elif definition.attributes.max_tokens is not None:
                self._add(number, Part("symbol", self._embed(definition.body, definition.attributes)))
            else:
                if definition.parametric:
                    self._mark_dependent(definition.body)
                self._queue.append((number, definition.body))
        return number

    def _mark_dependent(self, body: Node) -> None:
        """Record the nodes below which the parameter is used."""
        for node in reversed(list(walk(body))):
            own = node.op == tree.WHEN or (node.op == tree.NAME and node.args[1] and needs_parameter(node.args[1]))
            if own or any(id(child) in self._dependent for child in children(node)):
                self._dependent.add(id(node))

    def _attributed(self, definition: Definition, rule: Rule) -> Part:
        """The lexeme of a rule with ``lazy``, ``suffix=``, ``stop=``, ``max_tokens=``, ``max_chars=`` or ``temperature=``."""
        source, attributes = self.scope.source, definition.attributes
        body = self._terminals.lower(source, definition.body, self._named)
        if attributes.max_chars is not None:
            body = self._terminals.short(source, body, attributes.max_chars, attributes.at["max_chars"])
        is_lazy = attributes.lazy
        if attributes.stop is not None and not attributes.stops_at_end:
            stop = rule.stop = self._terminals.lower(source, attributes.stop, self._named)
            key = "suffix" if attributes.is_suffix else "stop"
            if self._terminals.nullable(stop):
                source.fail(f"{key}= that may be empty", attributes.at[key], expected="a text of at least one character")
            body = self._terminals.cat(body, stop)
            is_lazy = True
        is_nullable = self._terminals.nullable(body)
        if is_lazy and is_nullable:
            expected = "a text that ends with something, or suffix="
            source.fail("a lazy rule that the empty text matches: it is always empty", definition.at, expected=expected)
        lexing = LAZY if is_lazy else LONGEST
        lexeme = Lexeme(body, definition.name, lexing, is_nullable, attributes.max_tokens, attributes.glued)
        return Part("lexeme", lexeme)

    # --- bodies -----------------------------------------------------------------------------------------------------------

    def _fill(self, number: int, node: Node) -> None:
        if node.op == tree.REPEAT:
            self._repeat(number, node)
            return
        alternatives = node.args if node.op == tree.ALT else (node,)
        texts = [a.args[0] for a in alternatives if self._is_plain(a)]
        merged = len(texts) > _FEW_TEXTS
        if merged:  # one lexeme that matches any of them; the language is the same, whatever else competes
            shown = f'"{texts[0]}" | … {len(texts) - 1} more'
            self._add(number, Part("lexeme", Lexeme(self._terminals.any_text_of(texts), shown, LONGEST, False)))
        for alternative in alternatives:
            if merged and self._is_plain(alternative):
                continue
            condition = None
            if alternative.op == tree.WHEN:
                alternative, condition = alternative.args
            items = alternative.args if alternative.op == tree.SEQ else (alternative,)
            parts = [part for item in items if (part := self._part(number, item)) is not None]
            self._add(number, *parts, condition=condition)

    def _is_plain(self, node: Node) -> bool:
        """Whether a node is a text that may be merged with others into one lexeme."""
        if node.op != tree.TEXT or not node.args[0] or node.args[1] or _shown(node) in self.scope.brackets:
            return False
        return self._words is None or not self._words.holds(node)

    def _part(self, number: int, node: Node) -> Part | None:
        """The part for a node; None for the empty string literal."""
        op = node.op
        if op == tree.NAME and node.args[0] in self.scope.layout:
            return Part("layout", self.scope.layout[node.args[0]])
        if op == tree.NAME and node.args[0] in self.scope.rules:
            name, function, _ = node.args
            return Part("rule", self._rule(name), function)
        if op == tree.NAME and node.args[0] not in self._named:
            return Part("symbol", self._embed(node, None))
        if op == tree.TEXT and not node.args[0]:
            return None
        if op in (tree.NAME, tree.TEXT, tree.RANGE, tree.REGEX, tree.SUBSTRING, tree.NOT):
            return self._lexeme(node)
        if op == tree.TOKENS:
            names, ranges, negated = node.args
            return Part("token", TokenSet(names, ranges, negated, self.scope.source.where(node.at)))
        if op in (tree.JSON, tree.LARK, tree.REFERENCE):
            return Part("symbol", self._embed(node, None))
        return self._helper(number, node)

    def _helper(self, number: int, node: Node) -> Part:
        takes = id(node) in self._dependent
        helper = self._new(self.rules[number].owner, takes)
        self._queue.append((helper, node))
        return Part("rule", helper, SELF if takes else None)

    def _lexeme(self, node: Node) -> Part:
        key = (node.op, node.args) if node.op in (tree.NAME, tree.TEXT) else signature(node)
        part = self._lexeme_of.get(key)
        if part is None:
            expression = self._terminals.lower(self.scope.source, node, self._named)
            lexeme = Lexeme(expression, _shown(node), LONGEST, self._terminals.nullable(expression))
            if self._words is not None and self._words.holds(node):
                lexeme = lexeme._replace(fence=self._words.fence)
            part = self._lexeme_of[key] = Part("lexeme", lexeme)
        return part

    # --- repetition -------------------------------------------------------------------------------------------------------

    def _repeat(self, number: int, node: Node) -> None:
        """``x{low,high}``; an unbounded one is right-recursive."""
        child, low, high = node.args
        item = self._part(number, child)
        if item is None or high == 0:
            self._add(number)
            return
        if (low, high) == (0, 1):
            self._add(number)
            self._add(number, item)
            return
        me = Part("rule", number, SELF if self.rules[number].takes_parameter else None)
        if low <= 1 and high is None:
            self._add(number, *([item] if low else []))
            self._add(number, item, me)
            return
        takes, owner = self.rules[number].takes_parameter, self.rules[number].owner
        helpers: Repeats[Part] = Repeats(
            lambda: Part("rule", self._new(owner, takes), SELF if takes else None),
            lambda left, right: self._add(left.value, *right),
        )
        self._add(number, *helpers.parts(item, low, high))


def applies(production: Production, parameter: int | None) -> bool:
    """Whether a production applies for a parameter."""
    return production.condition is None or (parameter is not None and holds(production.condition, parameter))


def _shown(node: Node) -> str:
    """The name of a lexeme in messages."""
    if node.op == tree.NAME:
        return node.args[0]
    if node.op == tree.TEXT:
        return '"' + node.args[0] + '"' + "i" * node.args[1]
    if node.op == tree.REGEX:
        return f"/{node.args[0]}/{node.args[1]}"
    if node.op == tree.RANGE:
        return f'"{chr(node.args[0])}".."{chr(node.args[1])}"'
    return "%regex" if node.op == tree.SUBSTRING else ""
