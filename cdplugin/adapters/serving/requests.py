"""Server requests as specs, and the options by which a server reads them.

>>> spec_of("CHOICE", '["yes", "no"]').choices
('yes', 'no')
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

from cdplugin.errors import GrammarError
from cdplugin.limits import Limits
from cdplugin.specs.base import Choice, JsonSchema, Regex, Spec
from cdplugin.specs.base import Options as JsonOptions
from cdplugin.specs.lark import Lark
from cdplugin.specs.tags import StructuralTag
from cdplugin.specs.text import Ebnf, Gbnf

logger = logging.getLogger(__name__)

MAX_CACHE_BYTES = 96 << 20
"""Most bytes of compiled grammars that a server's engine keeps by default: some 200 ordinary schemas."""
MOST_THREADS = 64
KEYWORD = "x-cdplugin"
_RULE = re.compile(r"^[ \t]*<?[A-Za-z_][\w-]*>?[ \t]*::=", re.MULTILINE)
_OF_SCHEMAS = [name for name in signature(JsonSchema).parameters if name != "schema"]
"""The names of the options that callers may set; the front end has further ones."""
_OF_REQUESTS = [name for name in _OF_SCHEMAS if name != "registry"]


@dataclass(frozen=True)
class ServerOptions(JsonOptions):
    """How requests are read. One setting for a whole server, because requests have no fields for these.

    Read from an environment variable with a JSON object, which every process of a server inherits. The fields are the options
    of :class:`cdplugin.JsonSchema` (without ``registry``), and: ``regex_dialect``, that of :class:`cdplugin.Regex`; ``limits``,
    fields of :class:`cdplugin.Limits` by name; ``endings``, whether answers end legally within their ``max_tokens`` if the
    request does not say (:mod:`cdplugin.adapters.vllm.budget`); ``strict_tools``, whether vLLM's tools are strict if the client
    does not say (:mod:`cdplugin.adapters.vllm.tools`); ``slow_request_seconds`` and ``late_mask_seconds``, from what duration
    on a compilation or a mask is logged; ``log_characters``, how much of the request such a line shows; ``ahead``, how many
    threads compute likely masks in advance (:mod:`cdplugin.ahead`; 0: none, None: one, where it pays).
    """

    regex_dialect: str = "rust"
    endings: bool = True
    strict_tools: bool = False
    slow_request_seconds: float = 1.0
    late_mask_seconds: float = 0.02
    log_characters: int = 60
    ahead: int | None = None
    limits: dict[str, int] = field(default_factory=dict)

    @property
    def budgets(self) -> Limits:
        """The limits, with a smaller cache of compiled grammars than the default of :class:`cdplugin.Compiler`."""
        return Limits(**{"max_cache_bytes": MAX_CACHE_BYTES, **self.limits})

    @classmethod
    def from_environment(cls, variable: str) -> ServerOptions:
        """The options in a variable. Raises ``ValueError`` for anything but a JSON object of known names and legal values."""
        text = os.environ.get(variable, "")
        if not text.strip():
            return cls()
        known = [*_OF_REQUESTS, *cls.__annotations__]
        try:
            given = json.loads(text)
            if not isinstance(given, dict):
                raise ValueError(f"found {type(given).__name__}")
            if isinstance(given.get("separators"), list):
                given["separators"] = tuple(given["separators"])
            unknown = given.keys() - known
            if unknown:
                raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
            options = cls(**given)
            for name in ("endings", "strict_tools"):
                if not isinstance(getattr(options, name), bool):
                    raise ValueError(f"{name}: expected true or false, found {getattr(options, name)!r}")
            for name in ("slow_request_seconds", "late_mask_seconds", "log_characters"):
                value = getattr(options, name)
                if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
                    raise ValueError(f"{name}: expected a number that is not negative, found {value!r}")
            if not isinstance(options.log_characters, int):
                raise ValueError(f"log_characters: expected an integer, found {options.log_characters!r}")
            if options.ahead is not None and (type(options.ahead) is not int or not 0 <= options.ahead <= MOST_THREADS):
                raise ValueError(f"ahead: expected 0 to {MOST_THREADS} threads or null, found {options.ahead!r}")
            _ = options.budgets
            return options
        except (ValueError, TypeError) as error:
            names = ", ".join(known)
            raise ValueError(f"{variable}: expected a JSON object with names among {names}: {error}") from error

    def compact(self) -> ServerOptions:
        """These options without whitespace in JSON."""
        return replace(self, whitespace="compact", separators=None, indent=None)

    def json_schema(self, schema: Any) -> JsonSchema:
        """The spec of ``schema``, JSON text or a value, which may set options of its own (``x-cdplugin``)."""
        options = _with_request_options(self, schema)
        return JsonSchema(schema, **{name: getattr(options, name) for name in _OF_SCHEMAS})


