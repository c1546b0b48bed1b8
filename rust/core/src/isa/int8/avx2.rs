//! The 8-bit tile of AVX2: six queries by sixteen rows, 16-bit sums over groups of eight steps.
//!
//! Twelve registers of sums, two of rows, one for the query's four codes, one for a product: all sixteen, so the tile
//! is written in assembly (from intrinsics the compiler spills). Two multiplications, then two additions, run faster
//! than the other orders on Zen 3. The 32-bit sums live in memory, that is in the first-level cache.
#![expect(unsafe_code, reason = "inline assembly; the token proves that the CPU has AVX2")]

use std::arch::asm;

use super::super::{Avx2, Level, Simd};
use super::model::{Bytes, Sixteen};
use super::{Line, PanelRow, Tile, Verdict};

const QUERIES: usize = 6;
const ROWS: usize = 16;
const GROUP: usize = Sixteen::GROUP;

/// One query in one step: its codes from `a + $at`, the rows' in ymm12 and ymm13, its sums in `$low` and `$high`.
macro_rules! query {
    ($low:literal, $high:literal, $at:literal) => {
        concat!(
            "vpbroadcastd ymm14, dword ptr [{a} + ",
            $at,
            "]\n",
            "vpmaddubsw ymm15, ymm12, ymm14\n",
            "vpmaddubsw ymm14, ymm13, ymm14\n",
            "vpaddw ymm",
            $low,
            ", ymm",
            $low,
            ", ymm15\n",
            "vpaddw ymm",
            $high,
            ", ymm",
            $high,
            ", ymm14\n",
        )
    };
}

/// One step of six queries, given where its rows and its queries stand.
macro_rules! step {
    ($row:literal, $next:literal, $q0:literal, $q1:literal, $q2:literal, $q3:literal, $q4:literal, $q5:literal) => {
        concat!(
            "vmovdqa ymm12, ymmword ptr [{b} + ",
            $row,
            "]\n",
            "vmovdqa ymm13, ymmword ptr [{b} + ",
            $next,
            "]\n",
            query!(0, 1, $q0),
            query!(2, 3, $q1),
            query!(4, 5, $q2),
            query!(6, 7, $q3),
            query!(8, 9, $q4),
            query!(10, 11, $q5),
        )
    };
}

/// The 16-bit sums of one query start at its head.
macro_rules! head {
    ($low:literal, $high:literal, $at:literal) => {
        concat!(
            "vpbroadcastd ymm",
            $low,
            ", dword ptr [{a} + ",
            $at,
            "]\n",
            "vmovdqa ymm",
            $high,
            ", ymm",
            $low,
            "\n",
        )
    };
}

/// The 16-bit sums of one query join its 32-bit sums; ymm14 holds ones.
macro_rules! widen {
    ($low:literal, $high:literal, $at:literal, $next:literal) => {
        concat!(
            "vpmaddwd ymm",
            $low,
            ", ymm",
            $low,
            ", ymm14\n",
            "vpmaddwd ymm",
            $high,
            ", ymm",
            $high,
            ", ymm14\n",
            "vpaddd ymm",
            $low,
            ", ymm",
            $low,
            ", ymmword ptr [{s} + ",
            $at,
            "]\n",
            "vpaddd ymm",
            $high,
            ", ymm",
            $high,
            ", ymmword ptr [{s} + ",
            $next,
            "]\n",
            "vmovdqa ymmword ptr [{s} + ",
            $at,
            "], ymm",
            $low,
            "\n",
            "vmovdqa ymmword ptr [{s} + ",
            $next,
            "], ymm",
            $high,
            "\n",
        )
    };
}

/// The bits of two queries: a byte of the packed comparison for each sum.
macro_rules! compare {
    ($t0:literal, $t1:literal, $s0:literal, $s1:literal, $s2:literal, $s3:literal, $hits:literal) => {
        concat!(
            "vpbroadcastd ymm0, dword ptr [{t} + ",
            $t0,
            "]\n",
            "vpbroadcastd ymm1, dword ptr [{t} + ",
            $t1,
            "]\n",
            "vpcmpgtd ymm2, ymm0, ymmword ptr [{s} + ",
            $s0,
            "]\n",
            "vpcmpgtd ymm3, ymm0, ymmword ptr [{s} + ",
            $s1,
            "]\n",
            "vpcmpgtd ymm4, ymm1, ymmword ptr [{s} + ",
            $s2,
            "]\n",
            "vpcmpgtd ymm5, ymm1, ymmword ptr [{s} + ",
            $s3,
            "]\n",
            "vpackssdw ymm2, ymm2, ymm3\n",
            "vpackssdw ymm4, ymm4, ymm5\n",
            "vpacksswb ymm2, ymm2, ymm4\n",
            "vpmovmskb {m:e}, ymm2\n",
            "not {m:e}\n",
            "mov qword ptr [{h} + ",
            $hits,
            "], {m}\n",
            "or {any:e}, {m:e}\n",
        )
    };
}

