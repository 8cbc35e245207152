"""A publication: several tables from one file, under one charge, written once.

`draft` reads the file, `publication` plans it, `rehearsal` tries it on made-up rows, `folder` keeps what is written
whole, `note` says how it was made.
"""

from deniable.query.publication.draft import Draft, DraftTable
from deniable.query.publication.publication import Publication

__all__ = ["Draft", "DraftTable", "Publication"]
