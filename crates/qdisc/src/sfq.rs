//! `Sfq`: stochastic fair queueing (`tc`'s `sfq`).
