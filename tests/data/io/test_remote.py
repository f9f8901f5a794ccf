"""Files at addresses: read and written by fsspec, refused in a sentence."""

from __future__ import annotations

import functools
import gzip
import http.server
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from npugraph.data.io import check_target, is_address, local_copy, local_folder
from npugraph.data.sources import load_graph
from npugraph.errors import DataError, OutputError, SettingsError

LINES = b"a\tr\tb\nb\tr\tc\n"


@pytest.fixture
def memory() -> Iterator[Any]:
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()
    files.pseudo_dirs[:] = [""]


def test_what_is_an_address() -> None:
    assert is_address("s3://bucket/facts.tsv")
    assert is_address("simplecache::s3://bucket/facts.tsv")
    for path in ("facts.tsv", "C:\\facts.tsv", "C:/facts.tsv", "a:b", "/a://b", Path("s3://x")):
        assert not is_address(path)


def test_local_paths_with_colons_stay_paths(tmp_path: Path) -> None:
    path = tmp_path / "a:b.tsv"
    path.write_bytes(LINES)
    assert local_copy(path) == path
    assert len(load_graph(str(path))) == 2


def test_a_file_is_read_as_its_name_says(memory: Any) -> None:
    memory.pipe_file("/in/facts.tsv.gz", gzip.compress(LINES))
    graph = load_graph("memory://in/facts.tsv.gz")
    assert (graph.name, len(graph), graph.num_entities) == ("facts", 2, 3)
    assert graph.inputs[0].path.name == "facts.tsv.gz"


def test_a_folder_is_read(memory: Any) -> None:
    for part in ("train", "valid", "test"):
        memory.pipe_file(f"/in/g/{part}.tsv", LINES)
    assert load_graph("memory://in/g").split().summary()["train"] == 2


def test_file_addresses(tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_bytes(LINES)
    assert len(load_graph(f"file://{tmp_path}/facts.tsv")) == 2


def test_http(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    (tmp_path / "facts.tsv").write_bytes(LINES)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{server.server_port}"
        try:
            assert len(load_graph(f"{place}/facts.tsv")) == 2
            with pytest.raises(DataError, match=r"nothing\.tsv"):
                load_graph(f"{place}/nothing.tsv")
            with pytest.raises(OutputError, match="cannot be written"):
                check_target(f"{place}/out")
        finally:
            server.shutdown()


def test_a_folder_is_uploaded_when_all_is_well(memory: Any) -> None:
    check_target("memory://out/audit")
    assert not memory.exists("/out/audit/.npugraph-probe")
    with local_folder("memory://out/audit") as folder:
        (folder / "folds").mkdir(parents=True)
        (folder / "folds" / "a.txt").write_text("1")
        (folder / "b.txt").write_text("2")
    assert memory.cat_file("/out/audit/folds/a.txt") == b"1"
    with pytest.raises(OutputError, match="holds files already"):
        check_target("memory://out/audit")
    check_target("memory://out/audit", overwrite=True)
    stopped = local_folder("memory://out/other")
    stopped.__enter__().mkdir()
    assert not stopped.__exit__(ValueError, ValueError("stop"), None)
    assert not memory.exists("/out/other")


def test_refusals(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"memory://in/nothing\.tsv: no such file"):
        load_graph("memory://in/nothing.tsv")
    with pytest.raises(SettingsError, match=r"Protocol not known: qqq"):
        load_graph("qqq://facts.tsv")
    memory.pipe_file("/a/file", b"")
    with pytest.raises(SettingsError, match="is a file"):
        check_target("memory://a/file")

    def refuse(*words: object, **more: object) -> None:
        raise PermissionError("Forbidden.")

    monkeypatch.setattr(type(memory), "pipe_file", refuse)
    with pytest.raises(OutputError, match=r"access is refused \(Forbidden\)"):
        check_target("memory://out")
    monkeypatch.setattr(type(memory), "isfile", refuse)
    with pytest.raises(DataError, match=r"cannot be read: access is refused"):
        load_graph("memory://in/facts.tsv")


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(SettingsError, match="s3fs"):
        load_graph("s3://bucket/facts.tsv")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(SettingsError, match=r"pip install 'npugraph\[remote\]'"):
        load_graph("s3://bucket/facts.tsv")
