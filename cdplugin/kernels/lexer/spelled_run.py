"""Steps over whole tokens inside names: one step instead of one for each byte.

Inside a property name the lexer waits for the rest of one or several names, and perhaps for any text that is none of them. No
lexeme ends inside a token that is shorter than what is left of each name. So the state after the token is computed directly:
each literal is ``n`` bytes further, or dropped, and arbitrary text stays what it is (``R{0,}``, of which each character is a
turn)::

    {k1: description", s: ([^"]* & ~(description | default))"}     after "descr":  {k1: iption", s: ([^"]* & ~iption)"}
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer.fields import begun_of, ending_of, role_of, value_of
from cdplugin.kernels.lexer.rows import known_transition
from cdplugin.kernels.lexer.states import take_state
from cdplugin.kernels.regex.derive import derive
from cdplugin.kernels.regex.expressions import EMPTY, FINITE, make_and, make_cat, make_literals, make_not, nullable, split
from cdplugin.kernels.regex.literals import literals_after
from cdplugin.kernels.regex.slices import never_starts_plain, one_char, slice_step
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import flags_of, header, kind_of, length_of, pack, word_of
from cdplugin.kernels.store.stack import push


@kernel
def advance_spelled_run(h, state, text, start, end):
    """Return the lexer state after the bytes ``text[start:end]`` inside names; 0 if they must be stepped byte by byte; or a
    status.

    Stepped are: single bytes; a token whose first transition is cached, since then the following ones mostly are, too; states
    with lexemes of other shapes; and tokens with or inside which some lexeme ends.

    Why the result is the state that stepping reaches. It consists of each expression's derivative by the token, without the
    dead ones. No lexeme has ended on the way: no literal has, and what follows arbitrary text begins with no plain character.
    And each derivative matches something: literals and their tail, or an infinite language minus a finite one, and its tail.
    """
    if end - start < 2 or known_transition(h, state, np.int64(text[start])) >= 0:
        return np.int64(0)
    head = header(h)
    base = head[layout.STACK_TOP]
    value = value_of(h, state)
    is_plain = _is_plain(text, start, end)
    for i in range(length_of(h, value)):
        word = word_of(h, value, i)
        after = np.int64(statuses.UNKNOWN)
        if ending_of(h, word >> 32) == layout.EXACT and role_of(h, word >> 32) == layout.PLAIN:
            after = _after_run(h, word & layout.LOW_32, text, start, end, is_plain)
        if after >= 0 and nullable(h, after):
            after = np.int64(statuses.UNKNOWN)
        if after >= 0 and after != EMPTY and push(h, pack(begun_of(h, word >> 32), after)) < 0:
            after = np.int64(statuses.GROW)
        if after < 0:
            head[layout.STACK_TOP] = base
            return np.int64(0) if after == statuses.UNKNOWN else after
    return take_state(h, base)


@kernel
def _is_plain(text, start, end):
    """Return whether the bytes ``text[start:end]`` are whole plain characters."""
    utf8 = np.int64(0)
    for i in range(start, end):
        utf8 = np.int64(slice_step(utf8, np.int64(text[i])))
        if utf8 < 0:
            return False
    return utf8 == 0


@kernel
def _after_run(h, e, text, start, end, is_plain):
    """Return the derivative of ``e`` by the bytes ``text[start:end]``, ``UNKNOWN`` for other shapes, or a status.

    Shapes: literals none of which ends inside the bytes, or arbitrary text that they are a part of: ``R{0,} T``, or
    ``(R{0,} & ~F & …) T``. ``is_plain``: the bytes are whole plain characters.
    """
    body, tail = split(h, e)
    kind = kind_of(h, body)
    if kind == layout.K_LITERALS:
        low, high, ended = literals_after(h, body, text, start, end)
        if ended:
            return np.int64(statuses.UNKNOWN)
        rest = np.int64(make_literals(h, low, high, word_of(h, body, 2) + end - start))
        return rest if rest < 0 else np.int64(make_cat(h, rest, tail))
    if not is_plain or not never_starts_plain(h, tail):
        return np.int64(statuses.UNKNOWN)
    if kind == layout.K_REPEAT:
        stays = _stays(h, body)
        return e if stays > 0 else np.int64(statuses.UNKNOWN) if stays == 0 else stays
    if kind != layout.K_AND:
        return np.int64(statuses.UNKNOWN)
    joint = _joint_after(h, body, text, start, end)
    return joint if joint < 0 else np.int64(make_cat(h, joint, tail))


@kernel
def _stays(h, e):
    """Return 1 if a repetition is ``R{0,}``, each plain character being a turn, so that its derivative by one is itself; else
    0; or a status.
    """
    if word_of(h, e, 1) != 0 or word_of(h, e, 2) >= 0:
        return np.int64(0)
    matches = one_char(h, word_of(h, e, 0))
    return np.int64(matches) if matches < 0 else np.int64(matches == 2)


@kernel
def _joint_after(h, joint, text, start, end):
    """Return the derivative of ``R{0,} & ~F & …``, each ``F`` finite, by plain bytes; ``UNKNOWN`` for other shapes; or a
    status.
    """
    head = header(h)
    base = head[layout.STACK_TOP]
    status = np.int64(0)
    for i in range(length_of(h, joint)):
        part = word_of(h, joint, i)
        if kind_of(h, part) == layout.K_REPEAT:
            stays = _stays(h, part)
            status = np.int64(statuses.UNKNOWN) if stays == 0 else min(stays, np.int64(0))
        elif kind_of(h, part) == layout.K_NOT and flags_of(h, word_of(h, part, 0)) & FINITE:
            part = word_of(h, part, 0)
            for k in range(start, end):
                if part >= 0:
                    part = np.int64(derive(h, part, np.int64(text[k])))
            part = part if part < 0 else np.int64(make_not(h, part))
            status = min(part, np.int64(0))
        else:
            status = np.int64(statuses.UNKNOWN)
        if status == 0 and push(h, part) < 0:
            status = np.int64(statuses.GROW)
        if status < 0:
            head[layout.STACK_TOP] = base
            return status
    result = np.int64(make_and(h, base, head[layout.STACK_TOP] - base))
    head[layout.STACK_TOP] = base
    return result
