//! Tasks over threads: one seam, no pool, so that a forked child never waits for threads it does not have.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::knn::Poll;

/// How often the caller's poll function is asked.
const INTERVAL: Duration = Duration::from_millis(50);

/// Who works and who may stop it.
#[derive(Clone, Copy)]
pub(crate) struct Workers<'a> {
    /// Threads, the calling one included.
    pub(crate) threads: usize,
    pub(crate) poll: Option<Poll<'a>>,
}

impl Workers<'_> {
    /// Every task's result, in no particular order. The calling thread works too and polls between its steps.
    ///
    /// `work` gets a task and a function to ask now and then whether to go on; it returns `None` when told not to.
    pub(crate) fn run<T: Send, R: Send>(
        self,
        tasks: Vec<T>,
        work: impl Fn(T, &dyn Fn() -> bool) -> Option<R> + Sync,
    ) -> Result<Vec<R>> {
        let stopped = AtomicBool::new(false);
        let others = self.threads.min(tasks.len()).saturating_sub(1);
        let (queue, results) = (Mutex::new(tasks.into_iter()), Mutex::new(Vec::new()));
        let drain = |alive: &dyn Fn() -> bool| {
            while alive() {
                let Some(task) = queue.lock().ok().and_then(|mut queue| queue.next()) else {
                    return;
                };
                let result = work(task, alive);
                if let (Some(result), Ok(mut results)) = (result, results.lock()) {
                    results.push(result);
                }
            }
        };
        let asked = Cell::new(Instant::now());
        let poll = || {
            if let Some(poll) = self.poll
                && asked.get().elapsed() >= INTERVAL
            {
                asked.set(Instant::now());
                if !poll(0, 0) {
                    stopped.store(true, Ordering::Relaxed);
                }
            }
            !stopped.load(Ordering::Relaxed)
        };
        std::thread::scope(|scope| {
            for _ in 0..others {
                scope.spawn(|| drain(&|| !stopped.load(Ordering::Relaxed)));
            }
            drain(&poll);
        });
        if stopped.into_inner() {
            return Err(Error::Interrupted);
        }
        Ok(results.into_inner().unwrap_or_default())
    }
}
