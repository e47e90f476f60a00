"""A trace as lines of plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdplugin.queries import explain

if TYPE_CHECKING:
    from cdplugin.queries.trace import Preference, Step, Trace

_HEAD = ("step", "token", "allowed", "where", "what")
_WIDTHS = (5, 16, 8, 34)


def trace_text(trace: Trace, width: int) -> str:
    """The answer of :meth:`cdplugin.queries.trace.Trace.text`."""
    lines = [_line(_HEAD, width)]
    for number, step in enumerate(trace.steps):
        lines += [_line(row, width) for row in step_rows(trace, number, step)]
    if trace.stopped:
        lines.append(_fit(f"stopped: {trace.stopped}", width))
    return "\n".join(lines) + "\n"


def step_rows(trace: Trace, number: int, step: Step) -> list[tuple[str, str, str, str, str]]:
    """A step as rows of number, token, tokens allowed, place, remark; the first row has all, further ones only a remark."""
    token = "(end)" if step.token_id is None else step.label
    where = "; ".join(dict.fromkeys(_place(p.address, p.rule, p.lexeme) for p in step.places))
    remarks = _remarks(trace, step)
    first = (str(number), token, f"{step.allowed:,}", where, remarks[0] if remarks else "")
    return [first, *(("", "", "", "", remark) for remark in remarks[1:])]


def _place(address: str, rule: str, lexeme: str) -> str:
    inside = f" in {rule}" if rule and not rule.startswith("/") else ""
    return f"{address or '-'} {lexeme}{inside}"


def _remarks(trace: Trace, step: Step) -> list[str]:
    out = []
    if not step.accepted:
        out.append(f"REFUSED: {step.reason}")
    if step.token_id is None or not step.accepted:
        out.append(f"expected {step.expected}")
    ahead = [f"forced: {explain.show(trace.decode(step.forced))}"] if step.forced else []
    if step.may_end:
        ahead.append("the text may end here")
    elif step.ending:
        ahead.append(f"shortest ending: {explain.show(trace.decode(step.ending))}")
    if ahead:
        out.append("; ".join(ahead))
    if step.preference is not None:
        out.append(preference_text(trace, step.preference))
    return out


def preference_text(trace: Trace, preference: Preference) -> str:
    """What the model wanted, as a sentence."""
    wanted = preference.wanted
    verdict = "allowed" if wanted.allowed else f"refused: {preference.reason}"
    removed = f"the mask removed {preference.removed:.1%} of the probability"
    return f"the model wanted {trace.label(wanted.token_id)} ({wanted.probability:.1%}), {verdict}; {removed}"


def _line(cells: tuple[str, ...], width: int) -> str:
    out = "  ".join(_fit(cell, size).ljust(size) for cell, size in zip(cells, _WIDTHS, strict=False))
    return _fit(f"{out}  {cells[-1]}".rstrip(), width)


def _fit(text: str, width: int) -> str:
    text = " ".join(text.splitlines())
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"
