"""Data beside the repository (``../shared``). The repository does not contain it, so tests that need some are skipped
elsewhere.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"
MASKBENCH = SHARED / "maskbench" / "dev.jsonl.gz"
PEER_CASES = SHARED / "peer-cases"
CPP_PROGRAMS, PYTHON_PROGRAMS = (SHARED / "humaneval-x" / f"{language}-dev.jsonl.gz" for language in ("cpp", "python"))


def needs(path: Path) -> pytest.MarkDecorator:
    """The mark that skips a test if a file or folder is missing."""
    return pytest.mark.skipif(not path.exists(), reason=f"needs ../shared/{path.relative_to(SHARED)}")


def programs(path: Path) -> list[str]:
    """The programs of HumanEval-X in one language. Skips the test if they are not there."""
    if not path.exists():
        pytest.skip(f"needs ../shared/{path.relative_to(SHARED)}")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]
