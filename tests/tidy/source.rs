//! Facts of a Rust file that rules ask for. They are plain data, because what a parser returns
//! cannot be shared by threads.

use std::ops::RangeInclusive;

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, ImplItemFn, Item, ItemFn, ItemImpl, ItemTrait, TraitItemFn};

use crate::paths::{self, Names};
use crate::unused::Exports;

pub(crate) struct Source {
    /// From the repository's root.
    pub(crate) file: String,
    pub(crate) text: String,
    /// Whether the file begins with `#![forbid(unsafe_code)]`.
    pub(crate) forbids_unsafe: bool,
    pub(crate) functions: Vec<Function>,
    pub(crate) comments: Vec<Comment>,
    /// The module that the file is.
    pub(crate) names: Names,
    /// Exported names, and those that the file uses.
    pub(crate) exports: Exports,
}

pub(crate) struct Function {
    /// With the type that it belongs to, such as `Engine::run`.
    pub(crate) name: String,
    pub(crate) line: usize,
    /// From `fn` to the closing brace.
    pub(crate) lines: usize,
}

/// Whole-line comments of one kind, one below the other.
pub(crate) struct Comment {
    pub(crate) line: usize,
    /// Text without the slashes and the space behind them; one entry per line.
    pub(crate) text: Vec<String>,
    /// Characters of each line from column 0 on.
    pub(crate) widths: Vec<usize>,
}

impl Source {
    pub(crate) fn parse(file: &str, text: String) -> Self {
        let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{file}: {error}"));
        let mut literals = Vec::new();
        multiline_literals(tokens.clone(), &mut literals);
        let tree: syn::File = syn::parse2(tokens).unwrap_or_else(|error| panic!("{file}: {error}"));
        let mut functions = Functions::default();
        functions.visit_file(&tree);
        Self {
            file: file.to_owned(),
            forbids_unsafe: tree.attrs.iter().any(forbids_unsafe),
            functions: functions.found,
            comments: comments(&text, &literals),
            names: paths::names(&tree),
            exports: Exports::of(&tree),
            text,
        }
    }
}

impl Comment {
    /// All of it in one line.
    pub(crate) fn joined(&self) -> String {
        self.text.iter().flat_map(|line| line.split_whitespace()).collect::<Vec<_>>().join(" ")
    }
}

fn forbids_unsafe(attribute: &Attribute) -> bool {
    let mut found = false;
    if attribute.path().is_ident("forbid") {
        let _ = attribute.parse_nested_meta(|meta| {
            found |= meta.path.is_ident("unsafe_code");
            Ok(())
        });
    }
    found
}

/// Lines of literals that span several: text in them that looks like a comment is none.
fn multiline_literals(tokens: TokenStream, found: &mut Vec<RangeInclusive<usize>>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => multiline_literals(group.stream(), found),
            TokenTree::Literal(literal) => {
                let (start, end) = (literal.span().start().line, literal.span().end().line);
                // Doc comments are literals as well, of the text behind their slashes.
                if start < end && literal.to_string().contains('\n') {
                    found.push(start + 1..=end);
                }
            }
            _ => {}
        }
    }
}

fn comments(text: &str, literals: &[RangeInclusive<usize>]) -> Vec<Comment> {
    let mut comments: Vec<Comment> = Vec::new();
    let mut before = None;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let trimmed = line.trim_start();
        let marker = ["//!", "///", "//"].into_iter().find(|marker| trimmed.starts_with(marker));
        let Some(marker) = marker.filter(|_| !literals.iter().any(|lines| lines.contains(&number))) else {
            before = None;
            continue;
        };
        let kind = Some((marker, line.len() - trimmed.len()));
        if before != kind {
            comments.push(Comment { line: number, text: Vec::new(), widths: Vec::new() });
        }
        before = kind;
        let comment = comments.last_mut().expect("one was begun");
        let text = trimmed[marker.len()..].trim_end();
        comment.text.push(text.strip_prefix(' ').unwrap_or(text).to_owned());
        comment.widths.push(line.trim_end().chars().count());
    }
    comments
}

#[derive(Default)]
struct Functions {
    within: Vec<String>,
    found: Vec<Function>,
}

impl Functions {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let (start, end) = (signature.fn_token.span.start().line, block.brace_token.span.close().end().line);
        let name = self.within.iter().cloned().chain([signature.ident.to_string()]).collect::<Vec<_>>().join("::");
        self.found.push(Function { name, line: start, lines: end + 1 - start });
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let name = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
            _ => None,
        };
        self.within.extend(name.clone());
        visit::visit_item_impl(self, item);
        self.within.truncate(self.within.len() - usize::from(name.is_some()));
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.within.push(item.ident.to_string());
        visit::visit_item_trait(self, item);
        self.within.pop();
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

/// Attributes of an item, whatever it is.
pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Attributes of an item of an `impl`.
pub(crate) fn impl_attributes(item: &ImplItem) -> &[Attribute] {
    match item {
        ImplItem::Fn(item) => &item.attrs,
        ImplItem::Const(item) => &item.attrs,
        ImplItem::Type(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether code is compiled for tests alone.
pub(crate) fn for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let mut tokens = list.tokens.clone().into_iter();
        match tokens.next() {
            Some(TokenTree::Ident(word)) if word == "test" => true,
            Some(TokenTree::Ident(word)) if word == "all" => {
                let Some(TokenTree::Group(group)) = tokens.next() else { return false };
                group.stream().into_iter().any(|token| matches!(token, TokenTree::Ident(word) if word == "test"))
            }
            _ => false,
        }
    })
}

pub(crate) fn line(node: &impl Spanned) -> usize {
    node.span().start().line
}

#[test]
fn functions_have_the_name_of_their_type_and_their_length() {
    let source = Source::parse(
        "a.rs",
        "impl<T> A<T> {\n    /// Says.\n    pub fn b() {\n        1\n    }\n}\ntrait C { fn d(); fn e() {} }\nfn f() {}\n".into(),
    );
    let found: Vec<_> =
        source.functions.iter().map(|function| (&*function.name, function.line, function.lines)).collect();
    assert_eq!(found, [("A::b", 3, 3), ("C::e", 7, 1), ("f", 8, 1)]);
}

#[test]
fn comments_in_literals_are_none() {
    let text = "//! One\n//! two.\n\n/// Three.\nconst A: &str = \"\n// no comment\n\";\n// four\n    // five\n";
    let source = Source::parse("a.rs", text.into());
    let found: Vec<_> = source.comments.iter().map(|comment| (comment.line, comment.joined())).collect();
    let expected = [(1, "One two."), (4, "Three."), (8, "four"), (9, "five")];
    assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
}
