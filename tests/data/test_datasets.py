"""The catalogue, the search for files, downloads from a loopback server, and hashes."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from data_needed import data_absent
from npugraph.data import datasets
from npugraph.data.catalogue import CATALOGUE, SPLIT_FILES, DatasetInfo, FileInfo
from npugraph.errors import DataError

TEXTS = {
    "train.tsv": "a\tr\tb\nb\tr\tc\nc\tr\ta\n",
    "valid.tsv": "a\tr\tc\n",
    "test.tsv": "b\tr\ta\n",
    "notes.tsv": "a\tfirst letter\n",
}


class QuietHandler(SimpleHTTPRequestHandler):
    requests: list[str] = []

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:  # noqa: N802
        self.requests.append(self.path)
        super().do_GET()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder with the files of TEXTS and the address under which it is served."""
    folder = tmp_path / "served"
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    QuietHandler.requests = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Empty folders for the user's data and for the cache; nothing is verified yet."""
    own, cache = tmp_path / "own", tmp_path / "cache"
    monkeypatch.setenv("NPUGRAPH_DATA", str(own))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr(datasets, "_verified", set())
    return own / "tiny", cache / "npugraph" / "tiny"


def add_tiny(monkeypatch: pytest.MonkeyPatch, base: str | None) -> DatasetInfo:
    """Put a graph of three entities into the catalogue, with its files under `base`."""
    files = {
        name: FileInfo(
            hashlib.sha256(text.encode()).hexdigest(),
            text.count("\n"),
            f"{base}/{name}" if base else None,
        )
        for name, text in TEXTS.items()
    }
    info = DatasetInfo("tiny", "Tiny", "Three letters.", "none", "A test.", files, 3, 1)
    monkeypatch.setattr(datasets, "CATALOGUE", {**CATALOGUE, "tiny": info})
    return info


