"""Names of sessions and keys from any text, and back: what a name cannot have is written as ``%XX``."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from urllib.parse import unquote

from turntree import InvalidInput

#: Stands between the parts of a session's name.
SEPARATOR = "+"

_PLAIN = frozenset("-_.@=,()")


def quote(text: str, plain: frozenset[str] = _PLAIN) -> str:
    """Writes ``text`` so that it can be a part of a session's name or of a key."""
    if _has_only(plain)(text):
        return text  # As ids are, of which a turn has many.
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise InvalidInput("a name has half of a surrogate pair")
    return "".join(
        char
        if char.isalnum() or char in plain
        else "".join(f"%{byte:02X}" for byte in char.encode())
        for char in text
    )


@lru_cache
def _has_only(plain: frozenset[str]) -> Callable[[str], object]:
    """Matches letters and digits of any script and what is plain."""
    others = "".join(map(re.escape, sorted(plain | {"_"})))
    return re.compile(rf"[\w{others}]*").fullmatch


def session_name(*parts: str) -> str:
    """The name of a session that these parts name, which :func:`parts_of` gives back."""
    name = SEPARATOR.join(quote(part) for part in parts)
    if name == "@" or "@{" in name:
        name = name.replace("@", "%40")
    # Names of branches have these rules, so that each can be a ref of git.
    if ".." in name or name.endswith((".", ".lock")) or name.startswith("."):
        name = name.replace(".", "%2E")
    if name.startswith("-"):
        name = "%2D" + name[1:]
    return name or "%00"


def parts_of(name: str) -> tuple[str, ...]:
    """The parts that :func:`session_name` made a name of."""
    return ("",) if name == "%00" else tuple(unquote(part) for part in name.split(SEPARATOR))
