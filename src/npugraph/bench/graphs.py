"""The graphs that cells run on; perturbed ones are files, so that only the judge sees the truth."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import replace
from pathlib import Path

from npugraph.bench.plan import Cell
from npugraph.data.datasets import content_hash
from npugraph.data.io import read_splits
from npugraph.data.perturb import PerturbSettings, describe, perturb, save
from npugraph.data.sources import load_splits
from npugraph.errors import DataError
from npugraph.graph import Splits


def perturbed(graph: str, settings: PerturbSettings, folder: Path) -> Splits:
    """Perturb a graph into a folder and read it back, as anybody would who was given the folder.

    The hidden truth stays in a file of the folder, which training never opens. A folder that is
    there already is read; it is made whole or not at all, so that many processes may share it.
    """
    clean = load_splits(graph)
    name = f"{clean.name}-ptb{settings.rate:g}-{settings.noise}-seed{settings.seed}"
    if not folder.is_dir():
        splits, truth = perturb(clean, settings)
        ours = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
        save(splits, truth, describe(splits, truth, settings, graph), ours)
        try:
            ours.replace(folder)
        except OSError:
            # Somebody else was first: theirs is the same.
            shutil.rmtree(ours)
    return replace(read_splits(folder), name=name)


def graph_of(cell: Cell, work: Path) -> Splits:
    """Return the graph of a cell, perturbed into a folder below ``work`` that cells share."""
    if content_hash(cell.graph) != cell.data:
        raise DataError(f"{cell.graph} is not the graph it was when the plan was read.")
    if cell.rate == 0:
        return load_splits(cell.graph)
    settings = PerturbSettings(cell.rate, cell.noise, seed=cell.seed)  # type: ignore[arg-type]
    folder = work / "graphs" / f"{cell.data[:16]}-{cell.rate:g}-{cell.noise}-{cell.seed}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    return perturbed(cell.graph, settings, folder)


def without_test(splits: Splits) -> Splits:
    """Return the graph that training gets: no test facts, no hidden truth."""
    return replace(splits, test=splits.train.with_facts(splits.train.facts[:0]), truth=None)


def remove_unused(work: Path) -> None:
    """Remove the perturbed graphs and the folder itself when no cell has anything left there."""
    cells = work / "cells"
    if cells.is_dir() and not any(cells.iterdir()):
        cells.rmdir()
        shutil.rmtree(work / "graphs", ignore_errors=True)
        # Somebody may keep other things there.
        with contextlib.suppress(OSError):
            work.rmdir()
