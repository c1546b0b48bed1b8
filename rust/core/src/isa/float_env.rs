//! The floating-point environment that exact sums need: round to nearest, subnormal numbers kept.
//!
//! `torch.set_flush_denormal(True)` sets flags of the calling thread that make 1e-40 widen to 0, and a new thread
//! inherits them. Every entry point and every worker holds a [`FloatEnv`] while it computes.
#![expect(
    unsafe_code,
    reason = "reads and writes the control register of the floating-point unit"
)]

use std::marker::PhantomData;

/// Holds the default environment of this thread until it is dropped, which restores what was there.
#[derive(Debug)]
#[must_use = "the environment is restored when this is dropped"]
pub struct FloatEnv {
    before: control::Word,
    /// The register belongs to one thread.
    _thread: PhantomData<*const ()>,
}

/// Sets the default environment of this thread.
#[inline(never)]
pub fn float_env() -> FloatEnv {
    let before = control::read();
    if before != control::DEFAULT {
        control::write(control::DEFAULT);
    }
    FloatEnv {
        before,
        _thread: PhantomData,
    }
}

impl Drop for FloatEnv {
    #[inline(never)]
    fn drop(&mut self) {
        if self.before != control::DEFAULT {
            control::write(self.before);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod control {
    use std::arch::asm;

    pub(super) type Word = u32;
    /// All exceptions masked, round to nearest, neither flush-to-zero nor denormals-are-zero.
    pub(super) const DEFAULT: Word = 0x1f80;
    /// The flags of exceptions that occurred; no mode.
    const STICKY: Word = 0x3f;

    pub(super) fn read() -> Word {
        let mut word = 0_u32;
        // SAFETY: stores the register in four bytes that `word` owns.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
        word & !STICKY
    }

    pub(super) fn write(word: Word) {
        // SAFETY: `word` is the default or was read from the register, so no reserved bit is set.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags)) };
    }

    /// Flush-to-zero and denormals-are-zero.
    #[cfg(test)]
    pub(super) const FLUSH: Word = 0x8040;
}

#[cfg(target_arch = "aarch64")]
mod control {
    use std::arch::asm;

    pub(super) type Word = u64;
    /// Round to nearest, subnormal numbers kept, no traps.
    pub(super) const DEFAULT: Word = 0;

    pub(super) fn read() -> Word {
        let word;
        // SAFETY: reads a register that every thread may read.
        unsafe { asm!("mrs {}, fpcr", out(reg) word, options(nostack, preserves_flags)) };
        word
    }

    pub(super) fn write(word: Word) {
        // SAFETY: `word` is the default or was read from the register.
        unsafe { asm!("msr fpcr, {}", in(reg) word, options(nostack, preserves_flags)) };
    }

    /// Flush-to-zero.
    #[cfg(test)]
    pub(super) const FLUSH: Word = 1 << 24;
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod control {
    pub(super) type Word = u32;
    pub(super) const DEFAULT: Word = 0;

    pub(super) fn read() -> Word {
        DEFAULT
    }

    pub(super) fn write(_word: Word) {}

    #[cfg(test)]
    pub(super) const FLUSH: Word = 0;
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    /// Whether the smallest float32 survives a multiplication by one.
    fn keeps_subnormals() -> bool {
        black_box(f32::from_bits(1)) * black_box(1.0) != 0.0
    }

    #[test]
    fn subnormals_are_kept_inside_and_the_callers_mode_comes_back() {
        let outside = float_env();
        control::write(control::DEFAULT | control::FLUSH);
        assert_eq!(keeps_subnormals(), control::FLUSH == 0);
        let inside = float_env();
        assert!(keeps_subnormals(), "inside");
        {
            let _nested = float_env();
            assert!(keeps_subnormals(), "nested");
        }
        assert!(keeps_subnormals(), "after the nested one");
        drop(inside);
        assert_eq!(control::read(), control::DEFAULT | control::FLUSH);
        assert_eq!(keeps_subnormals(), control::FLUSH == 0);
        control::write(control::DEFAULT);
        drop(outside);
        assert!(keeps_subnormals(), "at the end");
    }

    #[test]
    fn a_worker_started_under_the_guard_keeps_subnormals() {
        control::write(control::DEFAULT | control::FLUSH);
        let kept = std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let _env = float_env();
                keeps_subnormals()
            });
            worker.join().expect("the worker ends")
        });
        control::write(control::DEFAULT);
        assert!(kept, "flushed in the worker");
    }
}
