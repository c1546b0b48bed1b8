//! Which instruction set to use: the best that the CPU has, or a lower one that `NEARWISE_SIMD` names.

use std::fmt;

use super::Portable;
#[cfg(target_arch = "x86_64")]
use super::{Avx2, Avx512};
use crate::error::{Error, Result};

/// The environment variable that lowers the level.
const VARIABLE: &str = "NEARWISE_SIMD";

/// Instruction sets by name, from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// What every CPU of the target has.
    Portable,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// The former and AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl Level {
    const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// The highest level of this CPU.
    #[must_use]
    pub fn detect() -> Self {
        Token::of(Self::Avx512).level()
    }

    /// Every level of this CPU, lowest first.
    pub fn available() -> impl Iterator<Item = Self> {
        let best = Self::detect();
        Self::ALL.into_iter().filter(move |&level| level <= best)
    }

    /// The level to use: [`Level::detect`], lowered by `NEARWISE_SIMD` if it is set.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the variable names no level.
    pub fn chosen() -> Result<Self> {
        match std::env::var_os(VARIABLE) {
            None => Ok(Self::detect()),
            Some(name) => Self::lowered(&name.to_string_lossy()),
        }
    }

    fn lowered(name: &str) -> Result<Self> {
        let asked = Self::ALL.into_iter().find(|level| level.name() == name);
        asked
            .map(|level| level.min(Self::detect()))
            .ok_or_else(|| Error::Parameter {
                argument: VARIABLE,
                expected: "portable, avx2 or avx512",
                got: format!("{name:?}"),
            })
    }

    /// The name that `NEARWISE_SIMD` takes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The proof that the CPU has a level.
#[derive(Debug, Clone, Copy)]
pub enum Token {
    /// Of [`Level::Portable`].
    Portable(Portable),
    /// Of [`Level::Avx2`].
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// Of [`Level::Avx512`].
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

impl Token {
    /// The token of `level`, or of the best level below it that the CPU has.
    #[must_use]
    #[inline]
    pub fn of(level: Level) -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if level >= Level::Avx512
                && let Some(token) = Avx512::detect()
            {
                return Self::Avx512(token);
            }
            if level >= Level::Avx2
                && let Some(token) = Avx2::detect()
            {
                return Self::Avx2(token);
            }
        }
        let _ = level;
        Self::Portable(Portable::default())
    }

    fn level(self) -> Level {
        match self {
            Self::Portable(_) => Level::Portable,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => Level::Avx2,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => Level::Avx512,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_lowers_the_level_and_never_raises_it() {
        assert_eq!(Level::lowered("portable"), Ok(Level::Portable));
        assert_eq!(Level::lowered("avx512"), Ok(Level::detect()));
        assert!(Level::lowered("avx2").is_ok_and(|level| level <= Level::Avx2));
    }

    #[test]
    fn an_unknown_name_is_an_error_that_says_what_is_known() {
        let message = Level::lowered("sse9").map_err(|error| error.to_string());
        assert_eq!(
            message,
            Err("NEARWISE_SIMD must be portable, avx2 or avx512, got \"sse9\"".to_owned())
        );
        assert!(Level::lowered("").is_err());
    }

    #[test]
    fn every_cpu_has_the_portable_level() {
        assert_eq!(Level::available().next(), Some(Level::Portable));
        assert_eq!(Level::available().last(), Some(Level::detect()));
    }
}
