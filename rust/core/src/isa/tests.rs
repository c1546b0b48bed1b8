//! Every operation of every instruction set that this CPU has, against the model, one by one.

use half::f16;
use proptest::prelude::*;

use super::{Level, Model, Simd};

const SPECIAL: [f64; 14] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MIN_POSITIVE,
    5e-324,
    f64::MAX,
    1e9 + 0.125,
    -1e-15,
    f32::MAX as f64,
    1e-40,
];

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        3 => any::<f64>(),
        3 => -10.0..10.0,
        2 => prop::sample::select(SPECIAL.to_vec()),
    ]
}

fn lanes() -> impl Strategy<Value = [f64; 16]> {
    prop::array::uniform16(number())
}

#[expect(clippy::cast_possible_truncation, reason = "any float32 will do")]
fn singles() -> impl Strategy<Value = [f32; 16]> {
    lanes().prop_map(|values| values.map(|v| v as f32))
}

/// Equal bits, all NaN alike.
fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

fn stored<S: Simd>(s: S, value: S::Lanes) -> [f64; 16] {
    let mut out = [0.0; 16];
    s.store(value, &mut out);
    out
}

fn singles_of<S: Simd>(s: S, value: S::F32) -> Vec<f32> {
    let mut out = vec![0.0; S::F32_LANES];
    s.store_f32(value, &mut out);
    out
}

/// Holds `real` and the model to the same result of every float64 operation.
fn check_lanes<S: Simd>(real: S, a: [f64; 16], b: [f64; 16]) {
    let model = Model::<8, true>;
    macro_rules! check {
        ($($name:ident($($arg:ident),*);)*) => {$(
            let got = stored(real, real.$name($(real.load(&$arg)),*));
            let want = model.$name($($arg),*);
            for i in 0..16 {
                assert!(same(got[i], want[i]), concat!(stringify!($name), " lane {}: {:e} != {:e}"), i, got[i], want[i]);
            }
        )*};
    }
    check! { add(a, b); sub(a, b); mul(a, b); div(a, b); max(a, b); abs(a); sqrt(a); }
    for (name, got, want) in [
        ("fold_sum", real.fold_sum(real.load(&a)), model.fold_sum(a)),
        ("fold_max", real.fold_max(real.load(&a)), model.fold_max(a)),
        ("splat", stored(real, real.splat(b[3]))[11], b[3]),
    ] {
        assert!(same(got, want), "{name}: {got:e} != {want:e}");
    }
}

/// Holds `real` and the model of its width to the same result of every float32 operation.
fn check_singles<S: Simd, const W: usize>(real: S, a: [f32; 16], b: [f32; 16], c: [f32; 16]) {
    assert_eq!(S::F32_LANES, W, "the model has another width");
    let model = Model::<W, true>;
    let (x, y) = (real.load_f32(&a), real.load_f32(&b));
    let (mx, my) = (model.load_f32(&a), model.load_f32(&b));
    macro_rules! check {
        ($($name:ident($($arg:ident),*; $($other:ident),*);)*) => {$(
            let got = singles_of(real, real.$name($($arg),*));
            let want = model.$name($($other),*);
            for i in 0..W {
                assert!(same(got[i].into(), want[i].into()), concat!(stringify!($name), " lane {}"), i);
            }
        )*};
    }
    check! { add_f32(x, y; mx, my); sub_f32(x, y; mx, my); mul_f32(x, y; mx, my); max_f32(x, y; mx, my); abs_f32(x; mx); }
    assert_eq!(real.ge_f32(x, y), model.ge_f32(mx, my), "ge_f32");
    assert_eq!(real.not_gt_f32(x, y), model.not_gt_f32(mx, my), "not_gt_f32");
    assert_eq!(real.ge_f32(x, x), model.ge_f32(mx, mx), "ge_f32 of itself");
    let got = singles_of(real, real.mul_add_f32(x, y, real.load_f32(&c)));
    for i in 0..W {
        let once = a[i].mul_add(b[i], c[i]);
        let twice = a[i] * b[i] + c[i];
        assert!(
            same(got[i].into(), once.into()) || same(got[i].into(), twice.into()),
            "mul_add_f32 lane {i}"
        );
    }
    assert_eq!(singles_of(real, real.splat_f32(1.5)), vec![1.5; W], "splat_f32");
}

fn check_widening<S: Simd>(real: S, singles: [f32; 16], halves: [u16; 16]) {
    let model = Model::<8, true>;
    let as_f16 = halves.map(f16::from_bits);
    for (name, got, want) in [
        ("widen_f32", real.widen_f32(&singles), model.widen_f32(&singles)),
        ("widen_f16", real.widen_f16(&as_f16), model.widen_f16(&as_f16)),
        ("widen_bf16", real.widen_bf16(&halves), model.widen_bf16(&halves)),
    ] {
        let got = stored(real, got);
        for i in 0..16 {
            assert!(same(got[i], want[i]), "{name} lane {i}: {:e} != {:e}", got[i], want[i]);
        }
    }
}

/// Runs a check on every level; the width of its float32 register is passed as `$width`.
macro_rules! on_every_level {
    ($simd:ident, $width:ident => $body:expr) => {
        for level in Level::available() {
            match $crate::isa::Token::of(level) {
                $crate::isa::Token::Portable($simd) => {
                    const $width: usize = 4;
                    $body
                }
                #[cfg(target_arch = "x86_64")]
                $crate::isa::Token::Avx2($simd) => {
                    const $width: usize = 8;
                    $body
                }
                #[cfg(target_arch = "x86_64")]
                $crate::isa::Token::Avx512($simd) => {
                    const $width: usize = 16;
                    $body
                }
            }
        }
    };
}

proptest! {
    #[test]
    fn float64_operations_equal_the_model(a in lanes(), b in lanes()) {
        on_every_level!(s, _W => check_lanes(s, a, b));
    }

    #[test]
    fn float32_operations_equal_the_model(a in singles(), b in singles(), c in singles()) {
        on_every_level!(s, W => check_singles::<_, W>(s, a, b, c));
        on_every_level!(s, W => check_singles::<_, W>(s, a, a, c));
    }

    #[test]
    fn widening_equals_the_model(singles in singles(), halves in any::<[u16; 16]>()) {
        on_every_level!(s, _W => check_widening(s, singles, halves));
    }
}

#[test]
fn every_float16_and_bfloat16_widens_like_the_model() {
    for start in (0..=u16::MAX).step_by(16) {
        let bits = std::array::from_fn(|i| start + u16::try_from(i).expect("below sixteen"));
        on_every_level!(s, _W => check_widening(s, [0.0; 16], bits));
    }
}

#[test]
fn a_model_of_every_width_folds_by_halves() {
    // Ascending magnitudes make every other order of the sum come out differently.
    let lanes: [f64; 16] = std::array::from_fn(|i| 1.0 + (i as f64 * 0.77).exp2());
    let mut by_halves = lanes;
    for half in [8, 4, 2, 1] {
        for j in 0..half {
            by_halves[j] += by_halves[j + half];
        }
    }
    crate::isa::for_every_simd!(s => assert_eq!(s.fold_sum(s.load(&lanes)), by_halves[0]));
}
