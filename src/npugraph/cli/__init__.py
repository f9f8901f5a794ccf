"""The command line: one command for each of the package's main jobs.

Results go to stdout, progress and messages to stderr, so that ``--json`` output can be piped.
A user's error is one sentence and exit code 2, a rank that died 1; Ctrl-C is exit code 130.
"""

from __future__ import annotations

import signal
import sys

import typer

from npugraph.cli import audit, bench, check, data, model, patch, recipes, review, serve
from npugraph.cli.common import show_messages
from npugraph.errors import NpugraphError, RankError, SettingsError, cannot_write
from npugraph.version import __version__

app = typer.Typer(
    name="npugraph",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data.datasets, name="datasets")
app.add_typer(recipes.recipes, name="recipes")
app.add_typer(bench.bench, name="bench")
app.command()(audit.audit)
app.command()(audit.explain)
app.command()(check.check)
app.command()(patch.export)
app.command()(patch.apply)
app.command()(patch.revert)
app.command()(patch.answers)
app.command()(data.perturb)
app.command()(data.interactions)
app.command()(model.fit)
app.command()(recipes.tune)
app.command()(model.evaluate)
app.command()(model.predict)
app.command()(model.score)
app.command()(serve.serve)
app.command()(review.review)


@app.callback(invoke_without_command=True)
def options(
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
    verbose: bool = typer.Option(
        False, "--verbose", "-v", help="Say every stage and epoch on stderr, with the time."
    ),
    quiet: bool = typer.Option(
        False, "--quiet", "-q", help="Say nothing on stderr but notes and errors."
    ),
) -> None:
    """Find the wrong and the missing facts of a knowledge graph.

    Example: npugraph --quiet audit facts.tsv --out audit --json
    """
    if verbose and quiet:
        raise SettingsError("Give --verbose or --quiet, not both.")
    show_messages(verbose, quiet)
    if version:
        typer.echo(f"npugraph {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line."""
    # Nobody sees a traceback, and what waits for the end of a command is done.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        app()
    except NpugraphError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(1 if isinstance(error, RankError) else 2)
    except OSError as error:
        place = error.filename or "A file"
        sys.stderr.write(f"error: {cannot_write(place, error)}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
