//! Sorting of (float32 value, row) pairs, packed in one word, in three passes of eleven bits.

/// Bits of a pass; its counts stay in the first-level cache.
const BITS: u32 = 11;
const BUCKETS: usize = 1 << BITS;
const PASSES: u32 = 3;

/// Value and row in one word: words with smaller values are smaller, and so are, among equals, those with smaller rows.
#[inline]
#[must_use]
pub fn packed(value: f32, row: u32) -> u64 {
    let bits = value.to_bits();
    // Negative numbers descend as their bits ascend.
    let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    u64::from(ordered) << 32 | u64::from(row)
}

/// The value and the row of a word.
#[inline]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "takes the halves apart")]
pub fn unpacked(word: u64) -> (f32, u32) {
    let ordered = (word >> 32) as u32;
    let bits = if ordered >> 31 == 1 {
        ordered & !(1 << 31)
    } else {
        !ordered
    };
    (f32::from_bits(bits), word as u32)
}

#[inline]
fn digit(word: u64, pass: u32) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "eleven bits")]
    let digit = (word >> (32 + pass * BITS)) as usize;
    digit & (BUCKETS - 1)
}

/// Sorts words that are in order of their rows; `scratch` is overwritten.
pub fn sort(words: &mut Vec<u64>, scratch: &mut Vec<u64>) {
    let mut counts = [[0_usize; BUCKETS]; PASSES as usize];
    for &word in words.iter() {
        for pass in 0..PASSES {
            counts[pass as usize][digit(word, pass)] += 1;
        }
    }
    scratch.clear();
    scratch.resize(words.len(), 0);
    for (pass, counts) in (0..PASSES).zip(&mut counts) {
        if counts.contains(&words.len()) {
            continue;
        }
        let mut next = 0;
        for count in counts.iter_mut() {
            (*count, next) = (next, next + *count);
        }
        for &word in words.iter() {
            let place = &mut counts[digit(word, pass)];
            scratch[*place] = word;
            *place += 1;
        }
        std::mem::swap(words, scratch);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn words_sort_as_their_values_and_rows_do(
            values in prop::collection::vec(prop_oneof![any::<f32>(), Just(0.0), Just(1.5)], 0..500),
        ) {
            let values: Vec<f32> = values.into_iter().map(|v| if v.is_nan() { f32::INFINITY } else { v + 0.0 }).collect();
            let mut words: Vec<u64> = values.iter().zip(0..).map(|(&v, row)| packed(v, row)).collect();
            sort(&mut words, &mut Vec::new());
            let mut want: Vec<(f32, u32)> = values.into_iter().zip(0..).collect();
            want.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let got: Vec<(f32, u32)> = words.into_iter().map(unpacked).collect();
            prop_assert_eq!(got, want);
        }
    }
}
