//! Names that the modules of a file define, import and use.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::visit::{self, Visit};
use syn::{Attribute, Ident, Item, ItemUse, UseTree, Visibility};

use crate::source::{attributes, for_tests, impl_attributes, line};

/// The names of one module, without its child modules. Code that is compiled for tests alone is
/// left out.
#[derive(Default)]
pub(crate) struct Names {
    /// Names of types, functions, constants, traits and macros that it defines.
    pub(crate) defined: BTreeSet<String>,
    /// Imports by the name that they have here.
    pub(crate) imports: BTreeMap<String, Import>,
    /// Modules and enums of which everything is imported.
    pub(crate) globs: Vec<Path>,
    /// Paths in code, beginning with a name or with `crate`, `self` or `super`.
    pub(crate) used: Vec<Path>,
    /// Local variables: one that has the name of a function hides it.
    variables: BTreeSet<String>,
    pub(crate) children: Vec<Child>,
}

#[derive(Clone)]
pub(crate) struct Path {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
}

pub(crate) struct Import {
    pub(crate) path: Path,
    /// Whether others can name it by this module's path.
    pub(crate) reexport: bool,
}

pub(crate) struct Child {
    pub(crate) name: String,
    /// The value of `#[path]`.
    pub(crate) path: Option<String>,
    /// Its content if it is an inline module.
    pub(crate) inline: Option<Names>,
}

pub(crate) fn names(file: &syn::File) -> Names {
    let mut collector = Collector::default();
    file.items.iter().for_each(|item| collector.item(item));
    collector.finish()
}

#[derive(Default)]
struct Collector {
    names: Names,
    /// How many blocks of code the visitor is in: items in them are not the module's.
    blocks: usize,
}

impl Collector {
    fn item(&mut self, item: &Item) {
        if for_tests(attributes(item)) {
            return;
        }
        match item {
            Item::Mod(item) => self.child(item),
            item => {
                self.names.defined.extend(defined(item).filter(|_| self.blocks == 0));
                visit::visit_item(self, item);
            }
        }
    }

    fn child(&mut self, item: &syn::ItemMod) {
        let inline = item.content.as_ref().map(|(_, items)| {
            let mut collector = Self::default();
            items.iter().for_each(|item| collector.item(item));
            collector.finish()
        });
        let path = item.attrs.iter().find(|attribute| attribute.path().is_ident("path")).and_then(string_value);
        self.names.children.push(Child { name: item.ident.unraw().to_string(), path, inline });
    }

    fn finish(mut self) -> Names {
        let variables = std::mem::take(&mut self.names.variables);
        self.names.used.retain(|path| path.segments.len() > 1 || !variables.contains(&path.segments[0]));
        self.names
    }

