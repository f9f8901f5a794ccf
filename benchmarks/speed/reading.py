"""How fast files of facts become ids: this package beside pandas, polars, PyKEEN and pyoxigraph.

    python -m benchmarks.speed.reading                # a million facts; TSV, Parquet, N-Triples
    python -m benchmarks.speed.reading --facts 10000000

The job is the same for all: read a file, number the names of one common vocabulary for heads and
tails and one for relations, and leave repeated facts out. Every measurement is a process of its
own with two threads, warmed up on a small file; the file is read once before, so that it lies in
memory. The best of some repeats counts, by the clock and by processor time: on a busy machine
compare the latter. ``first_seconds`` is the first of them: memory is new then, and this package
loads its compiled loops, which the small file does not need (they were compiled once before, for
the machine). ``held_mib`` is the peak beyond what the process held before the job. Appends one JSON
line to benchmarks/results/reading.jsonl.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import torch

from benchmarks import common
from npugraph.seeds import number

MODULE = "benchmarks.speed.reading"
RESULTS = common.RESULTS / "reading.jsonl"
THREADS = 2
# Entities, and distinct facts: all must find the same.
Counts = tuple[int, int]
NAMES = ["head", "relation", "tail"]


def write_files(count: int, folder: Path, formats: list[str]) -> dict[str, Path]:
    """Write facts about a tenth as many entities, some of them twice; some names are frequent."""
    rng = np.random.default_rng(number(0, "reading"))
    size = max(count // 10, 10)
    names = pa.array([f"http://example.org/entity/Q{i}" for i in rng.permutation(size)])
    relations = pa.array([f"http://example.org/property/P{i}" for i in range(100)])
    ends = ((rng.random(count) ** 2 * size).astype(np.int64) for _ in range(2))
    head, tail = (names.take(pa.array(end)) for end in ends)
    relation = relations.take(pa.array(rng.integers(100, size=count)))
    table = pa.table([head, relation, tail], names=NAMES)
    paths = {name: folder / f"facts.{name}" for name in formats}
    for name, path in paths.items():
        if name == "parquet":
            pa.parquet.write_table(table, path)
            continue
        begin, between, end = ("", "\t", "") if name == "tsv" else ("<", "> <", "> .")
        fields = pc.binary_join_element_wise(*table.columns, between)
        lines = pc.binary_join_element_wise(begin, fields, end + "\n", "")
        with path.open("wb") as file:
            for chunk in lines.chunks:
                file.writelines(text.encode() for text in chunk.to_pylist())
    return paths


def by_npugraph(path: Path) -> Counts:
    """Read as load_graph does."""
    from npugraph.data.io import read_graph

    graph = read_graph(path)
    return graph.num_entities, len(graph.index())


def by_npugraph_spilling(path: Path) -> Counts:
    """Read with DuckDB, which may use 256 MiB."""
    from npugraph.data.io import ReadOptions, read_spilled

    graph = read_spilled([path], str(path), ReadOptions(), memory=256 * 2**20)
    return graph.num_entities, len(graph.index())


def by_pandas(path: Path) -> Counts:
    """Read by the usual engine, number by factorize."""
    import pandas as pd  # type: ignore[import-untyped]

    if path.suffix == ".parquet":
        frame = pd.read_parquet(path)
    else:
        frame = pd.read_csv(
            path, sep="\t", names=NAMES, dtype=str, quoting=3, keep_default_na=False
        )
    ends = pd.concat([frame["head"], frame["tail"]], ignore_index=True)
    ids, entities = pd.factorize(ends)
    relations, _ = pd.factorize(frame["relation"])
    count = len(frame)
    columns = {"head": ids[:count], "relation": relations, "tail": ids[count:]}
    return len(entities), len(pd.DataFrame(columns).drop_duplicates())


def _polars_frame(path: Path) -> Any:
    import polars as pl

    if path.suffix == ".parquet":
        return pl.read_parquet(path)
    return pl.read_csv(
        path,
        separator="\t",
        has_header=False,
        quote_char=None,
        new_columns=NAMES,
        schema_overrides=[pl.String] * 3,
    )


def by_polars_categories(path: Path) -> Counts:
    """Number by categories, which all columns share."""
    import polars as pl

    frame = _polars_frame(path)
    ids = frame.select(pl.all().cast(pl.Categorical).to_physical())
    entities = pl.concat([ids["head"], ids["tail"]]).n_unique()
    return entities, len(ids.unique())


def by_polars_joins(path: Path) -> Counts:
    """Number the distinct names, and join them."""
    import polars as pl

    frame = _polars_frame(path).lazy()
    ends = pl.concat([frame.select(name=name) for name in ("head", "tail")])
    entities = ends.unique().with_row_index("id").collect().lazy()
    relations = frame.select(name="relation").unique().with_row_index("id").collect().lazy()
    for column, words in (("head", entities), ("relation", relations), ("tail", entities)):
        frame = frame.join(words, left_on=column, right_on="name").drop(column)
        frame = frame.rename({"id": column})
    return entities.select(pl.len()).collect().item(), len(frame.unique().collect())


def by_pykeen(path: Path) -> Counts:
    """Read as PyKEEN does; it keeps repeated facts, so they are left out afterwards."""
    from pykeen.triples import TriplesFactory

    factory = TriplesFactory.from_path(path)
    return factory.num_entities, len(torch.unique(factory.mapped_triples, dim=0))


def by_pyoxigraph(path: Path) -> Counts:
    """Parse by pyoxigraph, number by dictionaries."""
    import pyoxigraph

    entities: dict[Any, int] = {}
    relations: dict[Any, int] = {}
    facts = {
        (
            entities.setdefault(triple.subject.value, len(entities)),
            relations.setdefault(triple.predicate.value, len(relations)),
            entities.setdefault(triple.object.value, len(entities)),
        )
        for triple in pyoxigraph.parse(path=path, format=pyoxigraph.RdfFormat.N_TRIPLES)
    }
    return len(entities), len(facts)


TABLES = {
    "pandas": by_pandas,
    "polars, categories": by_polars_categories,
    "polars, joins": by_polars_joins,
}
OURS: dict[str, Callable[[Path], Counts]] = {
    "npugraph": by_npugraph,
    "npugraph, spilling": by_npugraph_spilling,
}
TOOLS: dict[str, dict[str, Callable[[Path], Counts]]] = {
    "tsv": {**OURS, **TABLES, "pykeen": by_pykeen},
    "parquet": {**OURS, **TABLES},
    "nt": {**OURS, "pyoxigraph": by_pyoxigraph},
}


def work(task: dict[str, Any]) -> dict[str, Any]:
    """Do the job some times in this process."""
    pa.set_cpu_count(THREADS)
    job, path = TOOLS[task["format"]][task["tool"]], Path(task["path"])
    with tempfile.TemporaryDirectory() as folder:
        job(write_files(1000, Path(folder), [task["format"]])[task["format"]])
    before, seconds, processor = _peak(), [], []
    for _ in range(task["repeats"]):
        started, used = time.perf_counter(), time.process_time()
        found = job(path)
        seconds.append(time.perf_counter() - started)
        processor.append(time.process_time() - used)
    return {
        "seconds": min(seconds),
        "first_seconds": seconds[0],
        "cpu_seconds": min(processor),
        "held_mib": _peak() - before,
        "found": found,
    }


def _peak() -> float:
    """Return the most MiB that this process has held; getrusage would count its parent, too."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def compare(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure all tools on all formats; return figures by format and tool."""
    variables = dict.fromkeys(
        ("OMP_NUM_THREADS", "POLARS_MAX_THREADS", "OMP_THREAD_LIMIT"), str(THREADS)
    )
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, path in write_files(arguments.facts, Path(folder), arguments.formats).items():
            path.read_bytes()
            result[name] = {"megabytes": path.stat().st_size / 1e6, "tools": {}}
            for tool in TOOLS[name]:
                repeats = 1 if tool == "pykeen" else arguments.repeats
                task = {"tool": tool, "format": name, "path": str(path), "repeats": repeats}
                try:
                    words = ["--worker", json.dumps(task)]
                    figures = common.in_own_process(MODULE, words, variables)
                except RuntimeError as error:
                    print(f"  {name}, {tool}: {error}", file=sys.stderr)
                    continue
                for kind in ("seconds", "cpu_seconds"):
                    per = "cpu_second" if kind == "cpu_seconds" else "second"
                    figures[f"facts_per_{per}"] = round(arguments.facts / figures[kind])
                result[name]["tools"][tool] = figures
                print(
                    f"  {name}, {tool}: {figures['facts_per_second']:,} facts/s, "
                    f"{figures['facts_per_cpu_second']:,} per processor second, "
                    f"{figures['held_mib']:,.0f} MiB",
                    file=sys.stderr,
                )
            _conclude(result[name])
    return result


