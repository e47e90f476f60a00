"""``cdplugin trace``: show a text token by token, in the terminal or as an HTML page."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdplugin.cli import main as cli

if TYPE_CHECKING:
    from cdplugin.queries.trace import Trace
    from cdplugin.vocab.vocabulary import Vocabulary


def trace(args: argparse.Namespace) -> bool:
    """Show the trace of ``args.text``; returns whether all of it was accepted. Raises CommandError, GrammarError."""
    vocab, grammar = cli.compile_for(args)
    found = grammar.matcher().trace(tokens_of(vocab, read_text(args.text)), limit=args.limit)
    if args.html is not None:
        page = found.html(title=f"{Path(args.spec).name}: trace")
        try:
            Path(args.html).write_text(page, encoding="utf-8")
        except OSError as error:
            raise cli.CommandError(f"{args.html}: {error.strerror}") from None
        print(f"{args.html}: {len(found)} steps, {len(page.encode()):,} bytes")
        if found.stopped:
            print(f"stopped: {found.stopped}")
    elif not show(found):
        print(found.text(), end="")
    return found.accepted


def read_text(argument: str) -> bytes:
    """The argument itself, the content of the file for ``@FILE``, or standard input for ``-``."""
    if argument == "-" or argument.startswith("@"):
        return cli.read(argument.removeprefix("@"))
    return argument.encode("utf-8", "surrogateescape")


def tokens_of(vocab: Vocabulary, data: bytes) -> list[int]:
    """The tokens of a text; single bytes if the vocabulary has no tokenizer. Raises CommandError."""
    if vocab.encode is not None:
        try:
            return list(vocab.encode(data.decode("utf-8")))
        except UnicodeDecodeError as error:
            raise cli.CommandError(f"a tokenizer reads UTF-8: found byte {data[error.start]:#04x} at {error.start}") from None
    by_byte = vocab.token_of[0]
    missing = next((i for i, byte in enumerate(data) if bytes([byte]) not in by_byte), None)
    if missing is not None:
        raise cli.CommandError(f"expected bytes of the vocabulary, found {data[missing]:#04x} at {missing}")
    return [by_byte[bytes([byte])] for byte in data]


def show(found: Trace) -> bool:
    """Print a trace as a coloured table. Without a terminal or ``rich``, print nothing and return False."""
    if not sys.stdout.isatty():
        return False
    try:
        from rich.console import Console
    except ImportError:
        return False
    Console().print(table(found))
    if found.stopped:
        Console(highlight=False).print(f"stopped: {found.stopped}", markup=False)
    return True


def table(found: Trace) -> Any:
    """The trace as a table of ``rich``."""
    from rich.table import Table
    from rich.text import Text

    from cdplugin.queries.trace import step_rows

    out = Table(box=None, pad_edge=False, header_style="bold")
    out.add_column("step", justify="right", style="dim")
    out.add_column("token", max_width=24)
    out.add_column("allowed", justify="right")
    out.add_column("where", style="cyan", ratio=1)
    out.add_column("what", ratio=2)
    for number, step in enumerate(found.steps):
        rows = step_rows(found, number, step)
        columns = [Text("\n".join(part for part in column if part)) for column in zip(*rows, strict=True)]
        columns[1].stylize("reverse" if step.accepted else "bold red reverse")
        if not step.accepted:
            columns[4].stylize("red", 0, len(rows[0][4]))
        out.add_row(*columns)
    return out
