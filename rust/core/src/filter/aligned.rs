//! Buffers that begin at a cache line, so that no register of a packed row straddles two.

use std::ops::{Deref, DerefMut};

use crate::isa::on_huge_pages;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Zeros to begin with.
#[derive(Debug, Clone)]
pub struct Aligned<T> {
    buffer: Vec<T>,
    start: usize,
    len: usize,
}

impl<T: Copy + Default> Aligned<T> {
    /// `len` zeros.
    #[must_use]
    pub fn zeros(len: usize) -> Self {
        let buffer = on_huge_pages(vec![T::default(); len + LINE / size_of::<T>().max(1)]);
        let start = buffer.as_ptr().align_offset(LINE);
        Self {
            start: if start + len > buffer.len() { 0 } else { start },
            buffer,
            len,
        }
    }
}

impl<T> Deref for Aligned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.buffer[self.start..self.start + self.len]
    }
}

impl<T> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.buffer[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_begins_at_a_line_and_has_its_length() {
        for len in [0, 1, 15, 16, 1000, 1 << 20] {
            let buffer = Aligned::<f32>::zeros(len);
            assert_eq!(buffer.as_ptr().align_offset(LINE), 0);
            assert_eq!(buffer.len(), len);
        }
    }
}
