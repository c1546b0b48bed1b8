//! Whether the 8-bit filter pays, by trying it on a few rows.
//!
//! The 8-bit filter multiplies two to three times as fast as the float32 filter, and lets more pairs pass, each of
//! which costs an exact value. How many, only the data can tell: heavy tails or a few large coordinates make the
//! bound so loose that nearly all pass. Some queries are bounded against some references; the threshold that all
//! references would give is extrapolated, and pairs below it are counted.

use super::plan::Work;
use crate::filter::Filter;
use crate::matrix::Rows;

/// References that are tried: this part of them, within limits.
const PART: usize = 32;
const REFERENCES: (usize, usize) = (256, 1024);

/// Queries that are tried.
const QUERIES: usize = 24;

/// Nanoseconds on one core that the 8-bit filter saves for each feature of a pair, of 0.025, and what each pair costs it
/// more: estimated from whole searches on Zen 3.
const SAVED: f64 = 0.014;
const PAIR: f64 = 0.5;

/// Nanoseconds that a pair which passes costs, in all and for each feature. Fitted to searches of 20,000 rows of 128
/// features, where 8 bits and float32 take the same time when 90 pairs pass beyond the neighbours.
const PASSED: (f64, f64) = (180.0, 1.0);

/// By how many neighbours' worth of pairs more pass until the threshold has fallen: of few neighbours two or three times as
/// many as the last threshold lets pass, of a hundred a fifth more.
const LATE: f64 = 20.0;

/// Whether trying can be worth its time: it costs less than a twentieth of the search.
pub(super) fn is_worth_trying(work: &Work) -> bool {
    work.product && work.features >= 16 && work.queries >= 48 && work.references >= 2048
}

/// Whether the search by `filter` is expected to be faster than by the float32 filter.
pub(super) fn pays<L: Filter>(
    filter: &L,
    work: &Work,
    query: Rows<'_>,
    reference: Rows<'_>,
    exclude_self: bool,
) -> bool {
    let fraction = passing(filter, work, query, reference, exclude_self) * (1.0 + LATE / (count(work.k) + 2.0));
    let features = count(work.features);
    let saved = SAVED * features - PAIR;
    (fraction - count(work.k) / count(work.references)) * (PASSED.0 + PASSED.1 * features) < saved
}

/// The part of all pairs that is expected to pass `filter`.
fn passing<L: Filter>(filter: &L, work: &Work, query: Rows<'_>, reference: Rows<'_>, exclude_self: bool) -> f64 {
    let wanted = (reference.len() / PART).clamp(REFERENCES.0, REFERENCES.1);
    let (query_step, row_step) = (query.len().div_ceil(QUERIES), reference.len().div_ceil(wanted));
    let (query, reference) = (query.every(query_step), reference.every(row_step));
    let unit = filter.panel_rows();
    let panels = reference.len().div_ceil(unit);
    let mut chunk = filter.chunk(reference.len());
    for mut piece in filter.pieces(&mut chunk, reference.len(), panels) {
        filter.pack(&mut piece, reference);
    }
    let mut block = filter.block(query.len());
    filter.load(&mut block, query);
    let mut bounds: Vec<Vec<(f64, f64)>> = vec![Vec::new(); query.len()];
    let mut out = vec![(0.0, 0.0); query.len() * unit];
    for panel in 0..panels {
        filter.bounds(&mut block, &chunk, panel, &mut out);
        let rows = unit.min(reference.len() - panel * unit);
        for (i, (bounds, out)) in bounds.iter_mut().zip(out.chunks(unit)).enumerate() {
            let own = |row: usize| exclude_self && row * row_step == i * query_step;
            bounds.extend((0..rows).filter(|row| !own(panel * unit + row)).map(|row| out[row]));
        }
    }
    let usable: Vec<_> = (0..query.len()).filter(|&i| filter.usable(&block, i)).collect();
    let part = count(reference.len()) / count(work.references);
    let passed = usable
        .iter()
        .map(|&i| passed(&bounds[i], count(work.k) * part))
        .sum::<f64>();
    passed / count(usable.len().max(1))
}

/// The part of `bounds` below the threshold that `rank` of as many rows would give; less than one of them, if more
/// rows are to come.
fn passed(bounds: &[(f64, f64)], rank: f64) -> f64 {
    let mut centres: Vec<f64> = bounds
        .iter()
        .map(|(lower, upper)| (lower + upper) / 2.0)
        .filter(|x| x.is_finite())
        .collect();
    centres.sort_unstable_by(f64::total_cmp);
    let Some(&last) = centres.last() else { return 1.0 };
    let at = |i: usize| centres.get(i).copied().unwrap_or(last);
    let threshold = if rank >= 1.0 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank among rows"
        )]
        let rank = rank.ceil() as usize;
        at(rank - 1)
    } else {
        // As if the tail fell off exponentially.
        at(0) + (at(7) - at(0)) / 8.0_f64.ln() * rank.max(1e-9).ln()
    };
    count(bounds.iter().filter(|&&(lower, _)| lower <= threshold).count()) / count(bounds.len())
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn count(n: usize) -> f64 {
    n as f64
}
