//! How a search is carried out: a pure function of its shape.

use super::sorted::BLOCK as SORT_BLOCK;
use crate::error::{Error, Result};
use crate::filter::f32::MOST_FEATURES;
use crate::filter::i8::MOST_FEATURES as MOST_FEATURES_I8;
use crate::filter::{Form, Shape};
use crate::matrix::Rows;
use crate::refine::Exact;
use crate::refine::panel::QUERIES as PANEL;

/// What decides how to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Work {
    /// Query rows.
    pub(super) queries: usize,
    /// Reference rows.
    pub(super) references: usize,
    /// Features of either.
    pub(super) features: usize,
    /// Neighbours asked for.
    pub(super) k: usize,
    /// Whether the distance has a filter.
    pub(super) filterable: bool,
    /// Whether its keys are products, which the 8-bit filter needs.
    pub(super) product: bool,
    /// Worker threads that may be used.
    pub(super) threads: usize,
    /// Bytes of a stored reference row.
    pub(super) row_bytes: usize,
}

impl Work {
    /// The work of a search by `exact`'s distance.
    pub(super) fn new(queries: usize, reference: Rows<'_>, k: usize, exact: &Exact, threads: usize) -> Self {
        let form = Form::possible(exact.distance()).filter(|_| exact.filterable());
        Self {
            queries,
            references: reference.len(),
            features: reference.features(),
            k,
            filterable: form.is_some(),
            product: matches!(form, Some(Shape::Squares | Shape::Products)),
            threads,
            row_bytes: reference.features() * reference.dtype().bytes(),
        }
    }
}

/// Ways to search; all give the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// Whatever is fastest.
    #[default]
    Auto,
    /// The float32 filter.
    F32,
    /// The 8-bit filter.
    I8,
    /// The exact value of every pair.
    Direct,
}

impl Method {
    /// The name that users know.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::F32 => "f32",
            Self::I8 => "i8",
            Self::Direct => "direct",
        }
    }

    /// The method of that name.
    ///
    /// # Errors
    /// [`Error::Parameter`] if there is none.
    pub fn named(name: &str) -> Result<Self> {
        let all = [Self::Auto, Self::F32, Self::I8, Self::Direct];
        all.into_iter()
            .find(|method| method.name() == name)
            .ok_or_else(|| Error::Parameter {
                argument: "method",
                expected: "auto, f32, i8 or direct",
                got: format!("{name:?}"),
            })
    }
}

/// How to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    /// Never [`Method::Auto`].
    pub(super) method: Method,
    /// Whether all values of a query are computed and sorted (with [`Method::Direct`]).
    pub(super) sorted: bool,
    /// Worker threads.
    pub(super) threads: usize,
    /// Queries per block.
    pub(super) block: usize,
    /// Whether the last blocks are shorter.
    pub(super) tapered: bool,
    /// Parts that the references are split into, so that every thread has work.
    pub(super) parts: usize,
    /// References that are packed at once.
    pub(super) chunk: usize,
    /// Whether the packed queries of all blocks are kept from chunk to chunk.
    pub(super) keep_packed: bool,
    /// References from whose bounds the first thresholds are taken; 0 for none.
    pub(super) warm: usize,
    /// Whether candidates of a chunk are refined while it is at hand, and not at the end.
    pub(super) settle: bool,
}

/// Multiply-adds below which a second thread does not pay.
const SERIAL: u64 = 8_000_000;

/// Queries from which packing the references pays: so many, and one more for every so many features. Packing a feature
/// takes as long as using it for a few exact values, and a pair takes its time whatever the features.
const FEWEST_TO_PACK: (usize, usize) = (9, 40);

/// Bytes of a packed chunk.
const CHUNK_BYTES: usize = 32 << 20;

/// Bytes of one that few queries pass over: it stays in the caches while it is written and read, once.
const SMALL_CHUNK_BYTES: usize = 3 << 20;

/// Queries that are few.
const FEW: usize = 128;

/// Bytes of packed queries that share the second-level cache with a panel.
const BLOCK_BYTES: usize = 512 << 10;

/// Queries of a block: fewer wait for each panel to come (84 ran at 0.8 times the speed of 240 at 512 features), more
/// gain nothing.
const BLOCK_ROWS: (usize, usize) = (240, 384);

/// The last blocks are this much smaller, so that threads end together.
const TAIL: usize = 4;

