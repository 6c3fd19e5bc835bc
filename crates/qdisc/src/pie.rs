//! `Pie`: proportional integral controller enhanced (RFC 8033; RFC 8034 for DOCSIS; `tc`'s `pie`).
