#!/usr/bin/env python3
"""Writes a plain copy of an encrypted store, for reader.py; written from encryption.md alone.

    age -d -i IDENTITY STORE/keys/NAME.age > KEY
    decipher.py STORE KEY TARGET

TARGET is a directory that is not there yet. It needs the packages blake3 and cryptography.
Nothing is verified here: reader.py does that. The copy is readable for everyone.
"""

import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from blake3 import blake3
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

FOLDERS = "journal", "packs", "quarantine"
TITLES = {f"turntree store key, version {version}": version for version in (1, 2)}
FIRST = "xchacha20"
ZEROS = bytes(8)
WORDS = struct.Struct("<16I")


def derived(what: str, *parts: bytes) -> bytes:
    """What the page calls H."""
    return blake3(b"".join(parts), derive_key_context=f"turntree v1 {what}").digest()


def hchacha20(key: bytes, nonce: bytes) -> bytes:
    """The key of XChaCha20: half of a block of ChaCha20 before its input is added."""
    block = Cipher(algorithms.ChaCha20(key, nonce), None).encryptor().update(bytes(64))
    begin = WORDS.unpack(b"expand 32-byte k" + key + nonce)
    rounds = [(a - b) & 0xFFFFFFFF for a, b in zip(WORDS.unpack(block), begin, strict=True)]
    return struct.pack("<8I", *rounds[:4], *rounds[12:])


class Key:
    """A key of the store, with its cipher."""

    def __init__(self, cipher: str, key: bytes) -> None:
        if cipher not in (FIRST, "aes-256-ctr"):
            sys.exit(f"the cipher {cipher} is not known here")
        self.cipher = cipher
        self.secret = key if cipher == FIRST else derived("aes-256-ctr key", key)
        self.name = derived("key name", self.secret)[:8]

    def combined(self, nonce: bytes, content: bytes) -> bytes:
        """The content combined with the keystream of a file."""
        if self.cipher == FIRST:
            key = hchacha20(derived("file key", self.secret), nonce[:16])
            cipher = Cipher(algorithms.ChaCha20(key, bytes(8) + nonce[16:]), None)
        else:
            key = derived("file key", self.secret, nonce)
            cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16)))
        return cipher.encryptor().update(content)


def keys_of(text: str) -> list[Key]:
    """The keys in what was unwrapped."""
    title, *lines = text.splitlines()
    if not (version := TITLES.get(title)):
        sys.exit("expected the text of the keys of a store, as age unwraps it")
    lines = [line.split()[1:] for line in lines]
    return [Key(words[0] if version > 1 else FIRST, bytes.fromhex(words[-1])) for words in lines]


def heads(size: int) -> Iterator[int]:
    """Where the heads of a file lie."""
    yield from (0, 4096)
    yield from range(65536, size, 65536)


def deciphered(data: bytes, keys: list[Key]) -> bytes:
    """The content of a file; a file without a head is plain."""
    for place in heads(len(data)):
        for copy in (data[place : place + 32], data[place + 32 : place + 64]):
            for key in keys:
                if len(copy) == 32 and derived("file mark", key.secret, copy[:24])[:8] == copy[24:]:
                    return uncovered(data, key, copy[:24])
    return data


def uncovered(data: bytes, key: Key, nonce: bytes) -> bytes:
    places = [place for place in heads(len(data)) if place < len(data)]
    ends = [*places[1:], len(data)]
    content = b"".join(data[a + 64 : b] for a, b in zip(places, ends, strict=True))
    plain = bytearray(key.combined(nonce, content))
    at = content.find(ZEROS)
    while at >= 0:
        at += -at % 8
        if content[at : at + 8] == ZEROS:
            plain[at : at + 8] = ZEROS
        at = content.find(ZEROS, at + 1)
    return bytes(plain)


def main(store: Path, key: Path, target: Path) -> None:
    keys = keys_of(key.read_text())
    superblock = (store / "superblock").read_bytes()
    names = superblock[96:104], superblock[104:112]
    if keys[0].name != names[0] and keys[0].name != names[1]:
        sys.exit("the key is none of this store")
    target.mkdir(mode=0o700)
    plain = superblock[:40] + bytes([superblock[40] & ~3]) + superblock[41:64]
    (target / "superblock").write_bytes(plain + derived("superblock", plain))
    files = list(store.glob("manifest-*"))
    for folder in FOLDERS:
        (target / folder).mkdir(mode=0o700)
        files += (store / folder).glob("*")
    for file in files:
        if not file.name.endswith(".tmp"):
            copy = target / file.relative_to(store)
            copy.write_bytes(deciphered(file.read_bytes(), keys))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*map(Path, sys.argv[1:]))
