"""A model that must call a tool, in Hermes' format, and the call parsed and run. ``python examples/tool_calls.py [MODEL]``.

Without an argument the demo's model is taken, which is small and knows little about tools: what it writes is a legal call all
the same. ``tool_choice="auto"`` lets a model that knows better answer in text, with calls in between.
"""

import json
import re
import sys

from transformers import AutoModelForCausalLM, AutoTokenizer

import cdplugin as cd

if len(sys.argv) > 1:
    name = sys.argv[1]
else:
    from demo_model import model_folder

    name = str(model_folder())

CITIES = ["Oslo", "Rome", "Tokyo"]
tools = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of the next days",
            "parameters": {
                "type": "object",
                "properties": {"city": {"enum": CITIES}, "days": {"type": "integer", "minimum": 1, "maximum": 7}},
                "required": ["city", "days"],
                "additionalProperties": False,
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "broken", "parameters": {"type": "object", "properties": {"x": {"type": "strin"}}}},
    },
]


def get_weather(city: str, days: int) -> str:
    return f"{city}, {days} days: sunny"


model = AutoModelForCausalLM.from_pretrained(name)
tokenizer = AutoTokenizer.from_pretrained(name)
vocab = cd.Vocabulary.from_huggingface(tokenizer, vocab_size=model.config.vocab_size)

spec = cd.Tools(tools, format="hermes", tool_choice="required", parallel=False, on_broken="skip")
for broken, problem in spec.broken.items():
    print(f"left out: {broken}: {problem}")
grammar = cd.Compiler(vocab).compile(spec)

messages = [{"role": "user", "content": "What is the weather in Rome for the next 3 days?"}]
prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
inputs = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)
processor = cd.GrammarLogitsProcessor(grammar)
output = model.generate(**inputs, logits_processor=[processor], stopping_criteria=[processor.lookahead], max_new_tokens=120)
text = tokenizer.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
print(text)
for call in re.findall(r"<tool_call>\n(.*?)\n</tool_call>", text, re.DOTALL):
    request = json.loads(call)
    print("=>", {"get_weather": get_weather}[request["name"]](**request["arguments"]))
