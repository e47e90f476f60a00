"""Skip items: which lexemes may follow an ``%ignore``, where grammars with different skips meet in one row.

A skip leaves a row as it is, if all lexemes that start there allow that skip before them. If not, the row after it is the same
row plus *skip items* ``(SKIP_ITEM_DOT, skip)``, which name the skips. Their dot belongs to no other item and no rule goes on
from it. In such a row, only lexemes start that allow one of these skips before them.

For example, a Lark grammar that ignores spaces embeds a JSON schema that allows none. Where both may go on, the row after a
space is the same row plus the item ``(SKIP_ITEM_DOT, WS)``: the Lark lexemes start in it, those of the schema do not.
"""

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer.fields import is_skip, skip_of, value_of
from cdplugin.kernels.parser import layout as parser_layout
from cdplugin.kernels.store import layout
from cdplugin.kernels.store.arena import header, i64, length_of, pack, word_of
from cdplugin.kernels.store.stack import push


@kernel
def has_skip_items(h, items):
    """Return whether kernel items (a ``K_ITEMS`` value, so sorted) include skip items. Only dots 0 and 1 sort before theirs."""
    for i in range(length_of(h, items)):
        dot = word_of(h, items, i) >> 32
        if dot >= parser_layout.SKIP_ITEM_DOT:
            return dot == parser_layout.SKIP_ITEM_DOT
    return False


@kernel
def push_skip_items(h, accepted):
    """Push a skip item for each skip of a ``K_ACCEPTED`` value; 0 or a status."""
    for a in range(length_of(h, accepted)):
        skip = word_of(h, accepted, a)
        if is_skip(h, skip):
            status = push(h, pack(parser_layout.SKIP_ITEM_DOT, skip))
            if status < 0:
                return status
    return 0


@kernel
def drop_skip_items(h, base):
    """Remove the skip items from the items ``STACK[base:top]``, in place; the others keep their order."""
    head = header(h)
    words = i64(h, layout.STACK)
    kept = base
    for i in range(base, head[layout.STACK_TOP]):
        if words[i] >> 32 != parser_layout.SKIP_ITEM_DOT:
            words[kept] = words[i]
            kept += 1
    head[layout.STACK_TOP] = kept


@kernel
def only_after_skips(h, items, start, count):
    """Keep, of the lexemes ``STACK[start:start + count]``, those that allow before them a skip that ``items`` name; return how
    many.
    """
    words = i64(h, layout.STACK)
    kept = 0
    for i in range(start, start + count):
        skip = skip_of(h, words[i])
        if skip >= 0 and _holds(h, items, pack(parser_layout.SKIP_ITEM_DOT, skip)):
            words[start + kept] = words[i]
            kept += 1
    return kept


@kernel
def others_start(h, state, accepted):
    """Return whether a lexeme starts in a lexer state (0: none) that allows none of the skips in ``accepted`` before it."""
    if state == 0:
        return False
    value = value_of(h, state)
    for i in range(length_of(h, value)):
        if not is_skip(h, word_of(h, value, i) >> 32) and not _holds(h, accepted, skip_of(h, word_of(h, value, i) >> 32)):
            return True
    return False


@kernel
def _holds(h, value, word):
    """Return whether an interned sequence includes a word. A linear search: a few items, or the lexemes that end together."""
    for i in range(length_of(h, value)):
        if word_of(h, value, i) == word:
            return True
    return False
