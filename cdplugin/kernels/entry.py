"""The engine's one entry point: all engine kernels, compiled as one program and called with an operation code.

One entry kernel means one compilation and one file in the disk cache. Arguments are integers; ``h`` is the address of the
header. Every operation starts with an empty stack, so an operation that returned ``GROW`` can simply be called again.

What a matcher does: ``OP_START_CURSOR`` gives the cursor ``c0``; ``OP_FILL`` writes the mask row of ``c0``; ``OP_ACCEPT`` with
a token gives ``c1``, or 0 if the token is not allowed; and so on. A cursor is the whole state, so fork and rollback copy
integers. Kernels run without the GIL; the owner's lock keeps each arena to one thread at a time.

If an operation leaves a list on the stack, its result counts it, and the owner reads ``STACK`` from the bottom before the next
call.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.jit.decorators import compiled, entry_kernel, kernel
from cdplugin.kernels.jit.views import view_i32, view_i64, view_u8
from cdplugin.kernels.lexer.rows import known_transition
from cdplugin.kernels.masks.classes import take, tally
from cdplugin.kernels.masks.masks import add_terminals, fill
from cdplugin.kernels.masks.shared import learn
from cdplugin.kernels.masks.spelling import spell
from cdplugin.kernels.masks.successors import group, successors
from cdplugin.kernels.parser.completing import complete
from cdplugin.kernels.parser.cursors import accepts_at, start_of, step, step_bytes
from cdplugin.kernels.parser.earley import advance, make_row
from cdplugin.kernels.parser.least_costs import settle
from cdplugin.kernels.parser.many_texts import first_ending, step_all
from cdplugin.kernels.parser.rules import prepare
from cdplugin.kernels.parser.text_tree import step_tree
from cdplugin.kernels.parser.tokens import accept
from cdplugin.kernels.regex.derive import derivatives, derive, note_classes
from cdplugin.kernels.regex.emptiness import is_nonempty
from cdplugin.kernels.regex.expressions import EMPTY, FINITE, NULLABLE, PURE, THIN, make_not, nullable
from cdplugin.kernels.regex.programs import evaluate
from cdplugin.kernels.regex.slices import plain_run_bound
from cdplugin.kernels.regex.texts import list_texts, matches
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import (
    begin,
    copy_words,
    has_room,
    header,
    i64,
    intern,
    memo_put,
    pack,
    reindex,
    set_flags,
    spend,
)
from cdplugin.kernels.store.stack import intern_words, push_pair

(
    OP_CONSTANTS,  # intern EMPTY, EPSILON and ALL as ids 1, 2 and 3
    OP_EVALUATE,  # a: length of the postfix program at the bottom of the stack -> expression id
    OP_STATUS,  # a: expression -> flags MATCHES_SOMETHING, MATCHES_EMPTY
    OP_DERIVE,  # a: expression, b: byte -> its derivative
    OP_START_CURSOR,  # the start cursor of the grammar in the static tables
    OP_ACCEPT,  # a: cursor, b: token, c: 1: by its bytes or as a terminal, 0: as a terminal only -> cursor (0: not allowed)
    OP_STEP,  # a: cursor, b: byte -> cursor (0: dead)
    OP_ACCEPTS,  # a: cursor -> 1 if the text may end here
    OP_FILL,  # a: cursor, b: address of an int32 mask row, c: address of the stop tokens -> 0
    OP_FILL_MANY,  # a: address of int64 (n, 5) jobs [header, cursor, row address, stops address, result], b: n -> 0
    OP_SCAN,  # a: row, b: lexeme -> the row after scanning that lexeme only
    OP_START_OF,  # a: row -> the cursor at the boundary before it
    OP_COMPLETE,  # a: nonterminal, b: origin -> the kernel items that completing it there gives, a value
    OP_REINDEX,
    OP_NOTE,  # a: kind of memo, b: its two keys as a word, c: the result -> the result
    OP_EDGES,  # a: cursor, b: address of int64 (n, 2) bytes (-1: any) and tokens, c: n -> (place, cursor) pairs on the stack
    OP_ONLY_BYTE,  # a: cursor -> 1 + the only byte that leads on, 0 if there is none, or another
    OP_SPELL,  # a: address of uint8 text, b: its bytes, c: address of tokens not to take -> how many tokens are on the stack
    OP_SUCCESSORS,  # a: cursor, b: address of a question (masks/successors.py) -> how many cursors tokens lead to, or FULL
    OP_PREPARE,  # a: words of a question at the bottom of the stack (parser/rules.py) -> words of the answer, UNUSUAL, NO_TEXT
    OP_DERIVATIVES,  # a: expression, b, c: bytes from .. below -> how many pairs (bytes, their derivative) are on the stack
    OP_COPY,  # a: address of memory, b: address of int64 (n, 5) tables (_copy), c: n -> 0
    OP_PLAIN_RUN,  # a: expression -> how much plain text keeps it alive (regex/slices.py: plain_run_bound)
    OP_TRANSITIONS,  # a: address of int64 (n,) lexer states, b: address of int32 (n, 256) for their transitions, c: n -> 0
    OP_LEARN,  # a: base, b: address of the shared store's header -> 0, 1 if that has no room (masks/shared.py: learn)
    OP_CLASSES,  # a: expression -> its classes of bytes, noted as a value (regex/derive.py: note_classes)
    OP_RUN,  # a: cursor, b: address of uint8 text, c: its bytes -> cursor after them (0: dead)
    OP_MATCHES,  # a: expression, b: address of uint8 text, c: its bytes -> 1 if it matches the text, else 0
    OP_TEXTS,  # a: expression, b: most texts, c: most derivatives -> how many words of texts are on the stack, or MANY
    OP_STEP_TREE,  # a: cursor, b: address of a question (parser/text_tree.py) -> 0
    OP_SETTLE,  # a: address of a question (parser/least_costs.py) -> 1 if all costs of nonterminals are known, else 0
    OP_STEP_ALL,  # a: address of a question (parser/many_texts.py) -> 0
    OP_FIRST_ENDING,  # a: address of a question (parser/many_texts.py) -> 0
    OP_GROUP,  # a: address of a question (masks/successors.py) -> 0
    OP_TALLY,  # a: address of a question (masks/classes.py) -> 0
    OP_TAKE,  # a: address of a question (masks/classes.py) -> how many tokens were taken
) = range(36)

MATCHES_SOMETHING, MATCHES_EMPTY = 1, 2  # what OP_STATUS answers
JOB_WORDS = 5
TERMINATED = -1  # the cursor after a stop token


@kernel
def _constants(h):
    """Intern ``EMPTY``, ``EPSILON`` and ``ALL`` as ids 1, 2 and 3, the first values of an arena; return the last id, or
    ``GROW``.
    """
    head = header(h)
    if not has_room(h, layout.STACK, 4):
        return statuses.GROW
    empty = intern(h, layout.K_EMPTY, 0, 0)
    epsilon = intern(h, layout.K_EPSILON, 0, 0)
    if empty < 0 or epsilon < 0:
        return statuses.GROW
    set_flags(h, empty, PURE | FINITE | THIN)
    set_flags(h, epsilon, PURE | FINITE | THIN | NULLABLE)
    head[layout.STACK_TOP] = 0
    return make_not(h, EMPTY)


@kernel
def _root(h):
    """Return the start cursor, at row 1, which has the item ``(0, {})``, that is ``S' -> • S END``; or a status."""
    if not has_room(h, layout.STACK, 4):
        return statuses.GROW
    origin = intern(h, layout.K_ORIGIN, 0, 0)
    if origin < 0:
        return origin
    i64(h, layout.STACK)[0] = pack(0, origin)  # dot 0: S' -> . S END
    header(h)[layout.STACK_TOP] = 1
    row = make_row(h, 0)
    return start_of(h, row) if row > 0 else row