/// Bytes of packed queries that may be kept.
const PACKED_BYTES: usize = 64 << 20;

/// Reference bytes from which candidates are refined while their chunk is in memory.
const SETTLE_BYTES: usize = 1 << 30;

/// Bytes that sorting may take, for all threads.
const SORT_BYTES: usize = 128 << 20;

/// Bytes per reference and thread that sorting takes: the keys of a block, and two lists of words.
const SORT_ROW: usize = 4 * SORT_BLOCK + 16;

/// Bytes of candidates of a block.
const CANDIDATE_BYTES: usize = 16 << 20;

/// Bytes of one candidate.
const CANDIDATE: usize = 24;

impl Plan {
    /// The plan for `work` by `method`, with blocks of `batch` queries and chunks of `chunk` references unless 0.
    #[must_use]
    pub(super) fn new(work: &Work, method: Method, batch: usize, chunk: usize) -> Self {
        let multiplications = (work.queries as u64)
            .saturating_mul(work.references as u64)
            .saturating_mul(work.features as u64 + 8);
        let threads = if multiplications < SERIAL {
            1
        } else {
            work.threads.max(1)
        };
        let can_filter = work.filterable && (1..=MOST_FEATURES).contains(&work.features);
        let method = match method {
            Method::I8 if can_filter && work.product && work.features <= MOST_FEATURES_I8 => method,
            Method::F32 | Method::I8 if can_filter => Method::F32,
            Method::Auto if can_filter && pays_to_filter(work) => Method::F32,
            _ => Method::Direct,
        };
        let sorted = method == Method::Direct
            && work.k >= 32
            && work.k >= work.references / 4
            && work.references.saturating_mul(SORT_ROW * threads) <= SORT_BYTES;
        let block = if batch > 0 {
            batch.min(work.queries.max(1))
        } else if sorted {
            let share = work.queries.div_ceil(threads);
            share.next_multiple_of(PANEL).clamp(PANEL, SORT_BLOCK)
        } else {
            block(work, method, threads)
        };
        let blocks = work.queries.div_ceil(block.max(1)).max(1);
        let most_parts = (work.references / 2048).max(1);
        let parts = if sorted || blocks >= 3 * threads || threads == 1 {
            1
        } else {
            (4 * threads).div_ceil(blocks).min(most_parts)
        };
        let packed_row = if method == Method::I8 {
            work.features + 16
        } else {
            4 * (work.features + 2)
        };
        let chunk = if chunk > 0 {
            chunk
        } else {
            let few = work.queries <= FEW;
            (if few { SMALL_CHUNK_BYTES } else { CHUNK_BYTES } / packed_row).max(256)
        };
        Self {
            method,
            sorted,
            threads,
            block,
            tapered: batch == 0 && threads > 1 && !sorted,
            parts,
            chunk: chunk.min(work.references),
            keep_packed: work.queries.saturating_mul(packed_row) <= PACKED_BYTES,
            warm: warm(work, method),
            settle: work.references.saturating_mul(work.row_bytes) > SETTLE_BYTES,
        }
    }
}

impl Plan {
    /// Lengths of the blocks of `queries` queries.
    pub(super) fn blocks(&self, queries: usize) -> Vec<usize> {
        let tail = if self.tapered && queries > 2 * self.threads * self.block {
            self.threads * self.block
        } else {
            0
        };
        let short = (self.block / TAIL).next_multiple_of(12).min(self.block);
        let mut blocks = Vec::new();
        let mut left = queries;
        while left > 0 {
            let len = left.min(if left > tail { self.block } else { short });
            blocks.push(len);
            left -= len;
        }
        blocks
    }
}

fn pays_to_filter(work: &Work) -> bool {
    let fewest = FEWEST_TO_PACK.0 + work.features / FEWEST_TO_PACK.1;
    work.queries >= fewest.min(24) && work.references >= 64 && work.k < work.references / 4
}

fn block(work: &Work, method: Method, threads: usize) -> usize {
    let by_cache = match method {
        Method::Direct => 16,
        Method::I8 => (BLOCK_BYTES / work.features.max(1)).clamp(BLOCK_ROWS.0, BLOCK_ROWS.1),
        _ => (BLOCK_BYTES / (4 * work.features.max(1))).clamp(BLOCK_ROWS.0, BLOCK_ROWS.1),
    };
    let by_candidates = CANDIDATE_BYTES / CANDIDATE.saturating_mul(most_room(work.k));
    let most = by_cache.min(by_candidates).max(1);
    let share = work.queries.div_ceil(threads).max(1);
    let even = if share > most {
        share.div_ceil(share.div_ceil(most))
    } else {
        share
    };
    // Whole tiles of six and of twelve rows.
    if even >= 12 { even / 12 * 12 } else { even }
}

