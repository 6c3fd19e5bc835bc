//! Rules of the house that no compiler checks, read from the sources themselves: the field's words
//! in names and prose, documents whose paths exist and that render, documented errors, sizes, import
//! circles, and pipes of scripts.
//!
//! Each test prints every finding as `file:line: what: how to mend it`.

mod documents;
mod imports;
mod known;
mod scripts;
mod shape;
mod tree;
mod words;
mod wrappers;

use tree::Findings;

#[test]
fn names_are_the_fields() {
    Findings::of_syntax("names", words::names).assert_only_known();
}

#[test]
fn prose_is_the_fields() {
    Findings::of("prose", words::prose).assert_only_known();
}

#[test]
fn documents_name_paths_that_exist() {
    Findings::of("paths", documents::paths).assert_only_known();
}

#[test]
fn markdown_renders_as_meant() {
    Findings::of("markdown", documents::markdown).assert_only_known();
}

#[test]
fn module_tables_are_complete() {
    Findings::of("module tables", documents::module_tables).assert_only_known();
}

#[test]
fn public_functions_document_their_errors() {
    Findings::of_syntax("errors", shape::errors_sections).assert_only_known();
}

#[test]
fn public_errors_can_grow() {
    Findings::of_syntax("growth", shape::errors_that_cannot_grow).assert_only_known();
}

#[test]
fn functions_and_types_stay_small() {
    Findings::of_syntax("sizes", shape::sizes).assert_only_known();
}

#[test]
fn devices_around_others_implement_every_method() {
    Findings::of_syntax("wrappers", wrappers::devices).assert_only_known();
}

#[test]
fn pipes_of_scripts_end_with_their_writers() {
    Findings::of("pipes", scripts::pipes).assert_only_known();
}

#[test]
fn imports_have_no_large_circle() {
    Findings::of_syntax("circles", imports::circles).assert_only_known();
}
