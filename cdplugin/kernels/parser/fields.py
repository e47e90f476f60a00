"""Accessors for the fields of rows (``R_``). Each inlines to one load. ``row``: a row's number, from 1."""

from cdplugin.kernels.parser import layout as parser_layout
from cdplugin.kernels.store import layout
from cdplugin.kernels.store.arena import field

items_of = field(layout.ROWS, parser_layout.ROW_WORDS, parser_layout.R_ITEMS)
"""The row's kernel items, a ``K_ITEMS`` value."""
origin_of = field(layout.ROWS, parser_layout.ROW_WORDS, parser_layout.R_ORIGIN)
"""The origin of the items that are predicted in the row."""
exact_start_of = field(layout.ROWS, parser_layout.ROW_WORDS, parser_layout.R_START)
"""The lexer state in which the row's EXACT lexemes start, 0: none."""
longest_start_of = field(layout.ROWS, parser_layout.ROW_WORDS, parser_layout.R_LONGEST)
"""The lexer state in which the row's LONGEST and LAZY lexemes start, 0: none."""
accepts_of = field(layout.ROWS, parser_layout.ROW_WORDS, parser_layout.R_ACCEPTS)
"""1 if the text may end at the boundary before the row, else 0."""
