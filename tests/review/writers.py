"""Processes that answer at a desk until they are killed."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from npugraph.review import AnswerIn, Desk, DeskSettings

REVIEWERS = ("ann", "bob")


def start_writer(folder: Path, name: str) -> tuple[int, int]:
    """Start a process whose two reviewers answer; return its id and where it acknowledges.

    It writes a line with the key of every answer after the desk has said that it is kept.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    os.close(reading)
    try:
        desk = Desk.open(folder, DeskSettings(random_share=0.0, agreement_share=0.0))
        work = [
            threading.Thread(target=_answer, args=(desk, who, f"{name}-{who}", writing))
            for who in REVIEWERS
        ]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
    finally:
        # Not the end of the tests: that is the parent's.
        os.kill(os.getpid(), signal.SIGKILL)
    return child, reading


def _answer(desk: Desk, reviewer: str, name: str, acknowledged: int) -> None:
    for place in range(len(desk.material)):
        key = f"{name}-{place}"
        desk.answer(reviewer, place, AnswerIn(key, "true"))
        os.write(acknowledged, f"{key}\n".encode())


def kill_after(child: int, reading: int, count: int) -> set[str]:
    """Kill a writer, by a signal it cannot catch, after some answers; return the acknowledged."""
    text = b""
    while text.count(b"\n") < count and (part := os.read(reading, 64)):
        text += part
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    # What it had acknowledged before it died is still in the pipe.
    while part := os.read(reading, 65536):
        text += part
    os.close(reading)
    return set(text.decode().rpartition("\n")[0].split("\n")) - {""}
