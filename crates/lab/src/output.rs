//! Output formats: data files for other programs, figures, and the pages that show results beside
//! the papers' findings.

pub(crate) mod beside;
pub(crate) mod csv;
pub(crate) mod draw;
pub(crate) mod flent;
pub(crate) mod gallery;
pub(crate) mod html;
mod numbers;
pub(crate) mod plot;
pub(crate) mod report;

#[cfg(test)]
mod fixture;
