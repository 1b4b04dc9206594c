//! Compares the imports of a crate with the order of its modules.

use super::imports::Import;
use super::modules::{Target, Tree, module_path};
use super::order::{Order, PARENT};
use std::collections::BTreeMap;

/// Where a module lies: the floor, and the part of the floor. Modules of one part import each
/// other.
type Place = (usize, usize);

/// Every breach of one order, in words.
pub(super) fn faults(tree: &Tree, order: &Order) -> Vec<String> {
    let parent = module_path(order.module);
    let name = [&[order.krate.to_owned()], parent.as_slice()].concat().join("::");
    let mut faults = Vec::new();
    let mut floors = BTreeMap::new();
    for (floor, names) in order.floors.iter().enumerate() {
        for (part, names) in names.split_whitespace().enumerate() {
            for module in names.split('+') {
                if floors.insert(module, (floor, part)).is_some() {
                    faults.push(format!("{module} has two places in the order of {name}"));
                }
            }
        }
    }
    let children = tree.children(&parent);
    for child in &children {
        if !floors.contains_key(child) {
            let file = tree.declaring_file(&parent, child);
            faults.push(format!("{file}: {child} has no place in the order of {name}"));
        }
    }
    for module in floors.keys().filter(|name| **name != PARENT && !children.contains(*name)) {
        faults.push(format!("the order of {name} lists {module}, which does not exist"));
    }
    for found in &tree.imports {
        if let Some(words) = judge(tree, &parent, &floors, &found.import) {
            faults.push(format!("{}:{}: {words}", found.file, found.import.line));
        }
    }
    // One line can name several items of one module.
    faults.dedup();
    faults
}

/// The part of `parent` in which an import stands, and the other part of it that the import
/// needs. None for an import that an order does not judge.
pub(super) fn arrow(tree: &Tree, parent: &[String], import: &Import) -> Option<(String, String)> {
    let inside = import.module.strip_prefix(parent)?;
    // The module at the top gives names of its children to others.
    if inside.is_empty() && import.exported || tree.is_foreign(import) {
        return None;
    }
    let from = inside.first().map_or(PARENT, String::as_str).to_owned();
    let target = match tree.target(parent, &import.path) {
        Target::Child(child) => child,
        Target::Parent => PARENT.to_owned(),
        Target::Elsewhere => return None,
    };
    (target != from).then_some((from, target))
}

