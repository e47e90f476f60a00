"""Parse BNF text into a syntax tree for each rule. The parser keeps its own stack; time is linear in the text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from cdplugin.expr import MAX_CODE_POINT
from cdplugin.frontends.bnf.macros import parse_macro
from cdplugin.frontends.bnf.rule_options import RuleOptions, read_options
from cdplugin.frontends.bnf.scan import GBNF, Scanner
from cdplugin.frontends.bnf.tree import CHARS, REF, REPEAT, SEQ, TEXT, TOKENS, Grammar, Node, Rule, choice, sequence
from cdplugin.frontends.source import Source
from cdplugin.ir import TokenSet
from cdplugin.limits import Limits

_ANY = ((0, 0xD7FF), (0xE000, MAX_CODE_POINT))
_OPTIONS = re.compile(r'\[(?:"(?:\\.|[^"\\\r\n])*"|[^]"\r\n])*\]')
"""The options of a rule; texts in quotes may hold brackets."""
_LINE_END = re.compile(r"[\r\n]")
_PLAIN_NAMES = " (names stand without < >)"
_COUNTS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_LONG_REACH = "a rule ends with its line; within parentheses and after | it may go on"


@dataclass(slots=True)
class _Group:
    """An open group, or the body of a rule. ``looks``: it is xgrammar's look-ahead, ``(=…)`` at the end of a rule."""

    at: int
    looks: bool = False
    alternatives: list[Node] = field(default_factory=list)
    items: list[Node] = field(default_factory=list)

    def close_alternative(self, at: int) -> None:
        items = self.items
        self.alternatives.append(sequence(items, items[0].at if items else at) if items else Node(SEQ, (), at))
        self.items = []

    def node(self, at: int) -> Node:
        self.close_alternative(at)
        return choice(self.alternatives, self.at)


def parse(source: Source, syntax: str, limits: Limits) -> Grammar:
    """The rules of ``source``. Raises ``GrammarError``, ``UnsupportedError``, ``LimitExceeded``, each with line and column."""
    return _Parser(Scanner(source, syntax, limits)).run()


