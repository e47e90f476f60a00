"""Specs that put tags around constrained text: structural tags, tool calls, grammars that wait for a trigger."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from cdplugin.errors import GrammarError, shown
from cdplugin.frontends.json_schema.source import content_key
from cdplugin.frontends.tags.after import Trigger, compile_after
from cdplugin.frontends.tags.tools import TOOL_FORMATS, ToolFormat, choose, compile_tools, read_tools
from cdplugin.frontends.tags.write import compile_tag
from cdplugin.ir import GrammarIR
from cdplugin.limits import Limits
from cdplugin.specs.base import Spec, key_of

__all__ = ["TOOL_FORMATS", "After", "StructuralTag", "ToolFormat", "Tools"]


def _listed(name: str, tokens: Any) -> tuple[Any, ...]:
    if isinstance(tokens, (str, bytes)) or not isinstance(tokens, Iterable):
        raise GrammarError(f"wrong type of {name}", expected="a list of texts and token ids", found=type(tokens).__name__)
    return tuple(tokens)


class StructuralTag(Spec):
    """Free text with tags whose content is constrained, as xgrammar and vLLM describe it.

    ``tag``: ``{"type": "structural_tag", "format": {…}}`` or the older ``{"structures": [{"begin", "schema", "end"}],
    "triggers": […]}``, as a dict, JSON text or a pydantic model. A :class:`Spec` may stand wherever a format may.

    >>> from cdplugin.limits import Limits
    >>> tag = StructuralTag({"structures": [{"begin": "<f>", "schema": {"type": "null"}, "end": "</f>"}], "triggers": ["<f"]})
    >>> ir = tag.to_ir(Limits())
    """

    def __init__(self, tag: Any) -> None:
        self.tag = tag

    def key(self) -> Hashable | None:
        return key_of(StructuralTag, self.tag if isinstance(self.tag, str) else content_key(self.tag))

    def to_ir(self, limits: Limits, ir: GrammarIR | None = None) -> GrammarIR:
        return compile_tag(self.tag, limits, ir)


class Tools(Spec):
    """Answers of a model that may, or must, call tools.

    Parameters
    ----------
    tools : OpenAI-style: ``[{"type": "function", "function": {"name", "parameters", …}}]``, or the functions alone.
    format : how the model writes calls: a key of :data:`TOOL_FORMATS` or a :class:`ToolFormat`.
    tool_choice : ``"auto"``, ``"none"``, ``"required"``, a tool's name, ``{"type": "function", "function": {"name": …}}`` or
        ``{"type": "allowed_tools", …}``. A named tool is called once.
    parallel : whether there may be several calls.
    on_broken : how to treat a tool whose schema cannot be compiled. ``"error"``: raise an error that names it; ``"skip"``: it
        cannot be called; ``"any"``: its arguments may be any JSON object. In the latter two cases the other tools compile, and
        :meth:`broken_tools` lists the broken ones.

    >>> from cdplugin.limits import Limits
    >>> weather = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
    >>> Tools([weather, {"name": "x", "parameters": {"type": "strin"}}], on_broken="skip").broken_tools()["x"].location
    '/1/parameters/type'
    """

    def __init__(
        self,
        tools: Sequence[Any],
        *,
        format: str | ToolFormat = "hermes",
        tool_choice: Any = "auto",
        parallel: bool = True,
        on_broken: str = "error",
    ) -> None:
        form = TOOL_FORMATS.get(format) if isinstance(format, str) else format
        if not isinstance(form, ToolFormat):
            expected = f"one of {', '.join(TOOL_FORMATS)}, or a ToolFormat"
            raise GrammarError("unknown format of tool calls", expected=expected, found=shown(format))
        if not all(isinstance(text, str) for name, text in vars(form).items() if name != "single"):
            raise GrammarError("bad format of tool calls", expected="texts", found=shown(form))
        if "{name}" not in form.begin:
            raise GrammarError("bad format of tool calls", expected="{name} in begin", found=shown(form.begin))
        if on_broken not in ("error", "skip", "any"):
            raise GrammarError("bad value of on_broken", expected="error, skip or any", found=shown(on_broken))
        self.format = form
        self.tools = read_tools(tools)
        self.tool_choice = tool_choice
        self.parallel = parallel
        self.on_broken = on_broken
        self._chosen, self._mode = choose(self.tools, tool_choice)

    def broken_tools(self, limits: Limits | None = None) -> dict[str, GrammarError]:
        """The tools whose schemas cannot be compiled, by name, each with its error. Compiles all of them at each call."""
        on_broken = "skip" if self.on_broken == "error" else self.on_broken
        return compile_tools(self.tools, "auto", self.format, self.parallel, on_broken, limits or Limits())[1]

    def key(self) -> Hashable | None:
        chosen = content_key([[tool.name, tool.parameters] for tool in self._chosen])
        return key_of(Tools, chosen, self.format, self._mode, self.parallel, self.on_broken)

    def to_ir(self, limits: Limits, ir: GrammarIR | None = None) -> GrammarIR:
        return compile_tools(self._chosen, self._mode, self.format, self.parallel, self.on_broken, limits, ir)[0]


class After(Spec):
    """Nothing is constrained until a trigger appears; from there on, ``spec`` is.

    Parameters
    ----------
    trigger : a text, however it is tokenized (a special token in it, as in ``"</think>"``, may be written as the token or
        spelled out), a token id, or several of these.
    begin : fixed text at the beginning, such as ``"<think>"``.
    required : whether the trigger must come; otherwise the text may end before it does.
    then : what follows ``spec``: ``"end"``: nothing; ``"free"``: any text; ``"repeat"``: free text up to the next trigger.
    max_chars, max_tokens : bounds on the free text before the trigger. With ``required`` the trigger is forced at the bound.
    special_tokens : names or ids of special tokens that may occur in the free text; all others are excluded. One that is
        listed as a trigger, too, is a trigger.

    >>> from cdplugin.specs.base import Choice
    >>> spec = After("</think>", Choice(["yes", "no"]), begin="<think>", required=True, max_chars=2_000)
    """

    def __init__(
        self,
        trigger: str | int | Sequence[str | int],
        spec: Spec,
        *,
        begin: str = "",
        required: bool = False,
        then: str = "end",
        max_chars: int | None = None,
        max_tokens: int | None = None,
        special_tokens: Sequence[str | int] = (),
    ) -> None:
        if not isinstance(spec, Spec):
            raise GrammarError("wrong type of spec", expected="a cdplugin.Spec", found=type(spec).__name__)
        triggers = (trigger,) if isinstance(trigger, (str, int)) else _listed("trigger", trigger)
        listed = _listed("special_tokens", special_tokens)
        self.spec = spec
        self.trigger = Trigger(triggers, begin, required, then, max_chars, max_tokens, listed)
        self._hold([spec])

    def key(self) -> Hashable | None:
        return key_of(After, self.trigger, self.spec.key())

    def to_ir(self, limits: Limits, ir: GrammarIR | None = None) -> GrammarIR:
        return compile_after(self.trigger, lambda inner: self.spec.to_ir(limits, inner), limits, ir)
