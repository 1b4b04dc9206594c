//! The modules of a crate, found as the compiler finds them: from the crate's root along the
//! `mod` declarations. Modules for tests alone are left out.

use super::imports::{self, Declaration, FileModules, Import, ModulePath};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// How many `use` items a name may pass through on the way to its module.
const MAX_STEPS: usize = 16;

/// A crate's modules and everything that they import.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Every module below the root with the file that declares it.
    pub(super) modules: BTreeMap<ModulePath, String>,
    pub(super) imports: Vec<FoundImport>,
    /// Items, each with its module.
    items: BTreeSet<(ModulePath, String)>,
    root_file: String,
}

/// An import and the file in which it stands.
#[derive(Debug)]
pub(super) struct FoundImport {
    pub(super) file: String,
    pub(super) import: Import,
}

/// The segments of `a::b`; none for the root, whose path is empty.
pub(super) fn module_path(text: &str) -> ModulePath {
    text.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Reads the modules of the crate in `folder`.
pub(super) fn read(folder: &Path) -> Result<Tree> {
    let roots = ["src/lib.rs", "src/main.rs"].map(|name| folder.join(name));
    let Some(root) = roots.iter().find(|root| root.is_file()) else {
        bail!("{} holds no crate", folder.display());
    };
    let mut tree = Tree { root_file: root.display().to_string(), ..Tree::default() };
    let mut open = vec![Source { file: root.clone(), module: Vec::new(), is_folder: true }];
    while let Some(source) = open.pop() {
        let name = source.file.display().to_string();
        let text =
            std::fs::read_to_string(&source.file).with_context(|| format!("reading {name}"))?;
        let found = imports::scan(&text, &source.module).with_context(|| name.clone())?;
        for declared in &found.declared {
            if !declared.inline {
                open.push(source.child(declared)?);
            }
        }
        tree.add(&name, found);
    }
    Ok(tree)
}

/// A source file that is a module.
struct Source {
    file: PathBuf,
    module: ModulePath,
    /// Whether its modules lie beside it and not in a folder of its name.
    is_folder: bool,
}

impl Source {
    fn child(&self, declared: &Declaration) -> Result<Source> {
        let parent = self.file.parent().context("a source file has no folder")?;
        let module = declared.module.clone();
        if let Some(path) = &declared.file {
            return Ok(Source { file: parent.join(path), module, is_folder: true });
        }
        let mut folder = parent.to_owned();
        if !self.is_folder {
            folder.push(self.file.file_stem().context("a source file has no name")?);
        }
        // Modules in the body of the file have folders, too.
        folder.extend(&module[self.module.len()..]);
        let beside = folder.with_extension("rs");
        let inside = folder.join("mod.rs");
        let is_folder = inside.is_file();
        Ok(Source { file: if is_folder { inside } else { beside }, module, is_folder })
    }
}

impl Tree {
    /// Takes in the modules of one file.
    fn add(&mut self, file: &str, found: FileModules) {
        for declared in found.declared {
            self.modules.insert(declared.module, file.to_owned());
        }
        self.items.extend(found.items);
        let imports = found.imports.into_iter();
        self.imports.extend(imports.map(|import| FoundImport { file: file.to_owned(), import }));
    }

    /// A tree out of the texts of modules; the root has the empty name.
    #[cfg(test)]
    pub(super) fn of(sources: &[(&str, &str)]) -> Tree {
        let mut tree = Tree { root_file: "lib.rs".to_owned(), ..Tree::default() };
        for (module, text) in sources {
            let path = module_path(module);
            let file = if path.is_empty() {
                "lib.rs".to_owned()
            } else {
                format!("{}.rs", path.join("/"))
            };
            tree.add(&file, imports::scan(text, &path).unwrap());
        }
        tree
    }

    /// Names of the modules directly below `parent`.
    pub(super) fn children(&self, parent: &[String]) -> Vec<&str> {
        let below = self
            .modules
            .keys()
            .filter(|path| path.split_last().is_some_and(|(_, above)| above == parent));
        below.filter_map(|path| path.last()).map(String::as_str).collect()
    }

    /// The file that declares the modules below `parent`.
    pub(super) fn declaring_file(&self, parent: &[String], child: &str) -> String {
        let path = [parent, &[child.to_owned()]].concat();
        self.modules.get(&path).unwrap_or(&self.root_file).clone()
    }

    /// The child of `parent` that `path` leads into: through its name, or through a `use`
    /// item of `parent`.
    pub(super) fn target(&self, parent: &[String], path: &[String]) -> Target {
        let mut path = path.to_vec();
        for _ in 0..MAX_STEPS {
            let Some(rest) = path.strip_prefix(parent) else { return Target::Elsewhere };
            let Some((first, below)) = rest.split_first() else { return Target::Parent };
            if self.is_module(parent, first) {
                return Target::Child(first.clone());
            }
            let Some(import) = self.use_of(parent, first) else { return Target::Parent };
            if self.is_foreign(import) {
                return Target::Elsewhere;
            }
            let is_glob = import.name.as_deref() == Some("*");
            let kept = import.path.len() - usize::from(is_glob);
            let behind = if is_glob { rest } else { below };
            path = [&import.path[..kept], behind].concat();
        }
        Target::Parent
    }

    /// Whether an import leads to another crate.
    pub(super) fn is_foreign(&self, import: &Import) -> bool {
        let Some(first) = import.path.get(import.module.len()) else { return false };
        import.relative
            && !self.is_module(&import.module, first)
            && !self.items.contains(&(import.module.clone(), first.clone()))
            && self.use_of(&import.module, first).is_none_or(|other| other == import)
    }

    fn is_module(&self, parent: &[String], name: &str) -> bool {
        self.modules.contains_key(&[parent, &[name.to_owned()]].concat())
    }

    /// The `use` item of `module` that makes `name` known.
    fn use_of(&self, module: &[String], name: &str) -> Option<&Import> {
        let imports = || {
            let imports = self.imports.iter().map(|found| &found.import);
            imports.filter(|import| import.module == module)
        };
        let named = imports().find(|import| import.name.as_deref() == Some(name));
        if named.is_some() || self.items.contains(&(module.to_vec(), name.to_owned())) {
            return named;
        }
        imports().find(|import| {
            let Some((last, from)) = import.path.split_last() else { return false };
            last == "*" && self.items.contains(&(from.to_vec(), name.to_owned()))
        })
    }
}

/// Into which part of a module a path leads.
#[derive(Debug, PartialEq)]
pub(super) enum Target {
    /// A module directly below it.
    Child(String),
    /// An item of the module itself.
    Parent,
    /// Another part of the crate, or another crate.
    Elsewhere,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::DataFolder;

    #[test]
    fn modules_are_found_where_the_compiler_finds_them() {
        let data = DataFolder::create("modules").unwrap();
        for (name, text) in [
            (
                "lib.rs",
                "mod a; mod b; mod c { mod d; } #[path = \"odd.rs\"] mod e; #[cfg(test)] mod t;",
            ),
            ("a.rs", "mod x;"),
            ("a/x.rs", "use crate::b;"),
            ("b/mod.rs", "mod y;"),
            ("b/y.rs", ""),
            ("c/d.rs", ""),
            ("odd.rs", ""),
        ] {
            let file = data.0.join("src").join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let tree = read(&data.0).unwrap();
        let found: Vec<String> = tree.modules.keys().map(|path| path.join("::")).collect();
        assert_eq!(found, ["a", "a::x", "b", "b::y", "c", "c::d", "e"]);
        assert_eq!(tree.children(&[]), ["a", "b", "c", "e"]);
        assert_eq!(tree.imports.len(), 1);
        assert!(tree.imports[0].file.ends_with("src/a/x.rs"), "{:?}", tree.imports);
        std::fs::remove_file(data.0.join("src/b/y.rs")).unwrap();
        assert!(read(&data.0).is_err(), "a module without a file");
    }

    #[test]
    fn paths_lead_through_use_items() {
        let tree = Tree::of(&[
            (
                "",
                "mod a; mod b; pub use a::A; use b::*; pub use other::X; struct Own; pub use self::a::inner as i;",
            ),
            ("a", "pub struct A; pub mod inner {}"),
            ("b", "pub struct B;"),
        ]);
        for (text, target) in [
            ("a::A", Target::Child("a".to_owned())),
            ("A", Target::Child("a".to_owned())),
            ("i::Z", Target::Child("a".to_owned())),
            ("B", Target::Child("b".to_owned())),
            ("X", Target::Elsewhere),
            ("Own", Target::Parent),
        ] {
            assert_eq!(tree.target(&[], &module_path(text)), target, "{text}");
        }
        assert_eq!(tree.target(&module_path("a"), &module_path("b::B")), Target::Elsewhere);
        assert_eq!(
            tree.target(&module_path("a"), &module_path("a::inner::T")),
            Target::Child("inner".to_owned())
        );
    }
}
