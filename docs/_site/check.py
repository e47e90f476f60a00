"""Checks a built site: nothing is loaded from elsewhere, every link and picture inside it is there.

python docs/_site/check.py site
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {("script", "src"), ("img", "src"), ("source", "srcset"), ("iframe", "src"), ("link", "href")}


class _Page(HTMLParser):
    """The links, what is loaded, and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[tuple[str, bool]] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors |= {values[name] or "" for name in ("id", "name") if values.get(name)}
        for name in ("href", "src", "srcset"):
            target = values.get(name)
            if target and (values.get("rel") not in ("canonical", "alternate")):
                self.links.append((target, (tag, name) in _LOADED))


def problems(site: Path) -> list[str]:
    """What is wrong with a site, page by page. ``site`` is absolute: what lies beside it is no part of it."""
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    out = [] if pages else [f"{site}: expected pages, found none"]
    for path, page in pages.items():
        if path.name == "404.html":  # its links are absolute: the address that is missing may be anywhere
            continue
        for target, is_loaded in page.links:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if is_loaded and parts.scheme != "data":
                    out.append(f"{path.relative_to(site)}: loads {target}")
                continue
            place = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            if place.is_dir():
                place /= "index.html"
            if not place.is_relative_to(site) or not place.exists():
                out.append(f"{path.relative_to(site)}: no such file: {target}")
            elif parts.fragment and place in pages and unquote(parts.fragment) not in pages[place].anchors | {"__top"}:
                out.append(f"{path.relative_to(site)}: no such place: {target}")
    return out


def main() -> None:
    found = problems(Path(sys.argv[1]).resolve())
    print("\n".join(found) or "links: all are there, nothing is loaded from elsewhere")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
