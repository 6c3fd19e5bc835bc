//! Data flows forward: at no level of a crate's module tree do more than three siblings import each
//! other in a circle. An import between a module and one of its own descendants is containment, and
//! re-exports of a library's root do not count.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use crate::tree::{Findings, Source, sources};

const LARGEST_CIRCLE: usize = 3;

/// A module's path below its crate's root.
type ModulePath = Vec<String>;

pub(crate) fn circles(findings: &mut Findings) {
    let mut packages: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources().iter().filter(|source| !source.is_test()) {
        if source.path.contains("/src/") && !source.path.contains("/src/bin/") {
            packages.entry(source.package()).or_default().push(source);
        }
    }
    for (package, files) in packages {
        let graph = Graph::read(package, &files);
        for (parent, circle) in graph.circles() {
            let place = if parent.is_empty() {
                "its root".to_owned()
            } else {
                parent.join("::")
            };
            let what = format!(
                "{} modules below {place} import each other: {}",
                circle.len(),
                circle.join(", ")
            );
            findings.add(package, 1, what);
        }
    }
}

/// Modules of a package and the imports between them.
struct Graph {
    modules: BTreeSet<ModulePath>,
    imports: BTreeSet<(ModulePath, ModulePath)>,
}

impl Graph {
    fn read(package: &str, files: &[&Source]) -> Self {
        let modules: BTreeSet<ModulePath> =
            files.iter().map(|file| module(package, file)).collect();
        let exports = Exports::read(package, files, &modules);
        let mut imports = BTreeSet::new();
        for file in files {
            let importer = module(package, file);
            let mut paths = Paths::default();
            paths.visit_file(&file.parse());
            for path in paths.0 {
                if let Some(imported) = resolve(&importer, &path, &modules, &exports) {
                    imports.insert((importer.clone(), imported));
                }
            }
        }
        Self { modules, imports }
    }

    /// Circles of more than [`LARGEST_CIRCLE`] siblings, with their parent.
    fn circles(&self) -> Vec<(ModulePath, Vec<String>)> {
        let mut edges: BTreeMap<ModulePath, BTreeSet<(String, String)>> = BTreeMap::new();
        for (from, to) in &self.imports {
            let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            if common < from.len() && common < to.len() {
                let edge = (from[common].clone(), to[common].clone());
                edges
                    .entry(from[..common].to_vec())
                    .or_default()
                    .insert(edge);
            }
        }
        let mut circles = Vec::new();
        for (parent, edges) in edges {
            let nodes: BTreeSet<&String> = self
                .modules
                .iter()
                .filter(|module| module.len() > parent.len() && module.starts_with(&parent))
                .map(|module| &module[parent.len()])
                .collect();
            let reachable = |from: &String| {
                let mut seen = BTreeSet::from([from.clone()]);
                let mut open = vec![from.clone()];
                while let Some(node) = open.pop() {
                    for (_, next) in edges.iter().filter(|(start, _)| *start == node) {
                        if seen.insert(next.clone()) {
                            open.push(next.clone());
                        }
                    }
                }
                seen
            };
            let reach: BTreeMap<&String, BTreeSet<String>> =
                nodes.iter().map(|node| (*node, reachable(node))).collect();
            let mut done = BTreeSet::new();
            for node in &nodes {
                let circle: Vec<String> = reach[node]
                    .iter()
                    .filter(|other| reach.get(other).is_some_and(|back| back.contains(*node)))
                    .cloned()
                    .collect();
                if circle.len() > LARGEST_CIRCLE && done.insert(circle.clone()) {
                    circles.push((parent.clone(), circle));
                }
            }
        }
        circles
    }
}

/// The module that a file is.
fn module(package: &str, file: &Source) -> ModulePath {
    let inside = &file.path[package.len() + "/src/".len()..];
    let path = inside.trim_end_matches(".rs").trim_end_matches("/mod");
    match path {
        "lib" | "main" => Vec::new(),
        _ => path.split('/').map(str::to_owned).collect(),
    }
}

/// What modules export of their children: module and name, to the module that defines it.
struct Exports(BTreeMap<(ModulePath, String), ModulePath>);

impl Exports {
    fn read(package: &str, files: &[&Source], modules: &BTreeSet<ModulePath>) -> Self {
        let mut exports = Self(BTreeMap::new());
        for file in files {
            let exporter = module(package, file);
            for item in &file.parse().items {
                let syn::Item::Use(item) = item else { continue };
                let mut leaves = Vec::new();
                flatten(&item.tree, Vec::new(), &mut leaves);
                for path in leaves {
                    let Some(name) = path.last().cloned() else {
                        continue;
                    };
                    if let Some(target) = resolve(&exporter, &path, modules, &Self(BTreeMap::new()))
                    {
                        exports.0.insert((exporter.clone(), name), target);
                    }
                }
            }
        }
        exports
    }
}

/// The module that `path`, as written in `importer`, names or lies in.
fn resolve(
    importer: &ModulePath,
    path: &[String],
    modules: &BTreeSet<ModulePath>,
    exports: &Exports,
) -> Option<ModulePath> {
    let mut at = importer.clone();
    let mut rest = path;
    match rest.first()?.as_str() {
        "crate" => {
            at.clear();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                at.pop()?;
                rest = &rest[1..];
            }
        }
        child => {
            let mut below = at.clone();
            below.push(child.to_owned());
            modules.contains(&below).then_some(())?;
        }
    }
    while let Some((next, after)) = rest.split_first() {
        let mut below = at.clone();
        below.push(next.clone());
        if modules.contains(&below) {
            at = below;
        } else if let Some(target) = exports.0.get(&(at.clone(), next.clone())) {
            at = target.clone();
        } else {
            break;
        }
        rest = after;
    }
    (at != *importer).then_some(at)
}

/// Every path of a file that may name a module of the crate.
#[derive(Default)]
struct Paths(Vec<Vec<String>>);

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_none() || item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        flatten(&item.tree, Vec::new(), &mut self.0);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path
            .segments
            .iter()
            .map(|part| part.ident.to_string())
            .collect();
        if parts.len() > 1 && ["crate", "super"].contains(&parts[0].as_str()) {
            self.0.push(parts);
        }
        visit::visit_path(self, path);
    }
}

fn flatten(tree: &syn::UseTree, before: Vec<String>, leaves: &mut Vec<Vec<String>>) {
    match tree {
        syn::UseTree::Path(path) => {
            let mut before = before;
            before.push(path.ident.to_string());
            flatten(&path.tree, before, leaves);
        }
        syn::UseTree::Name(name) => leaves.push([before, vec![name.ident.to_string()]].concat()),
        syn::UseTree::Rename(name) => leaves.push([before, vec![name.ident.to_string()]].concat()),
        syn::UseTree::Glob(_) => leaves.push(before),
        syn::UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, before.clone(), leaves);
            }
        }
    }
}
