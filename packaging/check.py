"""Installs what target/dist has, as its users do, and uses it: each way in a place of its own, without Rust.

    check.py [--only WAY]... [--older DIR]

DIR has the files of an earlier release, for the upgrade; without it this release is installed over itself.
A way whose files or tools are missing is skipped with the reason. Exits with 1 when a way fails.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from project import OUT, ROOT, VERSION

FILES = OUT / "files"
WINDOWS = f"turntree-{VERSION}-x86_64-pc-windows-gnu"
X86, ARM = f"turntree-{VERSION}-x86_64-unknown-linux-musl", f"turntree-{VERSION}-aarch64-unknown-linux-musl"


class Skipped(Exception):
    """A way that cannot be tried here, and why."""


def ran(*command, code=0, env=None, cwd=None, given=None) -> str:
    """Runs a command; gives its output of both kinds. Fails unless it exits with ``code``, if that is not ``None``."""
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, env=env, cwd=cwd, input=given, timeout=600
    )
    if code is not None and done.returncode != code:
        said = (done.stdout + done.stderr)[-1500:]
        raise AssertionError(f"{' '.join(map(str, command))}: exit code {done.returncode}, expected {code}\n{said}")
    return done.stdout + done.stderr


def needs(path: Path) -> Path:
    if not path.exists():
        raise Skipped(f"{path.name} has not been built")
    return path


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Skipped(f"{name} is not installed")
    return found


def empty_root(work: Path) -> Path:
    """A root directory with the tools of busybox and nothing else: no Rust, no compiler, no C library."""
    if os.geteuid() != 0:
        raise Skipped("a root directory of its own needs root")
    busybox = shutil.which("busybox")
    if busybox is None or b"not a dynamic" not in ran_raw("ldd", busybox):
        raise Skipped("busybox-static is not installed")
    root = work / "root"
    for folder in ["bin", "tmp", "home/user", "dev", "release"]:
        (root / folder).mkdir(parents=True)
    shutil.copy(busybox, root / "bin/busybox")
    for name in ran(busybox, "--list").split():
        if name != "busybox":
            (root / "bin" / name).symlink_to("busybox")
    (root / "dev/null").touch()
    shutil.copytree(FILES, root / "release", dirs_exist_ok=True)
    return root


def ran_raw(*command) -> bytes:
    done = subprocess.run(command, capture_output=True)
    return done.stdout + done.stderr


def inside(root: Path, script: str, code: int = 0) -> str:
    clean = ["/usr/bin/env", "-i", "HOME=/home/user", "PATH=/home/user/.local/bin:/bin", "TURNTREE_DOWNLOADS=/release"]
    return ran("chroot", root, "/bin/busybox", "env", *clean[1:], "/bin/sh", "-euc", script, code=code)


def sums(work: Path) -> None:
    for line in (FILES / "SHA256SUMS").read_text().splitlines():
        expected, name = line.split("  ")
        assert hashlib.sha256((FILES / name).read_bytes()).hexdigest() == expected, name
    built = [name for name in [X86, ARM] if (FILES / f"{name}.tar.gz").is_file()]
    for name in built:
        with tarfile.open(FILES / f"{name}.tar.gz") as tar:
            names = set(tar.getnames())
        for file in ["turntree", "man/man1/turntree-log.1", "completions/_turntree", "LICENSE-MIT", "THIRD-PARTY-LICENSES.txt"]:
            assert f"{name}/{file}" in names, f"{name} lacks {file}"
        bill = json.loads((FILES / f"{name}.cdx.json").read_text())
        assert len(bill["components"]) > 100, len(bill["components"])


def script(work: Path, older: Path | None) -> None:
    root = empty_root(work)
    needs(FILES / f"{X86}.tar.gz")
    # A damaged archive installs nothing.
    damaged = root / "damaged"
    shutil.copytree(FILES, damaged)
    data = bytearray((damaged / f"{X86}.tar.gz").read_bytes())
    data[len(data) // 2] ^= 1
    (damaged / f"{X86}.tar.gz").write_bytes(data)
    said = inside(root, "TURNTREE_DOWNLOADS=/damaged sh /release/install.sh", code=1)
    assert "is damaged or another file" in said and not (root / "home/user/.local").exists(), said
    inside(root, "TURNTREE_DOWNLOADS=/nowhere sh /release/install.sh", code=1)
    inside(root, "sh /release/install.sh --no-such-option", code=2)

    if older:
        shutil.copytree(older, root / "older")
        inside(root, "TURNTREE_DOWNLOADS=/older sh /older/install.sh")
    else:
        inside(root, "sh /release/install.sh")
    before = inside(root, "turntree --version").strip()
    shutil.copy(ROOT / "cli/assets/demo.jsonl", root / "home/user/session.jsonl")
    inside(root, "cd; turntree import session.jsonl --session kept; turntree snapshot --session kept -m noted --set scratchpad/x=1")
    kept = inside(root, "cd; turntree log kept --json")
    # Over a program that runs: the upgrade renames a new file into the place.
    said = inside(root, "cd; turntree serve --stdio </dev/zero >/dev/null 2>&1 & sh /release/install.sh; kill $! 2>/dev/null || true")
    after = inside(root, "turntree --version").strip()
    assert VERSION in after and f"Installed {after}" in said, said
    print(f"   {before} -> {after}")
    assert inside(root, "cd; turntree log kept --json") == kept, "the upgrade changed the history"
    # The golden store of the first format, which no program of today has written.
    shutil.copytree(ROOT / "format-spec/vectors/store-v1/store", root / "home/user/golden")
    inside(root, "cd; turntree --store golden fsck; turntree --store golden sessions")
    inside(root, "cd; turntree fsck; turntree demo; turntree export kept~1 --format source -o out; cmp out session.jsonl")
    inside(root, "turntree completions bash | grep -q turntree; test -s ~/.local/share/man/man1/turntree-log.1")

    said = inside(root, "sh /release/install.sh --uninstall")
    assert "Removed turntree" in said
    left = [str(path.relative_to(root / "home/user")) for path in (root / "home/user/.local").rglob("*") if path.is_file()]
    assert left and all(path.startswith(".local/share/turntree/store") or "turntree" in path for path in left), left
    assert not any("man1" in path or path.startswith(".local/bin") for path in left), left
    inside(root, "sh /release/install.sh --uninstall", code=1)
    # Installed again, the store is as it was; and a directory with spaces is one.
    inside(root, "cd; sh /release/install.sh --prefix '/home/user/my tools'; '/home/user/my tools/bin/turntree' log kept --json >/dev/null")


def debian(work: Path) -> None:
    tool("dpkg-deb")
    package = needs(FILES / f"turntree_{VERSION}_amd64.deb")
    assert f"Version: {VERSION}" in ran("dpkg-deb", "--info", package)
    root = work / "root"
    (root / "var/lib/dpkg/info").mkdir(parents=True)
    for name in ["status", "available"]:
        (root / "var/lib/dpkg" / name).touch()
    (root / "var/lib/dpkg/updates").mkdir()
    flags = ["--root", root, "--force-script-chrootless", "--force-not-root"]
    ran("dpkg", *flags, "--install", package)
    assert VERSION in ran(root / "usr/bin/turntree", "--version")
    assert (root / "usr/share/man/man1/turntree.1.gz").is_file()
    ran("dpkg", *flags, "--purge", "turntree")
    assert not (root / "usr/bin/turntree").exists()


def arm(work: Path) -> None:
    qemu = shutil.which("qemu-aarch64") or tool("qemu-aarch64-static")
    for name in [X86, ARM]:
        with tarfile.open(needs(FILES / f"{name}.tar.gz")) as tar:
            tar.extractall(work, filter="data")
    intel, other = [work / X86 / "turntree"], [qemu, work / ARM / "turntree"]
    env = {"HOME": str(work), "PATH": "/usr/bin:/bin", "TURNTREE_MAINTENANCE": "off"}
    assert VERSION in ran(*other, "--version", env=env)
    ran(*other, "demo", env=env)
    # A store goes from one processor to the other, and back.
    session = ROOT / "cli/assets/demo.jsonl"
    ran(*intel, "--store", work / "store", "import", session, "--session", "one", env=env)
    ran(*other, "--store", work / "store", "import", session, "--session", "two", env=env)
    for program in [intel, other]:
        ran(*program, "--store", work / "store", "fsck", env=env)
    logs = [ran(*program, "--store", work / "store", "log", "two", "--json", env=env) for program in [intel, other]]
    assert logs[0] == logs[1], "the two programs read another history"


def macos(work: Path) -> None:
    """Checks the form and the signature of a program for macOS on another system."""
    path = needs(FILES / f"turntree-{VERSION}-universal-apple-darwin.tar.gz")
    with tarfile.open(path) as tar:
        tar.extractall(work, filter="data")
    data = (work / path.name.removesuffix(".tar.gz") / "turntree").read_bytes()
    magic, count = struct.unpack(">II", data[:8])
    assert (magic, count) == (0xCAFEBABE, 2)
    kinds = set()
    for place in range(count):
        kind, _, offset, size, align = struct.unpack(">IIIII", data[8 + 20 * place : 28 + 20 * place])
        program = data[offset : offset + size]
        assert offset % (1 << align) == 0 and program[:4] == b"\xcf\xfa\xed\xfe"
        assert struct.unpack("<I", program[4:8])[0] == kind
        kinds.add(kind)
        assert is_signed(program) or kind != 0x0100000C, "Apple silicon runs only signed programs"
    assert kinds == {0x01000007, 0x0100000C}


def is_signed(program: bytes) -> bool:
    (commands,) = struct.unpack("<I", program[16:20])
    place = 32
    for _ in range(commands):
        kind, size = struct.unpack("<II", program[place : place + 8])
        if kind == 0x1D:
            return True
        place += size
    return False


def windows(work: Path) -> None:
    """The program of the archive for Windows, under Wine: daily use, and a store that moves between the systems."""
    path = needs(FILES / f"{WINDOWS}.zip")
    wine, compiler = tool("wine"), tool("x86_64-w64-mingw32-gcc")
    # A path with a space and a letter outside of ASCII, as user names have them.
    home = work / "Ann Müller"
    home.mkdir()
    with zipfile.ZipFile(path) as packed:
        packed.extractall(home)
    program = home / WINDOWS / "turntree.exe"
    for file in ["completions/_turntree.ps1", "LICENSE-MIT", "THIRD-PARTY-LICENSES.txt", "README.md"]:
        assert (home / WINDOWS / file).is_file(), f"{WINDOWS} lacks {file}"
    # Wine 8 has no bcryptprimitives.dll.
    source = ROOT / "tests/windows/bcryptprimitives.c"
    ran(compiler, "-shared", "-O1", "-o", program.with_name("bcryptprimitives.dll"), source, "-ladvapi32")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TURNTREE_")}
    env = kept | {"WINEPREFIX": str(work / "wine"), "WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml=",
                  "TURNTREE_MAINTENANCE": "off", "HOME": str(home)}
    ran("wineboot", "--init", env=env)
    try:
        def there(*words) -> str:
            return ran(wine, program, *words, env=env, cwd=home).replace("\r\n", "\n")

        assert VERSION in there("--version")
        there("demo")
        shutil.copy(ROOT / "cli/assets/demo.jsonl", home / "session.jsonl")
        there("--store", "store", "import", "session.jsonl", "--session", "one")
        there("--store", "store", "export", "one", "--format", "source", "-o", "back.jsonl")
        assert (home / "back.jsonl").read_bytes() == (home / "session.jsonl").read_bytes()
        with tarfile.open(needs(FILES / f"{X86}.tar.gz")) as tar:
            tar.extractall(work, filter="data")
        here = [work / X86 / "turntree", "--store", home / "store"]
        ran(*here, "snapshot", "--session", "one", "-m", "on Linux", "--set", "scratchpad/x=1", env=env)
        assert there("--store", "store", "log", "one", "--json") == ran(*here, "log", "one", "--json", env=env)
        there("--store", "store", "fsck")
        # The golden store of the first format.
        shutil.copytree(ROOT / "format-spec/vectors/store-v1/store", home / "golden")
        there("--store", "golden", "fsck")
    finally:
        ran("wineserver", "-k", env=env, code=None)


def powershell(work: Path) -> None:
    """The script for Windows, as far as PowerShell on another system runs it: everything but the program and the registry."""
    pwsh = tool("pwsh")
    script = needs(FILES / "install.ps1")
    parsed = f"$e = $null; [void][Management.Automation.Language.Parser]::ParseFile('{script}', [ref]$null, [ref]$e); exit $e.Count"
    ran(pwsh, "-NoProfile", "-Command", parsed)
    damaged = work / "damaged"
    damaged.mkdir()
    (damaged / f"{WINDOWS}.zip").write_bytes(b"another file")
    env = {**os.environ, "PROCESSOR_ARCHITECTURE": "AMD64", "LOCALAPPDATA": str(work / "local"), "TURNTREE_DOWNLOADS": str(damaged)}
    said = ran(pwsh, "-NoProfile", "-File", script, env=env, code=1)
    assert "is damaged or another file" in said and not (work / "local").exists(), said


def manifests(work: Path) -> None:
    """Every manifest of a package manager names archives of this release by their own sums."""
    sums = {name: found for found, name in (line.split("  ") for line in (FILES / "SHA256SUMS").read_text().splitlines())}
    tried = 0
    for name in ["turntree.rb", "turntree.json", "turntree.turntree.installer.yaml"]:
        path = FILES / name
        if not path.exists():
            continue
        tried += 1
        text = path.read_text()
        assert not re.search(r"@[A-Z]+[@:]", text), f"{name} has a placeholder"
        named = re.findall(r"/(turntree-[^/\"\s$]+\.(?:zip|tar\.gz))", text)
        hashes = re.findall(r"\b[0-9a-f]{64}\b", text)
        assert len(hashes) >= 2 and hashes == [sums[archive] for archive in named[: len(hashes)]], name
        if name.endswith(".json"):
            json.loads(text)
    server = json.loads((FILES / "server.json").read_text())
    assert len(server["description"]) <= 100 and {it["version"] for it in server["packages"]} == {VERSION}, server
    with tarfile.open(OUT / "npm" / f"turntree-{VERSION}.tgz") as tar:
        described = json.load(tar.extractfile("package/package.json"))
    assert described["mcpName"] == server["name"], "the registry of servers would not accept the npm package"
    if not tried:
        raise Skipped("server.json is good; there is no other manifest, each wants the archives of all its systems")


def container(work: Path) -> None:
    """The image of the Dockerfile, as far as it is files: the program on nothing, as another user than root."""
    if os.geteuid() != 0:
        raise Skipped("a root directory of its own needs root")
    program = needs(OUT / "image/amd64/turntree")
    for folder, mode in [("usr/bin", 0o755), ("tmp", 0o1777), ("data", 0o700)]:
        (work / folder).mkdir(parents=True)
        (work / folder).chmod(mode)
    os.chown(work / "data", 65532, 65532)
    work.chmod(0o755)
    shutil.copy(program, work / "usr/bin/turntree")
    env = {"HOME": "/data", "TURNTREE_STORE": "/data/store", "PATH": "/usr/bin"}
    inner = [tool("chroot"), "--userspec=65532:65532", work, "/usr/bin/turntree"]
    ran(*inner, "demo", env=env)
    ran(*inner, "init", env=env)
    ran(*inner, "stats", env=env)


def wheel(work: Path) -> None:
    wheels = sorted((OUT / "wheels").glob(f"turntree-{VERSION}-*manylinux*x86_64.whl"))
    if not wheels:
        raise Skipped("no wheel for this machine has been built")
    env = {"HOME": str(work), "PATH": "/usr/bin:/bin"}
    ran(sys.executable, "-m", "venv", work / "venv", env=env)
    bin = work / "venv/bin"
    ran(bin / "python", "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", wheels[0], env=env)
    assert VERSION in ran(bin / "turntree", "--version", env=env)
    ran(bin / "turntree", "demo", env=env)
    ran(bin / "python", "-c", "import turntree; turntree.Store('s.turntree').close()", env=env, cwd=work)
    ran(bin / "python", "-m", "pip", "uninstall", "--quiet", "--yes", "turntree", env=env)


def npm(work: Path) -> None:
    tool("npm")
    parts = [needs(OUT / "npm" / name) for name in [f"turntree-linux-x64-{VERSION}.tgz", f"turntree-{VERSION}.tgz"]]
    env = {"HOME": str(work), "PATH": "/usr/bin:/bin", "npm_config_update_notifier": "false"}
    (work / "package.json").write_text('{ "private": true }')
    ran("npm", "install", "--no-audit", "--no-fund", "--offline", *parts, env=env, cwd=work)
    assert VERSION in ran("npx", "--offline", "turntree", "--version", env=env, cwd=work)
    ran("npx", "--offline", "turntree", "demo", env=env, cwd=work)
    ran("npx", "--offline", "turntree", "show", "nothing", env=env, cwd=work, code=6)
    if list((OUT / "libraries/x86_64-unknown-linux-musl").glob("*.node")):
        ran("node", "-e", "require('turntree').Store.open('s').then((store) => store.close())", env=env, cwd=work)
        ran("node", "--input-type=module", "-e", "import { Store } from 'turntree'; await (await Store.open('s')).close()", env=env, cwd=work)


def bundle(work: Path) -> None:
    """The bundle for desktop clients: its server answers, and Anthropic's tool accepts the manifest if it is here."""
    path = needs(FILES / f"{X86}.mcpb")
    with zipfile.ZipFile(path) as packed:
        packed.extractall(work)
    manifest = json.loads((work / "manifest.json").read_text())
    program = work / manifest["server"]["entry_point"]
    program.chmod(0o755)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "check", "version": "1"}}
    lines = [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}]
    lines += [{"jsonrpc": "2.0", "method": "notifications/initialized"}, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}]
    given = "".join(json.dumps(line) + "\n" for line in lines)
    env = {"HOME": str(work), "PATH": "/usr/bin:/bin"}
    said = ran(program, "mcp", "--workspace", work, env=env, given=given, cwd=work)
    assert '"rollback"' in said or '"restore"' in said, said[:500]
    mcpb = shutil.which("mcpb")
    if mcpb:
        ran(mcpb, "validate", work / "manifest.json")


WAYS = {
    "sums": sums,
    "manifests": manifests,
    "script": script,
    "debian": debian,
    "arm": arm,
    "macos": macos,
    "windows": windows,
    "powershell": powershell,
    "container": container,
    "wheel": wheel,
    "npm": npm,
    "bundle": bundle,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Installs what target/dist has, and uses it.")
    parser.add_argument("--only", action="append", choices=WAYS)
    parser.add_argument("--older", type=Path)
    chosen = parser.parse_args()
    failed = 0
    for name in chosen.only or WAYS:
        with tempfile.TemporaryDirectory(prefix="turntree-check-") as folder:
            work = Path(folder)
            try:
                WAYS[name](work, chosen.older) if name == "script" else WAYS[name](work)
                print(f"{name}: passed", flush=True)
            except Skipped as reason:
                print(f"{name}: skipped, {reason}", flush=True)
            except (AssertionError, OSError, subprocess.TimeoutExpired) as reason:
                failed += 1
                print(f"{name}: FAILED\n{reason}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
