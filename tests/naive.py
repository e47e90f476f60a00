"""Brute-force reference for the engine: slow, short, and sharing nothing with the kernels.

It matches lexemes by Brzozowski derivatives (J. ACM 11(4), 1964) on plain tuples. Its parser is Earley's textbook chart
(CACM 13(2), 1970) with explicit positions over bytes, where a terminal spans ``[i, j)`` for every ``j`` at which its lexeme
matches (exact lexing: a lexeme may end and may go on). It prunes, shares and memoises nothing across positions.

>>> from cdplugin import expr
>>> from cdplugin.ir import GrammarIR
>>> ir = GrammarIR()
>>> ir.start = ir.nonterminal("list")
>>> ir.rule(ir.start, [ir.lexeme(expr.literal(b"x")), ir.start])
>>> ir.rule(ir.start, [])
>>> naive = Naive(ir)
>>> naive.accepts(b"xx"), naive.viable(b"xy"), sorted(naive.allowed_tokens(b"x", [b"x", b"xx", b"y", None]))
(True, False, [0, 1])
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from cdplugin import expr
from cdplugin.expr import Expr
from cdplugin.ir import GrammarIR, Member, Part

# ---------------------------------------------------------------------------------------------------------------- lexemes


class Derivatives:
    """Expressions as interned tuples, each with a number; children are given by their numbers. The tables only save time.

    ``spellable``: the bytes that occur in some token; ``None`` means all 256.
    """

    def __init__(self, spellable: Iterable[int] | None = None) -> None:
        self.nodes: list[tuple] = []
        self.numbers: dict[tuple, int] = {}
        self.spellable = None if spellable is None else frozenset(spellable)
        self.empty = self.number(("empty",))
        self.epsilon = self.number(("epsilon",))
        self.nullable_memo: dict[int, bool] = {}
        self.alive_memo: dict[int, bool] = {self.empty: False, self.epsilon: True}
        self.derived: dict[tuple[int, int], int] = {}
        # masks of bytes that no leaf tells apart: these have equal derivatives
        self.kinds = [sum(1 << byte for byte in (range(256) if self.spellable is None else self.spellable))]

    def number(self, node: tuple) -> int:
        if node not in self.numbers:
            self.numbers[node] = len(self.nodes)
            self.nodes.append(node)
        return self.numbers[node]

    # Smart constructors: just enough algebra (associative, commutative, idempotent) for derivatives to be finitely many.

    def cat(self, parts: Sequence[int]) -> int:
        flat: list[int] = []
        for part in parts:
            flat.extend(self.nodes[part][1] if self.nodes[part][0] == "cat" else [part])
        if self.empty in flat:
            return self.empty
        flat = [part for part in flat if part != self.epsilon]
        if len(flat) < 2:
            return flat[0] if flat else self.epsilon
        return self.number(("cat", tuple(flat)))

    def alt(self, parts: Iterable[int]) -> int:
        flat: set[int] = set()
        for part in parts:
            flat |= self.nodes[part][1] if self.nodes[part][0] == "alt" else {part}
        flat -= {self.empty}
        if len(flat) < 2:
            return flat.pop() if flat else self.empty
        return self.number(("alt", frozenset(flat)))

    def both(self, parts: Iterable[int]) -> int:
        flat: set[int] = set()
        for part in parts:
            flat |= self.nodes[part][1] if self.nodes[part][0] == "and" else {part}
        if self.empty in flat:
            return self.empty
        return flat.pop() if len(flat) == 1 else self.number(("and", frozenset(flat)))

    def literals(self, words: frozenset[bytes]) -> int:
        if not words:
            return self.empty
        return self.epsilon if words == {b""} else self.number(("literals", words))

    def repeat(self, child: int, low: int, high: int | None) -> int:
        if high == 0:
            return self.epsilon
        return child if (low, high) == (1, 1) else self.number(("repeat", child, low, high))

    def convert(self, e: Expr, done: dict[int, int] | None = None) -> int:
        """The number of ``e``. It recurses: expressions of test grammars are shallow."""
        done = {} if done is None else done
        if id(e) in done:
            return done[id(e)]
        if e.op == expr.EMPTY_OP:
            out = self.empty
        elif e.op == expr.EPSILON_OP:
            out = self.epsilon
        elif e.op == expr.BYTES_OP:
            self.tell_apart(e.args[0])
            out = self.number(("bytes", e.args[0])) if e.args[0] else self.empty
        elif e.op == expr.LITERALS_OP:
            for byte in {byte for word in e.args for byte in word}:
                self.tell_apart(1 << byte)
            out = self.literals(frozenset(e.args))
        elif e.op == expr.CAT_OP:
            out = self.cat([self.convert(a, done) for a in e.args])
        elif e.op == expr.ALT_OP:
            out = self.alt([self.convert(a, done) for a in e.args])
        elif e.op == expr.AND_OP:
            out = self.both([self.convert(a, done) for a in e.args])
        elif e.op == expr.NOT_OP:
            out = self.number(("not", self.convert(e.args[0], done)))
        else:
            child, low, high = e.args
            out = self.repeat(self.convert(child, done), low, high)
        done[id(e)] = out
        return out

    def nullable(self, n: int) -> bool:
        """Whether ``n`` matches the empty string."""
        if n not in self.nullable_memo:
            self.nullable_memo[n] = self._nullable(n)
        return self.nullable_memo[n]

    def _nullable(self, n: int) -> bool:
        op, *args = self.nodes[n]
        if op == "literals":
            return b"" in args[0]
        if op in ("cat", "and"):
            return all(self.nullable(a) for a in args[0])
        if op == "alt":
            return any(self.nullable(a) for a in args[0])
        if op == "not":
            return not self.nullable(args[0])
        if op == "repeat":
            return args[1] == 0 or self.nullable(args[0])
        return op == "epsilon"

    def step(self, n: int, byte: int) -> int:
        """The number of what may follow ``byte`` in a match of ``n``. Bytes that no token has lead nowhere."""
        if self.spellable is not None and byte not in self.spellable:
            return self.empty
        return self.derive(n, byte)

    def derive(self, n: int, byte: int) -> int:
        if (n, byte) not in self.derived:
            self.derived[n, byte] = self._derive(n, byte)
        return self.derived[n, byte]

    def _derive(self, n: int, byte: int) -> int:
        op, *args = self.nodes[n]
        if op == "bytes":
            return self.epsilon if args[0] >> byte & 1 else self.empty
        if op == "literals":
            return self.literals(frozenset(w[1:] for w in args[0] if w and w[0] == byte))
        if op == "cat":
            head, tail = args[0][0], self.cat(args[0][1:])
            out = self.cat([self.derive(head, byte), tail])
            return self.alt([out, self.derive(tail, byte)]) if self.nullable(head) else out
        if op == "alt":
            return self.alt([self.derive(a, byte) for a in args[0]])
        if op == "and":
            return self.both([self.derive(a, byte) for a in args[0]])
        if op == "not":
            return self.number(("not", self.derive(args[0], byte)))
        if op == "repeat":
            child, low, high = args
            rest = self.repeat(child, max(low - 1, 0), None if high is None else high - 1)
            return self.cat([self.derive(child, byte), rest])
        return self.empty

    def tell_apart(self, mask: int) -> None:
        """Note a leaf: its bytes differ from all others in what they lead to."""
        self.kinds = [part for kind in self.kinds for part in (kind & mask, kind & ~mask) if part]

    def alive(self, n: int) -> bool:
        """Whether the language of ``n`` is nonempty."""
        if n not in self.alive_memo:
            op, *args = self.nodes[n]
            if op == "cat":
                self.alive_memo[n] = all(self.alive(a) for a in args[0])
            elif op == "alt":
                self.alive_memo[n] = any(self.alive(a) for a in args[0])
            elif op == "repeat":
                self.alive_memo[n] = args[1] == 0 or self.alive(args[0])
            else:
                self._search(n)
        return self.alive_memo[n]

    def _search(self, n: int) -> None:
        """Note whether ``n`` is alive: explore its derivatives until one matches the empty string."""
        samples = sorted((kind & -kind).bit_length() - 1 for kind in self.kinds)
        seen, agenda = {n}, [n]
        found = False
        while agenda and not found:
            node = agenda.pop()
            if self.alive_memo.get(node) or self.nullable(node):
                found = True
            elif node not in self.alive_memo:
                new = {self.step(node, byte) for byte in samples} - seen
                seen |= new
                agenda.extend(sorted(new, reverse=True))
        if found:
            self.alive_memo[n] = True
        else:
            self.alive_memo.update(dict.fromkeys(seen, False))


# ----------------------------------------------------------------------------------------------------------------- parser


class Column:
    """Everything that is known at one position of the text.

    ``items``: ``(rule, dot, origin)``. ``expecting``: the same items by the symbol after the dot. ``running``: lexemes in
    progress, as ``(lexeme, where it began, what is left to match)``.
    """

    def __init__(self) -> None:
        self.items: set[tuple[int, int, int]] = set()
        self.expecting: dict[int, set[tuple[int, int, int]]] = {}
        self.running: set[tuple[int, int, int]] = set()
        self.accepting = False


class Naive:
    """Recogniser for the language of an IR; the module's docstring says how it works.

    ``spellable``: the bytes that occur in some token; a lexeme that needs others is dead. ``None`` means all bytes.
    """

    def __init__(self, ir: GrammarIR, spellable: Iterable[int] | None = None) -> None:
        self.lexer = Derivatives(spellable)
        self.lexemes = [self.lexer.convert(e) for e in ir.lexemes]
        self.start = ir.start
        self.ir = ir
        self.good: set[int] = set()
        self.rules = self._useful(ir)
        self.by_left: dict[int, list[int]] = {}
        for number, (left, _) in enumerate(self.rules):
            self.by_left.setdefault(left, []).append(number)
        self.text = b""
        self.chart = [self._first()]

    @property
    def empty(self) -> bool:
        """Whether the language has no word at all."""
        return self.start not in self.good

    def _useful(self, ir: GrammarIR) -> list[tuple[int, tuple[int, ...]]]:
        """The rules in which every symbol derives some word."""
        good = {~t for t, lexeme in enumerate(self.lexemes) if self.lexer.alive(lexeme)}
        while True:
            more = {left for left, right in ir.rules if good.issuperset(right)} - good
            for symbol, (family, value) in ir.instances.items():
                if symbol not in good and family.satisfiable(value, good.__contains__):
                    more.add(symbol)
            if not more:
                self.good = good
                return [rule for rule in ir.rules if good.issuperset(rule[1])]
            good |= more

    def _symbol(self, part: Part) -> int:
        """A part of a member's rule, as a symbol."""
        if isinstance(part, Member):
            return self.ir.instance(part.family, part.value)
        assert isinstance(part, int), "rules that depend on texts are not for brute force"
        return part

    def _rules_of(self, symbol: int) -> Iterable[int]:
        """The rules of a nonterminal. Those of a family's member are made at the first call."""
        known = self.by_left.get(symbol)
        if known is None:
            known = self.by_left[symbol] = []
            if symbol in self.ir.instances:
                family, value = self.ir.instances[symbol]
                for right in family.expand(value, self.good.__contains__):
                    known.append(len(self.rules))
                    self.rules.append((symbol, tuple(self._symbol(part) for part in right)))
        return known

    def _first(self) -> Column:
        column = Column()
        self._close([column], [(rule, 0, 0) for rule in self._rules_of(self.start)])
        return column

    def _close(self, chart: list[Column], agenda: list[tuple[int, int, int]]) -> None:
        """Predict and complete in the last column until nothing is new."""
        here, column = len(chart) - 1, chart[-1]
        completed_here: set[int] = set()  # symbols that derive the empty string at this very position
        while agenda:
            item = agenda.pop()
            if item in column.items:
                continue
            column.items.add(item)
            rule, dot, origin = item
            left, right = self.rules[rule]
            if dot == len(right):
                if origin == here:
                    completed_here.add(left)
                if left == self.start and origin == 0:
                    column.accepting = True
                agenda.extend((r, d + 1, o) for r, d, o in chart[origin].expecting.get(left, ()))
                continue
            symbol = right[dot]
            column.expecting.setdefault(symbol, set()).add(item)
            if symbol >= 0:
                agenda.extend((predicted, 0, here) for predicted in self._rules_of(symbol))
            else:
                column.running.add((symbol, here, self.lexemes[~symbol]))
                if self.lexer.nullable(self.lexemes[~symbol]):
                    completed_here.add(symbol)
            if symbol in completed_here:
                agenda.append((rule, dot + 1, origin))

    def _extend(self, chart: list[Column], byte: int) -> Column | None:
        """The column after one more byte, or None if no word goes on with it. Does not change ``chart``."""
        column = Column()
        agenda: list[tuple[int, int, int]] = []
        for symbol, origin, residual in chart[-1].running:
            rest = self.lexer.step(residual, byte)
            if self.lexer.alive(rest):
                column.running.add((symbol, origin, rest))
                if self.lexer.nullable(rest):
                    agenda.extend((r, d + 1, o) for r, d, o in chart[origin].expecting[symbol])
        if not column.running:
            return None
        self._close([*chart, column], agenda)
        return column

    def _read(self, data: bytes) -> bool:
        """Bring the chart to ``data``. False if ``data`` is not a prefix of any word."""
        common = 0
        while common < min(len(data), len(self.text)) and data[common] == self.text[common]:
            common += 1
        del self.chart[common + 1 :]
        self.text = data[:common]
        for byte in data[common:]:
            column = self._extend(self.chart, byte)
            if column is None:
                return False
            self.chart.append(column)
            self.text += bytes([byte])
        return not self.empty

    def accepts(self, data: bytes) -> bool:
        """Whether ``data`` is a word."""
        return self._read(data) and self.chart[-1].accepting

    def viable(self, prefix: bytes) -> bool:
        """Whether ``prefix`` is the beginning of a word."""
        return self._read(prefix)

    def allowed_tokens(self, prefix: bytes, tokens: Sequence[bytes | None]) -> set[int]:
        """The tokens after which ``prefix`` is still the beginning of a word. ``None`` and empty tokens are never allowed.

        The caller handles end tokens: they are allowed exactly when :meth:`accepts`.
        """
        if not self._read(prefix):
            return set()
        out: set[int] = set()
        order = sorted((token, number) for number, token in enumerate(tokens) if token)
        chart, text = list(self.chart), b""
        base = len(chart)
        for token, number in order:
            common = 0
            while common < min(len(token), len(text)) and token[common] == text[common]:
                common += 1
            if common < len(text) or len(chart) == base + len(text):  # else: the last byte of `text` was refused
                del chart[base + common :]
                text = token[:common]
                for byte in token[common:]:
                    column = self._extend(chart, byte)
                    text += bytes([byte])
                    if column is None:
                        break
                    chart.append(column)
            if len(chart) == base + len(token) and text == token:
                out.add(number)
        return out


