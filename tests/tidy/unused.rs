//! Exported items that only tests use.
//!
//! The compiler finds dead code within a crate; what a crate exports it takes for used. An item
//! counts as used if its name stands anywhere in code of the crates that is no test, but for its
//! definitions, for re-exports, and for the type that an `impl` is of. Fuzz targets are users:
//! their entries take bytes where the product's take files. Programs of bench/ are none: they exist
//! for the product's code. Methods of traits, fields and variants are not looked at. Names are
//! compared without their paths, so that some unused items stay unseen; none that is used is named.
//!
//! Modules that are there for tests, such as simulations, have an entry in `exceptions.toml`.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::{Attribute, ImplItem, Item, Visibility};

use crate::Fault;
use crate::exceptions::{self, Exceptions, without};
use crate::graph;
use crate::repository::REPOSITORY;
use crate::source::{attributes, for_tests, impl_attributes, line};

/// The names of one file without code for tests: those that it exports, and those that it uses.
#[derive(Default)]
pub(crate) struct Exports {
    /// Names of exported items and methods, with their lines.
    defined: Vec<(String, usize)>,
    /// How often each name stands in the file, definitions included.
    named: BTreeMap<String, usize>,
}

pub(crate) fn exported_items_are_used() -> Vec<Fault> {
    let graphs = graph::all();
    let compiled: BTreeSet<&str> =
        graphs.iter().flat_map(|graph| graph.modules.iter().map(|module| &*module.file)).collect();
    let users = ["crates/", "fuzz/"];
    let sources = REPOSITORY.sources.iter().filter(|source| users.iter().any(|user| source.file.starts_with(user)));
    let files: Vec<_> = sources
        .filter(|source| compiled.contains(&*source.file))
        .map(|source| (&*source.file, &source.exports))
        .collect();
    check(&files, &Exceptions::current())
}

fn check(files: &[(&str, &Exports)], exceptions: &Exceptions) -> Vec<Fault> {
    let (mut named, mut defined) = (BTreeMap::<&str, usize>::new(), BTreeMap::<&str, usize>::new());
    for (_, exports) in files {
        exports.named.iter().for_each(|(name, count)| *named.entry(name).or_default() += count);
        exports.defined.iter().for_each(|(name, _)| *defined.entry(name).or_default() += 1);
    }
    let crates = files.iter().filter(|(file, _)| file.starts_with("crates/"));
    let unused = crates.flat_map(|(file, exports)| {
        let here = exports.defined.iter().filter(|(name, _)| named.get(&**name) == defined.get(&**name));
        here.map(|(name, line)| {
            let advice = format!(
                "only tests use {name}: remove it, move it to them, or give its file a reason in {}",
                exceptions::FILE
            );
            let support = exceptions.test_support.keys().find(|support| file.starts_with(&**support));
            (support.cloned().unwrap_or_default(), Fault::new(file, *line, advice))
        })
    });
    without(unused.collect(), &exceptions.test_support)
}

impl Exports {
    pub(crate) fn of(file: &syn::File) -> Self {
        let mut exports = Self::default();
        file.items.iter().for_each(|item| exports.item(item));
        exports
    }

    fn item(&mut self, item: &Item) {
        if for_tests(attributes(item)) {
            return;
        }
        match item {
            Item::Mod(item) => item.content.iter().flat_map(|(_, items)| items).for_each(|item| self.item(item)),
            Item::Use(item) if !matches!(item.vis, Visibility::Inherited) => {}
            Item::Impl(item) => {
                self.attributes(&item.attrs);
                self.tokens_of(&item.generics);
                if let Some((_, of, _)) = &item.trait_ {
                    self.tokens_of(of);
                }
                item.items.iter().for_each(|one| self.impl_item(one, item.trait_.is_some()));
            }
            item => {
                self.define(item);
                self.tokens_of(item);
            }
        }
    }

    fn impl_item(&mut self, item: &ImplItem, of_trait: bool) {
        if for_tests(impl_attributes(item)) {
            return;
        }
        let exported = match item {
            ImplItem::Fn(item) => Some((&item.vis, &item.sig.ident)),
            ImplItem::Const(item) => Some((&item.vis, &item.ident)),
            _ => None,
        };
        match exported {
            Some((Visibility::Public(_), ident)) if !of_trait => self.defined.push((ident.to_string(), line(ident))),
            _ => {}
        }
        self.tokens_of(item);
    }

    fn define(&mut self, item: &Item) {
        let (visibility, ident) = match item {
            Item::Const(item) => (&item.vis, &item.ident),
            Item::Enum(item) => (&item.vis, &item.ident),
            Item::Fn(item) => (&item.vis, &item.sig.ident),
            Item::Static(item) => (&item.vis, &item.ident),
            Item::Struct(item) => (&item.vis, &item.ident),
            Item::Trait(item) => (&item.vis, &item.ident),
            Item::Type(item) => (&item.vis, &item.ident),
            _ => return,
        };
        if matches!(visibility, Visibility::Public(_)) {
            self.defined.push((ident.to_string(), line(ident)));
        }
    }

    fn attributes(&mut self, attributes: &[Attribute]) {
        attributes.iter().for_each(|attribute| self.tokens_of(attribute));
    }

    fn tokens_of(&mut self, node: &impl quote::ToTokens) {
        self.tokens(node.to_token_stream());
    }

    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(ident) => self.name(&ident.to_string()),
                // Formats name constants, and attributes functions.
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    let is_name = |one: char| one.is_alphanumeric() || one == '_';
                    if !text.contains(' ') || text.contains('{') {
                        text.split(|one| !is_name(one))
                            .filter(|name| !name.is_empty())
                            .for_each(|name| self.name(name));
                    }
                }
                TokenTree::Punct(_) => {}
            }
        }
    }

    fn name(&mut self, name: &str) {
        *self.named.entry(name.to_owned()).or_default() += 1;
    }
}

#[test]
fn an_item_that_only_tests_use_is_found() {
    let exports = |text: &str| Exports::of(&syn::parse_str(text).unwrap());
    let unused = |one: &str, other: &str| {
        let (one, other) = (exports(one), exports(other));
        let faults = check(&[("crates/a/src/lib.rs", &one), ("crates/b/src/lib.rs", &other)], &Exceptions::read(""));
        faults.into_iter().map(|fault| fault.advice).collect::<Vec<_>>().join("\n")
    };
    for one in [
        "pub fn f() {}",
        "mod m { pub struct S; impl S { pub fn f(self) {} } } pub use m::S as f; const A: m::S = m::S;",
        "pub const f: u8 = 1; #[cfg(test)] mod tests { use super::f; }",
        "pub struct f; impl f { fn g() {} } impl Drop for f {}",
    ] {
        assert!(unused(one, "fn h() {}").contains("only tests use f:"), "{one}");
        for other in [
            "use a::f;",
            "fn h(s: S) { s.f() }",
            "m!(f);",
            "#[serde(with = \"a::f\")] struct H;",
            "const H: &str = \"{f} it\";",
        ] {
            assert_eq!(unused(one, other), "", "{one} {other}");
        }
        assert!(unused(one, "#[cfg(test)] use a::f; pub use a::f; // f").contains("only tests use f:"), "{one}");
    }
    assert_eq!(unused("fn f() {} trait T { fn g(); } impl T for u8 { fn g() {} }", ""), "");
}
