"""The command line: parse, call, print.

Exit codes: 0 done, 1 a mistake that one sentence explains, 2 wrong usage, 3 a budget that refused, 4 a refuted claim,
130 interrupted.
"""

from __future__ import annotations

import sys

from deniable.errors import BudgetExceeded, DeniableError

MISTAKE, REFUSED = 1, 3
"""Exit codes. 2 is the parser's own; `audit` and `progress` hold theirs."""


def main() -> None:
    """Run `deniable`; a user's mistake is one sentence on standard error, never a stack trace."""
    from deniable.cli.app import app

    try:
        app()
    except BudgetExceeded as refusal:
        _leave(str(refusal), REFUSED)
    except DeniableError as mistake:
        _leave(str(mistake), MISTAKE)
    except OSError as failure:
        _leave(f"the file system refused: {failure}", MISTAKE)
    except RecursionError:
        _leave("a file is nested too deeply to be read", MISTAKE)


def _leave(sentence: str, code: int) -> None:
    from deniable.cli.wording import spoken

    print(f"deniable: {spoken(sentence, toml=sys.argv[1:2] == ['publish'])}", file=sys.stderr)
    sys.exit(code)
