"""Outlines itself over transformers, llama.cpp and MLX, with a real small model (``make hosts``)."""

from __future__ import annotations

from typing import Any

import pytest

outlines = pytest.importorskip("outlines", reason="Outlines is not installed here: make hosts")
pytest.importorskip("torch")

from host_tools import PROMPT, SCHEMAS, check, gguf_file, model_folder  # noqa: E402
from vllm_tools import is_valid  # noqa: E402

import cdplugin as cd  # noqa: E402
from cdplugin.adapters import outlines as adapter  # noqa: E402

pytestmark = [pytest.mark.model, pytest.mark.usefixtures("one_torch_thread")]


def of_transformers() -> Any:
    transformers = pytest.importorskip("transformers")
    folder = model_folder()
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    return outlines.from_transformers(model, transformers.AutoTokenizer.from_pretrained(folder))


def of_llama() -> Any:
    llama_cpp = pytest.importorskip("llama_cpp")
    return outlines.from_llamacpp(llama_cpp.Llama(gguf_file(), n_ctx=512, n_threads=1, verbose=False), chat_mode=False)


def of_mlx() -> Any:
    mlx_lm = pytest.importorskip("mlx_lm")
    return outlines.from_mlxlm(*mlx_lm.load(model_folder()))


LIMIT = {"torch": "max_new_tokens", "numpy": "max_tokens", "mlx": "max_tokens"}


@pytest.fixture(scope="module", params=[of_transformers, of_llama, of_mlx])
def model(request: pytest.FixtureRequest) -> Any:
    return request.param()


def test_generators(model: Any) -> None:
    """Three schemas, and one generator used twice with different prompts: Outlines resets the processor."""
    options = {LIMIT[model.tensor_library_name]: 60}
    generators = [adapter.generator(model, cd.JsonSchema(schema, whitespace="compact")) for schema in SCHEMAS]
    check([generator(PROMPT, **options) for generator in generators])
    assert is_valid(SCHEMAS[0], generators[0]("Something else: ", **options))


def test_streams_and_batches(model: Any) -> None:
    options = {LIMIT[model.tensor_library_name]: 60}
    generator = adapter.generator(model, cd.JsonSchema(SCHEMAS[0], whitespace="compact"))
    if model.tensor_library_name == "torch":
        assert all(is_valid(SCHEMAS[0], text) for text in generator.batch([PROMPT, "A longer one, for padding: "], **options))
    else:
        assert is_valid(SCHEMAS[0], "".join(generator.stream(PROMPT, **options)))


def test_its_own_function_takes_our_processor(model: Any) -> None:
    grammar = cd.Compiler(adapter.vocabulary(model)).compile(cd.Choice(["red", "green"]))
    generator = outlines.Generator(model, processor=adapter.processor(model, grammar))
    assert generator(PROMPT, **{LIMIT[model.tensor_library_name]: 10}) in ("red", "green")


def test_errors(model: Any) -> None:
    with pytest.raises(cd.GrammarError, match="integr"):
        adapter.generator(model, cd.JsonSchema({"type": "integr"}))
    with pytest.raises(cd.CdpluginError, match="expected a model of transformers, MLX or llama.cpp, whose .*, found object"):
        adapter.generator(object(), cd.Regex("a"))
