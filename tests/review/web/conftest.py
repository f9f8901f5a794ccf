"""A run and an audit with hostile names, and the application that answers about them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from starlette.testclient import TestClient

import npugraph
from hostile_names import facts
from npugraph.review import Desk
from npugraph.review.questions import open_questions
from npugraph.review.web.api import desk_router
from npugraph.review.web.app import create_app
from npugraph.review.web.scoring import scoring_router
from npugraph.review.web.security import Access, Guard
from review_samples import sample_audit

ACCESS = Access(8765, "a-token-for-these-tests")
BEARER = {"Authorization": f"Bearer {ACCESS.token}"}


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of a small system."""
    out = tmp_path_factory.mktemp("served") / "run"
    npugraph.fit(facts(), "distmult", {"d": 4, "epochs": 1, "device": "cpu"}, out)
    return out


@pytest.fixture(scope="session")
def audit_folder(run_folder: Path) -> Path:
    """What an audit leaves for questions: the judged facts, and the system that judged them."""
    folder = run_folder.parent / "audit"
    shutil.copytree(run_folder, folder / "folds" / "fold-1")
    verdict = {"verdict": "reliable", "verdict_reason": "It was tested."}
    verdict |= {f"missing_{name}": value for name, value in verdict.items()}
    (folder / "audit.json").write_text(json.dumps(verdict), encoding="utf-8")
    head, relation, tail = zip(*facts(), strict=True)
    count = len(head)
    judged = {
        **{"head": head, "relation": relation, "tail": tail},
        "probability": [None if i % 3 == 0 else 0.9 for i in range(count)],
        "low": [0.8] * count,
        "high": [0.95] * count,
        "score": [float("nan") if i % 5 == 0 else 1.5 for i in range(count)],
        "collected": [True] * count,
        "fold": [1] * count,
    }
    pyarrow.parquet.write_table(pa.table(judged), folder / "posterior.parquet")
    return folder


@pytest.fixture(scope="session")
def serve() -> Callable[[Path], Guard]:
    """Make the application that answers about a folder."""

    def made(folder: Path) -> Guard:
        return create_app(ACCESS, [scoring_router(open_questions(folder, "cpu"))])

    return made


@pytest.fixture(scope="session")
def run_client(run_folder: Path, serve: Callable[[Path], Guard]) -> TestClient:
    return TestClient(serve(run_folder), base_url=ACCESS.url, headers=BEARER)


@pytest.fixture(scope="session")
def audit_client(audit_folder: Path, serve: Callable[[Path], Guard]) -> TestClient:
    return TestClient(serve(audit_folder), base_url=ACCESS.url, headers=BEARER)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A desk with the facts of nobody's audit."""
    with Desk.open(sample_audit(tmp_path / "audit", source=True).folder) as opened:
        yield opened


@pytest.fixture
def desk_client(desk: Desk) -> TestClient:
    app = create_app(ACCESS, [desk_router(desk)])
    return TestClient(app, base_url=ACCESS.url, headers=BEARER)
