"""Python and C++ that parse, from a model too small to write them unaided. ``python examples/code_that_parses.py [MODEL]``.

Each output ends legally within its budget of tokens (``max_new_tokens`` of the processor). A real parser reads what was
written under the grammar (``ast.parse`` for Python, tree-sitter for C++), and the program fails if it finds an error.

On busy cores, set ``OMP_NUM_THREADS=1``: several threads that wait for each other are slower than one.
"""

import ast
import sys
from collections.abc import Callable

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import cdplugin as cd

TOKENS = 40
NAMES = {"python": "Python", "cpp": "C++"}


def parse_python(text: str) -> None:
    try:
        ast.parse(text)
    except SyntaxError as error:
        raise ValueError(f"line {error.lineno}: {error.msg}") from error


def parse_cpp(text: str) -> None:
    import tree_sitter
    import tree_sitter_cpp

    data = text.encode()
    nodes = [tree_sitter.Parser(tree_sitter.Language(tree_sitter_cpp.language())).parse(data).root_node]
    while nodes:
        node = nodes.pop()
        if node.is_error or node.is_missing:
            raise ValueError(f"line {node.start_point[0] + 1}: {data[node.start_byte : node.end_byte][:40].decode()!r}")
        nodes.extend(child for child in node.children if child.has_error)


JOBS: list[tuple[str, cd.Spec, Callable[[str], None], str]] = [
    ("python", cd.grammars.PYTHON, parse_python, "adds the even numbers of a list"),
    ("python", cd.grammars.PYTHON, parse_python, "counts how often each word occurs in a text"),
    ("cpp", cd.grammars.CPP, parse_cpp, "returns the larger of two integers"),
    ("cpp", cd.grammars.CPP, parse_cpp, "sorts a vector of integers"),
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
    prompts = []
    for language, _, _, task in JOBS:
        request = f"Write a {NAMES[language]} function that {task}. Answer with code only."
        chat = tokenizer.apply_chat_template([{"role": "user", "content": request}], tokenize=False, add_generation_prompt=True)
        prompts.append(f"{chat}```{language}\n")
    # one batch: each prompt once under its grammar and once free
    processor = cd.GrammarLogitsProcessor(
        [compiler.compile(spec) for _, spec, _, _ in JOBS] + [None] * len(JOBS), max_new_tokens=TOKENS
    )
    inputs = tokenizer(prompts + prompts, return_tensors="pt", padding=True, add_special_tokens=False)
    output = model.generate(**inputs, do_sample=False, max_new_tokens=TOKENS, logits_processor=[processor])
    texts = tokenizer.batch_decode(output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    faults = checked = 0
    for number, text in enumerate(texts):
        language, _, parse, _ = JOBS[number % len(JOBS)]
        constrained = number < len(JOBS)
        verdict = "parses"
        try:
            parse(text)
        except ImportError as error:
            verdict = f"not checked: {error}"
        except ValueError as error:
            verdict = str(error)
            faults += constrained
        else:
            checked += constrained
        print(f"--- {language}, {'with' if constrained else 'without'} the grammar: {verdict}\n{text}\n", flush=True)
    print(f"{checked} outputs under a grammar parse, {faults} do not")
    return 1 if faults or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
