//! Asking for huge pages: a buffer of many megabytes is then touched for the first time several times faster.
#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "calls the system; the advice changes no content")
)]

/// Buffers of fewer bytes are left alone.
const WORTH: usize = 4 << 20;

/// `buffer`, for all of whose capacity huge pages were asked for if it is large; whether the system grants them is its
/// own affair. Only memory that was not touched yet gains by it.
#[must_use]
pub fn on_huge_pages<T>(buffer: Vec<T>) -> Vec<T> {
    if buffer.capacity() * size_of::<T>() >= WORTH {
        advise(&buffer);
    }
    buffer
}

#[cfg(target_os = "linux")]
fn advise<T>(buffer: &Vec<T>) {
    const PAGE: usize = 4096;
    let first = buffer.as_ptr().addr();
    let start = first.next_multiple_of(PAGE);
    let end = (first + buffer.capacity() * size_of::<T>()) / PAGE * PAGE;
    // SAFETY: the whole pages of a live allocation; advice about their size keeps what is in them.
    let _ = unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise<T>(_buffer: &Vec<T>) {}

#[cfg(test)]
mod tests {
    use super::on_huge_pages;

    #[test]
    fn a_buffer_keeps_what_is_in_it() {
        for length in [0, 1, 1 << 20, (1 << 20) + 77] {
            let buffer: Vec<u64> = (0..length).collect();
            assert_eq!(on_huge_pages(buffer.clone()), buffer);
        }
    }
}
