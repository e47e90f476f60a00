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
    from cdplugin.adapters.hf import GrammarLogitsProcessor
    from cdplugin.bitmask import allocate_token_bitmask, apply_token_bitmask_inplace
    from cdplugin.compiler import Compiler
    from cdplugin.errors import CdpluginError, GrammarError, LimitExceeded, UnsupportedError, VocabularyError
    from cdplugin.infill import Infill
    from cdplugin.infill_parts import GAP, Slots
    from cdplugin.limits import Limits
    from cdplugin.matcher import Grammar, Matcher, fill_next_token_bitmasks
    from cdplugin.specs import Choice, JsonObject, JsonSchema, Regex, Spec
    from cdplugin.specs_lark import Lark
    from cdplugin.specs_tags import TOOL_FORMATS, After, StructuralTag, ToolFormat, Tools
    from cdplugin.specs_template import Template
    from cdplugin.specs_text import Ebnf, Gbnf
    from cdplugin.vocab import Vocabulary

__version__ = "0.1.0"

_HOME = {
    "GAP": "infill_parts",
    "GrammarLogitsProcessor": "adapters.hf",
    "Infill": "infill",
    "Slots": "infill_parts",
    "allocate_token_bitmask": "bitmask",
    "apply_token_bitmask_inplace": "bitmask",
    "Compiler": "compiler",
    "CdpluginError": "errors",
    "GrammarError": "errors",
    "LimitExceeded": "errors",
    "UnsupportedError": "errors",
    "VocabularyError": "errors",
    "Limits": "limits",
    "Grammar": "matcher",
    "Matcher": "matcher",
    "fill_next_token_bitmasks": "matcher",
    "Choice": "specs",
    "JsonObject": "specs",
    "JsonSchema": "specs",
    "Regex": "specs",
    "Spec": "specs",
    "After": "specs_tags",
    "StructuralTag": "specs_tags",
    "TOOL_FORMATS": "specs_tags",
    "ToolFormat": "specs_tags",
    "Tools": "specs_tags",
    "Template": "specs_template",
    "Ebnf": "specs_text",
    "Gbnf": "specs_text",
    "Lark": "specs_lark",
    "Vocabulary": "vocab",
}

__all__ = [
    "GAP",
    "TOOL_FORMATS",
    "After",
    "CdpluginError",
    "Choice",
    "Compiler",
    "Ebnf",
    "Gbnf",
    "Grammar",
    "GrammarError",
    "GrammarLogitsProcessor",
    "Infill",
    "JsonObject",
    "JsonSchema",
    "Lark",
    "LimitExceeded",
    "Limits",
    "Matcher",
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
]


def __getattr__(name: str) -> Any:
    if name == "grammars":
        return import_module("cdplugin.grammars")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'cdplugin' has no attribute {name!r}")
    value = getattr(import_module(f"cdplugin.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
