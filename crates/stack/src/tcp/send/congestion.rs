//! [`Congestion`]: the controller and its latest verdict.

use tautline_cc::{Config, Controller, Factory, Loss, Recovery, Verdict};

/// A controller, and the verdict after the latest event.
pub(super) struct Congestion {
    controller: Box<dyn Controller>,
    verdict: Verdict,
}

impl Congestion {
    /// A new controller.
    pub(super) fn new(factory: &Factory, config: &Config) -> Self {
        let controller = factory.build(config);
        Self {
            verdict: controller.verdict(),
            controller,
        }
    }

    /// Passes an event to the controller and takes its verdict: every event goes through here.
    #[inline]
    pub(super) fn update(&mut self, event: impl FnOnce(&mut dyn Controller)) {
        event(&mut *self.controller);
        self.verdict = self.controller.verdict();
    }

    /// A segment is lost. The acknowledgement or timeout that revealed it follows, with the verdict.
    pub(super) fn on_lost(&mut self, loss: &Loss) {
        self.controller.on_lost(loss);
    }

    pub(super) fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    pub(super) fn controller(&self) -> &dyn Controller {
        &*self.controller
    }

    /// Proportional rate reduction owns the window in recovery.
    pub(super) fn uses_prr(&self) -> bool {
        self.controller.recovery() == Recovery::Prr
    }
}
