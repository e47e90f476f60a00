"""Parse regular expressions of three dialects into a small syntax tree.

:mod:`cdplugin.regex.pattern` lowers the tree to byte expressions.

- ``ecma``: ECMA-262 section 22.2.1 with the semantics of the ``u`` flag (what JSON Schema asks for: code points, ASCII ``\\d``
  and ``\\w``), and with the leniency of Annex B.1.2 where it is harmless: ``\\-``, ``\\_``, a lone ``{``, ``}`` or ``]`` are
  literal. Escapes of unknown *letters* (``\\Z``, ``\\a``) are errors, as with ``u``: their authors mean something else.
- ``rust``: the ``regex`` crate (Unicode classes, nested classes, inline flags).
- ``python``: ``re`` for ``str``, except that ``$`` matches only at the very end of the text (not before a final newline), and
  that ``\\B`` matches the empty text, as in Python 3.14 and later.

Greedy and lazy quantifiers match the same language, so they are treated alike. The parser keeps its own stack and does not
recurse. Time is linear in the length of the pattern.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from cdplugin.expr import negate_ranges
from cdplugin.limits import Limits, at_most, check_length
from cdplugin.regex import tree
from cdplugin.regex.classes import parse_class
from cdplugin.regex.scanner import Scanner
from cdplugin.regex.tree import Node, choice, repetition, sequence
from cdplugin.regex.unicode import ECMA_LINE_ENDS, EVERYTHING, Ranges

DIALECTS = ("ecma", "rust", "python")
_FLAGS = {"ecma": "adgimsu", "rust": "imsUuxR", "python": "aimsux"}
_PLAIN = re.compile(r"[^\\^$.|?*+()\[\]{}]+")
_COUNT = re.compile(r"\{([0-9]*)(?:(,)([0-9]*))?\}")
_NAME = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")
_LOOK = re.compile(r"(<?)[=!]")
_BACK = re.compile(r"\\[1-9k]|\(\?P=")
_REFUSED_GROUPS = {">": "atomic group", "(": "conditional", "|": "branch reset"}


@dataclass
class _Group:
    """An open group: its position, the flags to restore after it, its kind, and its content so far."""

    start: int
    flags: frozenset[str]
    look: str = ""
    number: int = 0
    alternatives: list[Node] = field(default_factory=list)
    items: list[Node] = field(default_factory=list)

    def node(self) -> Node:
        return choice([*self.alternatives, sequence(self.items)])


def parse_tree(pattern: str, dialect: str, flags: str, limits: Limits) -> tuple[Node, int]:
    """The tree of a pattern, and its number of atoms and ranges. Raises ``GrammarError`` and subclasses, with the position."""
    if dialect not in DIALECTS:
        raise ValueError(f"unknown regex dialect: expected one of {', '.join(DIALECTS)}, found {dialect!r}")
    if not isinstance(pattern, str):
        raise TypeError(f"pattern: expected str, found {type(pattern).__name__}")
    unknown = [f for f in flags if f not in _FLAGS[dialect]]
    if unknown:
        raise ValueError(f"unknown flag for {dialect} patterns: expected some of {_FLAGS[dialect]!r}, found {unknown[0]!r}")
    if 4 * len(pattern) > limits.max_spec_bytes:
        check_length("the pattern", len(pattern.encode("utf-8", "surrogatepass")), limits)
    parser = _Parser(Scanner(pattern, dialect, frozenset(flags) - set("dguU"), limits))
    return parser.run(), parser.scanner.parts


def _parts_of(atom: Node | None) -> int:
    """What an atom costs: one part, or as many as a class has ranges."""
    return 1 if atom is None or atom.op != tree.CHARS else len(atom.args[0])


class _Parser:
    def __init__(self, scanner: Scanner) -> None:
        self.scanner = scanner
        self.dialect = scanner.dialect
        self.stack = [_Group(0, scanner.flags)]
        self.names: dict[str, int] = {}
        self.n_groups = 0
        self.awaited: list[tuple[int | str, int]] = []  # forward references: the group, and the position
        self.refers = self.dialect != "rust" and _BACK.search(scanner.source) is not None

    def run(self) -> Node:
        scanner = self.scanner
        while True:
            scanner.skip_verbose()
            if scanner.pos >= scanner.end:
                break
            read = scanner.parts
            atom, start = self._atom(), scanner.pos
            scanner.count(max(read + _parts_of(atom) - scanner.parts, 0))
            if atom is not None:
                self.stack[-1].items.append(self._quantified(atom, start) if scanner.pos < scanner.end else atom)
        if len(self.stack) > 1:
            scanner.fail("unclosed group", self.stack[-1].start, expected=")", found="the end of the pattern")
        for group, position in self.awaited:
            if group not in self.names and (isinstance(group, str) or group > self.n_groups):
                scanner.fail(f"back-reference to a group that is not there: {group}", position)
        root = self.stack[0].node()
        if not self.refers:
            return root
        from cdplugin.regex.references import without_references  # few patterns need it

        root, copies = without_references(root, scanner)
        scanner.parts += copies
        return root

    # --- atoms ----------------------------------------------------------------------------------------------------------

    def _atom(self) -> Node | None:
        """Read one atom; None if what was read is none (an opening parenthesis, ``|``, flags)."""
        scanner = self.scanner
        start = scanner.pos
        char = scanner.source[start]
        if char == "(":
            return self._open()
        if char == ")":
            return self._close()
        if char == "|":
            scanner.pos += 1
            group = self.stack[-1]
            group.alternatives.append(sequence(group.items))
            group.items = []
            return None
        if char == "[":
            return Node(tree.CHARS, (parse_class(scanner),))
        if char == "\\":
            found = scanner.escape(in_class=False)
            if found.char is not None:
                return self._literal(found.char, start)
            if found.ranges is not None:
                return Node(tree.CHARS, (found.ranges,))
            if found.group is not None:
                return self._reference(found.group, start)
            if found.anchor in ("boundary", "inside"):
                return Node(tree.WORD, (scanner.perl("w", start), found.anchor == "inside", start))
            return tree.AT_START if found.anchor == "start" else tree.AT_END
        if char in "^$":
            scanner.pos += 1
            if "m" in scanner.flags:
                scanner.refuse("line anchor (multi-line flag)", start)
            return tree.AT_START if char == "^" else tree.AT_END
        if char == ".":
            scanner.pos += 1
            return Node(tree.CHARS, (self._dot(start),))
        if char in "*+?" or (char == "{" and self._counted() is not None) or (char == "{" and self.dialect == "rust"):
            before = f"{scanner.source[start - 1]!r}" if start else "the start of the pattern"
            scanner.fail("nothing to repeat", start, expected=f"an atom before {char}", found=before)
        return self._plain()

    def _plain(self) -> Node:
        """Read the longest run of literal characters, leaving the last one to a quantifier after it."""
        scanner = self.scanner
        start = scanner.pos
        match = None if scanner.flags & {"i", "x"} else _PLAIN.match(scanner.source, start)
        if match is None or match.end() == start + 1:
            scanner.pos += 1
            return self._literal(ord(scanner.source[start]), start)
        end = match.end()
        if scanner.source[end : end + 1] in ("*", "+", "?", "{"):
            end -= 1
        text = scanner.source[start:end]
        scanner.pos = end
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError as error:
                scanner._surrogate(ord(text[error.start]), start + error.start)
        return Node(tree.TEXT, (text,))

    def _literal(self, code_point: int, start: int) -> Node:
        self.scanner._surrogate(code_point, start)
        if "i" in self.scanner.flags:
            folded = self.scanner.fold_char(code_point)
            if len(folded) > 1 or folded[0][0] != folded[0][1]:
                return Node(tree.CHARS, (folded,))
        return Node(tree.TEXT, (chr(code_point),))

    def _reference(self, group: int | str, start: int) -> Node:
        """A back-reference. A forward reference is the empty text in ECMA-262, and an error in Python."""
        number = self.names.get(group, 0) if isinstance(group, str) else group
        is_open = any(number and number == one.number for one in self.stack)
        if number and number <= self.n_groups and not (is_open and self.dialect == "python"):
            return Node(tree.BACK, (number, start, "i" in self.scanner.flags))
        if self.dialect == "python":
            self.scanner.fail("back-reference to a group that is open or not there", start, found=str(group))
        self.awaited.append((group, start))
        return tree.NOTHING

    def _dot(self, start: int) -> Ranges:
        flags = self.scanner.flags
        if self.dialect == "rust" and "a" in flags:
            self.scanner.refuse(". without Unicode, which would match invalid UTF-8", start)
        if "s" in flags:
            return EVERYTHING
        if self.dialect == "ecma":
            return negate_ranges(ECMA_LINE_ENDS)
        return negate_ranges(((10, 10), (13, 13)) if "R" in flags else ((10, 10),))

    # --- quantifiers ----------------------------------------------------------------------------------------------------

    def _counted(self) -> tuple[int, int | None, int] | None:
        """``{n}``, ``{n,}`` or ``{n,m}``: low, high and the position after it; None if the brace is literal."""
        scanner = self.scanner
        match = _COUNT.match(scanner.source, scanner.pos)
        if match is None or not (match[1] or (self.dialect == "python" and match[2])):
            return None
        low = self._number(match[1] or "0", match.start(1))
        high = low if not match[2] else self._number(match[3], match.start(3)) if match[3] else None
        if high is not None and high < low:
            scanner.fail("counts out of order", scanner.pos, expected="{low,high}", found=match[0])
        return low, high, match.end()

    def _number(self, digits: str, start: int) -> int:
        limit = self.scanner.limits.max_repeat
        significant = digits.lstrip("0") or "0"
        if len(significant) > 18 or int(significant) > limit:
            message = f"repetition count {significant[:20]}: expected {at_most(self.scanner.limits, 'max_repeat')}"
            self.scanner.exceed(message, start)
        return int(significant)

    def _quantifier(self) -> tuple[int, int | None] | None:
        """Read a quantifier and its lazy mark, if there is one."""
        scanner = self.scanner
        scanner.skip_verbose()
        char = scanner.peek()
        low: int
        high: int | None
        if char and char in "*+?":
            low, high = (1 if char == "+" else 0), (1 if char == "?" else None)
            scanner.pos += 1
        elif char == "{":
            counted = self._counted()
            if counted is None:
                if self.dialect == "rust":
                    scanner.fail("bad repetition", expected="{n}, {n,} or {n,m}")
                return None
            low, high, scanner.pos = counted
        else:
            return None
        scanner.take("?")
        return low, high

    def _quantified(self, atom: Node, after: int) -> Node:
        """``atom`` with the quantifiers after it (in Rust any number of them, else one)."""
        scanner = self.scanner
        at = scanner.pos
        found = self._quantifier()
        if found is None:
            return atom
        if self.dialect != "rust" and atom.op in (tree.START, tree.END, tree.WORD) and scanner.source[after - 1] != ")":
            scanner.fail("nothing to repeat", at, expected="an atom before the quantifier", found="an anchor")
        if self.dialect == "python" and atom.op in (tree.LOOK, tree.BEHIND):
            scanner.refuse("quantified look-around", at)
        count = 0
        while found is not None:
            count += 1
            if count > scanner.limits.max_spec_depth:
                scanner.exceed(f"quantifiers nested deeper than max_spec_depth ({scanner.limits.max_spec_depth})", at)
            atom = repetition(atom, *found)
            at = scanner.pos
            if self.dialect != "rust" and scanner.peek() == "+":
                scanner.refuse("possessive quantifier", at)
            found = self._quantifier()
            if found is not None and self.dialect != "rust":
                scanner.fail("nothing to repeat", at, expected="one quantifier", found=f"{scanner.source[at]!r} after it")
        return atom

    # --- groups ---------------------------------------------------------------------------------------------------------

    def _push(self, group: _Group) -> None:
        if len(self.stack) > self.scanner.limits.max_spec_depth:
            limit = self.scanner.limits.max_spec_depth
            self.scanner.exceed(f"groups nested deeper than max_spec_depth ({limit})", group.start)
        self.stack.append(group)

    def _close(self) -> Node:
        scanner = self.scanner
        if len(self.stack) == 1:
            scanner.fail("unmatched )", scanner.pos)
        scanner.pos += 1
        group = self.stack.pop()
        scanner.flags = group.flags
        node = group.node()
        if group.look:
            is_behind = group.look[0] == "<"
            if is_behind:
                self._check_behind(node, group)
            return Node(tree.BEHIND if is_behind else tree.LOOK, (node, group.look[-1] == "!", group.start))
        return Node(tree.GROUP, (node, group.number)) if group.number and self.refers else node

    def _check_behind(self, node: Node, group: _Group) -> None:
        """Check the dialect's rules for look-behinds (ECMA-262: never repeated; Python: of fixed width)."""
        scanner = self.scanner
        if self.refers:
            scanner.refuse("look-behind beside back-references", group.start)
        low, high = tree.width(node)
        if self.dialect == "python" and low != high:
            scanner.fail("look-behind of several widths", group.start, expected="texts of one length")
        char = scanner.peek()
        if char and self.dialect == "ecma" and (char in "*+?" or (char == "{" and self._counted() is not None)):
            scanner.fail("nothing to repeat", scanner.pos, expected=f"an atom before {char}", found="a look-behind")

    def _open(self) -> Node | None:
        """Read from an opening parenthesis: push a group, or return a reference; None if there is no atom."""
        scanner = self.scanner
        start = scanner.pos
        group = _Group(start, scanner.flags)
        scanner.pos += 1
        if self.dialect == "rust":
            scanner.skip_verbose()
        if not scanner.take("?"):
            if self.dialect == "python" and scanner.peek() == "*":
                scanner.fail("nothing to repeat", expected="an atom before *", found="'('")
            self._enter(group)
            self._push(group)
            return None
        if scanner.take(":"):
            self._push(group)
            return None
        for opening, name in _REFUSED_GROUPS.items():
            if scanner.source.startswith(opening, scanner.pos):
                scanner.refuse(name, start)
        look = _LOOK.match(scanner.source, scanner.pos)
        if look is not None:
            if self.dialect == "rust":
                scanner.refuse(
                    f"look-{'behind' if look[1] else 'ahead'} (not in Rust's syntax; in the dialects ecma and python)", start
                )
            group.look = look[0]
            scanner.pos = look.end()
            self._push(group)
            return None
        if self.dialect == "python" and scanner.take("#"):
            self._skip_comment(start)
            return None
        if self.dialect == "python" and scanner.source.startswith("P=", scanner.pos):
            return self._named_reference(start)
        name = self._named(start)
        if name:
            self._enter(group)
            if name in self.names and self.refers:
                scanner.refuse("back-references beside two groups of one name", start)
            self.names[name] = group.number
            self._push(group)
            return None
        return self._inline_flags(group)

    def _skip_comment(self, start: int) -> None:
        """Skip Python's ``(?# … )``."""
        close = self.scanner.source.find(")", self.scanner.pos)
        if close < 0:
            self.scanner.fail("unclosed comment", start, expected=")", found="the end of the pattern")
        self.scanner.pos = close + 1

    def _named_reference(self, start: int) -> Node:
        """Python's ``(?P=name)``."""
        scanner = self.scanner
        match = _NAME.match(scanner.source, scanner.pos + 2)
        if match is None or scanner.source[match.end() : match.end() + 1] != ")":
            scanner.fail("bad back-reference", start, expected="(?P=name)")
        scanner.pos = match.end() + 1
        return self._reference(match[0], start)

    def _enter(self, group: _Group) -> None:
        self.n_groups += 1
        group.number = self.n_groups

    def _named(self, start: int) -> str:
        """Read ``<name>`` or ``P<name>``, by the dialect (ECMA-262 itself has only the first); ``""`` if there is none."""
        scanner = self.scanner
        if scanner.peek() == "P" and (self.dialect != "ecma" or scanner.peek(1) == "<"):
            if scanner.peek(1) != "<":
                scanner.fail("bad group", start, expected="(?P<name>", found=scanner.source[start : start + 4])
            scanner.pos += 2
        elif self.dialect != "python" and scanner.peek() == "<":
            scanner.pos += 1
        else:
            return ""
        at = scanner.pos
        match = _NAME.match(scanner.source, at)
        if match is None or scanner.source[match.end() : match.end() + 1] != ">":
            scanner.fail("bad group name", at, expected="name>")
        if match[0] in self.names and self.dialect != "ecma":
            scanner.fail("group name used twice", at, found=match[0])
        scanner.pos = match.end() + 1
        return match[0]

    def _inline_flags(self, group: _Group) -> Node | None:
        """``(?i)``, ``(?i-s:…)``. The bare form may stand anywhere in Rust, elsewhere only at the start. ECMA-262 (2025) lacks
        it, but pydantic writes Rust patterns into JSON Schema.
        """
        scanner = self.scanner
        known = {"ecma": "ims", "rust": "imsUuxR", "python": "aimsuxL"}[self.dialect]
        flags, negative, any_read, at = set(scanner.flags), False, False, scanner.pos
        while scanner.peek() not in (")", ":", ""):
            letter = scanner.peek()
            if letter == "-" and not negative:
                negative = True
            elif letter not in known:
                scanner.fail("bad group", expected=f"(?: or one of the flags {known!r}")
            else:
                any_read = True
                self._apply(flags, letter, negative)
            scanner.pos += 1
        if scanner.pos >= scanner.end:
            scanner.fail("unclosed group", group.start, expected=")", found="the end of the pattern")
        if not any_read:
            scanner.fail("bad group", at, expected="flags")
        if scanner.take(":"):
            scanner.flags = frozenset(flags)
            self._push(group)
            return None
        if self.dialect == "ecma" and group.start != 0:
            scanner.fail("flags without a group (not ECMA-262)", group.start, expected="(?flags:…)", found="(?flags)")
        if self.dialect == "python" and (negative or group.start != 0):
            scanner.fail("flags not at the start of the pattern", group.start, expected="(?flags:…)", found="(?flags)")
        scanner.pos += 1
        scanner.flags = frozenset(flags)
        return None

    def _apply(self, flags: set[str], letter: str, negative: bool) -> None:
        """Set or clear one flag. ``u`` clears ``a``; ``U`` (swap greed) and Python's ``u`` do not change the language."""
        if letter == "L":
            self.scanner.refuse("locale flag", self.scanner.pos)
        if letter == "u":
            letter, negative = "a", not negative
        if letter != "U":
            (flags.discard if negative else flags.add)(letter)