/// References that give the first thresholds. Each takes the time of a tile once more; without them, what comes first
/// passes whatever it is, and a pair that passes takes the time of some thousand features of a tile. The float32 filter
/// lets fewer pass, and gains by few of them only.
fn warm(work: &Work, method: Method) -> usize {
    let (features, most) = match method {
        Method::I8 => (50_000_usize, usize::MAX),
        Method::F32 => (20_000, 512),
        Method::Auto | Method::Direct => return 0,
    };
    let worth = features.saturating_mul(work.k) / (work.features + 64);
    worth.min(most).min(work.references / 4)
}

/// Candidates that a query's buffer holds while its block is searched, where the bounds are tight.
#[must_use]
pub(super) fn room(k: usize) -> usize {
    k + (2 * k).max(64)
}

/// Candidates that it holds at most: at 8 bits three or four pass for each neighbour.
#[must_use]
pub(super) fn most_room(k: usize) -> usize {
    (8 * k + 256).min(4096).max(3 * k)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work() -> Work {
        Work {
            queries: 10_000,
            references: 100_000,
            features: 512,
            k: 10,
            filterable: true,
            product: true,
            threads: 2,
            row_bytes: 2048,
        }
    }

    #[test]
    fn a_large_search_is_filtered_in_whole_tiles() {
        let plan = Plan::new(&work(), Method::Auto, 0, 0);
        assert_eq!(plan.method, Method::F32);
        assert_eq!(plan.block % 12, 0);
        assert_eq!(plan.parts, 1);
        assert!(plan.chunk * 2056 <= CHUNK_BYTES, "a chunk has its size");
    }

    #[test]
    fn methods_have_names_and_no_others() {
        for method in [Method::Auto, Method::F32, Method::I8, Method::Direct] {
            assert_eq!(Method::named(method.name()), Ok(method));
        }
        let message = Method::named("i4").unwrap_err().to_string();
        assert_eq!(message, "method must be auto, f32, i8 or direct, got \"i4\"");
    }

    #[test]
    fn few_queries_are_searched_directly_by_all_threads() {
        let plan = Plan::new(&Work { queries: 1, ..work() }, Method::Auto, 0, 0);
        assert_eq!(plan.method, Method::Direct);
        assert!(plan.parts >= 2, "both threads have work");
    }

    #[test]
    fn small_work_stays_on_the_calling_thread() {
        let plan = Plan::new(
            &Work {
                queries: 1,
                references: 1000,
                ..work()
            },
            Method::Auto,
            0,
            0,
        );
        assert_eq!((plan.threads, plan.parts), (1, 1));
    }

    #[test]
    fn all_neighbours_are_sorted() {
        let plan = Plan::new(
            &Work {
                queries: 2000,
                references: 20_000,
                features: 64,
                k: 20_000,
                ..work()
            },
            Method::Auto,
            0,
            0,
        );
        assert!(plan.sorted, "by sorting");
        let plan = Plan::new(
            &Work {
                references: 1 << 40,
                k: 1 << 40,
                ..work()
            },
            Method::Auto,
            0,
            0,
        );
        assert!(!plan.sorted, "not in so much memory");
    }

    #[test]
    fn a_distance_without_a_filter_is_searched_directly_whatever_is_asked() {
        let plan = Plan::new(
            &Work {
                filterable: false,
                ..work()
            },
            Method::F32,
            0,
            0,
        );
        assert_eq!(plan.method, Method::Direct);
    }

    #[test]
    fn plans_exist_for_shapes_at_the_ends_of_the_range() {
        for queries in [0, 1, usize::MAX] {
            for references in [1, usize::MAX] {
                for features in [0, 1, usize::MAX / 8] {
                    for k in [1, usize::MAX / 64] {
                        let work = Work {
                            queries,
                            references,
                            features,
                            k,
                            ..work()
                        };
                        let plan = Plan::new(&work, Method::Auto, 0, 0);
                        assert!(plan.block > 0 && plan.parts > 0 && plan.chunk > 0, "{work:?}: {plan:?}");
                    }
                }
            }
        }
    }
}
