"""`deniable convert`: CSV files as one checked Parquet file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deniable.cli.printing import Force, Json, print_json, say
from deniable.cli.progress import waiting


def convert(
    file: Annotated[
        str, typer.Argument(help="A CSV file (.csv, .csv.gz), or a folder or pattern of them.", show_default=False)
    ],
    out: Annotated[Path, typer.Argument(help="The Parquet file to write.", show_default=False)],
    encoding: Annotated[
        str | None, typer.Option(help="How the text is written, such as cp1252; else UTF-8.", show_default=False)
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write CSV files as one checked Parquet file, which is opened at once and asked faster.

    A file that is not well formed is refused with the number of its line.

    Example: deniable convert visits.csv visits.parquet
    """
    from deniable.query import convert as converted

    with waiting("converting"):
        converted(file, out, encoding=encoding, overwrite=force)
    if json:
        print_json({"file": str(out)})
    else:
        say(f"{out}: written")
