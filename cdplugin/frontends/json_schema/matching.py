"""Does a byte string match an expression? For fixed values at compile time; generating text is the kernels' work.

Brzozowski derivatives (1964) over interned nodes, memoised per pattern, so that 10,000 enumerated values against one pattern
cost a table look-up per byte.
"""

from __future__ import annotations

import re
from functools import cached_property

from cdplugin import expr
from cdplugin.errors import LimitExceeded
from cdplugin.expr import ALL_BYTES, EMPTY, EPSILON, Expr, alt, both, cat, complement, literals, nbytes_of, nullable, repeat
from cdplugin.frontends.json_schema.strings import Format, pattern_text, sizes
from cdplugin.memory import Account, ByteLru, bounded_cache, short_key
from cdplugin.regex import pattern as regex
from cdplugin.regex.alphabet import UTF8

_MAX_STATES = 50_000
_STATE_BYTES, _STEP_BYTES = 700, 250  # measured: a node with its place among the interned ones, a step with its place
_SEARCH = 6_000
"""Derivatives taken to tell two patterns apart, those of parts included."""
_PLACES = 4
"""Places looked at for each of them, where texts are listed."""


class Matcher:
    """A lazily built automaton of an expression, and of others that it goes on with (:meth:`begin`)."""

    def __init__(self, expression: Expr) -> None:
        self._interned: dict[tuple, Expr] = {}
        self._steps: dict[tuple[int, int], Expr] = {}
        self._heads: dict[int, frozenset[int]] = {}
        self._nullable: dict[Expr, bool] = {}
        self._keep: list[Expr] = [expression]
        self._start = expression
        self.taken = 0
        self.account = Account()

    @property
    def n_states(self) -> int:
        """How many nodes are kept."""
        return len(self._keep) + len(self._nullable)

    def begin(self, expression: Expr) -> None:
        """Be the automaton of another expression from now on. What is known of the parts that both have stays."""
        self._start = expression
        self._keep.append(expression)

    @property
    def nbytes(self) -> int:
        """Bytes of the automaton so far."""
        return self._given + _STATE_BYTES * self.n_states + _STEP_BYTES * (len(self._steps) + len(self._nullable))

    @cached_property
    def _given(self) -> int:
        return nbytes_of([self._start])

    def matches(self, data: bytes) -> bool:
        """Whether the whole of ``data`` matches."""
        state, steps = self._start, self._steps
        try:
            for byte in data:
                known = steps.get((id(state), byte))
                state = self._derive(state, byte) if known is None else known
                if state is EMPTY:
                    return False
            return self._accepts(state)
        except RecursionError:
            raise LimitExceeded("pattern too deeply nested to match enumerated values against") from None

    def matches_nothing(self, fuel: int) -> tuple[bool, int]:
        """Whether no text matches, found with about ``fuel`` derivatives at most; and how many were taken."""
        self.taken = 0
        seen = {id(self._start)}
        stack = [self._start]
        while stack:
            state = stack.pop()
            if self._accepts(state):
                return False, self.taken
            for byte_class in self._classes(state):
                if self.taken > fuel:
                    return False, self.taken
                following = self._derive(state, _lowest(byte_class))
                if following is not EMPTY and id(following) not in seen:
                    seen.add(id(following))
                    self._keep.append(following)
                    stack.append(following)
        return True, self.taken

    def texts(self, most: int, fuel: int, live: set[int] | None = None) -> tuple[list[bytes] | None, int]:
        """All texts that match, if these are found to be at most ``most`` with about ``fuel`` derivatives and few more places
        than that, else None; and how many derivatives were taken. Ways that end nowhere share their derivatives, and are left
        out where ``live`` has the states that lead to an end.
        """
        self.taken = 0
        out: list[bytes] = []
        stack = [(self._start, b"")]
        classes: dict[int, list[int]] = {}  # what has derivatives is kept: a place has a number of its own
        visits = 0
        while stack:
            state, text = stack.pop()
            visits += 1
            if self._accepts(state):
                out.append(text)
            following_classes = classes.get(id(state))
            if following_classes is None:
                following_classes = sorted(self._classes(state), key=int.bit_count, reverse=True)  # too many are soon found
                classes[id(state)] = following_classes
            for byte_class in following_classes:
                following = self._derive(state, _lowest(byte_class))
                if following is not EMPTY and (live is None or id(following) in live):
                    if len(out) + len(stack) + byte_class.bit_count() > most or self.taken > fuel or visits > _PLACES * fuel:
                        return None, self.taken
                    self._keep.append(following)
                    stack += [(following, text + bytes((byte,))) for byte in range(256) if byte_class >> byte & 1]
        return out, self.taken

    def live_states(self, fuel: int) -> set[int] | None:
        """The numbers of the states from which some text ends, if all are found with about ``fuel`` derivatives, else None."""
        self.taken = 0
        before: dict[int, list[int]] = {id(self._start): []}
        stack = [self._start]
        live: list[int] = []
        while stack:
            state = stack.pop()
            if self._accepts(state):
                live.append(id(state))
            for byte_class in self._classes(state):
                following = self._derive(state, _lowest(byte_class))
                if self.taken > fuel:
                    return None
                if following is not EMPTY:
                    if id(following) not in before:
                        self._keep.append(following)
                        stack.append(following)
                    before.setdefault(id(following), []).append(id(state))
        found = set(live)
        for number in live:  # grows
            fresh = [other for other in before[number] if other not in found]
            found.update(fresh)
            live += fresh
        return found

    def _intern(self, node: Expr) -> Expr:
        args = tuple([id(a) if isinstance(a, Expr) else a for a in node.args])
        key = (node.op, frozenset(args) if node.op in (expr.ALT_OP, expr.AND_OP) else args)
        found = self._interned.setdefault(key, node)
        if found is node:
            self._keep.append(node)
            if self.n_states > _MAX_STATES:
                raise LimitExceeded("pattern too complex to match enumerated values against")
        return found

    def _accepts(self, node: Expr) -> bool:
        found = self._nullable.get(node)
        return nullable(node, self._nullable) if found is None else found

    def _derive(self, node: Expr, byte: int) -> Expr:
        if node.op == expr.BYTES_OP:
            return EPSILON if node.args[0] >> byte & 1 else EMPTY
        found = self._steps.get((id(node), byte))
        if found is None:
            self.taken += 1
            found = self._steps[id(node), byte] = self._derivative(node, byte)
        return found

    def _derivative(self, node: Expr, byte: int) -> Expr:
        op, args = node.op, node.args
        if op == expr.LITERALS_OP:
            result = literals(a[1:] for a in args if a and a[0] == byte)
        elif op == expr.CAT_OP:
            parts = []
            for i, part in enumerate(args):
                parts.append(self._intern(cat(self._derive(part, byte), *args[i + 1 :])))
                if not self._accepts(part):
                    break
            result = self._union(parts)
        elif op == expr.ALT_OP:
            result = self._union([self._derive(a, byte) for a in args])
        elif op == expr.AND_OP:
            result = both(*(self._derive(a, byte) for a in args))
        elif op == expr.NOT_OP:
            result = complement(self._derive(args[0], byte))
        elif op == expr.REPEAT_OP:
            part, low, high = args
            rest = repeat(part, max(low - 1, 0), None if high is None else high - 1)
            result = cat(self._derive(part, byte), self._intern(rest))
        else:
            return EMPTY
        return result if result is EMPTY or result is EPSILON else self._intern(result)

    def _classes(self, expression: Expr) -> list[int]:
        """Classes of bytes, as bit sets, by which an expression has the same derivatives: its beginning tells."""
        classes = [ALL_BYTES]
        for mask in self._heads_of(expression):
            classes = [part for c in classes for part in (c & mask, c & ~mask) if part]
        return classes

    def _heads_of(self, node: Expr) -> frozenset[int]:
        """The sets of bytes with which an expression, or a part of it in front, begins."""
        found = self._heads.get(id(node))
        if found is None:
            if node.op == expr.BYTES_OP:
                found = frozenset(node.args)
            elif node.op == expr.LITERALS_OP:
                found = frozenset(1 << text[0] for text in node.args if text)
            else:
                parts = [part for part in node.args if isinstance(part, Expr)]
                if node.op == expr.CAT_OP:
                    parts = parts[: next((n for n, part in enumerate(parts, 1) if not self._accepts(part)), None)]
                found = frozenset().union(*map(self._heads_of, parts))
            self._heads[id(node)] = found
            self._keep.append(node)
        return found

    def _union(self, parts: list[Expr]) -> Expr:
        flat: list[Expr] = []
        for part in parts:
            flat += part.args if part.op == expr.ALT_OP else (part,)
        return alt(*flat)


