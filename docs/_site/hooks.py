"""What the site has beside docs/: the changelog, SECURITY.md, CONTRIBUTING.md, perf/README.md and perf/logbook.md with their
results, the examples, the notebooks; and a place in the navigation for every host's page.

Pages link to those files as they lie in the repository (``../SECURITY.md``), so that the links work there too; here they are
turned into links to the pages made from them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from posixpath import dirname, normpath, relpath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "perf/README.md": "benchmarks.md",
    "perf/logbook.md": "logbook.md",
    "README.md": "index.md",
}
"""Files of the repository → pages of the site."""


def _titles(folder: str) -> list[tuple[str, str]]:
    """``(title, page)`` of the pages in a folder of docs/, by title."""
    out = []
    for path in (ROOT / "docs" / folder).glob("*.md"):
        heading = re.search(r"^# (.+)$", path.read_text(), re.MULTILINE)
        out.append((heading.group(1) if heading else path.stem, f"{folder}/{path.name}"))
    return sorted(out, key=lambda entry: entry[0].lower())


def on_config(config: Any) -> Any:
    """Put the hosts' pages and the examples into the navigation."""
    for entry in config["nav"]:
        if "Quick start" in entry:
            entry["Quick start"] += [page for _, page in _titles("hosts")]
        if "Guides" in entry:
            entry["Guides"].append({"Notebooks": [_page_of(_name(path)) for path in _notebooks()]})
            entry["Guides"].append(
                {"Examples": [f"examples/{path.stem}.md" for path in sorted((ROOT / "examples").glob("*.py"))]}
            )
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add pages made from files outside docs/, and the results that they link to."""
    for source, page in PAGES.items():
        if page != "index.md":
            files.append(File.generated(config, page, content=_moved((ROOT / source).read_text(), source)))
    for path in sorted((ROOT / "examples").glob("*.py")):
        text = f"# {path.name}\n\n```python\n{path.read_text()}```\n"
        files.append(File.generated(config, f"examples/{path.stem}.md", content=text))
    for path in _notebooks():
        text = _moved(notebook_page(json.loads(path.read_text(encoding="utf-8"))), _name(path))
        files.append(File.generated(config, str(_page_of(_name(path))), content=text))
    for folder in ("perf/results", "perf/plots"):
        for path in sorted((ROOT / folder).glob("*.*")):
            files.append(File.generated(config, f"{folder}/{path.name}", abs_src_path=str(path)))
    return files


def _notebooks() -> list[Path]:
    return sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def notebook_page(notebook: dict[str, Any]) -> str:
    """A notebook as Markdown: its cells, and what they printed, returned and drew."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            text = "".join(output.get("text") or data.get("text/plain", ""))
            if "image/png" in data:
                parts.append(f"![what the cell drew](data:image/png;base64,{''.join(data['image/png']).strip()})")
            elif text.strip():
                parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn links out of docs/ into links to the site's pages."""
    if not (ROOT / "docs" / page.file.src_uri).is_file():
        return markdown  # made here, and moved already
    return _moved(markdown, f"docs/{page.file.src_uri}")


def _moved(markdown: str, source: str) -> str:
    """A page of the repository, ``source``, with its links as the site has them."""
    page = _page_of(source) or source

    def moved(target: str) -> str:
        path, _, anchor = target.partition("#")
        if not path or ":" in path:
            return target
        at = _page_of(normpath(f"{dirname(source)}/{path}") if dirname(source) else normpath(path))
        return target if at is None else relpath(at, dirname(page) or ".") + ("#" + anchor if anchor else "")

    def rewritten(text: str) -> str:
        text = re.sub(r"(\]\()([^)\s]+)(\))", lambda m: m.group(1) + moved(m.group(2)) + m.group(3), text)
        return re.sub(r'((?:src|srcset)=")([^"\s]+)(")', lambda m: m.group(1) + moved(m.group(2)) + m.group(3), text)

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)  # code is left alone
    return "".join(part if i % 2 else rewritten(part) for i, part in enumerate(parts))


def _page_of(place: str) -> str | None:
    """Where the site has a file of the repository."""
    if place in PAGES:
        return PAGES[place]
    if place.startswith("docs/"):
        return place.removeprefix("docs/")
    if place.startswith("examples/") and place.endswith((".py", ".ipynb")):
        return place.rpartition(".")[0] + ".md"
    return place if place.startswith(("perf/results/", "perf/plots/")) else None
