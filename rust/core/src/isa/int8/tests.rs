//! Every tile against plain integers, and against its model where codes break the rules.

use super::model::{Sixteen, ThirtyTwo};
use super::*;

/// A small generator: tests need many bytes, not good ones.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
    fn within(&mut self, limit: i32) -> i32 {
        let span = u64::from(limit.cast_unsigned()) * 2 + 1;
        i32::try_from(self.next() % span).unwrap() - limit
    }
}

/// Runs `$body` with `$tile` as every tile that this CPU can run and every model.
macro_rules! for_every_tile {
    ($tile:ident => $body:expr) => {{
        {
            let $tile = Model::<Sixteen, 16>::default();
            $body
        }
        {
            let $tile = Model::<ThirtyTwo, 16>::default();
            $body
        }
        {
            let $tile = Model::<ThirtyTwo, 64>::default();
            $body
        }
        #[cfg(target_arch = "x86_64")]
        {
            if let Some($tile) = Avx2::detect() {
                $body
            }
            if let Some($tile) = AvxVnni::detect() {
                $body
            }
            if let Some($tile) = Avx512Vnni::detect() {
                $body
            }
        }
    }};
}

/// Codes of a panel of queries and of rows, feature by feature.
struct Codes {
    query: Vec<Vec<i32>>,
    rows: Vec<Vec<i32>>,
}

impl Codes {
    fn new<T: Tile>(features: usize, mut code: impl FnMut(usize) -> i32) -> Self {
        let mut side = |rows: usize| (0..rows).map(|_| (0..features).map(&mut code).collect()).collect();
        Self {
            query: side(T::QUERIES),
            rows: side(T::ROWS),
        }
    }

    /// Scales pairs of a query's codes and half groups down until they keep to the rules.
    fn lawful<T: Tile>(mut self) -> Self {
        for pair in self.query.iter_mut().flat_map(|row| row.chunks_mut(2)) {
            while pair.iter().sum::<i32>().abs() > T::PAIR {
                pair.iter_mut().for_each(|a| *a = *a * 15 / 16);
            }
        }
        for row in self.query.iter_mut().chain(&mut self.rows) {
            for group in row.chunks_mut(padding::<T>()) {
                for h in 0..2 {
                    while group
                        .iter()
                        .enumerate()
                        .filter(|&(i, _)| half(i) == h)
                        .map(|(_, a)| a * a)
                        .sum::<i32>()
                        > T::SQUARES
                    {
                        group
                            .iter_mut()
                            .enumerate()
                            .filter(|&(i, _)| half(i) == h)
                            .for_each(|(_, a)| *a = *a * 15 / 16);
                    }
                }
            }
        }
        self
    }

    fn panels<T: Tile>(&self) -> (Vec<u32>, Vec<Line>) {
        let features = self.query[0].len();
        let (groups, steps) = groups::<T>(features);
        let code = |row: &[i32], feature: usize| row.get(feature).copied().unwrap_or(0);
        let mut words = Vec::new();
        let mut lines = Vec::new();
        for group in 0..groups {
            let first = group * steps * STEP;
            for a in &self.query {
                let sum = |h: usize| {
                    (first..first + steps * STEP)
                        .filter(|&f| half(f) == h)
                        .map(|f| code(a, f))
                        .sum()
                };
                words.push(T::head(sum(0), sum(1)));
            }
            for step in 0..steps {
                let at = first + step * STEP;
                for a in &self.query {
                    words.push(u32::from_le_bytes(std::array::from_fn(|i| {
                        i8::try_from(code(a, at + i)).unwrap().cast_unsigned()
                    })));
                }
                for b in self.rows.chunks(16) {
                    lines.push(Line(std::array::from_fn(|i| {
                        u8::try_from(code(&b[i / STEP], at + i % STEP) + T::OFFSET).unwrap()
                    })));
                }
            }
        }
        assert_eq!(words.len(), query_words::<T>(features), "query panel");
        assert_eq!(lines.len(), row_lines::<T>(features), "row panel");
        (words, lines)
    }

    fn dot(&self, query: usize, row: usize) -> i32 {
        self.query[query].iter().zip(&self.rows[row]).map(|(a, b)| a * b).sum()
    }
}

fn sums_and_hits_are_those_of_integers<T: Tile>(tile: T, codes: &Codes, random: &mut Random) {
    let (words, lines) = codes.panels::<T>();
    let start = PanelRow(std::array::from_fn(|_| random.within(1 << 20)));
    // Some sum of each query is at its floor exactly, so that "reaches" is told from "exceeds".
    let floor = std::array::from_fn(|i| {
        let (i, j) = (i % T::QUERIES, i * 5 % T::ROWS);
        start.0[j] + codes.dot(i, j)
    });
    let mut verdict = Verdict::default();
    assert!(
        tile.tile(&words, &lines, &start, &floor, &mut verdict),
        "every query has a hit"
    );
    let mut hits = [[false; MAX_ROWS]; MAX_QUERIES];
    for word in 0..T::WORDS {
        for bit in (0..64).filter(|bit| verdict.hits[word] >> bit & 1 == 1) {
            let (i, j) = T::place(word, bit);
            assert!(
                !std::mem::replace(&mut hits[i][j], true),
                "a bit of its own for every pair"
            );
        }
    }
    for i in 0..T::QUERIES {
        for (j, &hit) in hits[i].iter().enumerate().take(T::ROWS) {
            let sum = start.0[j] + codes.dot(i, j);
            assert_eq!(verdict.sums[i * T::ROWS + j], sum, "{tile:?} query {i} row {j}");
            assert_eq!(hit, sum >= floor[i], "{tile:?} query {i} row {j}");
        }
    }
    let none = tile.tile(&words, &lines, &PanelRow([0; MAX_ROWS]), &[i32::MAX; 8], &mut verdict);
    assert!(!none, "no sum reaches the largest floor");
}

