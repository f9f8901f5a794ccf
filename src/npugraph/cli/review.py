"""The command that opens the review desk: review."""

from __future__ import annotations

import getpass
import os
import sys
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from npugraph.cli.audit import audit_first
from npugraph.cli.common import JsonOption, emit, say
from npugraph.cli.output import check_folder
from npugraph.cli.serve import PortOption, TokenOption
from npugraph.errors import SettingsError

if TYPE_CHECKING:
    from npugraph.review import DeskSettings


def review(
    audit: Annotated[
        str,
        typer.Argument(
            metavar="AUDIT_DIR|GRAPH",
            help="A folder made by audit; or a file of facts or a known graph, audited first.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where a graph is audited to. Default: NAME-audit beside the file.",
            show_default=False,
        ),
    ] = None,
    reviewer: Annotated[
        str | None,
        typer.Option(help="Your name. Default: that of your account.", show_default=False),
    ] = None,
    port: PortOption = 8765,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Whether to open a browser.")
    ] = True,
    estimate: Annotated[
        float | None,
        typer.Option(
            help="Only draw facts, until the share of wrong ones is known to this much either way.",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(help="Answers planned. Default: the audit's budget.", show_default=False),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(
            help="yield: likely wrong or missing first (the default); teaches: what teaches most.",
            show_default=False,
        ),
    ] = None,
    random_share: Annotated[
        float | None,
        typer.Option(help="Share of facts drawn at random. Default: 0.2.", show_default=False),
    ] = None,
    agreement_share: Annotated[
        float | None,
        typer.Option(
            help="Share of facts that a second reviewer judges, too. Default: 0.05.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Every random draw follows from it.", min=0, show_default=False),
    ] = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Judge the facts of an audit in a browser, until Ctrl-C.

    It listens on this machine alone. The line that is printed has the address with the token; who
    has that can answer. Answers are kept in AUDIT_DIR/answers.sqlite as they are given, and the
    same command goes on where you stopped.

    Example: npugraph review audit --reviewer Anna
    """
    from npugraph.review.web import check_installed

    check_installed()
    given = {
        "estimate": estimate,
        "budget": budget,
        "order": order,
        "random_share": random_share,
        "agreement_share": agreement_share,
        "seed": seed,
    }
    settings = _settings(given)
    folder = _folder(audit, out)
    _serve(folder, settings, reviewer, port, token, browser, as_json)


def _settings(given: dict[str, Any]) -> DeskSettings:
    """Make the settings of the desk; what is wrong fails before anything is read."""
    from npugraph.review import DeskSettings
    from npugraph.settings import make_settings

    return make_settings(DeskSettings, {k: v for k, v in given.items() if v is not None})


def _folder(audit: str, out: Path | None) -> Path:
    """Return the folder of the audit; a graph is audited first, unless it was before."""
    path = Path(audit)
    if path.is_dir():
        if out is not None:
            raise SettingsError(f"--out is for a graph to be audited, and {path} is a folder.")
        return path
    folder = out or path.with_name(f"{path.name.split('.')[0]}-audit")
    if (folder / "audit.json").is_file():
        say(f"{folder} has an audit already; --out DIR makes another.")
        return folder
    check_folder(folder)
    audit_first(audit, folder)
    return folder


def _serve(
    folder: Path,
    settings: DeskSettings,
    reviewer: str | None,
    port: int,
    token: str | None,
    browser: bool,
    as_json: bool,
) -> None:
    """Open the desk and answer until the process is told to stop."""
    from npugraph.review import Desk
    from npugraph.review.questions import open_questions
    from npugraph.review.web.api import desk_router
    from npugraph.review.web.app import create_app
    from npugraph.review.web.pages import Pages
    from npugraph.review.web.run import listen, port_of, serve
    from npugraph.review.web.scoring import scoring_router
    from npugraph.review.web.security import Access, new_token

    with listen(port) as listener, Desk.open(folder, settings) as desk:
        access = Access(port_of(listener), token or new_token())
        name = reviewer or _account()
        questions = scoring_router(open_questions(folder))
        app = create_app(access, [Pages(desk, name).router(), desk_router(desk), questions])
        # A name that was asked for wins over the one that the browser remembers.
        asked = {"token": access.token, **({"reviewer": reviewer} if reviewer else {})}
        address = f"{access.url}?{urlencode(asked)}"
        about = {
            "folder": str(folder),
            "address": address,
            "url": access.url,
            "token": access.token,
            "reviewer": name,
            "answers": str(desk.store.path),
        }
        emit("review", about, as_json, lambda: typer.echo(f"Open {address}"))
        # Whoever started it waits for this line.
        sys.stdout.flush()
        say(f"Answers are kept in {desk.store.path}. Ctrl-C ends; the same command goes on.")
        if browser and _has_screen():
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        serve(app, listener)


def _account() -> str:
    """Return the name of the account; a container may have none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "reviewer"


def _has_screen() -> bool:
    """Tell whether a browser would open a window, and not take the terminal."""
    screens = ("DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in screens)
