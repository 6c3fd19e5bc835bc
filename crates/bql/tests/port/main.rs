//! [`Ring`](tautline_bql::Ring) and [`Port`](tautline_bql::Port), and
//! [`MultiPort`](tautline_bql::MultiPort), over a wire of limited rate.

mod effect;
mod multi;
mod path;
mod reset;
mod steady;
mod wire;
