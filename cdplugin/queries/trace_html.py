"""A trace as one HTML page: no scripts, nothing loaded, every text escaped, its length bounded.

The page states its own rules as a Content-Security-Policy (``default-src 'none'``): even a mistake here could not make a
browser run or load anything. A step's details open without a script (``<details>``); a click on a token leads to its step by a
fragment.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from cdplugin.queries import explain

if TYPE_CHECKING:
    from cdplugin.queries.trace import Candidate, Preference, Step, Trace

_STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1b1f24; --dim: #59636e; --line: #d1d9e0; --a: #ddf4ff; --b: #fff8c5;
  --bad: #ffebe9; --bad-ink: #b3261e; --good-ink: #1a7f37; --bar: #0969da }
@media (prefers-color-scheme: dark) { :root { --ground: #0d1117; --ink: #e6edf3; --dim: #9198a1; --line: #3d444d; --a: #1c2f45;
  --b: #33301a; --bad: #4b1d1f; --bad-ink: #ff9a92; --good-ink: #56d364; --bar: #4493f8 } }
body { margin: 2rem auto; max-width: 76rem; padding: 0 1rem; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem } code, pre, .token { font-family: ui-monospace, monospace; font-size: .9em }
.dim { color: var(--dim) } .refused { color: var(--bad-ink) } .allowed { color: var(--good-ink) }
.text { border: 1px solid var(--line); border-radius: 6px; padding: .8rem; line-height: 2; overflow-wrap: anywhere }
.token { color: inherit; text-decoration: none; white-space: pre-wrap; padding: .2em 0; border-left: 1px solid var(--dim) }
.token:nth-child(odd) { background: var(--a) } .token:nth-child(even) { background: var(--b) }
.token.bad { background: var(--bad); color: var(--bad-ink); text-decoration: line-through }
.token:hover, .token:focus { outline: 2px solid var(--bar) }
details { border-bottom: 1px solid var(--line); padding: .3rem } details:target { outline: 2px solid var(--bar) }
summary { cursor: pointer; display: grid; grid-template-columns: 4rem 12rem 9rem 1fr; gap: .5rem; overflow-wrap: anywhere }
dl { display: grid; grid-template-columns: 10rem 1fr; gap: .2rem .8rem; margin: .6rem 1rem } dt { color: var(--dim) }
dd { margin: 0; overflow-wrap: anywhere } table { border-collapse: collapse }
td, th { padding: .1rem .8rem .1rem 0; text-align: left }
meter { width: 8rem }
"""
_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>{style}</style></head><body>
<h1>{title}</h1>
"""
_FOOT = "</body></html>\n"
_MOST_LABEL = 200
_ROOM = 600
"""Bytes reserved for the end of the page."""


def trace_html(trace: Trace, title: str, max_bytes: int) -> str:
    """Compute :meth:`cdplugin.queries.trace.Trace.html`. Raises ``ValueError`` for less than 16 KiB."""
    if max_bytes < 16 << 10:
        raise ValueError(f"max_bytes: expected at least {16 << 10}, found {max_bytes}")
    page = _Page(max_bytes)
    page.add(_HEAD.format(title=_text(title[:_MOST_LABEL]), style=_STYLE))
    page.add(f'<p class="dim">{_summary(trace)}</p>\n<div class="text">')
    for number, step in enumerate(trace.steps):
        if step.token_id is not None and not page.add(_token(number, step), share=0.5):
            page.add('<span class="dim">…</span>')
            break
    page.add('</div>\n<h2>Steps</h2>\n<div class="steps">')
    for number, step in enumerate(trace.steps):
        if not page.add(_step(trace, number, step)):
            page.add(
                f'<p class="dim">{len(trace) - number} further steps are left out: the page would be too long.</p>', last=True
            )
            break
    page.add("</div>\n", last=True)
    if trace.stopped:
        page.add(f'<p class="refused">{_text(trace.stopped)}</p>\n', last=True)
    page.add(_FOOT, last=True)
    return "".join(page.parts)


class _Page:
    """The parts of a page, as long as there is room."""

    def __init__(self, max_bytes: int) -> None:
        self.parts: list[str] = []
        self._most = max_bytes
        self._size = 0

    def add(self, part: str, *, share: float = 1.0, last: bool = False) -> bool:
        """Add a part if it fits into a share of the page, and return whether it did; ``last``: also into the room for
        the end.
        """
        size = len(part.encode())
        if self._size + size > self._most * share - (0 if last else _ROOM):
            return False
        self.parts.append(part)
        self._size += size
        return True


def _text(text: str) -> str:
    """Return text for a page: escaped, with control characters, which HTML does not allow, as escapes."""
    shown = "".join(c if c.isprintable() or c in "\n\t " else c.encode("unicode_escape").decode() for c in text)
    return escape(shown, quote=True)


def _summary(trace: Trace) -> str:
    tokens = [step for step in trace.steps if step.token_id is not None]
    parts = [f"{len(tokens)} tokens", f"vocabulary of {trace.vocab.size:,}", "accepted" if trace.accepted else "refused"]
    removed = [step.preference.removed for step in tokens if step.preference is not None]
    changed = sum(1 for step in tokens if step.preference is not None and not step.preference.wanted.allowed)
    if removed:
        parts.append(f"the model wanted another token at {changed} of {len(removed)} steps")
        parts.append(f"the mask removed {sum(removed) / len(removed):.1%} of the probability on average")
    return _text(" · ".join(parts))


def _token(number: int, step: Step) -> str:
    shown = step.text.decode("utf-8", "backslashreplace") if step.text else step.label
    shown = shown[:_MOST_LABEL].replace("\n", "⏎\n")
    kind = "token" if step.accepted else "token bad"
    return f'<a class="{kind}" href="#step-{number}" title="{step.allowed:,} tokens allowed">{_text(shown)}</a>'


def _step(trace: Trace, number: int, step: Step) -> str:
    token = "(end)" if step.token_id is None else step.label[:_MOST_LABEL]
    verdict = "" if step.accepted else ' <span class="refused">refused</span>'
    rows = []
    if not step.accepted:
        rows.append(("refused", f'<span class="refused">{_text(step.reason)}</span>'))
    rows.append(("expected", _text(step.expected)))
    if step.places:
        rows.append(("place", _places(step)))
    if step.forced:
        rows.append(("forced text", f"<code>{_text(explain.show(trace.decode(step.forced)))}</code>"))
    rows.append(("shortest ending", _ending(trace, step)))
    if step.preference is not None:
        rows.append(("the model", _preference(trace, step.preference)))
    listed = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows)
    telling = [place for place in step.places if place.lexeme != "whitespace"] or step.places
    first = telling[0] if telling else None
    where = "" if first is None else _text(f"{first.address} {first.lexeme}")
    is_open = " open" if not step.accepted else ""
    return (
        f'<details id="step-{number}"{is_open}><summary><span class="dim">{number}</span><code>{_text(token)}</code>'
        f"<span>{step.allowed:,} allowed{verdict}</span><span>{where}</span></summary><dl>{listed}</dl></details>\n"
    )


def _places(step: Step) -> str:
    rows = "".join(
        f"<tr><td>{_text(place.lexeme)}</td><td>{_text(place.rule)}</td><td><code>{_text(place.address)}</code></td></tr>"
        for place in step.places
    )
    return f"<table><tr><th>lexeme</th><th>rule</th><th>in the spec</th></tr>{rows}</table>"


def _ending(trace: Trace, step: Step) -> str:
    if step.may_end:
        return "the text may end here"
    if step.ending is None:
        return "none was found within its budget"
    return f"<code>{_text(explain.show(trace.decode(step.ending)))}</code> ({len(step.ending)} tokens)"


def _preference(trace: Trace, preference: Preference) -> str:
    rows = "".join(_candidate(trace, candidate) for candidate in preference.candidates)
    reason = f"<p>{_text(preference.reason)}</p>" if preference.reason else ""
    return f"<table>{rows}</table><p>The mask removed {preference.removed:.2%} of the probability.</p>{reason}"


def _candidate(trace: Trace, candidate: Candidate) -> str:
    verdict = "allowed" if candidate.allowed else "refused"
    label = f"<td><code>{_text(trace.label(candidate.token_id)[:_MOST_LABEL])}</code></td>"
    share = f'<td><meter value="{candidate.probability:.4f}"></meter></td><td>{candidate.probability:.2%}</td>'
    return f'<tr>{label}{share}<td class="{verdict}">{verdict}</td></tr>'
