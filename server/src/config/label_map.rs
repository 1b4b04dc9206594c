//! Which fields of a message become which labels.
//!
//! The notation: pairs `label=field` with commas between them. A name alone is a field whose label
//! has the same name, made valid: `kubernetes.pod.name` is `kubernetes_pod_name=kubernetes.pod.name`.
//! A file may also have a list of such texts.
//!
//! Guarantees: label names are valid, and differ; the printed form reads as the same map. Fields
//! whose names have commas or equals signs cannot be named.

use logsvc_proto::push::metadata::{is_normal_name, write_name};

/// Pairs of a label and a field, in the order in which they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelMap {
    pairs: Vec<LabelOfField>,
}

/// One pair.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LabelOfField {
    label: String,
    field: String,
}

impl LabelMap {
    /// Reads pairs, one a text.
    ///
    /// # Errors
    /// The first fault, without the name of the setting.
    pub(crate) fn new<'t>(pairs: impl IntoIterator<Item = &'t str>) -> Result<LabelMap, String> {
        let mut map = LabelMap::default();
        for text in pairs {
            let pair = LabelOfField::parse(text.trim())?;
            if map.pairs.iter().any(|other| other.label == pair.label) {
                return Err(format!("the label {:?} is there twice", pair.label));
            }
            map.pairs.push(pair);
        }
        Ok(map)
    }

    /// The map whose notation is known to be right.
    ///
    /// # Panics
    /// If it is not. Every default is read by a test.
    pub(crate) fn default_of(pairs: &[&str]) -> LabelMap {
        LabelMap::new(pairs.iter().copied()).expect("a default is valid")
    }

    /// Labels with their fields, in the order in which they were given.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.pairs.iter().map(|pair| (pair.label.as_str(), pair.field.as_str()))
    }

    /// The pairs as texts of their own.
    pub(crate) fn to_pairs(&self) -> Vec<(String, String)> {
        self.iter().map(|(label, field)| (label.to_owned(), field.to_owned())).collect()
    }

    /// The label that a field becomes; of several the first.
    pub(crate) fn label_of(&self, field: &str) -> Option<&str> {
        self.iter().find(|&(_, of)| of == field).map(|(label, _)| label)
    }

    /// The notation of all pairs.
    pub(crate) fn print(&self) -> String {
        if self.pairs.is_empty() {
            return "[]".to_owned();
        }
        let pairs = self.pairs.iter().map(LabelOfField::print);
        pairs.collect::<Vec<_>>().join(",")
    }
}

impl LabelOfField {
    fn parse(text: &str) -> Result<LabelOfField, String> {
        let (label, field) = match text.split_once('=') {
            Some((label, field)) => (label.trim(), field.trim()),
            None => return LabelOfField::of_field(text),
        };
        if field.is_empty() {
            return Err(format!("{text:?} names no field"));
        }
        if !is_normal_name(label.as_bytes()) {
            return Err(format!("{label:?} in {text:?} is not a label name"));
        }
        Ok(LabelOfField { label: label.to_owned(), field: field.to_owned() })
    }

    /// A field whose label has the same name.
    fn of_field(field: &str) -> Result<LabelOfField, String> {
        let mut label = Vec::new();
        let is_named = write_name(field.as_bytes(), &mut label).is_ok();
        let label = String::from_utf8(label).ok().filter(|_| is_named);
        let label = label.ok_or_else(|| format!("{field:?} is not the name of a field"))?;
        Ok(LabelOfField { label, field: field.to_owned() })
    }

    fn print(&self) -> String {
        let is_short = LabelOfField::of_field(&self.field).is_ok_and(|short| short == *self);
        if is_short { self.field.clone() } else { format!("{}={}", self.label, self.field) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<LabelMap, String> {
        LabelMap::new(text.split(',').filter(|pair| !pair.is_empty()))
    }

    #[test]
    fn pairs_keep_their_order_and_names_alone_are_made_valid() {
        let map = read("unit=_SYSTEMD_UNIT, host.name ,pod=kubernetes.pod.name").unwrap();
        let pairs: Vec<_> = map.iter().collect();
        assert_eq!(
            pairs,
            [("unit", "_SYSTEMD_UNIT"), ("host_name", "host.name"), ("pod", "kubernetes.pod.name"),]
        );
        assert_eq!(map.to_pairs().len(), 3);
        assert_eq!(map.label_of("host.name"), Some("host_name"));
        assert_eq!(map.label_of("host_name"), None);
    }

    #[test]
    fn the_printed_form_reads_as_the_same_map() {
        for text in ["unit=_SYSTEMD_UNIT,host.name,pod=kubernetes.pod.name", "a", "a=b,c=b"] {
            let map = read(text).unwrap();
            assert_eq!(map.print(), text);
            assert_eq!(read(&map.print()).unwrap(), map);
        }
        assert_eq!(read("a=a").unwrap().print(), "a");
        assert_eq!(LabelMap::default().print(), "[]");
    }

    #[test]
    fn bad_pairs_are_refused() {
        for (text, fault) in [
            ("a-b=c", r#""a-b" in "a-b=c" is not a label name"#),
            ("=c", r#""" in "=c" is not a label name"#),
            ("9a=c", r#""9a" in "9a=c" is not a label name"#),
            ("a=", r#""a=" names no field"#),
            ("...", r#""..." is not the name of a field"#),
            ("a=b,a=c", r#"the label "a" is there twice"#),
            ("x.y,x_y", r#"the label "x_y" is there twice"#),
        ] {
            assert_eq!(read(text), Err(fault.to_owned()), "{text}");
        }
    }
}
