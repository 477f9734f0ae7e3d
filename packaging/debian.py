"""Debian packages, written without the tools of Debian: the program is static, so they depend on nothing."""

from __future__ import annotations

import gzip
import hashlib
from urllib.parse import urlsplit

from archive import Content, ar, tar_gz
from contents import completions, manual
from installers import filled
from parts import licences
from project import ADDRESS, ROOT, VERSION, Target, programs

PLACES = {
    "completions/turntree.bash": "usr/share/bash-completion/completions/turntree",
    "completions/_turntree": "usr/share/zsh/vendor-completions/_turntree",
    "completions/turntree.fish": "usr/share/fish/vendor_completions.d/turntree.fish",
}


def packages() -> dict[str, bytes]:
    """The package of each target that Debian has, by file name."""
    found = programs().items()
    return {f"turntree_{VERSION}_{target.deb}.deb": package(target, path.read_bytes()) for target, path in found if target.deb}


def package(target: Target, program: bytes) -> bytes:
    usr: Content = {"usr/bin/turntree": (program, True)}
    usr |= {f"usr/share/{name}.gz": (packed(page), False) for name, (page, _) in manual().items()}
    usr |= {PLACES[name]: script for name, script in completions().items() if name in PLACES}
    rights = [(ROOT / name).read_text() for name in ["LICENSE-MIT", "LICENSE-APACHE"]]
    usr["usr/share/doc/turntree/copyright"] = ("\n\n".join([*rights, licences(target.triple)]).encode(), False)
    usr["usr/share/doc/turntree/NEWS.gz"] = (packed((ROOT / "CHANGELOG.md").read_bytes()), False)
    size = sum(len(data) for data, _ in usr.values()) // 1024
    host = urlsplit(ADDRESS).hostname or ""
    control = filled("control", {"ARCHITECTURE": target.deb or "", "SIZE": str(size), "HOST": host})
    sums = "".join(f"{hashlib.md5(data).hexdigest()}  {name}\n" for name, (data, _) in sorted(usr.items()))
    described: Content = {"control": (control.encode(), False), "md5sums": (sums.encode(), False)}
    return ar(
        [
            ("debian-binary", b"2.0\n"),
            ("control.tar.gz", tar_gz(below(described), folders=True)),
            ("data.tar.gz", tar_gz(below(usr), folders=True)),
        ]
    )


def below(content: Content) -> Content:
    return {f"./{name}": data for name, data in content.items()}


def packed(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)
