"""Rules, cleaned and laid out for the parser: useless rules go, symbols are numbered, dots and lists are written.

The compiler calls :func:`prepare`, or the single passes if a grammar has families (late rules) or unusual lexemes. Rules come
as three int64 arrays: ``lefts``, the left side of each; ``offsets``, one more; ``symbols``, their right sides one after the
other: nonterminal ``n >= 0`` or lexeme ``~t``. They leave as the tables of :mod:`cdplugin.kernels.parser.earley`, with symbols
*numbered*: nonterminal ``n >= 0``, lexeme ``-2 - t``, and -1 after the last symbol of a rule. Useless rules are removed
(Hopcroft and Ullman, 7.1.1): first those that derive no text, then those that are unreachable. Every pass is linear in the size
of the rules.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import entry_of, kernel
from cdplugin.kernels.parser import layout as parser_layout
from cdplugin.kernels.regex.emptiness import is_nonempty
from cdplugin.kernels.regex.expressions import EPSILON, NULLABLE, PURE
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import copy_words, equal_words, fill_words, flags_of, has_room, header, i64, mix

UNUSUAL, NO_TEXT = 0, 1  # results of prepare: the caller must run pass by pass; the start derives no text
_NEVER = 1 << 40  # count of missing nonterminals of a rule with a lexeme that matches nothing


@kernel
def prepare(h, n_words):
    """Run all passes at once, for rules without families whose lexemes are evaluated; return the size of the answer,
    ``UNUSUAL``, ``NO_TEXT``, or a status.

    The question is the first ``n_words`` of the stack: ``PACKED_WORDS`` counts; each rule's left side; each rule's length; the
    right sides one after the other; and for each lexeme: the nonterminal to insert before it wherever a rule has it, or -1; its
    skip, or -1; how it ends (``X_KIND``); its expression, the index of a result in VISIT_STAMPS or ``~id``. In the first
    ``P_AS_THEY_ARE`` rules nothing is inserted.

    The answer stands above the question: what :func:`arrange` returns, the numbers of the nonterminals, those of the lexemes,
    the records of LEXEMES that are used and of the end of the text, and the expressions that needed a search to tell whether
    they match anything. ``UNUSUAL``: a lexeme matches the empty text or plainly nothing, or a search gave up.
    """
    head = header(h)
    stack = i64(h, layout.STACK)
    head[layout.STACK_TOP] = n_words
    packed = stack[:n_words].copy()
    n_rules, n_symbols = packed[parser_layout.P_RULES], packed[parser_layout.P_SYMBOLS]
    n, n_lexemes = packed[parser_layout.P_NONTERMINALS], packed[parser_layout.P_LEXEMES]
    at = parser_layout.PACKED_WORDS + n_rules
    lefts, lengths = packed[parser_layout.PACKED_WORDS : at], packed[at : at + n_rules]
    at += n_rules
    short = packed[at : at + n_symbols]
    at += n_symbols
    lead = packed[at : at + n_lexemes]
    skip_of = packed[at + n_lexemes : at + 2 * n_lexemes]
    kinds = packed[at + 2 * n_lexemes : at + 3 * n_lexemes]
    expressions = packed[at + 3 * n_lexemes :]
    barren = np.zeros(n_lexemes, np.int64)
    n_searched = _judge(h, expressions, barren)
    if n_searched < 0:
        return np.int64(n_searched if n_searched == statuses.GROW else UNUSUAL)
    offsets = np.empty(n_rules + 1, np.int64)
    symbols = np.empty(2 * n_symbols, np.int64)
    n_rules = _expand(lefts, lengths, short, lead, packed[parser_layout.P_AS_THEY_ARE], offsets, symbols)
    size = offsets[n_rules]
    rules = (lefts[:n_rules], offsets[: n_rules + 1], symbols[:size])
    known = np.zeros(n, np.int64)
    work = np.empty(n_rules + 2 * size + 2 * n, np.int64)
    nothing = np.empty(0, np.int64)
    _find_productive(rules, barren, known, work, nothing)
    start = packed[parser_layout.P_START]
    if known[start] == 0:
        return np.int64(NO_TEXT)
    numbers = np.empty(n + n_lexemes, np.int64)
    no_family = np.full(n, -1, np.int64)
    nullable = np.zeros(n, np.int64)
    missing = work[:n_rules]
    families = (no_family, nothing, nothing, nullable)
    tables = _arrange(rules, missing, start, families, skip_of, (numbers[:n], numbers[n:]))
    n_used = tables[parser_layout.O_LEXEMES]
    size = len(tables) + len(numbers) + (n_used + 1) * layout.LEXEME_WORDS + n_searched
    if not has_room(h, layout.STACK, n_words + size):
        return np.int64(statuses.GROW)
    out = i64(h, layout.STACK)
    at = n_words
    copy_words(out, at, tables, 0, len(tables))
    at += len(tables)
    copy_words(out, at, numbers, 0, len(numbers))
    at += len(numbers)
    _write_records(h, at, numbers[n:], n_used, skip_of, kinds, expressions)
    at += (n_used + 1) * layout.LEXEME_WORDS
    for t in range(n_lexemes):
        if not flags_of(h, expressions[t]) & PURE:
            out[at] = expressions[t]
            at += 1
    return size


@kernel
def _expand(lefts, lengths, short, lead, as_they_are, offsets, symbols):
    """Write the distinct rules to ``offsets`` and ``symbols``, with what is inserted before their lexemes, and their left sides
    to the front of ``lefts``; return how many.

    Nothing is inserted in the first ``as_they_are`` rules. Duplicates are found in a hash table of the rules kept.
    """
    n_slots = 1
    while n_slots < 2 * len(lefts):
        n_slots *= 2
    slots = np.zeros(n_slots, np.int64)
    offsets[0] = 0
    place = np.int64(0)
    size = np.int64(0)
    kept = 0
    for rule in range(len(lefts)):
        hash_ = mix(layout.HASH_SEED, lefts[rule])
        for _ in range(lengths[rule]):
            symbol = short[place]
            place += 1
            if symbol < 0 and lead[~symbol] >= 0 and rule >= as_they_are:
                symbols[size] = lead[~symbol]
                size += 1
            symbols[size] = symbol
            size += 1
            hash_ = mix(hash_, symbol)
        slot = hash_ & (n_slots - 1)
        while slots[slot] and not _is_rule(lefts, offsets, symbols, slots[slot] - 1, lefts[rule], offsets[kept], size):
            slot = (slot + 1) & (n_slots - 1)
        if slots[slot]:
            size = offsets[kept]
            continue
        lefts[kept] = lefts[rule]
        kept += 1
        offsets[kept] = size
        slots[slot] = kept
    return kept


@kernel
def _is_rule(lefts, offsets, symbols, rule, left, start, end):
    """Return whether rule number ``rule`` is ``left -> symbols[start:end]``."""
    first = offsets[rule]
    is_alike = lefts[rule] == left and offsets[rule + 1] - first == end - start
    return is_alike and equal_words(symbols, first, symbols, start, end - start)


@kernel
def _judge(h, expressions, barren):
    """Replace the places in ``expressions`` by ids, and set ``barren`` to 1 for those that match nothing.

    Returns how many needed a search; or a status, ``UNKNOWN`` if one is plainly nothing or matches the empty text.
    """
    results = i64(h, layout.VISIT_STAMPS)
    n_searched = np.int64(0)
    for t in range(len(expressions)):
        e = results[expressions[t]] if expressions[t] >= 0 else ~expressions[t]
        expressions[t] = e
        flags = flags_of(h, e)
        if e <= EPSILON or flags & NULLABLE:
            return np.int64(statuses.UNKNOWN)
        if not flags & PURE:
            n_searched += 1
            alive = is_nonempty(h, e)
            if alive < 0:
                return np.int64(alive)
            barren[t] = 1 - alive
    return n_searched


@kernel
def _write_records(h, start, numbers, n_used, skip_of, kinds, expressions):
    """Write the records of LEXEMES to the stack from ``start`` on, for the numbered lexemes and for the end of the text."""
    out = i64(h, layout.STACK)
    fill_words(out, start, (n_used + 1) * layout.LEXEME_WORDS, 0)
    for number in range(n_used + 1):
        at = start + number * layout.LEXEME_WORDS
        out[at + layout.X_SYMBOL] = number
        out[at + layout.X_BEGUN] = number
        for field in layout.X_NONE:
            out[at + field] = -1
    for t in range(len(numbers)):
        if numbers[t] >= 0:
            at = start + numbers[t] * layout.LEXEME_WORDS
            out[at + layout.X_EXPRESSION] = expressions[t]
            out[at + layout.X_KIND] = kinds[t]
            if skip_of[t] >= 0:
                skip = numbers[skip_of[t]]
                out[at + layout.X_SKIP] = skip
                out[start + skip * layout.LEXEME_WORDS + layout.X_IS_SKIP] = 1


@kernel
def _find_productive(rules, barren, known, work, seeds):
    """Set ``known`` to 1 for each nonterminal that derives a text. Those that are 1 at the first call are known to.

    Afterwards ``work[:len(lefts)]`` is 0 for the rules that derive a text. ``barren``: 1 for a lexeme that matches nothing;
    ``seeds``: nonterminals that have become known elsewhere since the last call; empty at the first call. ``work``: len(lefts)
    + 2 len(symbols) + 2 len(known) words, kept between calls. All int64.

    A rule counts the nonterminals on its right side that are not known yet. A nonterminal that becomes known decrements its
    rules, and a rule at 0 makes its left side known (Dowling and Gallier's counting, 1984). Each occurrence of a symbol is
    visited once, over all calls together.
    """
    lefts, offsets, symbols = rules
    n_rules = len(lefts)
    n_symbols = len(symbols)
    n = len(known)
    missing = work[:n_rules]
    rule_at = work[n_rules : n_rules + n_symbols]
    links = work[n_rules + n_symbols : n_rules + 2 * n_symbols]
    heads = work[n_rules + 2 * n_symbols : n_rules + 2 * n_symbols + n]
    stack = work[n_rules + 2 * n_symbols + n :]
    top = 0
    if len(seeds) == 0:
        for symbol in range(n):
            heads[symbol] = layout.END_OF_RULE
            if known[symbol]:
                stack[top] = symbol
                top += 1
        for rule in range(n_rules):
            is_barren = False
            for at in range(offsets[rule], offsets[rule + 1]):
                is_barren = is_barren or (symbols[at] < 0 and barren[~symbols[at]] != 0)
            missing[rule] = _NEVER if is_barren else _wait(offsets, symbols, rule, rule_at, heads, links)
            if missing[rule] == 0 and known[lefts[rule]] == 0:
                known[lefts[rule]] = 1
                stack[top] = lefts[rule]
                top += 1
    for i in range(len(seeds)):
        known[seeds[i]] = 1
        stack[top] = seeds[i]
        top += 1
    _settle(lefts, missing, rule_at, heads, links, stack, top, known)


@kernel
def _wait(offsets, symbols, rule, rule_at, heads, links):
    """Enter a rule into the lists of the nonterminals on its right side; return their number (a symbol that occurs twice counts
    twice).

    ``heads[symbol]`` is the last occurrence entered, ``links[at]`` the one before it, ``rule_at[at]`` its rule.
    """
    count = np.int64(0)
    for at in range(offsets[rule], offsets[rule + 1]):
        symbol = symbols[at]
        if symbol >= 0:
            rule_at[at] = rule
            links[at] = heads[symbol]
            heads[symbol] = at
            count += 1
    return count


@kernel
def _settle(lefts, missing, rule_at, heads, links, stack, top, known):
    """Propagate the ``top`` nonterminals on the stack: decrement their rules, and make known the left side of each
    rule at 0.
    """
    while top:
        top -= 1
        at = heads[stack[top]]
        while at >= 0:
            rule = rule_at[at]
            missing[rule] -= 1
            left = lefts[rule]
            if missing[rule] == 0 and known[left] == 0:
                known[left] = 1
                stack[top] = left
                top += 1
            at = links[at]


@kernel
def _arrange(rules, missing, start, families, skip_of, numbers):
    """Number what ``start`` reaches by productive rules, and lay it out. Arrays are int64.

    ``missing``: 0 for the productive rules. ``families``: ``(family_of, uses_at, uses, nullable)``: nonterminal -> family, or
    -1; ``uses[uses_at[f]:uses_at[f + 1]]``: the symbols that members of a family may mention; 1 for a member that derives the
    empty text. ``skip_of``: lexeme -> its skip, or -1. The new numbers go into ``numbers``, of nonterminals (0: not reached)
    and of lexemes (-1: not reached).

    Nonterminal 0 is ``S'``, the first rule ``S' -> S END``. Returns ``OUT_WORDS`` counts, then DOT_SYMBOL, DOT_LEFT and
    DOT_NULL_REST (a word per dot), RULE_LISTS and CORNER_LISTS (two per entry), RULE_HEADS, CORNER_HEADS and NULLABLE (one per
    nonterminal).

    For ``S: "(" S ")" |``, with the lexemes 0 and 1 and END = 2::

        dot              0  1  2 | 3  4  5  6 | 7         S' -> S END | S -> ( S ) | S ->
        DOT_SYMBOL       1 -4 -1 |-2  1 -3 -1 |-1
        DOT_LEFT         0  0  0 | 1  1  1  1 | 1
        DOT_NULL_REST    0  0  1 | 0  0  0  1 | 1
        RULE_HEADS       0  2        RULE_LISTS    (0, -1) (3, -1) (7, 1)      rules of S: dot 7, then dot 3
        CORNER_HEADS    -1  0        CORNER_LISTS  (0, -1)                     S is a corner at dot 0
        NULLABLE         0  1
    """
    lefts, offsets, symbols = rules
    family_of, _, _, nullable = families
    number, lexeme_number = numbers
    order, kept, n_kept, n_symbols = _reach(rules, missing, start, families, numbers)
    n_lexemes = _number_lexemes(lexeme_number, skip_of)
    n_rules = n_kept + 1
    new_lefts = np.zeros(n_rules, np.int64)
    new_offsets = np.zeros(n_rules + 1, np.int64)
    new_symbols = np.empty(n_symbols + 2, np.int64)
    new_symbols[0] = number[start]
    new_symbols[1] = -2 - n_lexemes
    at = 2
    for i in range(1, n_rules):
        rule = kept[i - 1]
        new_lefts[i] = number[lefts[rule]]
        new_offsets[i] = at
        for place in range(offsets[rule], offsets[rule + 1]):
            symbol = symbols[place]
            new_symbols[at] = number[symbol] if symbol >= 0 else -2 - lexeme_number[~symbol]
            at += 1
    new_offsets[n_rules] = at
    n = len(order) + 1
    out = np.empty(parser_layout.OUT_WORDS + 3 * (at + n_rules) + 2 * n_rules + 2 * at + 3 * n, np.int64)
    lists = parser_layout.OUT_WORDS + 3 * (at + n_rules)
    corner_lists = lists + 2 * n_rules
    heads = np.empty(3 * n, np.int64)
    rule_heads = heads[:n]
    corner_heads = heads[n : 2 * n]
    is_null = heads[2 * n :]
    rule_heads[0] = layout.END_OF_RULE
    is_null[0] = 0
    for i in range(n - 1):
        rule_heads[i + 1] = layout.END_OF_RULE if family_of[order[i]] < 0 else layout.NOT_EXPANDED
        is_null[i + 1] = nullable[order[i]]
    for i in range(n):
        corner_heads[i] = layout.END_OF_RULE
    # nullable nonterminals are those that derive a text if all lexemes are barren; numbered, lexeme t is -2 - t
    without_lexemes = np.ones(n_lexemes + 2, np.int64)
    work = np.empty(n_rules + 2 * len(new_symbols) + 2 * n, np.int64)
    new_rules = (new_lefts, new_offsets, new_symbols)
    _find_productive(new_rules, without_lexemes, is_null, work, np.empty(0, np.int64))
    dots = out[parser_layout.OUT_WORDS :]
    n_corners = _lay_out(new_rules, is_null, (0, 0, 0), (rule_heads, corner_heads), dots, out[lists:], out[corner_lists:])
    end = corner_lists + 2 * n_corners
    copy_words(out, end, heads, 0, 3 * n)
    out[parser_layout.O_NONTERMINALS] = n
    out[parser_layout.O_LEXEMES] = n_lexemes
    out[parser_layout.O_DOTS] = at + n_rules
    out[parser_layout.O_RULES] = n_rules
    out[parser_layout.O_CORNERS] = n_corners
    return out[: end + 3 * n]


@kernel
def _reach(rules, missing, start, families, numbers):
    """Number the nonterminals in the order in which the search meets them, and set the lexemes that it meets to 0.

    Returns the nonterminals in that order, the rules that are kept, and how many rules and symbols these are. Parameters as in
    :func:`arrange`.
    """
    lefts, offsets, symbols = rules
    family_of, uses_at, uses, _ = families
    number, lexeme_number = numbers
    n = len(number)
    heads = np.empty(n, np.int64)
    for symbol in range(n):
        heads[symbol] = layout.END_OF_RULE
        number[symbol] = 0
    fill_words(lexeme_number, 0, len(lexeme_number), -1)
    links = np.empty(len(lefts), np.int64)
    for rule in range(len(lefts) - 1, -1, -1):
        if missing[rule] == 0:
            links[rule] = heads[lefts[rule]]
            heads[lefts[rule]] = rule
    order = np.empty(n, np.int64)
    kept = np.empty(len(lefts), np.int64)
    is_met = np.zeros(len(uses_at), np.int64)
    order[0] = start
    number[start] = 1
    met = 1
    n_kept = 0
    n_symbols = 0
    done = 0
    while done < met:
        left = order[done]
        done += 1
        rule = heads[left]
        while rule >= 0:
            kept[n_kept] = rule
            n_kept += 1
            n_symbols += offsets[rule + 1] - offsets[rule]
            met = _meet(symbols, offsets[rule], offsets[rule + 1], number, lexeme_number, order, met)
            rule = links[rule]
        family = family_of[left]
        if family >= 0 and is_met[family] == 0:
            is_met[family] = 1
            met = _meet(uses, uses_at[family], uses_at[family + 1], number, lexeme_number, order, met)
    return order[:met], kept, n_kept, n_symbols


@kernel
def _meet(symbols, first, end, number, lexeme_number, order, met):
    """Number the new nonterminals among ``symbols[first:end]``; return how many have been met by now."""
    for at in range(first, end):
        symbol = symbols[at]
        if symbol < 0:
            lexeme_number[~symbol] = 0
        elif number[symbol] == 0:
            order[met] = symbol
            met += 1
            number[symbol] = met
    return met


@kernel
def _number_lexemes(lexeme_number, skip_of):
    """Number the lexemes that were met, and their skips, in ascending order; return how many."""
    n = len(lexeme_number)
    for lexeme in range(n):
        if lexeme_number[lexeme] == 0 and skip_of[lexeme] >= 0 and lexeme_number[skip_of[lexeme]] < 0:
            lexeme_number[skip_of[lexeme]] = 1
    used = 0
    for lexeme in range(n):
        if lexeme_number[lexeme] >= 0:
            lexeme_number[lexeme] = used
            used += 1
    return used


@kernel
def _lay_out(rules, is_null, first, heads, dots, lists, corners):
    """Write numbered rules as dots, and enter them into the lists of their nonterminals; return the number of corners.

    ``dots`` receives three words per dot, all DOT_SYMBOL first; ``lists`` and ``corners``: pairs (dot, next entry). A *corner*
    of a nonterminal is a dot before it with only nullable symbols before that dot. ``first``: how many dots, rules and corners
    there are already; ``heads``: the first entries of lists, RULE_HEADS and CORNER_HEADS. Lists grow at their front, so a late
    rule is entered without a look at those before it.
    """
    lefts, offsets, symbols = rules
    first_dot, first_rule, first_corner = first
    rule_heads, corner_heads = heads
    n_dots = len(symbols) + len(lefts)
    n_corners = 0
    dot = 0
    for rule in range(len(lefts)):
        left = lefts[rule]
        lists[2 * rule] = first_dot + dot
        lists[2 * rule + 1] = max(rule_heads[left], layout.END_OF_RULE)
        rule_heads[left] = first_rule + rule
        is_corner = True
        begin = dot
        for at in range(offsets[rule], offsets[rule + 1]):
            symbol = symbols[at]
            dots[dot] = symbol
            if is_corner and symbol >= 0:
                corners[2 * n_corners] = first_dot + dot
                corners[2 * n_corners + 1] = corner_heads[symbol]
                corner_heads[symbol] = first_corner + n_corners
                n_corners += 1
            is_corner = is_corner and symbol >= 0 and is_null[symbol] != 0
            dot += 1
        dots[dot] = layout.END_OF_RULE
        null_rest = 1
        for at in range(dot, begin - 1, -1):
            if at < dot and (dots[at] < 0 or is_null[dots[at]] == 0):
                null_rest = 0
            dots[n_dots + at] = left
            dots[2 * n_dots + at] = null_rest
        dot += 1
    return n_corners


# entry points for rules with families, and for late rules, which are made when the parser first predicts a family's member
find_productive = entry_of(_find_productive)
arrange = entry_of(_arrange)
lay_out = entry_of(_lay_out)
