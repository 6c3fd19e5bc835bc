//! `Mq`: one child for each device queue (`tc`'s `mq`).
