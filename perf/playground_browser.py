"""How long the playground takes to answer a keystroke, in a headless Chromium; and the screenshots of the docs.

    python perf/playground_browser.py [--edits 500] [--out perf/results/DATE-playground.json] [--screenshots docs]

The vocabulary is Llama 3's (128,256 tokens). A keystroke's time runs from the input event to the drawn answer, as the page
measures it: request, tokenizing, masks, explanation, drawing. Three typed texts (each character a keystroke), then random
edits of text and schema, each sent once the one before it is answered.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import browser  # noqa: E402
from tokenizers_data import llama3  # noqa: E402

import cdplugin as cd  # noqa: E402
from cdplugin.playground.server import Server  # noqa: E402
from cdplugin.playground.service import Playground  # noqa: E402

TYPED = {
    "JSON Schema: a person": '{"name": "Ada Lovelace", "age": 36, "skills": ["chess", "running"]}',
    "Lark: arithmetic": "(1 + 2) * 3 - (4 / 56)",
    "GBNF: a list": "- bread\n- butter and jam\n",
}
PIECES = ['"', "{", "}", ":", ",", "name", " ", "1", "ä", "\n", "[", "]", "a", "chess", "true", '"type"', "integer"]
_PUT = "const [n, t] = arguments; const f = document.getElementById(n); f.value = t; f.dispatchEvent(new Event('input'))"


def put(driver: Any, name: str, text: str) -> float:
    """Replace a field's content; the milliseconds until the answer is drawn."""
    driver.execute_script(_PUT, name, text)
    return browser.settled(driver)


def choose(driver: Any, name: str) -> None:
    """Choose an example."""
    from selenium.webdriver.support.ui import Select

    Select(driver.find_element("id", "example")).select_by_visible_text(name)
    browser.settled(driver)


def typed(driver: Any) -> list[float]:
    """Type three texts, character by character."""
    out = []
    for example, text in TYPED.items():
        choose(driver, example)
        out += [put(driver, "text", text[:end]) for end in range(len(text) + 1)]
    return out


def edited(driver: Any, edits: int) -> list[float]:
    """Random edits of the first example: mostly of the text, one in ten of the schema."""
    rng = random.Random(7)
    choose(driver, next(iter(TYPED)))
    fields = {name: driver.find_element("id", name).get_property("value") for name in ("spec", "text")}
    out = []
    for _ in range(edits):
        name = "spec" if rng.random() < 0.1 else "text"
        text = fields[name]
        at = rng.randrange(len(text) + 1)
        insert = rng.random() < 0.6 or len(text) < 4
        fields[name] = text[:at] + rng.choice(PIECES) + text[at:] if insert else text[:at] + text[at + rng.randrange(4) :]
        out.append(put(driver, name, fields[name]))
    return out


def screenshots(url: str, folder: Path) -> None:
    """The page with a refused text, light and dark."""
    for name, dark in (("playground", False), ("playground-dark", True)):
        with browser.chromium(1280, 940, dark) as driver:
            driver.get(url)
            browser.settled(driver)
            put(driver, "text", '{"name": "Ada", "age": 36, "skills": ["chess", "poker"]}')
            driver.save_screenshot(str(folder / f"{name}.png"))


def summary(milliseconds: list[float]) -> dict[str, float]:
    """Percentiles, in milliseconds."""
    quantiles = np.percentile(milliseconds, [50, 95, 99, 100]).round(1).tolist()
    return {"keystrokes": len(milliseconds), **dict(zip(("p50", "p95", "p99", "max"), quantiles, strict=True))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edits", type=int, default=500)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--screenshots", type=Path)
    args = parser.parse_args()
    if browser.why_not():
        sys.exit(browser.why_not())
    with Server(Playground(cd.Vocabulary.from_tiktoken(llama3().model), "Llama 3")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with browser.chromium() as driver:
            driver.get(server.url)
            browser.settled(driver)
            result = {
                "script": "perf/playground_browser.py",
                "machine": f"{platform.processor() or platform.machine()}, Python {platform.python_version()}",
                "vocabulary": "Llama 3 (128,256 tokens)",
                "unit": "milliseconds from the input event to the drawn answer",
                "typed": summary(typed(driver)),
                "edited": summary(edited(driver, args.edits)),
            }
        if args.screenshots is not None:
            screenshots(server.url, args.screenshots)
        server.shutdown()
    print(json.dumps(result, indent=1))
    if args.out is not None:
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
