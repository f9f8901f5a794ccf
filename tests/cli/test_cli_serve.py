"""``npugraph serve`` from the command line: it listens here alone, and says sentences."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import npugraph
from npugraph.cli import app
from npugraph.errors import NpugraphError, SettingsError

FACTS = [(f"a{i}", "r", f"b{(i + s) % 9}") for i in range(9) for s in (0, 1)]
TOKEN = "a-token-of-my-own-choice"


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("served") / "run"
    npugraph.fit(FACTS, "distmult", {"d": 4, "epochs": 1, "device": "cpu"}, out)
    return out


@pytest.fixture(scope="module")
def server(run_folder: Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A server in a process of its own, and the line that it printed."""
    words = ["serve", str(run_folder), "--port", "0", "--device", "cpu", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "npugraph", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NPUGRAPH_TOKEN": TOKEN},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    try:
        assert line, process.stderr and process.stderr.read()
        yield process, json.loads(line)
    finally:
        process.kill()
        process.wait()


def ask(url: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(url, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_program_asks_and_ctrl_c_ends_it(
    server: tuple[subprocess.Popen[str], dict[str, Any]],
) -> None:
    process, about = server
    url, bearer = about["url"], {"Authorization": f"Bearer {TOKEN}"}
    assert about["token"] == TOKEN
    assert url.startswith("http://127.0.0.1:")
    status, forms = ask(f"{url}openapi.json")
    assert status == 200
    assert {"/v1/facts/score", "/v1/predict", "/v1/explain"} <= forms["paths"].keys()
    asked = {"head": "a1", "relation": "r", "k": 2}
    assert ask(f"{url}v1/predict", asked)[0] == 401
    status, found = ask(f"{url}v1/predict", asked, **bearer)
    assert status == 200
    assert len(found["predictions"]) == 2
    port = int(url.rstrip("/").rsplit(":", 1)[1])
    _long_address(port)
    _only_here(port)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert process.stderr is not None
    told = process.stderr.read()
    assert "Ctrl-C ends it" in told
    assert "Traceback" not in told


def _long_address(port: int) -> None:
    """A name of 10,000 characters makes an address of 90 kB, which may come in two pieces."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        asked = f"GET /nothing?name={'%E5%9B%BD' * 10_000} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        whole = f"{asked}Authorization: Bearer {TOKEN}\r\n\r\n".encode()
        client.sendall(whole[:80_000])
        time.sleep(0.3)
        client.sendall(whole[80_000:])
        assert client.recv(100).startswith(b"HTTP/1.1 404")


def _only_here(port: int) -> None:
    """Nobody but this machine can reach it: another of its own addresses is refused."""
    with socket.socket() as other:
        other.settimeout(5)
        assert other.connect_ex(("127.0.0.2", port)) != 0


def test_a_port_that_is_taken_is_a_sentence(run_folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = CliRunner().invoke(app, ["serve", str(run_folder), "--port", port])
    assert isinstance(done.exception, SettingsError)
    assert f"Port {port} is in use" in str(done.exception)
    assert "--port 0" in str(done.exception)


@pytest.mark.parametrize(
    ("words", "told"),
    [(["--token", "short"], "16 characters"), (["no such folder"], "no such folder")],
)
def test_mistakes_are_sentences(run_folder: Path, words: list[str], told: str) -> None:
    given = [str(run_folder), *words] if words[0].startswith("-") else words
    done = CliRunner().invoke(app, ["serve", *given, "--port", "0"])
    assert isinstance(done.exception, NpugraphError), done.exception
    assert told in str(done.exception)


def test_without_the_extra_it_says_what_to_install(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("npugraph.review.web.find_spec", lambda name: None)
    done = CliRunner().invoke(app, ["serve", str(run_folder)])
    assert isinstance(done.exception, SettingsError)
    assert "pip install 'npugraph[review]'" in str(done.exception)
