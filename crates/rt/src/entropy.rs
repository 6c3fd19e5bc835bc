//! A seed from the system's generator, for [`HostConfig::seed`](tautline_stack::HostConfig).

use rustix::rand::{GetRandomFlags, getrandom};

/// 64 unpredictable bits from `getrandom(2)`.
///
/// # Errors
/// If `getrandom(2)` fails: the kernel is older than Linux 3.17.
pub fn system_seed() -> std::io::Result<u64> {
    let mut seed = [0; 8];
    // Requests of up to 256 bytes are never partial.
    getrandom(&mut seed, GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(seed))
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_seeds_differ() {
        let seed = || super::system_seed().expect("the system has a generator");
        assert_ne!(seed(), seed());
    }
}
