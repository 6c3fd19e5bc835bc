//! Link framing: `mpu`, `overhead`, `linklayer`.

use alloc::string::ToString;

use tautline_base::Bytes;
use tautline_qdisc::{Framing, LinkLayer};

use crate::report::Value;
use crate::words::Expected;
use crate::words::parameter::*;

impl Parameters for Framing {
    const KIND: &'static str = "framing";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        changed!("mpu", SMALL_SIZE, mpu),
        changed!("overhead", decimal::<u16>(), overhead),
        changed!("linklayer", LINKLAYER, linklayer),
    ];
}

const SMALL_SIZE: Syntax<u16> = Syntax {
    name: SIZE.name,
    expected: SIZE.expected,
    parse: |text| u16::try_from((SIZE.parse)(text)?.get()).ok(),
    show: |size| Value::Size(Bytes::new((*size).into())),
};

const LINKLAYER: Syntax<LinkLayer> = Syntax {
    name: "ethernet|atm|adsl",
    expected: Expected::OneOf(&["ethernet", "atm", "adsl"]),
    // Cut short, the first that fits is meant, as in `tc`.
    parse: |text| match text {
        _ if "ethernet".starts_with(text) => Some(LinkLayer::Ethernet),
        _ if "atm".starts_with(text) || "adsl".starts_with(text) => Some(LinkLayer::Atm),
        _ => None,
    },
    show: |layer| Value::word(layer.to_string()),
};
