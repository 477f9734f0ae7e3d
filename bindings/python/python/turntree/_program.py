"""The program ``turntree``: the command line, which the extension module has in it."""

from __future__ import annotations

import os
import signal
import sys

from turntree import _turntree


def main() -> None:
    """Runs the program, and ends the process as it does."""
    if not hasattr(_turntree, "run_program"):
        sys.exit("turntree: this package was built without the program (TURNTREE_PROGRAM=none)")
    # Before it opens anything: what it opened would get a number that it takes for its output.
    for stream in range(3):
        try:
            os.fstat(stream)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    # Ctrl-C ends a program; that of Python waits for Python, which has nothing to say here.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    os._exit(_turntree.run_program(sys.argv))
