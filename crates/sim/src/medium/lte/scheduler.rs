//! [`RoundRobin`]: shares the resource blocks of a TTI.

/// Shares resource blocks evenly among the stations that need any. The remainder rotates from one
/// TTI to the next.
#[derive(Clone, Debug, Default)]
pub(super) struct RoundRobin {
    /// The station considered first.
    next: usize,
}

impl RoundRobin {
    /// Writes the shares of `blocks` among stations that need `needs` to `shares`, which has the
    /// same length.
    pub(super) fn share(&mut self, blocks: u32, needs: &[u32], shares: &mut [u32]) {
        shares.fill(0);
        let count = needs.len();
        let (mut left, mut satisfied) = (blocks, 0);
        let mut station = self.next;
        while left > 0 && satisfied < count {
            station %= count;
            if shares[station] < needs[station] {
                shares[station] += 1;
                left -= 1;
                satisfied = 0;
                self.next = station + 1;
            } else {
                satisfied += 1;
            }
            station += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(scheduler: &mut RoundRobin, needs: [u32; 3]) -> [u32; 3] {
        let mut shares = [9; 3];
        scheduler.share(25, &needs, &mut shares);
        shares
    }

    #[test]
    fn equal_shares_and_the_rest_in_turn() {
        let mut scheduler = RoundRobin::default();
        assert_eq!(share(&mut scheduler, [99, 99, 99]), [9, 8, 8]);
        assert_eq!(share(&mut scheduler, [99, 99, 99]), [8, 9, 8]);
        assert_eq!(share(&mut scheduler, [99, 99, 99]), [8, 8, 9]);
    }

    #[test]
    fn what_one_does_not_need_the_others_get() {
        let mut scheduler = RoundRobin::default();
        assert_eq!(share(&mut scheduler, [2, 99, 0]), [2, 23, 0]);
        assert_eq!(share(&mut scheduler, [1, 2, 3]), [1, 2, 3]);
        assert_eq!(share(&mut scheduler, [0, 0, 0]), [0, 0, 0]);
        scheduler.share(25, &[], &mut []);
    }
}
