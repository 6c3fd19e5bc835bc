//! Builds the qdisc that a [`Tree`] describes.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use tautline_base::{ConfigError, Item, Qdisc};

use tautline_qdisc::{
    Bfifo, Cake, CakeMq, ClassId, Drr, DualPi2, Ets, Htb, Mq, Netem, Pfifo, PfifoFast, Prio, Red,
    Stats, Tbf, bfifo, ets, htb, mq, pfifo, pfifo_fast,
};

use super::{Class, ClassConfig, Node, TreeMq};
use crate::discipline::{Change, DynQdisc, Inspect};
use crate::kind::{Kind, seat};

/// A qdisc refuses something.
pub(super) struct Refusal {
    pub(super) kind: &'static str,
    pub(super) error: ConfigError,
    /// Index of the node in the tree.
    pub(super) node: usize,
    /// Index of the class in its node, if a class is refused.
    pub(super) class: Option<usize>,
}

impl Refusal {
    fn new(node: &Node, at: usize, class: Option<usize>, error: ConfigError) -> Self {
        Self {
            kind: node.kind.name(),
            error,
            node: at,
            class,
        }
    }
}

type Boxed<P> = Box<dyn DynQdisc<P>>;

/// Makes the root. A qdisc that names no secret for its hashes gets `hash_key`, or draws one.
pub(super) fn build<P: Item + Send + 'static>(
    nodes: &[Node],
    hash_key: Option<u64>,
) -> Result<Boxed<P>, Refusal> {
    Builder::new(nodes, hash_key).node(0)
}

/// Makes the root with `choose` in place of the flow, if it is `mq`.
pub(super) fn build_mq<P: Item + Send + 'static, F: Fn(&P, usize) -> usize>(
    nodes: &[Node],
    choose: F,
) -> Result<Option<TreeMq<P, F>>, Refusal> {
    let root = &nodes[0];
    let Kind::Mq(config) = &root.kind else {
        return Ok(None);
    };
    let children = Builder::new(nodes, None).queues(root, config)?;
    Mq::choosing(root.handle, children, choose)
        .map(Some)
        .map_err(|error| Refusal::new(root, 0, None, error))
}

struct Builder<'a> {
    nodes: &'a [Node],
    hash_key: Option<u64>,
    /// The qdiscs by the class they stand below.
    below: BTreeMap<ClassId, usize>,
}

impl<'a> Builder<'a> {
    fn new(nodes: &'a [Node], hash_key: Option<u64>) -> Self {
        let below = nodes
            .iter()
            .enumerate()
            .filter_map(|(at, node)| Some((node.parent?, at)))
            .collect();
        Self {
            nodes,
            hash_key,
            below,
        }
    }

    /// The qdisc at `at`, with all that is below it.
    fn node<P: Item + Send + 'static>(&self, at: usize) -> Result<Boxed<P>, Refusal> {
        let node = &self.nodes[at];
        let refused = |error| Refusal::new(node, at, None, error);
        let mut kind = node.kind.clone();
        if let Some(key) = self.hash_key {
            kind = kind.with_hash_key(key);
        }
        match kind {
            Kind::Prio(config) => {
                let bands = self.bands(node, config.bands)?;
                let mut prio = Prio::new(node.handle, config, bands).map_err(refused)?;
                prio.set_filters(node.filters.clone());
                Ok(seated(prio, node))
            }
            Kind::Ets(config) => self.ets(at, config),
            Kind::Mq(config) => {
                let queues = self.queues(node, &config)?;
                Ok(seated(Mq::new(node.handle, queues).map_err(refused)?, node))
            }
            Kind::Htb(config) => self.htb(at, config),
            Kind::Drr(_) => self.drr(at),
            Kind::Tbf(config) => {
                let limit = config.limit();
                let child =
                    self.child(node, 1, || Box::new(Bfifo::new(bfifo::Config { limit })))?;
                let tbf = Tbf::new(config, child).map_err(refused)?;
                Ok(seated(tbf.with_handle(node.handle), node))
            }
            Kind::Red(config) if self.below.contains_key(&ClassId::new(node.handle, 1)) => {
                let child = self.child(node, 1, fifo)?;
                let red = Red::over(config, child).map_err(refused)?;
                Ok(seated(red.with_handle(node.handle), node))
            }
            Kind::Netem(config) if self.below.contains_key(&ClassId::new(node.handle, 1)) => {
                let child = self.child(node, 1, fifo)?;
                let netem = Netem::with_child(config, child).map_err(refused)?;
                Ok(seated(netem.with_handle(node.handle), node))
            }
            Kind::Cake(config) => {
                let mut cake = Cake::new(config).map_err(refused)?;
                cake.set_filters(node.filters.clone());
                Ok(seated(cake, node))
            }
            Kind::CakeMq(config) => {
                let root = CakeMq::new(node.handle, config).map_err(refused)?;
                Ok(seated(root, node))
            }
            Kind::DualPi2(config) => {
                let mut dualpi2 = DualPi2::new(config).map_err(refused)?;
                dualpi2.set_filters(node.filters.clone());
                Ok(seated(dualpi2, node))
            }
            kind => kind
                .build_at(node.parent.map(|_| node.id()))
                .map_err(refused),
        }
    }

    /// The children of `mq`.
    fn queues<P: Item + Send + 'static>(
        &self,
        node: &Node,
        config: &mq::Config,
    ) -> Result<Vec<Boxed<P>>, Refusal> {
        (1..=config.queues)
            .map(|queue| self.child(node, queue, three))
            .collect()
    }

    fn htb<P: Item + Send + 'static>(
        &self,
        at: usize,
        config: htb::Config,
    ) -> Result<Boxed<P>, Refusal> {
        let node = &self.nodes[at];
        let refused = |error, class| Refusal::new(node, at, class, error);
        let mut htb = Htb::new(node.handle, config).map_err(|error| refused(error, None))?;
        for (class, Class { id, parent, config }) in node.classes.iter().enumerate() {
            // A script gives a class the parameters of its qdisc's kind.
            let ClassConfig::Htb(config) = config.clone() else {
                continue;
            };
            let child = self.child(node, id.minor, fifo)?;
            let parent = Some(*parent).filter(|above| above.minor > 0);
            htb.add_class(*id, parent, config, child)
                .map_err(|error| refused(error, Some(class)))?;
        }
        htb.set_filters(node.filters.clone());
        Ok(seated(htb, node))
    }

    fn ets<P: Item + Send + 'static>(
        &self,
        at: usize,
        config: ets::Config,
    ) -> Result<Boxed<P>, Refusal> {
        let node = &self.nodes[at];
        let bands = self.bands(node, config.bands())?;
        let mut ets = Ets::new(node.handle, config, bands)
            .map_err(|error| Refusal::new(node, at, None, error))?;
        ets.set_filters(node.filters.clone());
        Ok(seated(ets, node))
    }

    fn drr<P: Item + Send + 'static>(&self, at: usize) -> Result<Boxed<P>, Refusal> {
        let node = &self.nodes[at];
        let mut drr = Drr::new(node.handle);
        for (class, Class { id, config, .. }) in node.classes.iter().enumerate() {
            let ClassConfig::Drr(config) = config.clone() else {
                continue;
            };
            let child = self.child(node, id.minor, fifo)?;
            drr.add_class(*id, config, child)
                .map_err(|error| Refusal::new(node, at, Some(class), error))?;
        }
        drr.set_filters(node.filters.clone());
        Ok(seated(drr, node))
    }

    /// The children of the `bands` of `node`.
    fn bands<P: Item + Send + 'static>(
        &self,
        node: &Node,
        bands: u8,
    ) -> Result<Vec<Boxed<P>>, Refusal> {
        (1..=bands.into())
            .map(|band| self.child(node, band, fifo))
            .collect()
    }

    /// The child of the class `minor` of `node`: the script's, or the result of `default`.
    fn child<P: Item + Send + 'static>(
        &self,
        node: &Node,
        minor: u16,
        default: impl FnOnce() -> Boxed<P>,
    ) -> Result<Boxed<P>, Refusal> {
        let class = ClassId::new(node.handle, minor);
        match self.below.get(&class) {
            Some(&at) => self.node(at),
            None => Ok(Box::new(Stats::new(default()))),
        }
    }
}

/// Linux's default child of a class.
fn fifo<P: Item + Send + 'static>() -> Boxed<P> {
    Box::new(Pfifo::new(pfifo::Config::default()))
}

/// Linux's default qdisc of a device queue.
fn three<P: Item + Send + 'static>() -> Boxed<P> {
    Box::new(PfifoFast::new(pfifo_fast::Config::default()))
}

/// A qdisc in its place in the tree.
fn seated<P: Item, Q: Qdisc<P> + Inspect + Change<P> + Send + 'static>(
    qdisc: Q,
    node: &Node,
) -> Boxed<P> {
    seat(qdisc, node.parent.map(|_| node.id()))
}
