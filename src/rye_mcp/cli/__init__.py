"""The `rye` command: everything a person does with rye-mcp, at a terminal or in a script.

A command prints its result on standard output (as JSON with `--json`) and what went wrong on standard error.
Exit codes: 0 done, 1 refused or failed, 2 wrong use, 130 interrupted.
"""

import gc
import os
import sys

__all__ = ["main"]

TRACEBACK_VARIABLE = "RYE_TRACEBACK"

GARBAGE_THRESHOLD = 100_000
"""How many objects are made before Python looks for those that nobody needs any more."""

HELP_COLUMNS = 80
"""How wide the page of `rye --help` is that was made before; a narrower terminal gets one of its own."""


def main() -> None:
    """Run the `rye` command with the arguments of this process."""
    # What is imported stays, and looking through it again and again takes a twentieth of a short command.
    gc.set_threshold(GARBAGE_THRESHOLD)
    _open_standard_streams()
    try:
        if not _help_is_printed():
            from rye_mcp.cli.commands import app

            app()
    except Exception as exc:  # the last one to see it: nobody is shown a traceback unasked
        from contextlib import suppress

        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        _report_unexpected(exc)
        with suppress(OSError):
            sys.stdout.close()  # what it could not write now it could not write at the very end either
        sys.exit(1)
    finally:
        gc.freeze()  # or Python looks through everything once more before it ends


def _open_standard_streams() -> None:
    """Open all three standard streams: the starter of this command may have closed some of them."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - to the end


def _help_is_printed() -> bool:
    """Print `rye --help` where it looks as in the generated page: without loading what makes such pages."""
    program, *arguments = sys.argv
    named = os.path.basename(program) == "rye" and "_RYE_COMPLETE" not in os.environ  # noqa: PTH119
    if arguments != ["--help"] or not named or _columns() < HELP_COLUMNS:
        return False
    from rye_mcp.cli.help_page import HELP

    try:
        sys.stdout.write(HELP)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough; Python would complain when it closes the stream
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    return True


def _columns() -> int:
    """How wide the terminal is, as `shutil.get_terminal_size` says; 80 without a terminal."""
    try:
        return int(os.environ["COLUMNS"]) or _columns_of_terminal()
    except (KeyError, ValueError):
        return _columns_of_terminal()


def _columns_of_terminal() -> int:
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or HELP_COLUMNS  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return HELP_COLUMNS


def _report_unexpected(exc: Exception) -> None:
    from rye_mcp.cli._printing import report
    from rye_mcp.errors import RyeError

    if isinstance(exc, OSError):
        what, hint = f"the system said: {exc}", "look at what it says, then try again"
        report(RyeError("write_failed", what, hint=hint))
        return
    found = f"expected none of this, found {type(exc).__name__}: {exc}"
    report(RyeError("internal", found, hint=f"{TRACEBACK_VARIABLE}=1 rye …, and report what that shows"))
