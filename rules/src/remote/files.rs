//! The files that are open for appending, of all tenants.
//!
//! At most [`MAX_OPEN`] are open. The one that was used longest ago is closed for another one, and
//! is opened again when its tenant appends again.

use std::collections::BTreeMap;
use std::rc::Rc;

use logsvc_proto::TenantId;

/// Most segments that are open for appending.
pub(super) const MAX_OPEN: usize = 64;

pub(super) struct OpenFiles<F> {
    files: BTreeMap<TenantId, (u64, Rc<F>)>,
    uses: u64,
}

impl<F> OpenFiles<F> {
    pub(super) fn new() -> OpenFiles<F> {
        OpenFiles { files: BTreeMap::new(), uses: 0 }
    }

    /// The open file of a tenant.
    pub(super) fn get(&mut self, tenant: &TenantId) -> Option<Rc<F>> {
        self.uses += 1;
        let (used, file) = self.files.get_mut(tenant)?;
        *used = self.uses;
        Some(Rc::clone(file))
    }

    /// Keeps the file of a tenant open.
    pub(super) fn put(&mut self, tenant: TenantId, file: Rc<F>) {
        self.uses += 1;
        self.files.insert(tenant, (self.uses, file));
        if self.files.len() > MAX_OPEN {
            let oldest = self.files.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(tenant) = oldest.map(|(tenant, _)| tenant.clone()) {
                self.files.remove(&tenant);
            }
        }
    }

    /// Closes the file of a tenant.
    pub(super) fn close(&mut self, tenant: &TenantId) {
        self.files.remove(tenant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(number: usize) -> TenantId {
        TenantId::new(&format!("t{number}")).unwrap()
    }

    #[test]
    fn the_file_that_was_used_longest_ago_is_closed() {
        let mut files = OpenFiles::new();
        for number in 0..MAX_OPEN {
            files.put(tenant(number), Rc::new(number));
        }
        assert_eq!(files.get(&tenant(0)).as_deref(), Some(&0));
        files.put(tenant(MAX_OPEN), Rc::new(MAX_OPEN));
        assert_eq!(files.files.len(), MAX_OPEN);
        assert!(files.get(&tenant(1)).is_none());
        assert!(files.get(&tenant(0)).is_some());
        files.close(&tenant(0));
        assert!(files.get(&tenant(0)).is_none());
    }
}
