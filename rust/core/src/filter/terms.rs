//! The terms of the bounds by name, so that a test can take one away and show that it is needed.

/// A term of a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Term {
    /// Rounding of the products and sums of the estimate.
    Accumulation,
    /// What the query loses when it is stored for the estimate.
    QueryRounding,
    /// What the reference loses when it is stored for the estimate.
    ReferenceRounding,
    /// Rounding of the row scalars and of refinement itself.
    Evaluation,
    /// Products and sums of refinement that underflow.
    Underflow,
    /// What rows lose before they are stored: subtraction of the mean.
    Drift,
    /// Rounding of bounds to the type they are compared in.
    Comparison,
}

#[cfg(test)]
thread_local! {
    static REMOVED: std::cell::Cell<Option<Term>> = const { std::cell::Cell::new(None) };
}

/// `value`, the amount of `term`; 0 while a test has taken the term away.
#[inline(always)]
#[must_use]
pub fn amount(term: Term, value: f64) -> f64 {
    #[cfg(test)]
    if REMOVED.get() == Some(term) {
        return 0.0;
    }
    let _ = term;
    value
}

/// Runs `body` without `term`.
#[cfg(test)]
pub(crate) fn without<R>(term: Term, body: impl FnOnce() -> R) -> R {
    REMOVED.set(Some(term));
    let result = body();
    REMOVED.set(None);
    result
}
