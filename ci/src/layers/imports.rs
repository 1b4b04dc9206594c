//! The paths that a source file names, found in its tokens.
//!
//! Tokens hold no comment, and a string is one token, so neither can look like a path. Bodies
//! of macros are tokens like all others. Items under `#[cfg(test)]` are left out: tests may
//! import everything.
//!
//! Found are the paths of `use` items, and every other path that begins with `crate`, `self`
//! or `super`. Each is absolute afterwards: its segments begin below the crate's root.

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use std::str::FromStr;

/// A module's path below the crate's root; the root is empty.
pub(super) type ModulePath = Vec<String>;

/// A path that a module names.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Import {
    /// Line in the file, from 1.
    pub(super) line: usize,
    /// The module whose code names it: a file can hold modules of its own.
    pub(super) module: ModulePath,
    /// Segments below the root. The last can be `*`.
    pub(super) path: Vec<String>,
    /// Whether it was written without `crate`, `self` or `super`: it then names a child of
    /// `module`, an item of it, or another crate.
    pub(super) relative: bool,
    /// The name under which a `use` item makes it known in `module`; `*` for all of them.
    pub(super) name: Option<String>,
    /// Whether the `use` item has a visibility: it gives the name to other modules.
    pub(super) exported: bool,
}

/// A module that the file declares.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Declaration {
    pub(super) module: ModulePath,
    /// The file of a `#[path]` attribute, relative to the folder of the declaring file.
    pub(super) file: Option<String>,
    /// Whether the body stands in the declaring file.
    pub(super) inline: bool,
}

/// Everything that one file tells about modules.
#[derive(Debug, Default, PartialEq)]
pub(super) struct FileModules {
    pub(super) declared: Vec<Declaration>,
    pub(super) imports: Vec<Import>,
    /// Items that the file defines, with their modules; methods are among them.
    pub(super) items: Vec<(ModulePath, String)>,
}

/// Reads a file that is the module `module`.
pub(super) fn scan(source: &str, module: &[String]) -> Result<FileModules> {
    // A shebang or an inner attribute needs no care: both are tokens.
    let tokens = TokenStream::from_str(source).map_err(|error| anyhow!("{error}"))?;
    let mut scan = Scan { found: FileModules::default() };
    scan.items(tokens, module);
    Ok(scan.found)
}

struct Scan {
    found: FileModules,
}

