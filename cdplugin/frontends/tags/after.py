"""Deferred activation: nothing is constrained until a trigger, a text or a special token, appears."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cdplugin.errors import GrammarError, shown
from cdplugin.frontends.free_text import ends_before, not_ending_with, until, without
from cdplugin.frontends.spelling import spell, spell_out, token_set, ways_with_token
from cdplugin.frontends.tags.read import is_token
from cdplugin.ir import GrammarIR, Symbol
from cdplugin.limits import Limits

THEN = ("end", "free", "repeat")


@dataclass(frozen=True)
class Trigger:
    """The arguments of :class:`cdplugin.After`: what triggers a grammar, and what comes before and after it."""

    triggers: tuple[str | int, ...]
    begin: str = ""
    required: bool = False
    then: str = "end"
    max_chars: int | None = None
    max_tokens: int | None = None
    special_tokens: tuple[str | int, ...] = ()

    @property
    def texts(self) -> list[str]:
        """The triggers that are texts, not token ids."""
        return [trigger for trigger in self.triggers if isinstance(trigger, str)]

    def check(self, limits: Limits) -> None:
        """Raise :class:`GrammarError` for invalid arguments."""
        if not self.triggers:
            raise GrammarError("bad trigger", expected="a text or a token id", found="none")
        for token in (*self.triggers, *self.special_tokens):
            if not is_token(token):
                raise GrammarError("bad trigger", expected="a text that is not empty, or a token id", found=shown(token))
        if not isinstance(self.begin, str):
            raise GrammarError("bad begin", expected="str", found=type(self.begin).__name__)
        if not isinstance(self.then, str) or self.then not in THEN:
            raise GrammarError("bad value of then", expected=f"one of {', '.join(THEN)}", found=shown(self.then))
        for name, bound in (("max_chars", self.max_chars), ("max_tokens", self.max_tokens)):
            if bound is None:
                continue
            if isinstance(bound, bool) or not isinstance(bound, int) or not 0 <= bound <= limits.max_repeat:
                expected = f"a number from 0 to Limits.max_repeat = {limits.max_repeat}"
                raise GrammarError(f"bad {name}", expected=expected, found=shown(bound))
            if self.special_tokens:
                raise GrammarError(f"{name} with special_tokens is not supported: the bound would start anew after each")


def compile_after(
    trigger: Trigger, write_body: Callable[[GrammarIR], object], limits: Limits, ir: GrammarIR | None = None
) -> GrammarIR:
    """Free text, a trigger, and the grammar that ``write_body`` writes into the nested IR it gets."""
    trigger.check(limits)
    ir = ir or GrammarIR()
    inner = ir.nested()
    write_body(inner)
    start = ir.nonterminal("free until a trigger")
    special = before = None
    if trigger.special_tokens:
        special = ir.token(token_set(trigger.special_tokens), "special token")
        others = [token for token in trigger.special_tokens if token not in trigger.triggers]
        before = ir.token(token_set(others), "special token") if others else None
    # With `required`, only the first round must have the trigger; a repeated one may end without it.
    again = ir.nonterminal("free until the next trigger") if trigger.then == "repeat" and trigger.required else start
    rest = [again] if trigger.then == "repeat" else [_anything(ir, special)] if trigger.then == "free" else []
    body = ir.adopt(inner)
    text = without(trigger.texts, trigger.max_chars)

    def free(tails: list[str]) -> list[Symbol]:
        """Free text that does not end with ``tails``."""
        if trigger.max_tokens == 0:
            return []
        return [ir.lexeme(not_ending_with(text, tails), "free text", max_tokens=trigger.max_tokens)]

    ahead = free([])
    ways = _ways(trigger, ir, free)
    for head in dict.fromkeys((start, again)):
        for way in ways:
            ir.rule(head, [*way, body, *rest])
        if before is not None:
            ir.rule(head, [*ahead, before, head])
        if head is not start or not trigger.required:
            ir.rule(head, ahead)
    ir.start = ir.nonterminal("after a trigger")
    ir.rule(ir.start, [*spell(ir, trigger.begin), start])
    return ir


def _ways(trigger: Trigger, ir: GrammarIR, free: Callable[[list[str]], list[Symbol]]) -> list[list[Symbol]]:
    """The ways to write free text with a trigger at its end. ``free(tails)``: free text that does not end with ``tails``."""
    stops = trigger.texts
    words = list(dict.fromkeys(stops))
    ways: list[list[Symbol]] = []
    for one in dict.fromkeys(trigger.triggers):
        if isinstance(one, int):
            ways.append([*free([]), ir.token(token_set([one]), "trigger")])
            continue
        if trigger.max_tokens is None:  # tokens need not be counted: one lexeme for text and trigger
            ways.append([ir.lexeme(until(one, stops, trigger.max_chars), f"text up to {one!r}")])
        else:
            tails = ends_before(one, words)
            if tails is not None:
                ways.append([*free(tails), *spell(ir, one)])
        ways += [
            [*free([]), *spell_out(ir, before), *rest]
            for before, rest in ways_with_token(ir, one)
            if not any(word in before for word in words)
        ]
    return ways


def _anything(ir: GrammarIR, special: Symbol | None) -> Symbol:
    """Text without end, in which the special tokens may occur."""
    out = ir.nonterminal("free text")
    text = ir.lexeme(without([]), "free text")
    ir.rule(out, [text])
    if special is not None:
        ir.rule(out, [text, special, out])
    return out
