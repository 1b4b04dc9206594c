use logsvc_proto::Labels;

use super::*;

fn final_set(labels: &EntryLabels) -> Vec<(String, Category, String)> {
    let mut out = Vec::new();
    labels.for_each_final(|name, category, value| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        out.push((text(labels.name(name)), category, text(value)));
    });
    out.sort();
    out
}

fn started() -> EntryLabels {
    let mut labels = EntryLabels::new();
    let stream = Labels::from_pairs([("app", "t"), ("env", "p")]).expect("valid");
    let base = labels.base(&stream);
    labels.start(&base);
    labels
}

fn owned(name: &str, category: Category, value: &str) -> (String, Category, String) {
    (name.to_owned(), category, value.to_owned())
}

#[test]
fn metadata_that_collides_with_the_stream_is_renamed() {
    let mut labels = started();
    labels.add_metadata([("app", "meta"), ("n", "5")].into_iter());
    assert_eq!(
        final_set(&labels),
        [
            owned("app", Category::Stream, "t"),
            owned("app_extracted", Category::Metadata, "meta"),
            owned("env", Category::Stream, "p"),
            owned("n", Category::Metadata, "5"),
        ]
    );
}

#[test]
fn error_metadata_goes_to_the_error_label() {
    let mut labels = started();
    labels.add_metadata([("__error__", "E")].into_iter());
    assert_eq!(labels.get(ERROR), None);
    assert_eq!(labels.error(), Some(&b"E"[..]));
    assert_eq!(final_set(&labels)[0], owned("__error__", Category::Parsed, "E"));
}

#[test]
fn written_labels_hide_stream_labels_and_metadata() {
    let mut labels = started();
    labels.add_metadata([("trace", "abc")].into_iter());
    let (app, trace) = (labels.name_id(b"app"), labels.name_id(b"trace"));
    let suffixed = labels.extraction_name(trace);
    assert_eq!(labels.name(suffixed), b"trace_extracted");
    labels.set(app, b"new");
    labels.set(trace, b"t2");
    assert_eq!(labels.get(app), Some(&b"new"[..]));
    assert_eq!(
        final_set(&labels),
        [
            owned("app", Category::Parsed, "new"),
            owned("env", Category::Stream, "p"),
            owned("trace", Category::Parsed, "t2"),
        ]
    );
    labels.delete(app);
    assert_eq!(labels.get(app), None);
    assert_eq!(
        labels.target(b"app_extracted").map(|id| labels.name(id).to_vec()),
        Some(b"app_extracted".to_vec())
    );
    assert!(labels.known(app).is_claimed);
    assert_eq!(labels.extraction_name(app), labels.name_id(b"app_extracted"));
}

#[test]
fn details_without_an_error_show_only_beside_another_change() {
    let mut labels = started();
    labels.set_error(b"", b"d");
    assert_eq!(final_set(&labels).len(), 2);
    let x = labels.name_id(b"x");
    labels.set(x, b"");
    assert_eq!(final_set(&labels).len(), 4);
    labels.set_error(b"E", b"d");
    assert_eq!(final_set(&labels)[0], owned("__error__", Category::Parsed, "E"));
}
