//! The k best columns of each row of a matrix that somebody else computed.
//!
//! A value becomes an integer key (smaller is better) by its bits alone, so that neither a flush-to-zero mode nor a
//! NaN can disturb the order; (key, column) is a total order, and ties keep the smaller column. One row costs O(n) to
//! select plus O(k log k) to sort, and n keys of memory. Not for the distances of this crate, whose search never
//! builds the matrix.

use ndarray::{ArrayView1, ArrayView2, Axis};

use crate::error::{Error, Result};
use crate::matrix::Rows;

/// Rows below which another thread costs more than it saves, in values.
const VALUES_PER_THREAD: usize = 1 << 16;

/// The columns of the `k` best values of each row, best first, row-major (rows × k).
///
/// Equal values keep the smaller column first and NaN comes after every number. With `self_offset`, column
/// `self_offset + i` is not for row i.
///
/// # Errors
/// [`Error::EmptyReference`] without columns, [`Error::K`] if `k` is 0 or more than a row can give.
pub fn topk(matrix: Rows<'_>, k: usize, largest: bool, self_offset: Option<usize>, threads: usize) -> Result<Vec<i64>> {
    match matrix {
        Rows::F16(view) => run(view, k, self_offset, threads, |v| key16(v.to_bits(), 10, largest)),
        Rows::Bf16(view) => run(view, k, self_offset, threads, |v| key16(v, 7, largest)),
        Rows::F32(view) => run(view, k, self_offset, threads, |v| key32(v.to_bits(), largest)),
        Rows::F64(view) => run(view, k, self_offset, threads, |v| key64(v.to_bits(), largest)),
    }
}

fn run<T: Copy + Send + Sync, K: Ord + Copy>(
    view: ArrayView2<'_, T>,
    k: usize,
    self_offset: Option<usize>,
    threads: usize,
    key: impl Fn(T) -> K + Sync,
) -> Result<Vec<i64>> {
    let (rows, columns) = view.dim();
    if columns == 0 {
        return Err(Error::EmptyReference);
    }
    let without_self = self_offset.is_some();
    let available = columns - usize::from(without_self);
    if k == 0 || k > available {
        return Err(Error::K {
            k,
            available,
            without_self,
        });
    }
    let mut best = vec![0; rows * k];
    let per_thread = rows.div_ceil(worker_count(rows * columns, threads)).max(1);
    let fill = |first: usize, part: ArrayView2<'_, T>, out: &mut [i64]| {
        let mut keys = Vec::with_capacity(columns);
        for ((i, row), out) in part.axis_iter(Axis(0)).enumerate().zip(out.chunks_exact_mut(k)) {
            let own = self_offset.map(|offset| offset + first + i);
            best_of_row(row, own, &key, &mut keys, out);
        }
    };
    std::thread::scope(|scope| {
        let mut parts = view
            .axis_chunks_iter(Axis(0), per_thread)
            .zip(best.chunks_mut(per_thread * k))
            .enumerate();
        let own_part = parts.next();
        for (part, (view, out)) in parts {
            scope.spawn(move || fill(part * per_thread, view, out));
        }
        if let Some((_, (view, out))) = own_part {
            fill(0, view, out);
        }
    });
    Ok(best)
}

fn worker_count(values: usize, threads: usize) -> usize {
    let threads = if threads == 0 {
        std::thread::available_parallelism().map_or(1, usize::from)
    } else {
        threads
    };
    threads.min(values / VALUES_PER_THREAD).max(1)
}

fn best_of_row<T: Copy, K: Ord + Copy>(
    row: ArrayView1<'_, T>,
    own: Option<usize>,
    key: impl Fn(T) -> K,
    keys: &mut Vec<(K, usize)>,
    out: &mut [i64],
) {
    keys.clear();
    keys.extend(
        row.iter()
            .enumerate()
            .filter(|&(j, _)| Some(j) != own)
            .map(|(j, &v)| (key(v), j)),
    );
    let k = out.len();
    if k < keys.len() {
        keys.select_nth_unstable(k - 1);
        keys.truncate(k);
    }
    keys.sort_unstable();
    for (slot, &(_, column)) in out.iter_mut().zip(keys.iter()) {
        #[expect(clippy::cast_possible_wrap, reason = "column numbers are below 2^63")]
        let column = column as i64;
        *slot = column;
    }
}

