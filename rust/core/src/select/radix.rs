//! Sorting of all float32 values of a query, a few bits at a time.

/// The place of a value among all float32, in ascending order; −0.0 and +0.0 must not both occur.
#[inline]
#[must_use]
pub fn ordinal(value: f32) -> u32 {
    let bits = value.to_bits();
    // Negative numbers descend as their bits ascend.
    let flip = if bits >> 31 == 1 { u32::MAX } else { 1 << 31 };
    bits ^ flip
}

/// The value at a place.
#[inline]
#[must_use]
pub fn at_ordinal(ordinal: u32) -> f32 {
    let flip = if ordinal >> 31 == 1 { 1 << 31 } else { u32::MAX };
    f32::from_bits(ordinal ^ flip)
}

/// Stands for a row that is not to be sorted; the [`ordinal`] of no number.
pub const NONE: u32 = u32::MAX;

/// Most bits of a pass: its counts stay in the caches, and distances of two octaves take two passes.
const BITS: u32 = 13;
const BUCKETS: usize = 1 << BITS;

/// Fewer rows than this are sorted by comparison.
const FEW: usize = 256;

/// Sorts, and keeps its memory for the next time.
#[derive(Debug, Default)]
pub struct Sorter {
    words: Vec<u64>,
    other: Vec<u64>,
    counts: Vec<u32>,
    found: usize,
    least: u32,
}

impl Sorter {
    /// Sorts the rows 0, 1, … with the ordinals `keys` by (ordinal, row), those that are [`NONE`] left out.
    ///
    /// # Panics
    /// For 2³² or more rows.
    pub fn sort(&mut self, keys: &[u32]) {
        assert!(u32::try_from(keys.len()).is_ok(), "row numbers of 32 bits");
        let (mut least, mut most, mut none) = (NONE, 0, 0);
        for &key in keys {
            least = least.min(key);
            most = most.max(if key == NONE { 0 } else { key });
            none += usize::from(key == NONE);
        }
        self.found = keys.len() - none;
        self.least = least;
        // What is none comes last, without widening the range.
        let end = most.saturating_sub(least).saturating_add(u32::from(none > 0));
        if keys.len() < FEW {
            self.words.clear();
            self.words.extend(words(keys, least, end));
            self.words.sort_unstable();
            return;
        }
        let bits = (u32::BITS - end.leading_zeros()).max(1);
        let passes = bits.div_ceil(BITS.min(keys.len().ilog2()));
        self.other.resize(keys.len(), 0);
        self.words.resize(keys.len(), 0);
        let width = bits.div_ceil(passes);
        match passes {
            1 => self.passes::<1>(keys, end, width),
            2 => self.passes::<2>(keys, end, width),
            3 => self.passes::<3>(keys, end, width),
            _ => self.passes::<4>(keys, end, width),
        }
    }

    /// The sorted (ordinal, row).
    pub fn sorted(&self) -> impl ExactSizeIterator<Item = (u32, u32)> {
        let least = self.least;
        self.words[..self.found].iter().map(move |&word| {
            #[expect(clippy::cast_possible_truncation, reason = "takes the halves apart")]
            let (key, row) = ((word >> 32) as u32, word as u32);
            (least.wrapping_add(key), row)
        })
    }

    fn passes<const PASSES: usize>(&mut self, keys: &[u32], end: u32, width: u32) {
        let least = self.least;
        self.counts.clear();
        self.counts.resize(PASSES * BUCKETS, 0);
        let (tables, _) = self.counts.as_chunks_mut::<BUCKETS>();
        let tables: &mut [[u32; BUCKETS]; PASSES] = tables.try_into().expect("a table each");
        let mask = (1_u32 << width) - 1;
        for &key in keys {
            let mut key = key.wrapping_sub(least).min(end);
            for table in tables.iter_mut() {
                table[(key & mask) as usize % BUCKETS] += 1;
                key >>= width;
            }
        }
        for table in tables.iter_mut() {
            let mut next = 0;
            for count in &mut table[..1 << width] {
                (*count, next) = (next, next + *count);
            }
        }
        let (first, others) = tables.split_first_mut().expect("at least one pass");
        scatter(words(keys, least, end), first, &mut self.words, 32, mask);
        for (table, pass) in others.iter_mut().zip(1..) {
            scatter(
                self.words.iter().copied(),
                table,
                &mut self.other,
                32 + pass * width,
                mask,
            );
            std::mem::swap(&mut self.words, &mut self.other);
        }
    }
}

/// Moves words to the places of their digits. The remainder tells the compiler that a digit is always in range.
#[inline(always)]
fn scatter(words: impl Iterator<Item = u64>, places: &mut [u32; BUCKETS], to: &mut [u64], shift: u32, mask: u32) {
    for word in words {
        #[expect(clippy::cast_possible_truncation, reason = "the mask takes fewer bits")]
        let digit = (word >> shift) as u32 & mask;
        let place = &mut places[digit as usize % BUCKETS];
        to[*place as usize] = word;
        *place += 1;
    }
}

/// The distance from `least`, at most `end`, and the row in one word each.
#[inline(always)]
fn words(keys: &[u32], least: u32, end: u32) -> impl Iterator<Item = u64> {
    keys.iter()
        .zip(0_u64..)
        .map(move |(&key, row)| u64::from(key.wrapping_sub(least).min(end)) << 32 | row)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(values: &[f32]) {
        let place = |value: f32| if value.is_nan() { NONE } else { ordinal(value + 0.0) };
        let keys: Vec<u32> = values.iter().map(|&value| place(value)).collect();
        let mut sorter = Sorter::default();
        // What an earlier, longer run left must not show.
        sorter.sort(&vec![7; 3000]);
        sorter.sort(&keys);
        let mut want: Vec<(f32, u32)> = values
            .iter()
            .zip(0..)
            .filter_map(|(&value, row)| (!value.is_nan()).then_some((value + 0.0, row)))
            .collect();
        want.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let got: Vec<(f32, u32)> = sorter.sorted().map(|(key, row)| (at_ordinal(key), row)).collect();
        assert_eq!(got, want);
    }

    fn lists(value: impl Strategy<Value = f32> + Clone) -> impl Strategy<Value = Vec<f32>> {
        prop_oneof![
            prop::collection::vec(value.clone(), 0..20),
            prop::collection::vec(value, 0..1200),
        ]
    }

    proptest! {
        #[test]
        fn any_values_sort_by_value_and_row(
            values in lists(prop_oneof![any::<f32>(), Just(0.0), Just(-0.0), Just(1.5), Just(f32::NAN)]),
        ) {
            check(&values);
        }

        #[test]
        fn values_of_one_magnitude_sort_by_value_and_row(
            values in lists(prop_oneof![20 => 1.0_f32..4.0, 1 => Just(f32::NAN)]),
            tiny in lists(0.0_f32..1e-40),
        ) {
            check(&values);
            check(&tiny);
        }
    }

    #[test]
    fn ends_of_the_range_sort() {
        for n in [1, 2, 255, 256, 700] {
            check(&vec![f32::NAN; n]);
            check(&vec![f32::INFINITY; n]);
            check(&vec![0.0; n]);
            let all: Vec<f32> = [f32::INFINITY, f32::NAN, f32::NEG_INFINITY, f32::MAX]
                .into_iter()
                .cycle()
                .take(n)
                .collect();
            check(&all);
        }
    }
}
