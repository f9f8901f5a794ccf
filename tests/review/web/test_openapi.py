"""Whatever schemathesis makes of the OpenAPI: no 500, and no answer that is not documented."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi import APIRouter
from hypothesis import HealthCheck, settings
from schemathesis.config import SchemathesisConfig

from effort import times
from npugraph.review import Desk
from npugraph.review.questions import open_questions
from npugraph.review.web.api import desk_router
from npugraph.review.web.app import create_app
from npugraph.review.web.scoring import scoring_router
from review_samples import sample_audit

from .conftest import ACCESS, BEARER

HERE = {"Host": f"127.0.0.1:{ACCESS.port}"}
# What is too large is refused before anybody looks at it.
CONFIG = {
    "checks": {
        "negative_data_rejection": {
            "expected-statuses": ["400", "401", "404", "405", "413", "414", "422"]
        },
        "positive_data_acceptance": {
            "expected-statuses": ["2xx", "401", "404", "409", "413", "414"]
        },
    }
}
EFFORT = settings(
    max_examples=times(8, 200),
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
ANSWERED: Counter[int] = Counter()


class Later:
    """Stands for what is opened when the tests run; the forms are needed before."""

    real: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


RUN, AUDIT, DESK = Later(), Later(), Later()


def schema_of(*routers: APIRouter) -> Any:
    app = create_app(ACCESS, routers)
    config = SchemathesisConfig.from_dict(CONFIG)
    return schemathesis.openapi.from_asgi("/openapi.json", app, headers=HERE, config=config)


of_run = schema_of(scoring_router(RUN))
of_desk = schema_of(scoring_router(AUDIT), desk_router(DESK))  # type: ignore[arg-type]


@pytest.fixture(scope="module", autouse=True)
def opened(
    run_folder: Path, audit_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Open what is asked."""
    RUN.real, AUDIT.real = (open_questions(folder, "cpu") for folder in (run_folder, audit_folder))
    sample = sample_audit(tmp_path_factory.mktemp("desk") / "audit", stored=60, missing=10)
    with Desk.open(sample.folder) as DESK.real:
        yield


def check(case: Any) -> None:
    response = case.call_and_validate(headers={**BEARER, **HERE})
    ANSWERED[response.status_code] += 1


def each_operation(schema: Any, what: str) -> dict[str, Any]:
    """Return a test per operation, by its name.

    Schemathesis gives the tests of all operations one address; where several processes share the
    tests (xdist), only one of these would be run.
    """
    found = {}
    for operation in (result.ok() for result in schema.get_all_operations()):
        words = re.sub(r"\W+", "_", f"{operation.method} {operation.path}").strip("_")

        def keeps(case: Any) -> None:
            check(case)

        keeps.__name__ = keeps.__qualname__ = f"test_{what}_keeps_to_its_openapi_{words}"
        one = schema.include(method=operation.method.upper(), path=operation.path)
        found[keeps.__name__] = one.parametrize()(EFFORT(keeps))
    return found


globals().update(each_operation(of_run, "a_run") | each_operation(of_desk, "a_desk"))


def test_answers_of_many_kinds_were_seen() -> None:
    if not ANSWERED:
        pytest.skip("counts what the tests above were answered; run the whole file")
    assert ANSWERED[200] > 20
    assert {200, 204, 400, 401, 404, 405, 409, 422} <= ANSWERED.keys()
    assert not {status for status in ANSWERED if status >= 500}
