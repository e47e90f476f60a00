"""Parse bracketed classes: flat ones (ECMA-262, Python), and Rust's nested ones with set operations.

ECMA-262 22.2.1 ClassRanges with Annex B (``[\\w-.]`` includes the hyphen). Rust regex syntax, "Character classes": ``&&``,
``--`` and ``~~`` have the same precedence, lower than union, and associate to the left; complement applies last.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cdplugin.expr import normalise_ranges
from cdplugin.regex.scanner import Scanner
from cdplugin.regex.unicode import POSIX, Ranges, difference, intersection, union

_OPERATORS = ("&&", "--", "~~")


def parse_class(scanner: Scanner) -> Ranges:
    """Read a class; the position is at its ``[``. The result is case-folded if the ``i`` flag is set."""
    return _rust_class(scanner) if scanner.dialect == "rust" else _flat_class(scanner)


def _atom(scanner: Scanner) -> int | Ranges:
    """One character, or the set of an escape."""
    char = scanner.source[scanner.pos]
    if char != "\\":
        scanner.pos += 1
        return ord(char)
    found = scanner.escape(in_class=True)
    if found.char is not None:
        return found.char
    assert found.ranges is not None
    return found.ranges


def _range(scanner: Scanner, low: int | Ranges, high: int | Ranges, start: int) -> list[tuple[int, int]]:
    """The range ``low-high``, whose ends have been read."""
    if isinstance(low, int) and isinstance(high, int):
        if low > high:
            shown = scanner.source[start : scanner.pos]
            scanner.fail("range out of order in a class", start, expected="low-high", found=shown)
        return [(low, high)]
    if scanner.dialect != "ecma":
        shown = scanner.source[start : scanner.pos]
        scanner.fail("class escape as the end of a range", start, expected="a character", found=shown)
    return [*_pairs(low), (45, 45), *_pairs(high)]  # Annex B.1.2: the hyphen is literal


def _pairs(atom: int | Ranges) -> list[tuple[int, int]]:
    return [(atom, atom)] if isinstance(atom, int) else list(atom)


def _flat_class(scanner: Scanner) -> Ranges:
    start = scanner.pos
    scanner.pos += 1
    negated = scanner.take("^")
    items: list[tuple[int, int]] = []
    sets: list[tuple[int, int]] = []  # of Python's escapes, which ignore case by themselves
    first = scanner.dialect == "python"  # there, a leading ] is literal
    while True:
        if scanner.pos >= scanner.end:
            scanner.fail("unclosed class", start, expected="]", found="the end of the pattern")
        if not first and scanner.take("]"):
            break
        first = False
        at = scanner.pos
        low = _atom(scanner)
        if scanner.peek() == "-" and scanner.peek(1) not in ("]", ""):
            scanner.pos += 1
            found = _range(scanner, low, _atom(scanner), at)
        else:
            found = _pairs(low)
        scanner.count(len(found))
        (items if isinstance(low, int) or scanner.dialect == "ecma" else sets).extend(found)
    return scanner.finish_class(items, normalise_ranges(items), negated, start, tuple(sets))


@dataclass
class _Open:
    """An open bracket of a Rust class."""

    start: int
    negated: bool
    items: list[tuple[int, int]] = field(default_factory=list)
    left: Ranges = ()
    operator: str = ""

    def value(self, scanner: Scanner) -> Ranges:
        right = normalise_ranges(self.items)
        if "i" in scanner.flags:
            right = scanner.fold(right)
        if self.operator:
            scanner.count(len(self.left) + len(right))
        if self.operator == "&&":
            return intersection(self.left, right)
        if self.operator == "--":
            return difference(self.left, right)
        if self.operator == "~~":
            return difference(union(self.left, right), intersection(self.left, right))
        return right


def _open(scanner: Scanner) -> _Open:
    """Read ``[`` or ``[^``, and a literal ``-`` and ``]`` right after it."""
    opened = _Open(scanner.pos, False)
    scanner.pos += 1
    scanner.skip_verbose()
    opened.negated = scanner.take("^")
    scanner.skip_verbose()
    while scanner.take("-"):
        opened.items.append((45, 45))
        scanner.skip_verbose()
    if not opened.items and scanner.take("]"):
        opened.items.append((93, 93))
    return opened


def _rust_class(scanner: Scanner) -> Ranges:
    stack = [_open(scanner)]
    while True:
        scanner.skip_verbose()
        top = stack[-1]
        if scanner.pos >= scanner.end:
            scanner.fail("unclosed class", top.start, expected="]", found="the end of the pattern")
        if scanner.take("]"):
            stack.pop()
            value = scanner.finish_class([], top.value(scanner), top.negated, top.start)
            if not stack:
                return value
            scanner.count(1 + len(value))
            stack[-1].items += value
        elif scanner.peek() == "[":
            if not _posix(scanner, top):
                if len(stack) >= scanner.limits.max_spec_depth:
                    scanner.exceed(f"classes nested deeper than max_spec_depth ({scanner.limits.max_spec_depth})", scanner.pos)
                stack.append(_open(scanner))
        elif scanner.source[scanner.pos : scanner.pos + 2] in _OPERATORS:
            top.left, top.operator = top.value(scanner), scanner.source[scanner.pos : scanner.pos + 2]
            top.items = []
            scanner.pos += 2
        else:
            _rust_item(scanner, top)


def _rust_item(scanner: Scanner, top: _Open) -> None:
    at = scanner.pos
    low = _atom(scanner)
    scanner.skip_verbose()
    found = _pairs(low)
    hyphen = scanner.pos
    if scanner.take("-"):
        scanner.skip_verbose()
        if scanner.peek() in ("]", "-", ""):
            scanner.pos = hyphen
        else:
            found = _range(scanner, low, _atom(scanner), at)
    scanner.count(len(found))
    top.items += found


def _posix(scanner: Scanner, top: _Open) -> bool:
    """Read ``[:name:]`` or ``[:^name:]``; False if there is none."""
    if not scanner.source.startswith("[:", scanner.pos):
        return False
    close = scanner.source.find(":]", scanner.pos + 2, scanner.pos + 20)
    name = scanner.source[scanner.pos + 2 : close] if close >= 0 else ""
    members = POSIX.get(name.removeprefix("^"))
    if members is None:
        return False
    if "i" in scanner.flags:
        members = scanner.fold(members)
    top.items += difference(((0, 0x10FFFF),), members) if name.startswith("^") else members
    scanner.pos = close + 2
    return True
