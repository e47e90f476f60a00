"""Tools that the server's option makes strict: vLLM's own functions, beside what they do when the client asks for it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from vllm_tools import needs_vllm, obj

import cdplugin as cd
from cdplugin.adapters.serving.requests import ServerOptions, spec_of
from cdplugin.adapters.vllm import plugin, tools
from cdplugin.adapters.vllm.grammar import OPTIONS_VARIABLE

WISH = '{"strict_tools": true}'
VOCAB = cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"</s>"], eos_token_ids=256)
CITY = obj(city={"enum": ["Rome", "Paris"]}, days={"type": "integer", "maximum": 9})


def chat(strict: bool | None, kind: str = "function") -> Any:
    return SimpleNamespace(type=kind, function=SimpleNamespace(strict=strict))


def old(*listed: Any) -> bool:
    """vLLM 0.30's question."""
    return any(tool.function.strict is True for tool in listed[0])


def registry(**functions: Any) -> ModuleType:
    module = ModuleType("registry")
    vars(module).update(functions)
    tools.patch(module)
    return module


@pytest.mark.parametrize(("options", "unsaid"), [(WISH, True), ("", False), ('{"strict_tools": false}', False)])
def test_what_clients_do_not_say(options: str, unsaid: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OPTIONS_VARIABLE, options)
    newer = registry(_tool_is_strict=lambda tool: getattr(tool.function, "strict", None) is True)
    assert [newer._tool_is_strict(chat(strict)) for strict in (None, True, False)] == [unsaid, True, False]
    assert not newer._tool_is_strict(chat(None, "web_search"))
    older = registry(_any_tool_strict=old)
    asked = {None: unsaid, True: True, False: False}
    for first, one in asked.items():
        for second, two in asked.items():
            assert older._any_tool_strict(iter([chat(first), chat(second)])) == (one or two)
    assert not vars(registry()).keys() & {"_tool_is_strict", "_any_tool_strict"}


def test_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OPTIONS_VARIABLE, WISH)
    assert ServerOptions.from_environment(OPTIONS_VARIABLE).strict_tools and not ServerOptions().strict_tools
    monkeypatch.setenv(OPTIONS_VARIABLE, '{"strict_tools": 1}')
    with pytest.raises(ValueError, match="strict_tools: expected true or false, found 1"):
        ServerOptions.from_environment(OPTIONS_VARIABLE)
    assert not tools._wished()  # nothing is raised where a request is read


# --- vLLM's own -----------------------------------------------------------------------------------------------------------


def models() -> list[str]:
    """The names of the tags that vLLM's tool parsers ask for."""
    import vllm

    named = re.compile(r'structural_tag_model(?:: str)? = "(\w+)"')
    files = sorted((Path(vllm.__file__).parent / "tool_parsers").glob("*.py"))
    return sorted({name for file in files for name in named.findall(file.read_text())} - {"harmony"})  # openai's own


@pytest.fixture
def tag(monkeypatch: pytest.MonkeyPatch) -> Any:
    """vLLM's structural tag of a tool, as text; None if vLLM makes none."""
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionToolsParam
    from vllm.tool_parsers import structural_tag_registry

    plugin.register()

    def make(model: str, choice: str, strict: bool | None, options: str) -> str | None:
        monkeypatch.setenv(OPTIONS_VARIABLE, options)
        function = {"name": "weather", "parameters": CITY} | ({} if strict is None else {"strict": strict})
        listed = [ChatCompletionToolsParam(type="function", function=function)]
        made = structural_tag_registry.get_model_structural_tag(model, listed, choice, False)
        return None if made is None else json.dumps(made.model_dump(), sort_keys=True)

    return make


@pytest.mark.vllm
@needs_vllm[1]
def test_the_wish_does_what_the_client_s_word_does(tag: Any) -> None:
    compiler, differing, found = cd.Compiler(VOCAB), 0, models()
    assert len(found) >= 10
    for model in found:
        for choice in ("auto", "required"):
            said, wished = tag(model, choice, True, ""), tag(model, choice, None, WISH)
            assert said is not None and wished == said, model
            compiler.compile(spec_of("STRUCTURAL_TAG", wished))
            unsaid, refused = tag(model, choice, None, ""), tag(model, choice, False, WISH)
            assert (choice == "auto") == (unsaid is None), model
            assert refused == tag(model, choice, False, ""), model
            differing += said not in (unsaid, refused)
    assert differing > len(found)


@pytest.mark.vllm
@needs_vllm[1]
def test_a_call_s_arguments(tag: Any) -> None:
    """Of Hermes: a right call, and each way to be wrong."""
    grammar = cd.Compiler(VOCAB).compile(spec_of("STRUCTURAL_TAG", tag("hermes", "auto", None, WISH)))

    def allowed(text: str) -> bool:
        matcher = grammar.matcher()
        return matcher.accept_tokens(text.encode()) == len(text) and matcher.is_accepting()

    call = '<tool_call>\n{"name": "weather", "arguments": %s}\n</tool_call>'
    assert allowed("Hello.") and allowed(call % '{"city": "Rome", "days": 9}')
    for wrong in ('{"city": "Oslo", "days": 9}', '{"city": "Rome", "days": 10}', '{"city": "Rome"}', '{"days": 1}', '"Rome"'):
        assert not allowed(call % wrong)
    assert not allowed(call.replace("weather", "whether") % '{"city": "Rome", "days": 9}')
