//! Two sorted classes walked as one, a distinct key at a time.

/// Steps over the distinct keys of two sorted slices.
#[derive(Debug)]
pub(crate) struct Merge<'a, K> {
    positives: &'a [K],
    negatives: &'a [K],
    at: (usize, usize),
}

/// A distinct key and how many of either class are at most it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step<K> {
    pub(crate) key: K,
    pub(crate) positives: usize,
    pub(crate) negatives: usize,
}

impl<'a, K: Ord + Copy> Merge<'a, K> {
    pub(crate) fn new(positives: &'a [K], negatives: &'a [K]) -> Self {
        Self {
            positives,
            negatives,
            at: (0, 0),
        }
    }
}

impl<K: Ord + Copy> Iterator for Merge<'_, K> {
    type Item = Step<K>;

    #[inline]
    fn next(&mut self) -> Option<Step<K>> {
        let (mut p, mut n) = self.at;
        let key = match (self.positives.get(p), self.negatives.get(n)) {
            (Some(&a), Some(&b)) => a.min(b),
            (a, b) => *a.or(b)?,
        };
        while self.positives.get(p) == Some(&key) {
            p += 1;
        }
        while self.negatives.get(n) == Some(&key) {
            n += 1;
        }
        self.at = (p, n);
        Some(Step {
            key,
            positives: p,
            negatives: n,
        })
    }
}
