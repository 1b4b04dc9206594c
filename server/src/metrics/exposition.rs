//! The text of a scrape, in the two formats that there are.

use std::fmt::Write;

use super::histogram::Counted;

/// How metrics are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExpositionFormat {
    /// The text format of Prometheus, version 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl ExpositionFormat {
    /// The format that a client likes best, by its `Accept` header; text if it likes both
    /// alike or neither.
    pub(crate) fn of_accept(accept: &str) -> ExpositionFormat {
        let (mut open, mut text) = (0.0, 0.0);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            let quality = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok());
            let quality: f32 = quality.unwrap_or(1.0);
            match media_type {
                "application/openmetrics-text" => open = quality.max(open),
                "text/plain" | "text/*" | "*/*" => text = quality.max(text),
                _ => {}
            }
        }
        if open > text { ExpositionFormat::OpenMetrics } else { ExpositionFormat::Text }
    }

    /// The content type of the answer.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            ExpositionFormat::Text => {
                "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
            }
            ExpositionFormat::OpenMetrics => {
                "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores"
            }
        }
    }
}

/// Text in the making.
pub(super) struct Exposition {
    text: String,
    format: ExpositionFormat,
}

impl Exposition {
    pub(super) fn new(format: ExpositionFormat) -> Exposition {
        Exposition { text: String::with_capacity(16 << 10), format }
    }

    pub(super) fn into_text(mut self) -> String {
        if self.format == ExpositionFormat::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let is_open = self.format == ExpositionFormat::OpenMetrics;
        // The suffix of a counter belongs to its sample there, not to its family.
        let suffix = if is_open && kind == "counter" { "_total" } else { "" };
        let name = name.strip_suffix(suffix).unwrap_or(name);
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(super) fn single(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.family(name, kind, help);
        self.sample(name, &[], value as f64);
    }

    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(name);
        if !labels.is_empty() {
            self.text.push('{');
            for (index, (label, text)) in labels.iter().enumerate() {
                let comma = if index == 0 { "" } else { "," };
                let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                let _ = write!(self.text, "{comma}{label}=\"{text}\"");
            }
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// Writes a histogram of microseconds in seconds.
    pub(super) fn histogram(&mut self, name: &str, labels: &[(&str, &str)], counted: &Counted) {
        self.histogram_in(name, labels, counted, 1e6);
    }

    /// Writes a histogram whose values are divided by `unit`.
    pub(super) fn histogram_in(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        counted: &Counted,
        unit: f64,
    ) {
        let mut cumulative = 0;
        for (index, count) in counted.counts.iter().enumerate() {
            cumulative += count;
            let bound = counted.bounds.get(index);
            let bound = bound.map(|&bound| (bound as f64 / unit).to_string());
            let mut labels = labels.to_vec();
            let bound = bound.as_deref().unwrap_or("+Inf");
            labels.push(("le", bound));
            self.sample(&format!("{name}_bucket"), &labels, cumulative as f64);
        }
        self.sample(&format!("{name}_sum"), labels, counted.sum as f64 / unit);
        self.sample(&format!("{name}_count"), labels, cumulative as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_the_format_that_they_like_best() {
        for (accept, format) in [
            ("", ExpositionFormat::Text),
            ("*/*", ExpositionFormat::Text),
            ("application/openmetrics-text", ExpositionFormat::OpenMetrics),
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3,*/*;q=0.2",
                ExpositionFormat::OpenMetrics,
            ),
            ("text/plain, application/openmetrics-text; q=0.9", ExpositionFormat::Text),
            ("application/openmetrics-text; q=0, image/png", ExpositionFormat::Text),
            ("application/openmetrics-text; q=x, */*", ExpositionFormat::Text),
        ] {
            assert_eq!(ExpositionFormat::of_accept(accept), format, "{accept}");
        }
    }

    #[test]
    fn open_metrics_names_the_family_of_a_counter_without_its_suffix() {
        let written = |format| {
            let mut out = Exposition::new(format);
            out.single("pushes_total", "counter", "Pushes.", 3);
            out.single("streams", "gauge", "Streams.", 4);
            out.into_text()
        };
        let text = "# HELP pushes_total Pushes.\n# TYPE pushes_total counter\npushes_total 3\n\
                    # HELP streams Streams.\n# TYPE streams gauge\nstreams 4\n";
        assert_eq!(written(ExpositionFormat::Text), text);
        let open = "# HELP pushes Pushes.\n# TYPE pushes counter\npushes_total 3\n\
                    # HELP streams Streams.\n# TYPE streams gauge\nstreams 4\n# EOF\n";
        assert_eq!(written(ExpositionFormat::OpenMetrics), open);
    }
}