/// The fault of an import.
fn judge(
    tree: &Tree,
    parent: &[String],
    floors: &BTreeMap<&str, Place>,
    import: &Import,
) -> Option<String> {
    let (from, target) = arrow(tree, parent, import)?;
    // Without a place the parent lies above all of its children.
    let floor = |name: &str| match floors.get(name) {
        Some(floor) => Some(*floor),
        None => (name == PARENT).then_some((usize::MAX, 0)),
    };
    // A module without a place is a fault of its own.
    let (low, high) = (floor(&from)?, floor(&target)?);
    if low == high {
        return None;
    }
    let whole = |name: &str| match (name, parent) {
        (PARENT, []) => "the crate's root".to_owned(),
        (PARENT, _) => parent.join("::"),
        (_, _) => [parent, &[name.to_owned()]].concat().join("::"),
    };
    let (from, target) = (whole(&from), whole(&target));
    match low.0.cmp(&high.0) {
        std::cmp::Ordering::Less => {
            Some(format!("{from} must not import {target}, which lies above it"))
        }
        std::cmp::Ordering::Equal => {
            Some(format!("{from} must not import {target}, which lies beside it"))
        }
        std::cmp::Ordering::Greater => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: Order = Order { krate: "x", module: "", floors: &["low", "left right", "high"] };

    fn found(sources: &[(&str, &str)], order: &Order) -> Vec<String> {
        faults(&Tree::of(sources), order)
    }

    /// Faults of a crate of four modules whose `module` has one more line.
    fn with(module: &str, line: &str) -> Vec<String> {
        let root = "mod low; mod left; mod right; mod high; pub use high::High; struct Own;";
        let text = |name: &str| if name == module { format!("\n{line}") } else { String::new() };
        let low = text("low");
        let left = text("left");
        let high = format!("pub struct High; {}", text("high"));
        found(&[("", root), ("low", &low), ("left", &left), ("right", ""), ("high", &high)], &ORDER)
    }

    #[test]
    fn imports_run_downward() {
        for (module, line) in [
            ("high", "use crate::low::X; use super::left::Y;"),
            ("left", "fn f() { crate::low::g(); }"),
            ("low", "use self::inner::X; mod inner {}"),
            ("low", "#[cfg(test)] mod tests { use crate::high::X; }"),
            ("low", "/// See [crate::high].\nconst S: &str = \"crate::high\";"),
            ("low", "use high::External;"),
        ] {
            assert_eq!(with(module, line), [""; 0], "{line}");
        }
    }

    #[test]
    fn a_lower_module_must_not_import_a_higher_one() {
        for line in [
            "use crate::high::X;",
            "use super::high::X;",
            "use crate::{high::X};",
            "use crate::High;",
            "use super::High;",
            "fn f() { crate::high::g(); }",
            "mod inner { use super::super::high::X; }",
            "fn f() { println!(\"{}\", super::high::X); }",
        ] {
            let expected = "low.rs:2: low must not import high, which lies above it";
            assert_eq!(with("low", line), [expected], "{line}");
        }
    }

    #[test]
    fn modules_of_one_floor_do_not_import_each_other() {
        let expected = "left.rs:2: left must not import right, which lies beside it";
        assert_eq!(with("left", "use crate::right::X;"), [expected]);
    }

    #[test]
    fn modules_of_one_part_import_each_other() {
        let order = Order { krate: "x", module: "", floors: &["low", "left+right other"] };
        let sources = |left: &'static str| {
            let root = ("", "mod low; mod left; mod right; mod other;");
            [root, ("left", left), ("right", "use crate::left::X;"), ("low", ""), ("other", "")]
        };
        assert_eq!(found(&sources("use crate::right::X;"), &order), [""; 0]);
        let expected = "left.rs:1: left must not import other, which lies beside it";
        assert_eq!(found(&sources("use crate::other::X;"), &order), [expected]);
    }

    #[test]
    fn items_of_the_root_lie_above_unless_the_order_lists_it() {
        let expected = "low.rs:2: low must not import the crate's root, which lies above it";
        assert_eq!(with("low", "use crate::Own;"), [expected]);
        let order = Order { krate: "x", module: "", floors: &["self", "low", "high"] };
        let sources =
            [("", "mod low; mod high; struct Own;"), ("low", "use super::Own;"), ("high", "")];
        assert_eq!(found(&sources, &order), [""; 0]);
        let sources = [("", "mod low; mod high; use low::X;"), ("low", ""), ("high", "")];
        let expected = "lib.rs:1: the crate's root must not import low, which lies above it";
        assert_eq!(found(&sources, &order), [expected]);
    }

    #[test]
    fn the_order_and_the_modules_agree() {
        let sources = [("", "mod low; mod left; mod new; mod high;")];
        assert_eq!(
            found(&sources, &ORDER),
            [
                "lib.rs: new has no place in the order of x",
                "the order of x lists right, which does not exist",
            ]
        );
        let twice = Order { krate: "x", module: "", floors: &["a", "b a"] };
        let expected = "a has two places in the order of x";
        assert_eq!(found(&[("", "mod a; mod b;")], &twice), [expected]);
    }

    #[test]
    fn a_folder_has_an_order_of_its_own() {
        let order = Order { krate: "x", module: "room", floors: &["base", "top"] };
        let sources = |base: &'static str| {
            [
                ("", "mod room; mod other;"),
                ("room", "mod base; mod top; use top::T;"),
                ("room::base", base),
            ]
        };
        assert_eq!(found(&sources("use crate::other::X;"), &order), [""; 0]);
        for line in ["use super::top::X;", "use crate::room::top::X;", "use super::T;"] {
            let expected =
                "room/base.rs:1: room::base must not import room::top, which lies above it";
            assert_eq!(found(&sources(line), &order), [expected], "{line}");
        }
        let expected = "room/base.rs:1: room::base must not import room, which lies above it";
        assert_eq!(found(&sources("use super::Room;"), &order), [expected]);
    }
}
