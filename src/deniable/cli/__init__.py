"""The command line: parse, call, print.

Exit codes: 0 done, 1 a mistake that one sentence explains, 2 wrong usage, 3 a budget that refused.
"""

from __future__ import annotations

import sys

from deniable.errors import BudgetExceeded, DeniableError


def main() -> None:
    """Run `deniable`; a user's mistake is one sentence on standard error, never a stack trace."""
    from deniable.cli.app import app

    try:
        app()
    except BudgetExceeded as refusal:
        print(f"deniable: {refusal}", file=sys.stderr)
        sys.exit(3)
    except DeniableError as mistake:
        print(f"deniable: {mistake}", file=sys.stderr)
        sys.exit(1)
