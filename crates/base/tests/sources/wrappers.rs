//! A device around another one implements every method of [`Device`](tautline_base::Device): a default would
//! hide what the one below can do.

use std::collections::BTreeSet;

use syn::visit::Visit;
use syn::{ImplItem, Item, TraitItem};

use crate::tree::{Findings, sources};

const TRAIT: &str = "crates/base/src/device.rs";

pub(crate) fn devices(findings: &mut Findings) {
    let all = methods();
    let mut count = 0;
    for source in sources().iter().filter(|source| !source.is_test()) {
        // Parsed only if there may be one.
        if !source.text.contains("Device for ") {
            continue;
        }
        let mut wrappers = Wrappers(Vec::new());
        wrappers.visit_file(&source.parse());
        for (line, implemented) in wrappers.0 {
            count += 1;
            let missing: Vec<_> = all.difference(&implemented).cloned().collect();
            if !missing.is_empty() {
                let what = format!(
                    "this device around another leaves {} to the default: forward it, or say why not",
                    missing.join(", ")
                );
                findings.add(&source.path, line, what);
            }
        }
    }
    assert!(count >= 3, "{count} devices around others were found");
}

/// The names of the trait's methods.
fn methods() -> BTreeSet<String> {
    let source = sources().iter().find(|source| source.path == TRAIT);
    let file = source.expect("the trait has its file").parse();
    let items = file.items.iter().find_map(|item| match item {
        Item::Trait(item) if item.ident == "Device" => Some(&item.items),
        _ => None,
    });
    let items = items.expect("the trait is in its file").iter();
    let names = items.filter_map(|item| match item {
        TraitItem::Fn(method) => Some(method.sig.ident.to_string()),
        _ => None,
    });
    names.collect()
}

/// By line, the methods of each `impl<D: Device> Device for` a type around `D`.
struct Wrappers(Vec<(usize, BTreeSet<String>)>);

impl<'ast> Visit<'ast> for Wrappers {
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        // smoltcp has a trait of this name, too, without frames.
        let has_frames = item.items.iter().any(|item| match item {
            ImplItem::Type(item) => item.ident == "Frame",
            _ => false,
        });
        let is_device = |path: &syn::Path| path.get_ident().is_some_and(|name| name == "Device");
        let Some((_, path, _)) = &item.trait_ else {
            return;
        };
        let is_wrapper = item.generics.type_params().any(|parameter| {
            parameter.bounds.iter().any(|bound| match bound {
                syn::TypeParamBound::Trait(bound) => is_device(&bound.path),
                _ => false,
            })
        });
        if !is_device(path) || !has_frames || !is_wrapper {
            return;
        }
        let names = item.items.iter().filter_map(|item| match item {
            ImplItem::Fn(method) => Some(method.sig.ident.to_string()),
            _ => None,
        });
        let line = item.impl_token.span.start().line;
        self.0.push((line, names.collect()));
    }
}
