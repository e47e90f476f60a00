"""One batch with a grammar of another kind for each prompt, and one free row. ``python examples/batch_mixed.py [MODEL]``.

A check that knows nothing of grammars judges each row. The program fails if a row is not what its grammar demands.

On busy cores, set ``OMP_NUM_THREADS=1``: several threads that wait for each other are slower than one.
"""

import json
import re
import sys
from collections.abc import Callable

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import cdplugin as cd

TOKENS = 32
person = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 130}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
SQL = """
start: "SELECT " NAME ("," NAME)* " FROM " NAME [" WHERE " NAME " = " /[0-9]{1,4}/] ";"
NAME: /[a-z_]{1,12}/
"""


def is_person(text: str) -> bool:
    value = json.loads(text)
    return set(value) == {"name", "age"} and len(value["name"]) <= 20 and 0 <= value["age"] <= 130


def matches(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(pattern, text, re.DOTALL) is not None


DATE = r"(19|20)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
jobs: list[tuple[str, cd.Spec | None, Callable[[str], bool]]] = [
    ("Describe a person as JSON: ", cd.JsonSchema(person), is_person),
    ("A date: ", cd.Regex(DATE), matches(DATE)),
    ("Is the sea blue? Answer: ", cd.Choice(["yes", "no", "it depends"]), lambda text: text in ("yes", "no", "it depends")),
    (
        "An arithmetic expression: ",
        cd.Gbnf('root ::= term ([-+*/] term){1,3}\nterm ::= [1-9] [0-9]{0,2} | "(" root ")"'),
        lambda text: compile(text, "", "eval") is not None,
    ),
    ("All customers in SQL: ", cd.Lark(SQL), matches(r"SELECT [a-z_,]+ FROM [a-z_]+( WHERE [a-z_]+ = [0-9]+)?;")),
    (
        "A haiku's facts. ",
        cd.Template("Season: {season}\nLines: {lines}\n", season=["spring", "autumn"], lines="[1-5]"),
        matches("Season: (spring|autumn)\nLines: [1-5]\n"),
    ),
    (
        "Think, then answer. ",
        cd.After("</think>", cd.Choice(["yes", "no"]), begin="<think>", required=True, max_chars=60),
        matches("<think>.{0,60}</think>(yes|no)"),
    ),
    ("Once upon a time ", None, lambda text: True),
]


def main() -> int:
    if len(sys.argv) > 1:
        name = sys.argv[1]
    else:
        from demo_model import model_folder

        name = str(model_folder())
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(name, padding_side="left")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    compiler = cd.Compiler(cd.Vocabulary.from_huggingface(tokenizer, vocab_size=model.config.vocab_size))
    grammars = [None if spec is None else compiler.compile(spec) for _, spec, _ in jobs]
    processor = cd.GrammarLogitsProcessor(grammars, max_new_tokens=TOKENS)  # each row ends legally within its budget
    inputs = tokenizer([prompt for prompt, _, _ in jobs], return_tensors="pt", padding=True)
    output = model.generate(**inputs, logits_processor=[processor], do_sample=False, max_new_tokens=TOKENS)
    texts = tokenizer.batch_decode(output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    faults = 0
    for (prompt, spec, is_right), text in zip(jobs, texts, strict=True):
        kind = "free" if spec is None else type(spec).__name__
        try:
            right = is_right(text)
        except (ValueError, SyntaxError, KeyError, TypeError):
            right = False
        faults += not right
        print(f"{kind:>10} {'ok   ' if right else 'WRONG'} | {prompt}{text!r}")
    print(f"{len(jobs) - faults} of {len(jobs)} rows are what they must be")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