def put_files(folder: Path, *, compress: bool = False) -> None:
    folder.mkdir(parents=True)
    for name, text in TEXTS.items():
        if compress:
            (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (folder / name).write_text(text)


def files_under(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


# The catalogue


@pytest.mark.parametrize("info", CATALOGUE.values(), ids=lambda info: info.name)
def test_catalogue_entry_is_complete(info: DatasetInfo) -> None:
    assert info.name == info.name.lower()
    assert all(name in info.files for name in SPLIT_FILES)
    for text in (info.title, info.description, info.licence, info.source):
        assert text.strip() == text != ""
    for file in info.files.values():
        assert len(bytes.fromhex(file.sha256)) == 32
        assert file.rows > 0
        assert file.url is None or file.url.startswith("https://raw.githubusercontent.com/")
    urls = [file.url for file in info.files.values() if file.url]
    assert len(urls) == len(set(urls))
    assert info.columns[:3] == ("head", "relation", "tail")


def test_catalogue_holds_the_graphs_of_the_paper() -> None:
    expected = {"fb15k": (14951, 1345), "fb15k-237": (14541, 237), "wn18": (40943, 18)}
    for name, (entities, relations) in expected.items():
        assert (CATALOGUE[name].entities, CATALOGUE[name].relations) == (entities, relations)
    assert CATALOGUE["fb15k"].counts == {"train": 483142, "valid": 50000, "test": 59071}
    assert [info.name for info in CATALOGUE.values() if info.has_confidence] == ["nl27k"]
    assert [info.name for info in CATALOGUE.values() if not info.downloadable] == [
        "twitter-ego",
        "wordnet-animals",
    ]


@pytest.mark.parametrize("info", CATALOGUE.values(), ids=lambda info: info.name)
def test_real_files_are_as_the_catalogue_says(info: DatasetInfo) -> None:
    root = os.environ.get("NPUGRAPH_DATA")
    if not root or not (Path(root) / info.name).is_dir():
        data_absent(f"needs the real files of {info.name}: set NPUGRAPH_DATA to their folder")
    splits = datasets.load(info.name, allow_download=False).split()
    assert {name: len(part) for name, part in splits.parts().items()} == info.counts
    assert splits.num_entities == info.entities
    assert splits.num_relations == info.relations
    assert (splits.train.confidence is not None) == info.has_confidence
    for extra in info.extras:
        path = datasets.locate_file(info.name, extra, allow_download=False)
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
            assert sum(1 for _ in stream) == info.files[extra].rows


def test_unknown_names_get_a_hint() -> None:
    with pytest.raises(DataError, match=r"'fb15k237'.* Did you mean 'fb15k-237'\?"):
        datasets.info("fb15k237")
    with pytest.raises(DataError, match="The known ones are: world, fb15k"):
        datasets.info("zzzzzz")
    with pytest.raises(DataError, match=r"codex-s has no file 'test_negative.tsv'.*negatives"):
        datasets.locate_file("codex-s", "test_negative.tsv")


def test_import_is_light() -> None:
    code = "import sys, npugraph.data.datasets; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Files on this machine


@pytest.mark.parametrize("compress", [False, True])
def test_own_data_comes_before_the_cache(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, compress: bool
) -> None:
    add_tiny(monkeypatch, None)
    own, cache = places
    put_files(cache)
    assert datasets.locate("tiny") == cache
    put_files(own, compress=compress)
    assert datasets.locate("tiny") == own
    assert datasets.locate_file("tiny", "notes.tsv").parent == own
    splits = datasets.load("tiny").split()
    assert splits.name == "tiny"
    assert (len(splits.train), len(splits.valid), len(splits.test)) == (3, 1, 1)


def test_a_folder_without_all_splits_is_passed_over(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    add_tiny(monkeypatch, None)
    own, cache = places
    put_files(own)
    put_files(cache)
    (own / "valid.tsv").unlink()
    assert datasets.locate("tiny") == cache


@pytest.mark.parametrize("compress", [False, True])
def test_a_changed_file_is_refused(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, compress: bool
) -> None:
    info = add_tiny(monkeypatch, None)
    own, _ = places
    put_files(own, compress=compress)
    changed = own / ("valid.tsv.gz" if compress else "valid.tsv")
    text = b"a\tr\tb\n"
    changed.write_bytes(gzip.compress(text) if compress else text)
    with pytest.raises(DataError) as caught:
        datasets.locate("tiny")
    message = str(caught.value)
    assert str(changed) in message
    assert info.files["valid.tsv"].sha256 in message
    assert hashlib.sha256(text).hexdigest() in message


def test_a_broken_archive_is_refused(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    add_tiny(monkeypatch, None)
    own, _ = places
    put_files(own, compress=True)
    whole = (own / "train.tsv.gz").read_bytes()
    (own / "train.tsv.gz").write_bytes(whole[:-12])
    with pytest.raises(DataError, match=r"train\.tsv\.gz: cannot be read"):
        datasets.locate("tiny")


def test_hashes_are_taken_once_unless_the_file_changes(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    add_tiny(monkeypatch, None)
    own, _ = places
    put_files(own)
    datasets.locate("tiny")
    with monkeypatch.context() as patch:
        patch.setattr(hashlib, "sha256", None)  # a second hash would fail
        datasets.locate("tiny")
    (own / "test.tsv").write_text("other\tr\ta\n")
    with pytest.raises(DataError, match=r"test\.tsv"):
        datasets.locate("tiny")


def test_a_cut_without_public_copy_says_where_to_put_it(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, _ = places
    with pytest.raises(DataError) as caught:
        datasets.locate("twitter-ego")
    assert "no public copy" in str(caught.value)
    assert f"train.tsv.gz, valid.tsv.gz, test.tsv.gz into {own.parent / 'twitter-ego'}" in str(
        caught.value
    )
    monkeypatch.delenv("NPUGRAPH_DATA")
    with pytest.raises(DataError, match="NPUGRAPH_DATA is not set"):
        datasets.locate_file("fb15k", "entity_labels.tsv")


# Downloads


def test_download_lands_in_the_cache_once(
    served: tuple[Path, str], places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    add_tiny(monkeypatch, served[1])
    _, cache = places
    assert datasets.locate("tiny", progress=False) == cache
    assert files_under(cache) == ["test.tsv", "train.tsv", "valid.tsv"]
    assert (cache / "train.tsv").read_text() == TEXTS["train.tsv"]
    assert datasets.locate_file("tiny", "notes.tsv").read_text() == TEXTS["notes.tsv"]
    asked = len(QuietHandler.requests)
    assert asked == 4
    assert len(datasets.load("tiny").split().train) == 3
    assert len(QuietHandler.requests) == asked


def test_an_interrupted_download_goes_on_with_the_missing_file(
    served: tuple[Path, str], places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    add_tiny(monkeypatch, served[1])
    _, cache = places
    cache.mkdir(parents=True)
    shutil.copy(served[0] / "train.tsv", cache)
    datasets.locate("tiny", progress=False)
    assert QuietHandler.requests == ["/valid.tsv", "/test.tsv"]


def test_a_wrong_hash_leaves_nothing_behind(
    served: tuple[Path, str], places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    add_tiny(monkeypatch, served[1])
    _, cache = places
    (served[0] / "train.tsv").write_text("a\tr\tx\n")
    with pytest.raises(DataError, match=r"train\.tsv: the download has SHA-256 .* is expected"):
        datasets.locate("tiny", progress=False)
    assert files_under(cache) == []


@pytest.mark.parametrize("chunk", [1, 2, 3, 1000])
def test_carriage_returns_of_a_public_copy_are_dropped(
    served: tuple[Path, str],
    places: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    chunk: int,
) -> None:
    info = add_tiny(monkeypatch, served[1])
    files = {name: replace(file, crlf=True) for name, file in info.files.items()}
    monkeypatch.setitem(datasets.CATALOGUE, "tiny", replace(info, files=files))
    monkeypatch.setattr(datasets, "CHUNK", chunk)
    for name in ("train.tsv", "valid.tsv"):  # test.tsv has LF already, which is as good
        (served[0] / name).write_bytes(TEXTS[name].replace("\n", "\r\n").encode())
    folder = datasets.locate("tiny", progress=False)
    for name in SPLIT_FILES:
        assert (folder / name).read_bytes() == TEXTS[name].encode()


def test_a_missing_page_gives_a_sentence(
    served: tuple[Path, str], places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    add_tiny(monkeypatch, served[1])
    _, cache = places
    (served[0] / "valid.tsv").unlink()
    with pytest.raises(DataError, match=r"valid\.tsv: the server answered 404 \(File not found\)"):
        datasets.locate("tiny", progress=False)
    assert files_under(cache) == ["train.tsv"]


def test_no_server_gives_a_sentence(
    served: tuple[Path, str], places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    add_tiny(monkeypatch, "http://127.0.0.1:1")
    with pytest.raises(
        DataError, match=r"http://127.0.0.1:1/train\.tsv: the download to .* failed"
    ):
        datasets.locate("tiny", progress=False)


def test_a_cut_connection_is_noticed(
    served: tuple[Path, str], places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(self: QuietHandler) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"a\tr\tb\n")

    monkeypatch.setattr(QuietHandler, "do_GET", cut)
    add_tiny(monkeypatch, served[1])
    with pytest.raises(DataError, match="closed after 6 of 1000 bytes"):
        datasets.locate("tiny", progress=False)
    assert files_under(places[1]) == []


def test_downloads_can_be_switched_off(
    served: tuple[Path, str], places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    add_tiny(monkeypatch, served[1])
    with pytest.raises(DataError, match="downloads are switched off; put train.tsv.gz"):
        datasets.locate("tiny", allow_download=False)
    assert QuietHandler.requests == []


def test_the_bar_is_on_the_error_stream(
    served: tuple[Path, str],
    places: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    add_tiny(monkeypatch, served[1])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    datasets.locate("tiny", progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "tiny/train.tsv" in captured.err


def test_there_is_no_bar_where_the_error_stream_is_no_terminal(
    served: tuple[Path, str],
    places: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    add_tiny(monkeypatch, served[1])
    datasets.locate("tiny", progress=True)
    assert capsys.readouterr().err == ""


# Hashes


def test_the_hash_of_content_is_that_of_the_uncompressed_bytes(tmp_path: Path) -> None:
    text = b"a\tr\tb\nb\tr\tc\n"
    plain, packed, other = (tmp_path / name for name in ("a.tsv", "b.tsv.gz", "c.tsv"))
    plain.write_bytes(text)
    packed.write_bytes(gzip.compress(text))
    other.write_bytes(text + b"c\tr\ta\n")
    hashes = [datasets.content_hash(str(path)) for path in (plain, packed, other)]
    assert hashes[0] == hashes[1] != hashes[2]


def test_the_hash_of_a_folder_covers_its_parts_and_its_names(tmp_path: Path) -> None:
    for part in ("train", "valid", "test"):
        (tmp_path / f"{part}.tsv").write_text(f"{part}\tr\tb\n")
    found = {datasets.content_hash(str(tmp_path))}
    for file in ("train.tsv", "test.tsv", "entities.txt"):
        with (tmp_path / file).open("a") as stream:
            stream.write("x\tr\ty\n")
        found.add(datasets.content_hash(str(tmp_path)))
    assert len(found) == 4
    # The hidden truth is no part of what is given.
    (tmp_path / "truth.tsv").write_text("x")
    assert datasets.content_hash(str(tmp_path)) in found


def test_the_hash_of_a_known_graph_needs_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPUGRAPH_DATA", "/nowhere")
    assert (
        len({datasets.content_hash(name) for name in [*CATALOGUE, "world"]}) == len(CATALOGUE) + 1
    )
    with pytest.raises(DataError, match="Did you mean 'umls'"):
        datasets.content_hash("uml")
