//! [`Ring`](tautline_bql::Ring) and [`Port`](tautline_bql::Port) over a wire of limited speed.

mod effect;
mod path;
mod reset;
mod wire;