# --------------------------------------------------------------------------------------------------------- random grammars


def random_expr(rng: random.Random, alphabet: bytes = b"xy", depth: int = 2, boolean: bool = True) -> Expr:
    """A small expression over ``alphabet``. ``boolean``: it may have ``&`` and ``~`` too."""
    if depth == 0 or rng.random() < 0.25:
        leaf = rng.random()
        if leaf < 0.5:
            return expr.literal(bytes(rng.choice(alphabet) for _ in range(rng.choice([1, 1, 2]))))
        if leaf < 0.75:
            return expr.byte_class(bytes(rng.sample(list(alphabet), rng.randint(1, len(alphabet)))))
        return expr.literals(bytes(rng.choice(alphabet) for _ in range(rng.randint(0, 2))) for _ in range(rng.randint(1, 3)))
    kind = rng.choice(["cat", "alt", "repeat", "repeat"] + (["both", "complement", "minus"] if boolean else []))
    part = random_expr(rng, alphabet, depth - 1, boolean)
    if kind == "repeat":
        low = rng.choice([0, 0, 1, 2])
        return expr.repeat(part, low, rng.choice([None, low, low + 1, low + 2]))
    if kind == "complement":
        return expr.complement(part)
    other = random_expr(rng, alphabet, depth - 1, boolean)
    if kind == "minus":
        return expr.both(part, expr.complement(other))
    return {"cat": expr.cat, "alt": expr.alt, "both": expr.both}[kind](part, other)