def _lowest(byte_class: int) -> int:
    return (byte_class & -byte_class).bit_length() - 1


class Search:
    """What expressions match, as far as that is soon found. They share parts, whose derivatives are taken once."""

    def __init__(self) -> None:
        self._matcher: Matcher | None = None
        self._sizes: dict[Expr, tuple[int, int | None]] = {}

    def is_endless(self, expression: Expr) -> bool:
        """Whether no bound on the length of its matches is seen."""
        return sizes(expression, self._sizes)[1] is None

    def _automaton(self, expression: Expr) -> Matcher:
        if self._matcher is None or 2 * self._matcher.n_states > _MAX_STATES:
            self._matcher = Matcher(expression)
        else:
            self._matcher.begin(expression)
        return self._matcher

    def texts(self, expression: Expr, most: int, thorough: bool = False) -> tuple[list[bytes] | None, int]:
        """All texts that an expression matches, if they are at most ``most`` and soon found; and the derivatives that took.
        ``thorough``: also where many ways that begin such a text do not end.
        """
        matcher = self._automaton(expression)
        try:
            live = matcher.live_states(_SEARCH) if thorough else None
            taken = matcher.taken
            if thorough and live is None:
                return None, taken
            found, more = matcher.texts(most, _SEARCH, live)
            return found, taken + more
        except (RecursionError, LimitExceeded):
            return None, _SEARCH

    def matches_nothing(self, expression: Expr) -> tuple[bool, int]:
        """Whether it is soon found that an expression matches no text; and the derivatives that took."""
        try:
            return self._automaton(expression).matches_nothing(_SEARCH)
        except (RecursionError, LimitExceeded):
            return False, _SEARCH