@kernel
def _scan(h, row, lexeme):
    """Return the row after scanning ``lexeme`` from ``row``, which allows it; or a status."""
    accepted = intern_words(h, layout.K_ACCEPTED, 1, lexeme, 0, 0, 0)
    return accepted if accepted < 0 else advance(h, row, accepted)


@kernel
def _fill_many(jobs_address, count):
    """Fill ``count`` mask rows, of any grammars; write each job's status into its fifth word (``result``). Returns 0.

    The owner splits a batch over threads by grammar: two jobs of one arena must not run at once. It calls a job that fails
    again, by itself.
    """
    jobs = view_i64(jobs_address, JOB_WORDS * count)
    for i in range(count):
        job = JOB_WORDS * i
        jobs[job + 4] = _fill_row(jobs[job], jobs[job + 1], jobs[job + 2], jobs[job + 3])
    return 0


@kernel
def _fill_row(h, cursor, row_address, stops_address):
    """Write one mask row: the tokens that ``cursor`` allows, and the stop tokens exactly if the text may end. 0, or a status,
    and then the row is garbage.

    ``row_address``: ``WORDS`` int32 words. ``stops_address``: int64 words, the number of stop tokens and their ids. A stop
    token is never text, so its bit is set or cleared whatever the trie says about its bytes. After one (``TERMINATED``), only
    stop tokens are allowed.
    """
    head = header(h)
    if not begin(h):
        return np.int64(statuses.BROKEN)
    out = view_i32(row_address, head[layout.WORDS])
    ended = cursor == TERMINATED
    status = fill(h, np.int64(0) if ended else cursor, out)
    if status < 0:
        return np.int64(status)
    count = view_i64(stops_address, 1)[0]
    stops = view_i64(stops_address, count + 1)
    allowed = np.int64(1) if ended else accepts_at(h, cursor)
    if allowed < 0:
        return allowed
    for i in range(1, count + 1):
        word = stops[i] >> 5
        bit = np.int32(1 << (stops[i] & 31))
        if allowed:
            out[word] |= bit
        else:
            out[word] &= ~bit
    if head[layout.HAS_TERMINALS] and not ended:
        return add_terminals(h, cursor, out)  # a stop token that the grammar names
    return np.int64(0)


