"""Fill gaps in the middle of a text with an ordinary left-to-right model: ``python examples/fill_in.py [MODEL]``.

The text around the gaps is fixed. What the model writes has to fit the text before *and* after it, so that the whole is
legal. Without an argument it uses the demo's model.
"""

import json
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import cdplugin as cd
from cdplugin.adapters.diffusion import fill_in

if len(sys.argv) > 1:
    name = sys.argv[1]
else:
    from demo_model import model_folder

    name = str(model_folder())

schema = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "born": {"type": "integer", "minimum": 1000, "maximum": 2030},
        "known_for": {"type": "array", "items": {"type": "string", "maxLength": 40}, "minItems": 1, "maxItems": 4},
        "country": {"type": "string", "maxLength": 20},
    },
    "required": ["name", "born", "known_for", "country"],
    "additionalProperties": False,
}

model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32)
tokenizer = AutoTokenizer.from_pretrained(name)
vocab = cd.Vocabulary.from_huggingface(tokenizer, vocab_size=model.config.vocab_size)
grammar = cd.Compiler(vocab).compile(cd.JsonSchema(schema, whitespace=" ?"))
infill = cd.Infill(grammar)

pieces = [
    '{"name": "Ada Lovelace", "born": ',
    cd.GAP,
    ', "known_for": ["',
    cd.GAP,
    '", "first computer program"], "country": "',
    cd.GAP,
]


def prompt(before: bytes, after: bytes) -> list[int]:
    """A model with tokens for fill-in-the-middle would get ``<prefix>…<suffix>…<middle>``. This model is told what to do,
    and goes on.
    """
    task = f"Complete this JSON. It will go on with: {after.decode()}" if after else "Complete this JSON."
    text = f"<|im_start|>user\n{task}<|im_end|>\n<|im_start|>assistant\n{before.decode()}"
    return list(tokenizer.encode(text, add_special_tokens=False))


text = fill_in(model, infill, pieces, prompt, max_new_tokens=24)
print("".join("▁▁▁" if piece is cd.GAP else str(piece) for piece in pieces))
print(text)
print(json.loads(text))

at = 0
for piece in pieces:
    if piece is not cd.GAP:
        at = text.index(str(piece), at) + len(str(piece))
assert infill.accepts(text.encode())
print("what was fixed is there, in order, and the whole is legal")
