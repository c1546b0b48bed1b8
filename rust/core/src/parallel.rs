//! Work for threads that live as long as one call.
//!
//! There is no pool: a process that forks (data loaders do) would find its threads gone in the child. Threads are
//! cheap beside what a phase of a search does, and small work stays on the calling thread. While workers run, the
//! calling thread wakes to ask whether to go on; after a no the workers stop at their next item.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::isa::float_env;
use crate::knn::Poll;

/// How often the calling thread asks.
const INTERVAL: Duration = Duration::from_millis(50);

/// Units of work (pairs, mostly) that are done before anyone would be asked.
const BRIEF: u64 = 1 << 14;

/// How far a call has come, and whether it is to stop.
pub(crate) struct Watch<'a> {
    poll: Option<Poll<'a>>,
    progress: &'a Progress,
    last: Cell<Instant>,
}

/// The part of a [`Watch`] that workers see.
#[derive(Debug)]
pub(crate) struct Progress {
    total: u64,
    done: AtomicU64,
    stop: AtomicBool,
}

impl Progress {
    /// Of `total` units of work, none is done.
    #[must_use]
    pub(crate) fn new(total: u64) -> Self {
        Self {
            total,
            done: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    /// Adds to the work that is done.
    pub(crate) fn add(&self, work: u64) {
        self.done.fetch_add(work, Ordering::Relaxed);
    }

    /// Whether to stop, looked at every 256 turns of a loop that counts in powers of two.
    #[inline]
    pub(crate) fn stopped_at(&self, turn: usize) -> bool {
        turn.is_multiple_of(256) && self.stopped()
    }

    /// Whether to stop.
    #[inline]
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch")
            .field("progress", self.progress)
            .finish_non_exhaustive()
    }
}

impl<'a> Watch<'a> {
    /// A watch over `progress` that asks `poll`.
    #[must_use]
    pub(crate) fn new(poll: Option<Poll<'a>>, progress: &'a Progress) -> Self {
        Self {
            poll,
            progress,
            last: Cell::new(Instant::now()),
        }
    }

    fn ask(&self) {
        if let Some(poll) = self.poll
            && !poll(self.progress.done.load(Ordering::Relaxed), self.progress.total)
        {
            self.progress.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Asks if the last time is long ago.
    pub(crate) fn ask_in_time(&self) {
        if self.poll.is_some() && self.last.get().elapsed() >= INTERVAL {
            self.ask();
            self.last.set(Instant::now());
        }
    }

    /// Asks one last time, so that whoever counts sees the end.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if the answer is no.
    pub(crate) fn finish(&self) -> Result<()> {
        self.progress.done.store(self.progress.total, Ordering::Relaxed);
        self.check()
    }

    fn check(&self) -> Result<()> {
        if self.progress.stopped() {
            Err(Error::Interrupted)
        } else {
            Ok(())
        }
    }
}

/// Does `work` on every item, on at most `threads` threads, each with state that `worker` makes. Items are handed
/// out in order, one at a time.
///
/// # Errors
/// [`Error::Interrupted`] once the watch says stop; items may be left undone then.
pub(crate) fn for_each<T: Send, W>(
    threads: usize,
    items: Vec<T>,
    watch: &Watch<'_>,
    worker: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, T) + Sync,
) -> Result<()> {
    let threads = threads.min(items.len());
    let progress = watch.progress;
    // Whoever is to be asked in time must not wait for a long item on the calling thread.
    let brief = watch.poll.is_none() || progress.total < BRIEF;
    if threads == 0 || threads == 1 && brief {
        let mut state = worker();
        for item in items {
            watch.ask_in_time();
            watch.check()?;
            work(&mut state, item);
        }
        return watch.check();
    }
    let items = Mutex::new(items.into_iter());
    let running = Mutex::new(threads);
    let ended = Condvar::new();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let _end = End {
                    running: &running,
                    ended: &ended,
                };
                let _env = float_env();
                let mut state = worker();
                while !progress.stopped() {
                    let item = items.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(item) = item else { break };
                    work(&mut state, item);
                }
            });
        }
        let mut left = running.lock().unwrap_or_else(PoisonError::into_inner);
        while *left > 0 {
            left = ended
                .wait_timeout(left, INTERVAL)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            if *left > 0 {
                drop(left);
                watch.ask_in_time();
                left = running.lock().unwrap_or_else(PoisonError::into_inner);
            }
        }
    });
    watch.check()
}

/// Counts a worker out, also when it panics.
struct End<'a> {
    running: &'a Mutex<usize>,
    ended: &'a Condvar,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.ended.notify_all();
    }
}
