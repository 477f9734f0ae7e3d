"""Encrypted stores: the program makes one, Python opens it with a file of keys or a passphrase."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyrage")

import turntree
from turntree import keys

PROGRAM = Path(sys.executable).with_name("turntree")
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="the package is not from a wheel")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for settings where no key is yet."""
    for name in ("TURNTREE_IDENTITY", "TURNTREE_IDENTITY_COMMAND", "TURNTREE_PASSPHRASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    return tmp_path / "settings"


def encrypted(path: Path, *how: str, **environment: str) -> None:
    command = [PROGRAM, "--store", path, "init", "--encrypt", *how]
    given = {**os.environ, **environment}
    ran = subprocess.run(command, env=given, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr


def write_and_read(path: Path, key: bytes) -> None:
    with turntree.Store(path, key=key) as store:
        with store.begin("task") as change:
            change.put("kept", "a", b"a secret of mine")
    with turntree.Store(path, key=key, create=False) as store:
        assert store["task"].get("kept", "a") == b"a secret of mine"
        child = os.fork()
        if child == 0:
            os._exit(0 if store.tip("task") else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    files = (file for file in path.rglob("*") if file.is_file())
    assert not any(b"a secret of mine" in file.read_bytes() for file in files)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_own_key_opens_a_store_as_it_does_for_the_program(
    path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encrypted(path)
    write_and_read(path, keys.unwrap(path))
    own = home / "turntree" / "identity.txt"
    write_and_read(path, keys.unwrap(path, identity=own))
    moved = own.rename(home / "moved.txt")
    monkeypatch.setenv("TURNTREE_IDENTITY_COMMAND", f"cat '{moved}'")
    write_and_read(path, keys.unwrap(path))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_passphrase_opens_a_store(
    path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encrypted(path, "--passphrase", TURNTREE_PASSPHRASE="open sesame")
    write_and_read(path, keys.unwrap(path, passphrase="open sesame"))
    with pytest.raises(turntree.Encrypted):
        keys.unwrap(path, passphrase="another")
    with pytest.raises(turntree.Encrypted):
        keys.unwrap(path)
    monkeypatch.setenv("TURNTREE_PASSPHRASE", "open sesame")
    write_and_read(path, keys.unwrap(path))


def test_without_its_key_a_store_says_that_it_is_encrypted(path: Path, home: Path) -> None:
    encrypted(path)
    other = path.parent / "other"
    encrypted(other, "--passphrase", TURNTREE_PASSPHRASE="x")
    for key in (None, keys.unwrap(other, passphrase="x")):
        with pytest.raises(turntree.Encrypted) as raised:
            turntree.Store(path, key=key)
        assert isinstance(raised.value, PermissionError) and "encrypted" in str(raised.value)
    with pytest.raises(turntree.InvalidInput):
        turntree.Store(path, key=b"no key")
    turntree.Store(path.parent / "plain", key=keys.unwrap(path)).close()
