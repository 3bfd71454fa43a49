//! Files of a crate that depend on each other in a circle.
//!
//! A file depends on another if one of its paths, in a `use` item or elsewhere, resolves to an item
//! that the other defines. Re-exports are followed to the definition and are no dependencies
//! themselves. Paths in the arguments of macros count. Test code is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;
use syn::visit::Visit;
use syn::{Attribute, Item, UseTree, Visibility};

type Segments = Vec<String>;

/// A module with its own names; an inline module shares the file of its parent.
#[derive(Default)]
struct Module {
    file: PathBuf,
    children: BTreeSet<String>,
    definitions: BTreeSet<String>,
    /// Names brought in by `use`, with the path and whether others may use them from here.
    imports: BTreeMap<String, (Segments, bool)>,
    globs: Vec<Segments>,
    /// Paths with at least two segments outside of re-exports.
    paths: BTreeSet<Segments>,
}

/// The modules of a crate, by path.
#[derive(Default)]
struct Modules(BTreeMap<Segments, Module>);

/// Returns a circle of files for each group of files that has one, relative to `src`.
pub(crate) fn circles(src: &Path) -> Vec<Vec<PathBuf>> {
    let mut modules = Modules::default();
    for root in ["lib.rs", "main.rs"] {
        if src.join(root).exists() {
            modules.read_file(&src.join(root), src, Vec::new());
        }
    }
    let mut edges: BTreeMap<PathBuf, BTreeSet<PathBuf>> = BTreeMap::new();
    for (path, module) in &modules.0 {
        let targets = edges.entry(module.file.clone()).or_default();
        let globs = module.globs.iter();
        for used in module.paths.iter().chain(globs) {
            let defined_in = modules.resolve(path, used, 0);
            targets.extend(defined_in.map(|found| modules.0[&found].file.clone()));
        }
        targets.remove(&module.file);
    }
    circles_of(edges)
        .into_iter()
        .map(|circle| {
            let relative = |file: PathBuf| file.strip_prefix(src).map(Path::to_owned);
            circle
                .into_iter()
                .filter_map(|file| relative(file).ok())
                .collect()
        })
        .collect()
}

impl Modules {
    fn read_file(&mut self, file: &Path, dir: &Path, path: Segments) {
        let text = fs::read_to_string(file).unwrap_or_else(|error| {
            panic!("{}: {error}", file.display());
        });
        let parsed =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.add(file, dir, path, &parsed.items);
    }

    /// Adds a module with its items; `dir` holds the files of its children.
    fn add(&mut self, file: &Path, dir: &Path, path: Segments, items: &[Item]) {
        let mut module = Module {
            file: file.to_owned(),
            ..Module::default()
        };
        for item in items {
            match item {
                Item::Mod(child) if !is_test(&child.attrs) => {
                    let name = child.ident.to_string();
                    module.children.insert(name.clone());
                    let below = dir.join(&name);
                    let path = [path.as_slice(), std::slice::from_ref(&name)].concat();
                    match &child.content {
                        Some((_, items)) => self.add(file, &below, path, items),
                        None => {
                            let sibling = dir.join(format!("{name}.rs"));
                            let nested = below.join("mod.rs");
                            let child = if sibling.exists() { sibling } else { nested };
                            self.read_file(&child, &below, path);
                        }
                    }
                }
                Item::Use(item) if !is_test(&item.attrs) => {
                    let public = !matches!(item.vis, Visibility::Inherited);
                    module.add_use(&item.tree, &mut Vec::new(), public);
                }
                Item::Mod(_) | Item::Use(_) => {}
                other => {
                    if attributes(other).is_none_or(|attributes| !is_test(attributes)) {
                        module.definitions.extend(name_of(other));
                        Paths(&mut module.paths).visit_item(other);
                    }
                }
            }
        }
        self.0.insert(path, module);
    }

    /// Returns the module that defines the item at a path as seen from a module; `None` for items
    /// of other crates and for names that only methods or types have.
    fn resolve(&self, from: &[String], path: &[String], depth: usize) -> Option<Segments> {
        // Imports that name each other end the search.
        if depth > 16 {
            return None;
        }
        let mut at = from.to_vec();
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => {
                at.clear();
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|segment| segment == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
            }
            first => {
                let module = self.0.get(from)?;
                if !module.children.contains(first) {
                    let (import, _) = module.imports.get(first)?;
                    if import.first().is_some_and(|segment| segment == first) {
                        return None;
                    }
                    return self.resolve(from, &[import, &rest[1..]].concat(), depth + 1);
                }
            }
        }
        while let Some(segment) = rest.first() {
            let module = self.0.get(&at)?;
            if module.children.contains(segment) {
                at.push(segment.clone());
                rest = &rest[1..];
                continue;
            }
            if let Some((import, _)) = module.imports.get(segment) {
                return self.resolve(&at, &[import, &rest[1..]].concat(), depth + 1);
            }
            if module.definitions.contains(segment) {
                return Some(at);
            }
            let mut globs = module.globs.iter();
            return globs
                .find_map(|glob| self.resolve(&at, &[glob, rest].concat(), depth + 1))
                .or(Some(at));
        }
        self.0.contains_key(&at).then_some(at)
    }
}

