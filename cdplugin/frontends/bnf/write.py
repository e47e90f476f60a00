"""Write the syntax trees of a BNF grammar as rules over lexemes.

Regular parts of a rule that is not regular become lexemes that are as large as possible: regular neighbours in a sequence
become one lexeme, and so do the regular alternatives of a choice.
"""

from __future__ import annotations

from collections.abc import Sequence

from cdplugin.errors import GrammarError, LimitExceeded, closest
from cdplugin.expr import ALL_BYTES, EPSILON, Expr, byte_mask, repeat
from cdplugin.frontends.bnf.fold import Folded, combine, join_alternatives, join_sequence, regular
from cdplugin.frontends.bnf.rule_options import RuleOptions
from cdplugin.frontends.bnf.tree import ALT, DISPATCH, REF, REPEAT, SEQ, TOKENS, Dispatch, Grammar, Node, references
from cdplugin.frontends.free_text import dispatch_text, dispatch_tokens
from cdplugin.frontends.productive import Productive
from cdplugin.frontends.regular import Regular, repeated
from cdplugin.frontends.repeats import SymbolRepeats
from cdplugin.ir import GrammarIR, Symbol, TokenSet
from cdplugin.limits import Limits, at_most
from cdplugin.walks import fold, reached

Part = Regular | Symbol
"""What a node becomes: an expression, or a symbol (nonterminal or token)."""


