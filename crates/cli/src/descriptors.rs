//! The limit of open descriptors, for programs with a socket for each connection they relay.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises this process's limit to what it may raise it to: a shell's is often 1024. Processes that were
/// started before keep theirs, as programs with `select` must.
pub(crate) fn raise_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let limit = Rlimit {
        current: maximum,
        maximum,
    };
    // Without it, connections wait as before.
    let _ = setrlimit(Resource::Nofile, limit);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_to_the_maximum() {
        let before = getrlimit(Resource::Nofile);
        let lower = Rlimit {
            current: before.maximum.map(|most| most / 2),
            ..before
        };
        setrlimit(Resource::Nofile, lower).expect("a lower one");
        raise_limit();
        assert_eq!(getrlimit(Resource::Nofile).current, before.maximum);
    }
}
