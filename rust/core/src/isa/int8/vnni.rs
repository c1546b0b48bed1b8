//! The 8-bit tiles of CPUs with VNNI: `vpdpbusd` sums the products of four bytes into 32 bits.
#![expect(unsafe_code, reason = "calls intrinsics; the tokens prove that the CPU has them")]

use std::arch::x86_64::{
    _mm256_add_epi32, _mm256_castsi256_ps, _mm256_cmpgt_epi32, _mm256_dpbusd_avx_epi32, _mm256_load_si256,
    _mm256_movemask_ps, _mm256_set1_epi32, _mm256_store_si256, _mm512_add_epi32, _mm512_cmpge_epi32_mask,
    _mm512_dpbusd_epi32, _mm512_load_si512, _mm512_set1_epi32, _mm512_store_si512,
};

use super::super::Level;
use super::model::{Bytes, ThirtyTwo};
use super::{Line, PanelRow, Tile, Verdict};

const QUERIES: usize = 6;

/// The proof that the CPU has AVX-512 F, BW and VNNI.
#[derive(Debug, Clone, Copy)]
pub struct Avx512Vnni(());

impl Avx512Vnni {
    /// The token, if the CPU has the features.
    #[must_use]
    pub fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vnni");
        found.then_some(Self(()))
    }
}

/// The proof that the CPU has AVX2 and AVX-VNNI.
#[derive(Debug, Clone, Copy)]
pub struct AvxVnni(());

impl AvxVnni {
    /// The token, if the CPU has the features.
    #[must_use]
    pub fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("avxvnni");
        found.then_some(Self(()))
    }
}

/// Six queries by four registers of rows: 24 sums, 4 registers of rows, one of a query's codes.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
#[inline]
fn tile512(query: &[u32], rows: &[Line], start: &PanelRow, floor: &[i32; 8], verdict: &mut Verdict) -> bool {
    const ROWS: usize = Avx512Vnni::ROWS;
    let (head, codes) = query.split_at(QUERIES);
    let from = |numbers: &[i32; 16]| {
        // SAFETY: both callers pass a quarter of an array that is aligned to 64 bytes.
        unsafe { _mm512_load_si512(std::ptr::from_ref(numbers).cast()) }
    };
    let (starts, _) = start.0.as_chunks::<16>();
    let mut sums = [[_mm512_set1_epi32(0); 4]; QUERIES];
    for i in 0..QUERIES {
        for j in 0..4 {
            sums[i][j] = _mm512_add_epi32(from(&starts[j]), _mm512_set1_epi32(head[i].cast_signed()));
        }
    }
    let (steps, _) = rows.as_chunks::<4>();
    let (codes, _) = codes.as_chunks::<QUERIES>();
    for (step, codes) in steps.iter().zip(codes) {
        let b = [&step[0], &step[1], &step[2], &step[3]].map(|line| {
            // SAFETY: `Line` has 64 bytes and is aligned to them.
            unsafe { _mm512_load_si512(std::ptr::from_ref(line).cast()) }
        });
        for i in 0..QUERIES {
            let a = _mm512_set1_epi32(codes[i].cast_signed());
            for j in 0..4 {
                sums[i][j] = _mm512_dpbusd_epi32(sums[i][j], b[j], a);
            }
        }
    }
    let mut any = 0;
    for i in 0..QUERIES {
        let t = _mm512_set1_epi32(floor[i]);
        let hits = (0..4).fold(0, |hits, j| {
            hits | u64::from(_mm512_cmpge_epi32_mask(sums[i][j], t)) << (16 * j)
        });
        verdict.hits[i] = hits;
        any |= hits;
    }
    if any == 0 {
        return false;
    }
    let (out, _) = verdict.sums.as_chunks_mut::<16>();
    for i in 0..QUERIES {
        for j in 0..4 {
            // SAFETY: a chunk of 16 numbers of an array that is aligned to 64 bytes.
            unsafe { _mm512_store_si512(std::ptr::from_mut(&mut out[i * ROWS / 16 + j]).cast(), sums[i][j]) };
        }
    }
    true
}

impl Tile for Avx512Vnni {
    const QUERIES: usize = QUERIES;
    const ROWS: usize = 64;
    const LIMIT: i32 = ThirtyTwo::LIMIT;
    const PAIR: i32 = ThirtyTwo::PAIR;
    const OFFSET: i32 = ThirtyTwo::OFFSET;
    const GROUP: usize = 0;
    const SQUARES: i32 = ThirtyTwo::SQUARES;
    const WORDS: usize = QUERIES;
    const LEVEL: Level = Level::Avx512;