def _head(expression: Expr) -> bytes:
    """Bytes with which all texts of an expression begin, as far as that is plain."""
    head = b""
    pending = [expression]
    while pending:
        node = pending.pop()
        if node.op == expr.CAT_OP:
            pending += reversed(node.args)
        elif node.op == expr.LITERALS_OP and len(node.args) == 1:
            head += node.args[0]
        elif node.op == expr.BYTES_OP and node.args[0].bit_count() == 1:
            head += bytes((_lowest(node.args[0]),))
        else:
            break
    return head


def _is_open(expression: Expr, side: int) -> bool:
    """Whether texts of an expression certainly stay such texts with any text before them (``side`` 0) or behind them (-1)."""
    branches = expression.args if expression.op == expr.ALT_OP else (expression,)
    edges = [branch.args[side] for branch in branches if branch.op == expr.CAT_OP]
    return any(edge.op == expr.REPEAT_OP and edge.args == (UTF8.any_char, 0, None) for edge in edges)


def share_no_text(first: str, second: str) -> tuple[bool, int]:
    """Whether it is soon found that the patterns match no text in common; and the derivatives that took."""
    return _share_no_text(*sorted((first, second)))


@bounded_cache
def _share_no_text(first: str, second: str) -> tuple[bool, int]:
    parts = [pattern_text(pattern, UTF8) for pattern in (first, second)]
    # a match of the one behind a match of the other: what most patterns are, words to be found somewhere
    if EMPTY not in parts and any(_is_open(parts[i], -1) and _is_open(parts[1 - i], 0) for i in (0, 1)):
        return False, 1
    heads = [_head(part) for part in parts]
    n = min(map(len, heads))
    if heads[0][:n] != heads[1][:n]:
        return True, n
    return Search().matches_nothing(both(*parts))


_matchers: ByteLru[Matcher] = ByteLru("patterns matched against values", 32 << 20)


def finds(wanted: str | Format, text: str) -> bool:
    """Whether ``text`` has a format, or a match of a pattern (ECMA-262, unanchored); matchers are kept, and have grown then."""
    key = short_key(wanted)
    matcher = _matchers.get(key)
    if matcher is None:
        if isinstance(wanted, str):
            matcher = Matcher(regex.parse(wanted, "ecma", "u").search_expr(UTF8))
        else:
            matcher = Matcher(wanted.text(UTF8))
        _, serial = _matchers.put(key, matcher, matcher.nbytes)
        matcher.account.keep_in(_matchers, key, serial)
    taken = matcher.taken
    try:
        return matcher.matches(text.encode("utf-8", "surrogatepass"))
    finally:
        if matcher.taken != taken:
            matcher.account.note("states", matcher.nbytes)


def has_format(form: Format, text: str) -> bool | None:
    """Whether ``text`` has the format; None where the expression leaves out valid text that might be like this one."""
    if finds(form, text):
        return True
    if form.portable and finds(form._replace(portable=False), text):
        return None
    return None if _may_be_left_out(form.name, text) else False


_NEVER_IN_LABELS = re.compile(r"[\x00-,/:-@\[-`{-\x7f]")
"""ASCII beside letters, digits, hyphens and dots (RFC 5891, section 4.2.2: no A-label has them)."""


def _may_be_left_out(name: str, text: str) -> bool:
    """Whether a text that does not match may be valid all the same: see the list in ``formats``."""
    if name in ("email", "idn-email") and "@" not in text:
        return False
    if name == "idn-hostname":
        return text != "" and not _NEVER_IN_LABELS.search(text)
    if name in ("regex", "idn-email") or "base" in name:
        return True
    if name == "hostname":
        return "--" in text
    if name == "email":
        return "[" in text or len(text) - text.rfind("@") > 189
    if name == "uri-template":
        return "{" in text
    return "0+" in text or "0-" in text if name == "relative-json-pointer" else len(text) > 100
