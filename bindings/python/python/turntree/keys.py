"""Keys of encrypted stores: ``Store(path, key=turntree.keys.unwrap(path))``.

The key of a store is wrapped for each who may have it, in files in the format of age, which the package
``pyrage`` reads: ``pip install turntree[keys]``.
"""

from __future__ import annotations

import os
import subprocess
from os import PathLike
from pathlib import Path

from turntree import Encrypted

__all__ = ["unwrap"]


def unwrap(
    path: str | PathLike[str],
    *,
    identity: str | PathLike[str] | None = None,
    passphrase: str | None = None,
) -> bytes:
    """The key of the store at ``path``, with the secret keys in the file ``identity``, or with a
    ``passphrase``, which takes a second or so. With neither, it is looked for as the program does: in the
    files that ``TURNTREE_IDENTITY`` names, in ``turntree/identity.txt`` below the directory of settings,
    in what ``TURNTREE_IDENTITY_COMMAND`` prints, and by ``TURNTREE_PASSPHRASE``.

    Raises ``Encrypted`` when nothing opens it, ``ImportError`` without ``pyrage``. The key opens
    everything: keep it in memory only."""
    import pyrage  # type: ignore[import-untyped]

    if identity is None and passphrase is None:
        texts, passphrase = _own_secrets(), os.environ.get("TURNTREE_PASSPHRASE") or None
    else:
        texts = [Path(identity).read_text()] if identity is not None else []
    secrets = [
        pyrage.x25519.Identity.from_str(line.strip())
        for text in texts
        for line in text.splitlines()
        if line.startswith("AGE-SECRET-KEY-")
    ]
    wrapped = sorted(
        file for file in (Path(path) / "keys").glob("*") if file.suffix in (".age", ".copy")
    )
    for file in wrapped:
        content = file.read_bytes()
        try:
            if secrets:
                return bytes(pyrage.decrypt(content, secrets))
        except pyrage.DecryptError:
            pass
        try:
            if passphrase is not None:
                return bytes(pyrage.passphrase.decrypt(content, passphrase))
        except pyrage.DecryptError:
            pass
    holders = ", ".join(sorted({file.stem for file in wrapped})) or "no holder"
    raise Encrypted(f"the key of {path} is wrapped for {holders}, and nothing at hand opens it")


def _own_secrets() -> list[str]:
    """The texts that have the user's own secret keys."""
    named = os.environ.get("TURNTREE_IDENTITY", "")
    files = [Path(file) for file in named.split(os.pathsep) if file]
    settings = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    own = Path(settings) / "turntree" / "identity.txt"
    texts = [file.read_text() for file in ([*files, own] if own.is_file() else files)]
    if command := os.environ.get("TURNTREE_IDENTITY_COMMAND"):
        printed = subprocess.run(
            ["sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True
        )
        texts.append(printed.stdout.decode())
    return texts
