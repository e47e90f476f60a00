"""Set-up that all tests share: the tests folder is importable (``from naive import Naive``), hypothesis is deterministic and
unhurried.
"""

from __future__ import annotations

import functools
import gc
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def _parsers_when_asked() -> None:
    """Make each parser of jsonschema's ``iri`` check only when it is asked for. The package makes 38 parsers when it is
    imported, which takes three seconds in each process, and jsonschema asks only one of them.
    """
    try:
        import lark
    except ImportError:
        return

    class WhenAsked:
        def __init__(self, *args: Any, **options: Any) -> None:
            self.parser = functools.cache(lambda: made(*args, **options))

        def parse(self, *args: Any, **options: Any) -> Any:
            return self.parser().parse(*args, **options)

    made, lark.Lark = lark.Lark, WhenAsked
    try:
        importlib.import_module("rfc3987_syntax")
    except ImportError:
        pass
    finally:
        lark.Lark = made


_parsers_when_asked()

# they fork, or set limits of a process
collect_ignore = ["fuzz/test_faults.py", "hostile/test_hostile.py", "test_forking.py"] if sys.platform == "win32" else []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=list(tiers.LIMITS), help="leave out what tests/slow.json lists for this tier")
    parser.addoption("--write-passed", metavar="FILE", help="list the tests that passed with as many cases as make check tries")
    parser.addoption("--leave-passed", metavar="FILE", help="leave out the tests that such a file lists")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``-m kernel``, do not even import files without such a test: they would import PyTorch and transformers."""
    if config.getoption("markexpr") != "kernel" or collection_path.suffix != ".py":
        return None
    if (ROOT / "tests" / "kernels") in collection_path.parents or "mark.kernel" in collection_path.read_text(encoding="utf-8"):
        return None
    return True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark everything in tests/kernels as ``kernel``: it also runs interpreted and with checked bounds. Leave out the slow
    tests of a tier.
    """
    for item in items:
        if (ROOT / "tests" / "kernels") in item.path.parents:
            item.add_marker(pytest.mark.kernel)
    left_out = tiers.slow(tier) if (tier := config.getoption("--tier")) else frozenset()
    if passed := config.getoption("--leave-passed"):
        left_out |= frozenset(json.loads(Path(passed).read_text(encoding="utf-8")))
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
        items[:] = [item for item in items if item.nodeid not in left_out]


def pytest_collection_finish() -> None:
    """Spare Python's garbage collector all modules and tests: it would go through them each time that a test asks for
    garbage.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Note in each report whether its test has tried all cases: ``make check`` need not repeat it after ``make test``."""
    report = (yield).get_result()
    report.tried_all = call.when == "call" and report.passed and not tiers.tried_fewer(item.nodeid, item.path)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if getattr(report, "tried_all", False):
        _passed.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    gc.unfreeze()
    if (path := session.config.getoption("--write-passed")) and not hasattr(session.config, "workerinput"):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(sorted(_passed), indent=1) + "\n", encoding="utf-8")


_passed: list[str] = []


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's folder."""
    return ROOT


@pytest.fixture(scope="module")
def one_torch_thread() -> Iterator[None]:
    """Use one thread: with several, tiny matrices spend their time waiting for each other."""
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a small random model and a real tokenizer, which ``from_pretrained`` loads."""
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
