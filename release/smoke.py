"""What ``make release`` runs in a fresh environment: the installed package, not the checkout. ``smoke.py [EXTRA]``."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import threading
import urllib.request
from pathlib import Path


def main() -> None:
    extra = sys.argv[1] if len(sys.argv) > 1 else ""
    import cdplugin as cd

    home = Path(cd.__file__).resolve()
    assert Path(sys.prefix).resolve() in home.parents, f"expected the installed package, found {home}"
    for name in cd.__all__:
        if name != "GrammarLogitsProcessor" or importlib.util.find_spec("transformers"):
            getattr(cd, name)
    vocab = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"</s>"], eos_token_ids=256)
    schema = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 18}}, "required": ["age"]}
    compiler = cd.Compiler(vocab)
    matcher = compiler.compile(cd.JsonSchema(schema)).matcher()
    assert matcher.accept_tokens(b'{"age": 1') == 9 and not matcher.accept_token(ord("}"))
    assert matcher.accept_tokens(b"8}") == 2 and matcher.is_accepting()
    import numpy as np

    bits = cd.allocate_token_bitmask(1, vocab.size)
    matcher.fill_next_token_bitmask(bits)
    assert bits[0, 256 // 32] == 1 and (isinstance(bits, np.ndarray) or importlib.util.find_spec("torch"))
    logits = np.zeros((1, vocab.size), np.float32)
    cd.apply_token_bitmask_inplace(logits, bits)
    assert np.flatnonzero(np.isfinite(logits)).tolist() == [256]
    for spec in (cd.Regex("[a-z]+"), cd.Gbnf('root ::= "a"'), cd.grammars.ARITHMETIC, cd.JsonObject()):
        assert compiler.compile(spec).matcher().shortest_completion()
    check_command(schema)
    check_playground(vocab)
    if extra == "hf":
        check_hf(vocab)
    libraries = [name for name in ("torch", "transformers") if importlib.util.find_spec(name)]
    print(f"cdplugin {cd.__version__} works in Python {sys.version.split()[0]}, {', '.join(libraries) or 'without PyTorch'}")


def check_command(schema: dict) -> None:
    """The console script of this environment."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.json"
        path.write_text(json.dumps(schema))
        script = Path(sys.executable).parent / ("cdplugin.exe" if sys.platform == "win32" else "cdplugin")
        done = subprocess.run([script, "trace", path, '{"age": 18}'], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0 and "#/properties/age" in done.stdout, done.stdout + done.stderr


def check_playground(vocab: object) -> None:
    """The page's files are in the package, and an answer comes."""
    from cdplugin.playground.server import Server
    from cdplugin.playground.service import Playground

    with Server(Playground(vocab)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name in ("", "playground.js", "playground.css"):
            with urllib.request.urlopen(server.url + name, timeout=60) as answer:
                assert answer.status == 200 and answer.read()
        body = json.dumps({"kind": "regex", "spec": "a|b", "text": ""}).encode()
        request = urllib.request.Request(server.url + "api/step", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert json.load(answer)["allowed"] == 2
        server.shutdown()


def check_hf(vocab: object) -> None:
    """generate() of a small random model."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    import cdplugin as cd

    torch.manual_seed(0)
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
    }
    model = LlamaForCausalLM(LlamaConfig(vocab_size=257, eos_token_id=256, pad_token_id=256, **sizes)).eval()
    grammar = cd.Compiler(vocab).compile(cd.Regex("(yes|no)[.!]"))
    ids = torch.tensor([[65, 66]])
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), logits_processor=[cd.GrammarLogitsProcessor(grammar)], max_new_tokens=8
    )
    assert bytes(out[0, 2:].tolist()[:-1]) in (b"yes.", b"yes!", b"no.", b"no!")


if __name__ == "__main__":
    main()
