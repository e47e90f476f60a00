"""JSON with Outlines over transformers: one text and a batch.

    pip install 'cdplugin[outlines,hf]' jsonschema
    python examples/outlines_json.py [FOLDER OR NAME OF A MODEL]

Without a model it uses SmolLM2-135M-Instruct (see demo_model.py). It prints whether every text is valid.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import outlines
import transformers

import cdplugin as cd
from cdplugin.adapters.outlines import processor, vocabulary

sys.path.insert(0, str(Path(__file__).resolve().parent))
from host_schemas import PROMPTS, SCHEMAS


def main() -> None:
    if len(sys.argv) > 1:
        folder = sys.argv[1]
    else:
        from demo_model import model_folder

        folder = str(model_folder())
    model = outlines.from_transformers(
        transformers.AutoModelForCausalLM.from_pretrained(folder), transformers.AutoTokenizer.from_pretrained(folder)
    )
    compiler = cd.Compiler(vocabulary(model))
    count = 0
    for prompt, schema in zip(PROMPTS, SCHEMAS, strict=True):
        grammar = compiler.compile(cd.JsonSchema(schema, whitespace="compact"))
        generator = outlines.Generator(model, processor=processor(model, grammar))
        for text in [generator(prompt, max_new_tokens=80), *generator.batch([prompt, "JSON: "], max_new_tokens=80)]:
            print(text)
            jsonschema.validate(json.loads(text), schema)
            count += 1
    print(f"{count} texts are valid")


if __name__ == "__main__":
    main()
