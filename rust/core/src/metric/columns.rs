//! The formulas for sixteen queries at once, with the bits of the kernels for one pair.
//!
//! A panel stores its queries by feature: `columns[i]` is element i of each of the sixteen. One register then belongs
//! to sixteen pairs, and what is a lane of a pair's sum (the features i, i + 16, …) is a sum of registers here. The
//! lanes are summed one after another, in the order in which halving joins them:
//!
//! ```text
//! 0 8 → 0+8   4 12 → 4+12   → (0+8)+(4+12)   2 10 6 14 → …   1 9 5 13 3 11 7 15 → …
//! ```
//!
//! so at most four partial sums wait, no register is shuffled, and a stored number is widened once for sixteen pairs.
//! Features that pad a row to whole groups are left out: they would add +0.0 to a sum that is never −0.0.

use super::Group;
use super::lp::Order;
use crate::isa::Simd;

/// Joins `term(i)` over all features: within a lane in ascending order, then the lanes by halves.
#[inline(always)]
fn joined<S: Simd, const R: usize>(
    s: S,
    features: usize,
    term: impl Fn(usize) -> [S::Lanes; R],
    join: impl Fn(S::Lanes, S::Lanes) -> S::Lanes,
) -> [S::Lanes; R] {
    let zero = [s.splat(0.0); R];
    let mut waiting = [zero; 4];
    for turn in 0..16_usize {
        let lane = turn.reverse_bits() >> (usize::BITS - 4);
        let mut total = zero;
        let mut i = lane;
        while i < features {
            let term = term(i);
            for r in 0..R {
                total[r] = join(total[r], term[r]);
            }
            i += 16;
        }
        // As in binary counting: every other total joins the one before, every fourth the pair before, …
        let joins = turn.trailing_ones() as usize;
        for earlier in &waiting[..joins] {
            for r in 0..R {
                total[r] = join(earlier[r], total[r]);
            }
        }
        match waiting.get_mut(joins) {
            Some(place) => *place = total,
            None => return total,
        }
    }
    zero
}

/// Joins a term of the element of the query and of each row.
#[inline(always)]
fn paired<S: Simd, const R: usize>(
    s: S,
    columns: &[Group],
    rows: [&[f64]; R],
    term: impl Fn(S::Lanes, S::Lanes) -> S::Lanes,
    join: impl Fn(S::Lanes, S::Lanes) -> S::Lanes,
) -> [S::Lanes; R] {
    let features = columns.len();
    let rows = rows.map(
        #[inline(always)]
        |row| &row[..features],
    );
    joined::<S, R>(
        s,
        features,
        #[inline(always)]
        |i| {
            let x = s.load(&columns[i]);
            let mut terms = [x; R];
            for r in 0..R {
                terms[r] = term(x, s.splat(rows[r][i]));
            }
            terms
        },
        join,
    )
}

/// The sums (or maxima) for `order` between the queries and each row.
#[inline(always)]
pub(crate) fn lp<S: Simd, const R: usize>(s: S, order: Order, columns: &[Group], rows: [&[f64]; R]) -> [S::Lanes; R] {
    match order {
        Order::Two => paired::<S, R>(
            s,
            columns,
            rows,
            #[inline(always)]
            |x, y| {
                let t = s.sub(x, y);
                s.mul(t, t)
            },
            #[inline(always)]
            |a, b| s.add(a, b),
        ),
        Order::One => paired::<S, R>(
            s,
            columns,
            rows,
            #[inline(always)]
            |x, y| s.abs(s.sub(x, y)),
            #[inline(always)]
            |a, b| s.add(a, b),
        ),
        Order::Infinity => paired::<S, R>(
            s,
            columns,
            rows,
            #[inline(always)]
            |x, y| s.abs(s.sub(x, y)),
            #[inline(always)]
            |a, b| s.max(a, b),
        ),
        Order::Other(power) => paired::<S, R>(
            s,
            columns,
            rows,
            #[inline(always)]
            |x, y| power.raise(s, s.abs(s.sub(x, y))),
            #[inline(always)]
            |a, b| s.add(a, b),
        ),
    }
}

/// The sums of products.
#[inline(always)]
pub(crate) fn dot<S: Simd, const R: usize>(s: S, columns: &[Group], rows: [&[f64]; R]) -> [S::Lanes; R] {
    paired::<S, R>(
        s,
        columns,
        rows,
        #[inline(always)]
        |x, y| s.mul(x, y),
        #[inline(always)]
        |a, b| s.add(a, b),
    )
}

/// The sums of squared deviations of the differences from their mean.
#[inline(always)]
pub(crate) fn scatter<S: Simd, const R: usize>(s: S, columns: &[Group], rows: [&[f64]; R]) -> [S::Lanes; R] {
    let Some(column) = columns.first() else {
        return [s.splat(0.0); R];
    };
    let x = s.load(column);
    let mut first = [x; R];
    for r in 0..R {
        first[r] = s.sub(x, s.splat(rows[r][0]));
    }
    let sums = joined::<S, R>(
        s,
        columns.len(),
        #[inline(always)]
        |i| shifted(s, &columns[i], rows, i, first),
        #[inline(always)]
        |a, b| s.add(a, b),
    );
    #[expect(clippy::cast_precision_loss, reason = "the number of features is far below 2^53")]
    let count = s.splat(columns.len() as f64);
    let mut means = sums;
    for r in 0..R {
        means[r] = s.div(sums[r], count);
    }
    joined::<S, R>(
        s,
        columns.len(),
        #[inline(always)]
        |i| {
            let mut squares = shifted(s, &columns[i], rows, i, first);
            for r in 0..R {
                let deviation = s.sub(squares[r], means[r]);
                squares[r] = s.mul(deviation, deviation);
            }
            squares
        },
        #[inline(always)]
        |a, b| s.add(a, b),
    )
}

/// The differences of element `i`, less those of the first element.
#[inline(always)]
fn shifted<S: Simd, const R: usize>(
    s: S,
    column: &Group,
    rows: [&[f64]; R],
    i: usize,
    first: [S::Lanes; R],
) -> [S::Lanes; R] {
    let x = s.load(column);
    let mut shifted = first;
    for r in 0..R {
        shifted[r] = s.sub(s.sub(x, s.splat(rows[r][i])), first[r]);
    }
    shifted
}
