#!/usr/bin/env python3
"""Builds the site of the documentation into target/site/book with mdBook, and checks its links.

usage: docs/contributing/site.py [--mdbook PROGRAM]

The pages are those of the repository, at the same paths, so that every link between them holds. The order is that of
docs/README.md; a page that it does not name stands below the index of its folder. A link to another file of the
repository leads to the repository of Cargo.toml.
"""
import argparse
import html.parser
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "target/site"
SOURCE, BOOK = OUT / "src", OUT / "book"
INDEX = "docs/README.md"
LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s]+)\)")
LEFT_OUT = re.compile(r"^(\.github|packaging/agents|tests/(stories|vectors))/")
SETTINGS = """[book]
title = "turntree"
description = "git for what an agent knows"
src = "src"
[build]
build-dir = "book"
create-missing = false
[output.html]
git-repository-url = "{repository}"
[output.html.search]
limit-results = 20
[output.html.fold]
enable = true
level = 1
"""


def tracked(pattern: str) -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z", pattern], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for path in listed.stdout.split("\0") if path and not LEFT_OUT.match(path)]


def title(page: str) -> str:
    line = next((line for line in (ROOT / page).read_text().splitlines() if line.startswith("# ")), f"# {page}")
    return line[2:].replace("`", "").replace("[", "").replace("]", "")


def resolved(page: str, target: str) -> str:
    """The path in the repository of a link in a page."""
    path = (ROOT / page).parent / unquote(target)
    return path.resolve().relative_to(ROOT).as_posix() if path.resolve().is_relative_to(ROOT) else ""


def summary(pages: list[str]) -> str:
    """The table of contents: the parts and links of docs/README.md, and below each index the rest of its folder."""
    named = {resolved(INDEX, target.split("#")[0]) for _, target in LINK.findall((ROOT / INDEX).read_text())}
    listed, lines = {"README.md", INDEX}, ["# Summary", "", "[turntree](README.md)", f"[Documentation]({INDEX})"]

    def chapter(page: str, depth: int) -> None:
        if page in listed or page not in pages:
            return
        listed.add(page)
        lines.append(f"{'    ' * depth}- [{title(page)}]({page})")
        if page.endswith("README.md"):
            below = page.removesuffix("README.md")
            for other in pages:
                if other.startswith(below) and other not in named:
                    chapter(other, depth + 1)

    for line in (ROOT / INDEX).read_text().splitlines():
        if line.startswith("## "):
            lines += ["", f"# {line[3:]}", ""]
        for _, target in LINK.findall(line):
            chapter(resolved(INDEX, target.split("#")[0]), 0)
    for page in pages:
        chapter(page, 0)
    return "\n".join(lines) + "\n"


def copied(page: str, pages: set[str], repository: str) -> str:
    """The text of a page, in which links to files that are no pages lead to the repository."""

    def link(found: re.Match) -> str:
        label, target = found.groups()
        if re.match(r"[a-z]+:|#", target) or label.startswith("!"):
            return found.group()
        place, _, anchor = target.partition("#")
        path = resolved(page, place)
        if f"{path}/README.md" in pages:
            place, path = f"{place.rstrip('/')}/README.md", f"{path}/README.md"
        if path and path not in pages:
            return f"{label}({repository}/blob/main/{path})"
        # mdBook calls the page of a folder index, and leaves links to it as they are.
        place = re.sub(r"(^|/)README\.md$", r"\1index.md", place)
        return f"{label}({place}#{anchor})" if anchor else f"{label}({place})"

    return LINK.sub(link, (ROOT / page).read_text())


class Page(html.parser.HTMLParser):
    """The links and the anchors of a built page."""

    def __init__(self, text: str):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if "id" in attributes:
            self.anchors.add(attributes["id"])
        target = attributes.get("href") if tag == "a" else attributes.get("src") if tag == "img" else None
        if target and not re.match(r"[a-z]+:|//", target):
            self.links.append(target)


def dead_links() -> list[str]:
    built = {path: Page(path.read_text()) for path in BOOK.rglob("*.html") if path.name not in ("404.html", "print.html", "toc.html")}
    dead = []
    for path, page in built.items():
        for link in page.links:
            target, _, anchor = link.partition("#")
            to = (path.parent / unquote(target)).resolve() if target else path
            to = to / "index.html" if to.is_dir() else to
            if not to.exists() or anchor and to in built and unquote(anchor) not in built[to].anchors:
                dead.append(f"{path.relative_to(BOOK)}: {link}")
    return dead


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mdbook", default="mdbook")
    mdbook = parser.parse_args().mdbook
    repository = re.search(r'^repository = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M).group(1)
    shutil.rmtree(OUT, ignore_errors=True)
    pages = sorted(tracked("*.md"), key=lambda page: (not page.endswith("README.md"), page))
    for page in pages:
        (SOURCE / page).parent.mkdir(parents=True, exist_ok=True)
        (SOURCE / page).write_text(copied(page, set(pages), repository))
    for picture in tracked("*.png") + tracked("*.svg"):
        (SOURCE / picture).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / picture, SOURCE / picture)
    (SOURCE / "SUMMARY.md").write_text(summary(pages))
    (OUT / "book.toml").write_text(SETTINGS.format(repository=repository))
    subprocess.run([mdbook, "build", str(OUT)], check=True)
    dead = dead_links()
    if dead:
        sys.exit("links of the site that lead nowhere:\n" + "\n".join(dead))
    print(f"{len(pages)} pages: {BOOK.relative_to(ROOT)}/index.html")


if __name__ == "__main__":
    main()
