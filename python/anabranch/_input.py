"""From whatever holds rows to what the engine reads: arrays, sparse rows, streams of blocks, files.

Nothing is copied here where the engine can read it in place: arrays of 32- or 64-bit floats in any order, memory-mapped
or not, and the single block of a homogeneous data frame.
"""

import datetime
import errno
import numbers
import os
from collections.abc import Iterator

import numpy as np
from scipy import sparse

# The label of the code that stands for every category that the model has not seen.
_OTHER = "other"

# Rows of a block of a data set.
_BLOCK = 1 << 14

_LARGEST_INDEX = np.iinfo(np.int32).max


def is_path(X):
    """True for a path, or a list of paths, to files that the engine reads itself."""
    if isinstance(X, (str, os.PathLike)):
        return True
    return isinstance(X, (list, tuple)) and len(X) > 0 and all(isinstance(x, (str, os.PathLike)) for x in X)


def paths(X):
    """The files of ``X`` as strings; a folder stands for its files in the order of their names."""
    given = [X] if isinstance(X, (str, os.PathLike)) else X
    found = []
    for path in map(os.fspath, given):
        if os.path.isdir(path):
            names = sorted(n for n in os.listdir(path) if not n.startswith((".", "_")))
            found.extend(os.path.join(path, name) for name in names)
        elif os.path.exists(path):
            found.append(path)
        else:
            raise FileNotFoundError(errno.ENOENT, "X: a path was given, and there is no such file", path)
    return found


def refuse_path(X, instead):
    """Refuses a path where rows are wanted."""
    if isinstance(X, (str, os.PathLike)):
        raise TypeError(f"X: a path was given ({os.fspath(X)!r}); {instead}")


def are_words(X):
    """True for documents that are lists of their words."""
    if not isinstance(X, (list, tuple)) and not (getattr(X, "ndim", 0) == 1 and getattr(X, "dtype", None) == object):
        return False
    first = next((document for document in X if isinstance(document, str) or len(document)), None)
    return first is not None and not isinstance(first, str) and isinstance(first[0], str)


def count_words(X, numbers, grows):
    """Documents as sparse counts over the words of ``numbers``, which become more if it ``grows``; and how many words are not in it."""
    data, columns, starts, unknown = [], [], [0], 0
    for place, document in enumerate(X, start=1):
        counts = {}
        for word in document:
            if not isinstance(word, str):
                raise TypeError(f"X: document {place}: {word!r} is not a word")
            number = numbers.setdefault(word, len(numbers)) if grows else numbers.get(word)
            if number is None:
                unknown += 1
            else:
                counts[number] = counts.get(number, 0) + 1
        columns.extend(counts)
        data.extend(counts.values())
        starts.append(len(data))
    shape = (len(starts) - 1, len(numbers))
    return sparse.csr_matrix((np.array(data, dtype=float), columns, starts), shape=shape), unknown


def is_stream(X):
    """True for things that are read once, block by block: iterators, Arrow readers and Arrow data sets."""
    return isinstance(X, Iterator) or _is_arrow_reader(X) or hasattr(X, "to_batches") and not hasattr(X, "column_names")


def _is_arrow_reader(X):
    return hasattr(X, "read_next_batch") and hasattr(X, "schema")


def blocks(X):
    """Yield the blocks of a stream, each something that ``rows`` understands."""
    if isinstance(X, Iterator) or _is_arrow_reader(X):
        yield from X
    else:
        # A data set reads ahead: by default far more than is needed to keep the workers busy, and whole files of Parquet.
        options = {}
        if getattr(getattr(X, "format", None), "default_extname", None) == "parquet":
            from pyarrow.dataset import ParquetFragmentScanOptions

            options["fragment_scan_options"] = ParquetFragmentScanOptions(pre_buffer=False)
        yield from X.to_batches(batch_size=_BLOCK, batch_readahead=1, fragment_readahead=0, **options)


def plain(X):
    """A table of Arrow as an array, and the table itself, which has names; anything else as it is, and None.

    Nulls become NaN: missing values.
    """
    if not hasattr(X, "num_rows") or not hasattr(X, "schema"):
        return X, None
    if not hasattr(X, "to_batches"):
        import pyarrow

        X = pyarrow.Table.from_batches([X])
    columns = [column.to_numpy() for column in X.columns]
    single = columns and all(column.dtype == np.float32 for column in columns)
    rows = np.empty((X.num_rows, len(columns)), dtype=np.float32 if single else np.float64)
    for ix, column in enumerate(columns):
        rows[:, ix] = column
    return rows, X


