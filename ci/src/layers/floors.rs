//! Derives an order of modules from their imports, as a draft for the table of orders.

use super::judge;
use super::modules::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// The floors below `parent`, from the bottom, each with its modules. Modules that import each
/// other in a circle are one word, with `+` between them.
pub(super) fn derive(tree: &Tree, parent: &[String]) -> Vec<String> {
    let mut needs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for child in tree.children(parent) {
        needs.entry(child.to_owned()).or_default();
    }
    for found in &tree.imports {
        if let Some((from, target)) = judge::arrow(tree, parent, &found.import) {
            needs.entry(target.clone()).or_default();
            needs.entry(from).or_default().insert(target);
        }
    }
    let reached = reach(&needs);
    let mut floors: Vec<BTreeSet<String>> = Vec::new();
    let mut placed = BTreeSet::new();
    while placed.len() < needs.len() {
        // A module is ready if all modules that it needs are placed, apart from modules that need
        // it, too.
        let ready: Vec<&String> = needs
            .keys()
            .filter(|module| !placed.contains(*module))
            .filter(|module| {
                let mut others = reached[*module].iter().filter(|other| !placed.contains(*other));
                others.all(|other| reached[other].contains(*module))
            })
            .collect();
        let circle = |module: &String| -> String {
            let both = reached[module].iter().filter(|other| reached[*other].contains(module));
            let mut names: BTreeSet<&str> = both.map(String::as_str).collect();
            names.insert(module);
            names.into_iter().collect::<Vec<_>>().join("+")
        };
        floors.push(ready.iter().map(|module| circle(module)).collect());
        placed.extend(ready);
    }
    floors.into_iter().map(|floor| floor.into_iter().collect::<Vec<_>>().join(" ")).collect()
}

/// Everything that each module needs, directly or through others.
fn reach(needs: &BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, BTreeSet<String>> {
    let mut reached = needs.clone();
    loop {
        let mut grown = false;
        for module in needs.keys() {
            let direct: Vec<String> = reached[module].iter().cloned().collect();
            let further: BTreeSet<String> =
                direct.iter().flat_map(|other| reached[other].iter().cloned()).collect();
            let known = reached.entry(module.clone()).or_default();
            let before = known.len();
            known.extend(further);
            grown |= known.len() > before;
        }
        if !grown {
            return reached;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_follow_the_imports() {
        let tree = Tree::of(&[
            ("", "mod a; mod b; mod c; mod d; mod e;"),
            ("b", "use crate::a::X;"),
            ("c", "use crate::{b::X, d::Y};"),
            ("d", "use crate::c::X;"),
            ("e", "use crate::d::X;"),
        ]);
        assert_eq!(derive(&tree, &[]), ["a", "b", "c+d", "e"]);
    }
}
