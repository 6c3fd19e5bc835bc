//! Sizes that a reader can hold in mind, and errors that a caller can read about.

use std::collections::BTreeMap;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::tree::{Findings, Source, sources};

/// Lines of a function, braces included.
const FUNCTION_LINES: usize = 60;
const TYPE_FIELDS: usize = 20;
const TYPE_METHODS: usize = 60;
/// Types that are lists by nature: configuration, statistics, counters, command lines.
const LISTS: [&str; 10] = [
    "Args",
    "Arguments",
    "Config",
    "Counters",
    "Document",
    "Info",
    "Options",
    "Params",
    "Stats",
    "Summary",
];

/// Every public function that returns a `Result` has a section `# Errors`.
pub(crate) fn errors_sections(findings: &mut Findings) {
    for source in production() {
        let mut visitor = Errors {
            path: &source.path,
            findings,
        };
        visitor.visit_file(&source.parse());
    }
}

/// Source files of libraries and programs.
fn production() -> impl Iterator<Item = &'static Source> {
    sources()
        .iter()
        .filter(|source| !source.is_test() && source.path.contains("/src/"))
}

struct Errors<'a> {
    path: &'a str,
    findings: &'a mut Findings,
}

impl Errors<'_> {
    fn check(
        &mut self,
        visibility: Option<&syn::Visibility>,
        attributes: &[syn::Attribute],
        sig: &syn::Signature,
    ) {
        let public =
            visibility.is_none_or(|visibility| matches!(visibility, syn::Visibility::Public(_)));
        if public && returns_result(&sig.output) && !documentation(attributes).contains("# Errors")
        {
            let line = sig.ident.span().start().line;
            let what = format!(
                "`{}` returns a Result and has no section `# Errors`",
                sig.ident
            );
            self.findings.add(self.path, line, what);
        }
    }
}

impl<'ast> Visit<'ast> for Errors<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.check(Some(&item.vis), &item.attrs, &item.sig);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if item.trait_.is_none() {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.check(Some(&item.vis), &item.attrs, &item.sig);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        if matches!(item.vis, syn::Visibility::Public(_)) {
            visit::visit_item_trait(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.check(None, &item.attrs, &item.sig);
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .meta
                .require_list()
                .is_ok_and(|list| list.tokens.to_string() == "test")
    })
}

fn returns_result(output: &syn::ReturnType) -> bool {
    let syn::ReturnType::Type(_, returned) = output else {
        return false;
    };
    let syn::Type::Path(path) = &**returned else {
        return false;
    };
    path.path
        .segments
        .last()
        .is_some_and(|segment| segment.ident == "Result")
}

fn documentation(attributes: &[syn::Attribute]) -> String {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("doc"))
        .filter_map(
            |attribute| match &attribute.meta.require_name_value().ok()?.value {
                syn::Expr::Lit(literal) => match &literal.lit {
                    syn::Lit::Str(text) => Some(text.value()),
                    _ => None,
                },
                _ => None,
            },
        )
        .collect::<Vec<_>>()
        .join("\n")
}

/// Every public enum that is an error is `#[non_exhaustive]`: another reason to fail breaks no caller.
pub(crate) fn errors_that_cannot_grow(findings: &mut Findings) {
    for source in production() {
        for item in &source.parse().items {
            if let syn::Item::Enum(item) = item
                && matches!(item.vis, syn::Visibility::Public(_))
                && derives_error(&item.attrs)
                && !item
                    .attrs
                    .iter()
                    .any(|attribute| attribute.path().is_ident("non_exhaustive"))
            {
                let line = item.ident.span().start().line;
                let what = format!("`{}` is an error: add #[non_exhaustive]", item.ident);
                findings.add(&source.path, line, what);
            }
        }
    }
}

fn derives_error(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("derive")
            && attribute
                .meta
                .require_list()
                .is_ok_and(|list| list.tokens.to_string().contains("Error"))
    })
}

/// No function is longer than a screen, no type has more fields or methods than one can list.
pub(crate) fn sizes(findings: &mut Findings) {
    let mut methods: BTreeMap<(String, String), usize> = BTreeMap::new();
    for source in production() {
        let mut visitor = Sizes {
            source,
            methods: &mut methods,
            findings,
        };
        visitor.visit_file(&source.parse());
    }
    for ((area, name), count) in methods {
        if count > TYPE_METHODS && !is_list(&name) {
            let what = format!("`{name}` has {count} methods, {TYPE_METHODS} at most");
            findings.add(&area, 1, what);
        }
    }
}

fn is_list(name: &str) -> bool {
    LISTS.iter().any(|list| name.ends_with(list))
}

struct Sizes<'a> {
    source: &'a Source,
    /// Area and name of each type: how many methods its own `impl` blocks have.
    methods: &'a mut BTreeMap<(String, String), usize>,
    findings: &'a mut Findings,
}

impl Sizes<'_> {
    fn check(&mut self, sig: &syn::Signature, block: &syn::Block) {
        let first = sig.span().start().line;
        let lines = block.span().end().line + 1 - first;
        if lines > FUNCTION_LINES {
            let what = format!(
                "`{}` has {lines} lines, {FUNCTION_LINES} at most",
                sig.ident
            );
            self.findings.add(&self.source.path, first, what);
        }
    }
}

impl<'ast> Visit<'ast> for Sizes<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.check(&item.sig, &item.block);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let functions = item
            .items
            .iter()
            .filter(|item| matches!(item, syn::ImplItem::Fn(_)));
        if let (None, syn::Type::Path(path)) = (&item.trait_, &*item.self_ty)
            && let Some(name) = path.path.segments.last()
        {
            let key = (self.source.area().to_owned(), name.ident.to_string());
            *self.methods.entry(key).or_default() += functions.count();
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.check(&item.sig, &item.block);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let (name, fields) = (item.ident.to_string(), item.fields.len());
        if fields > TYPE_FIELDS && !is_list(&name) {
            let line = item.ident.span().start().line;
            let what = format!("`{name}` has {fields} fields, {TYPE_FIELDS} at most");
            self.findings.add(&self.source.path, line, what);
        }
    }
}
