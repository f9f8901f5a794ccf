"""The command that answers questions over HTTP: serve."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from npugraph.cli.common import JsonOption, TrustOption, emit, say

PortOption = Annotated[
    int, typer.Option(help="Where to listen; 0: any port that is free.", min=0, max=65535)
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        help="What requests must have: 16 characters or more. Default: a new one is drawn.",
        envvar="NPUGRAPH_TOKEN",
        show_default=False,
        show_envvar=True,
    ),
]


def serve(
    folder: Annotated[
        Path, typer.Argument(metavar="RUN_OR_AUDIT", help="A folder made by fit or audit.")
    ],
    port: PortOption = 8765,
    token: TokenOption = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "auto",
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Answer programs over HTTP: score, predict and explain, until Ctrl-C.

    POST /v1/facts/score, /v1/predict and /v1/explain; /openapi.json has the forms. It listens on
    this machine alone (127.0.0.1), and every request needs the token that is printed at the start:
    Authorization: Bearer TOKEN. An audit answers for the facts that it judged and predicts none.

    Example: npugraph serve runs/world --port 8765
    """
    from npugraph.review.questions import open_questions
    from npugraph.review.web import check_installed

    check_installed()
    from npugraph.review.web.app import create_app
    from npugraph.review.web.run import listen, port_of
    from npugraph.review.web.run import serve as answer
    from npugraph.review.web.scoring import scoring_router
    from npugraph.review.web.security import Access, new_token

    with listen(port) as listener:
        access = Access(port_of(listener), token or new_token())
        questions = open_questions(folder, device, trust=trust)
        app = create_app(access, [scoring_router(questions)])
        about = {"folder": str(folder), "url": access.url, "token": access.token}
        emit("serve", about, as_json, lambda: typer.echo(f"{access.url} token {access.token}"))
        # Whoever started it waits for this line.
        sys.stdout.flush()
        say(f"{folder} is served; {access.url}openapi.json says what to ask. Ctrl-C ends it.")
        answer(app, listener)