impl Scan {
    fn items(&mut self, tokens: TokenStream, module: &[String]) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            let attributes = Attributes::read(&tokens, &mut at);
            if attributes.is_test {
                skip_item(&tokens, &mut at);
                continue;
            }
            let exported = skip_visibility(&tokens, &mut at);
            let Some(token) = tokens.get(at) else { break };
            match token {
                TokenTree::Group(group) => {
                    self.items(group.stream(), module);
                    at += 1;
                }
                TokenTree::Ident(word) if word == "mod" => {
                    at += 1;
                    self.declaration(&tokens, &mut at, module, attributes.file);
                }
                TokenTree::Ident(word) if word == "use" => {
                    at += 1;
                    let first = self.found.imports.len();
                    self.use_tree(&tokens, &mut at, module, &UsePrefix::default());
                    for import in &mut self.found.imports[first..] {
                        import.exported = exported;
                    }
                }
                TokenTree::Ident(word) if is_anchor(&word.to_string()) => {
                    self.path(&tokens, &mut at, module);
                }
                TokenTree::Ident(word) => {
                    at += 1;
                    if is_definition(&word.to_string())
                        && let Some(name) = ident(&tokens, at)
                    {
                        self.found.items.push((module.to_vec(), name));
                    }
                    // A path that does not begin with an anchor: its later segments can be
                    // named `self` or `crate` nowhere, so it is passed over.
                    while is_path_sign(&tokens, at) && ident(&tokens, at + 2).is_some() {
                        at += 3;
                    }
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => at += 1,
            }
        }
    }

    /// `name;` or `name { ... }` after `mod`.
    fn declaration(
        &mut self,
        tokens: &[TokenTree],
        at: &mut usize,
        module: &[String],
        file: Option<String>,
    ) {
        let Some(name) = ident(tokens, *at) else { return };
        *at += 1;
        let child = [module, &[name]].concat();
        let body = group(tokens, *at, Delimiter::Brace).map(Group::stream);
        let inline = body.is_some();
        self.found.declared.push(Declaration { module: child.clone(), file, inline });
        if let Some(body) = body {
            *at += 1;
            self.items(body, &child);
        }
    }

    /// A tree of a `use` item behind its prefix, up to a comma or semicolon.
    fn use_tree(
        &mut self,
        tokens: &[TokenTree],
        at: &mut usize,
        module: &[String],
        prefix: &UsePrefix,
    ) {
        let mut prefix = prefix.clone();
        while let Some(token) = tokens.get(*at) {
            match token {
                TokenTree::Group(group) => {
                    *at += 1;
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    let mut inner_at = 0;
                    while inner_at < inner.len() {
                        self.use_tree(&inner, &mut inner_at, module, &prefix);
                        // The comma.
                        inner_at += 1;
                    }
                    return;
                }
                TokenTree::Punct(mark) if mark.as_char() == '*' => {
                    *at += 1;
                    prefix.push("*", mark.span().start().line);
                    self.used(module, &prefix, "*");
                    return;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => *at += 1,
                TokenTree::Ident(word) => {
                    prefix.push(&word.to_string(), word.span().start().line);
                    *at += 1;
                    if is_path_sign(tokens, *at) {
                        continue;
                    }
                    let mut name = prefix.name();
                    if ident(tokens, *at).is_some_and(|word| word == "as") {
                        name = ident(tokens, *at + 1).unwrap_or_default();
                        *at += 2;
                    }
                    self.used(module, &prefix, &name);
                    return;
                }
                _ => return,
            }
        }
    }

    fn used(&mut self, module: &[String], prefix: &UsePrefix, name: &str) {
        if let Some(path) = absolute(module, &prefix.segments) {
            self.found.imports.push(Import {
                line: prefix.line,
                module: module.to_vec(),
                path,
                relative: !prefix.segments.first().is_some_and(|first| is_anchor(first)),
                name: Some(name.to_owned()),
                exported: false,
            });
        }
    }

    /// A path outside of a `use` item that begins with an anchor.
    fn path(&mut self, tokens: &[TokenTree], at: &mut usize, module: &[String]) {
        let line = tokens[*at].span().start().line;
        let mut segments = Vec::new();
        while let Some(word) = ident(tokens, *at) {
            segments.push(word);
            *at += 1;
            if !is_path_sign(tokens, *at) {
                break;
            }
            *at += 2;
        }
        // `self.x` and `pub(crate)` are no paths.
        if segments.len() > 1
            && let Some(path) = absolute(module, &segments)
        {
            self.found.imports.push(Import {
                line,
                module: module.to_vec(),
                path,
                relative: false,
                name: None,
                exported: false,
            });
        }
    }
}

/// The part of a `use` item in front of a brace.
#[derive(Clone, Default)]
struct UsePrefix {
    segments: Vec<String>,
    /// Line of the last segment.
    line: usize,
}

impl UsePrefix {
    fn push(&mut self, segment: &str, line: usize) {
        self.segments.push(segment.to_owned());
        self.line = line;
    }

    /// The last name of the path: `a` for `a::self`.
    fn name(&self) -> String {
        let names = self.segments.iter().rev().find(|segment| *segment != "self");
        names.cloned().unwrap_or_default()
    }
}

fn is_anchor(word: &str) -> bool {
    matches!(word, "crate" | "self" | "super")
}

/// Whether a word is followed by the name of an item.
fn is_definition(word: &str) -> bool {
    matches!(
        word,
        "struct" | "enum" | "union" | "trait" | "type" | "fn" | "const" | "static" | "macro_rules"
    )
}

/// The segments below the crate's root. None if there are more `super`s than modules.
///
/// A path without anchor is relative to `module`: it names a child of `module` or another
/// crate, and the reader of the result tells which, by the names of the children.
fn absolute(module: &[String], segments: &[String]) -> Option<Vec<String>> {
    let mut path = module.to_vec();
    for (index, segment) in segments.iter().enumerate() {
        match segment.as_str() {
            "crate" if index == 0 => path.clear(),
            "super" => {
                path.pop()?;
            }
            "self" => {}
            _ => path.push(segment.clone()),
        }
    }
    Some(path)
}

