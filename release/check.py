"""``make release``: build the sdist and the wheel, check them, install them into fresh environments, try them there.

    python release/check.py [--dist dist] [--extras hf outlines] [--model FOLDER]

Uploads nothing. Steps: the version is the changelog's newest, or a development version on top of it; ``build`` makes both
files; ``twine check --strict`` reads their metadata; the wheel's content is looked at; the wheel, and a wheel made from the
sdist, are installed into environments of their own without extras and tried (``release/smoke.py``), and the examples of README
and of the site's quick starts are run there as they stand (``release/pages.py``); for each of ``--extras`` the wheel is
installed with it and tried once more, with ``--model`` the examples that need one, too. ``build`` and ``twine`` come with the
extra ``release``.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SMOKE = ROOT / "release" / "smoke.py"
PAGES = ROOT / "release" / "pages.py"
TRIED = ["README.md", "docs/index.md", "docs/quick-start.md"]
OF_EXTRA = {
    "hf": [*TRIED, "docs/hosts/transformers.md", "docs/budgets.md", "docs/tracing.md"],
    "mlx": ["docs/hosts/mlx.md"],
    "outlines": ["docs/hosts/outlines.md"],
}
"""The pages whose examples are run: in an environment without extras, and in one with an extra."""
BESIDE = {"mlx": ["mlx[cpu]", "torch"] if sys.platform == "linux" else ["torch"], "outlines": ["torch", "transformers>=5"]}
"""What the examples of an extra need beside it: the model of another library."""
WANTED = {
    "cdplugin/py.typed",
    "cdplugin/grammars/cpp.lark",
    "cdplugin/playground/static/index.html",
    "cdplugin/playground/static/playground.js",
    "cdplugin/playground/static/playground.css",
}


class ReleaseError(Exception):
    """What is wrong with a release."""


def say(text: str) -> None:
    print(f"== {text}", flush=True)


def run(*command: object, cwd: Path = ROOT) -> str:
    """Run a command; its output. Raises ReleaseError with the end of it."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{' '.join(map(str, command))}: status {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def version() -> str:
    """The version in pyproject.toml. Raises ReleaseError if the changelog has no section for it."""
    found = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    if found is None or not re.fullmatch(r"\d+\.\d+\.\d+", found.group(1)):
        raise ReleaseError('pyproject.toml: expected version = "MAJOR.MINOR.PATCH"')
    if f"## [{found.group(1)}]" not in (ROOT / "CHANGELOG.md").read_text():
        raise ReleaseError(f"CHANGELOG.md: expected a section [{found.group(1)}], the version in pyproject.toml")
    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    if cited is None or cited.group(1) != found.group(1):
        raise ReleaseError(f"CITATION.cff: expected version: {found.group(1)}")
    return found.group(1)


def look_into(wheel: Path, sdist: Path) -> None:
    """Check what the files hold. Raises ReleaseError."""
    names = set(zipfile.ZipFile(wheel).namelist())
    missing = WANTED - names
    if missing:
        raise ReleaseError(f"{wheel.name}: expected {', '.join(sorted(missing))}")
    odd = [name for name in names if not name.startswith(("cdplugin/", "cdplugin-")) or name.endswith((".pyc", ".nbi", ".nbc"))]
    if odd:
        raise ReleaseError(f"{wheel.name}: expected only the package, found {', '.join(sorted(odd)[:5])}")
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "cdplugin").rglob("*.py")}
    if sources - names:
        raise ReleaseError(f"{wheel.name}: expected {', '.join(sorted(sources - names)[:5])}")
    with tarfile.open(sdist) as archive:
        listed = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "tests/naive.py", "docs/index.md", "mkdocs.yml"):
        if name not in listed:
            raise ReleaseError(f"{sdist.name}: expected {name}")


def try_in(folder: Path, package: str, extra: str = "", model: str = "") -> None:
    """Install into a fresh environment in ``folder``, and run the smoke test and the pages' examples there."""
    venv.create(folder, with_pip=True, clear=True)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    run(python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", package, *BESIDE.get(extra, []))
    run(python, "-m", "pip", "check", "--disable-pip-version-check")
    print(run(python, "-I", SMOKE, *([extra] if extra else []), cwd=folder).strip(), flush=True)
    options = ["--model", model, "--found"] if extra and model else []
    print(run(python, "-I", PAGES, *options, *OF_EXTRA.get(extra, TRIED), cwd=folder).strip(), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    parser.add_argument("--extras", nargs="*", default=[], help="extras to try as well: hf needs PyTorch")
    parser.add_argument("--model", default="", help="a model's folder, for the examples that need one")
    args = parser.parse_args()
    try:
        release(args.dist, args.extras, args.model and str(Path(args.model).resolve()))
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def release(dist: Path, extras: list[str], model: str) -> None:
    """All steps. Raises ReleaseError."""
    number = version()
    say(f"version {number}")
    shutil.rmtree(dist, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", dist, ROOT)
    wheel, sdist = dist / f"cdplugin-{number}-py3-none-any.whl", dist / f"cdplugin-{number}.tar.gz"
    say(f"{wheel.name} ({wheel.stat().st_size:,} bytes), {sdist.name} ({sdist.stat().st_size:,} bytes)")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    look_into(wheel, sdist)
    say("metadata and content are as they should be")
    with tempfile.TemporaryDirectory() as folder:
        for name, package in (("wheel", str(wheel)), ("sdist", str(sdist))):
            say(f"{name}, without extras, in a fresh environment")
            try_in(Path(folder) / name, package)
        for extra in extras:
            say(f"wheel with [{extra}], in a fresh environment")
            try_in(Path(folder) / extra, f"{wheel}[{extra}]", extra, model)
    say(f"{dist} is ready: twine upload {dist}/* publishes it")


if __name__ == "__main__":
    sys.exit(main())
