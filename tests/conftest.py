"""Shared set-up: the tests folder is importable (``from naive import Naive``), hypothesis is deterministic and unhurried."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # the reference and the layer tests run without it
    pass
else:
    settings.register_profile("house", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("house")


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT
