//! [`Media`]: the shared media of a network, and the NICs on them.

use crate::link::Link;
use crate::medium::{Medium, Nics};
use crate::nic::SimNic;
use crate::record::Record;

use super::Endpoint;
use super::sample::PortId;

/// A medium and the NICs on it.
#[derive(Debug)]
pub(super) struct SharedMedium {
    pub(super) medium: Medium,
    pub(super) nics: Vec<PortId>,
}

/// All media.
#[derive(Debug)]
pub(super) struct Media {
    pub(super) all: Vec<SharedMedium>,
    /// The medium of each host's NIC, and of each link's.
    of_host: Vec<Option<usize>>,
    of_link: Vec<Option<usize>>,
    /// Media whose NICs may have changed in this step.
    pub(super) dirty: Vec<usize>,
}

impl Media {
    pub(super) fn new<R: Record>(
        all: Vec<SharedMedium>,
        endpoints: &mut [Endpoint<'_, R>],
        links: &mut [Link],
    ) -> Self {
        for SharedMedium { medium, nics } in &all {
            let mut ports = PortNics {
                nics,
                endpoints,
                links,
            };
            (0..nics.len()).for_each(|number| medium.attach(number, ports.nic_mut(number)));
        }
        let medium_of = |nic| all.iter().position(|shared| shared.nics.contains(&nic));
        let of_host = (0..endpoints.len()).map(|host| medium_of(PortId::Host(host)));
        let of_link = (0..links.len()).map(|link| medium_of(PortId::Link(link)));
        Self {
            of_host: of_host.collect(),
            of_link: of_link.collect(),
            all,
            dirty: Vec::new(),
        }
    }

    /// Notes that the NIC of `port` may have changed. Its medium inspects all its NICs, so once per
    /// step is enough.
    #[inline]
    pub(super) fn mark_dirty(&mut self, port: PortId) {
        if self.all.is_empty() {
            return;
        }
        let medium = match port {
            PortId::Host(host) => self.of_host[host],
            PortId::Link(link) => self.of_link[link],
        };
        if let Some(medium) = medium
            && !self.dirty.contains(&medium)
        {
            self.dirty.push(medium);
        }
    }
}

/// The NICs of one medium, where they are.
pub(super) struct PortNics<'a, 'b, R> {
    pub(super) nics: &'a [PortId],
    pub(super) endpoints: &'a mut [Endpoint<'b, R>],
    pub(super) links: &'a mut [Link],
}

const HAS_A_NIC: &str = "a cell consists of links with NICs";

impl<R: Record> Nics for PortNics<'_, '_, R> {
    fn nic(&self, number: usize) -> &SimNic {
        match self.nics[number] {
            PortId::Host(host) => self.endpoints[host].nic(),
            PortId::Link(link) => self.links[link].ring().expect(HAS_A_NIC).device(),
        }
    }

    fn nic_mut(&mut self, number: usize) -> &mut SimNic {
        match self.nics[number] {
            PortId::Host(host) => self.endpoints[host].host.device_mut(),
            PortId::Link(link) => self.links[link].nic_mut().expect(HAS_A_NIC),
        }
    }
}
