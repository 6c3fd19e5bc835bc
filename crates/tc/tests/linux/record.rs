//! [`Record`]: what the kernel did with a trace.

/// A packet that came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departure {
    /// Which one.
    pub(crate) id: u16,
    /// Nanoseconds from the start of the trace.
    pub(crate) at: i64,
    /// Its TOS byte then.
    pub(crate) tos: u8,
}

/// The kernel's run of a trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// Its monotonic clock at the start, in nanoseconds.
    pub(crate) start: u64,
    /// Which of 65536 buckets each flow falls into, in the order of [`flows`](crate::trace::flows).
    pub(crate) buckets: Vec<i64>,
    /// When each packet was really given to the device, in nanoseconds from the start.
    pub(crate) arrivals: Vec<u64>,
    /// The departures, in order.
    pub(crate) departures: Vec<Departure>,
    /// The output of `tc -s`.
    pub(crate) said: String,
}

impl Record {
    /// Reads what `validation/linux/driver.py` wrote.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut record = Self::default();
        for line in text.lines() {
            let (kind, rest) = line.split_once(' ')?;
            match kind {
                "t" => record.start = rest.parse().ok()?,
                "b" => record.buckets.push(rest.parse().ok()?),
                "i" => record.arrivals.push(rest.parse().ok()?),
                "o" => {
                    let mut fields = rest.split(' ');
                    let id = fields.next()?.parse().ok()?;
                    let at = fields.next()?.parse().ok()?;
                    record.departures.push(Departure {
                        id,
                        at,
                        tos: fields.next()?.parse().ok()?,
                    });
                }
                _ => {
                    record.said += rest;
                    record.said.push('\n');
                }
            }
        }
        Some(record)
    }

    /// Whether two flows share one of 65536 queues, as far as the kernel's own answer tells.
    pub(crate) fn collides(&self) -> bool {
        let mut places = self.buckets.clone();
        places.sort_unstable();
        self.buckets.contains(&-1) || places.windows(2).any(|pair| pair[0] == pair[1])
    }
}
