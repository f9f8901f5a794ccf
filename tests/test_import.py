"""Importing the package costs next to nothing: the heavy libraries come when they are needed."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("torch", "pyarrow", "scipy", "sklearn", "matplotlib", "pandas", "numpy")


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)


def test_the_package_imports_no_heavy_library() -> None:
    code = f"import sys, npugraph; print([name for name in {HEAVY} if name in sys.modules])"
    assert run_python("-c", code).stdout.strip() == "[]"


def test_help_is_printed_without_torch() -> None:
    code = (
        "import sys\n"
        "from npugraph.cli import main\n"
        "sys.argv = ['npugraph', '--help']\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as stop:\n"
        "    assert not stop.code, stop.code\n"
        "assert 'torch' not in sys.modules\n"
    )
    assert "Usage" in run_python("-c", code).stdout
