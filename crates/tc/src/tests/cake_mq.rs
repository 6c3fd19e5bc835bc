//! Words of `cake_mq`.

use super::*;
use crate::Target;
use crate::report::Value;
use crate::words::Words;
use tautline_base::{Drops, Instant, Qdisc, Rate};
use tautline_qdisc::ClassId;

#[test]
fn words_are_those_of_cake_and_for_all_queues() {
    let kind: Kind = "cake_mq queues 2 bandwidth 10mbit besteffort flows rtt 20ms"
        .parse()
        .expect("valid");
    let Kind::CakeMq(config) = &kind else {
        panic!("{kind}");
    };
    assert_eq!(config.queues, 2);
    let again: Kind = kind.to_string().parse().expect("what it prints");
    assert_eq!(again, kind);

    let report = kind.build::<Probe>().expect("valid").report();
    assert_eq!((report.kind, report.classes.len()), ("cake_mq", 2));
    for class in &report.classes {
        let [cake] = &class.children[..] else {
            panic!("{class:?}");
        };
        assert_eq!((cake.kind, cake.classes.len()), ("cake", 1), "one tin");
    }
    let refused = "cake_mq autorate-ingress".parse::<Kind>().expect("words");
    let error = refused.build::<Probe>().expect_err("no common rate");
    assert!(
        error.to_string().contains("cannot each estimate it"),
        "{error}"
    );
}

/// The queues have one configuration: none has a class that something could be put below.
#[test]
fn a_change_is_one_of_all_queues() {
    let words = "qdisc root handle 1: cake_mq queues 2; qdisc parent 1:1 fq_codel";
    assert!(build::<Probe>(words).is_err());
    let mut root = build::<Probe>("cake_mq queues 2 bandwidth 10mbit").expect("valid");
    let (mut drops, now) = (Drops::new(), Instant::from_secs(1));
    root.enqueue(Probe::new(0), now, &mut drops);
    let mut change = |target, words| root.change(target, &mut Words::new(words), now, &mut drops);
    change(Target::Root, "bandwidth 20mbit").expect("valid");
    change(Target::Root, "queues 3").expect_err("those of the device");
    change(Target::Below(ClassId::new(1, 1)), "bandwidth 1mbit").expect_err("not one alone");
    let report = root.report();
    let of_cakes = report.classes.iter().flat_map(|class| &class.children);
    let rates: Vec<_> = of_cakes.map(|cake| cake.options[0].clone()).collect();
    let rate = ("bandwidth", Value::Rate(Rate::mbit(20)));
    assert_eq!(rates, [rate.clone(), rate]);
    assert_eq!(report.common.expect("counted").backlog.packets, 1);
}
