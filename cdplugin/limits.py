"""Budgets on work and memory. They are counted, never timed, so that a request has the same outcome on any machine."""

from __future__ import annotations

from dataclasses import dataclass, fields

from cdplugin.errors import LimitExceeded

BEYOND_TEXT = 1 << 24
"""Characters, items or tokens that no text reaches: an upper bound above this is treated as no bound."""
_MOST = 1 << 62


@dataclass(frozen=True, slots=True)
class Limits:
    """Work and memory that one grammar or one request may cost. Crossing a limit raises ``LimitExceeded``.

    All are counts or bytes, from 1 to 2**62 - 1, and all front ends share them, so a caller sets them in one place.
    Raises ``ValueError`` for a number outside that range, ``TypeError`` for what is not an integer.
    """

    max_spec_bytes: int = 8 << 20
    """Size of a schema, grammar or pattern as text."""
    max_spec_depth: int = 1_000
    """Nesting depth of a schema, grammar or pattern."""
    max_rules: int = 400_000
    """Rules of the compiled grammar (all alternatives of all nonterminals)."""
    max_lexemes: int = 100_000
    """Distinct lexemes of the compiled grammar."""
    max_expr_nodes: int = 300_000
    """Nodes of the expressions (numbers, patterns and other lexemes) of one grammar, each counted once."""
    max_repeat: int = 1 << 24
    """Largest count of a bounded repetition that is kept symbolic inside a lexeme."""
    max_expr_width: int = 4_096
    """Alternatives of one derivative; crossing it means an exponential regular expression."""
    max_row_items: int = 100_000
    """Kernel items of one Earley row."""
    max_pairs: int = 4_096
    """(row, lexer state) pairs of one parser state; more means an exponentially ambiguous lexing."""
    emptiness_fuel: int = 200_000
    """Derivatives taken to decide whether an expression with ``&`` or ``~`` is empty."""
    max_step_work: int = 50_000_000
    """Work of one step, in units of about ten nanoseconds. A step is a mask (three times as much under a budget of tokens), a
    token, or one question (twice as much for a short ending).
    """
    max_compile_work: int = 200_000_000
    """Work, in the same units, to decide which lexemes of one grammar match anything."""
    max_completion_steps: int = 50_000
    """Cursors visited to find one short ending of a text."""
    max_capture_steps: int = 5_000_000
    """Steps taken to find the captures of one text: lexer steps and items visited; an item that is stored counts eight."""
    max_arena_bytes: int = 144 << 20
    """Bytes of states and masks of one compiled grammar before unused ones are dropped. A step may exceed it by a quarter."""
    max_cache_bytes: int = 1 << 30
    """Bytes of compiled grammars that one :class:`cdplugin.Compiler` keeps."""
    max_learned_bytes: int = 16 << 20
    """Bytes of mask bases that the grammars of one vocabulary share; below one MiB they share nothing."""
    max_infill_bytes: int = 512 << 20
    """Bytes of tables in the process that each :class:`cdplugin.Infill` leaves for the next one of its grammar; 1: none."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"Limits.{field.name}: expected an integer, found {type(value).__name__}")
            if not 1 <= value < _MOST:
                found = str(value) if value.bit_length() < 100 else f"a number of {value.bit_length()} bits"
                raise ValueError(f"Limits.{field.name}: expected 1 to 2**62 - 1, found {found}")


DEFAULT_LIMITS = Limits()


def at_most(limits: Limits, name: str) -> str:
    """The ``expected`` part of the message for a crossed limit."""
    return f"at most Limits.{name} = {getattr(limits, name)}"


def check_length(what: str, nbytes: int, limits: Limits, location: str = "") -> None:
    """Raise ``LimitExceeded`` where ``what``, a text, has more than ``Limits.max_spec_bytes``."""
    if nbytes > limits.max_spec_bytes:
        found = f"{nbytes} bytes"
        raise LimitExceeded(f"{what} is too long", expected=at_most(limits, "max_spec_bytes"), found=found, location=location)
