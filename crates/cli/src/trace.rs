//! [`Trace`]: the steps of a congestion controller in a file of CSV ([`Row`]).

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tautline_cc::{Factory, Row, Traced};

use crate::failure::Failure;

/// A file that takes one line for each event of a controller.
pub struct Trace {
    path: PathBuf,
    file: Arc<Mutex<Lines>>,
}

/// The file, and what went wrong with it.
struct Lines {
    file: BufWriter<File>,
    result: std::io::Result<()>,
}

impl Lines {
    fn write(&mut self, line: &dyn std::fmt::Display) {
        if self.result.is_ok() {
            self.result = writeln!(self.file, "{line}");
        }
    }
}

impl Trace {
    /// Creates or truncates the file and writes its header.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        let file = BufWriter::new(File::create(path).map_err(Failure::file(path))?);
        let mut lines = Lines {
            file,
            result: Ok(()),
        };
        lines.write(&Row::HEAD);
        Ok(Self {
            path: path.to_owned(),
            file: Arc::new(Mutex::new(lines)),
        })
    }

    /// Makes the controllers that `inner` makes, traced.
    pub fn trace(&self, inner: Factory) -> Factory {
        let file = self.file.clone();
        Factory::new(move |config| {
            let file = file.clone();
            // A poisoned lock means that another thread panicked between lines: the file is whole.
            let sink = move |row: &Row| {
                file.lock()
                    .unwrap_or_else(|poisoned| poisoned.into_inner())
                    .write(row)
            };
            Box::new(Traced::new(inner.build(config), sink))
        })
    }

    /// Writes what is left; says what went wrong on the way.
    ///
    /// # Errors
    /// If the file could not be written completely.
    pub fn finish(self) -> Result<(), Failure> {
        let mut lines = self
            .file
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let written =
            std::mem::replace(&mut lines.result, Ok(())).and_then(|()| lines.file.flush());
        written.map_err(Failure::file(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautline_base::{Bytes, Instant};
    use tautline_cc::{Algorithm, Config, Idle};

    #[test]
    fn a_file_holds_its_head_and_a_line_for_each_event() {
        let path = std::env::temp_dir().join(format!("tautline-trace-{}.csv", std::process::id()));
        let trace = Trace::create(&path).unwrap();
        let mut controller = trace
            .trace(Algorithm::Reno.factory())
            .build(&Config::new(Bytes::new(1448)));
        let pause = std::time::Duration::from_secs(1);
        controller.on_idle(&Idle {
            now: Instant::from_secs(2),
            idle: pause,
            rto: pause,
            app_limited: true,
        });
        trace.finish().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!((lines.len(), lines[0]), (2, Row::HEAD));
        assert!(
            lines[1].starts_with("2.000000000,start,,0,,14480,,"),
            "{}",
            lines[1]
        );
    }
}