@kernel
def _copy(h, target, rows_address, count):
    """Enter tables at ``target`` into the header, and copy the used parts of other tables into them. Returns 0.

    ``rows_address``: five words for each table: its number, its offset in bytes, its capacity in items, the address to copy
    from, and how many words to copy.
    """
    head = header(h)
    rows = view_i64(rows_address, 5 * count)
    for row in range(0, 5 * count, 5):
        address = target + rows[row + 1]
        head[2 * rows[row]] = address
        head[2 * rows[row] + 1] = rows[row + 2]
        n_words = rows[row + 4]
        copy_words(view_i64(address, n_words), 0, view_i64(rows[row + 3], n_words), 0, n_words)
    return 0


@kernel
def edges(h, cursor, bytes_address, count):
    """Push the distinct cursors that bytes lead to, as pairs (index of the first byte, cursor); return how many, or a status.

    ``bytes_address``: int64 pairs: a byte, and the token that is just this byte, which is followed instead if tokens count; or
    -1 and a token of any bytes. Searches for short endings follow bytes, with one edge for each distinct cursor; work ahead
    (:mod:`cdplugin.ahead`) follows tokens.
    """
    listed = view_i64(bytes_address, 2 * count)
    head = header(h)
    base = head[layout.STACK_TOP]
    for i in range(count):
        if head[layout.HAS_CLOCKS] or listed[2 * i] < 0:
            after = accept(h, cursor, listed[2 * i + 1], True)
        else:
            after = step(h, cursor, listed[2 * i])
        if after < 0:
            return after
        top = head[layout.STACK_TOP]
        if not spend(h, 2 + ((top - base) >> 3)):
            return np.int64(statuses.LIMIT_WORK)
        words = i64(h, layout.STACK)
        is_new = after > 0
        for k in range(base + 1, top, 2):
            if words[k] == after:
                is_new = False
                break
        if is_new and push_pair(h, np.int64(i), after) < 0:
            return np.int64(statuses.GROW)
    return (head[layout.STACK_TOP] - base) >> 1


@kernel
def _write_transitions(h, states_address, rows_address, count):
    """Write the known transitions of lexer states, 256 for each, -1 where unknown; return 0."""
    states = view_i64(states_address, count)
    out = view_i32(rows_address, 256 * count)
    for i in range(count):
        for byte in range(256):
            out[256 * i + byte] = known_transition(h, states[i], np.int64(byte))
    return 0


