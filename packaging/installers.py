"""What installs a release: scripts and manifests, made from templates with the version and the sums of its files."""

from __future__ import annotations

import re
from pathlib import Path

from project import ADDRESS, DESCRIPTION, DOWNLOADS, LATEST, PACKAGE, VERSION

TEMPLATES = Path(__file__).resolve().parent / "templates"
# A placeholder: @NAME@, or @SUM:TRIPLE@ for the sum of the archive of a target.
PLACEHOLDER = re.compile(r"@([A-Z_]+|SUM:[a-z0-9_-]+|FILE:[a-z0-9_-]+)@")
# These need an archive for Windows.
FOR_WINDOWS = ["install.ps1", "scoop.json", "winget-installer.yaml", "winget-locale.yaml", "winget-version.yaml"]
FOR_ALL = ["install.sh", "turntree.rb"]


def filled(template: str, values: dict[str, str]) -> str:
    """A template with its placeholders replaced. Fails on a placeholder without a value."""
    given = {
        "VERSION": VERSION,
        "DESCRIPTION": DESCRIPTION,
        "ADDRESS": ADDRESS,
        "DOWNLOADS": DOWNLOADS,
        "LATEST": LATEST,
        "LICENSE": PACKAGE["license"],
        **values,
    }
    text = (TEMPLATES / template).read_text()
    return PLACEHOLDER.sub(lambda found: given[found[1]], text)


def installers(sums: dict[str, str]) -> dict[str, str]:
    """The scripts and manifests for the archives with these sums, by file name."""
    values = {"SUMS": "\n".join(f"{sums[name]}  {name}" for name in sorted(sums) if name.startswith("turntree-"))}
    for name, found in sums.items():
        if triple := re.fullmatch(rf"turntree-{re.escape(VERSION)}-(.+?)\.(?:tar\.gz|zip)", name):
            values |= {f"SUM:{triple[1]}": found, f"FILE:{triple[1]}": name}
    made = {}
    for template in [*FOR_ALL, *FOR_WINDOWS]:
        wanted = set(re.findall(r"@(SUM:[a-z0-9_-]+)@", (TEMPLATES / template).read_text()))
        if template in FOR_WINDOWS and not any("windows" in name for name in sums):
            continue
        if missing := wanted - set(values):
            print(f"{template} is left out: no archive for {', '.join(sorted(missing))}")
            continue
        made[name_of(template)] = filled(template, values)
    return made


def name_of(template: str) -> str:
    """The name of a made file: winget wants the id of the package in it."""
    winget = {"winget-installer.yaml": ".installer", "winget-locale.yaml": ".locale.en-US", "winget-version.yaml": ""}
    if template in winget:
        return f"turntree.turntree{winget[template]}.yaml"
    return {"scoop.json": "turntree.json"}.get(template, template)
