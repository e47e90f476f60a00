"""Docstrings as Markdown: sections of ours (``name : what it is``) become lists, roles and double backquotes code."""

from __future__ import annotations

import re
from typing import Any

import griffe


class PlainDocstrings(griffe.Extension):
    """Rewrites each docstring once it has been read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """A docstring as Markdown."""
    text = re.sub(r":\w+:`~?(?:cdplugin\.)?([^`]+)`", r"`\1`", text)
    text = text.replace("``", "`")
    text = re.sub(r"^([A-Z]\w+)\n-{3,}$", r"**\1**\n", text, flags=re.MULTILINE)
    text = re.sub(
        r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*) : (?=\S)", lambda m: "- " + _names(m.group(1)) + ": ", text, flags=re.MULTILINE
    )
    text = _doctests(text)
    return re.sub(r"<(?=[a-zA-Z/!|])", "&lt;", text) if "`<" not in text else text


def _names(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split(", "))


def _doctests(text: str) -> str:
    """Fences around doctests."""
    out: list[str] = []
    inside = False
    for line in text.splitlines():
        begins = line.startswith((">>>", "..."))
        if begins and not inside:
            out += ["", "```pycon"]
            inside = True
        elif inside and not line.strip():
            out.append("```")
            inside = False
        out.append(line)
    return "\n".join([*out, "```"] if inside else out)
