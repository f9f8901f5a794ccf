"""Give commands as a user does, in this process."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from npugraph.cli import app
from npugraph.errors import NpugraphError


def call(*words: object) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})


def npugraph(*words: object) -> Result:
    """Run a command that must succeed."""
    done = call(*words)
    assert done.exit_code == 0, (done.output, done.exception)
    return done


def refusal(*words: object) -> str:
    """Run a command that must fail with a sentence; return it."""
    done = call(*words)
    assert isinstance(done.exception, NpugraphError), (done.output, done.exception)
    return str(done.exception)
