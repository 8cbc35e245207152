"""`python -m deniable` is `deniable`, for a shell that does not find the command."""

from deniable.cli import main

main()
