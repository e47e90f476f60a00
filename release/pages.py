"""What ``make release`` runs after ``smoke.py``: the examples of README and of the site's quick starts, copied as they stand.

    pages.py [--model FOLDER] [--found] PAGE …

A block runs where what the comment before it names is installed, page by page, with the names of the blocks before it.
``model`` is a model's folder. Prints how many blocks ran, and what those that did not would have needed; ``--found``: fails if
no block ran that needs something.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))

from doc_blocks import blocks  # noqa: E402


def try_page(page: Path, model: str) -> tuple[int, set[str], bool]:
    """Run a page's blocks: how many ran, what was absent for others, and whether one ran that needs something."""
    names: dict[str, object] = {"__name__": "__main__", "name": model}
    ran, absent, extra = 0, set(), False
    for block in blocks(page):
        missing = {need for need in block.needs if (not model if need == "model" else importlib.util.find_spec(need) is None)}
        absent |= missing
        if missing or block.not_run:
            continue
        source = "\n" * block.line + block.source  # so that a traceback has the page's lines
        exec(compile(source, str(page), "exec"), names)
        ran, extra = ran + 1, extra or bool(block.needs)
    return ran, absent, extra


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+")
    parser.add_argument("--model", default="", help="a model's folder")
    parser.add_argument("--found", action="store_true", help="fail if no block ran that needs something")
    args = parser.parse_args()
    import cdplugin

    home = Path(cdplugin.__file__).resolve()
    if Path(sys.prefix).resolve() not in home.parents:
        sys.exit(f"expected the installed package, found {home}")
    found = False
    for name in args.pages:
        began = time.monotonic()
        ran, absent, extra = try_page(ROOT / name, args.model)
        found = found or extra
        without = f", not those that need {', '.join(sorted(absent))}" if absent else ""
        print(f"{name}: {ran} blocks ran{without} ({time.monotonic() - began:.0f} s)", flush=True)
    if args.found and not found:
        sys.exit("expected blocks that need what is installed here, found none")


if __name__ == "__main__":
    main()
