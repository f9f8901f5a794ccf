"""What the repository says in all its files, and in its pages."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from doc_blocks import PAGES, ROOT

# Places of one machine, hosts of package registries and assistants have no business in any file.
# The words are written in two pieces, so that this file does not hold what it looks for.
FOLDERS = "|".join(("wo" + "rk", "ro" + "ot", "ho" + "me", "tmp/" + "wt"))
HOSTS = "|".join(("py" + "pi.org", "python" + "hosted.org", "down" + "load.pytorch.org"))
ASSISTANTS = "|".join(("chat" + "gpt", "clau" + "de", "co" + "pilot"))
FORBIDDEN = {
    "a path of one machine": rf"(?<![\w.}}/*-])/(?:{FOLDERS})/\w",
    "a package registry": HOSTS.replace(".", r"\."),
    "an assistant": rf"(?i)\b(?:{ASSISTANTS})\b",
}


def tracked() -> list[Path]:
    """Return the text files that git keeps, but for results of measurements."""
    try:
        done = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is no git checkout")
    names = filter(None, done.stdout.split("\0"))
    kinds = {".png", ".svg"}
    return [ROOT / name for name in names if Path(name).suffix not in kinds]


def test_no_file_names_a_machine_a_registry_or_an_assistant() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {what}: {line.strip()[:100]}"
        for path in tracked()
        if path.is_file()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for what, pattern in FORBIDDEN.items()
        if re.search(pattern, line)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("words", [FOLDERS, HOSTS, ASSISTANTS])
def test_what_is_forbidden_is_found(words: str) -> None:
    for word in words.split("|"):
        line = f"see /{word}/x"
        assert any(re.search(pattern, line) for pattern in FORBIDDEN.values()), line


def test_links_of_pages_lead_somewhere() -> None:
    """Those of docs/ stay in docs/, so that they work on the site, too."""
    broken = []
    for page in PAGES:
        inside = page.parent
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if re.match(r"[a-z]+:", target):
                continue
            path = (page.parent / target).resolve()
            if not path.exists() or not path.is_relative_to(inside):
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert not broken, "\n".join(broken)


def test_every_page_is_in_the_index_of_the_site() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8").splitlines()
    pages = {page.stem for page in PAGES if page.parent == ROOT / "docs"}
    assert pages - set(index) == {"index", "results_notes"}


def test_contributing_has_the_layers_of_the_imports() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    layers = re.findall(r'^    "([\w |]+)",$', project.split("layers = [")[1].split("]")[0], re.M)
    ordered = [name for layer in layers for name in layer.split(" | ")]
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    layout = contributing.split("## The layout")[1].split("\n## ")[0]
    named = re.findall(r"^    (\w[\w, ]*?)(?:  |$)", layout, re.M)
    assert [name for line in named for name in line.split(", ")] == ordered