class _Parser:
    def __init__(self, scanner: Scanner) -> None:
        self.scanner = scanner
        self.gbnf = scanner.syntax == GBNF
        self.grammar = Grammar(scanner.source)

    def run(self) -> Grammar:
        scanner = self.scanner
        scanner.skip(newlines=True)
        while scanner.pos < scanner.end:
            self._rule()
            scanner.skip(newlines=True)
        return self.grammar

    # --- rules ----------------------------------------------------------------------------------------------------------

    def _rule(self) -> None:
        scanner = self.scanner
        at = scanner.pos
        name = scanner.name()
        if name is None:
            hint = " (a rule's line cannot begin so)" if self.gbnf else _PLAIN_NAMES if scanner.peek() == "<" else ""
            scanner.fail(f"bad rule{hint}", expected="the name of a rule")
        options = read_options(scanner, name) if not self.gbnf and scanner.peek() == "[" else RuleOptions()
        scanner.skip(newlines=not self.gbnf)
        if scanner.peek(3) != "::=":
            ahead = scanner.peek(2)
            if ahead[:1] in ("=", ":"):
                hint = " (name: … is written with cdplugin.Lark)" if ahead[:1] == ":" and ahead not in ("::", ":=") else ""
                scanner.fail(f"bad rule{hint}", expected="::= after the name of a rule", found=repr(ahead.strip()))
            scanner.fail("bad rule" + (f" ({_LONG_REACH})" if self.gbnf else ""), expected="::= after the name of a rule")
        earlier = self.grammar.rules.get(name)
        if earlier is not None:
            scanner.fail(f"rule {name!r} is defined twice; the first is at {scanner.source.where(earlier.at)}", at)
        scanner.pos += 3
        scanner.skip(newlines=True)
        self.grammar.rules[name] = Rule(name, at, self._body(), options)

    def _ends(self, groups: list[_Group]) -> bool:
        """Whether the body of the rule ends here. Skips line breaks after which it continues."""
        scanner = self.scanner
        if scanner.pos >= scanner.end:
            return True
        if len(groups) > 1:
            if scanner.peek().isalnum() and self._rule_begins():
                scanner.fail("unclosed group", groups[-1].at, expected="a closing )", found="the next rule")
            return False
        if not self.gbnf:
            if not self._rule_begins():
                return False
            if not self._begins_line(scanner.pos):
                scanner.fail("a rule must begin a line", expected="a line break before the name of the rule")
            return True
        if scanner.peek() not in "\r\n":
            return False
        start = scanner.pos
        scanner.skip(newlines=True)
        if scanner.peek() == "|":  # llama.cpp wants the | at the end of the line before, but this can mean nothing else
            return False
        if scanner.pos < scanner.end and not self._rule_begins():
            scanner.fail(f"a rule is expected to begin here ({_LONG_REACH})", expected="the name of a rule and ::=")
        scanner.pos = start
        return True

    def _rule_begins(self) -> bool:
        """Whether a rule begins here: a name, perhaps options, and ``::=``."""
        scanner = self.scanner
        start = scanner.pos
        if scanner.name() is None:
            return False
        if not self.gbnf and scanner.peek() == "[":
            options = _OPTIONS.match(scanner.text, scanner.pos) if self._begins_line(start) else None
            scanner.pos = scanner.text.find("]", scanner.pos) + 1 if options is None else options.end()
        scanner.skip(newlines=True)
        begins, scanner.pos = scanner.peek(3) == "::=", start
        return begins

    def _begins_line(self, at: int) -> bool:
        """Whether only white space stands before ``at`` in its line."""
        text = self.scanner.text
        while at > 0 and text[at - 1] in " \t":
            at -= 1
        return at == 0 or text[at - 1] in "\r\n"

    def _body(self) -> Node:
        """Parse the body of a rule: all between ``::=`` and the next rule."""
        scanner = self.scanner
        groups = [_Group(scanner.pos)]
        while not self._ends(groups):
            at, char, group = scanner.pos, scanner.peek(), groups[-1]
            if char == "(":
                looks = not self.gbnf and len(groups) == 1 and scanner.peek(2) == "(="
                if not looks:
                    self._refuse_group(at)
                scanner.pos += 1 + looks
                groups.append(_Group(at, looks))
                if len(groups) > scanner.limits.max_spec_depth:
                    scanner.exceed("groups are nested too deeply", at, "max_spec_depth", scanner.limits.max_spec_depth)
                scanner.skip(newlines=True)
            elif char == ")":
                if len(groups) == 1:
                    scanner.fail("unbalanced )", expected="an opening ( before it", found="')'")
                scanner.pos += 1
                inner = groups.pop()
                bare = not inner.alternatives and not inner.items
                self._no_empty(inner, allowed=bare)
                node = inner.node(at)
                self._skip(groups)
                if not inner.looks:
                    groups[-1].items.append(node)
                elif not self._ends(groups):  # only at the end of a rule: there it restricts nothing and is dropped
                    self._refuse_group(inner.at)
            elif char == "|":
                self._no_empty(group)
                group.close_alternative(at)
                scanner.pos += 1
                scanner.skip(newlines=True)
            elif char in _COUNTS or char == "{":
                self._repeat(group)
                self._skip(groups)
            else:
                group.items.append(self._element())
                self._skip(groups)
        if len(groups) > 1:
            scanner.fail("unclosed group", groups[-1].at, expected="a closing )", found="the end of the grammar")
        self._no_empty(groups[0])
        return groups[0].node(groups[0].at)

    def _skip(self, groups: list[_Group]) -> None:
        self.scanner.skip(newlines=len(groups) > 1 or not self.gbnf)

    def _no_empty(self, group: _Group, allowed: bool = False) -> None:
        """Fail for an empty alternative, which xgrammar wants to be written as ``""``."""
        if not self.gbnf and not group.items and not allowed:
            self.scanner.fail("empty alternative", expected='an element, or "" for the empty text')

    def _refuse_group(self, at: int) -> None:
        """Refuse groups in the notation of regular expressions, and xgrammar's look-ahead elsewhere."""
        scanner = self.scanner
        ahead = scanner.text[at : at + 3]
        if ahead[:2] == "(=" or ahead in ("(?=", "(?!", "(?<"):
            what = "a look-ahead assertion" if ahead != "(?<" else "a look-behind assertion or a named group"
            scanner.refuse(f"{what} {ahead if ahead[1] == '?' else ahead[:2]}", at, "write what may follow as part of the rule")
        if ahead == "(?:":
            scanner.refuse("a group (?: of regular expressions", at, "write ( alone, it captures nothing")

    # --- elements -------------------------------------------------------------------------------------------------------

    def _element(self) -> Node:
        scanner = self.scanner
        at, char = scanner.pos, scanner.peek()
        if char == '"':
            return Node(TEXT, (scanner.literal(),), at)
        if char == "[":
            return Node(CHARS, (scanner.char_class(),), at)
        if char == "." and self.gbnf:
            scanner.pos += 1
            return Node(CHARS, (_ANY,), at)
        if self.gbnf and char in "<!":
            return Node(TOKENS, (self._token(at),), at)
        name = scanner.name()
        if name is not None:
            if not self.gbnf and scanner.peek() == "(":
                macro = parse_macro(name, scanner, at)
                if macro is not None:
                    return macro
            return Node(REF, (name,), at)
        hints = {
            "'": ' (literals stand in double quotes: "…")',
            "/": " (write a class or a literal; there are no /…/ patterns here, and comments begin with #)",
            ",": " (elements follow each other without commas)",
            ";": " (nothing closes a rule)",
            "<": _PLAIN_NAMES,
        }
        if char in "$^":
            hints[char] = " (a rule always matches whole: anchors are not needed)"
        raise scanner.mistake(
            "bad element" + hints.get(char, ""), expected='a literal "…", a class […], the name of a rule or a group (…)'
        )

    def _token(self, at: int) -> TokenSet:
        """``<[1000]>``, ``<name>``, or ``!`` before either. The angle brackets are part of a name."""
        scanner = self.scanner
        negated = scanner.peek() == "!"
        scanner.pos += negated
        if scanner.peek() != "<":
            scanner.fail("bad token", expected="<[id]> or <name> after !")
        start = scanner.pos
        place = scanner.source.where(at)
        if scanner.peek(2) == "<[":
            scanner.pos += 2
            number = scanner.number("token id")
            if scanner.peek(2) != "]>":
                scanner.fail("bad token", expected="]> after the id")
            scanner.pos += 2
            return TokenSet(ranges=((number, number),), negated=negated, where=place, ends=False)
        end = scanner.text.find(">", start)
        if end < 0 or _LINE_END.search(scanner.text, start, end):
            scanner.fail("unclosed token", start, expected="a closing > in the same line", found="the end of the line")
        if end == start + 1:
            scanner.fail("bad token", start, expected="<[id]> or <name>", found="'<>'")
        scanner.pos = end + 1
        return TokenSet(names=(scanner.text[start : end + 1],), negated=negated, where=place, ends=False)

    # --- counts ---------------------------------------------------------------------------------------------------------

    def _repeat(self, group: _Group) -> None:
        scanner = self.scanner
        at, char = scanner.pos, scanner.peek()
        if not group.items:
            scanner.fail(f"nothing to repeat before {char}", expected="an element before it", found=repr(char))
        child = group.items[-1]
        if not self.gbnf and child.op == REPEAT and child.args[3] == at:
            scanner.fail("two counts follow each other", expected="parentheses around what the first repeats", found=repr(char))
        low: int
        high: int | None
        if char in _COUNTS:
            low, high = _COUNTS[char]
            scanner.pos += 1
        else:
            low, high = self._braces(at)
        args: tuple[Any, ...] = (child, low, high, self._after())
        group.items[-1] = Node(REPEAT, args, child.at)

    def _after(self) -> int:
        """Where the next element begins. If a count stands there, it follows this count."""
        scanner = self.scanner
        start = scanner.pos
        scanner.skip(newlines=True)
        after, scanner.pos = scanner.pos, start
        return after

    def _braces(self, at: int) -> tuple[int, int | None]:
        """``{m}``, ``{m,}``, ``{m,n}``, ``{,n}``."""
        scanner = self.scanner
        scanner.pos += 1
        scanner.skip(newlines=True)
        low = 0 if scanner.peek() == "," else scanner.number("repetition count", "max_repeat")
        scanner.skip(newlines=True)
        high: int | None = low
        if scanner.peek() == ",":
            scanner.pos += 1
            scanner.skip(newlines=True)
            unbounded = scanner.peek() == "}" or (not self.gbnf and scanner.peek(2) == "-1")  # as xgrammar prints it
            scanner.pos += 2 if unbounded and scanner.peek() == "-" else 0
            high = None if unbounded else scanner.number("repetition count", "max_repeat")
            scanner.skip(newlines=True)
        if scanner.peek() != "}":
            scanner.fail("bad repetition", expected="}" if high != low else ", or } after the count")
        scanner.pos += 1
        if high is not None and high < low:
            shown = scanner.text[at : scanner.pos]
            scanner.fail("repetition runs backwards", at, expected="the smaller count first", found=shown)
        return low, high
