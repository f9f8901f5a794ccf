"""One audit that the tests of this folder look at."""

from __future__ import annotations

import pytest

from audit_samples import FAST, sample
from npugraph.auditing import Audit, AuditSettings, audit

ASKED = AuditSettings(
    folds=3, budget=15, missing=30, explained=4, compared=32, search=False, device="cpu", seed=3
)


@pytest.fixture(scope="session")
def asked() -> AuditSettings:
    return ASKED


@pytest.fixture(scope="session")
def done() -> Audit:
    return audit(sample(), ASKED, FAST)
