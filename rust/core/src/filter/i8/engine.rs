//! Which tile stands beside which instruction set.

use super::{Basis, Chunk, Fit, I8};
use crate::filter::{Filter, Form};
#[cfg(target_arch = "x86_64")]
use crate::isa::int8::{Avx512Vnni, AvxVnni};
use crate::isa::int8::{Model as TileModel, Sixteen, ThirtyTwo};
#[cfg(target_arch = "x86_64")]
use crate::isa::{Avx2, Avx512};
use crate::isa::{Model, Simd};

/// What is to be done with a filter whose type only the instruction set knows.
pub trait Visit {
    /// What comes of it.
    type Output;
    /// Does it.
    fn visit<L: Packs>(self, filter: &L) -> Self::Output;
}

/// A filter whose packed references may outlive it.
pub trait Packs: Filter<Chunk = Chunk> {
    /// What a filter is to be fitted to, to work with references that this one packed.
    fn fitted(&self) -> Fit;
}

/// An instruction set with an 8-bit filter.
pub trait Int8: Simd {
    /// Calls `visitor` with the 8-bit filter of the best tile at this level.
    fn i8_filter<V: Visit>(self, form: &Form, basis: Basis<'_>, visitor: V) -> V::Output;
}

/// What every CPU runs, and what stands in for AVX-512.
macro_rules! model {
    ($($simd:ty: $tile:ty;)*) => {$(
        impl Int8 for $simd {
            fn i8_filter<V: Visit>(self, form: &Form, basis: Basis<'_>, visitor: V) -> V::Output {
                visitor.visit(&I8::new(<$tile>::default(), form, basis))
            }
        }
    )*};
}
model! {
    Model<4, false>: TileModel<ThirtyTwo, 16>;
    Model<8, true>: TileModel<Sixteen, 16>;
    Model<16, true>: TileModel<ThirtyTwo, 64>;
}

#[cfg(target_arch = "x86_64")]
impl Int8 for Avx2 {
    fn i8_filter<V: Visit>(self, form: &Form, basis: Basis<'_>, visitor: V) -> V::Output {
        // AVX-VNNI counts as part of the AVX2 level.
        match AvxVnni::detect() {
            Some(tile) => visitor.visit(&I8::new(tile, form, basis)),
            None => visitor.visit(&I8::new(self, form, basis)),
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Int8 for Avx512 {
    fn i8_filter<V: Visit>(self, form: &Form, basis: Basis<'_>, visitor: V) -> V::Output {
        match (Avx512Vnni::detect(), Avx2::detect()) {
            (Some(tile), _) => visitor.visit(&I8::new(tile, form, basis)),
            (None, Some(tile)) => visitor.visit(&I8::new(tile, form, basis)),
            (None, None) => visitor.visit(&I8::new(TileModel::<ThirtyTwo, 16>::default(), form, basis)),
        }
    }
}
