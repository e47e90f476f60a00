"""The entry point of the command line: ``cdplugin check``, ``mask``, ``trace``, ``playground``, ``keywords``, ``warmup``,
``learn``, ``doctor``.

Exit status: 0 accepted (or all well), 1 refused (or something is wrong), 2 wrong usage, a grammar that does not compile, or an
output that cannot be written; as in shells, 130 after Ctrl-C, and 141 where the reader of the output is gone. Only the argument
parser is imported at the start; each command imports what it needs.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from cdplugin.bits import bit_members, bitmask_words

if TYPE_CHECKING:
    from cdplugin.matcher import Grammar, Matcher
    from cdplugin.specs.base import Spec
    from cdplugin.vocab.vocabulary import Vocabulary

Run = Callable[[argparse.Namespace], int]
"""A command: takes its arguments and returns the exit status."""
OK, REFUSED, USAGE = 0, 1, 2
INTERRUPTED, UNREAD = 130, 141
KINDS = ("json-schema", "regex", "choice", "json", "lark", "gbnf", "ebnf")
_BY_SUFFIX = {
    ".json": "json-schema",
    ".re": "regex",
    **{f".{kind}": kind for kind in ("regex", "choice", "lark", "gbnf", "ebnf")},
}
_MOST_BYTES = 64 << 20  # of a file
_SUFFIXES = ".json (JSON Schema), .lark, .gbnf, .ebnf, .regex, .choice (a text per line)"


class CommandError(Exception):
    """A message for the user; the program ends with status 2."""


def read(name: str) -> bytes:
    """The bytes of a file; ``-`` is the standard input. Raises CommandError."""
    if name == "-" and sys.stdin is None:
        raise CommandError("-: expected a standard input, found it closed")
    try:
        with nullcontext(sys.stdin.buffer) if name == "-" else open(name, "rb") as file:
            data: bytes = file.read(_MOST_BYTES + 1)
    except OSError as error:
        remedy = "; expected a file, or - for the standard input" if isinstance(error, FileNotFoundError) else ""
        raise CommandError(f"{name}: {error.strerror}{remedy}") from None
    if len(data) > _MOST_BYTES:  # a device or a pipe may be endless
        raise CommandError(f"{name}: expected at most {_MOST_BYTES} bytes, found more")
    return data


def folder(name: str) -> Path:
    """A folder to write to, created if necessary. Raises CommandError."""
    path = Path(name).absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError as error:
        raise CommandError(f"{name}: expected a folder to write to: {error.strerror}") from None


def at_least(least: int) -> Callable[[str], int]:
    """An argument type: an integer that is at least ``least``."""

    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"expected at least {least}, found {value}")
        return value

    number.__name__ = "integer"  # argparse shows it for a text that is not a number
    return number


def load_spec(name: str, kind: str | None) -> Spec:
    """The spec in a file. ``kind``: if None, the file's suffix decides. Raises CommandError, GrammarError."""
    from cdplugin.specs.kinds import spec_of

    if kind == "json":
        return spec_of(kind, "")
    kind = kind or _BY_SUFFIX.get(Path(name).suffix)
    if kind is None:
        raise CommandError(f"{name}: expected a suffix out of {', '.join(_BY_SUFFIX)}, or --kind {'|'.join(KINDS)}")
    try:
        text = read(name).decode("utf-8-sig")  # some editors begin a file with a byte order mark
    except UnicodeDecodeError as error:
        raise CommandError(f"{name}: expected UTF-8, found byte {error.object[error.start]:#04x} at {error.start}") from None
    return spec_of(kind, text)


def compile_for(args: argparse.Namespace) -> tuple[Vocabulary, Grammar]:
    """The vocabulary and the grammar that the arguments name."""
    from cdplugin.cli.vocab import load_vocabulary
    from cdplugin.compiler import Compiler
    from cdplugin.warmup import warm_if_cold

    warm_if_cold()
    vocab = load_vocabulary(args.tokenizer, args.vocab_size, args.end)
    return vocab, Compiler(vocab).compile(load_spec(args.spec, args.kind))


def expected(matcher: Matcher) -> str:
    """What may come at a matcher's place."""
    from cdplugin.queries import explain

    arena, tables, cursor = matcher._here()
    with arena.lock, arena.one_budget(arena.limits.max_step_work):
        return explain.expected(arena, tables, cursor)


def place(data: bytes, offset: int) -> tuple[int, int, str]:
    """For a byte of a text that may not be UTF-8: line and column (from 1, in code points), and the line with a caret."""
    from cdplugin.errors import caret_context

    before = data[:offset].decode("utf-8", "replace")
    text = before + data[offset:].decode("utf-8", "replace")
    line, start = before.count("\n") + 1, before.rfind("\n") + 1
    return line, len(before) - start + 1, caret_context(text, len(before))