    fn import(&mut self, tree: &UseTree, prefix: &[String], reexport: bool) {
        let with = |ident: &Ident| [prefix, &[ident.unraw().to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.import(&path.tree, &with(&path.ident), reexport),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, prefix, reexport)),
            UseTree::Glob(glob) => self.names.globs.push(Path { segments: prefix.to_vec(), line: line(glob) }),
            UseTree::Name(name) if name.ident == "self" => {
                let here = prefix.last().cloned().unwrap_or_default();
                self.add_import(here, prefix.to_vec(), line(name), reexport);
            }
            UseTree::Name(name) => {
                self.add_import(name.ident.unraw().to_string(), with(&name.ident), line(name), reexport)
            }
            UseTree::Rename(rename) => {
                let segments = if rename.ident == "self" { prefix.to_vec() } else { with(&rename.ident) };
                let name = match rename.rename.to_string() {
                    name if name == "_" => format!("_ {}", segments.join("::")),
                    name => name,
                };
                self.add_import(name, segments, line(rename), reexport);
            }
        }
    }

    fn add_import(&mut self, name: String, segments: Vec<String>, line: usize, reexport: bool) {
        self.names.imports.entry(name).or_insert(Import { path: Path { segments, line }, reexport });
    }

    fn add(&mut self, segments: Vec<String>, line: usize) {
        self.names.used.push(Path { segments, line });
    }

    /// Paths in the arguments or the body of a macro, which are no syntax tree.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let punct = |at: usize, expected: char| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == expected);
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(first) if !(at > 0 && (punct(at - 1, '.') || punct(at - 1, '\''))) => {
                    let mut segments = vec![first.unraw().to_string()];
                    while punct(at + 1, ':') && punct(at + 2, ':') {
                        let Some(TokenTree::Ident(next)) = tokens.get(at + 3) else { break };
                        segments.push(next.unraw().to_string());
                        at += 3;
                    }
                    let called = matches!(tokens.get(at + 1), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis);
                    if segments.len() > 1 || is_constant_or_type(&segments[0]) || called || punct(at + 1, '!') {
                        self.add(segments, first.span().start().line);
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item(&mut self, item: &'ast Item) {
        self.item(item);
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        self.blocks += 1;
        visit::visit_block(self, block);
        self.blocks -= 1;
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        if !for_tests(impl_attributes(item)) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if item.leading_colon.is_none() {
            self.import(&item.tree, &[], !matches!(item.vis, Visibility::Inherited));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.add(path.segments.iter().map(|segment| segment.ident.unraw().to_string()).collect(), line(path));
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        self.visit_path(&invocation.path);
        self.tokens(invocation.tokens.clone());
    }

    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        let name = pattern.ident.unraw().to_string();
        if is_constant_or_type(&name) {
            self.add(vec![name], line(pattern));
        } else {
            self.names.variables.insert(name);
        }
        visit::visit_pat_ident(self, pattern);
    }

    /// Attributes whose arguments are code of this crate; names in others are of other crates.
    /// Serde and schemars name functions and types in strings.
    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        let is_one_of = |names: &[&str]| names.iter().any(|name| attribute.path().is_ident(name));
        if is_one_of(&["serde", "schemars"]) {
            let _ = attribute.parse_nested_meta(|meta| {
                let value: syn::LitStr = meta.value()?.parse()?;
                if let Ok(path) = value.parse::<syn::Path>() {
                    self.visit_path(&path);
                }
                Ok(())
            });
        } else if is_one_of(&["arg", "command", "error", "group", "value"])
            && let syn::Meta::List(list) = &attribute.meta
        {
            self.tokens(list.tokens.clone());
        }
    }

    /// `pub(in path)` uses nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

/// The name that an item defines in its module.
fn defined(item: &Item) -> impl Iterator<Item = String> + use<> {
    let ident = match item {
        Item::Const(item) => Some(&item.ident),
        Item::Enum(item) => Some(&item.ident),
        Item::Fn(item) => Some(&item.sig.ident),
        Item::Macro(item) => item.ident.as_ref(),
        Item::Static(item) => Some(&item.ident),
        Item::Struct(item) => Some(&item.ident),
        Item::Trait(item) => Some(&item.ident),
        Item::Type(item) => Some(&item.ident),
        Item::Union(item) => Some(&item.ident),
        _ => None,
    };
    ident.map(|ident| ident.unraw().to_string()).into_iter()
}

fn string_value(attribute: &Attribute) -> Option<String> {
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(value), .. }) =
        &attribute.meta.require_name_value().ok()?.value
    else {
        return None;
    };
    Some(value.value())
}

fn is_constant_or_type(name: &str) -> bool {
    name.starts_with(char::is_uppercase)
}

#[test]
fn names_are_found_wherever_code_has_them() {
    let text = r#"
        use crate::{a::{self, B}, c::*};
        pub(crate) use super::d::E as F;
        #[cfg(test)] use crate::no::One;
        mod child { fn inner(x: crate::no::Two) {} }
        #[serde(with = "crate::g::form")] #[derive(x::Y)] struct H(crate::i::J<k::L>);
        #[error("{}: {z}", a.b(), z = crate::y::Z)] struct I;
        impl super::M for H { #[cfg(test)] fn n() { crate::no::Three } }
        pub(in crate::no) fn f(o: u8) { use self::p::q; format!("{}", r::s(T, o.u)); match o { V => {} } w(o) }
        #[cfg(all(test, unix))] mod tests {}
    "#;
    let names = names(&syn::parse_str(text).unwrap());
    let imports: Vec<_> = names
        .imports
        .iter()
        .map(|(name, import)| (&**name, import.path.segments.join("::"), import.reexport))
        .collect();
    let expected =
        [("B", "crate::a::B", false), ("F", "super::d::E", true), ("a", "crate::a", false), ("q", "self::p::q", false)];
    assert_eq!(imports, expected.map(|(name, path, reexport)| (name, path.to_owned(), reexport)));
    assert_eq!(names.globs[0].segments, ["crate", "c"]);
    assert_eq!(names.defined.iter().collect::<Vec<_>>(), ["H", "I", "f"]);
    assert_eq!(names.children.iter().map(|child| &*child.name).collect::<Vec<_>>(), ["child"]);
    let used: BTreeSet<_> = names.used.iter().map(|path| path.segments.join("::")).collect();
    for path in ["crate::g::form", "crate::i::J", "k::L", "super::M", "H", "r::s", "T", "V", "w", "crate::y::Z"] {
        assert!(used.contains(path), "{path} is used: {used:?}");
    }
    for path in ["crate::no::One", "crate::no::Two", "crate::no::Three", "crate::no", "o", "x::Y", "b"] {
        assert!(!used.contains(path), "{path} is not used: {used:?}");
    }
}
