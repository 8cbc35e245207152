"""The peers of bench/query.py, each run by the Python of its own virtual environment: `query.py NAME FOLDER`.

Each answers the same question over the same million rows: count, sum and mean by group, 1,000 public groups, ε = 3 in
all, every person limited to the groups and rows that bench/query.py says. It prints as JSON its version, and the
seconds from the file to the released table; imports, and for Tumult the start of Spark, are not counted.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

GROUPS, MOST_GROUPS, MOST_ROWS, BOUNDS = 1000, 2, 4, (0.0, 5000.0)


def opendp_polars(folder: Path) -> tuple[str, Callable[[], Any]]:
    """OpenDP's Context over a lazy Polars frame."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")

    def ask() -> Any:
        keys = pl.LazyFrame({"grp": range(GROUPS)}, schema={"grp": pl.Int32})
        context = dp.Context.compositor(
            data=pl.scan_parquet(folder / "visits.parquet"),
            privacy_unit=dp.unit_of(contributions=1, identifier="person"),
            privacy_loss=dp.loss_of(epsilon=3.0),
            split_evenly_over=1,
            margins=[dp.polars.Margin(max_length=2_000_000, max_groups=GROUPS)],
        )
        cost = pl.col("cost").fill_nan(0.0).fill_null(0.0)
        return (
            context.query()
            .truncate_per_group(MOST_ROWS, by=["grp"])
            .truncate_num_groups(MOST_GROUPS, by=["grp"], keep="first")
            .group_by("grp")
            .agg(dp.len(), cost.dp.sum(BOUNDS).alias("sum"), cost.dp.mean(BOUNDS).alias("mean"))
            .with_keys(keys)
            .release()
            .collect()
        )

    return version("opendp"), ask


def pipelinedp(folder: Path) -> tuple[str, Callable[[], Any]]:
    """PipelineDP on its local backend."""
    import numpy as np
    import pipeline_dp as pd

    def ask() -> Any:
        with np.load(folder / "visits.npz") as columns:
            rows = list(zip(*(columns[name].tolist() for name in ("person", "grp", "cost")), strict=True))
        accountant = pd.NaiveBudgetAccountant(total_epsilon=3, total_delta=1e-6)
        params = pd.AggregateParams(
            metrics=[pd.Metrics.COUNT, pd.Metrics.SUM, pd.Metrics.MEAN],
            noise_kind=pd.NoiseKind.LAPLACE,
            max_partitions_contributed=MOST_GROUPS,
            max_contributions_per_partition=MOST_ROWS,
            min_value=BOUNDS[0],
            max_value=BOUNDS[1],
        )
        extractors = pd.DataExtractors(
            privacy_id_extractor=lambda row: row[0],
            partition_extractor=lambda row: row[1],
            value_extractor=lambda row: row[2],
        )
        engine = pd.DPEngine(accountant, pd.LocalBackend())
        found = engine.aggregate(rows, params, extractors, public_partitions=list(range(GROUPS)))
        accountant.compute_budgets()
        return list(found)

    return version("pipeline-dp"), ask


def tumult(folder: Path) -> tuple[str, Callable[[], Any]]:
    """Tumult Analytics on local Spark."""
    from pyspark.sql import SparkSession
    from tmlt.analytics import (
        AddRowsWithID,
        KeySet,
        MaxGroupsPerID,
        MaxRowsPerGroupPerID,
        PureDPBudget,
        QueryBuilder,
        Session,
    )

    os.environ["PYSPARK_PYTHON"] = sys.executable  # or its workers would not find the packages
    spark = SparkSession.builder.master("local[*]").config("spark.sql.shuffle.partitions", "8").getOrCreate()
    spark.range(10).count()

    def ask() -> Any:
        session = Session.from_dataframe(
            privacy_budget=PureDPBudget(3),
            source_id="visits",
            dataframe=spark.read.parquet(str(folder / "visits.parquet")),
            protected_change=AddRowsWithID(id_column="person"),
        )
        limited = QueryBuilder("visits").enforce(MaxGroupsPerID("grp", MOST_GROUPS))
        grouped = limited.enforce(MaxRowsPerGroupPerID("grp", MOST_ROWS)).groupby(
            KeySet.from_dict({"grp": list(range(GROUPS))})
        )
        asked = (grouped.count(), grouped.sum("cost", *BOUNDS), grouped.average("cost", *BOUNDS))
        return [session.evaluate(query, PureDPBudget(1)).collect() for query in asked]

    return version("tmlt.analytics"), ask


PEERS = {"opendp-polars": opendp_polars, "pipelinedp": pipelinedp, "tumult": tumult}

if __name__ == "__main__":
    found, ask = PEERS[sys.argv[1]](Path(sys.argv[2]))
    start = time.perf_counter()
    answer = ask()
    print(json.dumps({"version": found, "seconds": time.perf_counter() - start, "groups": len(answer)}))
