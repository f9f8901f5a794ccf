"""A table as Markdown or LaTeX."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from npugraph.bench.layout import Block, Column, Group, Item, Part, Table

IMPOSSIBLE = "†"
# One pass over the text, so that what one replacement puts in is not replaced again.
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "–": "--",
        "<": "$<$",
        ">": "$>$",
        "|": "$|$",
        "†": r"$\dagger$",
        "‡": r"$\ddagger$",
    }
)


# --- Markdown


def to_markdown(table: Table, level: int = 1) -> str:
    """Return a table as Markdown, headings from ``level`` on."""
    title = (table.title or table.name).rstrip(".")
    pieces = [f"{'#' * level} {_words(title)}", _words(table.state)]
    for block in table.blocks:
        pieces.append(f"{'#' * (level + 1)} {_words(block.title)}")
        pieces += _markdown_block(block)
    return "\n\n".join(pieces) + "\n"


def _markdown_block(block: Block) -> Iterator[str]:
    for part in block.parts:
        grid = markdown_grid(part)
        yield f"**{_words(part.title)}**\n\n{grid}" if part.title else grid
    if block.notes:
        yield "\n".join(f"- {_words(note)}" for note in block.notes)
    if block.commands:
        lines = "\n".join(_commented(block.commands))
        yield (f"<details><summary>Run a cell again</summary>\n\n```sh\n{lines}\n```\n\n</details>")


def markdown_grid(part: Part) -> str:
    """Return one grid as a Markdown table; headings of groups are rows of their own."""
    width = len(part.columns)
    lines = [
        [_words(part.first), *(_words(column.title) for column in part.columns)],
        ["---", *["---:"] * width],
    ]
    for group in part.groups:
        if group.heading:
            lines.append([f"*{_words(group.heading)}*", *[""] * width])
        for line in group.lines:
            lines.append([_words(line.name), *(_markdown_item(item) for item in line.items)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _markdown_item(item: Item) -> str:
    text = f"**{_words(item.text)}**" if item.best else _words(item.text)
    return f"{text} {IMPOSSIBLE}" if item.impossible else text


def _words(text: str) -> str:
    """Keep a text on one line and inside its cell."""
    return " ".join(text.split()).replace("|", "\\|")


def _commented(commands: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield one command per line, each with its cell in words, the words below each other."""
    listed = list(commands)
    width = max(len(line) for _, line in listed)
    for title, line in listed:
        yield f"{line:<{width}}  # {' '.join(title.split())}"


# --- LaTeX


def to_latex(table: Table) -> str:
    """Return a table as LaTeX: one floating table per grid; needs the package booktabs."""
    title = _tex(table.title or table.name)
    pieces = [f"% {_comment(table.name)}: {_comment(table.state)} Needs \\usepackage{{booktabs}}."]
    for block in table.blocks:
        for i, part in enumerate(block.parts):
            last = i == len(block.parts) - 1
            caption = ". ".join(
                filter(None, (title.rstrip("."), _tex(block.title), _tex(part.title)))
            )
            pieces.append(_latex_grid(part, caption, block.notes if last else ()))
        pieces.append("\n".join(f"% {_comment(line)}" for line in _commented(block.commands)))
    return "\n\n".join(pieces) + "\n"


def _latex_grid(part: Part, caption: str, notes: Sequence[str]) -> str:
    width = len(part.columns)
    lines = [
        r"\begin{table*}[t]",
        rf"\caption{{{caption}.}}",
        r"\centering\small\setlength{\tabcolsep}{4pt}",
        rf"\begin{{tabular}}{{l{'r' * width}}}",
        r"\toprule",
        *_latex_head(part),
        r"\midrule",
    ]
    for i, group in enumerate(part.groups):
        lines += _latex_group(group, width, first=i == 0)
    lines += [r"\bottomrule", r"\end{tabular}"]
    if notes:
        lines.append(r"\par\smallskip\raggedright\footnotesize")
        lines += [rf"{_tex(note)}\par" for note in notes]
    return "\n".join([*lines, r"\end{table*}"])


def _latex_head(part: Part) -> list[str]:
    """Return the heading: one row, or two where columns share theirs."""
    first = _tex(part.first)
    if not any(column.sub for column in part.columns):
        return [_latex_row([first, *(_tex(column.head) for column in part.columns)])]
    top, rules, start = [""], [], 2
    for head, run in shared_heads(part.columns):
        end = start + len(run) - 1
        top.append(rf"\multicolumn{{{len(run)}}}{{c}}{{{_tex(head)}}}")
        if len(run) > 1:
            rules.append(rf"\cmidrule(lr){{{start}-{end}}}")
        start = end + 1
    below = [first, *(_tex(column.sub) for column in part.columns)]
    return [_latex_row(top), *rules, _latex_row(below)]


def shared_heads(columns: Iterable[Column]) -> list[tuple[str, list[Column]]]:
    """Return the neighbouring columns that share a heading."""
    found = itertools.groupby(columns, key=lambda column: column.head)
    return [(head, list(run)) for head, run in found]


def _latex_group(group: Group, width: int, first: bool) -> list[str]:
    lines = []
    if group.heading:
        if not first:
            lines.append(r"\addlinespace")
        heading = rf"\multicolumn{{{width + 1}}}{{l}}{{\textit{{{_tex(group.heading)}}}}}"
        lines.append(_latex_row([heading]))
    for line in group.lines:
        lines.append(_latex_row([_tex(line.name), *(_latex_item(item) for item in line.items)]))
    return lines


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_item(item: Item) -> str:
    text = rf"\textbf{{{_tex(item.text)}}}" if item.best else _tex(item.text)
    return text + r"$^\dagger$" if item.impossible else text


def _tex(text: str) -> str:
    return " ".join(text.split()).translate(_LATEX)


def _comment(text: str) -> str:
    """Keep a comment on one line."""
    return " ".join(text.split())
