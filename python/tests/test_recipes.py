"""The recipes of README.md for Dask and Spark."""

import shutil
import sys

import numpy as np
import pytest
from conftest import rows_of

import anabranch
from anabranch import DPMixture

X, _ = rows_of(8000)


def test_dask():
    distributed = pytest.importorskip("dask.distributed")
    model = DPMixture(bootstrap=2000, random_state=0).fit(X[:2000])
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster, distributed.Client(cluster) as client:
        snapshot = model.snapshot()
        tasks = [
            client.submit(anabranch.infer, snapshot, rows, batch=ix + 1, pure=False)
            for ix, rows in enumerate(np.split(X[2000:], 6))
        ]
        for task in distributed.as_completed(tasks):
            model.absorb(task.result())
    assert model.n_samples_seen_ == 8000 and model.n_components_ >= 4


@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_spark(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    sql = pytest.importorskip("pyspark.sql")
    pandas = pytest.importorskip("pandas")
    spark = (
        sql.SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
        .getOrCreate()
    )
    try:
        columns = ["x", "y"]
        model = DPMixture(bootstrap=2000, random_state=0).fit(pandas.DataFrame(X[:2000], columns=columns))
        snapshot = model.snapshot()

        def learn(frames):
            from pyspark import TaskContext

            first = (1 + TaskContext.get().partitionId()) << 32
            for ix, frame in enumerate(frames):
                yield pandas.DataFrame({"increment": [anabranch.infer(snapshot, frame[columns], batch=first + ix)]})

        frame = spark.createDataFrame(pandas.DataFrame(X[2000:], columns=columns)).repartition(3)
        for row in frame.mapInPandas(learn, "increment binary").toLocalIterator():
            model.absorb(bytes(row.increment))
        assert model.n_samples_seen_ == 8000 and model.n_components_ >= 4
    finally:
        spark.stop()
