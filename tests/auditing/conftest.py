"""One audit that the tests of this folder look at."""

from __future__ import annotations

import pytest

from audit_samples import FAST, called_reliable, sample
from npugraph.auditing import Audit, AuditSettings, audit

ASKED = AuditSettings(
    folds=3, budget=15, missing=30, explained=4, compared=32, search=False, device="cpu", seed=3
)


@pytest.fixture(scope="session")
def asked() -> AuditSettings:
    return ASKED


@pytest.fixture(scope="session")
def silent() -> Audit:
    """Return an audit of so small a graph that nothing is promised."""
    return audit(sample(), ASKED, FAST)


@pytest.fixture(scope="session")
def done(silent: Audit) -> Audit:
    """Return the same audit as if all of it were reliable, so that there are figures to look at."""
    return called_reliable(silent)
