//! Thresholds of scores: the separations of a labelled sample, and the best of them by a metric.
//!
//! A candidate accepts the scores down to one of the distinct ones, or none. Its threshold is the midpoint to the next
//! score in the scores' own format, so that comparing the very same scores with it gives back the very same counts.
//! Equal scores are never separated, and there is no tolerance: numbers that differ in the last bit are two scores.
//!
//! Built-in metrics need no array of candidates ([`select`]); for others there is [`Candidates`]. Beyond the inputs,
//! `select` takes at most a key per score (4 bytes for float32), and far less on most data.

mod best;
mod buckets;
mod candidates;
mod merge;
mod metric;
mod order;
mod workers;

#[cfg(test)]
mod tests;

use half::slice::HalfBitsSliceExt;
use half::{bf16, f16};

pub use self::candidates::Counts;
pub use self::metric::{Metric, Point};
pub use self::order::Order;

use self::candidates::Sorted;
use self::workers::Workers;
use crate::error::{Error, Result};
use crate::isa::float_env;
use crate::knn::Poll;

/// Scores as they are stored.
#[derive(Debug, Clone, Copy)]
pub enum Scores<'a> {
    /// float16
    F16(&'a [f16]),
    /// bfloat16, as bits
    Bf16(&'a [u16]),
    /// float32
    F32(&'a [f32]),
    /// float64
    F64(&'a [f64]),
}

/// The best candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Selection {
    /// A score matches if it is at least as strict as this.
    pub threshold: f64,
    /// The metric there.
    pub value: f64,
    /// How many match there.
    pub at: Point,
    /// How many there are.
    pub total: Point,
}

/// How to sweep; none of it changes the result.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// Worker threads; 0 means as many as there are processors.
    pub threads: usize,
    /// Asked about every 50 ms during long sweeps.
    pub poll: Option<Poll<'a>>,
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

/// Scores below this number are swept by one thread: starting others takes as long.
const SERIAL: usize = 1 << 17;

impl<'a> Options<'a> {
    fn workers(&self, scores: usize) -> Workers<'a> {
        let threads = match self.threads {
            _ if scores < SERIAL => 1,
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        Workers {
            threads,
            poll: self.poll,
        }
    }
}

impl Scores<'_> {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::F16(scores) => scores.len(),
            Self::Bf16(scores) => scores.len(),
            Self::F32(scores) => scores.len(),
            Self::F64(scores) => scores.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The candidate with the largest value of `metric`; of exact ties the one with the fewest matches.
///
/// A label is positive unless it is 0.
///
/// # Errors
/// [`Error::Parameter`] when scores are empty or not finite, when labels are of another length or of one kind only.
pub fn select(
    scores: Scores<'_>,
    labels: &[u8],
    order: Order,
    metric: Metric,
    options: &Options<'_>,
) -> Result<Selection> {
    check_lengths(scores, labels)?;
    // Subnormal scores are numbers here, whatever the caller's thread makes of them.
    let _env = float_env();
    let workers = options.workers(labels.len());
    match scores {
        Scores::F16(scores) => best::best(scores, labels, order, metric, workers),
        Scores::Bf16(scores) => best::best::<bf16>(scores.reinterpret_cast(), labels, order, metric, workers),
        Scores::F32(scores) => best::best(scores, labels, order, metric, workers),
        Scores::F64(scores) => best::best(scores, labels, order, metric, workers),
    }
}

/// Every candidate, strictest first: rejecting all, then down to each distinct score.
#[derive(Debug)]
pub struct Candidates(Format);

#[derive(Debug)]
enum Format {
    F16(Sorted<f16>),
    Bf16(Sorted<bf16>),
    F32(Sorted<f32>),
    F64(Sorted<f64>),
}

macro_rules! each_format {
    ($format:expr, $sorted:ident => $body:expr) => {
        match $format {
            Format::F16($sorted) => $body,
            Format::Bf16($sorted) => $body,
            Format::F32($sorted) => $body,
            Format::F64($sorted) => $body,
        }
    };
}

impl Candidates {
    /// Sorts the scores.
    ///
    /// # Errors
    /// As [`select`].
    pub fn new(scores: Scores<'_>, labels: &[u8], order: Order, options: &Options<'_>) -> Result<Self> {
        check_lengths(scores, labels)?;
        let _env = float_env();
        let workers = options.workers(labels.len());
        Ok(Self(match scores {
            Scores::F16(scores) => Format::F16(Sorted::new(scores, labels, order, workers)?),
            Scores::Bf16(scores) => Format::Bf16(Sorted::new(scores.reinterpret_cast(), labels, order, workers)?),
            Scores::F32(scores) => Format::F32(Sorted::new(scores, labels, order, workers)?),
            Scores::F64(scores) => Format::F64(Sorted::new(scores, labels, order, workers)?),
        }))
    }

    /// How many there are.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        each_format!(&self.0, sorted => sorted.len())
    }

    /// The counts of every candidate.
    #[must_use]
    pub fn counts(&self) -> Counts {
        each_format!(&self.0, sorted => sorted.counts())
    }

    /// The threshold of one candidate.
    ///
    /// # Errors
    /// [`Error::Parameter`] if there is no such candidate.
    pub fn threshold(&self, index: usize) -> Result<f64> {
        if index >= self.len() {
            return Err(Error::Parameter {
                argument: "index",
                expected: "a candidate",
                got: format!("{index} of {}", self.len()),
            });
        }
        let _env = float_env();
        Ok(each_format!(&self.0, sorted => sorted.threshold(index)))
    }

    /// The thresholds of all candidates.
    #[must_use]
    pub fn thresholds(&self) -> Vec<f64> {
        let _env = float_env();
        each_format!(&self.0, sorted => sorted.thresholds())
    }
}

fn check_lengths(scores: Scores<'_>, labels: &[u8]) -> Result<()> {
    let wrong = |argument, expected, got| {
        Err(Error::Parameter {
            argument,
            expected,
            got,
        })
    };
    if scores.is_empty() {
        return wrong("scores", "at least one number", "none".to_owned());
    }
    if labels.len() != scores.len() {
        let got = format!("{} labels for {} scores", labels.len(), scores.len());
        return wrong("labels", "as many as the scores", got);
    }
    Ok(())
}

pub(crate) fn check_labels(total: Point) -> Result<()> {
    if total.tp > 0 && total.fp > 0 {
        return Ok(());
    }
    Err(Error::Parameter {
        argument: "labels",
        expected: "partly True and partly False",
        got: format!("{} True and {} False", total.tp, total.fp),
    })
}