def random_grammar(rng: random.Random, alphabet: bytes = b"xy", *, boolean: bool = True, nullable: bool = True) -> GrammarIR:
    """Up to five nonterminals over up to five lexemes that overlap on purpose (one is a prefix of another).

    Half of the right-hand sides are chosen to be left-recursive, right-recursive, hidden left-recursive, cyclic or empty.
    The language may be empty (``Naive(ir).empty``), nonterminals may be useless, and lexemes may match nothing.
    ``boolean``: lexemes may have ``&`` and ``~`` too. ``nullable``: they may match the empty string.
    """
    ir = GrammarIR()
    a, b = alphabet[0], alphabet[-1]
    pool = [
        expr.literal(bytes([a])),
        expr.literal(bytes([a, a])),
        expr.literal(bytes([a, b])),
        expr.literal(bytes([b])),
        expr.repeat(expr.byte_class(bytes([a])), 1),
        expr.repeat(expr.byte_class(bytes([a, b])), 1, 2),
    ]
    if nullable:
        pool.append(expr.repeat(expr.byte_class(bytes([b]))))
    if boolean:
        pool.append(expr.both(expr.repeat(expr.byte_class(alphabet)), expr.complement(expr.literal(bytes([a, b])))))
        pool.append(expr.both(expr.literal(bytes([a])), expr.literal(bytes([b]))))  # matches nothing
    lexemes: list[int] = []
    for _ in range(rng.randint(1, 5)):
        e = rng.choice(pool) if rng.random() < 0.6 else random_expr(rng, alphabet, 2, boolean)
        if not nullable:
            e = expr.both(e, expr.complement(expr.EPSILON)) if boolean else e
        lexemes.append(ir.lexeme(e, f"L{len(lexemes)}"))
    names = [ir.nonterminal(name) for name in "SABCD"[: rng.randint(1, 5)]]
    ir.start = names[0]
    for left in names:
        if rng.random() < 0.5:  # else most grammars would derive nothing
            ir.rule(left, [rng.choice(lexemes) for _ in range(rng.randint(1, 2))])
        for _ in range(rng.randint(1, 3)):
            shape = rng.random()
            some = rng.choice(lexemes)
            if shape < 0.08:
                right = []
            elif shape < 0.16:
                right = [left, some]
            elif shape < 0.24:
                right = [some, left]
            elif shape < 0.32:
                right = [rng.choice(names), left, some]
            elif shape < 0.38:
                right = [rng.choice(names)]
            elif shape < 0.42:
                right = [left, left]
            else:
                right = [
                    rng.choice(names) if rng.random() < 0.45 else rng.choice(lexemes)
                    for _ in range(rng.choice([1, 1, 2, 2, 3]))
                ]
            ir.rule(left, right)
    return ir


def random_tokens(rng: random.Random, alphabet: bytes = b"xy", count: int = 24, longest: int = 5) -> list[bytes]:
    """All single bytes of ``alphabet`` and one byte outside it, then distinct random strings. Some may be prefixes of
    others.
    """
    other = next(byte for byte in b"zq~" if byte not in alphabet)
    tokens = [bytes([byte]) for byte in [*alphabet, other]]
    letters = [*alphabet, *alphabet, other]
    while len(tokens) < count:
        token = bytes(rng.choice(letters) for _ in range(rng.randint(2, longest)))
        if token not in tokens:
            tokens.append(token)
    rng.shuffle(tokens)
    return tokens
