"""Evidence for and against one fact, and what the chance of being collected depends on.

Everything here can be checked by hand against the stored facts: rules with the facts they rest on,
what other facts of the relation look like, and, where a scoring function is given, what it ranks
higher. The fact in question never counts as evidence for itself.
"""

from npugraph.explaining.collection import CollectionModel
from npugraph.explaining.evidence import Explainer, explain
from npugraph.explaining.lookup import fact_ids
from npugraph.explaining.records import (
    Alternative,
    Audited,
    Contradicting,
    EvidencePath,
    Explanation,
    Meant,
    Similar,
    Supporting,
    Usage,
    why_untold,
)
from npugraph.explaining.remarks import ISSUE, OVERALL, Place, Remark

__all__ = [
    "ISSUE",
    "OVERALL",
    "Alternative",
    "Audited",
    "CollectionModel",
    "Contradicting",
    "EvidencePath",
    "Explainer",
    "Explanation",
    "Meant",
    "Place",
    "Remark",
    "Similar",
    "Supporting",
    "Usage",
    "explain",
    "fact_ids",
    "why_untold",
]
