"""Compile BNF text into rules over lexemes."""

from __future__ import annotations

from cdplugin.errors import GrammarError
from cdplugin.frontends.bnf.fold import fold_rules
from cdplugin.frontends.bnf.parse import parse
from cdplugin.frontends.bnf.write import Writer, check_references
from cdplugin.frontends.cycles import merge_cycles
from cdplugin.frontends.source import Source
from cdplugin.ir import GrammarIR
from cdplugin.limits import DEFAULT_LIMITS, Limits


def compile_bnf(
    text: str,
    syntax: str,
    root: str = "root",
    limits: Limits = DEFAULT_LIMITS,
    ir: GrammarIR | None = None,
    *,
    fold: bool = True,
) -> GrammarIR:
    """Compile a grammar in ``"gbnf"`` or ``"xgrammar"`` syntax, into ``ir`` if one is given. All lexemes are EXACT.

    ``fold``: merge regular parts into few, large lexemes. Without it, each literal and class is a lexeme of its own; the
    language is the same. Raises ``GrammarError``, ``UnsupportedError`` or ``LimitExceeded``, with line and column.
    """
    for name, value in (("grammar", text), ("root", root)):
        if not isinstance(value, str):
            raise GrammarError(f"wrong type of {name}", expected="str", found=type(value).__name__)
    source = Source(text)
    source.check(limits)
    ir = ir or GrammarIR()
    ir.count_text(len(text), limits)
    grammar = parse(source, syntax, limits)
    mentioned = check_references(grammar, root)
    folded = fold_rules(grammar, mentioned)
    if not fold:
        folded = folded._replace(inline={n: one for n, one in folded.inline.items() if grammar.rules[n].options.needs_regular})
    writer = Writer(grammar, ir, folded, limits, fold)
    ir.start = writer.write(root, mentioned)
    if fold:
        merge_cycles(ir)
    return ir
