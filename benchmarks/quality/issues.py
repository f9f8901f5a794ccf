"""How many of the issues that need no model are about planted facts.

python -m benchmarks.quality.issues fb15k wn18 --noise one-sided --rate 0.02 --seed 7
"""

from __future__ import annotations

import argparse

from npugraph.auditing.issues import CHECKS, Issues, find_issues
from npugraph.data.perturb import PerturbSettings, perturb
from npugraph.data.sources import load_splits

Fact = tuple[str | None, ...]


def hits(issues: Issues, planted: set[Fact]) -> dict[str, tuple[int, int]]:
    """Return for each kind how many facts are listed, and how many lines have a planted fact.

    A second value, or a reverse, is planted where either of the two facts is.
    """
    found = {}
    for check in CHECKS:
        rows = issues.of(check.kind).to_pylist()
        if check.information or not rows:
            continue
        count = 0
        for row in rows:
            head, relation, tail, other = (row[n] for n in ("head", "relation", "tail", "other"))
            pair = {(head, relation, tail), (head, relation, other), (other, relation, tail)}
            if check.kind == "both-ways":
                pair.add((tail, relation, head))
            count += bool(pair & planted)
        found[check.kind] = (len(rows), count)
    return found


def main() -> None:
    """Print a row of a Markdown table for each graph and noise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="+")
    parser.add_argument("--noise", nargs="+", default=["one-sided"])
    parser.add_argument("--rate", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    print("| graph | noise | planted | listed: with a planted fact, of all |\n|---|---|---|---|")
    for graph in asked.graphs:
        for noise in asked.noise:
            settings = PerturbSettings(
                rate=asked.rate, added_share=1.0, noise=noise, seed=asked.seed
            )
            splits, truth = perturb(load_splits(graph), settings)
            whole = splits.whole()
            table = whole.with_facts(truth.planted).to_table().select(["head", "relation", "tail"])
            planted = set(zip(*(column.to_pylist() for column in table.columns), strict=True))
            found = hits(find_issues(whole), planted)
            said = ", ".join(f"{kind} {hit:,} of {of:,}" for kind, (of, hit) in found.items())
            print(f"| {graph} | {noise} | {len(planted):,} | {said or 'nothing'} |", flush=True)


if __name__ == "__main__":
    main()
