"""A publication: several tables from one file, under one charge, written once.

`draft` reads the file; `publication` plans it, and tries it on made-up rows; `folder` keeps what is written whole, with
a note of how it was made.
"""

from deniable.query.publication.draft import Draft, DraftTable
from deniable.query.publication.publication import Publication

__all__ = ["Draft", "DraftTable", "Publication"]
