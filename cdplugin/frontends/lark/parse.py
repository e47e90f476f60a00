"""Parse the symbols of a Lark grammar into a tree. Groups are kept on an explicit stack, so their depth causes no recursion."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn

from cdplugin.frontends.lark import parameters, tree
from cdplugin.frontends.lark.parameters import Condition, Function
from cdplugin.frontends.lark.scan import Symbol, fail_notation, scan, token_set
from cdplugin.frontends.lark.substring import chunks_of
from cdplugin.frontends.lark.tree import Attributes, Definition, Grammar, Import, Node
from cdplugin.frontends.source import Source
from cdplugin.limits import Limits, at_most

_MAX_NESTED_GRAMMARS = 32
_MAX_CONDITION_DEPTH = 64
_ATTRIBUTES = ("lazy", "glued", "suffix", "stop", "stop_capture", "capture", "max_tokens", "max_chars", "temperature")
_NAMES = ("RULE", "TERMINAL")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_VALUES = "a name, a string, a regular expression, a special token, '(' or '['"


def parse(source: Source, limits: Limits) -> Grammar:
    """Parse a whole grammar. Raises ``GrammarError``, ``UnsupportedError``, ``LimitExceeded``, with line and column."""
    return _Parser(source, limits).grammar()


@dataclass
class _Frame:
    """An open group: its bracket, its content so far, and the ``~`` before it that apply to the whole group."""

    opening: Symbol | None
    alternatives: list[Node] = field(default_factory=list)
    conjuncts: list[Node] = field(default_factory=list)
    sequence: list[Node] = field(default_factory=list)
    tildes: list[int] = field(default_factory=list)
    condition: tuple[Condition, int] | None = None
    has_alias: bool = False
    arguments: list[Node] = field(default_factory=list)  # of a template
    name: Symbol | None = None  # its name


class _Parser:
    def __init__(self, source: Source, limits: Limits) -> None:
        self.source = source
        self.limits = limits
        self.symbols = scan(source, limits)
        self.pos = 0
        self.nested = 0
        self.uses_templates = False

    # --- symbols ----------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> Symbol:
        return self.symbols[self.pos]

    def peek(self, ahead: int = 1) -> Symbol:
        return self.symbols[min(self.pos + ahead, len(self.symbols) - 1)]

    def take(self, kind: str, expected: str) -> Symbol:
        if self.now.kind != kind:
            self.unexpected(expected)
        return self.following()

    def accept(self, kind: str) -> Symbol | None:
        return self.following() if self.now.kind == kind else None

    def following(self) -> Symbol:
        """Take the next symbol, whatever it is."""
        self.pos += 1
        return self.symbols[self.pos - 1]

    def unexpected(self, expected: str, message: str = "unexpected symbol") -> NoReturn:
        self.source.fail(message, self.now.at, expected=expected, found=_shown(self.source, self.now))

    def skip_newlines(self) -> None:
        while self.now.kind == "NEWLINE":
            self.pos += 1

    # --- statements -------------------------------------------------------------------------------------------------------

    def grammar(self) -> Grammar:
        """Parse definitions and statements up to the end, or to the brace that closes a nested grammar."""
        grammar = Grammar(self.now.at)
        outer, self.uses_templates = self.uses_templates, False
        while True:
            self.skip_newlines()
            kind = self.now.kind
            if kind == "END" or (kind == "}" and self.nested):
                grammar.uses_templates, self.uses_templates = self.uses_templates, outer
                return grammar
            if kind in _NAMES:
                grammar.definitions.append(self.definition())
            elif kind.startswith("%") and kind not in ("%json", "%regex", "%lark", "%if"):
                self.statement(grammar)
            elif kind in ("|", "STRING", "REGEX", "TOKENS", "(", "["):
                expected = "a rule, a terminal or a statement; a rule goes on in a new line only with '|' or inside brackets"
                self.unexpected(expected)
            else:
                self.unexpected("a rule, a terminal or a statement")
            if self.now.kind not in ("NEWLINE", "END") and not (self.now.kind == "}" and self.nested):
                self.unexpected("the end of the line")

    def statement(self, grammar: Grammar) -> None:
        symbol = self.following()
        if symbol.kind == "%ignore":
            body = self.expansions()
            if body.op == tree.SEQ and not body.args:
                self.source.fail("%ignore without a terminal", symbol.end, expected="what to ignore")
            grammar.ignores.append(body)
        elif symbol.kind == "%import":
            self.imported(grammar, symbol)
        elif symbol.kind == "%declare":
            first = self.name("a name after %declare")
            grammar.declared.setdefault(first.value, first.at)
            while self.now.kind in _NAMES:
                grammar.declared.setdefault(self.now.value, self.now.at)
                self.pos += 1
        elif symbol.kind == "%llguidance":
            grammar.options.append((symbol.value, symbol.at))
        elif symbol.kind == "%word":
            characters, names = self.value(), []
            while (name := self.accept("TERMINAL")) is not None:
                names.append((name.value, name.at))
            grammar.words.append((characters, names, symbol.at))
        elif symbol.kind == "%indent":
            grammar.indents.append((symbol.value, symbol.at))
        else:
            self.source.refuse(f"{symbol.kind} (rules are never loaded from other files)", symbol.at)

    def imported(self, grammar: Grammar, start: Symbol) -> None:
        relative = self.accept(".")
        path = [self.name("the name of a library, as common").value]
        while self.accept("."):
            path.append(self.name("a name after '.'").value)
        if relative:
            self.source.refuse("%import of a file", start.at, expected="%import common.NAME", found="." + ".".join(path))
        if self.accept("("):
            while True:
                symbol = self.name("the name of a terminal")
                grammar.imports.append(Import(".".join(path), symbol.value, symbol.value, symbol.at))
                if not self.accept(","):
                    break
            self.take(")", "',' or ')'")
            return
        if len(path) < 2:
            self.unexpected("'.' and the name of a terminal", "unfinished %import")
        last = self.symbols[self.pos - 1]
        alias = self.name("a name after '->'").value if self.accept("->") else path[-1]
        grammar.imports.append(Import(".".join(path[:-1]), path[-1], alias, last.at))

    def name(self, expected: str) -> Symbol:
        if self.now.kind not in _NAMES:
            self.unexpected(expected)
        return self.following()

    # --- definitions ------------------------------------------------------------------------------------------------------

    def definition(self) -> Definition:
        symbol = self.following()
        out = Definition(symbol.value, symbol.at, Node(tree.SEQ, (), symbol.at), symbol.kind == "TERMINAL")
        if self.accept("{"):
            out.parameters = self.template_parameters()
        if self.now.kind == "::" and self.peek().kind != "=":
            if out.is_terminal or out.parameters is not None:
                whose = "a terminal" if out.is_terminal else "a template"
                self.source.fail(f"{whose} with a parameter", self.now.at, expected="parameters of rules only")
            self.pos += 1
            self.take("_", "'_' (rules are defined as name::_)")
            out.parametric = True
        if self.accept("."):
            out.priority_at = self.take("NUMBER", "a number after '.'").at
        if self.now.kind == "[":
            out.attributes = self.attributes(out)
        if self.now.kind != ":" or self.peek().kind == "=":
            self.no_colon(out)
        self.pos += 1
        before, self.uses_templates = self.uses_templates, False
        out.body = self.expansions()
        out.uses_templates = self.uses_templates
        self.uses_templates |= before
        return out

    def no_colon(self, out: Definition) -> NoReturn:
        sign = re.compile(r":{0,2}=").match(self.source.text, self.now.at)
        if sign is not None:
            fail_notation(self.source, self.now.at, sign.group())
        self.unexpected("':'" if out.attributes.at or out.is_terminal else "':', or attributes in '[' ']'")

    def template_parameters(self) -> tuple[tuple[str, int], ...]:
        out: dict[str, int] = {}
        while True:
            symbol = self.name("the name of a parameter")
            if symbol.value in out:
                self.source.fail("a parameter twice", symbol.at, found=repr(symbol.value))
            out[symbol.value] = symbol.at
            if not self.accept(","):
                break
        self.take("}", "',' or '}'")
        return tuple(out.items())

    def attributes(self, definition: Definition) -> Attributes:
        opening = self.following()
        if definition.is_terminal:
            self.source.fail("attributes of a terminal", opening.at, expected="attributes of rules only")
        out = Attributes()
        while self.now.kind != "]":
            symbol = self.take("RULE", "an attribute: " + ", ".join(_ATTRIBUTES))
            key = symbol.value
            if key not in _ATTRIBUTES:
                self.source.unknown("unknown attribute", symbol.at, key, _ATTRIBUTES)
            if key in out.at:
                self.source.fail("an attribute twice", symbol.at, found=repr(key))
            out.at[key] = symbol.at
            self.attribute(out, key, definition.name)
            if not self.accept(","):
                break
        self.take("]", "',' or ']'")
        if "stop" in out.at and "suffix" in out.at:
            self.source.fail("stop= and suffix= together", max(out.at["stop"], out.at["suffix"]), expected="one of them")
        if out.stop_capture is not None and out.stop is None:
            self.source.fail("stop_capture= without stop= or suffix=", out.at["stop_capture"])
        if out.stop_capture is not None and out.stops_at_end:
            self.source.fail('stop_capture= of stop=""', out.at["stop_capture"], expected="a stop= that is text")
        return out

    def attribute(self, out: Attributes, key: str, rule_name: str) -> None:
        if key in ("lazy", "glued"):
            setattr(out, key, True)
            return
        if key == "capture" and self.now.kind != "=":
            out.capture = rule_name
            return
        self.take("=", f"'=' after {key}")
        if key in ("stop", "suffix"):
            out.stop, out.is_suffix = self.value(), key == "suffix"
        elif key in ("capture", "stop_capture"):
            symbol = self.take("STRING", "a string")
            name, ignore_case = symbol.value
            if ignore_case:
                self.source.fail("a name with a flag", symbol.at, expected='"…" without i')
            setattr(out, key, name)
        else:
            symbol = self.take("NUMBER", "a number")
            try:
                number = float(symbol.value) if key == "temperature" else int(symbol.value)
            except ValueError:
                self.source.fail(f"{key}=", symbol.at, expected="a whole number", found=symbol.value)
            least = 1 if key == "max_tokens" else 0
            if number < least:
                self.source.fail(f"{key}=", symbol.at, expected=f"at least {least}", found=symbol.value)
            setattr(out, key, number)

    # --- bodies -----------------------------------------------------------------------------------------------------------

    def expansions(self) -> Node:
        """Parse alternatives to the end of the line, including continuation lines that begin with ``|``."""
        stack = [_Frame(None)]
        symbols = self.symbols
        while True:
            frame = stack[-1]
            symbol = symbols[self.pos]
            kind = symbol.kind
            is_whole = frame.condition is not None or frame.has_alias
            if kind in _SIMPLE and not is_whole and symbols[self.pos + 1].kind != "{":
                frame.sequence.append(self.postfix(self.value(frame), frame))
            elif kind == "NEWLINE" and self.goes_on(frame):
                self.pos += 1
            elif kind == "|":
                self.close_alternative(frame)
                self.pos += 1
            elif kind == "&":
                self.close_conjunct(frame)
                self.pos += 1
            elif kind == "->" and not frame.has_alias:
                self.pos += 1
                self.take("RULE", "the name of an alias")
                frame.has_alias = True
            elif kind == "%if" and frame.condition is None:
                self.pos += 1
                frame.condition = (self.condition(0), symbol.at)
            elif kind == "," and frame.name is not None:
                frame.arguments.append(self.argument(frame))
                self.pos += 1
            elif frame.opening is not None and kind == _CLOSING[frame.opening.kind]:
                self.pos += 1
                stack.pop()
                stack[-1].sequence.append(self.postfix(self.closed(frame), stack[-1]))
            elif frame.opening is None and kind in ("NEWLINE", "END", "}"):
                if frame.tildes:
                    self.unexpected("what '~' negates")
                return self.group(frame)
            elif is_whole:
                self.unexpected("'|' or the end of the alternative")
            elif kind in ("(", "["):
                self.open(stack, symbol)
            elif kind == "~":
                frame.tildes.append(symbol.at)
                self.pos += 1
            elif kind in _NAMES and symbols[self.pos + 1].kind == "{" and self.peek(2).kind not in ("NUMBER", ","):
                self.pos += 1
                self.open(stack, self.now)
                stack[-1].name = self.unmarked(symbol)
                self.uses_templates = True
            else:
                frame.sequence.append(self.postfix(self.value(frame), frame))

    def goes_on(self, frame: _Frame) -> bool:
        """Whether the alternatives continue after this line break: inside brackets, before ``|``, or after ``|`` or ``:``."""
        if frame.opening is not None or self.peek().kind == "|":
            return True
        before = self.symbols[self.pos - 1].kind
        return before in (":", "|", "&", "~") and self.peek().kind in _STARTS and not self.defines(self.pos + 1)

    def defines(self, pos: int) -> bool:
        """Whether a definition begins here: a name, and a colon outside brackets before the end of the line."""
        if self.symbols[pos].kind not in _NAMES:
            return False
        depth = 0
        while self.symbols[pos].kind not in ("NEWLINE", "END"):
            kind = self.symbols[pos].kind
            depth += (kind in ("(", "[", "{")) - (kind in (")", "]", "}"))
            if kind == ":" and depth == 0:
                return True
            pos += 1
        return False

    def open(self, stack: list[_Frame], symbol: Symbol) -> None:
        if len(stack) > self.limits.max_spec_depth:
            self.source.exceed("grammar nested too deeply", symbol.at, expected=at_most(self.limits, "max_spec_depth"))
        self.pos += 1
        stack.append(_Frame(symbol))

    def close_conjunct(self, frame: _Frame) -> None:
        if frame.tildes:
            self.unexpected("what '~' negates")
        at = frame.sequence[0].at if frame.sequence else self.now.at
        frame.conjuncts.append(_of(tree.SEQ, frame.sequence, at))
        frame.sequence = []

    def close_alternative(self, frame: _Frame) -> None:
        self.close_conjunct(frame)
        node = _of(tree.AND, frame.conjuncts, frame.conjuncts[0].at)
        if frame.condition is not None:
            node = Node(tree.WHEN, (node, frame.condition[0]), frame.condition[1])
        frame.alternatives.append(node)
        frame.conjuncts, frame.condition, frame.has_alias = [], None, False

    def group(self, frame: _Frame) -> Node:
        self.close_alternative(frame)
        return _of(tree.ALT, frame.alternatives, frame.alternatives[0].at)

    def argument(self, frame: _Frame) -> Node:
        node = self.group(frame)
        if node.op == tree.SEQ and not node.args:
            self.unexpected("an argument")
        frame.alternatives = []
        return node

    def closed(self, frame: _Frame) -> Node:
        """The node of a group whose closing bracket has been read."""
        assert frame.opening is not None
        if frame.name is not None:
            self.pos -= 1
            arguments = (*frame.arguments, self.argument(frame))
            self.pos += 1
            return Node(tree.NAME, (frame.name.value, None, arguments), frame.name.at)
        node = self.group(frame)
        return Node(tree.REPEAT, (node, 0, 1), frame.opening.at) if frame.opening.kind == "[" else node

    def postfix(self, node: Node, frame: _Frame) -> Node:
        """Apply the ``~`` before a node and the repetition after it; ``~`` binds tighter."""
        while frame.tildes:
            node = Node(tree.NOT, (node,), frame.tildes.pop())
        symbol = self.symbols[self.pos]
        if symbol.kind not in ("OP", "~", "{"):
            return node
        low, high = 1, None
        if symbol.kind == "OP":
            self.pos += 1
            low, high = {"+": (1, None), "*": (0, None), "?": (0, 1)}[symbol.value]
        elif symbol.kind == "~" and self.peek().kind == "NUMBER":
            self.pos += 1
            low = self.count()
            high = self.count() if self.accept("..") else low
        elif symbol.kind == "{":
            self.pos += 1
            low = high = 0
            if self.now.kind != ",":
                low = high = self.count()
            if self.accept(","):
                high = self.count() if self.now.kind == "NUMBER" else None
            self.take("}", "',' or '}'" if high == low else "'}'")
        else:
            return node
        if high is not None and high < low:
            self.source.fail("a repetition with its bounds exchanged", symbol.at, expected=f"at least {low}", found=str(high))
        if self.now.kind == "OP" or (self.now.kind == "~" and self.peek().kind == "NUMBER"):
            self.unexpected("one repetition at a time: put the first into parentheses")
        return Node(tree.REPEAT, (node, low, high), symbol.at)

    def count(self) -> int:
        symbol = self.take("NUMBER", "a count")
        if not symbol.value.isdigit():
            self.source.fail("a count", symbol.at, expected="a whole number, not negative", found=symbol.value)
        if len(symbol.value) > 18:
            self.source.exceed("a count that is too large", symbol.at, expected="at most 18 digits", found=symbol.value)
        return int(symbol.value)

    def value(self, frame: _Frame | None = None) -> Node:
        """Parse one name, literal, special token or embedded grammar."""
        symbol = self.symbols[self.pos]
        kind, at = symbol.kind, symbol.at
        if kind == "%lark":
            return self.nested_grammar()
        if kind not in _STARTS or kind in ("(", "[", "~"):
            self.no_value(frame)
        self.pos += 1
        if kind in _NAMES:
            parameter = None
            if self.symbols[self.pos].kind == "::":
                self.pos += 1
                parameter = self.parameter()
            return Node(tree.NAME, (self.unmarked(symbol).value, parameter, None), at)
        if kind == "STRING":
            if self.accept(".."):
                return self.character_range(symbol, self.take("STRING", "a string after '..'"))
            return Node(tree.TEXT, symbol.value, at)
        if kind == "REGEX":
            return Node(tree.REGEX, symbol.value, at)
        if kind == "TOKENS":
            return Node(tree.TOKENS, token_set(self.source, symbol.value, at), at)
        if kind == "REFERENCE":
            return Node(tree.REFERENCE, (symbol.value[1:],), at)
        if kind == "%json":
            return Node(tree.JSON, (symbol.value,), at)
        return Node(tree.SUBSTRING, (chunks_of(self.source, symbol.value, at),), at)

    def unmarked(self, symbol: Symbol) -> Symbol:
        """The name of a rule that is used. Raises if ``?`` stands right before it: ``a?b`` may mean ``a? b``."""
        text = self.source.text[symbol.at : symbol.end]
        if "?" in text:
            expected = "'?' before definitions only (white space follows the '?' of what may be missing)"
            self.source.fail("'?' before a rule that is used", symbol.at, expected=expected, found=repr(text))
        return symbol

    def no_value(self, frame: _Frame | None) -> NoReturn:
        kind = self.now.kind
        if kind == "OP" or kind == "{":
            self.unexpected(_VALUES, "a repetition of nothing")
        if frame is not None and frame.opening is not None:
            closing = _CLOSING[frame.opening.kind]
            begins_rule = kind == ":" and self.symbols[self.pos - 2].kind == "NEWLINE"
            if kind == "END" or begins_rule:
                found = f"the next definition in line {self.source.line(self.now.at)}" if begins_rule else ""
                expected = repr(closing)
                self.source.fail(
                    f"{frame.opening.value!r} that is not closed", frame.opening.at, expected=expected, found=found
                )
            self.unexpected(f"{_VALUES}, or {closing!r}")
        self.unexpected(_VALUES)

    def nested_grammar(self) -> Node:
        start = self.following()
        self.skip_newlines()
        self.take("{", "'{' after %lark")
        if self.nested >= _MAX_NESTED_GRAMMARS:
            most = f"at most {_MAX_NESTED_GRAMMARS} levels of %lark"
            self.source.exceed("grammars nested too deeply", start.at, expected=most)
        self.nested += 1
        inner = self.grammar()
        self.nested -= 1
        if self.now.kind == "END":
            self.source.fail("%lark that is not closed", start.at, expected="'}'")
        self.pos += 1
        inner.at = start.at
        return Node(tree.LARK, (inner,), start.at)

    def character_range(self, first: Symbol, last: Symbol) -> Node:
        for symbol in (first, last):
            text, ignore_case = symbol.value
            if len(text) != 1:
                self.source.fail("a range of characters", symbol.at, expected="one character on each side", found=repr(text))
            if ignore_case:
                self.source.fail("a range of characters with a flag", symbol.at, expected='"…" without i')
        low, high = ord(first.value[0]), ord(last.value[0])
        if low > high:
            found = f"{first.value[0]!r}..{last.value[0]!r}"
            self.source.fail("a range of characters", first.at, expected="the smaller one first", found=found)
        return Node(tree.RANGE, (low, high), first.at)

    # --- parameters and conditions ----------------------------------------------------------------------------------------

    def parameter(self) -> Function:
        symbol = self.now
        if self.accept("_"):
            return parameters.SELF
        if symbol.kind == "NUMBER":
            return parameters.constant(self.number(parameters.MASK))
        self.take("RULE", "'_', a number, or one of " + ", ".join(parameters.FUNCTIONS))
        if symbol.value not in parameters.FUNCTIONS:
            self.source.unknown("unknown function", symbol.at, symbol.value, parameters.FUNCTIONS)
        return (symbol.value, self.call_arguments(parameters.FUNCTIONS[symbol.value], symbol.value, 0))

    def condition(self, depth: int) -> Condition:
        if depth > _MAX_CONDITION_DEPTH:
            self.source.exceed("a condition nested too deeply", self.now.at, expected=f"at most {_MAX_CONDITION_DEPTH} levels")
        symbol = self.take("RULE", "a condition: " + ", ".join(parameters.CONDITIONS))
        if symbol.value not in parameters.CONDITIONS:
            self.source.unknown("unknown condition", symbol.at, symbol.value, parameters.CONDITIONS)
        if symbol.value == "true" and self.now.kind != "(":
            return ("true", ())
        return (symbol.value, self.call_arguments(parameters.CONDITIONS[symbol.value], symbol.value, depth))

    def call_arguments(self, kinds: tuple[int, ...], name: str, depth: int) -> tuple:
        self.take("(", f"'(' after {name}")
        out: list = []
        for i, kind in enumerate(kinds):
            if i:
                self.take(",", f"',' ({name} takes {len(kinds)} arguments)")
            if kind == parameters.CONDITION:
                out.append(self.condition(depth + 1))
            elif kind == parameters.RANGE_ARGUMENT:
                out.append(self.bit_range())
            else:
                out.append(self.number(parameters.MOST[kind]))
        self.take(")", f"')' ({name} takes {len(kinds)} argument{'s' * (len(kinds) != 1)})")
        return tuple(out)

    def bit_range(self) -> tuple[int, int]:
        if self.accept("_"):
            return (0, parameters.BITS)
        start = self.take("[", "'_' or a range of bits, as [0:3]")
        low = self.number(parameters.BITS - 1)
        self.take(":", "':' between the bits")
        high = self.number(parameters.BITS)
        self.take("]", "']'")
        if low >= high:
            self.source.fail("a range of bits", start.at, expected=f"an end above {low}", found=str(high))
        return (low, high)

    def number(self, most: int) -> int:
        symbol = self.take("NUMBER", "a number")
        try:
            value = int(symbol.value[:64], 0) if symbol.value.startswith("0x") else int(symbol.value[:64])
        except ValueError:
            self.source.fail("a number", symbol.at, expected="a whole number", found=symbol.value)
        if not 0 <= value <= most:
            self.source.fail("a number", symbol.at, expected=f"from 0 to {most}", found=symbol.value)
        return value


_SIMPLE = frozenset((*_NAMES, "STRING", "REGEX"))
"""The symbols of which most bodies consist."""
_STARTS = ("RULE", "TERMINAL", "STRING", "REGEX", "TOKENS", "REFERENCE", "%json", "%regex", "%lark", "(", "[", "~")


def _of(op: int, nodes: list[Node], at: int) -> Node:
    return nodes[0] if len(nodes) == 1 else Node(op, tuple(nodes), at)


def _shown(source: Source, symbol: Symbol) -> str:
    if symbol.kind == "END":
        return "the end of the grammar"
    if symbol.kind == "NEWLINE":
        return "the end of the line"
    return repr(source.text[symbol.at : min(symbol.end, symbol.at + 24)])
