//! Special functions, Cholesky factors of packed symmetric matrices, log-sum-exp.
