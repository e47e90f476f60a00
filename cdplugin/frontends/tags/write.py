"""Write structural tags as rules over lexemes.

Free text ends at the first trigger, however it is tokenized (:mod:`cdplugin.frontends.free_text`). Inside a tag it also ends at
the tag's end: free text excludes the strings (or the token) that end the innermost tag around it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from cdplugin.errors import UnsupportedError, relocated, shown
from cdplugin.expr import Expr, cat, literals
from cdplugin.frontends.bnf import compile_bnf
from cdplugin.frontends.free_text import dispatch_text, dispatch_tokens, without
from cdplugin.frontends.json_schema import check_schema, compile_schema
from cdplugin.frontends.json_schema.options import Options
from cdplugin.frontends.json_schema.source import content_key
from cdplugin.frontends.lark import compile_lark
from cdplugin.frontends.literals import compile_regex
from cdplugin.frontends.repeats import SymbolRepeats, either
from cdplugin.frontends.spelling import spell, spell_out, token_set, utf8, ways_with_token
from cdplugin.frontends.tags.gemma import Gemma
from cdplugin.frontends.tags.read import Format, fail, read_tag
from cdplugin.frontends.tags.xml import GEMMA, STYLES, Layout, Parameters, SchemaWriter
from cdplugin.ir import GrammarIR, Symbol, TokenSet
from cdplugin.limits import Limits

_COUNTS = {"optional": (0, 1), "plus": (1, None), "star": (0, None)}
_OLDER = re.compile(r"/tags/(\d+)(/content/json_schema)?")
_OUTSIDE_STRINGS = frozenset("{}[],: \t\r\n+-.0123456789Etruefalsn")

Ends = tuple["str | Format", ...]


def compile_tag(tag: Any, limits: Limits, ir: GrammarIR | None = None) -> GrammarIR:
    """Compile a structural tag, into ``ir`` if one is given. Raises ``GrammarError`` and subclasses, with a JSON Pointer."""
    ir = ir or GrammarIR()
    with relocated(_as_written):
        symbols = TagWriter(ir, limits).write(read_tag(tag, limits), ())
    ir.start = ir.nonterminal("structural tag")
    ir.rule(ir.start, symbols)
    return ir


def _as_written(where: str) -> str:
    """A location as in the older form of a tag, which is read as the newer one; other locations are unchanged."""
    found = _OLDER.match(where)
    if found is None:
        return where
    return f"/structures/{found[1]}" + ("/schema" if found[2] else "") + where[found.end() :]


class TagWriter:
    """Writes formats into ``ir``, each as a sequence of symbols. It recurses; the reader bounds the depth."""

    def __init__(self, ir: GrammarIR, limits: Limits) -> None:
        self.ir = ir
        self.limits = limits
        self.repeats = SymbolRepeats(ir)
        self._schemas: dict[tuple[bytes | None, Options, tuple[str, ...]], Symbol] = {}

    def write(self, fmt: Format, ends: Ends) -> list[Symbol]:
        """Write a format. ``ends``: what ends the innermost tag around it."""
        return getattr(self, "_" + fmt.kind)(fmt, ends)

    # --- texts ----------------------------------------------------------------------------------------------------------

    def _const_string(self, fmt: Format, _: Ends) -> list[Symbol]:
        return spell(self.ir, fmt.value)

    def _any_text(self, fmt: Format, ends: Ends) -> list[Symbol]:
        if fmt.max_tokens == 0:
            return []
        return [self.ir.lexeme(without(_stops(fmt, ends), fmt.max_chars), "free text", max_tokens=fmt.max_tokens)]

    def _spec(self, fmt: Format, _: Ends) -> list[Symbol]:
        return [self._embed(fmt.at, lambda inner: fmt.spec.to_ir(self.limits, inner), fmt.depth)]

    def _symbols(self, fmt: Format, _: Ends) -> list[Symbol]:
        """Symbols that are written already."""
        return list(fmt.symbols)

    def _lexeme(self, fmt: Format, _: Ends) -> list[Symbol]:
        return [self.ir.lexeme(fmt.expr, "free text")]

    def _regex(self, fmt: Format, _: Ends) -> list[Symbol]:
        return [self._embed(f"{fmt.at}/pattern", lambda inner: compile_regex(fmt.pattern, self.limits, "ecma", inner))]

    def _grammar(self, fmt: Format, _: Ends) -> list[Symbol]:
        def write(inner: GrammarIR) -> object:
            if fmt.syntax == "lark":
                return compile_lark(fmt.grammar, None, self.limits, inner)
            return compile_bnf(fmt.grammar, "xgrammar", "root", self.limits, inner)

        return [self._embed(f"{fmt.at}/grammar", write)]

    def _qwen_xml_parameter(self, fmt: Format, _: Ends) -> list[Symbol]:
        return [self._parameters(fmt, "qwen_xml", self.schema, Layout())]

    def _json_schema(self, fmt: Format, _: Ends) -> list[Symbol]:
        at = f"{fmt.at}/json_schema"
        bound = fmt.max_whitespace_cnt
        whitespace = "flexible" if bound is None else f"[ \\n\\r\\t]{{0,{bound}}}"
        options = Options(whitespace=whitespace, property_order="any" if fmt.any_order else "schema")
        if fmt.style == "json":
            return [self.schema(fmt.json_schema, at, options, fmt.excludes)]
        if fmt.style not in STYLES:
            raise UnsupportedError(
                "style of json_schema is not supported",
                location=f"{fmt.at}/style",
                expected="one of json, " + ", ".join(STYLES),
                found=shown(fmt.style),
            )
        layout = Layout(fmt.any_order, Layout.space if bound is None else bound, tuple(fmt.excludes))
        return [
            self._parameters(fmt, fmt.style, lambda schema, where: self.schema(schema, where, options, fmt.excludes), layout)
        ]

    def _parameters(self, fmt: Format, style: str, write_schema: SchemaWriter, layout: Layout) -> Symbol:
        at = f"{fmt.at}/json_schema"
        with self._inside(at):
            reader = check_schema(fmt.json_schema, self.limits)
        writer = Gemma if style == GEMMA else Parameters
        return writer(self.ir, reader, style, write_schema, at, layout).write()

    def schema(self, schema: Any, at: str, options: Options | None = None, excludes: Sequence[str] = ()) -> Symbol:
        """JSON that is valid under ``schema``, without ``excludes`` in its strings. Equal schemas are written once."""
        options = options or Options()
        content = content_key(schema)
        key = (content, options, tuple(excludes))
        found = self._schemas.get(key) if content is not None else None
        if found is None:

            def write(inner: GrammarIR) -> None:
                if excludes:
                    inner.restriction = self._without(excludes, at)
                compile_schema(schema, options, self.limits, inner)

            found = self._schemas[key] = self._embed(at, write)
        return found

    def _without(self, excludes: Sequence[str], at: str) -> Expr:
        """A restriction of JSON's lexemes: none holds any of ``excludes``. Only texts that occur only inside
        one string work.
        """
        for text in excludes:
            if '"' in text or not set(text) - _OUTSIDE_STRINGS:
                raise UnsupportedError(
                    "excludes that could match outside strings are not supported",
                    location=f"{at.removesuffix('/json_schema')}/excludes",
                    expected="texts without quotes, with a character that JSON has in strings only",
                    found=shown(text),
                )
        return without(excludes)

    def _embed(self, at: str, write: Callable[[GrammarIR], object], depth: int = 0) -> Symbol:
        """The start symbol of what ``write`` writes into a nested IR; ``depth``: how many formats deep."""
        with self._inside(at):
            inner = self.ir.nested(depth)
            write(inner)
        return self.ir.adopt(inner)

    @staticmethod
    def _inside(at: str) -> AbstractContextManager[None]:
        """A context that adds the format's location to errors."""
        return relocated(lambda inner: at + inner if inner.startswith("/") or not inner else f"{at}, {inner}")

    # --- composition ----------------------------------------------------------------------------------------------------

    def _sequence(self, fmt: Format, ends: Ends) -> list[Symbol]:
        return [symbol for element in fmt.elements for symbol in self.write(element, ends)]

    def _or(self, fmt: Format, ends: Ends) -> list[Symbol]:
        if not fmt.elements:
            fail(f"{fmt.at}/elements", "bad or", expected="at least one format", found="none")
        return [either(self.ir, (self.write(element, ends) for element in fmt.elements))]

    def _repeat(self, fmt: Format, ends: Ends) -> list[Symbol]:
        low, high = _COUNTS.get(fmt.kind) or (fmt.min, fmt.max)
        if high is not None and high < low:
            fail(fmt.at, "repetition runs backwards", expected="the smaller count as min", found=f"{low} to {high}")
        for count, name in ((low, "min"), (high or 0, "max")):
            if count > self.limits.max_repeat:
                fail(f"{fmt.at}/{name}", "repetition count", expected=f"at most {self.limits.max_repeat}", found=str(count))
        return [self.repeats.many(either(self.ir, [self.write(fmt.content, ends)]), low, high)]

    _optional = _plus = _star = _repeat

    # --- tags -----------------------------------------------------------------------------------------------------------

    def _tag(self, fmt: Format, _: Ends) -> list[Symbol]:
        return [*self._delimiter(fmt.begin), *self._rest_of(fmt)]

    def _delimiter(self, delimiter: str | Format) -> list[Symbol]:
        return spell(self.ir, delimiter) if isinstance(delimiter, str) else self._token(delimiter, ())

    def _rest_of(self, tag: Format) -> list[Symbol]:
        """A tag without its begin: content and end. Free text and the end become one lexeme."""
        content, ends = tag.content, tag.end
        texts = [end for end in ends if isinstance(end, str)]
        if content.kind == "any_text" and content.max_tokens is None and len(texts) == len(ends) and all(texts):
            free = without([*content.excludes, *texts], content.max_chars)
            whole = [self.ir.lexeme(cat(free, literals(map(utf8, texts))), f"text up to {texts[0]!r}")]
            by_token = [way for end in texts for way in ways_with_token(self.ir, end)]
            if not by_token:
                return whole
            alone = self.ir.lexeme(free, "free text")
            return [either(self.ir, [whole, *([alone, *spell_out(self.ir, before), *rest] for before, rest in by_token)])]
        closing = [self._delimiter(end) for end in ends]
        return [*self.write(content, ends), *(closing[0] if len(closing) == 1 else [either(self.ir, closing)])]

    def _tags_with_separator(self, fmt: Format, ends: Ends) -> list[Symbol]:
        one = either(self.ir, (self.write(tag, ends) for tag in fmt.tags), "tag")
        out = [one]
        if not fmt.stop_after_first:
            out.append(self.repeats.star(either(self.ir, [[*spell(self.ir, fmt.separator), one]])))
        return out if fmt.at_least_one else [either(self.ir, [out, ()])]

    def _triggered_tags(self, fmt: Format, ends: Ends) -> list[Symbol]:
        """Dispatch on triggers; each tag belongs to the one trigger with which its begin starts."""
        excludes = _stops(fmt, ends)
        by_trigger: dict[str, list[list[Symbol]]] = {trigger: [] for trigger in fmt.triggers}
        whole: list[list[Symbol]] = []
        by_token: list[tuple[str, list[Symbol]]] = []
        for tag in fmt.tags:
            begin = tag.begin
            if not isinstance(begin, str):
                fail(f"{tag.at}/begin", "bad tag of triggered_tags", expected="a string as begin", found="a token")
            found = [trigger for trigger in by_trigger if begin.startswith(trigger)]
            if len(found) != 1:
                what = "no trigger" if not found else " and ".join(repr(trigger) for trigger in found)
                fail(
                    f"{tag.at}/begin",
                    "a tag must begin with exactly one of the triggers",
                    expected=", ".join(map(repr, fmt.triggers[:5])) + (" …" if len(fmt.triggers) > 5 else ""),
                    found=what,
                )
            (trigger,) = found
            rest = self._rest_of(tag)
            by_trigger[trigger].append([*spell(self.ir, begin[len(trigger) :]), *rest])
            if fmt.at_least_one:
                whole.append([*spell(self.ir, begin), *rest])
            by_token += [(before, [*way, *rest]) for before, way in ways_with_token(self.ir, begin, len(trigger))]
        for i, (trigger, tags) in enumerate(by_trigger.items()):
            if not tags:
                fail(f"{fmt.at}/triggers/{i}", "no tag begins with the trigger", found=shown(trigger))
        tags_of = [(trigger, [either(self.ir, tags, "tag")]) for trigger, tags in by_trigger.items()]
        loop = not fmt.stop_after_first
        if fmt.at_least_one:
            first = either(self.ir, whole, "tag")
            return [first, dispatch_text(self.ir, tags_of, excludes=excludes, by_token=by_token)] if loop else [first]
        return [dispatch_text(self.ir, tags_of, excludes=excludes, loop=loop, by_token=by_token)]

    def _dispatch(self, fmt: Format, ends: Ends) -> list[Symbol]:
        """Only its own ``excludes`` end the free text, as in xgrammar: the end of the tag around it may occur in it."""
        tags = [(pattern, self.write(content, ends)) for pattern, content in fmt.rules]
        by_token = [(before, [*way, *follow]) for pattern, follow in tags for before, way in ways_with_token(self.ir, pattern)]
        return [dispatch_text(self.ir, tags, excludes=fmt.excludes, loop=fmt.loop, by_token=by_token)]

    # --- tokens ---------------------------------------------------------------------------------------------------------

    def _set(self, tokens: Iterable[int | str], at: str, negated: bool = False) -> TokenSet:
        return token_set(tokens, negated=negated, where=at, ends=False, ordinary=True)

    def _others(self, tokens: Iterable[int | str], ends: Ends, at: str) -> TokenSet:
        """All tokens except some, and except the token that ends the tag around."""
        return self._set([*tokens, *(end.token for end in ends if isinstance(end, Format))], at, negated=True)

    def _token(self, fmt: Format, _: Ends) -> list[Symbol]:
        return [self.ir.token(self._set([fmt.token], fmt.at), str(fmt.token))]

    def _exclude_token(self, fmt: Format, ends: Ends) -> list[Symbol]:
        return [self.ir.token(self._others(fmt.exclude_tokens, ends, fmt.at), "a token")]

    def _any_tokens(self, fmt: Format, ends: Ends) -> list[Symbol]:
        (token,) = self._exclude_token(fmt, ends)
        if fmt.max_tokens is None:
            return [self.repeats.star(token)]
        return [self.repeats.many(token, 0, fmt.max_tokens)] if fmt.max_tokens else []

    def _token_triggered_tags(self, fmt: Format, ends: Ends) -> list[Symbol]:
        tags: list[tuple[TokenSet, list[Symbol]]] = []
        for tag in fmt.tags:
            if isinstance(tag.begin, str) or tag.begin.token not in fmt.trigger_tokens:
                expected = "a token of trigger_tokens as begin"
                fail(f"{tag.at}/begin", "bad tag of token_triggered_tags", expected=expected)
            tags.append((self._set([tag.begin.token], tag.at), self._rest_of(tag)))
        free = self._others([*fmt.trigger_tokens, *fmt.exclude_tokens], ends, fmt.at)
        loop = not fmt.stop_after_first
        if not fmt.at_least_one:
            return [dispatch_tokens(self.ir, tags, free, loop=loop)]
        first = either(self.ir, ([self.ir.token(trigger, "trigger"), *rest] for trigger, rest in tags), "tag")
        return [first, dispatch_tokens(self.ir, tags, free)] if loop else [first]

    def _token_dispatch(self, fmt: Format, ends: Ends) -> list[Symbol]:
        tags = [(self._set([token], fmt.at), self.write(content, ends)) for token, content in fmt.rules]
        free = self._others([*(token for token, _ in fmt.rules), *fmt.exclude_tokens], ends, fmt.at)
        return [dispatch_tokens(self.ir, tags, free, loop=fmt.loop)]


def _stops(fmt: Format, ends: Ends) -> list[str]:
    """The texts that the free text of a format must not hold."""
    return [*fmt.excludes, *(end for end in ends if isinstance(end, str) and end)]
