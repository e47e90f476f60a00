"""Specs that put tags around constrained text."""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import Any

from cdplugin.frontends.tags.write import compile_tag
from cdplugin.grammar import GrammarIR
from cdplugin.limits import Limits
from cdplugin.specs import Spec


class StructuralTag(Spec):
    """Free text with tags in it whose content is constrained, as xgrammar and vLLM describe it.

    ``tag``: ``{"type": "structural_tag", "format": {…}}`` or the older ``{"structures": [{"begin", "schema", "end"}],
    "triggers": […]}``, as a dict, JSON text or a pydantic model. A :class:`Spec` may stand wherever a format may.

    >>> from cdplugin.limits import Limits
    >>> tag = StructuralTag({"structures": [{"begin": "<f>", "schema": {"type": "null"}, "end": "</f>"}], "triggers": ["<f"]})
    >>> len(tag.to_ir(Limits()).rules)
    12
    """

    def __init__(self, tag: Any) -> None:
        self.tag = tag

    def key(self) -> Hashable | None:
        if isinstance(self.tag, str):
            return (StructuralTag, self.tag)
        try:
            return (StructuralTag, json.dumps(self.tag, ensure_ascii=False))
        except (TypeError, ValueError, RecursionError):
            return None  # a model, or specs inside

    def to_ir(self, limits: Limits, ir: GrammarIR | None = None) -> GrammarIR:
        return compile_tag(self.tag, limits, ir)
