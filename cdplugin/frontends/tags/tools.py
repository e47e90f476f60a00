"""Tool calls: turn an OpenAI-style list of tools and a chat template's call syntax into a structural tag.

Sources: OpenAI's Chat Completions API (``tools``, ``tool_choice``, ``parallel_tool_calls``) and the chat templates that
:data:`TOOL_FORMATS` names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdplugin.errors import GrammarError, kind_of, relocated, shown
from cdplugin.expr import ANY_TEXT, EMPTY, both, cat, complement, literal
from cdplugin.frontends.free_text import without
from cdplugin.frontends.spelling import utf8
from cdplugin.frontends.tags.read import Format, dumped, fail, read_format
from cdplugin.frontends.tags.write import TagWriter
from cdplugin.ir import GrammarIR
from cdplugin.limits import Limits

_HOLE = "{name}"


@dataclass(frozen=True)
class ToolFormat:
    """How a model writes tool calls: ``opening call separator call … closing``, where a call is ``begin arguments end``.

    ``begin`` holds ``{name}`` in the place of the tool's name; ``end`` may, too. ``trigger``: the text (a prefix of
    ``opening``, or else of ``begin``) after which free text becomes a call; if empty, the answer is either just calls, or text
    that does not begin like a call. ``style``: the syntax of arguments, ``"json"`` or a style of the structural tag's
    ``json_schema``. ``single``: whether ``opening`` and ``closing`` are left out if only one call is allowed.
    """

    begin: str
    end: str
    trigger: str = ""
    separator: str = ""
    opening: str = ""
    closing: str = ""
    style: str = "json"
    single: bool = False


_HERMES = '<tool_call>\n{"name": "{name}", "arguments": '
_LLAMA = '{"name": "{name}", "parameters": '
_PLAIN = '{"name": "{name}", "arguments": '
_QWEN = "<tool_call>\n<function={name}>\n"
TOOL_FORMATS: dict[str, ToolFormat] = {
    "hermes": ToolFormat(_HERMES, "}\n</tool_call>", "<tool_call>", "\n"),
    "llama3": ToolFormat(_LLAMA, "}", "", "; "),
    "mistral": ToolFormat(_PLAIN, "}", "[TOOL_CALLS]", ", ", "[TOOL_CALLS][", "]"),
    "json": ToolFormat(_PLAIN, "}", "", ", ", "[", "]", single=True),
    "qwen_xml": ToolFormat(_QWEN, "</function>\n</tool_call>", "<tool_call>", "\n", style="qwen_xml"),
    "gemma": ToolFormat("<|tool_call>call:{name}", "<tool_call|>", "<|tool_call>", style="gemma"),
}
"""``hermes`` (Hermes 2 and 3, Qwen 2.5 and 3), ``llama3`` (Llama 3.1 to 3.3, JSON), ``mistral`` (up to tokenizer version 7),
``json`` (a list of calls, or one object where only one call is allowed), ``qwen_xml`` (Qwen 3 Coder), ``gemma`` (Gemma 4)."""

_SCHEMA_ELSEWHERE = ("input_schema", "inputSchema", "schema", "arguments", "params")
"""Keys under which other APIs, or mistakes, put a tool's schema."""
_SAYS_TYPE = frozenset("type $ref $dynamicRef $recursiveRef anyOf oneOf allOf enum const not if".split())
"""Keywords that may say that a value is an object. A schema of arguments without any of them means one all the same."""


@dataclass(frozen=True)
class Tool:
    """A function that a model may call; ``at``: JSON Pointer of its parameters."""

    name: str
    parameters: Any
    at: str


def read_tools(tools: Any) -> list[Tool]:
    """The functions of an OpenAI-style list of tools. Raises :class:`GrammarError` for a malformed list."""
    if isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Sequence):
        fail("", "bad tools", expected="a list of tools", found=type(tools).__name__)
    out: list[Tool] = []
    for i, tool in enumerate(tools):
        tool = dumped(tool)
        if not isinstance(tool, Mapping):
            remedy = " (transformers.utils.get_json_schema makes one of a function)" if callable(tool) else ""
            fail(f"/{i}", "bad tool", expected=f"an object{remedy}", found=kind_of(tool))
        function, at = tool, f"/{i}"
        if "function" in tool:
            function, at = tool["function"], f"/{i}/function"
        kind = tool.get("type", "function")
        if kind != "function" or not isinstance(function, Mapping):
            fail(f"/{i}", "bad tool", expected='{"type": "function", "function": {…}}', found=shown(kind))
        name = function.get("name")
        if not isinstance(name, str) or not name:
            fail(f"{at}/name", "bad tool", expected="a name", found=shown(name))
        if any(name == other.name for other in out):
            fail(f"{at}/name", "two tools have the same name", found=shown(name))
        parameters = function.get("parameters")
        elsewhere = next((key for key in _SCHEMA_ELSEWHERE if parameters is None and key in function), None)
        if elsewhere is not None:  # without a schema any arguments would be allowed
            fail(f"{at}/{elsewhere}", "bad tool", expected="the schema of its arguments as 'parameters'", found=repr(elsewhere))
        out.append(Tool(name, {"type": "object"} if parameters is None else parameters, f"{at}/parameters"))
    return out


