"""The shortest use: JSON from a Hugging Face model. ``python examples/hf_json.py [MODEL]``; default: the demo's model."""

import sys

from transformers import AutoModelForCausalLM, AutoTokenizer

import cdplugin as cd

if len(sys.argv) > 1:
    name = sys.argv[1]
else:
    from demo_model import model_folder

    name = str(model_folder())

schema = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 40}, "age": {"type": "integer", "minimum": 0, "maximum": 130}},
    "required": ["name", "age"],
    "additionalProperties": False,
}

model = AutoModelForCausalLM.from_pretrained(name)
tokenizer = AutoTokenizer.from_pretrained(name)
vocab = cd.Vocabulary.from_huggingface(tokenizer, vocab_size=model.config.vocab_size)
grammar = cd.Compiler(vocab).compile(cd.JsonSchema(schema))
processor = cd.GrammarLogitsProcessor(grammar)
inputs = tokenizer("Describe a person as JSON: ", return_tensors="pt")
output = model.generate(**inputs, logits_processor=[processor], stopping_criteria=[processor.lookahead], max_new_tokens=100)
print(tokenizer.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True))
