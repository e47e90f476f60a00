"""Templates: fixed text with holes; the contents of the holes are returned as values."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from importlib import import_module
from typing import Any

from cdplugin.errors import GrammarError, relocated, shown
from cdplugin.frontends.free_text import ends_before, not_ending_with, without
from cdplugin.frontends.spelling import spell, utf8
from cdplugin.ir import GrammarIR, Symbol
from cdplugin.limits import Limits
from cdplugin.specs.base import Choice, JsonObject, JsonSchema, PlainSpec, Regex, Spec, key_of

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


class Template(Spec):
    """Fixed text interleaved with holes: ``Template("Name: {name}, age {age}", name=cd.Regex("[A-Z][a-z]+"), age=…)``.

    A hole's content is a :class:`Spec`; a ``str`` stands for a regular expression, a list for :class:`Choice`, a dict or a
    class for :class:`JsonSchema`. ``{{`` and ``}}`` stand for braces. Step by step, where each step is a new template::

        Template("Name: ").regex("name", "[A-Z][a-z]+").text(", likes ").choice("drink", ["tea", "coffee"])

    ``Matcher.captures()`` returns the contents of the holes by name; :meth:`values` parses those of JSON holes. Of two holes
    with the same name, the last one counts. The fixed text may contain special tokens (``"<|im_end|>"``).

    Raises :class:`GrammarError` for a hole without content, content without a hole, and unbalanced braces.
    """

    def __init__(self, text: str | None = None, /, **holes: Any) -> None:
        if text is None:
            text = holes.pop("text", "")
        self.parts: tuple[str | tuple[str, Spec], ...] = _parts(text, holes)
        self._hold(part[1] for part in self.parts if not isinstance(part, str))

    # --- step by step -----------------------------------------------------------------------------------------------------

    def text(self, text: str) -> Template:
        """Append fixed text, in which braces are literal."""
        return self._with(_fixed(text))

    def hole(self, name: str, content: Any) -> Template:
        """Append a hole with a spec, or a shorthand for one."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise GrammarError("bad name of a hole", expected="letters, digits and _", found=shown(name))
        return self._with((name, _spec(name, content)))

    def regex(self, name: str, pattern: str, dialect: str = "rust") -> Template:
        """Append a hole that a regular expression matches."""
        return self.hole(name, Regex(pattern, dialect))

    def json(self, name: str, schema: Any, **options: Any) -> Template:
        """Append a hole with JSON; ``options`` are :class:`JsonSchema`'s."""
        return self.hole(name, JsonSchema(schema, **options))

    def choice(self, name: str, choices: Sequence[str]) -> Template:
        """Append a hole with one of some texts."""
        return self.hole(name, Choice(choices))

    def lark(self, name: str, grammar: str) -> Template:
        """Append a hole that a Lark grammar derives."""
        return self.hole(name, import_module("cdplugin.specs.lark").Lark(grammar))

    def free(self, name: str, stop: str, *, max_chars: int | None = None) -> Template:
        """Append a hole with any text up to ``stop``, then ``stop`` as fixed text."""
        return self.hole(name, _Free(stop, max_chars)).text(stop)

    def _with(self, part: str | tuple[str, Spec]) -> Template:
        out = Template()
        out.parts = (*self.parts, part)
        out._hold(part[1] for part in out.parts if not isinstance(part, str))
        return out

    # --- as a spec ----------------------------------------------------------------------------------------------------------

    def values(self, captures: Mapping[str, bytes]) -> dict[str, Any]:
        """The contents of the holes: JSON as Python objects, others as ``str``."""
        import json

        specs = self._specs()
        return {
            name: json.loads(data) if isinstance(specs.get(name), (JsonObject, JsonSchema)) else data.decode()
            for name, data in captures.items()
        }

    def _specs(self) -> dict[str, Spec]:
        """The specs of the holes, those of templates in them included."""
        specs: dict[str, Spec] = {}
        for part in self.parts:
            if not isinstance(part, str):
                specs.update(part[1]._specs() if isinstance(part[1], Template) else {})
                specs[part[0]] = part[1]
        return specs

    def key(self) -> Hashable | None:
        keys: list[Any] = [Template]
        for part in self.parts:
            keys += [part] if isinstance(part, str) else [Template, part[0], part[1].key()]
        return key_of(*keys)

    def to_ir(self, limits: Limits, ir: GrammarIR | None = None) -> GrammarIR:
        ir = ir or GrammarIR()
        symbols: list[Symbol] = []
        for part in self.parts:
            if isinstance(part, str):
                symbols += spell(ir, part)
                continue
            name, spec = part
            hole = ir.nonterminal(name)
            ir.rule(hole, [self._content(name, spec, limits, ir)])
            ir.captures[hole] = name
            symbols.append(hole)
        ir.start = ir.nonterminal("template")
        ir.rule(ir.start, symbols)
        return ir

    def _content(self, name: str, spec: Spec, limits: Limits, ir: GrammarIR) -> Symbol:
        inner = ir.nested()
        with relocated(lambda where: f"hole {name!r}" + (f", {where}" if where else "")):
            spec.to_ir(limits, inner)
        return ir.adopt(inner)