def _with_request_options(options: ServerOptions, text: Any) -> ServerOptions:
    """``options``, updated by the keyword ``x-cdplugin`` at the root of a schema (JSON text or a value):

        {"type": "object", …, "x-cdplugin": {"whitespace": "compact", "property_order": "any", "on_unsupported": "relax"}}

    For HTTP clients, whose requests have no fields for options. In JSON Schema the keyword is an annotation, like any that
    starts with ``x-``. Raises :class:`GrammarError` for anything but an object of known names.
    """
    if isinstance(text, str):
        if KEYWORD not in text:
            return options
        try:
            text = json.loads(text)
        except (ValueError, RecursionError):
            return options  # the JSON Schema front end reports what is wrong
    given = text.get(KEYWORD) if isinstance(text, dict) else None
    if given is None:
        return options
    if not isinstance(given, dict):
        raise GrammarError("wrong type", expected="an object of options", found=type(given).__name__, location=f"/{KEYWORD}")
    for name in given:
        if name not in _OF_REQUESTS:
            raise GrammarError(
                "unknown option", expected=f"one of {', '.join(_OF_REQUESTS)}", found=repr(name)[:80], location=f"/{KEYWORD}"
            )
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return replace(options, **values)


def spec_of(request_type: str, text: str, options: ServerOptions | None = None) -> Spec:
    """The spec of a request of one of vLLM's types. Raises :class:`GrammarError` for a text that is not of that type."""
    options = options or ServerOptions()
    if not isinstance(text, str):
        raise GrammarError("wrong type of a structured output", expected="a text", found=type(text).__name__)
    if request_type == "JSON":
        return options.json_schema(text)
    if request_type == "JSON_OBJECT":
        return options.json_schema({"type": "object"})
    if request_type == "REGEX":
        return Regex(text, options.regex_dialect)
    if request_type == "CHOICE":
        return Choice(_json(text, "choice"))
    if request_type == "GRAMMAR":
        kind = grammar_kind(text)
        logger.debug("grammar read as %s", kind)
        return _GRAMMARS[kind](text)
    if request_type == "STRUCTURAL_TAG":
        tag = _json(text, "structural tag")
        if isinstance(tag, dict) and "format" in tag:
            tag.setdefault("type", "structural_tag")  # some clients leave it out
        return StructuralTag(tag)
    raise GrammarError("unknown kind of structured output", found=request_type)


def grammar_kind(text: str) -> str:
    """The syntax of a grammar: ``"Gbnf"``, ``"Ebnf"`` or ``"Lark"``.

    ``name ::= …`` is GBNF, as llama.cpp and xgrammar write it; with names in angle brackets, or rules that end with a
    semicolon, it is EBNF. Anything else is Lark.
    """
    if not _RULE.search(text):
        return "Lark"
    if re.search(r"^[ \t]*<[A-Za-z_][\w -]*>[ \t]*::=", text, re.MULTILINE) or re.search(r";[ \t]*$", text, re.MULTILINE):
        return "Ebnf"
    return "Gbnf"


_GRAMMARS: dict[str, Callable[[str], Spec]] = {"Gbnf": Gbnf, "Ebnf": Ebnf, "Lark": Lark}


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        position = f"position {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise GrammarError(f"malformed {what}", expected="JSON", found=str(error), location=position) from error
