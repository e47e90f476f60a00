"""Statuses: what a kernel returns instead of a result. All are negative; results are not.

Every kernel that may allocate or spend work returns a result or a status. Its caller passes a status on unchanged, up to the
entry kernel. There the Python owner acts on it: it grows a table or supplies what is missing and calls again, or it raises.

Three rules make calling again safe:

1. A kernel stores a result only when all of it is there. A failed call leaves behind only complete values and memo entries,
   which the second call finds.
2. ``STACK_TOP`` need not be restored on failure: every operation begins with an empty stack.
3. Work that was spent stays spent (``HOLDS_WORK``), so an operation that starts over again and again comes to an end.

The numbers have gaps: they are grouped by what the owner does, and those of -20 and below belong to the infilling kernels.
"""

# The owner changes something and calls again.
GROW = -1  # a table of the arena is full: grow table REQUEST_A (header) to REQUEST_B items
NEED_RULES = -6  # nonterminals STACK[REQUEST_B:REQUEST_A] are predicted for the first time: make their rules
NEED_VALUE = (
    -7
)  # lexemes STACK[REQUEST_B:REQUEST_A - 1] have ended, with text STACK[REQUEST_A - 1]: memoise its values (M_VALUE)
NEED_REST = -8  # for each pair (lexeme, value) of STACK[REQUEST_B:REQUEST_A]: memoise how the rule goes on (M_REST)
W_GROW = -20  # a table of the infilling workspace is full: W_TABLE and W_TO
WIDEN = -21  # the infilling lattice has more nodes than a row has bits

# The owner raises LimitExceeded.
LIMIT_WIDTH = -2  # an expression has too many alternatives
LIMIT_FUEL = -3  # emptiness of an expression could not be decided within the fuel
LIMIT_ROW = -4  # an Earley row has too many items
LIMIT_PAIRS = -5  # a parser state has too many (row, lexer state) pairs
LIMIT_WORK = -12  # the operation has used up its work. Kernels may return GROW instead, so the owner checks WORK_LEFT first
LIMIT_STATES = -22  # a gap leads to too many lexer states

# The arena is lost.
BROKEN = -13  # an exception interrupted the owner in the middle of a change: the arena must not be used

# Between kernels only; the owner never sees it.
UNKNOWN = -9  # the result is not computed yet, or a cheap search did not find it