/// Defines the key of a float of some width from its bits: sign and magnitude become one ordered integer.
///
/// −0 and +0 share a key, every NaN has the largest one, and `largest` mirrors the numbers only.
macro_rules! define_key {
    ($name:ident, $bits:ty, $key:ty, $($mantissa:ident)?, $infinity:expr) => {
        fn $name(bits: $bits $(, $mantissa: u32)?, largest: bool) -> $key {
            let magnitude = bits & (<$bits>::MAX >> 1);
            if magnitude > $infinity {
                return <$key>::MAX;
            }
            let magnitude = <$key>::from_ne_bytes(magnitude.to_ne_bytes());
            let negative = bits >> (<$bits>::BITS - 1) == 1;
            if negative == largest { magnitude } else { -magnitude }
        }
    };
}

// The exponent's bits all set: everything between mantissa and sign.
define_key!(key16, u16, i16, mantissa, (u16::MAX >> 1) >> mantissa << mantissa);
define_key!(key32, u32, i32, , 0x7f80_0000);
define_key!(key64, u64, i64, , 0x7ff0_0000_0000_0000);

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};
    use ndarray::Array2;
    use proptest::prelude::*;

    fn naive(values: &Array2<f64>, k: usize, largest: bool, self_offset: Option<usize>) -> Vec<i64> {
        let mut best = Vec::new();
        for (i, row) in values.rows().into_iter().enumerate() {
            let mut order: Vec<_> = row.iter().copied().enumerate().map(|(j, v)| (v, j)).collect();
            order.retain(|&(_, j)| self_offset.is_none_or(|offset| j != offset + i));
            order.sort_by(|&a, &b| crate::reference::rank(largest, a, b));
            best.extend(order[..k].iter().map(|&(_, j)| i64::try_from(j).expect("small")));
        }
        best
    }

    fn special() -> impl Strategy<Value = f32> {
        prop_oneof![
            Just(0.0),
            Just(-0.0),
            Just(f32::NAN),
            Just(-f32::NAN),
            Just(f32::INFINITY),
            Just(f32::NEG_INFINITY),
            Just(f32::from_bits(1)),
            Just(-f32::from_bits(1)),
            Just(1.0),
            -2.0f32..2.0,
        ]
    }

    proptest! {
        #[test]
        fn every_format_ranks_as_the_naive_order(
            (rows, columns, k, values) in (1usize..5, 2usize..9).prop_flat_map(|(rows, columns)| {
                (Just(rows), Just(columns), 1..columns, proptest::collection::vec(special(), rows * columns))
            }),
            largest: bool,
            own: bool,
            threads in 0usize..4,
        ) {
            let offset = own.then_some(0);
            let single = Array2::from_shape_vec((rows, columns), values).expect("shape");
            let double = single.mapv(f64::from);
            let want = naive(&double, k, largest, offset);
            prop_assert_eq!(&topk(Rows::F32(single.view()), k, largest, offset, threads), &Ok(want.clone()));
            prop_assert_eq!(&topk(Rows::F64(double.view()), k, largest, offset, threads), &Ok(want));
            let half = single.mapv(f16::from_f32);
            let want = naive(&half.mapv(f64::from), k, largest, offset);
            prop_assert_eq!(&topk(Rows::F16(half.view()), k, largest, offset, threads), &Ok(want));
            let brain = single.mapv(|v| bf16::from_f32(v).to_bits());
            let want = naive(&brain.mapv(|v| f64::from(bf16::from_bits(v))), k, largest, offset);
            prop_assert_eq!(&topk(Rows::Bf16(brain.view()), k, largest, offset, threads), &Ok(want));
        }
    }

    #[test]
    fn threads_do_not_change_the_order_nor_shift_the_own_column() {
        let values = Array2::from_shape_fn((300, 1000), |(i, j)| ((i * 7 + j * 13) % 10) as f64);
        let want = naive(&values, 5, false, Some(100));
        for threads in [1, 2, 3, 16] {
            assert_eq!(
                topk(Rows::F64(values.view()), 5, false, Some(100), threads).as_ref(),
                Ok(&want),
                "{threads}"
            );
        }
    }

    #[test]
    fn k_beyond_the_columns_is_an_error() {
        let values = Array2::<f32>::zeros((2, 3));
        let rows = Rows::F32(values.view());
        assert!(topk(rows, 4, false, None, 1).is_err(), "three columns give three");
        assert!(
            topk(rows, 3, false, Some(0), 1).is_err(),
            "the own column does not count"
        );
        assert!(topk(rows, 0, false, None, 1).is_err(), "none is no answer");
        assert!(
            topk(rows.slice(0, 0), 3, false, None, 1).is_ok_and(|best| best.is_empty()),
            "no rows"
        );
    }
}
