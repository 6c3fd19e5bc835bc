//! [`Cell`]: one experiment.

use std::str::FromStr;
use std::time::Duration;

use tautline_base::Rate;

/// Senders, bottleneck and path, named `CC-FLOWS-QDISC-MBIT-RTT-SECONDS`.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) congestion: String,
    pub(crate) flows: usize,
    qdisc: String,
    mbit: u64,
    /// Round trip without queues.
    pub(crate) rtt: Duration,
    pub(crate) duration: Duration,
}

impl FromStr for Cell {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let parts: Vec<_> = name.split('-').collect();
        let [congestion, flows, qdisc, mbit, rtt, seconds] = parts[..] else {
            return Err(format!("{name} is no CC-FLOWS-QDISC-MBIT-RTT-SECONDS"));
        };
        let number = |text: &str| {
            text.parse::<u64>()
                .map_err(|error| format!("{text} in {name}: {error}"))
        };
        Ok(Self {
            congestion: congestion.into(),
            flows: number(flows)? as usize,
            qdisc: qdisc.into(),
            mbit: number(mbit)?,
            rtt: Duration::from_millis(number(rtt)?),
            duration: Duration::from_secs(number(seconds)?),
        })
    }
}

impl Cell {
    /// The rate of the bottleneck.
    pub(crate) fn rate(&self) -> Rate {
        Rate::mbit(self.mbit)
    }

    /// Rate of CAKE's own shaper; `None` below HTB.
    pub(crate) fn cake_mbit(&self) -> Option<u64> {
        (self.qdisc == "cake").then_some(self.mbit)
    }

    /// The bottleneck in `tc`'s words, in the profile of the kernel compared with.
    pub(crate) fn tree(&self, seed: u64) -> String {
        let (mbit, burst) = (self.mbit, (self.mbit * 125).max(1600));
        let leaf = match self.qdisc.as_str() {
            "cake" => return format!("cake linux bandwidth {mbit}mbit seed {seed}"),
            "pfifo100" => "pfifo limit 100".into(),
            "pfifo1000" => "pfifo limit 1000".into(),
            // The timer of a kernel with 100 ticks a second; it has run since long before the first
            // packet, which finds it anywhere in its period.
            "pie" => {
                let phase = 10 * (seed % 3);
                format!("pie linux hz 100 first_update {phase}ms seed {seed}")
            }
            other => format!("{other} linux"),
        };
        format!(
            "qdisc add dev r1 root handle 1: htb linux default 1\n\
             class add dev r1 parent 1: classid 1:1 htb rate {mbit}mbit quantum 1514 burst {burst} cburst {burst}\n\
             qdisc add dev r1 parent 1:1 handle 10: {leaf}"
        )
    }
}
