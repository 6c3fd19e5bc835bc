//! [`Kind`]: a qdisc with its configuration, parsed from and printed as `tc`'s words.

use alloc::boxed::Box;
use core::fmt;
use core::ops::{Range, RangeInclusive};
use core::str::FromStr;

use tautline_base::{ConfigError, Item, Qdisc};

use tautline_qdisc::{
    Bfifo, Blue, Cake, CakeMq, ClassId, Cobalt, Codel, Drr, DualPi2, Ets, Fifo, Fq, FqCodel, FqPie,
    Htb, Mq, Netem, Pfifo, PfifoFast, PfifoHeadDrop, Pie, Prio, Red, Sfq, Stats, Tbf, bfifo, blue,
    cake, cake_mq, cobalt, codel, drr, dualpi2, ets, fifo, fq, fq_codel, fq_pie, htb, mq, netem,
    pfifo, pfifo_fast, pfifo_head_drop, pie, prio, red, sfq, tbf,
};

use crate::discipline::{Change, DynQdisc, Inspect};
use crate::report::Value;
use crate::words::{Options, ParseError, Problem, Words};

/// Declares [`Kind`]: one line per qdisc, with its configuration and constructor.
macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident($config:ty), $make:expr;)*) => {
        /// A kind of qdisc with its configuration. Parses from `tc`'s words; prints all its
        /// options.
        ///
        /// ```
        /// use tautline_tc::Kind;
        ///
        /// let kind: Kind = "pfifo limit 7".parse()?;
        /// assert_eq!((kind.name(), kind.to_string()), ("pfifo", "pfifo limit 7p".into()));
        /// let error = "fq_code limit 7".parse::<Kind>().expect_err("a typing error");
        /// assert!(error.to_string().ends_with("did you mean `fq_codel`?"));
        /// # Ok::<(), tautline_tc::ParseError>(())
        /// ```
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$doc])* $variant($config),)*
        }

        impl Kind {
            /// Builds the qdisc.
            ///
            /// # Errors
            /// If a value is outside the range of its parameter.
            pub fn build<P: Item + Send + 'static>(self) -> Result<Box<dyn DynQdisc<P>>, ParseError> {
                let kind = self.name();
                self.build_at(None).map_err(|error| ParseError::refused(kind, 0..0, error))
            }

            /// Builds the qdisc; with a `name`, wrapped in [`Stats`].
            pub(crate) fn build_at<P: Item + Send + 'static>(
                self,
                name: Option<ClassId>,
            ) -> Result<Box<dyn DynQdisc<P>>, ConfigError> {
                match self {
                    $(Self::$variant(config) => {
                        let make = $make;
                        Ok(seat(make(config)?, name))
                    })*
                }
            }

            /// Every kind in its default configuration.
            pub fn all() -> impl Iterator<Item = Self> {
                [$(Self::$variant(<$config>::default()),)*].into_iter()
            }

            fn config(&self) -> &dyn Options {
                match self {
                    $(Self::$variant(config) => config,)*
                }
            }

            pub(crate) fn options_mut(&mut self) -> &mut dyn Options {
                match self {
                    $(Self::$variant(config) => config,)*
                }
            }
        }
    };
}

/// Handle of a classful qdisc without a tree.
const ALONE: u16 = 1;

kinds! {
    /// First in, first out, bounded in packets and bytes.
    Fifo(fifo::Config), |config| Ok(Fifo::<P>::new(config));
    /// First in, first out.
    Pfifo(pfifo::Config), |config| Ok(Pfifo::<P>::new(config));
    /// First in, first out, bounded in bytes.
    Bfifo(bfifo::Config), |config| Ok(Bfifo::<P>::new(config));
    /// First in, first out, dropping the oldest.
    PfifoHeadDrop(pfifo_head_drop::Config), |config| Ok(PfifoHeadDrop::<P>::new(config));
    /// Three priorities.
    PfifoFast(pfifo_fast::Config), |config| Ok(PfifoFast::<P>::new(config));
    /// One queue with random early detection.
    Red(red::Config), Red::<P>::new;
    /// One queue with BLUE.
    Blue(blue::Config), Blue::<P>::new;
    /// One queue with CoDel (controlled delay).
    Codel(codel::Config), Codel::<P>::new;
    /// Stochastic fairness: flows hashed to queues, served in turn.
    Sfq(sfq::Config), Sfq::<P>::new;
    /// Fair queues with CoDel.
    FqCodel(fq_codel::Config), FqCodel::<P>::new;
    /// One queue with CoDel and BLUE combined.
    Cobalt(cobalt::Config), Cobalt::<P>::new;
    /// Bands in strict priority, each a FIFO.
    Prio(prio::Config), |config: prio::Config| {
        let fifo = |_| Pfifo::new(pfifo::Config::default()).into();
        let bands = (0..config.bands).map(fifo).collect();
        Prio::<P, Box<dyn DynQdisc<P>>>::new(ALONE, config, bands)
    };
    /// Bands in strict priority, then bands that share by their quanta, each a FIFO.
    Ets(ets::Config), |config: ets::Config| {
        let fifo = |_| Pfifo::new(pfifo::Config::default()).into();
        let bands = (0..config.bands()).map(fifo).collect();
        Ets::<P, Box<dyn DynQdisc<P>>>::new(ALONE, config, bands)
    };
    /// Deficit round robin among classes; initially without classes.
    Drr(drr::Config), |_| Ok(Drr::<P, Box<dyn DynQdisc<P>>>::new(ALONE));
    /// Hierarchical token bucket; initially without classes.
    Htb(htb::Config), |config| Htb::<P, Box<dyn DynQdisc<P>>>::new(ALONE, config);
    /// Shaper, classes of service, fair queues and COBALT in one.
    Cake(cake::Config), Cake::<P>::new;
    /// A token bucket over a FIFO.
    Tbf(tbf::Config), |config: tbf::Config| {
        let limit = config.limit();
        Tbf::new(config, Box::<dyn DynQdisc<P>>::from(Bfifo::new(bfifo::Config { limit })))
    };
    /// One queue with a proportional integral controller.
    Pie(pie::Config), Pie::<P>::new;
    /// Fair queues that honor departure times.
    Fq(fq::Config), Fq::<P>::new;
    /// Fair queues with proportional integral controllers.
    FqPie(fq_pie::Config), FqPie::<P>::new;
    /// A classic and a low-latency queue, coupled.
    DualPi2(dualpi2::Config), DualPi2::<P>::new;
    /// One `pfifo_fast` per device queue.
    Mq(mq::Config), |config: mq::Config| {
        Mq::<P, Box<dyn DynQdisc<P>>>::with(ALONE, &config, || Box::new(PfifoFast::new(pfifo_fast::Config::default())))
    };
    /// One `cake` per device queue, all at a common rate.
    CakeMq(cake_mq::Config), |config| CakeMq::<P>::new(ALONE, config);
    /// An emulated path.
    Netem(netem::Config), Netem::<P, Box<dyn DynQdisc<P>>>::new;
}

