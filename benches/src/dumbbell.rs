//! Simulated dumbbells: a fast way in, a router, a slow way out (paper 002, §3.4).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tautline_base::{Bytes, Instant, Rate};
use tautline_cc::Algorithm;
use tautline_sim::app::{SinkConfig, UploadConfig};
use tautline_sim::topology::{Cable, HostNode, Topology};
use tautline_sim::{Applications, Flow, LinkConfig, NicConfig};
use tautline_stack::{Pacing, TcpConfig};

const PORT: u16 = 5001;
/// Time for the flows to start before measuring begins.
const WARM_UP: Duration = Duration::from_secs(1);

/// A dumbbell and what is sent through it.
#[derive(Clone, Debug)]
pub struct Dumbbell {
    /// New Reno flows from one host to the other.
    pub flows: u32,
    /// Rate and delay of the way to the router.
    pub access: (Rate, Duration),
    /// Rate and delay of the way behind it.
    pub bottleneck: (Rate, Duration),
    /// Virtual time.
    pub duration: Duration,
}

/// Packets and bytes delivered.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// Packets that left the router by the bottleneck: data, not the acknowledgments that come
    /// back.
    pub packets: u64,
    /// Payload that the receiver read after the first second.
    pub goodput: Rate,
}

impl Dumbbell {
    /// The paper's: 100 Mbit/s and 0.1 ms, then 10 Mbit/s and 5 ms, for 100 s.
    pub fn one() -> Self {
        Self {
            flows: 1,
            access: (Rate::mbit(100), Duration::from_micros(100)),
            bottleneck: (Rate::mbit(10), Duration::from_millis(5)),
            duration: Duration::from_secs(100),
        }
    }

    /// Ten flows through 1 Gbit/s for 10 s.
    pub fn ten() -> Self {
        Self {
            flows: 10,
            access: (Rate::gbit(10), Duration::from_micros(100)),
            bottleneck: (Rate::gbit(1), Duration::from_millis(5)),
            duration: Duration::from_secs(10),
        }
    }

    /// Runs it.
    ///
    /// # Panics
    /// If the simulation fails: its parameters are constants.
    pub fn run(&self) -> Passed {
        let wire = |(rate, delay)| LinkConfig {
            rate,
            delay,
            ..LinkConfig::default()
        };
        let host = |name| HostNode {
            nic: NicConfig {
                rate: Rate::MAX,
                framing: Bytes::ZERO,
                ..NicConfig::default()
            },
            ..HostNode::new(name)
        };
        let (access, bottleneck) = (wire(self.access), wire(self.bottleneck));
        let topology = Topology {
            hosts: vec![host("A"), host("C")],
            routers: vec!["B".into()],
            cables: vec![
                Cable::new(["A", "B"], [access.clone(), access]),
                Cable::new(["B", "C"], [bottleneck.clone(), bottleneck]),
            ],
            ..Topology::default()
        };
        let server = SocketAddr::new(
            topology.address("C").expect("one of the hosts").into(),
            PORT,
        );
        let mut network = topology
            .build(1, (), |node, _| self.programs(&node.name, server))
            .expect("constants");
        let mut pass = |until| {
            network.run_before(Instant::ZERO + until).expect("it runs");
            let port = network.port("B>C").expect("one of the links");
            (
                network.endpoint(1).apps.meter().flows()[0].received.bytes,
                network.sample(port).sent_packets,
            )
        };
        let (before, _) = pass(WARM_UP);
        let (after, packets) = pass(self.duration);
        Passed {
            packets,
            goodput: Rate::from_amount(Bytes::new(after - before), self.duration - WARM_UP),
        }
    }

    /// The flows begin on A and end on C.
    fn programs(&self, host: &str, server: SocketAddr) -> Applications<'static> {
        let tcp = Arc::new(TcpConfig {
            congestion: Algorithm::Reno.into(),
            pacing: Pacing::Off,
            ..TcpConfig::default()
        });
        let mut programs = Applications::new(WARM_UP).strict();
        if host == "A" {
            for number in 1..=self.flows {
                let upload = UploadConfig::new(Flow::numbered("upload", number), server);
                programs
                    .upload(UploadConfig {
                        tcp: Arc::clone(&tcp),
                        ..upload
                    })
                    .expect("room for it");
            }
        } else {
            programs
                .sink(SinkConfig {
                    tcp,
                    ..SinkConfig::new("upload", PORT)
                })
                .expect("room for it");
        }
        programs
    }
}