def without(X, column):
    """A table without the column of this name, and that column."""
    if not hasattr(X, "columns") and not hasattr(X, "schema"):
        raise TypeError(f"times: {column!r} names a column, and X has no names; pass one time for each row")
    names = list(X.schema.names if hasattr(X, "schema") else X.columns)
    if column not in names:
        raise ValueError(f"times: there is no column {column!r}")
    rest = [name for name in names if name != column]
    return X.select(rest) if hasattr(X, "schema") and hasattr(X, "select") else X[rest], X[column]


def seconds(times):
    """Times as seconds since 1970: numbers are seconds, and timestamps without a zone those of UTC. The engine says which is none."""
    if hasattr(times, "dt") and getattr(getattr(times, "dtype", None), "tz", None) is not None:
        times = times.dt.tz_convert("UTC").dt.tz_localize(None)
    times = np.asarray(times)
    if times.dtype == object:
        times = np.array([_timestamp(time) for time in times.ravel()]).reshape(times.shape)
    if times.ndim != 1:
        raise ValueError(f"times: {times.ndim} dimensions, where each row has one time")
    if np.issubdtype(times.dtype, np.datetime64):
        unit = times.astype("datetime64[s]")
        parts = (times - unit) / np.timedelta64(1, "s")
        return np.where(np.isnat(times), np.nan, unit.astype(np.int64) + parts)
    if times.dtype == bool or not np.issubdtype(times.dtype, np.number) or np.iscomplexobj(times):
        raise TypeError("times: numbers of seconds or timestamps are wanted (numpy's datetime64, pandas' Timestamp, datetime)")
    return np.ascontiguousarray(times, dtype=np.float64)


def _timestamp(time):
    """The seconds of a date and time, or of a number."""
    if hasattr(time, "timestamp") and time == time:
        return time.timestamp() if time.tzinfo is not None else time.replace(tzinfo=datetime.timezone.utc).timestamp()
    if isinstance(time, np.datetime64):
        return seconds(np.array([time]))[0]
    if time is None or time != time:
        return np.nan
    if isinstance(time, numbers.Real) and not isinstance(time, bool):
        return float(time)
    raise TypeError(f"times: {time!r} is no time; numbers of seconds or timestamps are wanted")


def coded(X, categories):
    """Rows with text in some columns as numbers: the code of each label, or the one that stands for all others."""
    columns = _columns(X)
    if len(columns) != len(categories):
        raise ValueError(f"rows have {len(columns)} columns, the model has {len(categories)}")
    rows = np.empty((len(columns[0]), len(columns)))
    for ix, (column, labels) in enumerate(zip(columns, categories)):
        if labels is None:
            rows[:, ix] = [np.nan if value is None else value for value in column]
            continue
        codes = {label: code for code, label in enumerate(labels)}
        other = len(labels) - 1 if labels and labels[-1] == _OTHER else len(labels)
        rows[:, ix] = [np.nan if _is_missing(value) else codes.get(_label(value), other) for value in column]
    return rows


def _columns(X):
    if hasattr(X, "num_rows"):
        return [column.to_pylist() for column in X.columns]
    if hasattr(X, "columns"):
        return [X[name].to_list() for name in X.columns]
    return list(np.asarray(X, dtype=object).T)


def _is_missing(value):
    return value is None or value != value


def _label(value):
    """A cell as the readers of files name it: 3.0 is 3."""
    if isinstance(value, str):
        return value.strip()
    number = float(value)
    return str(int(number)) if number.is_integer() else repr(number)


def lend(X):
    """What the engine borrows: the array itself, or the parts of a sparse matrix."""
    if sparse.issparse(X):
        X = X.tocsr()
        if X.nnz > _LARGEST_INDEX:
            raise ValueError(f"a sparse matrix of {X.nnz} entries is too large; pass it in parts to partial_fit")
        data = np.ascontiguousarray(X.data, dtype=np.float64)
        return data, X.indices.astype(np.int32, copy=False), X.indptr.astype(np.int32, copy=False), X.shape[1]
    return X