fn ident(tokens: &[TokenTree], at: usize) -> Option<String> {
    match tokens.get(at) {
        Some(TokenTree::Ident(word)) => Some(word.to_string()),
        _ => None,
    }
}

fn group(tokens: &[TokenTree], at: usize, delimiter: Delimiter) -> Option<&Group> {
    match tokens.get(at) {
        Some(TokenTree::Group(group)) if group.delimiter() == delimiter => Some(group),
        _ => None,
    }
}

fn is_punct(tokens: &[TokenTree], at: usize, mark: char) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == mark)
}

/// Whether `::` stands at `at`.
fn is_path_sign(tokens: &[TokenTree], at: usize) -> bool {
    is_punct(tokens, at, ':') && is_punct(tokens, at + 1, ':')
}

/// The attributes in front of an item.
#[derive(Default)]
struct Attributes {
    /// Whether the item exists in test builds only.
    is_test: bool,
    file: Option<String>,
}

impl Attributes {
    fn read(tokens: &[TokenTree], at: &mut usize) -> Attributes {
        let mut attributes = Attributes::default();
        while is_punct(tokens, *at, '#') {
            let inner = usize::from(is_punct(tokens, *at + 1, '!'));
            let Some(group) = group(tokens, *at + 1 + inner, Delimiter::Bracket) else { break };
            *at += 2 + inner;
            let parts: Vec<TokenTree> = group.stream().into_iter().collect();
            match ident(&parts, 0).as_deref() {
                // Alone, or as a condition among others that all must hold. `any(test, ..)`
                // compiles the item into the product too.
                Some("cfg") => {
                    let condition = parts.get(1).map(ToString::to_string).unwrap_or_default();
                    let condition: String = condition.split_whitespace().collect();
                    attributes.is_test |= condition == "(test)"
                        || condition.starts_with("(all(test,")
                        || condition.starts_with("(all(") && condition.contains(",test");
                }
                Some("path") => {
                    let text = parts.get(2).map(ToString::to_string).unwrap_or_default();
                    attributes.file = Some(text.trim_matches('"').to_owned());
                }
                _ => {}
            }
        }
        attributes
    }
}

/// Skips `pub` or `pub(...)`; whether there was one.
fn skip_visibility(tokens: &[TokenTree], at: &mut usize) -> bool {
    if ident(tokens, *at).is_none_or(|word| word != "pub") {
        return false;
    }
    *at += 1;
    if group(tokens, *at, Delimiter::Parenthesis).is_some() {
        *at += 1;
    }
    true
}

