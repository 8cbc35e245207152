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

    from deniable.cli.app import app
    from deniable.cli.printing import safe_streams

    try:
        with safe_streams():
            sys.exit(app(standalone_mode=False) or 0)
    except TyperException as misuse:
        _show_usage(misuse)
    except Abort:
        sys.exit(MISTAKE)
    except BudgetExceeded as refusal:
        _leave(str(refusal), REFUSED)
    except DeniableError as mistake:
        _leave(str(mistake), MISTAKE)
    except OSError as failure:
        _leave(f"the file system refused: {failure}", MISTAKE)
    except UnicodeEncodeError:
        _leave("what was typed, or a file's name, holds bytes that are not text; write it in UTF-8", MISTAKE)
    except RecursionError:
        _leave("a file is nested too deeply to be read", MISTAKE)


def _leave(sentence: str, code: int) -> None:
    from deniable.cli.printing import complain
    from deniable.cli.wording import spoken

    sentence = spoken(sentence, toml=sys.argv[1:2] == ["publish"])
    for secret in (secret for word in sys.argv[1:] for secret in passwords(word)):
        sentence = sentence.replace(secret, "...")
    complain(sentence)
    sys.exit(code)


def _show_usage(misuse: Any) -> None:
    """Wrong usage: how the command is used, and what was wrong, which may quote an address."""
    misuse.message = printable(redacted(misuse.message), lines=True)
    misuse.show()
    sys.exit(misuse.exit_code)