impl Kind {
    /// Sets the key of the flow hash to `key`, unless the configuration names one, so that runs are
    /// repeatable. Without a key, each qdisc draws a random one when it is built.
    #[must_use]
    pub fn with_hash_key(mut self, key: u64) -> Self {
        let secret = match &mut self {
            Self::Cake(config) => &mut config.perturbation,
            Self::CakeMq(config) => &mut config.cake.perturbation,
            Self::FqCodel(config) => &mut config.perturbation,
            Self::FqPie(config) => &mut config.perturbation,
            Self::Sfq(config) => &mut config.seed,
            _ => return self,
        };
        secret.get_or_insert(key);
        self
    }

    /// `tc`'s name of the kind.
    pub fn name(&self) -> &'static str {
        self.config().kind()
    }
}

impl Kind {
    /// Reads the name of a kind; its configuration is the default.
    pub(crate) fn named(words: &mut Words<'_>) -> Result<Self, ParseError> {
        let here = words.here();
        let name = words.word().map_or("", |word| word.text);
        Self::all()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| Self::unknown(here, name))
    }

    /// The error for `word`, which names no kind.
    pub(crate) fn unknown(at: Range<usize>, word: &str) -> ParseError {
        ParseError {
            at,
            problem: Problem::UnknownKind {
                word: word.into(),
                known: Self::all().map(|kind| kind.name()).collect(),
            },
        }
    }

    /// The class of a qdisc that always has exactly one.
    pub(crate) fn lone_class(&self) -> Option<u16> {
        matches!(self, Self::Netem(_) | Self::Red(_) | Self::Tbf(_)).then_some(1)
    }

    /// The classes that exist from the start.
    pub(crate) fn own_classes(&self) -> RangeInclusive<u16> {
        match self {
            Self::Prio(config) => 1..=config.bands.into(),
            Self::Ets(config) => 1..=config.bands().into(),
            Self::Mq(config) => 1..=config.queues,
            _ => 1..=self.lone_class().unwrap_or(0),
        }
    }

    /// Whether filters can choose among its classes or queues.
    pub(crate) fn has_filters(&self) -> bool {
        matches!(
            self,
            Self::Htb(_)
                | Self::Prio(_)
                | Self::Ets(_)
                | Self::Drr(_)
                | Self::Cake(_)
                | Self::DualPi2(_)
        )
    }
}

impl FromStr for Kind {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut words = Words::new(text);
        let mut kind = Self::named(&mut words)?;
        words.apply(kind.options_mut())?;
        Ok(kind)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        write_words(f, self.config())
    }
}

/// Writes all options with their values, each preceded by a space.
pub(crate) fn write_words(f: &mut fmt::Formatter<'_>, options: &dyn Options) -> fmt::Result {
    options
        .options()
        .iter()
        .try_for_each(|(name, value)| match value {
            Value::Flag(true) => write!(f, " {name}"),
            Value::Flag(false) => Ok(()),
            value => write!(f, " {name} {value}"),
        })
}

/// Boxes `qdisc`; with a `name`, wrapped in [`Stats`].
pub(crate) fn seat<P: Item, Q>(qdisc: Q, name: Option<ClassId>) -> Box<dyn DynQdisc<P>>
where
    Q: Qdisc<P> + Inspect + Change<P> + Send + 'static,
{
    match name {
        Some(name) => Box::new(Stats::new(qdisc).named(name)),
        None => Box::new(qdisc),
    }
}
