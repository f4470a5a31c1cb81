"""The command line, thin: arguments in, one call, text or JSON out."""

from __future__ import annotations

import os
import sys

from typer import TyperException

from ..models.errors import HSPRError


def main() -> None:
    """Run the command line.

    Bad input, a full disk and the like end it with one line on stderr and exit code 2.
    """
    try:
        from .app import app

        code = app(sys.argv[1:] or ["--help"], prog_name="hspr", standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:  # the reader of a pipe left, as `head` does
        _discard_output()
        code = 1
    except TyperException as error:
        code = _refuse(f"{error.format_message().rstrip('.')}; see hspr --help")
    except (HSPRError, MemoryError) as error:
        code = _refuse(str(error) or "out of memory")
    except OSError as error:
        _discard_output()
        code = _refuse(str(error))
    sys.exit(code)


def _refuse(reason: str) -> int:
    print(f"hspr: error: {' '.join(reason.split())}", file=sys.stderr)
    return 2


def _discard_output() -> None:
    """Drop what could not be written: Python would try, and complain, once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