/// Skips one item, statement, field, variant or arm.
fn skip_item(tokens: &[TokenTree], at: &mut usize) {
    skip_visibility(tokens, at);
    let word = ident(tokens, *at).unwrap_or_default();
    let ends_with_semicolon = matches!(word.as_str(), "use" | "const" | "static" | "let" | "type");
    let is_item = ends_with_semicolon
        || matches!(
            word.as_str(),
            "mod" | "fn" | "impl" | "struct" | "enum" | "trait" | "unsafe" | "async" | "extern"
        )
        || word == "macro_rules";
    // `const fn` is a function.
    let ends_with_semicolon =
        ends_with_semicolon && ident(tokens, *at + 1).is_none_or(|next| next != "fn");
    while let Some(token) = tokens.get(*at) {
        *at += 1;
        match token {
            TokenTree::Punct(mark) if mark.as_char() == ';' => return,
            TokenTree::Punct(mark) if mark.as_char() == ',' && !is_item => return,
            TokenTree::Group(group)
                if group.delimiter() == Delimiter::Brace && !ends_with_semicolon =>
            {
                return;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(source: &str, module: &str) -> Vec<(usize, String)> {
        let module = super::super::modules::module_path(module);
        let found = scan(source, &module).unwrap();
        found.imports.into_iter().map(|import| (import.line, import.path.join("::"))).collect()
    }

    fn one(source: &str, module: &str, path: &str) {
        assert_eq!(paths(source, module), [(1, path.to_owned())], "{source}");
    }

    #[test]
    fn use_items_and_inline_paths_are_found() {
        one("use crate::a::B;", "x", "a::B");
        one("pub(crate) use crate::a::B as C;", "x", "a::B");
        one("use crate::a::*;", "x", "a::*");
        one("fn f() { crate::a::g::<u8>(1); }", "x", "a::g");
        one("fn f(x: &[crate::a::T]) {}", "x", "a::T");
        one("fn f() { vec![crate::a::g()]; }", "x", "a::g");
        one("macro_rules! m { () => { $crate::a::g() } }", "x", "a::g");
    }

    #[test]
    fn trees_of_use_items_are_taken_apart() {
        let found = paths("use crate::{\n  a::{self, b::C},\n  d,\n};", "x");
        let expected = [(2, "a"), (2, "a::b::C"), (3, "d")];
        assert_eq!(found, expected.map(|(line, path)| (line, path.to_owned())));
    }

    #[test]
    fn self_and_super_are_resolved() {
        one("use super::b::C;", "x::y", "x::b::C");
        one("use super::super::b::C;", "x::y", "b::C");
        one("use self::b::C;", "x::y", "x::y::b::C");
        one("fn f() { super::super::b::c() }", "x::y", "b::c");
        one("mod inner { use super::super::b; }", "x", "b");
        one("use b::C;", "x", "x::b::C");
    }

    #[test]
    fn words_that_only_look_like_paths_are_not_found() {
        for source in [
            "//! [crate::a::B]",
            "/// crate::a::B\nfn f() {}",
            "fn f() { g(\"crate::a::B\"); }",
            "pub(crate) fn f(&self) { self.a }",
            "pub(in crate::a) struct S;",
            "fn f() { /* crate::a::b() */ }",
        ] {
            assert_eq!(paths(source, "x"), [], "{source}");
        }
    }

    #[test]
    fn test_code_is_exempt() {
        for source in [
            "#[cfg(test)] mod tests { use crate::a::B; }",
            "#[cfg(test)] use crate::{a::B, c};",
            "#[cfg(test)] #[allow(x)] pub fn f(x: u8, y: crate::a::B) { crate::a::g(); }",
            "#[cfg(test)] const fn f() { crate::a::g(); }",
            "#[cfg(test)] const X: [u8; 1] = { crate::a::B };",
            "#[cfg(all(test, target_os = \"linux\"))] impl crate::a::T for S {}",
            "struct S { #[cfg(test)] a: crate::a::B, }",
        ] {
            assert_eq!(paths(source, "x"), [], "{source}");
            let next = format!("{source}\nuse crate::c::D;");
            assert_eq!(paths(&next, "x"), [(2, "c::D".to_owned())], "{source}");
        }
        for source in
            ["#[cfg(any(test, x))] use crate::a::B;", "#[cfg(not(test))] use crate::a::B;"]
        {
            assert_eq!(paths(source, "x").len(), 1, "{source}");
        }
    }

    #[test]
    fn declarations_are_found() {
        let source = "mod a;\n#[cfg(test)] mod tests;\n#[path = \"c.rs\"] pub mod b;\nmod d {}";
        let found = scan(source, &["x".to_owned()]).unwrap().declared;
        let declared = |name: &str, file: Option<&str>, inline| Declaration {
            module: vec!["x".to_owned(), name.to_owned()],
            file: file.map(str::to_owned),
            inline,
        };
        let expected = [
            declared("a", None, false),
            declared("b", Some("c.rs"), false),
            declared("d", None, true),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn items_are_found() {
        let source = "pub struct A; const B: u8 = 1; mod m { enum C {} }";
        let items = scan(source, &[]).unwrap().items;
        let items: Vec<String> = items
            .into_iter()
            .map(|(module, item)| format!("{}.{item}", module.join("::")))
            .collect();
        assert_eq!(items, [".A", ".B", "m.C"]);
    }

    #[test]
    fn names_of_use_items_are_kept() {
        let found = scan("pub use a::{B, c as D, e::{self}};\nuse f::*;", &[]).unwrap().imports;
        let names: Vec<_> =
            found.iter().map(|import| (import.name.as_deref().unwrap(), import.exported)).collect();
        assert_eq!(names, [("B", true), ("D", true), ("e", true), ("*", false)]);
    }
}