#[test]
fn sums_are_those_of_integers_for_random_codes() {
    let mut random = Random(1);
    for_every_tile!(tile => for features in [1, 3, 4, 31, 32, 33, 64, 100, 200] {
        let codes = random_codes(tile, features, &mut random);
        sums_and_hits_are_those_of_integers(tile, &codes, &mut random);
    });
}

fn random_codes<T: Tile>(_: T, features: usize, random: &mut Random) -> Codes {
    Codes::new::<T>(features, |_| random.within(T::LIMIT)).lawful::<T>()
}

#[test]
fn sums_are_those_of_integers_for_the_largest_lawful_codes() {
    let mut random = Random(2);
    for_every_tile!(tile => for pattern in 0..5 {
        let codes = largest_codes(tile, pattern);
        sums_and_hits_are_those_of_integers(tile, &codes, &mut random);
    });
}

/// All codes alike, of alternating sign, or a few at the limit: what comes closest to saturation.
fn largest_codes<T: Tile>(_: T, pattern: usize) -> Codes {
    let mut count = 0;
    Codes::new::<T>(96, |feature| {
        count += usize::from(feature == 0);
        match pattern {
            0 => T::LIMIT,
            1 => -T::LIMIT,
            2 => {
                if feature % 2 == 0 {
                    T::LIMIT
                } else {
                    -T::LIMIT
                }
            }
            3 => {
                if feature % 16 < 4 {
                    T::LIMIT
                } else {
                    0
                }
            }
            _ => {
                if count % 2 == 0 {
                    T::LIMIT
                } else {
                    -T::LIMIT
                }
            }
        }
    })
    .lawful::<T>()
}

#[test]
fn the_largest_product_of_a_pair_does_not_saturate() {
    const {
        assert!(
            Sixteen::PAIR * (Sixteen::OFFSET + Sixteen::LIMIT) <= 32_767,
            "vpmaddubsw"
        );
        assert!(
            Sixteen::OFFSET + Sixteen::LIMIT <= 255
                && Sixteen::LIMIT <= Sixteen::OFFSET
                && ThirtyTwo::LIMIT < ThirtyTwo::OFFSET,
            "codes of rows are unsigned"
        );
        assert!(ThirtyTwo::OFFSET + ThirtyTwo::LIMIT <= 255, "codes of rows are bytes");
    }
}

#[test]
fn codes_that_break_the_rule_of_squares_give_wrong_sums() {
    let tile = Model::<Sixteen, 16>::default();
    let codes = Codes::new::<Model<Sixteen, 16>>(32, |_| 90);
    let (words, lines) = codes.panels::<Model<Sixteen, 16>>();
    let mut verdict = Verdict::default();
    tile.tile(&words, &lines, &PanelRow([0; MAX_ROWS]), &[0; 8], &mut verdict);
    assert_ne!(verdict.sums[0], codes.dot(0, 0), "the 16-bit sum wraps around");
}

#[test]
fn codes_that_break_the_rule_of_pairs_give_wrong_sums() {
    let tile = Model::<Sixteen, 16>::default();
    let codes = Codes::new::<Model<Sixteen, 16>>(2, |_| Sixteen::LIMIT);
    let (words, lines) = codes.panels::<Model<Sixteen, 16>>();
    let mut verdict = Verdict::default();
    tile.tile(&words, &lines, &PanelRow([0; MAX_ROWS]), &[0; 8], &mut verdict);
    assert_ne!(verdict.sums[0], codes.dot(0, 0), "the sum of two products saturates");
}

fn agrees_with_its_model<T: Tile, M: Tile>(tile: T, model: M, random: &mut Random) {
    for _ in 0..20 {
        let words: Vec<_> = (0..query_words::<T>(96))
            .map(|_| u32::try_from(random.next() & 0xffff_ffff).unwrap() ^ 0x8000_0000)
            .collect();
        let lines: Vec<_> = (0..row_lines::<T>(96))
            .map(|_| Line(std::array::from_fn(|_| u8::try_from(random.next() & 0xff).unwrap())))
            .collect();
        let start = PanelRow(std::array::from_fn(|_| random.within(1 << 30)));
        let floor = std::array::from_fn(|_| random.within(1 << 20));
        let (mut a, mut b) = (Verdict::default(), Verdict::default());
        let any = tile.tile(&words, &lines, &start, &floor, &mut a);
        assert_eq!(any, model.tile(&words, &lines, &start, &floor, &mut b), "{tile:?}");
        if any {
            assert_eq!(a.sums, b.sums, "{tile:?}");
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn instructions_agree_with_their_model_on_any_bytes() {
    let mut random = Random(3);
    if let Some(tile) = Avx2::detect() {
        agrees_with_its_model(tile, Model::<Sixteen, 16>::default(), &mut random);
    }
    if let Some(tile) = AvxVnni::detect() {
        agrees_with_its_model(tile, Model::<ThirtyTwo, 16>::default(), &mut random);
    }
    if let Some(tile) = Avx512Vnni::detect() {
        agrees_with_its_model(tile, Model::<ThirtyTwo, 64>::default(), &mut random);
    }
}
