"""Listen on the loopback address, and serve until Ctrl-C."""

from __future__ import annotations

import errno
import socket

import uvicorn
from starlette.types import ASGIApp

from npugraph.errors import SettingsError
from npugraph.review.web.security import LOOPBACK

# Bytes of a request's first line and headers; an address may hold long names.
LARGEST_HEAD = 2**20


def listen(port: int) -> socket.socket:
    """Return a socket that listens on this machine alone.

    Args:
        port: where; 0 takes any that is free.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen()
    except OSError as error:
        listener.close()
        taken = error.errno == errno.EADDRINUSE
        reason = "is in use" if taken else f"cannot be used ({error.strerror})"
        raise SettingsError(
            f"Port {port} {reason}; give another with --port, or --port 0 for any that is free."
        ) from None
    return listener


def port_of(listener: socket.socket) -> int:
    """Return the port of a socket."""
    return int(listener.getsockname()[1])


def serve(app: ASGIApp, listener: socket.socket) -> None:
    """Answer requests until the process is told to stop."""
    settings = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        # Nobody stands before it: what such headers say is not believed.
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_level="warning",
        h11_max_incomplete_event_size=LARGEST_HEAD,
        timeout_graceful_shutdown=3,
    )
    uvicorn.Server(settings).run(sockets=[listener])
