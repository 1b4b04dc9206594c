//! Whether a tenant may delete entries, and what becomes of them.

use super::choice::Choice;

/// What requests for deletion of a tenant do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum DeletionMode {
    /// None can be made. Those that are there go on hiding entries.
    #[default]
    Disabled,
    /// They hide entries for ever.
    FilterOnly,
    /// They hide entries until these are removed from the disk.
    FilterAndDelete,
}

impl DeletionMode {
    /// Sets the mode by the setting from the time when there were two modes.
    pub(super) fn allow(&mut self, is_allowed: bool) {
        *self = if is_allowed { DeletionMode::FilterAndDelete } else { DeletionMode::Disabled };
    }

    /// The same setting's value.
    pub(super) fn is_allowed(self) -> bool {
        self == DeletionMode::FilterAndDelete
    }
}

impl Choice for DeletionMode {
    fn words(&self) -> &'static str {
        "disabled|filter-only|filter-and-delete"
    }

    fn word(&self) -> &'static str {
        match self {
            DeletionMode::Disabled => "disabled",
            DeletionMode::FilterOnly => "filter-only",
            DeletionMode::FilterAndDelete => "filter-and-delete",
        }
    }

    fn choose(&mut self, word: &str) -> bool {
        *self = match word {
            "disabled" => DeletionMode::Disabled,
            "filter-only" => DeletionMode::FilterOnly,
            "filter-and-delete" => DeletionMode::FilterAndDelete,
            _ => return false,
        };
        true
    }

    fn fault(&self, _word: &str) -> String {
        format!("unknown deletion mode: must be one of {}", self.words())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Machine, load_text};
    use super::*;

    fn config_of(text: &str) -> Result<Config, String> {
        let machine = Machine { cores: 1, memory_bytes: Ok(8 << 30), limited_by: None };
        let loaded = load_text(text, &[], &machine).map_err(|errors| errors.to_string())?;
        assert!(loaded.1.is_empty(), "{:?}", loaded.1);
        Ok(loaded.0)
    }

    #[test]
    fn the_nearest_setting_gives_the_mode() {
        use DeletionMode::{Disabled, FilterAndDelete, FilterOnly};
        for (text, mode) in [
            ("{}", Disabled),
            ("limits_config: {deletion_mode: filter-only}", FilterOnly),
            ("limits_config: {allow_deletes: true}", FilterAndDelete),
            ("limits_config: {allow_deletes: false}", Disabled),
            ("limits_config: {deletion_mode: filter-only, allow_deletes: true}", FilterOnly),
            ("compactor: {deletion_mode: filter-only}", FilterOnly),
            ("compactor: {allow_deletes: true}", FilterAndDelete),
            ("compactor: {deletion_mode: filter-only, allow_deletes: true}", FilterOnly),
            (
                "{limits_config: {deletion_mode: disabled}, compactor: {deletion_mode: filter-only}}",
                Disabled,
            ),
            ("{limits_config: {allow_deletes: false}, compactor: {allow_deletes: true}}", Disabled),
        ] {
            let config = config_of(text).expect(text);
            assert_eq!(config.limits.deletion_mode, mode, "{text}");
        }
    }

    #[test]
    fn unknown_modes_are_refused() {
        for path in ["limits_config", "compactor"] {
            let text = format!("{path}: {{deletion_mode: filter}}");
            let error = config_of(&text).expect_err("no mode");
            let expected = "unknown deletion mode: must be one of \
                            disabled|filter-only|filter-and-delete";
            assert!(error.contains(&format!("{path}.deletion_mode: {expected}")), "{error}");
        }
        let error = config_of("compactor: {delete_batch_size: 0}").expect_err("no batch");
        assert!(error.contains("compactor.delete_batch_size: must be more than 0"), "{error}");
    }
}