impl Tile for Avx2 {
    const QUERIES: usize = QUERIES;
    const ROWS: usize = ROWS;
    const LIMIT: i32 = Sixteen::LIMIT;
    const PAIR: i32 = Sixteen::PAIR;
    const OFFSET: i32 = Sixteen::OFFSET;
    const GROUP: usize = GROUP;
    const SQUARES: i32 = Sixteen::SQUARES;
    const WORDS: usize = QUERIES / 2;
    const LEVEL: Level = Level::Avx2;

    #[inline(always)]
    fn vectorize<R>(self, f: impl FnOnce() -> R) -> R {
        Simd::vectorize(self, f)
    }

    #[inline(always)]
    fn head(even: i32, odd: i32) -> u32 {
        Sixteen::head(even, odd)
    }

    // Packing works within halves of a register: byte 16h + 8q + 4r + i is query q of the two, row 8r + 4h + i.
    #[inline(always)]
    fn place(word: usize, bit: usize) -> (usize, usize) {
        (
            2 * word + (bit >> 3 & 1),
            (bit >> 2 & 1) * 8 + (bit >> 4) * 4 + (bit & 3),
        )
    }

    #[inline]
    fn tile(self, query: &[u32], rows: &[Line], start: &PanelRow, floor: &[i32; 8], verdict: &mut Verdict) -> bool {
        let groups = rows.len() / GROUP;
        assert!(groups > 0 && rows.len() == groups * GROUP, "whole groups of rows");
        assert!(
            query.len() == groups * (GROUP + 1) * QUERIES,
            "as many groups of queries"
        );
        for sums in verdict.sums.chunks_exact_mut(ROWS).take(QUERIES) {
            sums.copy_from_slice(&start.0[..ROWS]);
        }
        let any: u32;
        // SAFETY: the CPU has AVX2, for `self` exists. A turn of the loop reads 54 words of `query` and 8 lines of
        // `rows`, and there are `groups` of each by the assertions; `floor` has 6 numbers, `sums` 96 and `hits` 3 in
        // use, and `Verdict` and `Line` are aligned to 64 bytes.
        unsafe {
            asm!(
                "2:",
                head!(0, 1, 0),
                head!(2, 3, 4),
                head!(4, 5, 8),
                head!(6, 7, 12),
                head!(8, 9, 16),
                head!(10, 11, 20),
                step!(0, 32, 24, 28, 32, 36, 40, 44),
                step!(64, 96, 48, 52, 56, 60, 64, 68),
                step!(128, 160, 72, 76, 80, 84, 88, 92),
                step!(192, 224, 96, 100, 104, 108, 112, 116),
                step!(256, 288, 120, 124, 128, 132, 136, 140),
                step!(320, 352, 144, 148, 152, 156, 160, 164),
                step!(384, 416, 168, 172, 176, 180, 184, 188),
                step!(448, 480, 192, 196, 200, 204, 208, 212),
                "vpcmpeqd ymm14, ymm14, ymm14",
                "vpsrlw ymm14, ymm14, 15",
                widen!(0, 1, 0, 32),
                widen!(2, 3, 64, 96),
                widen!(4, 5, 128, 160),
                widen!(6, 7, 192, 224),
                widen!(8, 9, 256, 288),
                widen!(10, 11, 320, 352),
                "add {b}, 512",
                "add {a}, 216",
                "dec {n}",
                "jnz 2b",
                "xor {any:e}, {any:e}",
                compare!(0, 4, 0, 32, 64, 96, 0),
                compare!(8, 12, 128, 160, 192, 224, 8),
                compare!(16, 20, 256, 288, 320, 352, 16),
                a = inout(reg) query.as_ptr() => _,
                b = inout(reg) rows.as_ptr() => _,
                n = inout(reg) groups => _,
                s = in(reg) verdict.sums.as_mut_ptr(),
                t = in(reg) floor.as_ptr(),
                h = in(reg) verdict.hits.as_mut_ptr(),
                m = out(reg) _,
                any = out(reg) any,
                out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _,
                out("ymm4") _, out("ymm5") _, out("ymm6") _, out("ymm7") _,
                out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
                out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
                options(nostack),
            );
        }
        any != 0
    }
}
