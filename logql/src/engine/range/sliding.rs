//! Windows that overlap a lot, without reading every sample or cell again for each window.
//!
//! The value of a window is joined from partial aggregates. The samples of the current window are
//! split at a middle. For the samples before the middle the aggregates of all suffixes are kept.
//! The samples behind the middle have one aggregate, which grows. A window that moves on drops a
//! suffix and grows the aggregate behind the middle. When the suffixes are used up, the middle
//! moves to the end. So each sample is joined three times at most, whatever the overlap. Nothing is
//! ever subtracted, so no precision is lost. Folds of cells take the place of samples where there
//! are cells.

/// The fold of a run of samples, in time order.
pub(crate) trait PartialAggregate: Clone {
    /// Adds the fold of the run behind this one.
    fn join(&mut self, later: &Self);
}

/// A window that moves over a list of folds of single samples.
#[derive(Debug)]
pub(crate) struct SlidingWindow<F> {
    /// `suffixes[k]` is the fold of the samples `middle - 1 - k .. middle`.
    suffixes: Vec<F>,
    middle: usize,
    end: usize,
    behind: Option<F>,
}

impl<F: PartialAggregate> SlidingWindow<F> {
    pub(crate) fn new() -> Self {
        Self { suffixes: Vec::new(), middle: 0, end: 0, behind: None }
    }

    /// The fold of the samples `first..end`, which is not empty. Both bounds must
    /// not be less than in the call before.
    pub(crate) fn fold(&mut self, first: usize, end: usize, sample: impl Fn(usize) -> F) -> F {
        if first >= self.middle {
            self.behind = None;
            self.suffixes.clear();
            self.middle = end;
            for i in (first..end).rev() {
                let mut suffix = sample(i);
                if let Some(later) = self.suffixes.last() {
                    suffix.join(later);
                }
                self.suffixes.push(suffix);
            }
        } else {
            for i in self.end..end {
                let one = sample(i);
                match &mut self.behind {
                    Some(earlier) => earlier.join(&one),
                    None => self.behind = Some(one),
                }
            }
        }
        self.end = end;
        let mut whole = self.suffixes[self.middle - 1 - first].clone();
        if let Some(behind) = &self.behind {
            whole.join(behind);
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Joining is concatenation, so order and completeness show.
    #[derive(Clone, Copy, PartialEq, Debug)]
    struct Run(usize, usize);

    impl PartialAggregate for Run {
        fn join(&mut self, later: &Self) {
            assert_eq!(self.1, later.0, "adjacent and in order");
            self.1 = later.1;
        }
    }

    #[test]
    fn every_window_is_folded_whole_and_in_order() {
        let mut seed = 99u32;
        for _ in 0..200 {
            let mut sliding = SlidingWindow::new();
            let (mut first, mut end) = (0, 0);
            for _ in 0..60 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                first += (seed >> 10) as usize % 4;
                end = end.max(first + 1) + (seed >> 20) as usize % 5;
                assert_eq!(sliding.fold(first, end, |i| Run(i, i + 1)), Run(first, end));
            }
        }
    }
}
