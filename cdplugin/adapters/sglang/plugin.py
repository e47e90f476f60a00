"""SGLang's entry point ``sglang.srt.plugins``: makes ``cdplugin`` a choice of ``--grammar-backend``.

SGLang calls :func:`register` in each of its processes, before it reads its arguments.
"""

from __future__ import annotations

from typing import Any

NAME = "cdplugin"


def register() -> None:
    """Register the backend. May be called again. SGLang logs an exception and goes on without us."""
    from sglang.srt.constrained.base_grammar_backend import register_grammar_backend
    from sglang.srt.server_args import GRAMMAR_BACKEND_CHOICES, add_grammar_backend_choices

    if NAME not in GRAMMAR_BACKEND_CHOICES:
        add_grammar_backend_choices([NAME])
    register_grammar_backend(NAME, make_backend)


def make_backend(server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Any = None) -> Any:
    """Called by SGLang when its scheduler starts. Imports the rest of the adapter only now."""
    from cdplugin.adapters.sglang import backend

    return backend.make(server_args, tokenizer, vocab_size, eos_token_ids)
