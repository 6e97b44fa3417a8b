"""Parquet → answers: SQL views over a store, for people and for pandas or polars.

import analysis

with analysis.connect("results") as warehouse:
    warehouse.sql("from census").to_pandas()                        # a pyarrow.Table, so: pandas
    polars.from_arrow(warehouse.sql("from trials where is_flip"))   # or polars
"""

from analysis.errors import AnalysisError
from analysis.warehouse import Warehouse, connect, publish

__all__ = ["AnalysisError", "Warehouse", "connect", "publish"]
