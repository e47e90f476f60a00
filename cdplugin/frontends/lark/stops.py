"""``stop=T`` where what follows begins with ``T``: make sure that the text of ``T`` occurs only once.

LLGuidance takes the text of ``T`` back from the output, and writes it again where the grammar forces it next, as in ``ap
"\"]"`` with ``ap[stop="\""]: /a+/``. Here no text is ever taken back. Instead the rule includes ``T``, as with ``suffix=``. If
all texts of what follows begin with ``T``, that prefix is cut off there. Otherwise ``T`` stands before what follows, as it
does in the tokens that LLGuidance gets.
"""

from __future__ import annotations

from dataclasses import replace

from cdplugin import expr
from cdplugin.expr import EPSILON, Expr, nullable
from cdplugin.frontends.lark.draft import Draft, Lexeme, Part
from cdplugin.ir import LAZY
from cdplugin.walks import reached

_MOST_DEPTH = 64
"""Nesting of rules that is searched for what begins, or ends, with the text."""


def share_stops(draft: Draft) -> None:
    """Cut the stop text off whatever follows rules with ``stop=``. Raises ``GrammarError`` where that text
    would be captured.
    """
    if not any(rule.stop is not None and not rule.owner.attributes.is_suffix for rule in draft.rules):
        return
    sharer = _Sharer(draft)
    number = 0
    while number < len(draft.rules):  # cutting adds rules
        sharer.share(number)
        number += 1
    _forget_unused(draft)


def _forget_unused(draft: Draft) -> None:
    """Drop the rules that are no longer reachable from ``start``, and renumber the others."""
    rules = draft.rules
    order = reached([0], lambda n: (part.value for one in rules[n].productions for part in one.parts if part.kind == "rule"))
    number_of = {number: place for place, number in enumerate(order)}
    draft.rules = [rules[number] for number in order]
    for rule in draft.rules:
        for production in rule.productions:
            production.parts = tuple(
                part._replace(value=number_of[part.value]) if part.kind == "rule" else part for part in production.parts
            )


class _Sharer:
    """``_written``: the productions of each rule before anything in them was cut."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._written = [list(rule.productions) for rule in draft.rules]
        self._endings: dict[int, bytes | None] = {}
        self._cut: dict[tuple[int, bytes], int | None] = {}

    def share(self, number: int) -> None:
        """Cut in the productions of one rule."""
        productions = []
        for production in self._written[number]:
            parts: list[Part] = []
            text: bytes | None = None
            for part in production.parts:
                after = self._after(part, text, 0) if text else None
                text = self._ending(part, 0)
                parts += [part] if after is None else after
            productions.append(replace(production, parts=tuple(parts)))
        self._draft.rules[number].productions = productions

    def _ending(self, part: Part, depth: int) -> bytes | None:
        """The text of ``stop=`` with which all texts of a part end; None if there is none."""
        if part.kind != "rule" or depth > _MOST_DEPTH:
            return None
        number = part.value
        if number not in self._endings:
            self._endings[number] = None  # the result for a rule that ends with itself
            rule = self._draft.rules[number]
            if rule.stop is not None:
                is_stop = not rule.owner.attributes.is_suffix and not rule.is_helper
                self._endings[number] = _only_text(rule.stop) if is_stop else None
            else:
                endings = {self._ending(one.parts[-1], depth + 1) if one.parts else None for one in self._written[number]}
                self._endings[number] = endings.pop() if len(endings) == 1 else None
        return self._endings[number]

    def _after(self, part: Part, text: bytes, depth: int) -> list[Part] | None:
        """What is left of a part after ``text``, if all its texts begin with that; else None."""
        if part.kind == "lexeme":
            return _cut_lexeme(part, text)
        if part.kind != "rule" or part.function is not None or depth > _MOST_DEPTH:
            return None
        key = (part.value, text)
        if key not in self._cut:
            self._cut[key] = None  # the result for a rule that begins with itself
            self._cut[key] = self._cut_rule(part.value, text, depth)
        number = self._cut[key]
        return None if number is None else [Part("rule", number)]

    def _cut_rule(self, number: int, text: bytes, depth: int) -> int | None:
        """Add a rule for what is left of another one; returns its number, None if it cannot be cut."""
        rule = self._draft.rules[number]
        productions = []
        for production in self._written[number]:
            first = self._after(production.parts[0], text, depth + 1) if production.parts else None
            if first is None:
                return None
            productions.append(replace(production, parts=(*first, *production.parts[1:])))
        if rule.capture is not None or rule.stop is not None:
            self._draft.scope.source.fail(
                f"the rule {rule.owner.name!r} captures what it begins with, which stop= of the rule before it takes",
                rule.owner.at,
                expected="suffix= there, and a rule here that begins after it",
            )
        self._written.append(productions)
        return self._draft.add_rule(replace(rule, productions=list(productions), is_helper=True))


def _only_text(expression: Expr) -> bytes | None:
    """The text of a single literal, else None."""
    is_literal = expression.op == expr.LITERALS_OP and len(expression.args) == 1
    return expression.args[0] if is_literal else None


def _cut_lexeme(part: Part, text: bytes) -> list[Part] | None:
    lexeme: Lexeme = part.value
    left = _cut_expression(lexeme.expression, text)
    if left is None or lexeme.max_tokens is not None:
        return None
    is_nullable = nullable(left)
    if left is EPSILON or (is_nullable and lexeme.lexing == LAZY):
        return []
    return [Part("lexeme", lexeme._replace(expression=left, is_nullable=is_nullable, is_glued=True))]


def _cut_expression(expression: Expr, text: bytes) -> Expr | None:
    """``expression`` after ``text``, if all its texts visibly begin with that; else None."""
    rest: list[Expr] = [expression]
    while text:
        if not rest:
            return None
        head = rest.pop(0)
        if head.op == expr.CAT_OP:
            rest[:0] = head.args
        elif head.op == expr.REPEAT_OP and head.args[1] > 0:
            inner, low, high = head.args
            rest[:0] = [inner, expr.repeat(inner, low - 1, None if high is None else high - 1)]
        elif head.op == expr.BYTES_OP and head.args[0] == 1 << text[0]:
            text = text[1:]
        elif head.op == expr.LITERALS_OP and all(word.startswith(text) for word in head.args):
            rest.insert(0, expr.literals(word[len(text) :] for word in head.args))
            text = b""
        elif head.op == expr.LITERALS_OP and len(head.args) == 1 and text.startswith(head.args[0]):
            text = text[len(head.args[0]) :]
        else:
            return None
    return expr.cat(*rest)
