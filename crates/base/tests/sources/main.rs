//! Rules of the house that no compiler checks, read from the sources themselves: the field's words
//! in names and prose, documents whose paths exist, documented errors, sizes, and import circles.
//!
//! Each test prints every finding as `file:line: what: how to mend it`.

mod documents;
mod imports;
mod shape;
mod tree;
mod words;

use tree::Findings;

#[test]
fn names_are_the_fields() {
    Findings::of(words::names).assert_none();
}

#[test]
fn prose_is_the_fields() {
    Findings::of(words::prose).assert_none();
}

#[test]
fn documents_name_paths_that_exist() {
    Findings::of(documents::paths).assert_none();
}

#[test]
fn module_tables_are_complete() {
    Findings::of(documents::module_tables).assert_none();
}

#[test]
fn public_functions_document_their_errors() {
    Findings::of(shape::errors_sections).assert_none();
}

#[test]
fn functions_and_types_stay_small() {
    Findings::of(shape::sizes).assert_none();
}

#[test]
fn imports_have_no_large_circle() {
    Findings::of(imports::circles).assert_none();
}