class Writer:
    """Writes rules into ``ir``. ``fold``: whether regular neighbours become one lexeme."""

    def __init__(self, grammar: Grammar, ir: GrammarIR, folded: Folded, limits: Limits, fold: bool = True) -> None:
        self.grammar = grammar
        self.ir = ir
        self.folded = folded.inline
        self.alone = folded.alone
        self.limits = limits
        self.fold = fold
        self.symbols: dict[str, Symbol] = {}
        self.repeats = SymbolRepeats(ir)
        self._places: tuple[str, ...] = ()  # of the rule that is being written

    def write(self, root: str, mentioned: dict[str, set[str]]) -> Symbol:
        """Write all rules that ``root`` needs; returns its symbol. Raises ``GrammarError`` for unproductive rules."""
        ir = self.ir
        if root in self.folded:
            start = self._nonterminal(root)
            ir.rule(start, [self._lexeme(self.folded[root], root)])
            return start
        self.symbols = {name: self._nonterminal(name) for name in mentioned if name not in self.folded}
        first = len(ir.rules)
        for name in self.symbols:
            self._named(name)
            if len(ir.rules) - first > self.limits.max_rules:
                raise LimitExceeded("too many rules", expected=at_most(self.limits, "max_rules"))
        derive = Productive((left, (s for s in right if s >= 0)) for left, right in ir.rules[first:]).known
        dead = set(self.symbols.values()) - derive
        if dead:
            fail_unproductive(self.grammar, mentioned, {name for name, symbol in self.symbols.items() if symbol in dead})
        return self.symbols[root]

    def _nonterminal(self, name: str) -> Symbol:
        """The nonterminal of a rule, with its location."""
        symbol = self.ir.nonterminal(name)
        self.ir.locate(symbol, (self.grammar.source.where(self.grammar.rules[name].at),))
        return symbol

    def _helper(self) -> Symbol:
        """A nonterminal for a part of the current rule."""
        symbol = self.ir.nonterminal()
        self.ir.locate(symbol, self._places)
        return symbol

    def _named(self, name: str) -> None:
        """Write a rule with its options."""
        symbol, rule = self.symbols[name], self.grammar.rules[name]
        self._places = self.ir.places[symbol]
        options = rule.options
        if name in self.alone:
            self.ir.rule(symbol, [self.ir.lexeme(self.alone[name].expr, name, max_tokens=options.max_tokens)])
        else:
            self._rule(symbol, rule.body)
        if options.capture is not None:
            self.ir.captures[symbol] = options.capture
        hidden = self._hidden(options)
        if hidden is not None:
            self.ir.stops[symbol] = (hidden, options.stop_capture or "")

    def _hidden(self, options: RuleOptions) -> Expr | None:
        """The text at a rule's end that its capture leaves out, as an expression; None if there is none."""
        if options.marker is None:
            return repeat(byte_mask(ALL_BYTES), options.hidden, options.hidden) if options.hidden else None
        names = list(self.grammar.rules)
        rule = self.grammar.rules[names[options.marker]] if options.marker < len(names) else None
        found = None if rule is None else regular(rule.body, self.folded)
        if found is None:
            self.grammar.source.fail(
                "bad option of a rule",
                options.at["capture_hidden_marker_rule_id"],
                expected="the number of a rule that is regular, counted from 0",
                found=str(options.marker),
            )
        return found.expr

    def _rule(self, left: Symbol, body: Node) -> None:
        """Write the rules of ``left``: one for each alternative, the regular ones together."""
        done: dict[Node, Part] = {}

        def write(node: Node, parts: list[Part]) -> Part:
            if node is not body:
                return self._part(node, parts, done)
            if body.op == ALT:
                rights = self._alternatives(body, parts)
            else:
                rights = [self._sequence(parts) if body.op == SEQ else [self._symbol(self._part(body, parts, done))]]
            for right in rights:
                self.ir.rule(left, right)
            return left

        fold(body, lambda node: node.children, write, done)

    def _part(self, node: Node, parts: list[Part], done: dict[Node, Part]) -> Part:
        """What a node becomes, given what its children became: ``parts``; ``done`` has the results of all nodes."""
        op = node.op
        if op == REF:
            return self.folded.get(node.args[0]) or self.symbols[node.args[0]]
        if op == TOKENS:
            return self.ir.token(node.args[0])
        if op == DISPATCH:
            return self._dispatch(node.args[0])
        known = [part for part in parts if isinstance(part, Regular)]
        if len(known) == len(parts) and (self.fold or not parts):
            found = combine(node, known, self.folded)
            if found is not None:
                return found
        if op == REPEAT:
            child, low, high = node.args[:3]
            if self.fold and child.op == ALT and low <= 1 and high is None:
                return self._star(child, done, low)
            return self.repeats.many(self._symbol(parts[0]), low, high)
        symbol = self._helper()
        for right in self._alternatives(node, parts) if op == ALT else [self._sequence(parts)]:
            self.ir.rule(symbol, right)
        return symbol

    def _star(self, child: Node, done: dict[Node, Part], low: int) -> Part:
        """``(R | X)*`` with a regular ``R`` as ``R* (X R*)*``, so that a run of ``R`` is one lexeme and unambiguous.

        ``(R | X)+`` is ``R+ | R* X (R | X)*``.
        """
        parts = [done[branch] for branch in child.children]
        known = [(part, branch) for part, branch in zip(parts, child.children, strict=True) if isinstance(part, Regular)]
        joined = join_alternatives(known)
        if len(joined) != 1:
            return self.repeats.many(self._symbol(done[child]), low, None)
        ((expression, size),) = joined
        run = self._lexeme(Regular(repeated(expression, 0, None), size + 1))
        loop = self._helper()
        self.ir.rule(loop, [run])
        others = [part for part in parts if not isinstance(part, Regular)]
        for other in others:
            self.ir.rule(loop, [run, other, loop])
        if low == 0:
            return loop
        some = self._helper()
        self.ir.rule(some, [self._lexeme(Regular(repeated(expression, 1, None), size + 1))])
        for other in others:
            self.ir.rule(some, [run, other, loop])
        return some

    def _alternatives(self, node: Node, parts: Sequence[Part]) -> list[list[Symbol]]:
        """The right sides of a choice, with the regular alternatives as few lexemes."""
        if not self.fold:
            return [self._sequence([part]) for part in parts]
        known = [(part, child) for part, child in zip(parts, node.children, strict=True) if isinstance(part, Regular)]
        out = [self._sequence([part]) for part in join_alternatives(known)]
        return out + [[part] for part in parts if not isinstance(part, Regular)]

    def _sequence(self, parts: Sequence[Part]) -> list[Symbol]:
        """The right side of a sequence, with regular neighbours as one lexeme."""
        out: list[Symbol] = []
        run: list[Regular] = []
        for part in [*parts, None]:
            if isinstance(part, Regular) and (self.fold or not run):
                run.append(part)
                continue
            out += [self._lexeme(joined) for joined in join_sequence(run) if joined.expr is not EPSILON]
            run = [part] if isinstance(part, Regular) else []
            if isinstance(part, Symbol):
                out.append(part)
        return out

    def _symbol(self, part: Part) -> Symbol:
        return self._lexeme(part) if isinstance(part, Regular) else part

    def _lexeme(self, part: Regular, name: str = "") -> Symbol:
        return self.ir.lexeme(part.expr, name)

    def _dispatch(self, dispatch: Dispatch) -> Symbol:
        tags = [(tag, [self._symbol(self.folded.get(name) or self.symbols[name])]) for tag, name, _ in dispatch.tags]
        if not dispatch.by_token:
            return dispatch_text(self.ir, tags, excludes=dispatch.excludes, loop=dispatch.loop)
        others = [tag for tag, _ in tags] + list(dispatch.excludes)
        places = [self.grammar.source.where(at) for _, _, at in dispatch.tags]
        last = max(zip(dispatch.tags, places, strict=True), default=((), ""))[1]  # of the largest id, which may be out of range
        free = TokenSet(ranges=tuple((i, i) for i in others), negated=True, where=last, ends=False)
        by_token = [(TokenSet(ranges=((tag, tag),), where=at), follow) for (tag, follow), at in zip(tags, places, strict=True)]
        return dispatch_tokens(self.ir, by_token, free, loop=dispatch.loop)


