"""Reads the figures of the paper's tables out of its LaTeX source into a TSV file of the package.

    python scripts/build_paper_figures.py npugraph.tex            # write it
    python scripts/build_paper_figures.py npugraph.tex --check    # fail where it is not up to date

Needed once; a test does the same wherever the source is at hand.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "src/npugraph/bench/paper/printed.tsv"
GRAPHS = {"FB15K": "fb15k", "FB15K-237": "fb15k-237", "WN18": "wn18", "Twitter": "twitter"}
# Tables by their LaTeX label, in the order of the source: number, rate of perturbation. The
# ablation table does not give its rate; its last row is that of the table at rate 0.3.
TABLES = {
    "tb:main_0.3": (2, "0.3"),
    "tb:ablation": (3, "0.3"),
    "tb:twitter": (4, "0.3"),
    "tb:0.1Result": (5, "0.1"),
    "tb:0.5Result": (6, "0.5"),
    "tb:0.7Result": (7, "0.7"),
}
METRICS = ("mrr", "hits@1", "hits@3", "hits@10", "hits@30", "hits@50", "hits@100")


def plain(cell: str) -> str:
    r"""Return the words of a cell without its LaTeX.

    >>> plain(r"\multicolumn{1}{c|}{\textbf{0.030*}} "), plain(r"{\ul 0.255}")
    ('0.030', '0.255')
    """
    text = re.sub(r"\\multicolumn\{\d+\}\{[^}]*\}|\\multirow\{\d+\}\{[^}]*\}", "", cell)
    text = re.sub(r"\\(textbf|textit|ul|hline|bottomrule|toprule|rowcolor)\b|[{}*]", " ", text)
    return " ".join(text.split())


def spans(cell: str) -> int:
    """Return how many columns a cell takes."""
    found = re.search(r"\\multicolumn\{(\d+)\}", cell)
    return int(found.group(1)) if found else 1


def rows(body: str) -> Iterator[list[str]]:
    """Yield the cells of each row of a tabular."""
    for line in body.split("\\\\"):
        if "&" in line:
            yield line.split("&")


def table_lines(label: str, body: str) -> Iterator[str]:
    """Yield the lines of one table: one a system and graph."""
    number, rate = TABLES[label]
    graphs: list[str] = []
    metrics: list[str] = []
    for row in rows(body):
        name, *cells = row
        name = plain(name)
        if name.endswith("Dataset"):
            graphs = [plain(cell) for cell in cells for _ in range(spans(cell))]
        elif name in ("Metrics", "Ablations"):
            metrics = [re.sub("^(h|hit)@", "hits@", plain(cell).lower()) for cell in cells]
        elif "Gains" not in name:
            figures: dict[str, dict[str, str]] = {}
            for graph, metric, cell in zip(graphs, metrics, cells, strict=True):
                if graph in GRAPHS:
                    figures.setdefault(GRAPHS[graph], {})[metric] = plain(cell)
            for graph, found in figures.items():
                shown = (found.pop(metric, "") for metric in METRICS)
                yield "\t".join([str(number), graph, rate, name, *shown])
                if found:
                    raise ValueError(f"{label}: unknown metrics {', '.join(found)}.")


def lines(source: str) -> list[str]:
    """Return the lines of the TSV file, with its header."""
    found = ["\t".join(["table", "graph", "rate", "system", *METRICS])]
    for label in TABLES:
        start = source.index(f"\\label{{{label}}}")
        body = source[source.index("\\toprule", start) : source.index("\\end{tabular}", start)]
        found += table_lines(label, body)
    return found


def main() -> None:
    """Write the file, or check it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", type=Path, help="the paper's LaTeX source")
    parser.add_argument("--check", action="store_true", help="fail where it is not up to date")
    arguments = parser.parse_args()
    text = "\n".join(lines(arguments.source.read_text(encoding="utf-8"))) + "\n"
    if not arguments.check:
        TARGET.write_text(text, encoding="utf-8")
    elif TARGET.read_text(encoding="utf-8") != text:
        sys.exit(f"{TARGET.name} is not what the source gives: run this without --check.")


if __name__ == "__main__":
    main()
