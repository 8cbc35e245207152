"""The command line: parse, call, print.

Exit codes: 0 done, 1 a mistake that one sentence explains, 2 wrong usage, 3 a budget that refused, 4 a refuted claim,
130 interrupted.
"""

from __future__ import annotations

import sys
from typing import Any

from deniable._escapes import passwords, printable, redacted
from deniable.errors import BudgetExceeded, DeniableError

MISTAKE, REFUSED = 1, 3
"""Exit codes. 2 is the parser's own; `audit` and `progress` hold theirs."""


def main() -> None:
    """Run `deniable`; a user's mistake is one sentence on standard error, never a stack trace."""
    from typer import Abort
    from typer.exceptions import TyperException

    from deniable.cli.app import command
    from deniable.cli.printing import safe_streams

    try:
        with safe_streams():
            sys.exit(command()(standalone_mode=False) or 0)
    except TyperException as misuse:
        _show_usage(misuse)
    except Abort:
        sys.exit(MISTAKE)
    except BudgetExceeded as refusal:
        sides = ("requested", "remaining", "largest")
        _leave(_word(refusal), REFUSED, **{name: getattr(refusal, name) for name in sides})
    except DeniableError as mistake:
        _leave(_word(mistake), MISTAKE)
    except OSError as failure:
        _leave(f"the file system refused: {failure}", MISTAKE)
    except UnicodeEncodeError:
        _leave("what was typed, or a file's name, holds bytes that are not text; write it in UTF-8", MISTAKE)
    except RecursionError:
        _leave("a file is nested too deeply to be read", MISTAKE)


def _word(error: DeniableError) -> str:
    """The message of an error, with remedies as flags, or as lines of TOML for `publish`."""
    from deniable.cli.wording import as_flag, as_toml

    return error.worded(as_toml if sys.argv[1:2] == ["publish"] else as_flag)


def _leave(sentence: str, code: int, **promises: Any) -> None:
    """End with one sentence on standard error; with --json, also with an object on standard output."""
    from deniable.cli.printing import complain, print_json

    for secret in (secret for word in sys.argv[1:] for secret in passwords(word)):
        sentence = sentence.replace(secret, "...")
    if "--json" in sys.argv:
        sides = {name: promise.to_dict() for name, promise in promises.items() if hasattr(promise, "to_dict")}
        print_json({"error": {"message": printable(redacted(sentence)), "exit_code": code, **sides}})
    complain(sentence)
    sys.exit(code)


def _show_usage(misuse: Any) -> None:
    """Print how the command is used and what was wrong, without passwords, and exit."""
    misuse.message = printable(redacted(misuse.message), lines=True)
    if "--json" in sys.argv:
        from deniable.cli.printing import print_json

        print_json({"error": {"message": misuse.format_message(), "exit_code": misuse.exit_code}})
    misuse.show()
    sys.exit(misuse.exit_code)
