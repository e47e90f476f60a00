"""cdplugin: constrained decoding for Hugging Face ``generate()`` and vLLM, with Numba kernels.

>>> import cdplugin as cd
>>> vocab = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"</s>"], eos_token_ids=256)
>>> grammar = cd.Compiler(vocab).compile(cd.Regex("[0-9]{3}"))
>>> matcher = grammar.matcher()
>>> matcher.accept_tokens(b"42"), matcher.accept_token(ord("x")), matcher.accept_token(ord("7")), matcher.is_accepting()
(2, False, True, True)

Everything is imported at its first use; PyTorch and transformers only by what needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cdplugin import grammars
    from cdplugin.adapters.hf.processor import GrammarLogitsProcessor
    from cdplugin.bitmask import allocate_token_bitmask, apply_token_bitmask_inplace
    from cdplugin.compiler import Compiler
    from cdplugin.errors import (
        BudgetError,
        CdpluginError,
        EngineError,
        GrammarError,
        LimitExceeded,
        UnsupportedError,
        VocabularyError,
    )
    from cdplugin.infill.parts import GAP, Slots
    from cdplugin.infill.session import Infill, InfillSession
    from cdplugin.limits import Limits
    from cdplugin.matcher import Grammar, Matcher, fill_next_token_bitmasks
    from cdplugin.queries.partial_json import PartialJson, partial_json
    from cdplugin.specs.base import Choice, JsonObject, JsonSchema, Regex, Spec
    from cdplugin.specs.lark import Lark
    from cdplugin.specs.tags import TOOL_FORMATS, After, StructuralTag, ToolFormat, Tools
    from cdplugin.specs.template import Template
    from cdplugin.specs.text import Ebnf, Gbnf
    from cdplugin.vocab.vocabulary import Vocabulary

    __version__: str

_NAMES = {
    "cdplugin.adapters.hf.processor": "GrammarLogitsProcessor",
    "cdplugin.bitmask": "allocate_token_bitmask apply_token_bitmask_inplace",
    "cdplugin.compiler": "Compiler",
    "cdplugin.errors": "BudgetError CdpluginError EngineError GrammarError LimitExceeded UnsupportedError VocabularyError",
    "cdplugin.infill.parts": "GAP Slots",
    "cdplugin.infill.session": "Infill InfillSession",
    "cdplugin.limits": "Limits",
    "cdplugin.matcher": "fill_next_token_bitmasks Grammar Matcher",
    "cdplugin.queries.partial_json": "PartialJson partial_json",
    "cdplugin.specs.base": "Choice JsonObject JsonSchema Regex Spec",
    "cdplugin.specs.lark": "Lark",
    "cdplugin.specs.tags": "After StructuralTag TOOL_FORMATS ToolFormat Tools",
    "cdplugin.specs.template": "Template",
    "cdplugin.specs.text": "Ebnf Gbnf",
    "cdplugin.vocab.vocabulary": "Vocabulary",
}
"""The public names, by module."""
_HOME = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = [
    "GAP",
    "TOOL_FORMATS",
    "After",
    "BudgetError",
    "CdpluginError",
    "Choice",
    "Compiler",
    "Ebnf",
    "EngineError",
    "Gbnf",
    "Grammar",
    "GrammarError",
    "GrammarLogitsProcessor",
    "Infill",
    "InfillSession",
    "JsonObject",
    "JsonSchema",
    "Lark",
    "LimitExceeded",
    "Limits",
    "Matcher",
    "PartialJson",
    "Regex",
    "Slots",
    "Spec",
    "StructuralTag",
    "Template",
    "ToolFormat",
    "Tools",
    "UnsupportedError",
    "Vocabulary",
    "VocabularyError",
    "allocate_token_bitmask",
    "apply_token_bitmask_inplace",
    "fill_next_token_bitmasks",
    "grammars",
    "partial_json",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name == "grammars":
        return import_module("cdplugin.grammars")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'cdplugin' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def _version() -> str:
    """The version of the installed distribution, which ``pyproject.toml`` holds; "0+unknown" where none is installed."""
    from importlib import metadata

    try:
        return metadata.version("cdplugin")
    except metadata.PackageNotFoundError:
        return "0+unknown"


def __dir__() -> list[str]:
    """The public names and the module's own attributes, whatever has been imported so far."""
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__, "__version__"})
