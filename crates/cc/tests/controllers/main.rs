//! The controllers as a transport meets them: worked numbers, average windows, and what must hold under any events.

mod bbr;
mod cubic;
mod cubic_linux;
mod path;
mod properties;
mod reno;
mod support;