class _Free(PlainSpec):
    """Text before the first ``stop``."""

    def __init__(self, stop: str, max_chars: int | None) -> None:
        if not isinstance(stop, str) or not stop:
            raise GrammarError("bad stop of a hole", expected="a text that is not empty", found=shown(stop))
        if max_chars is not None and (isinstance(max_chars, bool) or not isinstance(max_chars, int) or max_chars < 0):
            raise GrammarError("bad max_chars of a hole", expected="a whole number", found=shown(max_chars))
        self.stop = _fixed(stop)
        self.max_chars = max_chars

    def key(self) -> Hashable | None:
        return (_Free, self.stop) if self.max_chars is None else super().key()

    def to_ir(self, limits: Limits, ir: GrammarIR | None = None) -> GrammarIR:
        ir = ir or GrammarIR()
        ir.start = ir.nonterminal("free text")
        free = not_ending_with(without([self.stop], self.max_chars), ends_before(self.stop, [self.stop]) or [])
        ir.rule(ir.start, [ir.lexeme(free, f"text without {self.stop!r}")])
        return ir


def _spec(name: str, content: Any) -> Spec:
    """The spec for a hole's content or its shorthand."""
    if isinstance(content, Spec):
        return content
    if isinstance(content, str):
        return Regex(content)
    if isinstance(content, (list, tuple)):
        return Choice(content)
    if isinstance(content, (dict, bool, type)):
        return JsonSchema(content)
    expected = "a spec, a regular expression, a list of choices or a schema"
    raise GrammarError(f"bad content of hole {name!r}", expected=expected, found=type(content).__name__)


def _fixed(text: Any) -> str:
    if not isinstance(text, str):
        raise GrammarError("bad text of a template", expected="str", found=type(text).__name__)
    utf8(text, "bad text of a template")
    return text


def _parts(text: str, holes: Mapping[str, Any]) -> tuple[str | tuple[str, Spec], ...]:
    """The text, cut at its holes."""
    _fixed(text)
    specs = {name: _spec(name, content) for name, content in holes.items()}
    parts: list[str | tuple[str, Spec]] = []
    fixed: list[str] = []
    at = 0
    used: set[str] = set()
    for match in _PIECE.finditer(text):
        fixed.append(text[at : match.start()])
        at = match.end()
        found = match.group()
        where = f"position {match.start()}"
        if found in ("{{", "}}"):
            fixed.append(found[0])
            continue
        name = match.group(1)
        if name is None:
            raise GrammarError("unbalanced brace in a template", location=where, expected="{{ or }} for a brace", found=found)
        if name not in specs:
            some = f"one of {', '.join(specs)}" if specs else f"{name}=…, a spec, a regular expression, a list or a schema"
            raise GrammarError(f"nothing is given for hole {name!r}", location=where, expected=some)
        used.add(name)
        parts += ["".join(fixed)] if any(fixed) else []
        fixed = []
        parts.append((name, specs[name]))
    fixed.append(text[at:])
    parts += ["".join(fixed)] if any(fixed) else []
    for name in specs:
        if name not in used:
            raise GrammarError(f"the template has no hole {name!r}", expected=f"{{{name}}} in the text")
    return tuple(parts)