def check_references(grammar: Grammar, root: str) -> dict[str, set[str]]:
    """The rules reachable from ``root``, it first, each with the rules to which it refers.

    Raises :class:`GrammarError` for a missing root and for undefined rules, also in rules that are not reachable; those may be
    unused on purpose.
    """
    rules = grammar.rules
    if not rules:
        raise GrammarError(
            "the grammar has no rules", expected=f"{root} ::= …", found="no text" if not grammar.source.text else "none"
        )
    if root not in rules:
        found = ", ".join(list(rules)[:5])
        raise GrammarError(
            f"no rule is named {root!r}{_similar(grammar, root)}", expected=f"a rule {root!r}, or root=…", found=found
        )
    mentioned: dict[str, set[str]] = {}
    undefined: dict[str, int] = {}
    for rule in rules.values():
        names = mentioned[rule.name] = set()
        for name, at in references(rule.body):
            names.add(name)
            if name not in rules:
                undefined.setdefault(name, at)
    if undefined:
        used = set().union(*mentioned.values())
        name, at = next(iter(undefined.items()))
        more = f" (and {len(undefined) - 1} more)" if len(undefined) > 1 else ""
        hint = ": any character is [^]" if name == "." else _similar(grammar, name, used)
        grammar.source.fail(f"rule {name!r} is not defined{more}{hint}", at)
    needed = reached([root], lambda name: sorted(mentioned[name], key=lambda other: rules[other].at))
    return {name: mentioned[name] for name in needed}


def _similar(grammar: Grammar, name: str, used: set[str] | None = None) -> str:
    """A suggestion ``: did you mean 'x'?``; rules that nothing uses come first."""
    unused = "" if used is None else closest(name, (n for n in grammar.rules if n not in used))
    best = unused or closest(name, grammar.rules)
    return f": did you mean {best!r}{', which no rule uses' if unused else ''}?" if best else ""


def fail_unproductive(grammar: Grammar, mentioned: dict[str, set[str]], dead: set[str]) -> None:
    """Raise for a cycle of unproductive rules. Each unproductive rule needs another one, so there is a cycle."""
    name = next(name for name in mentioned if name in dead)
    path: dict[str, None] = {}
    while name not in path:
        path[name] = None
        name = min(mentioned[name] & dead)
    cycle = list(path)[list(path).index(name) :]
    through = f" (through {', '.join(repr(n) for n in cycle[1:4])})" if len(cycle) > 1 else ""
    grammar.source.fail(
        f"rule {name!r} matches nothing: every derivation of it contains {name!r} again{through}",
        grammar.rules[name].at,
        expected="an alternative that ends",
    )