    #[inline(always)]
    fn vectorize<R>(self, f: impl FnOnce() -> R) -> R {
        #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
        #[inline]
        fn call<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        // SAFETY: `self` exists only where detection found these features.
        unsafe { call(f) }
    }

    #[inline(always)]
    fn head(even: i32, odd: i32) -> u32 {
        ThirtyTwo::head(even, odd)
    }

    #[inline(always)]
    fn place(word: usize, bit: usize) -> (usize, usize) {
        (word, bit)
    }

    #[inline(always)]
    fn tile(self, query: &[u32], rows: &[Line], start: &PanelRow, floor: &[i32; 8], verdict: &mut Verdict) -> bool {
        // SAFETY: `self` exists only where detection found these features.
        unsafe { tile512(query, rows, start, floor, verdict) }
    }
}

/// Six queries by two registers of rows: 12 sums, 2 registers of rows, one of a query's codes.
#[target_feature(enable = "avx2,avxvnni")]
#[inline]
fn tile256(query: &[u32], rows: &[Line], start: &PanelRow, floor: &[i32; 8], verdict: &mut Verdict) -> bool {
    let (head, codes) = query.split_at(QUERIES);
    let mut sums = [[_mm256_set1_epi32(0); 2]; QUERIES];
    let (starts, _) = start.0.as_chunks::<8>();
    for i in 0..QUERIES {
        for j in 0..2 {
            // SAFETY: a chunk of 8 numbers of an array that is aligned to 64 bytes.
            let start = unsafe { _mm256_load_si256(std::ptr::from_ref(&starts[j]).cast()) };
            sums[i][j] = _mm256_add_epi32(start, _mm256_set1_epi32(head[i].cast_signed()));
        }
    }
    let (codes, _) = codes.as_chunks::<QUERIES>();
    for (line, codes) in rows.iter().zip(codes) {
        let (halves, _) = line.0.as_chunks::<32>();
        let b = [&halves[0], &halves[1]].map(|half| {
            // SAFETY: half of a `Line`, which is aligned to 64 bytes.
            unsafe { _mm256_load_si256(std::ptr::from_ref(half).cast()) }
        });
        for i in 0..QUERIES {
            let a = _mm256_set1_epi32(codes[i].cast_signed());
            for j in 0..2 {
                sums[i][j] = _mm256_dpbusd_avx_epi32(sums[i][j], b[j], a);
            }
        }
    }
    let mut any = 0;
    for i in 0..QUERIES {
        let t = _mm256_set1_epi32(floor[i]);
        let hits = (0..2).fold(0, |hits, j| {
            let below = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(t, sums[i][j])));
            hits | u64::from(!below.cast_unsigned() & 0xff) << (8 * j)
        });
        verdict.hits[i] = hits;
        any |= hits;
    }
    if any == 0 {
        return false;
    }
    let (out, _) = verdict.sums.as_chunks_mut::<8>();
    for i in 0..QUERIES {
        for j in 0..2 {
            // SAFETY: a chunk of 8 numbers of an array that is aligned to 64 bytes.
            unsafe { _mm256_store_si256(std::ptr::from_mut(&mut out[i * 2 + j]).cast(), sums[i][j]) };
        }
    }
    true
}

impl Tile for AvxVnni {
    const QUERIES: usize = QUERIES;
    const ROWS: usize = 16;
    const LIMIT: i32 = ThirtyTwo::LIMIT;
    const PAIR: i32 = ThirtyTwo::PAIR;
    const OFFSET: i32 = ThirtyTwo::OFFSET;
    const GROUP: usize = 0;
    const SQUARES: i32 = ThirtyTwo::SQUARES;
    const WORDS: usize = QUERIES;
    const LEVEL: Level = Level::Avx2;

    #[inline(always)]
    fn vectorize<R>(self, f: impl FnOnce() -> R) -> R {
        #[target_feature(enable = "avx2,avxvnni")]
        #[inline]
        fn call<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        // SAFETY: `self` exists only where detection found these features.
        unsafe { call(f) }
    }

    #[inline(always)]
    fn head(even: i32, odd: i32) -> u32 {
        ThirtyTwo::head(even, odd)
    }

    #[inline(always)]
    fn place(word: usize, bit: usize) -> (usize, usize) {
        (word, bit)
    }

    #[inline(always)]
    fn tile(self, query: &[u32], rows: &[Line], start: &PanelRow, floor: &[i32; 8], verdict: &mut Verdict) -> bool {
        // SAFETY: `self` exists only where detection found these features.
        unsafe { tile256(query, rows, start, floor, verdict) }
    }
}
