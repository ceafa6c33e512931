//! Special functions, Cholesky factors of packed symmetric matrices, log-sum-exp.

pub mod cholesky;
pub mod log_sum_exp;
pub mod special;
