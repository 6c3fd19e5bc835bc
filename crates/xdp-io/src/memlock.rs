//! The limit on pinned memory. A UMEM counts against it unless the process holds CAP_IPC_LOCK.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of this process by `needed` bytes if it is too low and may be raised. A refusal
/// shows when the UMEM is registered; the limit does not apply to privileged processes.
pub(crate) fn raise(needed: u64) {
    let Rlimit { current, maximum } = getrlimit(Resource::Memlock);
    if current.is_none_or(|limit| limit >= needed) {
        return;
    }
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    if setrlimit(Resource::Memlock, unlimited).is_err() {
        // Without CAP_SYS_RESOURCE only the soft limit can rise, up to the hard one.
        let _ = setrlimit(
            Resource::Memlock,
            Rlimit {
                current: maximum,
                maximum,
            },
        );
    }
}

/// The current limit in bytes; `u64::MAX` is unlimited.
pub(crate) fn limit() -> u64 {
    getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX)
}
