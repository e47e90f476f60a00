r"""Look-aheads and word boundaries: lower them to intersections with the language of the following text.

``(?=X)`` asserts that the rest of the text begins with ``X``. So a tree with look-aheads is processed from right to left,
carrying the language of the *rest of the text* (:class:`Rest`): ``x`` turns the rest R into ``x R``, ``(?=X)`` into
``R & X any``, ``(?!X)`` into ``R & ~(X any)``, and an alternation unites the results of its alternatives. A rest has several
components, by the position at which it begins: the start of the text, or a later position; with ``\b``, later positions after
a word character and after another one are distinguished. Then ``x R`` splits the words of ``x`` by their last character.

A repetition around a look-ahead is unrolled if it is bounded and short. Unbounded ones are handled in two cases: before
arbitrary text, where only the required copies matter, and the idiom ``(?:(?!X).)*`` at the end of the text. Others are refused.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple, NoReturn

from cdplugin.errors import GrammarError, LimitExceeded, UnsupportedError
from cdplugin.expr import EMPTY, EPSILON, MAX_CODE_POINT, REPEAT_OP, Expr, alt, both, cat, complement, nullable, repeat
from cdplugin.limits import Limits
from cdplugin.regex.alphabet import Alphabet
from cdplugin.regex.pattern import Split, lower
from cdplugin.regex.scanner import error_at
from cdplugin.regex.tree import ALT, BEHIND, CAT, CHARS, LOOK, REPEAT, START, TEXT, WORD, Node, children_of, choice, sequence
from cdplugin.regex.unicode import Ranges, difference, intersection
from cdplugin.walks import driven, walk

_MOST_COPIES = 256
_MOST_STEPS = 20_000


class Rest(NamedTuple):
    """The language of the rest of the text at its start, after any character, after a word character (or ``word is later``)."""

    first: Expr
    later: Expr
    word: Expr


_Steps = Generator[tuple[Node, Rest], Rest, Rest]


class LookAhead:
    """Lowers one tree with look-aheads to an expression over ``alphabet``."""

    def __init__(self, source: str, alphabet: Alphabet, limits: Limits) -> None:
        self.source = source
        self.alphabet = alphabet
        self.limits = limits
        self.any = Rest(alphabet.any_text, alphabet.any_text, alphabet.any_text)
        self._word: Ranges = ()
        self._in_word = self._other = EMPTY  # one word character, and one other character
        self._nullable: dict[Expr, bool] = {}

    def whole(self, tree: Node, search: bool) -> Expr:
        """The texts that ``tree`` matches from end to end, or, with ``search``, that contain a match."""
        self._word = self._word_characters(tree)
        self._in_word = self.alphabet.chars(self._word)
        self._other = self.alphabet.chars(difference(((0, MAX_CODE_POINT),), self._word))
        steps = 0

        def before(node: Node, rest: Rest) -> _Steps:
            nonlocal steps
            if steps > _MOST_STEPS:
                self._refuse(tree, f"look-aheads inside repetitions need more than {_MOST_STEPS} copies", LimitExceeded)
            steps += 1
            return self._before(node, rest)

        first, later, word = driven(before, tree, self.any if search else Rest(EPSILON, EPSILON, EPSILON))
        if not search or later is word is EMPTY:
            return first
        text = self.alphabet.any_text
        if word is not later:
            return alt(first, cat(text, self._other, later), cat(text, self._in_word, word))
        if first is later:
            return text if later is text else cat(text, later)
        return alt(first, cat(self.alphabet.any_char, text, later))

    def _word_characters(self, root: Node) -> Ranges:
        """The word characters of the tree's word boundaries. Raises ``UnsupportedError`` if these differ."""
        words = [node for node in walk(root, children_of) if node.op == WORD]
        for node in reversed(words):
            if node.args[0] != words[-1].args[0]:
                self._refuse(node, "word boundaries under several flags")
        return words[0].args[0] if words else ()

    def _before(self, node: Node, rest: Rest) -> _Steps:
        """The rest of the text before ``node``, given the rest after it."""
        if not node.looks and (node.op != CAT or rest.word is rest.later):
            return self._plain(node, rest)
        if node.op == WORD:
            return self._restricted(rest, self._boundary(is_denied=node.args[1]), False)
        if node.op == LOOK:
            ahead = yield node.args[0], self.any
            return self._restricted(rest, ahead, node.args[1])
        if node.op == ALT:
            plain = [child for child in node.args if not child.looks]
            rests = []
            for child in [*([choice(plain)] if plain else []), *(child for child in node.args if child.looks)]:
                rests.append((yield child, rest))
            return _any_of(rests)
        return (yield from (self._sequence if node.op == CAT else self._repetition)(node, rest))

    def _sequence(self, node: Node, rest: Rest) -> _Steps:
        """Process a sequence from its last part to the first; adjacent parts without look-aheads are taken together."""
        items = list(node.args)
        while items:
            plain = []
            while items and not items[-1].looks:
                plain.append(items.pop())
                if rest.word is not rest.later:
                    break  # the last character decides, so take one part at a time
            if plain:
                rest = yield sequence(plain[::-1]), rest
            if items:
                rest = yield items.pop(), rest
        return rest

    def _repetition(self, node: Node, rest: Rest) -> _Steps:
        """Process a repetition copy by copy, from the last to the first."""
        assert node.op == REPEAT
        child, low, high = node.args
        if rest == self.any:
            high = low  # before any text, optional copies add nothing
        elif high is None:
            return (yield from self._tempered(child, low, rest))
        if high > _MOST_COPIES:
            self._refuse(child, f"look-ahead inside a repetition of more than {_MOST_COPIES}")
        after = rest
        for _ in range(high - low):
            rest = _any_of([after, (yield child, rest)])
        for _ in range(low):
            rest = yield child, rest
        return rest

    def _boundary(self, is_denied: bool) -> Rest:
        r"""The rest of the text at ``\b``, or, if denied, at ``\B``."""
        begins = cat(self._in_word, self.any.first)
        ends = alt(EPSILON, cat(self._other, self.any.first))
        other, word = (ends, begins) if is_denied else (begins, ends)
        return Rest(other, other, word)

    def _restricted(self, rest: Rest, ahead: Rest, negated: bool) -> Rest:
        """``rest`` intersected with ``ahead``, or with its complement."""
        later = self._restrict(rest.later, ahead.later, negated)
        same = rest.later is rest.word and ahead.later is ahead.word
        word = later if same else self._restrict(rest.word, ahead.word, negated)
        return Rest(self._restrict(rest.first, ahead.first, negated), later, word)

    def _restrict(self, rest: Expr, ahead: Expr, negated: bool) -> Expr:
        if ahead is self.alphabet.any_text:
            return EMPTY if negated else rest
        if rest is self.alphabet.any_text and not negated:
            return ahead
        return EMPTY if rest is EMPTY else both(rest, complement(ahead) if negated else ahead)

    def _tempered(self, child: Node, low: int, rest: Rest) -> _Steps:
        """``(?:(?!X)c)*`` at the end of the text: characters in ``c`` such that no non-empty suffix begins with ``X``."""
        looks, chars = (list(child.args[:-1]), child.args[-1]) if child.op == CAT else ([], child)
        if chars.op != CHARS or any(look.op != LOOK for look in looks) or rest != Rest(EPSILON, EPSILON, EPSILON):
            what = "word boundary" if self._word else "look-ahead"
            self._refuse(child, f"{what} inside an unbounded repetition")
        result = repeat(self.alphabet.chars(chars.args[0]), low)
        some = repeat(self.alphabet.any_char, 1)
        for look in looks:
            ahead = yield look.args[0], self.any
            has_start = any(node.op == START for node in walk(look, children_of))
            if has_start or ahead.first is not ahead.later or ahead.later is not ahead.word:
                self._refuse(look, "look-ahead with ^ or \\b inside an unbounded repetition")
            bad = both(some, ahead.later if look.args[1] else complement(ahead.later))
            result = both(result, complement(cat(self.alphabet.any_text, bad)))
        return Rest(result, result, result)

    def _plain(self, node: Node, rest: Rest) -> Rest:
        """A part without look-aheads before ``rest``."""
        words = lower(node, self.alphabet)
        if rest.word is not rest.later:
            return self._parted(node, words, rest)
        if not words.anchored and rest.first is rest.later:
            both_places = cat(words.free, rest.first)
            return Rest(both_places, both_places, both_places)
        later = alt(cat(words.free, rest.later), self._if_end(words.at_end, rest.later))
        starting = alt(words.free, words.at_start)
        ending = alt(words.at_end, words.whole)
        if rest.first is rest.later:
            return Rest(alt(cat(starting, rest.first), self._if_end(ending, rest.first)), later, later)
        first = alt(
            cat(self._some(starting), rest.later),
            self._if_end(self._some(ending), rest.later),
            rest.first if self.nullable(starting) else EMPTY,
            EPSILON if self.nullable(ending) and self.nullable(rest.first) else EMPTY,
        )
        return Rest(first, later, later)

    def _parted(self, node: Node, words: Split, rest: Rest) -> Rest:
        """:meth:`_plain` where the rest depends on the last character."""

        def before(go_on: Expr, end: Expr, here: Expr) -> Expr:
            """``go_on``: words that may be followed by text; ``end``: words that end it; ``here``: the rest at the position."""
            (on_other, on_word), (end_other, end_word) = self._by_last(node, go_on), self._by_last(node, end)
            return alt(
                cat(on_other, rest.later),
                cat(on_word, rest.word),
                self._if_end(end_other, rest.later),
                self._if_end(end_word, rest.word),
                here if self.nullable(go_on) else EMPTY,
                EPSILON if self.nullable(end) and self.nullable(here) else EMPTY,
            )

        later = before(words.free, words.at_end, rest.later)
        if not words.anchored and not self.nullable(words.free):
            return Rest(later, later, later)
        first = before(alt(words.free, words.at_start), alt(words.at_end, words.whole), rest.first)
        return Rest(first, later, before(words.free, words.at_end, rest.word))

    def _by_last(self, node: Node, words: Expr) -> tuple[Expr, Expr]:
        """The non-empty words, split by whether their last character is a word character: others first."""
        if words is EMPTY or words is EPSILON:
            return EMPTY, EMPTY
        if node.op == CHARS:
            ranges = node.args[0]
            return self.alphabet.chars(difference(ranges, self._word)), self.alphabet.chars(intersection(ranges, self._word))
        if node.op == TEXT:
            last = ord(node.args[0][-1])
            is_word = any(low <= last <= high for low, high in self._word)
            return (EMPTY, words) if is_word else (words, EMPTY)
        text = self.alphabet.any_text
        return both(words, cat(text, self._other)), both(words, cat(text, self._in_word))

    def _if_end(self, words: Expr, rest: Expr) -> Expr:
        return words if words is not EMPTY and self.nullable(rest) else EMPTY

    def _some(self, words: Expr) -> Expr:
        """``words`` without the empty word."""
        if not self.nullable(words):
            return words
        if words is EPSILON:
            return EMPTY
        if words.op == REPEAT_OP and words.args[1] == 0 and not self.nullable(words.args[0]):
            return repeat(words.args[0], 1, words.args[2])
        return both(words, repeat(self.alphabet.any_char, 1))

    def nullable(self, root: Expr) -> bool:
        """Whether ``root`` matches the empty text."""
        return nullable(root, self._nullable)

    def _refuse(self, node: Node, message: str, error: type[GrammarError] = UnsupportedError) -> NoReturn:
        text = f"not supported: {message}" if error is UnsupportedError else message
        raise error_at(self.source, position_of(node), text, error)


def _any_of(rests: Sequence[Rest]) -> Rest:
    """The union of several rests."""
    first = alt(*(rest.first for rest in rests))
    later = first if all(rest.first is rest.later for rest in rests) else alt(*(rest.later for rest in rests))
    word = later if all(rest.word is rest.later for rest in rests) else alt(*(rest.word for rest in rests))
    return Rest(first, later, word)


def position_of(root: Node) -> int:
    """The position of the first look-around or word boundary below ``root``."""
    return next((node.args[2] for node in walk(root, children_of) if node.op in (LOOK, BEHIND, WORD)), 0)
