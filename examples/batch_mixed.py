"""One batch, a grammar of another kind for each prompt, one row free. ``python examples/batch_mixed.py [MODEL]``."""

import sys

from transformers import AutoModelForCausalLM, AutoTokenizer

import cdplugin as cd

if len(sys.argv) > 1:
    name = sys.argv[1]
else:
    from demo_model import model_folder

    name = str(model_folder())

person = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 130}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
jobs: list[tuple[str, cd.Spec | None]] = [
    ("Describe a person as JSON: ", cd.JsonSchema(person)),
    ("A date: ", cd.Regex(r"(19|20)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")),
    ("Is the sea blue? Answer: ", cd.Choice(["yes", "no", "it depends"])),
    ("An arithmetic expression: ", cd.Gbnf('root ::= term ([-+*/] term){1,3}\nterm ::= [1-9] [0-9]{0,2} | "(" root ")"')),
    ("A haiku's facts. ", cd.Template("Season: {season}\nLines: {lines}\n", season=["spring", "autumn"], lines="[1-5]")),
    ("Think, then answer. ", cd.After("</think>", cd.Choice(["yes", "no"]), begin="<think>", required=True, max_chars=80)),
    ("Once upon a time ", None),
]

model = AutoModelForCausalLM.from_pretrained(name)
tokenizer = AutoTokenizer.from_pretrained(name, padding_side="left")
tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
vocab = cd.Vocabulary.from_huggingface(tokenizer, vocab_size=model.config.vocab_size)
compiler = cd.Compiler(vocab)
processor = cd.GrammarLogitsProcessor([None if spec is None else compiler.compile(spec) for _, spec in jobs])
inputs = tokenizer([prompt for prompt, _ in jobs], return_tensors="pt", padding=True)
output = model.generate(**inputs, logits_processor=[processor], stopping_criteria=[processor.lookahead], max_new_tokens=40)
for (prompt, spec), row in zip(jobs, output[:, inputs["input_ids"].shape[1] :], strict=True):
    kind = "free" if spec is None else type(spec).__name__
    print(f"{kind:>12} | {prompt}{tokenizer.decode(row, skip_special_tokens=True)!r}")
