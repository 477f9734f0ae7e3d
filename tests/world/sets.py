"""The sets of recorded sessions: where they come from, and which of their files are tried."""

import json
import random
import re
import subprocess
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path


class Missing(Exception):
    """A set that cannot be had here, with the reason."""


@dataclass
class Set:
    """A list entry of `sets.json`: files of a public repository at one commit."""

    name: str
    commit: str
    licence: str
    files: dict
    known: dict = field(default_factory=dict)
    seed: int = 1

    def format_of(self, path):
        """The format that a file is said to have: the first pattern that fits counts."""
        return next((kind for pattern, kind in self.files.items() if fnmatchcase(path, pattern)), None)

    def known_reason(self, path, question):
        """The reason why an answer may be no, if the list names one."""
        for pattern, reasons in self.known.items():
            if fnmatchcase(path, pattern) and question in reasons:
                return reasons[question]
        return None


def load(path, only):
    listed = [Set(**entry) for entry in json.loads(path.read_text())]
    return [each for each in listed if not only or any(part in each.name for part in only)]


def git(repository, *arguments):
    run = subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True)
    if run.returncode:
        raise Missing(run.stderr.decode(errors="replace").strip().splitlines()[-1])
    return run.stdout


def repository_of(each, folder, cache):
    """The repository in `folder`, else one in `cache` that has the commit from GitHub."""
    flat = each.name.replace("/", "+")
    if folder:
        paths = [Path(folder, place) for place in (f"{flat}/repo", flat, each.name)]
        path = next((path for path in paths if path.is_dir()), None)
        if path is None:
            raise Missing(f"not in {folder}")
        git(path, "rev-parse", "--verify", each.commit + "^{commit}")
        return path
    path = Path(cache, flat)
    if not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        git(path.parent, "init", "--bare", "--quiet", path.name)
    try:
        git(path, "rev-parse", "--verify", each.commit + "^{commit}")
    except Missing:
        git(path, "fetch", "--depth", "1", f"https://github.com/{each.name}", each.commit)
    return path


def listed_files(each, repository):
    """Paths and blobs of the files that a pattern of the set fits, with the size, None for a blob that is not here."""
    listing = git(repository, "ls-tree", "-r", "-l", "-z", each.commit).decode(errors="surrogateescape")
    found = []
    for line in filter(None, listing.split("\0")):
        about, path = line.split("\t", 1)
        mode, kind, blob, size = about.split()
        if kind == "blob" and mode != "120000" and each.format_of(path):
            found.append((path, blob, int(size) if size.isdigit() else None))
    return found


def drawn(files, most, seed):
    """At most `most` of the files, drawn from a seed, in their order."""
    if not most or len(files) <= most:
        return files
    return [files[at] for at in sorted(random.Random(seed).sample(range(len(files)), most))]


def content(repository, blob):
    return git(repository, "cat-file", "blob", blob)


def file_name(path):
    """A file name that says where the file lay, as many files of a set are called the same."""
    parts = re.sub(r"[^A-Za-z0-9._/-]", "_", path).split("/")
    return "__".join(parts[-3:])
