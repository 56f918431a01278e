"""The data sets as tensors: one table, one file per data set."""
