"""Python that parses, from a model that is too small to write it unaided. ``python examples/python_code.py [MODEL]``."""

import ast
import sys

from transformers import AutoModelForCausalLM, AutoTokenizer

import cdplugin as cd

if len(sys.argv) > 1:
    name = sys.argv[1]
else:
    from demo_model import model_folder

    name = str(model_folder())

model = AutoModelForCausalLM.from_pretrained(name)
tokenizer = AutoTokenizer.from_pretrained(name)
vocab = cd.Vocabulary.from_huggingface(tokenizer, vocab_size=model.config.vocab_size)
grammar = cd.Compiler(vocab).compile(cd.grammars.PYTHON)
request = "Write a Python function that adds the even numbers of a list. Answer with code only."
prompt = tokenizer.apply_chat_template([{"role": "user", "content": request}], tokenize=False, add_generation_prompt=True)
inputs = tokenizer(prompt + "```python\n", return_tensors="pt", add_special_tokens=False)

for constrained in (False, True):
    processor = cd.GrammarLogitsProcessor(grammar)
    extra = {"logits_processor": [processor], "stopping_criteria": [processor.lookahead]} if constrained else {}
    output = model.generate(**inputs, do_sample=False, max_new_tokens=60, **extra)
    ids = output[0, inputs["input_ids"].shape[1] :].tolist()
    if constrained:  # where the budget cut the text off, a short legal ending
        matcher = grammar.matcher()
        matcher.accept_tokens(ids)
        ids += matcher.shortest_completion()
    text = tokenizer.decode(ids, skip_special_tokens=True)
    try:
        ast.parse(text)
        verdict = "parses"
    except SyntaxError as error:
        verdict = f"line {error.lineno}: {error.msg}"
    print(f"--- {'with' if constrained else 'without'} the grammar: {verdict}\n{text}\n")
