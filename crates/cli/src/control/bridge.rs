//! [`Observer`]s of the packets of a bridge, and the requests of the control socket, carried out on it.

use tautline_base::{Device, Frame, Instant};
use tautline_live::PortState;
use tautline_rt::bridge::{Bridge, Received, Side};
use tautline_stack::{PacketEvent, Tracer};
use tautline_tc::{Inspect, build};

use super::capture::PacketTap;
use super::request::{Answer, Request, Way};
use super::state::State;
use super::talkers::{Talkers, TopTalkers};

/// The tracer of each side of a bridge.
pub struct Observer {
    /// Live captures.
    pub tap: PacketTap,
    /// Hosts and flows that carry most, if somebody may ask.
    pub talkers: Option<Talkers>,
}

impl Tracer for Observer {
    fn record(&mut self, event: &PacketEvent, frame: &[u8]) {
        self.tap.record(event, frame);
        self.talkers.record(event, frame);
    }
}

/// Carries out a request on `bridge`, which `begun` then. `names`: of the ports to the right and to
/// the left, and the interfaces they leave at.
pub fn handle<D>(
    bridge: &mut Bridge<D, D, Observer>,
    names: (&[String; 2], &[String; 2]),
    request: Request,
    (begun, now): (Instant, Instant),
) -> Answer
where
    D: Device<Frame: Frame + Send + 'static>,
{
    let (names, interfaces) = names;
    match request {
        Request::Show => {
            let time = (now - begun).as_secs_f64();
            let sides = [&bridge.right, &bridge.left].into_iter().zip(interfaces);
            let ports = pictures(bridge, names, begun).into_iter().zip(sides);
            let ports = ports.map(|(port, (side, interface))| {
                let talkers = top(side, begun);
                let report = side.port().qdisc().report();
                State::new(port, &report, talkers, (interface, time))
            });
            Answer {
                error: None,
                ports: ports.collect(),
            }
        }
        Request::Change { way, words, .. } => Answer::of(
            out(bridge, way)
                .change(&words, now)
                .map_err(|error| error.to_string()),
        ),
        Request::Replace { way, words, .. } => Answer::of(
            build(&words)
                .map_err(|error| error.to_string())
                .and_then(|qdisc| {
                    out(bridge, way).replace(qdisc, now).map_err(|held| {
                        format!("the present qdisc does not release the {held} packets it holds; it stays")
                    })
                }),
        ),
        Request::Capture(_) => {
            Answer::of(Err("captures need a connection to the control socket".to_owned()))
        }
    }
}

/// The hosts and flows that carry most on the way out at `to`. The middlebox `begun` then.
fn top<D: Device>(to: &Side<D, Observer>, begun: Instant) -> TopTalkers {
    let talkers = to.tracer().talkers.as_ref();
    talkers
        .map(|talkers| talkers.top(begun))
        .unwrap_or_default()
}

/// The side that a way leaves at.
fn out<D: Device>(bridge: &mut Bridge<D, D, Observer>, way: Way) -> &mut Side<D, Observer> {
    match way {
        Way::ToRight => &mut bridge.right,
        Way::ToLeft => &mut bridge.left,
    }
}

/// Both ways as they are now: to the right, to the left. The middlebox `begun` then.
pub fn pictures<D>(
    bridge: &Bridge<D, D, Observer>,
    [to_right, to_left]: &[String; 2],
    begun: Instant,
) -> [PortState; 2]
where
    D: Device<Frame: Frame + Send + 'static>,
{
    let Bridge { left, right, .. } = bridge;
    [(to_right, left, right), (to_left, right, left)].map(|(name, from, to)| {
        let talkers = top(to, begun);
        PortState {
            hosts: talkers.drawn_hosts(),
            flows: talkers.drawn_flows(),
            ..picture(name, from.received(), to)
        }
    })
}

/// The way out at `to`, as it is now.
fn picture<D>(name: &str, received: Received, to: &Side<D, Observer>) -> PortState
where
    D: Device<Frame: Frame + Send + 'static>,
{
    let mut port = PortState::of(name, to.port());
    let outside = [
        ("no frame free", received.no_memory),
        ("too long", received.too_long),
    ];
    port.drops.extend(
        outside
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(why, count)| (why.to_owned(), count)),
    );
    port
}
