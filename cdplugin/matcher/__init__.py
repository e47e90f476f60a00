"""What a decoding loop calls: grammars and matchers, and masks of a whole batch."""

from cdplugin.matcher.batch import fill_next_token_bitmasks
from cdplugin.matcher.grammar import Grammar
from cdplugin.matcher.matcher import Matcher

__all__ = ["Grammar", "Matcher", "fill_next_token_bitmasks"]