def follow(matcher: Matcher, vocab: Vocabulary, data: bytes) -> tuple[int, str] | None:
    """Follow the tokens of ``data``. Returns None, or the offset of the first byte that is refused, and why."""
    from cdplugin.cli.trace import tokens_of
    from cdplugin.queries.explain import refused_byte

    offset = 0
    for token in tokens_of(vocab, data):
        if not matcher.accept_token(token):
            reason = matcher.explain(token)
            _, found, wanted = reason.partition(": expected ")
            return offset + refused_byte(reason), f"expected {wanted}" if found else reason
        offset += len(vocab.tokens[token] or b"")
    return None


def check(args: argparse.Namespace) -> int:
    """``cdplugin check``: check whether each file is accepted."""
    vocab, grammar = compile_for(args)
    for keyword, pointer in grammar.relaxed:
        print(f"not enforced: {keyword} at {pointer or '/'}", file=sys.stderr)
    status = OK
    for name in args.files:
        data = read(name)
        if not args.exact and data.endswith(b"\n"):
            data = data[:-2] if data.endswith(b"\r\n") else data[:-1]
        matcher = grammar.matcher()
        refusal = follow(matcher, vocab, data)
        if refusal is None and matcher.is_accepting():
            print(f"{name}: accepted ({len(data)} bytes)")
            continue
        status = REFUSED
        report_refusal(name, data, refusal, matcher)
    return status


def report_refusal(name: str, data: bytes, refusal: tuple[int, str] | None, matcher: Matcher) -> None:
    """Print where and why a text was refused (:func:`follow`), or, for None, that it ends too early."""
    if refusal is None:
        offset, what, why = len(data), "ends too early, after", f"expected {expected(matcher)}"
    else:
        (offset, why), what = refusal, "refused at"
    line, column, context = place(data, offset)
    print(f"{name}: {what} byte {offset}, line {line}, column {column}: {why}\n{context}")


def mask(args: argparse.Namespace) -> int:
    """``cdplugin mask``: show what is allowed after a text."""
    import numpy as np

    from cdplugin.vocab.groups import SPECIAL, TokenGroups, show_token

    vocab, grammar = compile_for(args)
    matcher = grammar.matcher()
    data = args.text.encode("utf-8", "surrogateescape")
    refusal = follow(matcher, vocab, data)
    if refusal is not None:
        report_refusal("text", data, refusal, matcher)
        return REFUSED
    bits = np.zeros((1, bitmask_words(vocab.size)), np.int32)
    matcher.fill_next_token_bitmask(bits, 0)
    allowed = bit_members(bits, vocab.size).tolist()
    ends = "yes" if matcher.is_accepting() else "no"
    print(f"{len(allowed)} of {vocab.size} tokens are allowed; the text may end here: {ends}")
    for sample in TokenGroups(vocab).samples(bits[0], args.samples):
        if sample.name != SPECIAL:
            more = " …" if sample.count > args.samples else ""
            shown = " ".join(show_token(vocab.tokens[token] or b"") for token in sample.tokens)
            print(f"  {sample.name:<20}{sample.count:>8}   {shown}{more}")
    print(f"  expected: {expected(matcher)}")
    return OK


def warmup(args: argparse.Namespace) -> int:
    """``cdplugin warmup``: compile the kernels, and build the vocabulary's cache."""
    from cdplugin.cli.vocab import load_vocabulary
    from cdplugin.kernels.jit.cache_files import cache_root
    from cdplugin.warmup import Ticker, warm_kernels

    if args.target or args.out:
        from cdplugin.cli import carry

        return carry.carry(args)
    warm_kernels(sys.stdout, infill=True)
    if args.tokenizer != "byte":
        with Ticker(f"vocabulary of {args.tokenizer}", sys.stdout):
            vocab = load_vocabulary(args.tokenizer, args.vocab_size, args.end)
        print(vocab)
    print(f"cache folder: {cache_root() or 'none: no folder can be written (see `cdplugin doctor`)'}")
    return OK


def later(name: str) -> Run:
    """A command that is in a module of its own, both called ``name``; the module is imported when the command runs."""
    return lambda args: OK if getattr(import_module(f"cdplugin.cli.{name}"), name)(args) else REFUSED


