//! Special functions, packed Cholesky factors, the two matrix products and the softmax of the hot path.

pub mod cholesky;
pub mod draw;
mod log_product;
pub mod log_sum_exp;
pub mod product;
pub mod softmax;
pub mod special;
