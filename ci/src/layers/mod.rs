//! The layers: which crate may depend on which, and which module may import which.
//!
//! - [`crates`]: the arrows between crates.
//! - [`order`]: the modules of a crate in their order, from the bottom. [`modules`] finds
//!   each module of a crate with its [`imports`], and [`judge`] reports an import that runs
//!   upward, a module without a place, and a place without a module.
//! - [`floors`] derives an order from the imports, as a draft for the table.
//! - [`borders`]: no source file is compiled into another crate by its path.
//!
//! Each fault names file and line.

mod borders;
mod crates;
mod floors;
mod imports;
mod judge;
mod modules;
mod order;

use anyhow::{Result, bail};
use modules::Tree;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

/// Runs the check on the workspace.
pub(crate) fn check() -> Result<()> {
    let mut faults = crates::faults()?;
    let mut trees: BTreeMap<&str, Tree> = BTreeMap::new();
    for order in order::ORDERS {
        let tree = match trees.entry(order.krate) {
            Entry::Occupied(tree) => tree.into_mut(),
            Entry::Vacant(place) => place.insert(modules::read(Path::new(order.krate))?),
        };
        faults.extend(judge::faults(tree, order));
    }
    faults.extend(borders::faults()?);
    if !faults.is_empty() {
        bail!("layers: {} faults\n  {}", faults.len(), faults.join("\n  "));
    }
    println!("ci: layers hold");
    Ok(())
}

/// Prints the floors of the modules directly below a module, as the imports have them.
pub(crate) fn print_floors(krate: &Path, module: &str) -> Result<()> {
    let tree = modules::read(krate)?;
    for floor in floors::derive(&tree, &modules::module_path(module)) {
        println!("{floor}");
    }
    Ok(())
}