def parser() -> argparse.ArgumentParser:
    """The argument parser of all commands."""
    out = argparse.ArgumentParser(prog="cdplugin", description="Constrained decoding: look at grammars and masks.")
    out.add_argument("--version", action="store_true", help="print the version")
    commands = out.add_subparsers(dest="command", metavar="COMMAND")

    def add_plain(name: str, text: str, run: Run | None = None) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run or later(name))
        return command

    def add(name: str, text: str, run: Run | None = None, *, spec: bool = False) -> argparse.ArgumentParser:
        command = add_plain(name, text, run)
        if spec:
            command.add_argument("spec", metavar="SPEC", help=f"grammar file: {_SUFFIXES}")
            command.add_argument("--kind", choices=KINDS, help="what SPEC is, where the suffix does not tell")
        tokenizer = "byte (default: the 256 bytes), a model folder or hub name, or a tokenizer file"
        command.add_argument("--tokenizer", default="byte", metavar="NAME", help=tokenizer)
        command.add_argument("--vocab-size", type=at_least(1), metavar="N", help="width of the logits, where they are padded")
        command.add_argument("--end", type=at_least(0), nargs="*", default=[], metavar="ID", help="end token ids")
        return command

    command = add("check", "Is each file a text of the grammar? Prints the first byte refused.", check, spec=True)
    command.add_argument("files", nargs="+", metavar="FILE", help="texts to check; - is the standard input")
    command.add_argument("--exact", action="store_true", help="a final line break belongs to the text")
    command = add("mask", "What is allowed next after a text?", mask, spec=True)
    command.add_argument("text", metavar="TEXT", help="the text so far; may be empty")
    command.add_argument("--samples", type=at_least(0), default=10, metavar="N", help="tokens to show of each kind")
    command = add("trace", "A text, token by token: what was allowed where, what was refused and why.", spec=True)
    command.add_argument("text", metavar="TEXT", help="the text; @FILE reads a file, - the standard input")
    command.add_argument("--html", metavar="FILE", help="write a page (one file that loads nothing) instead of a table")
    command.add_argument("--limit", type=at_least(1), default=1_000, metavar="N", help="steps to show at most")
    command = add("playground", "A local page: what a schema or grammar allows, as you type.")
    command.add_argument("--port", type=int, default=8765, metavar="N", help="port on 127.0.0.1; 0: any that is free")
    command.add_argument("--model", metavar="NAME", help="a model folder or hub name whose constrained answers a button shows")
    command.add_argument("--open", action="store_true", help="open the page in the browser")
    command = add_plain("keywords", "JSON Schema, draft by draft: what is enforced, what is refused, and why.")
    command.add_argument("keywords", nargs="*", metavar="KEYWORD", help="keywords to show (default: all)")
    command.add_argument("--draft", metavar="DRAFT", help="4, 6, 7, 2019-09, 2020-12, or none (no $schema); default: all")
    command.add_argument("--json", action="store_true", help="for programs: a list of objects")
    command = add("warmup", "Compile the kernels and build the vocabulary's cache, ahead of the first request.", warmup)
    target = "compile for a level of the instruction set (x86-64-v3, armv8, …), into --out"
    command.add_argument("--target", metavar="LEVEL", help=target)
    command.add_argument("--out", metavar="DIR", help="where that goes: carry it in an image, and name it in CDPLUGIN_CARRIED")
    command = add("learn", "What grammars have in common, found ahead: for CDPLUGIN_LEARNED.")
    command.add_argument("specs", nargs="+", metavar="SPEC", help=f"grammar files like those that will be served: {_SUFFIXES}")
    command.add_argument("--kind", choices=KINDS, help="what they are, where suffixes do not tell")
    command.add_argument("--out", required=True, metavar="DIR", help="the folder to write to")
    texts = "texts of each grammar whose masks are taken"
    command.add_argument("--texts", type=at_least(1), default=4, metavar="N", help=texts)
    command = add("doctor", "Versions, cache folder, kernels, the tokenizer's self-check.")
    command.add_argument("--vllm", action="store_true", help="also: will this vLLM take the backend? (imports vLLM)")
    command.add_argument("--url", help="also: is the vLLM server at this address well? (a request or two; key: VLLM_API_KEY)")
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    for stream in (sys.stdout, sys.stderr):
        # a terminal's encoding may lack characters of a schema or a file's name
        if getattr(stream, "errors", None) == "strict":
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        status = _run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return UNREAD
    except OSError as error:
        if error.filename is not None:
            raise
        print(f"cdplugin: error: standard output: {error.strerror}", file=sys.stderr)
        _drop_output()
        return USAGE


def _run(arguments: Sequence[str] | None) -> int:
    from cdplugin.errors import CdpluginError

    arguments_parser = parser()
    args = arguments_parser.parse_args(arguments)
    if args.version:
        from cdplugin import __version__

        print(__version__)
        return OK
    if args.command is None:
        arguments_parser.print_help()
        return USAGE
    try:
        names = [getattr(args, "spec", ""), *getattr(args, "files", ()), *getattr(args, "specs", ())]
        if args.command == "trace":
            names.append(args.text.removeprefix("@"))
        if names.count("-") > 1:
            raise CommandError("-: expected the standard input once, found it named more often")
        return args.run(args)
    except (CommandError, CdpluginError) as error:
        print(f"cdplugin: error: {error}", file=sys.stderr)
        return USAGE


def _drop_output() -> None:
    """Make Python's last flush of the standard output write to nowhere: the output cannot be written."""
    with contextlib.suppress(OSError, ValueError):  # ValueError: a stream without a file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


if __name__ == "__main__":
    sys.exit(import_module("cdplugin.cli.main").main())  # the module whose classes the commands import
