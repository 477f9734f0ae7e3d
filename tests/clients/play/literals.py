"""Names that stand together in a bundled program of JavaScript: bundlers rename variables, and no strings."""

import re

NAME = rb"[A-Za-z][A-Za-z0-9]*(?:[-_.][A-Za-z0-9]+)*"
STRING = rb'"' + NAME + rb'"'
KEY = rb"(?:" + STRING + rb"|" + NAME + rb"):\s*"
VALUE = rb'(?:"[^"\\]{0,60}"|!?[0-9]+)'
PLACE = rb"[\w$.?]{1,40}"

# Each begins with bytes that stand for themselves, so that a search through some 100 MB is a matter of seconds.
LISTS = (
    # {user:"transcript","custom-title":"last-wins"}
    rb"\{(?:" + KEY + VALUE + rb",?\s*){3,}",
    # e.type==="user"||e.type==="assistant"
    rb'=="' + NAME + rb'"(?:\s*(?:\|\||&&)\s*' + PLACE + rb"\s*[!=]==?\s*" + STRING + rb")+",
    # case"user":case"assistant":
    rb'case"' + NAME + rb'":(?:\s*case\s*' + STRING + rb":)+",
    # ["SessionStart","SessionEnd"]
    rb"\[" + STRING + rb"(?:\s*,\s*" + STRING + rb")+\s*,?\s*\]",
)


def beside(program, known, least):
    """The names in lists of which half and `least` names are known: what stands beside those is of their kind."""
    found = set()
    for pattern in LISTS:
        for match in re.finditer(pattern, program):
            names = names_of(match[0])
            of_known = len(names & known)
            if of_known >= least and 2 * of_known >= len(names):
                found |= names
    return found


def names_of(text):
    """The keys of an object, or the strings of any other list."""
    pattern = KEY if text.startswith(b"{") else STRING
    return {name.strip(b'": \n').decode() for name in re.findall(pattern, text)}


def literals_with(program, field):
    """The types of the objects that are written out with a field: `{type:"mode",mode:e,sessionId:n}`."""
    inside = rb"(?:[^{}]|\{[^{}]{0,200}\}){0,400}?"
    pattern = rb'\{type:"(' + NAME + rb')"(?=' + inside + rb"\b" + field.encode() + rb"\b)"
    return {match[1].decode() for match in re.finditer(pattern, program)}
