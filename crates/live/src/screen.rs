//! [`Screen`]: owns the terminal while the value lives, and restores it afterwards, whether a key, a
//! signal, an error or a panic on any thread ends it.

use std::io::{self, IsTerminal};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::snapshot::Snapshot;
use crate::view::{Key, View};

/// Poll interval for keys.
const KEY_POLL: Duration = Duration::from_millis(50);

/// A terminal that shows snapshots, until it is dropped.
#[derive(Debug)]
pub struct Screen {
    snapshots: Option<SyncSender<Snapshot>>,
    drawer: Option<JoinHandle<()>>,
}

impl Screen {
    /// Takes over the terminal on standard output; `None` if standard output is not a terminal.
    /// Calls `quit` once: on `q`, on Ctrl-C, when the terminal fails, or at the end.
    ///
    /// # Errors
    /// If the terminal cannot be set up; its state is then unchanged.
    pub fn open(view: View, quit: impl FnOnce() + Send + 'static) -> io::Result<Option<Self>> {
        if !io::stdout().is_terminal() {
            return Ok(None);
        }
        // Installs a panic hook that restores the terminal first.
        let mut terminal = ratatui::try_init().inspect_err(|_| ratatui::restore())?;
        let restore = Restore { quit: Some(quit) };
        stop_drawing_on_panic();
        let (snapshots, shown) = sync_channel(1);
        let draw = move || {
            let _restored_at_the_end = restore;
            // A failing terminal only ends the view.
            let _gone = show(&mut terminal, view, &shown);
        };
        let drawer = thread::Builder::new().name("screen".into()).spawn(draw)?;
        Ok(Some(Self {
            snapshots: Some(snapshots),
            drawer: Some(drawer),
        }))
    }

    /// Shows `snapshot` soon. Skipped while an earlier one is not yet drawn.
    pub fn show(&self, snapshot: Snapshot) {
        if let Some(snapshots) = &self.snapshots {
            let _busy_or_gone = snapshots.try_send(snapshot);
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.snapshots = None;
        // The panic hook has reported a panic there and restored the terminal.
        let _ = self.drawer.take().map(JoinHandle::join);
    }
}

/// Restores the terminal when dropped, then calls `quit`.
struct Restore<F: FnOnce()> {
    quit: Option<F>,
}

impl<F: FnOnce()> Drop for Restore<F> {
    fn drop(&mut self) {
        ratatui::restore();
        if let Some(quit) = self.quit.take() {
            quit();
        }
    }
}

/// True once any thread has panicked: the terminal is restored, and drawing would cover the
/// message.
static PANICKED: AtomicBool = AtomicBool::new(false);

fn stop_drawing_on_panic() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |why| {
        PANICKED.store(true, Ordering::Relaxed);
        before(why);
    }));
}

/// Draws snapshots until the channel closes or the user quits.
fn show(
    terminal: &mut DefaultTerminal,
    mut view: View,
    shown: &Receiver<Snapshot>,
) -> io::Result<()> {
    while !PANICKED.load(Ordering::Relaxed) {
        terminal.draw(|frame| view.draw(frame))?;
        match shown.recv_timeout(KEY_POLL) {
            Ok(snapshot) => view.push(snapshot),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        while event::poll(Duration::ZERO)? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => match action_of(key) {
                    Some(Action::Quit) => return Ok(()),
                    Some(Action::View(key)) => view.key(key),
                    None => {}
                },
                _ => {}
            }
        }
    }
    Ok(())
}

/// Action of a key.
#[derive(Debug, PartialEq, Eq)]
enum Action {
    Quit,
    View(Key),
}

fn action_of(key: KeyEvent) -> Option<Action> {
    Some(match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Action::Quit,
        KeyCode::Char('q' | 'Q') | KeyCode::Esc => Action::Quit,
        KeyCode::Tab | KeyCode::Right => Action::View(Key::Next),
        KeyCode::BackTab | KeyCode::Left => Action::View(Key::Previous),
        KeyCode::Up | KeyCode::Char('k') => Action::View(Key::Up),
        KeyCode::Down | KeyCode::Char('j') => Action::View(Key::Down),
        KeyCode::Char('t') => Action::View(Key::Table),
        KeyCode::Char(' ' | 'p') => Action::View(Key::Pause),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_and_control_c_end_it_and_c_alone_does_nothing() {
        let key = |code, modifiers| action_of(KeyEvent::new(code, modifiers));
        assert_eq!(
            key(KeyCode::Char('q'), KeyModifiers::NONE),
            Some(Action::Quit)
        );
        assert_eq!(
            key(KeyCode::Char('c'), KeyModifiers::CONTROL),
            Some(Action::Quit)
        );
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), None);
        assert_eq!(
            key(KeyCode::Tab, KeyModifiers::NONE),
            Some(Action::View(Key::Next))
        );
    }
}
