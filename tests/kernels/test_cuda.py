"""The Triton kernels equal the plain operations in Triton's interpreter (no GPU needed)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton is not installed: pip install triton")


def test_kernels_equal_the_plain_operations_in_the_interpreter():
    done = subprocess.run(
        [sys.executable, Path(__file__).parents[1] / "kernel_checks.py"],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "equal"
