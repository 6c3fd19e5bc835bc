//! Requests of the control socket, carried out on a bridge.

use tautline_base::{Device, Frame, Instant};
use tautline_live::PortState;
use tautline_rt::bridge::{Bridge, Received, Side};
use tautline_stack::Tracer;
use tautline_tc::build;

use super::request::{Answer, Request, Way};
use super::state::State;

/// Carries out a request on `bridge`, which `begun` then. `names`: of the ports to the right and to
/// the left, and the interfaces they leave at.
pub fn handle<D, T>(
    bridge: &mut Bridge<D, D, T>,
    names: (&[String; 2], &[String; 2]),
    request: Request,
    (begun, now): (Instant, Instant),
) -> Answer
where
    D: Device<Frame: Frame + Send + 'static>,
    T: Tracer,
{
    let (names, interfaces) = names;
    match request {
        Request::Show => {
            let time = (now - begun).as_secs_f64();
            let ports = pictures(bridge, names).into_iter().zip(interfaces);
            let ports = ports.map(|(port, interface)| State::new(port, interface, time));
            Answer {
                error: None,
                ports: ports.collect(),
            }
        }
        Request::Change { way, words } => Answer::of(
            out(bridge, way)
                .change(&words, now)
                .map_err(|error| error.to_string()),
        ),
        Request::Replace { way, words } => Answer::of(
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

/// The side that a way leaves at.
fn out<D: Device, T: Tracer>(bridge: &mut Bridge<D, D, T>, way: Way) -> &mut Side<D, T> {
    match way {
        Way::ToRight => &mut bridge.right,
        Way::ToLeft => &mut bridge.left,
    }
}

/// Both ways as they are now: to the right, to the left.
pub fn pictures<D, T>(bridge: &Bridge<D, D, T>, [to_right, to_left]: &[String; 2]) -> [PortState; 2]
where
    D: Device<Frame: Frame + Send + 'static>,
    T: Tracer,
{
    let Bridge { left, right, .. } = bridge;
    [(to_right, left, right), (to_left, right, left)]
        .map(|(name, from, to)| picture(name, from.received(), to))
}

/// The way out at `to`, as it is now.
pub fn picture<D, T>(name: &str, received: Received, to: &Side<D, T>) -> PortState
where
    D: Device<Frame: Frame + Send + 'static>,
    T: Tracer,
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