@kernel
def only_byte(h, cursor):
    """Return 1 + the only byte that leads on from a cursor; 0 if there is none, or several; or a status. For forced text."""
    found = np.int64(0)
    for byte in range(256):
        after = step(h, cursor, byte)
        if after < 0:
            return after
        if after and found:
            return np.int64(0)
        if after:
            found = np.int64(byte + 1)
    return found


@entry_kernel
def engine(h, op, a, b, c):
    """Run operation ``op`` on the engine whose header is at ``h``; return its result, or a (negative) status.

    ``a``, ``b``, ``c``: see the operation codes. The most frequent operations are compared first.
    """
    if op == OP_FILL_MANY:
        return np.int64(_fill_many(a, b))
    if op == OP_FILL:
        return _fill_row(h, a, b, c)
    if op == OP_COPY:
        return np.int64(_copy(h, a, b, c))
    head = header(h)
    if not begin(h):
        return np.int64(statuses.BROKEN)
    if op == OP_ACCEPT:
        return np.int64(accept(h, a, b, c != 0))
    if op == OP_STEP:
        return np.int64(step(h, a, b))
    if op == OP_ACCEPTS:
        return np.int64(accepts_at(h, a))
    if op == OP_EVALUATE:
        head[layout.STACK_TOP] = a
        return np.int64(evaluate(h, 0, a))
    if op == OP_PREPARE:
        return np.int64(prepare(h, a))
    if op == OP_STATUS:
        alive = is_nonempty(h, a)
        return np.int64(alive if alive < 0 else alive + (MATCHES_EMPTY if nullable(h, a) else 0))
    if op == OP_DERIVE:
        return np.int64(derive(h, a, b))
    if op == OP_DERIVATIVES:
        return np.int64(derivatives(h, a, b, c))
    if op == OP_CONSTANTS:
        return np.int64(_constants(h))
    if op == OP_START_CURSOR:
        return np.int64(_root(h))
    if op == OP_SCAN:
        return np.int64(_scan(h, a, b))
    if op == OP_START_OF:
        return np.int64(start_of(h, a))
    if op == OP_COMPLETE:
        return np.int64(complete(h, a, b))
    if op == OP_NOTE:
        return np.int64(memo_put(h, a, b >> 32, b & layout.LOW_32, c))
    if op == OP_EDGES:
        return np.int64(edges(h, a, b, c))
    if op == OP_SPELL:
        return np.int64(spell(h, a, b, c))
    if op == OP_SUCCESSORS:
        return np.int64(successors(h, a, b))
    if op == OP_ONLY_BYTE:
        return only_byte(h, a)
    if op == OP_PLAIN_RUN:
        return np.int64(plain_run_bound(h, a))
    if op == OP_TRANSITIONS:
        return np.int64(_write_transitions(h, a, b, c))
    if op == OP_CLASSES:
        return note_classes(h, a)
    if op == OP_LEARN:
        return np.int64(learn(h, a, b))
    if op == OP_MATCHES:
        return matches(h, a, b, c)
    if op == OP_TEXTS:
        return np.int64(list_texts(h, a, b, c))
    if op == OP_RUN:
        return np.int64(step_bytes(h, a, view_u8(b, c), 0, c))
    if op == OP_STEP_TREE:
        return np.int64(step_tree(h, a, b))
    if op == OP_SETTLE:
        return np.int64(settle(h, a))
    if op == OP_STEP_ALL:
        return np.int64(step_all(h, a))
    if op == OP_FIRST_ENDING:
        return np.int64(first_ending(h, a))
    if op == OP_GROUP:
        return np.int64(group(h, a))
    if op == OP_TALLY:
        return np.int64(tally(a))
    if op == OP_TAKE:
        return np.int64(take(a))
    return np.int64(reindex(h))


run = engine
"""``engine`` as matchers and arenas call it: the compiled kernel itself, once it is loaded (:func:`note_loaded`)."""


def note_loaded() -> None:
    """Let :data:`run` be the compiled kernel. ``engine`` must have been called before."""
    global run
    run = compiled(engine)
