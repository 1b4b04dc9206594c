//! Bodies of fuzz targets over decoders that this crate keeps to itself.

/// Reads the bytes as a segment of a sample log.
///
/// # Panics
/// If a sample changes when it is written anew.
pub fn sample_segment(data: &[u8]) {
    crate::remote::fuzz_segment(data);
}

/// Reads the bytes as a receiver's position in a sample log.
///
/// # Panics
/// If it changes when it is written anew.
pub fn sample_position(data: &[u8]) {
    crate::remote::fuzz_position(data);
}

/// Reads the bytes as a file with a stored rule group.
///
/// # Panics
/// If the group changes when it is written anew.
pub fn stored_group(data: &[u8]) {
    crate::store::fuzz_stored_group(data);
}

/// Reads the bytes as the YAML of a group, and as that of a rule file.
///
/// # Panics
/// If a group changes when it is written anew.
pub fn group_yaml(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let groups = crate::yaml::read_group(text).into_iter();
    for read in groups.chain(crate::yaml::read_file(text).into_iter().flatten()) {
        let is_one_kind =
            |rule: &crate::yaml::ReadRule| rule.record.is_empty() != rule.alert.is_empty();
        if !read.rules.iter().all(is_one_kind) {
            continue;
        }
        let group = read.into_group();
        let again = crate::yaml::read_group(&crate::yaml::write_group(&group));
        assert_eq!(again.map(crate::yaml::ReadGroup::into_group), Ok(group));
    }
}
