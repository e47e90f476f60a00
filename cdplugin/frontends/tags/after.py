"""Deferred activation: nothing is constrained until a trigger, a text or a special token, has appeared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cdplugin.errors import GrammarError, shown
from cdplugin.frontends.free_text import until, without
from cdplugin.frontends.spelling import may_hold_tokens, spell, spell_with_token
from cdplugin.ir import GrammarIR, Symbol, TokenSet
from cdplugin.limits import Limits

THEN = ("end", "free", "repeat")


@dataclass(frozen=True)
class Trigger:
    """When a grammar sets in, and what comes before and after. The arguments of :class:`cdplugin.After`."""

    triggers: tuple[str | int, ...]
    begin: str = ""
    required: bool = False
    then: str = "end"
    max_chars: int | None = None
    max_tokens: int | None = None
    special_tokens: tuple[str | int, ...] = ()

    @property
    def texts(self) -> list[str]:
        """The triggers that are texts."""
        return [trigger for trigger in self.triggers if isinstance(trigger, str)]

    def check(self, limits: Limits) -> None:
        """Raise :class:`GrammarError` for what cannot be meant."""
        if not self.triggers:
            raise GrammarError("bad trigger", expected="a text or a token id", found="none")
        for token in (*self.triggers, *self.special_tokens):
            if (
                isinstance(token, bool)
                or not isinstance(token, (str, int))
                or token == ""
                or (isinstance(token, int) and token < 0)
            ):
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
    """Free text, a trigger, and what ``write_body`` writes into the (nested) IR that it is given."""
    trigger.check(limits)
    ir = ir or GrammarIR()
    inner = ir.nested()
    write_body(inner)
    writer = _Writer(ir, trigger)
    ir.start = ir.nonterminal("after a trigger")
    ir.rule(ir.start, [*spell(ir, trigger.begin), writer.write(ir.adopt(inner))])
    return ir


class _Writer:
    def __init__(self, ir: GrammarIR, trigger: Trigger) -> None:
        self.ir = ir
        self.trigger = trigger

    def write(self, body: Symbol) -> Symbol:
        trigger, ir = self.trigger, self.ir
        start = ir.nonterminal("free until a trigger")
        rest = {"end": [], "repeat": [start]}.get(trigger.then)
        if rest is None:
            rest = [self._anything()]
        stops = trigger.texts
        free = ir.lexeme(without(stops, trigger.max_chars), "free text", max_tokens=trigger.max_tokens or None)
        before = [free] if trigger.max_tokens != 0 else []
        for one in dict.fromkeys(trigger.triggers):
            if isinstance(one, int):
                ir.rule(start, [*before, ir.token(TokenSet(ranges=((one, one),)), "trigger"), body, *rest])
                continue
            ir.rule(start, [*self._up_to(one, stops, before), body, *rest])
            if may_hold_tokens(one):
                ir.rule(start, [*before, *spell_with_token(ir, one), body, *rest])
        if trigger.special_tokens:
            ir.rule(start, [*before, self._special(), start])
        if not trigger.required:
            ir.rule(start, before)
        return start

    def _up_to(self, text: str, stops: Sequence[str], before: list[Symbol]) -> list[Symbol]:
        """Free text and ``text``; one lexeme if tokens are not counted."""
        if self.trigger.max_tokens is not None:
            return [*before, *spell(self.ir, text)]
        return [self.ir.lexeme(until(text, stops, self.trigger.max_chars), f"text up to {text!r}")]

    def _special(self) -> Symbol:
        names = tuple(token for token in self.trigger.special_tokens if isinstance(token, str))
        ranges = tuple((token, token) for token in self.trigger.special_tokens if isinstance(token, int))
        return self.ir.token(TokenSet(names=names, ranges=ranges), "special token")

    def _anything(self) -> Symbol:
        """Text without end, and the special tokens that may stand in it."""
        out = self.ir.nonterminal("free text")
        text = self.ir.lexeme(without([]), "free text")
        self.ir.rule(out, [text])
        if self.trigger.special_tokens:
            self.ir.rule(out, [text, self._special(), out])
        return out
