//! [`Page`]: sizes of the objects of a web page.

use tautline_base::Bytes;

/// The objects of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The page itself, then what it refers to.
    pub objects: Vec<Bytes>,
}

impl Page {
    /// The small page of paper 003: 4.3 MB in 21 objects.
    pub fn small() -> Self {
        Self::falling(21, Bytes::new(4_300_000))
    }

    /// The large page of paper 003: 24 MB in 50 objects.
    pub fn large() -> Self {
        Self::falling(50, Bytes::new(24_000_000))
    }

    /// `total` in `count` objects, of which the n-th is 1/n as large as the first: a few large ones
    /// and many small ones, our choice where the paper has only these two numbers. The first takes
    /// the rounding error.
    pub fn falling(count: usize, total: Bytes) -> Self {
        const UNIT: u128 = 1 << 32;
        let weights = || (1..=count as u128).map(|place| UNIT / place);
        let sum: u128 = weights().sum();
        let share =
            |weight: u128| Bytes::new((u128::from(total.get()) * weight / sum.max(1)) as u64);
        let mut objects: Vec<Bytes> = weights().map(share).collect();
        let given: Bytes = objects.iter().copied().sum();
        if let Some(first) = objects.first_mut() {
            *first += total.saturating_sub(given);
        }
        Self { objects }
    }

    /// Sum of all objects.
    pub fn total(&self) -> Bytes {
        self.objects.iter().copied().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_the_paper_have_its_numbers() {
        let [small, large] = [Page::small(), Page::large()];
        assert_eq!(
            (small.objects.len(), small.total()),
            (21, Bytes::new(4_300_000))
        );
        assert_eq!(
            (large.objects.len(), large.total()),
            (50, Bytes::new(24_000_000))
        );
        // The sum of 1/n for 21 objects is 3.645.
        assert_eq!(
            (small.objects[0].get() / 1000, small.objects[20].get() / 100),
            (1179, 561)
        );
        assert!(small.objects.is_sorted_by(|a, b| a >= b));
        assert_eq!(Page::falling(0, Bytes::new(7)).objects, []);
    }
}