impl Module {
    fn add_use(&mut self, tree: &UseTree, path: &mut Segments, public: bool) {
        match tree {
            UseTree::Path(node) => {
                path.push(node.ident.to_string());
                self.add_use(&node.tree, path, public);
                path.pop();
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_use(tree, path, public);
                }
            }
            UseTree::Glob(_) if !public => self.globs.push(path.clone()),
            UseTree::Glob(_) => {}
            UseTree::Name(name) => self.add_name(&name.ident, &name.ident, path, public),
            UseTree::Rename(name) => self.add_name(&name.ident, &name.rename, path, public),
        }
    }

    fn add_name(&mut self, name: &syn::Ident, alias: &syn::Ident, path: &[String], public: bool) {
        let mut path = path.to_vec();
        let alias = match name == "self" {
            true => path.last().cloned().unwrap_or_default(),
            false => {
                path.push(name.to_string());
                alias.to_string()
            }
        };
        if !public {
            self.paths.insert(path.clone());
        }
        self.imports.insert(alias, (path, public));
    }
}

/// Collects paths of several segments.
struct Paths<'a>(&'a mut BTreeSet<Segments>);

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 && path.leading_colon.is_none() {
            let segments = path.segments.iter();
            self.0
                .insert(segments.map(|one| one.ident.to_string()).collect());
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.0.extend(paths_in_tokens(&item.tokens.to_string()));
        syn::visit::visit_macro(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            syn::visit::visit_impl_item_fn(self, item);
        }
    }
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is valid")
}

/// Returns the paths of several segments in the arguments of a macro, without those in its texts.
fn paths_in_tokens(tokens: &str) -> Vec<Segments> {
    static TEXT: LazyLock<Regex> = LazyLock::new(|| regex(r#""(?:\\.|[^"\\])*""#));
    static PATH: LazyLock<Regex> =
        LazyLock::new(|| regex(r"\b[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)+"));
    let code = TEXT.replace_all(tokens, "");
    let segments = |path: &str| path.split("::").map(|one| one.trim().to_owned()).collect();
    PATH.find_iter(&code)
        .map(|found| segments(found.as_str()))
        .collect()
}

/// Returns `true` if the item is compiled for tests or fuzzing only.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else {
            return false;
        };
        let condition = list.tokens.to_string();
        list.path.is_ident("cfg")
            && (condition.contains("test") || condition.contains("fuzzing"))
            && !condition.starts_with("not")
    })
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

fn attributes(item: &Item) -> Option<&[Attribute]> {
    Some(match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        _ => return None,
    })
}

/// Returns one circle per group: files without edges to or from what is left are removed first.
fn circles_of(mut edges: BTreeMap<PathBuf, BTreeSet<PathBuf>>) -> Vec<Vec<PathBuf>> {
    let mut circles = Vec::new();
    loop {
        while prune(&mut edges) {}
        let Some(start) = edges.keys().next().cloned() else {
            return circles;
        };
        // Every file that is left has an edge, so the walk comes back to a file it has visited.
        let mut walk = vec![start];
        let circle = loop {
            let last = &walk[walk.len() - 1];
            let next = edges[last].iter().next().expect("pruned").clone();
            if let Some(begin) = walk.iter().position(|file| *file == next) {
                break walk.split_off(begin);
            }
            walk.push(next);
        };
        edges.remove(&circle[0]);
        circles.push(circle);
    }
}

/// Removes files that no circle can contain; returns `true` if it found one.
fn prune(edges: &mut BTreeMap<PathBuf, BTreeSet<PathBuf>>) -> bool {
    let known: BTreeSet<_> = edges.keys().cloned().collect();
    let targets: BTreeSet<_> = edges.values().flatten().cloned().collect();
    let before = edges.len();
    for targets in edges.values_mut() {
        targets.retain(|target| known.contains(target));
    }
    edges.retain(|file, to| !to.is_empty() && targets.contains(file));
    edges.len() < before
}

#[test]
fn circles_are_found_through_reexports() {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        fs::create_dir_all(dir.path().join("parts")).expect("a directory");
        fs::write(dir.path().join(name), text).expect("a file");
    };
    write("lib.rs", "mod parts;\nmod user;\npub use user::Use;\n");
    write(
        "parts/mod.rs",
        "mod a;\nmod b;\npub(crate) use a::A;\nuse b::B;\nstruct Top(B);\n",
    );
    write("parts/a.rs", "pub(crate) struct A;\n");
    write("parts/b.rs", "use super::A;\npub(crate) struct B(A);\n");
    write("user.rs", "pub struct Use(crate::parts::A);\n");
    assert_eq!(circles(dir.path()), Vec::<Vec<PathBuf>>::new());
    write(
        "parts/a.rs",
        "pub(crate) struct A;\nimpl A { fn f() { super::b::g(); } }\n",
    );
    let found = circles(dir.path());
    assert_eq!(found.len(), 1, "{found:?}");
    let files: BTreeSet<_> = found[0].iter().map(|file| file.to_string_lossy()).collect();
    assert_eq!(
        files.into_iter().collect::<Vec<_>>(),
        ["parts/a.rs", "parts/b.rs"]
    );
    write(
        "parts/a.rs",
        "pub(crate) struct A;\nfn f() { println!(\"{}\", super::b::g()); }\n",
    );
    assert_eq!(circles(dir.path()).len(), 1, "a path in a macro");
    write(
        "parts/a.rs",
        "pub(crate) struct A;\nfn f() { println!(\"super::b::g\"); }\n",
    );
    assert_eq!(circles(dir.path()), Vec::<Vec<PathBuf>>::new());
    write(
        "parts/a.rs",
        "pub(crate) struct A;\n#[cfg(test)]\nmod tests { use super::super::b::B; }\n",
    );
    assert_eq!(circles(dir.path()), Vec::<Vec<PathBuf>>::new());
}
