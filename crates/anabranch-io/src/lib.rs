//! Readers of csv, npy, Parquet, Arrow and JSON lines, and the model file of anabranch.
