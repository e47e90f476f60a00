"""JSON with mlx-lm: one text and a batch, each under its own schema.

    pip install 'cdplugin[mlx]' jsonschema
    python examples/mlx_json.py [FOLDER OR NAME OF A MODEL]

Without a model it uses SmolLM2-135M-Instruct (see demo_model.py). It prints whether every text is valid.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import mlx_lm

import cdplugin as cd
from cdplugin.adapters import mlx

sys.path.insert(0, str(Path(__file__).resolve().parent))
from host_schemas import PROMPTS, SCHEMAS


def main() -> None:
    if len(sys.argv) > 1:
        folder = sys.argv[1]
    else:
        from demo_model import model_folder

        folder = str(model_folder())
    model, tokenizer = mlx_lm.load(folder)[:2]
    compiler = cd.Compiler(mlx.vocabulary(model, tokenizer))
    grammars = [compiler.compile(cd.JsonSchema(schema, whitespace="compact")) for schema in SCHEMAS]

    processor = mlx.GrammarLogitsProcessor(grammars[0])
    texts = [mlx_lm.generate(model, tokenizer, prompt=PROMPTS[0], max_tokens=80, logits_processors=[processor])]
    prompts = [tokenizer.encode(prompt) for prompt in PROMPTS]
    texts += [written.text for written in mlx.batch_generate(model, tokenizer, prompts, grammars, max_tokens=80)]
    for schema, text in zip([SCHEMAS[0], *SCHEMAS], texts, strict=True):
        print(text)
        jsonschema.validate(json.loads(text), schema)
    print(f"{len(texts)} texts are valid")


if __name__ == "__main__":
    main()