def _conclude(figures: dict[str, Any]) -> None:
    """Check that all found the same; add how many times as fast as the best other one we are."""
    tools = figures["tools"]
    assert len({tuple(tool.pop("found")) for tool in tools.values()}) == 1, "unequal results"
    others = [tool for name, tool in tools.items() if name not in OURS]
    if "npugraph" in tools and others:
        for kind in ("seconds", "first_seconds", "cpu_seconds"):
            best = min(other[kind] for other in others)
            figures[f"ratio_{kind}"] = round(best / tools["npugraph"][kind], 2)


def main() -> None:
    """Compare, and append the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--facts", type=int, default=1_000_000)
    parser.add_argument("--formats", default="tsv,parquet,nt", type=lambda text: text.split(","))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(work(json.loads(arguments.worker))))
        return
    started, others = time.perf_counter(), common.others_time()
    result = compare(arguments)
    seconds = time.perf_counter() - started
    record = {
        "task": "reading",
        "facts": arguments.facts,
        "threads": THREADS,
        "formats": result,
        "others_busy": round(max(common.others_time() - others, 0.0) / seconds, 2),
        "command": common.command(MODULE, sys.argv[1:]),
        "date": time.strftime("%Y-%m-%d"),
        **common.circumstances(["pandas", "polars", "pyarrow", "pykeen", "pyoxigraph", "duckdb"]),
    }
    common.append(arguments.out, record)
    print(json.dumps(record))


if __name__ == "__main__":
    main()