def choose(tools: list[Tool], choice: Any) -> tuple[list[Tool], str]:
    """The tools that may be called, and a mode: ``"none"``, ``"auto"``, ``"required"``, or ``"named"`` for one call of one
    tool.
    """
    if choice is None or (isinstance(choice, str) and choice in ("none", "auto", "required")):
        return tools, choice or "auto"
    names: list[Any] = [choice]
    mode = "named"
    if isinstance(choice, Mapping):
        inner = choice.get(str(choice.get("type")), choice)
        if choice.get("type") == "allowed_tools" and isinstance(inner, Mapping):
            mode = inner.get("mode", "auto")
            if mode not in ("auto", "required"):
                fail("/tool_choice", "bad mode of allowed_tools", expected="auto or required", found=shown(mode))
            listed = inner.get("tools", ())
            names = [_name_of(t) for t in listed] if isinstance(listed, (list, tuple)) else [listed]
        else:
            names = [inner.get("name")] if isinstance(inner, Mapping) else [None]
    known = {tool.name: tool for tool in tools}
    for name in names:
        if not isinstance(name, str) or name not in known:
            some = ", ".join(repr(n) for n in list(known)[:8])
            fail(
                "/tool_choice",
                "tool_choice names no tool",
                expected=f"auto, none, required or one of {some}",
                found=shown(name),
            )
    return [known[name] for name in names], mode


def _name_of(tool: Any) -> Any:
    """The name of a tool in an ``allowed_tools`` list."""
    inner = tool.get("function", tool) if isinstance(tool, Mapping) else tool
    return inner.get("name") if isinstance(inner, Mapping) else inner


def compile_tools(
    tools: list[Tool], mode: str, form: ToolFormat, parallel: bool, on_broken: str, limits: Limits, ir: GrammarIR | None = None
) -> tuple[GrammarIR, dict[str, GrammarError]]:
    """Compile the calls that ``mode`` allows; also returns the error of each broken tool. ``on_broken``: see
    :class:`cdplugin.Tools`.
    """
    ir = ir or GrammarIR()
    writer = TagWriter(ir, limits)
    bodies: list[tuple[str, Format]] = []
    broken: dict[str, GrammarError] = {}
    for tool in tools if mode != "none" else ():
        try:
            bodies.append((tool.name, _body(writer, tool.parameters, tool.at, form.style)))
        except GrammarError as problem:
            broken[tool.name] = problem
            if on_broken == "error":
                raise problem.amended(message=f"tool {tool.name!r}: {problem.message}") from problem
            if on_broken == "any":
                bodies.append((tool.name, _body(writer, {"type": "object"}, tool.at, form.style)))
    symbols = writer.write(_format(bodies, mode, form, parallel), ())
    ir.start = ir.nonterminal("tool calls")
    ir.rule(ir.start, symbols)
    return ir, broken


def _body(writer: TagWriter, parameters: Any, at: str, style: str) -> Format:
    """Write the arguments of a tool, an object; a format of the symbols written."""
    if parameters is True or (isinstance(parameters, dict) and not parameters.keys() & _SAYS_TYPE):
        parameters = {**({} if parameters is True else parameters), "type": "object"}
    content = read_format({"type": "json_schema", "json_schema": parameters, "style": style}, "", 0)
    content.at = at.removesuffix("/parameters")
    with relocated(lambda where: where.replace(content.at + "/json_schema", at, 1)):
        symbols = writer.write(content, ())
    return Format("symbols", at, {"symbols": symbols})


def _format(bodies: list[tuple[str, Format]], mode: str, form: ToolFormat, parallel: bool) -> Format:
    """The structural tag of the calls."""
    several = parallel and mode != "named"
    wrapped = bool(form.opening) and (several or not form.single)
    before, _, after = form.begin.partition(_HOLE)
    if not bodies or mode == "none":
        if mode not in ("auto", "none"):
            raise GrammarError("no tool can be called, but a call is required", location="/tool_choice")
        return _free(form, wrapped, before)
    tags = []
    for name, body in bodies:
        spelled = json.dumps(name, ensure_ascii=False)[1:-1] if before.endswith('"') else name
        texts = {"begin": before + (_HOLE + after).replace(_HOLE, spelled), "end": (form.end.replace(_HOLE, spelled),)}
        tags.append(Format("tag", body.at, {**texts, "content": body}))
    listed: dict[str, Any] = {"tags": tuple(tags), "separator": form.separator, "at_least_one": True}
    calls = Format("tags_with_separator", "", {**listed, "stop_after_first": not several})
    if wrapped:
        calls = Format("tag", "", {"begin": form.opening, "content": calls, "end": (form.closing,)})
    if mode != "auto":
        return calls
    if not form.trigger:
        return Format("or", "", {"elements": (calls, _free(form, wrapped, before))})
    triggered: dict[str, Any] = {"triggers": (form.trigger,), "tags": (calls,) if wrapped else tuple(tags), "excludes": ()}
    return Format("triggered_tags", "", {**triggered, "at_least_one": False, "stop_after_first": wrapped or not several})


def _free(form: ToolFormat, wrapped: bool, before: str) -> Format:
    """Text without calls."""
    if form.trigger:
        return Format("lexeme", "", {"expr": without([form.trigger])})
    first = (form.opening if wrapped else "") + before
    return Format("lexeme", "", {"expr": both(ANY_TEXT, complement(cat(literal(utf8(first)), complement(EMPTY))))})
