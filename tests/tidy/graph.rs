//! The modules of a crate, and which of them uses which other one.

use std::collections::BTreeMap;

use crate::paths::{Names, Path};
use crate::repository::{REPOSITORY, joined};
use crate::source::Source;

/// The modules that hang on one root file, such as `src/lib.rs`.
pub(crate) struct Graph<'s> {
    /// The root first; a module stands behind its parent.
    pub(crate) modules: Vec<Module<'s>>,
}

pub(crate) struct Module<'s> {
    /// From the crate's root on, which has none.
    pub(crate) path: Vec<String>,
    pub(crate) file: String,
    pub(crate) parent: Option<usize>,
    names: &'s Names,
    children: BTreeMap<String, usize>,
}

/// Code in one module names something that is defined in another one.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// As it is called where it is defined.
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) line: usize,
}

/// The target of a path.
enum Target {
    Module(usize),
    Item { module: usize, name: String },
}

/// No path that a person writes goes through more re-exports.
const IMPORTS_MAX: usize = 16;

/// All crates of the workspace and the programs beside it.
pub(crate) fn all() -> Vec<Graph<'static>> {
    let roots = ["src/lib.rs", "src/main.rs"];
    let folders = REPOSITORY.packages().into_iter().map(|package| package.folder);
    let files = folders.flat_map(|folder| roots.map(|root| joined(&folder, root)));
    files.filter(|file| REPOSITORY.has(file)).map(|root| Graph::new(&root, &REPOSITORY.sources)).collect()
}

impl<'s> Graph<'s> {
    pub(crate) fn new(root: &str, sources: &'s [Source]) -> Self {
        let files = sources.iter().map(|source| (&*source.file, source)).collect();
        let mut graph = Self { modules: Vec::new() };
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        let source: &Source = sources.iter().find(|source| source.file == root).expect("the root is a source");
        graph.add(Vec::new(), None, root, folder, &source.names, &files);
        graph
    }

    /// The crate's folder, for people: `crates/serve`.
    pub(crate) fn folder(&self) -> &str {
        self.modules[0].file.rsplit_once("/src/").map_or("", |(folder, _)| folder)
    }

    /// Adds a module and those below it; `folder` is where files of its children lie.
    fn add(
        &mut self,
        path: Vec<String>,
        parent: Option<usize>,
        file: &str,
        folder: &str,
        names: &'s Names,
        files: &BTreeMap<&str, &'s Source>,
    ) -> usize {
        let index = self.modules.len();
        self.modules.push(Module {
            path: path.clone(),
            file: file.to_owned(),
            parent,
            names,
            children: BTreeMap::new(),
        });
        for child in &names.children {
            let path = [&path[..], std::slice::from_ref(&child.name)].concat();
            let below = joined(folder, &child.name);
            let added = if let Some(names) = &child.inline {
                self.add(path, Some(index), file, &below, names, files)
            } else {
                let beside = file.rsplit_once('/').map_or("", |(folder, _)| folder);
                let named = child.path.as_ref().map(|path| joined(beside, path));
                let candidates = [named.unwrap_or_else(|| format!("{below}.rs")), format!("{below}/mod.rs")];
                let Some(source) = candidates.iter().find_map(|file| files.get(&**file)) else {
                    panic!("{file}: there is no file of module {}", child.name)
                };
                self.add(path, Some(index), &source.file, &below, &source.names, files)
            };
            self.modules[index].children.insert(child.name.clone(), added);
        }
        index
    }

    /// All uses between two modules. Declarations of modules and re-exports are none.
    pub(crate) fn uses(&self) -> Vec<Use> {
        let mut uses = Vec::new();
        for (from, module) in self.modules.iter().enumerate() {
            let imports = module.names.imports.values().filter(|import| !import.reexport).map(|import| &import.path);
            for Path { segments, line } in imports.chain(&module.names.used) {
                if let Some(Target::Item { module: to, name }) = self.resolve(from, segments, IMPORTS_MAX)
                    && to != from
                {
                    uses.push(Use { from, to, name, file: module.file.clone(), line: *line });
                }
            }
        }
        uses
    }

    fn resolve(&self, from: usize, segments: &[String], imports_max: usize) -> Option<Target> {
        let (first, mut rest) = segments.split_first()?;
        let mut target = match &**first {
            "crate" => Target::Module(0),
            "self" => Target::Module(from),
            "super" => Target::Module(self.modules[from].parent?),
            name => self.look_up(from, name, !rest.is_empty(), imports_max)?,
        };
        while let (Target::Module(module), Some((name, behind))) = (&target, rest.split_first()) {
            target = match &**name {
                "super" => Target::Module(self.modules[*module].parent?),
                name => self.look_up(*module, name, !behind.is_empty(), imports_max)?,
            };
            rest = behind;
        }
        Some(target)
    }

    /// Resolves a name in a module: its own, or an imported one; a name of another crate has no
    /// target. A module and a function may have the same name.
    fn look_up(&self, module: usize, name: &str, as_folder: bool, imports_max: usize) -> Option<Target> {
        let imports_max = imports_max.checked_sub(1)?;
        let Module { names, children, .. } = &self.modules[module];
        let child = children.get(name).map(|child| Target::Module(*child));
        if as_folder && child.is_some() {
            return child;
        }
        if names.defined.contains(name) {
            return Some(Target::Item { module, name: name.to_owned() });
        }
        if child.is_some() {
            return child;
        }
        if let Some(import) = names.imports.get(name) {
            return self.resolve_import(module, name, &import.path.segments, imports_max);
        }
        names.globs.iter().find_map(|glob| match self.resolve(module, &glob.segments, imports_max)? {
            Target::Module(other) if other != module => self.look_up(other, name, as_folder, imports_max),
            _ => None,
        })
    }

    /// The path of an import begins with the name of another crate if it has the import's own name:
    /// `use url::Url; use httpdate;`.
    fn resolve_import(&self, module: usize, name: &str, segments: &[String], imports_max: usize) -> Option<Target> {
        if segments.first().is_some_and(|first| first == name) {
            None
        } else {
            self.resolve(module, segments, imports_max)
        }
    }
}

#[cfg(test)]
pub(crate) fn of_texts(texts: &[(&str, &str)]) -> Vec<Source> {
    texts.iter().map(|(file, text)| Source::parse(file, (*text).to_owned())).collect()
}

#[test]
fn uses_lead_to_the_module_that_defines() {
    let sources = of_texts(&[
        (
            "a/src/lib.rs",
            "mod one; mod two; pub use one::Deep; pub struct Own; mod inline { use super::two; fn f() { two::g() } }",
        ),
        ("a/src/one/mod.rs", "mod deep; pub use deep::Deep; use crate::Own;"),
        ("a/src/one/deep.rs", "pub struct Deep; fn f() { let g = 1; h(g); other::x(); }"),
        ("a/src/two.rs", "use super::*; pub fn g() -> Deep { crate::one::Deep }"),
    ]);
    let graph = Graph::new("a/src/lib.rs", &sources);
    let name = |module: usize| graph.modules[module].path.join("::");
    let mut found: Vec<_> = graph
        .uses()
        .iter()
        .map(|a_use| format!("{} -> {} ({})", name(a_use.from), name(a_use.to), a_use.name))
        .collect();
    found.dedup();
    assert_eq!(found, ["one ->  (Own)", "two -> one::deep (Deep)", "inline -> two (g)"]);
}
