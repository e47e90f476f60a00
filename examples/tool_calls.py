"""A model must call a tool, in Hermes' format; the call is parsed and run. ``python examples/tool_calls.py [MODEL]``.

Without an argument it uses the demo's model, which is small and knows little about tools. It still writes a legal call; the
program fails if it does not. ``tool_choice="auto"`` lets a better model answer in text, with calls in between.

On busy cores, set ``OMP_NUM_THREADS=1``: several threads that wait for each other are slower than one.
"""

import json
import re
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import cdplugin as cd

TOKENS = 64
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


def main() -> int:
    if len(sys.argv) > 1:
        name = sys.argv[1]
    else:
        from demo_model import model_folder

        name = str(model_folder())
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(name)
    vocab = cd.Vocabulary.from_huggingface(tokenizer, vocab_size=model.config.vocab_size)

    spec = cd.Tools(tools, format="hermes", tool_choice="required", parallel=False, on_broken="skip")
    for broken, problem in spec.broken_tools().items():
        print(f"left out: {broken}: {problem}")
    grammar = cd.Compiler(vocab).compile(spec)

    messages = [{"role": "user", "content": "What is the weather in Rome for the next 3 days?"}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    inputs = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)
    processor = cd.GrammarLogitsProcessor(grammar, max_new_tokens=TOKENS)  # the call is complete within the budget
    output = model.generate(**inputs, logits_processor=[processor], do_sample=False, max_new_tokens=TOKENS)
    text = tokenizer.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    print(text)
    calls = re.findall(r"<tool_call>\n(.*?)\n</tool_call>", text, re.DOTALL)
    for call in calls:
        request = json.loads(call)
        arguments = request["arguments"]
        if arguments.get("city") not in CITIES or arguments.get("days") not in range(1, 8) or len(arguments) != 2:
            print(f"not a legal call: {call}")
            return 1
        print("=>", {"get_weather": get_weather}[request["name"]](**arguments))
    if len(calls) != 1:
        print(f"expected one call, found {len(calls)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
