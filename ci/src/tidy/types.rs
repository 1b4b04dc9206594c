//! Types: how many fields a struct has, and where its methods lie.
//!
//! Inherent methods lie in the folder of the file that defines their type, or below it, so that
//! a reader finds them. Code for tests is exempt.

use anyhow::{Context, Result, anyhow};
use proc_macro2::Span;
use std::collections::BTreeMap;
use syn::{Attribute, Fields, Item, Type};

/// A larger struct is more than one thing.
const MAX_FIELDS: usize = 20;

/// Records with one field for each row of a table: settings, options of a command line, and
/// results of a run. They have no state that could be parted.
const RECORDS: [(&str, &str); 4] =
    [("server", "Config"), ("server", "Limits"), ("bench", "CompareArgs"), ("bench", "Known")];

/// Definitions of types, and their methods, of all crates.
#[derive(Default)]
pub(super) struct Types {
    /// Files that define a type, by the crate's folder and the type's name.
    defined: BTreeMap<(String, String), Vec<String>>,
    /// Blocks of inherent methods.
    methods: Vec<Methods>,
    faults: Vec<String>,
}

struct Methods {
    file: String,
    line: usize,
    name: String,
}

impl Types {
    /// Reads a source file.
    pub(super) fn read(&mut self, file: &str, text: &str) -> Result<()> {
        let parsed = syn::parse_file(text).map_err(|error| anyhow!("{error}"));
        let parsed = parsed.with_context(|| file.to_owned())?;
        self.items(file, &parsed.items);
        Ok(())
    }

    fn items(&mut self, file: &str, items: &[Item]) {
        for item in items {
            match item {
                Item::Struct(item) if !is_test(&item.attrs) => {
                    self.define(file, item.ident.to_string());
                    let count = item.fields.len();
                    let name = item.ident.to_string();
                    let is_named = matches!(item.fields, Fields::Named(_));
                    let is_record = RECORDS.contains(&(krate(file), &name));
                    if count > MAX_FIELDS && is_named && !is_record {
                        let line = line(item.ident.span());
                        self.faults.push(format!(
                            "{file}:{line}: {name} has {count} fields, more than {MAX_FIELDS}"
                        ));
                    }
                }
                Item::Enum(item) if !is_test(&item.attrs) => {
                    self.define(file, item.ident.to_string())
                }
                Item::Union(item) if !is_test(&item.attrs) => {
                    self.define(file, item.ident.to_string());
                }
                Item::Impl(item) if !is_test(&item.attrs) && item.trait_.is_none() => {
                    let Type::Path(path) = &*item.self_ty else { continue };
                    let Some(last) = path.path.segments.last() else { continue };
                    self.methods.push(Methods {
                        file: file.to_owned(),
                        line: line(item.impl_token.span),
                        name: last.ident.to_string(),
                    });
                }
                Item::Mod(item) if !is_test(&item.attrs) => {
                    if let Some((_, items)) = &item.content {
                        self.items(file, items);
                    }
                }
                _ => {}
            }
        }
    }

    fn define(&mut self, file: &str, name: String) {
        self.defined.entry((krate(file).to_owned(), name)).or_default().push(file.to_owned());
    }

    /// Everything that is wrong with the types read.
    pub(super) fn faults(self) -> Vec<String> {
        let mut faults = self.faults;
        for methods in &self.methods {
            let key = (krate(&methods.file).to_owned(), methods.name.clone());
            let Some(files) = self.defined.get(&key) else { continue };
            if !files.iter().any(|file| is_near(file, &methods.file)) {
                let Methods { file, line, name } = methods;
                let places = files.join(" and ");
                faults.push(format!("{file}:{line}: methods of {name} far from {places}"));
            }
        }
        faults
    }
}

/// Whether methods in `file` are near a definition in `defining`: in its folder or below. For
/// a file in the root of a crate, the folder is the one of its own module.
fn is_near(defining: &str, file: &str) -> bool {
    let folder = |path: &str| path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let below = |folder: &str| file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    let home = folder(defining);
    if home.ends_with("/src") {
        let own = defining.strip_suffix(".rs").unwrap_or(defining);
        return folder(file) == home || below(own);
    }
    below(&home)
}

fn krate(file: &str) -> &str {
    file.split('/').next().unwrap_or("")
}

fn line(span: Span) -> usize {
    span.start().line
}

/// Whether an item exists in test builds only.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Ident>().is_ok_and(|condition| condition == "test")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let mut types = Types::default();
        for (name, text) in files {
            types.read(name, text).unwrap();
        }
        types.faults()
    }

    fn with_fields(count: usize) -> String {
        let fields: String =
            (0..count).map(|number| format!("f{number}: Vec<(u8, u8)>,\n")).collect();
        format!("mod m {{\nstruct S {{\n{fields}}}\n}}")
    }

    #[test]
    fn a_struct_has_few_fields() {
        assert_eq!(found(&[("a/src/x.rs", &with_fields(20))]), [""; 0]);
        let expected = "a/src/x.rs:2: S has 21 fields, more than 20";
        assert_eq!(found(&[("a/src/x.rs", &with_fields(21))]), [expected]);
        let record = with_fields(21).replace("struct S", "struct Limits");
        assert_eq!(found(&[("server/src/x.rs", &record)]), [""; 0]);
        assert_eq!(found(&[("shards/src/x.rs", &record)]).len(), 1);
        let test = format!("#[cfg(test)] {}", with_fields(21));
        assert_eq!(found(&[("a/src/x.rs", &test)]), [""; 0]);
    }

    #[test]
    fn methods_lie_near_their_type() {
        let methods = "\nimpl<T> S<T> { fn f() {} }";
        for (defining, file) in [
            ("a/src/x.rs", "a/src/x/y.rs"),
            ("a/src/x.rs", "a/src/x/y/z.rs"),
            ("a/src/x/mod.rs", "a/src/x/y.rs"),
            ("a/src/x/y.rs", "a/src/x/z.rs"),
            ("a/src/x/y.rs", "a/src/x/z/w.rs"),
            ("a/src/x/mod.rs", "a/src/x/y/z.rs"),
            ("a/src/x.rs", "a/src/y.rs"),
        ] {
            assert_eq!(found(&[(defining, "struct S<T>;"), (file, methods)]), [""; 0], "{file}");
        }
        for (defining, file) in [
            ("a/src/x.rs", "a/src/y/z.rs"),
            ("a/src/x/mod.rs", "a/src/y.rs"),
            ("a/src/x/y.rs", "a/src/z.rs"),
            ("a/src/x/y/mod.rs", "a/src/x/z.rs"),
        ] {
            let expected = format!("{file}:2: methods of S far from {defining}");
            assert_eq!(found(&[(defining, "enum S<T> {}"), (file, methods)]), [expected]);
        }
    }

    #[test]
    fn other_blocks_are_left_alone() {
        let files = [
            ("a/src/x.rs", "struct S;"),
            ("a/src/m/y.rs", "impl Clone for S {}\n#[cfg(test)] impl S {}\nimpl Other {}"),
            ("b/src/y.rs", "impl S {}"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }
}
