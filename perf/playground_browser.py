"""How long the playground takes to answer a keystroke in a headless Chromium; also makes the screenshots of the docs.

    python perf/playground_browser.py [--edits 500] [--out perf/results/DATE-playground.json] [--screenshots docs] [--parts …]

The vocabulary is Llama 3's (128,256 tokens). The page measures the time of a keystroke, from the input event to the drawn
answer: request, tokenizing, masks, explanation, drawing. *typed*: three texts, each character a keystroke. *edited*: random
edits of text and schema, each sent once the one before it is answered. *hostile*: every entry of the hostile corpus that
fits into a request, pasted with its text; each must be answered by a mask or by a message (*silent*: by neither).
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import browser  # noqa: E402
from hostile.specs import entries, pasted  # noqa: E402
from tokenizers_data import llama3  # noqa: E402

import cdplugin as cd  # noqa: E402
from cdplugin.playground.server import Server  # noqa: E402
from cdplugin.playground.service import LIMITS, Playground  # noqa: E402

TYPED = {
    "JSON Schema: a person": '{"name": "Ada Lovelace", "age": 36, "skills": ["chess", "running"]}',
    "Lark: arithmetic": "(1 + 2) * 3 - (4 / 56)",
    "GBNF: a list": "- bread\n- butter and jam\n",
}
PIECES = ['"', "{", "}", ":", ",", "name", " ", "1", "ä", "\n", "[", "]", "a", "chess", "true", '"type"', "integer"]
_PUT = "const [n, t] = arguments; const f = document.getElementById(n); f.value = t; f.dispatchEvent(new Event('input'))"


def put(driver: Any, name: str, text: str) -> float:
    """Replace a field's content; returns the milliseconds until the answer is drawn."""
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
    """Make random edits of the first example: mostly of the text, one in ten of the schema."""
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


def hostile(driver: Any) -> dict[str, Any]:
    """Paste the hostile corpus: how long each answer took, and what it was."""
    shown = """
      const text = (id) => { const e = document.getElementById(id); return e && e.offsetParent !== null ? e.textContent : ""; };
      return [text("verdict"), text("spec-error") || text("refusal") || text("stopped"), text("count")];
    """
    took, silent, refused = [], [], 0
    for entry in entries():
        found = pasted(entry, LIMITS.max_spec_bytes)
        if found is None:
            continue
        kind, spec, text = found
        script = "const [kind, text] = arguments; for (const [n, v] of [['kind', kind], ['text', text]]) {"
        driver.execute_script(script + "document.getElementById(n).value = v; }", kind, text)
        took.append(put(driver, "spec", spec))
        verdict, message, count = driver.execute_script(shown)
        refused += bool(message)
        if not verdict or not (message or count):
            silent.append(entry["id"])
    problems = [line["message"][:200] for line in driver.get_log("browser") if line["level"] == "SEVERE"]
    return {**summary(took), "refused or stopped": refused, "silent": silent, "errors of the page": problems}


def screenshots(url: str, folder: Path) -> None:
    """Take pictures of the page with a refused text, light and dark."""
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
    parser.add_argument("--parts", nargs="*", default=["typed", "edited", "hostile"], choices=["typed", "edited", "hostile"])
    args = parser.parse_args()
    if browser.why_not():
        sys.exit(browser.why_not())
    with Server(Playground(cd.Vocabulary.from_tiktoken(llama3().model), "Llama 3")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with browser.chromium() as driver:
            driver.get(server.url)
            browser.settled(driver)
            result: dict[str, Any] = {
                "script": "perf/playground_browser.py",
                "machine": f"{platform.processor() or platform.machine()}, Python {platform.python_version()}",
                "vocabulary": "Llama 3 (128,256 tokens)",
                "unit": "milliseconds from the input event to the drawn answer",
            }
            parts: dict[str, Callable[[], dict[str, Any]]] = {
                "typed": lambda: summary(typed(driver)),
                "edited": lambda: summary(edited(driver, args.edits)),
                "hostile": lambda: hostile(driver),
            }
            result |= {name: parts[name]() for name in args.parts}
        if args.screenshots is not None:
            screenshots(server.url, args.screenshots)
        server.shutdown()
    print(json.dumps(result, indent=1))
    if args.out is not None:
        kept = json.loads(args.out.read_text()) if args.out.exists() else {}  # parts that were not asked for this time
        args.out.write_text(json.dumps(kept | result, indent=1) + "\n")


if __name__ == "__main__":
    main()
