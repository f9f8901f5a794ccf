"""Importing the package costs next to nothing: the heavy libraries come when they are needed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

HEAVY = ("torch", "pyarrow", "scipy", "sklearn", "matplotlib", "pandas", "numpy")


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)


def test_the_package_imports_no_heavy_library() -> None:
    code = f"import sys, npugraph; print([name for name in {HEAVY} if name in sys.modules])"
    assert run_python("-c", code).stdout.strip() == "[]"


def test_the_import_takes_no_time() -> None:
    code = (
        "import time; start = time.perf_counter(); import npugraph; "
        "print(time.perf_counter() - start)"
    )
    # The best of five: a busy machine must not fail this.
    assert min(float(run_python("-c", code).stdout) for _ in range(5)) < 0.3


@pytest.mark.skipif(
    importlib.util.find_spec("npugraph.cli") is None, reason="the command line is not there yet"
)
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
