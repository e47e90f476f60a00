"""Shared set-up: the tests folder is importable (``from naive import Naive``), hypothesis is deterministic and unhurried."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]
import tiers  # noqa: E402 - from the tests folder

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # the reference and the layer tests run without it
    pass
else:
    settings.register_profile("house", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("house")


# they fork, or set limits of a process
collect_ignore = ["fuzz/test_faults.py", "hostile/test_hostile.py", "test_forking.py"] if sys.platform == "win32" else []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=list(tiers.LIMITS), help="leave out what tests/slow.json lists for this tier")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Everything in tests/kernels also runs interpreted and with checked bounds; `make test` leaves out what takes long."""
    for item in items:
        if (ROOT / "tests" / "kernels") in item.path.parents:
            item.add_marker(pytest.mark.kernel)
    if tier := config.getoption("--tier"):
        left_out = tiers.slow(tier)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
        items[:] = [item for item in items if item.nodeid not in left_out]


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="module")
def one_torch_thread() -> Iterator[None]:
    """Tiny matrices on several threads spend their time waiting for each other."""
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small random model with a real tokenizer, as a folder that ``from_pretrained`` loads."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from tokenizers_data import smollm2

    tokenizer = smollm2()
    folder = tmp_path_factory.mktemp("model") / "m"
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
    }
    config = transformers.LlamaConfig(vocab_size=len(tokenizer), eos_token_id=tokenizer.eos_token_id, **sizes)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
