//! Choosing the best of many values.

pub mod topk;
