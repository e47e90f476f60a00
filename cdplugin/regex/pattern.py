r"""Regular expressions as byte expressions, with exact anchors.

>>> from cdplugin.regex.alphabet import UTF8
>>> parse("a+|b").match_expr(UTF8)
alt([b], repeat("a", 1, None))
>>> parse("^a$|^b").match_expr(UTF8)
alt("b", "a")

An anchor may stand anywhere. The words of a node are split four ways, by whether the match must begin at the start of the text,
and whether it must end at its end: :class:`Split`. Splits combine exactly: before a part that must be at the start, only the
empty word fits, and likewise after a part that must be at the end. A match of the whole text takes all four components; a
search adds any text before and after, where no anchor forbids it. Look-aheads and word boundaries become intersections with the
following text (:mod:`cdplugin.regex.lookahead`), look-behinds conditions on the preceding text
(:mod:`cdplugin.regex.lookbehind`); back-references are expanded (:mod:`cdplugin.regex.references`).

Nothing here recurses on the depth of the pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import groupby
from typing import NamedTuple

from cdplugin.expr import CAT_OP, EMPTY, EPSILON, REPEAT_OP, Expr, alt, both, cat, complement, literals, nullable, repeat
from cdplugin.limits import DEFAULT_LIMITS, Limits
from cdplugin.regex.alphabet import Alphabet
from cdplugin.regex.lookbehind import settled
from cdplugin.regex.scanner import error_at
from cdplugin.regex.syntax import parse_tree
from cdplugin.regex.tree import ALT, BOUND, CAT, CHARS, REPEAT, START, TEXT, Node, children_of
from cdplugin.tally import counting
from cdplugin.walks import fold, trie

IsNull = Callable[[Expr], bool]
"""Whether an expression matches the empty text."""


def parse(pattern: str, dialect: str = "ecma", flags: str = "", limits: Limits = DEFAULT_LIMITS) -> Pattern:
    """Parse ``pattern`` (``"ecma"``, ``"rust"`` or ``"python"`` syntax; see :mod:`cdplugin.regex.syntax`).

    Raises ``GrammarError`` for bad syntax, ``UnsupportedError`` for what is refused by name (atomic groups, back-references to
    groups with many texts, …), ``LimitExceeded``; each with ``position N`` (in code points, from 0) and a caret.
    """
    return Pattern(pattern, dialect, *parse_tree(pattern, dialect, flags, limits), limits)


class Pattern:
    """A parsed regular expression. Expressions are cached for each alphabet, so the same object is returned each time."""

    def __init__(self, source: str, dialect: str, tree: Node, parts: int, limits: Limits) -> None:
        self.source = source
        self.dialect = dialect
        self.tree = tree
        self.parts = parts
        self.limits = limits
        self._cache: dict[tuple[str, str], Expr] = {}
        self._splits: dict[str, Split] = {}

    def __repr__(self) -> str:
        return f"Pattern({self.source!r}, {self.dialect!r})"

    def match_expr(self, alphabet: Alphabet) -> Expr:
        """The texts that the pattern matches from end to end (``re.fullmatch``), spelled in ``alphabet``.

        The result may be ``EMPTY`` (``a^b``), or, with look-aheads, an expression with ``&`` and ``~`` that matches nothing.
        """
        return self._cached("match", alphabet)

    def search_expr(self, alphabet: Alphabet) -> Expr:
        """The texts that contain a match (``re.search``; ``pattern`` of JSON Schema), spelled in ``alphabet``."""
        return self._cached("search", alphabet)

    def refuse_looks(self) -> None:
        """Raise ``UnsupportedError`` for a look-around or word boundary: for callers that put other text beside the match."""
        if self.tree.looks:
            from cdplugin.regex.lookahead import position_of

            raise error_at(self.source, position_of(self.tree), "not supported here: word boundary or look-around")

    def _cached(self, how: str, alphabet: Alphabet) -> Expr:
        key = (how, alphabet.name)
        found = self._cache.get(key)
        if found is None:
            with counting(self.limits.max_expr_nodes) as tally:
                tally.add(self.parts)
                found = self._cache[key] = self._expr(how, alphabet)
        return found

    def _expr(self, how: str, alphabet: Alphabet) -> Expr:
        is_search = how == "search"
        tree = settled(self.tree, self.source, is_search) if self.tree.looks else self.tree
        if tree.looks:
            from cdplugin.regex.lookahead import LookAhead  # imports this module

            return LookAhead(self.source, alphabet, self.limits).whole(tree, is_search)
        split = self._splits.get(alphabet.name)
        if split is None:
            split = lower(tree, alphabet)
            if tree is self.tree:
                self._splits[alphabet.name] = split
        return (_search if is_search else _match)(split, alphabet)


class Split(NamedTuple):
    """The words of a node, split by where they may occur.

    ``at_end``: only at the end of the text; ``at_start``: only at its start; ``whole``: only as the whole text; ``free``:
    anywhere.
    """

    free: Expr
    at_end: Expr = EMPTY
    at_start: Expr = EMPTY
    whole: Expr = EMPTY

    @property
    def anchored(self) -> bool:
        """Whether there are words that an anchor restricts."""
        return self.at_end is not EMPTY or self.at_start is not EMPTY or self.whole is not EMPTY


def lower(root: Node, alphabet: Alphabet) -> Split:
    """Split the language of a tree without look-aheads. Time is linear in the tree."""
    is_null: IsNull = partial(nullable, done={})

    def split(node: Node, parts: list[Split]) -> Split:
        if not node.anchored:
            return Split(_plain(node, alphabet))
        if node.op == REPEAT:
            return _repeat(parts[0], node.args[1], node.args[2], is_null)
        if node.op == CAT:
            return _concatenate(parts, is_null)
        if node.op == ALT:
            return Split(*(alt(*words) for words in zip(*parts, strict=True)))
        if node.op == BOUND:
            return Split(*(_bound(node, words, parts[1], alphabet) for words in parts[0]))
        return Split(EMPTY, at_start=EPSILON) if node.op == START else Split(EMPTY, at_end=EPSILON)

    return fold(root, lambda node: children_of(node) if node.anchored else (), split)


def _plain(root: Node, alphabet: Alphabet) -> Expr:
    """The language of a tree without anchors and look-aheads."""

    def parts_of(node: Node) -> Sequence[Node]:
        parts = children_of(node)
        return [part for part in parts if part.op != TEXT] if node.op == ALT else parts  # text_set takes all texts together

    def built(node: Node, parts: list[Expr]) -> Expr:
        if node.op in (CHARS, TEXT):
            return (alphabet.chars if node.op == CHARS else alphabet.literal_any)(node.args[0])
        if node.op == REPEAT:
            return repeat(parts[0], node.args[1], node.args[2])
        if node.op == CAT:
            return cat(*parts)
        if node.op == BOUND:
            return _bound(node, parts[0], Split(parts[1]), alphabet)
        texts = [part.args[0] for part in node.args if part.op == TEXT]
        return alt(*([text_set(texts, alphabet)] if texts else []), *parts)

    return fold(root, parts_of, built)


def _bound(node: Node, words: Expr, look: Split, alphabet: Alphabet) -> Expr:
    """The words of a BOUND node that end (or begin) with a match of its look-around; or, if negated, those that do not."""
    text, (_, _, negated, is_behind) = alphabet.any_text, node.args
    seen = alt(cat(text, look.free), look.at_start) if is_behind else cat(look.free, text)
    return EMPTY if words is EMPTY else both(words, complement(seen) if negated else seen)


def _concatenate(parts: list[Split], is_null: IsNull) -> Split:
    """Concatenation: first runs without anchors, then pairwise."""
    steps: list[Split] = []
    for anchored, same in groupby(parts, lambda part: part.anchored):
        run = list(same)
        steps += run if anchored else [Split(cat(*(part.free for part in run)))]
    return reduce(lambda a, b: _pair(a, b, is_null), steps)


def _when(condition: bool, expression: Expr) -> Expr:
    return expression if condition else EMPTY


def _pair(a: Split, b: Split, is_null: IsNull) -> Split:
    """``a`` then ``b``: only the empty word fits before a word that must start the text, and after one that must end it."""
    before = is_null(a.free) or is_null(a.at_start)  # a may be empty at the start of the text without ending it
    after = is_null(b.free) or is_null(b.at_end)
    all_null = (is_null(a.at_end) or is_null(a.whole)) and (is_null(b.at_start) or is_null(b.whole))
    return Split(
        cat(a.free, b.free),
        alt(cat(a.free, b.at_end), _when(after, a.at_end)),
        alt(cat(a.at_start, b.free), _when(before, b.at_start)),
        alt(cat(a.at_start, b.at_end), _when(after, a.whole), _when(before, b.whole), _when(all_null, EPSILON)),
    )


def _repeat(a: Split, low: int, high: int | None, is_null: IsNull) -> Split:
    """``a`` repeated ``low`` to ``high`` times, exactly.

    Consider the last copy that must be at the start (all copies before it are empty) and the first copy that must be at the end
    (all copies after it are empty); the copies in between are free. If a copy can be empty, empty copies make up ``low``.
    """
    free = repeat(a.free, low, high)
    if not a.anchored:
        return Split(free)
    before, after = (is_null(a.free) or is_null(words) for words in (a.at_start, a.at_end))

    def middle(taken: int, filled: bool) -> Expr:
        """The free copies besides ``taken`` others. ``filled``: whether empty copies make up ``low``."""
        if high is not None and high < taken:
            return EMPTY
        return repeat(a.free, 0 if filled else max(low - taken, 0), None if high is None else high - taken)

    filled = before or after
    several = high is None or high >= 2
    clash_null = several and (is_null(a.whole) or (is_null(a.at_end) and is_null(a.at_start)))
    return Split(
        free,
        cat(middle(1, after), a.at_end),
        cat(a.at_start, middle(1, before)),
        alt(
            cat(a.at_start, middle(2, filled), a.at_end),
            _when(low <= 1 or filled, a.whole),
            _when(clash_null, EPSILON),
        ),
    )


def text_set(texts: list[str], alphabet: Alphabet) -> Expr:
    """Any one of ``texts`` in every spelling: a set of literals, or a trie where a character has several spellings."""
    if alphabet.one_spelling:
        return literals(alphabet.spell(text) for text in texts)
    if len(texts) == 1:
        return alphabet.literal_any(texts[0])
    children, last = trie(texts)
    final = set(last)
    # The words from each node on, as a concatenation in reverse order.
    tails: list[list[Expr]] = [[] for _ in children]
    for i in range(len(children) - 1, -1, -1):
        if len(children[i]) == 1 and i not in final:
            ((char, child),) = children[i].items()
            tails[child].append(alphabet.literal_any(char))
            tails[i] = tails[child]
            continue
        ends = [(ord(c), ord(c)) for c, child in children[i].items() if not tails[child]]
        branches = [EPSILON] if i in final else []
        if ends:
            branches.append(alphabet.chars(tuple(ends)))
        branches += [cat(alphabet.literal_any(c), *reversed(tails[child])) for c, child in children[i].items() if tails[child]]
        tails[i] = [] if branches == [EPSILON] else [alt(*branches)]
    return cat(*reversed(tails[0]))


# --- match and search -------------------------------------------------------------------------------------------------------


def _match(split: Split, _: Alphabet) -> Expr:
    return alt(split.free, split.at_end, split.at_start, split.whole)


def _search(split: Split, alphabet: Alphabet) -> Expr:
    """Any text around the match, where no anchor forbids it."""
    text = alphabet.any_text
    if nullable(split.free):
        return text
    anywhere = EMPTY if split.free is EMPTY else cat(text, _trim(split.free, 0, -1), text)
    ending = EMPTY if split.at_end is EMPTY else cat(text, _trim(split.at_end, 0))
    starting = EMPTY if split.at_start is EMPTY else cat(_trim(split.at_start, -1), text)
    return text if text in (ending, starting) else alt(anywhere, ending, starting, split.whole)


def _trim(expression: Expr, *ends: int) -> Expr:
    """Next to any text, ``x{m,n}`` is equivalent to ``x{m}``: drop the rest, for a smaller automaton. ``ends``: where any text
    is next to the expression, 0: before it, -1: after it.
    """
    parts = list(expression.args) if expression.op == CAT_OP else [expression]
    for index in ends:
        while parts and parts[index].op == REPEAT_OP:
            child, low, _ = parts[index].args
            if low == 0:
                parts.pop(index)
                continue
            parts[index] = repeat(child, low, low)
            break
    return cat(*parts)
