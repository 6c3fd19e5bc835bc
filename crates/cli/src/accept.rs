//! [`accepted`] and [`ACCEPT_AGAIN`]: listeners while the kernel refuses connections.

use std::io;
use std::time::Duration;

/// Pause after the kernel has refused an `accept`: the process is out of descriptors, for instance.
pub(crate) const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// The connections of a listener of `std`, on the calling thread, with a pause after each that is refused:
/// the next one is refused at once.
#[expect(
    clippy::disallowed_methods,
    reason = "no event says that descriptors are free again"
)]
pub(crate) fn accepted<S>(
    incoming: impl Iterator<Item = io::Result<S>>,
) -> impl Iterator<Item = S> {
    incoming.filter_map(|accepted| {
        let refused = |_| std::thread::sleep(ACCEPT_AGAIN);
        accepted.map_err(refused).ok()
    })
}

#[cfg(test)]
mod tests {
    use tautline_rt::Clock;

    use super::*;

    /// Without the pause, a process out of descriptors would spin.
    #[test]
    fn a_refused_connection_is_followed_by_a_pause() {
        let clock = Clock::start();
        let refused = || Err(io::ErrorKind::Other.into());
        let incoming = [refused(), refused(), Ok(7)];
        let begun = clock.now();
        assert_eq!(accepted(incoming.into_iter()).next(), Some(7));
        assert!(clock.now() - begun >= 2 * ACCEPT_AGAIN);
    }
}
