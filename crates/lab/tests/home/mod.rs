//! A directory of a test's own.
#![expect(
    unreachable_pub,
    reason = "a module shared by test files; each is a crate of its own"
)]

use std::fs;

use tempfile::TempDir;

/// A directory with these files, by their paths in it. It goes when the test ends.
pub fn home<T: AsRef<[u8]>>(files: &[(&str, T)]) -> TempDir {
    let home = tempfile::tempdir().expect("a directory");
    for (path, content) in files {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().expect("it is in the directory"))
            .expect("a directory in it");
        fs::write(path, content).expect("a file");
    }
    home
}
