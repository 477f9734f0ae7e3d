"""The program ``turntree``: the command line, which the extension module has in it.

Hooks of agents start it at every step, so what Python reads before it is little: no module of the
standard library but those that the interpreter has read already.
"""

import os
import sys

# The module signal is this one with enumerations around it, which take as long to make as the program
# takes to start.
import _signal  # type: ignore[import-not-found]

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
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    os._exit(_turntree.run_program(sys.argv))
