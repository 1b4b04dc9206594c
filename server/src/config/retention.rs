//! The retention policy that the shards get, from the settings and the limits of tenants.
//!
//! A tenant whose periods equal the common ones has no row of its own in the policy.

use logsvc_shards::retention::{RetentionPolicy, TenantPeriods};

use super::{Config, Limits, LimitsOfTenants};

impl Limits {
    fn periods(&self) -> TenantPeriods {
        TenantPeriods {
            period_ns: (self.retention_period_ns > 0).then_some(self.retention_period_ns),
            streams: self.retention_stream.rules().to_vec(),
        }
    }

    fn has_periods_of(&self, other: &Limits) -> bool {
        self.retention_period_ns == other.retention_period_ns
            && self.retention_stream == other.retention_stream
    }
}

/// The retention periods of all tenants and the limits of the disk, for the shards.
pub(crate) fn policy(config: &Config, limits: &LimitsOfTenants) -> RetentionPolicy {
    let others = limits.others();
    let own = limits.own().filter(|(_, own)| !own.has_periods_of(others));
    let is_set = |number: u64| (number > 0).then_some(number);
    RetentionPolicy {
        periods: config.retention_enabled.then(|| others.periods()),
        tenants: own.map(|(tenant, own)| (tenant.clone(), own.periods())).collect(),
        disk_max_bytes: is_set(config.retention_max_disk_bytes),
        disk_max_percent: is_set(config.retention_max_disk_percent.into()).map(|p| p as f64),
    }
}

#[cfg(test)]
mod tests {
    use logsvc_proto::{Labels, TenantId};

    use super::super::{Machine, StreamRetention, load_text};
    use super::*;

    fn loaded(text: &str) -> Result<Config, String> {
        let machine = Machine { cores: 1, memory_bytes: Ok(8 << 30), limited_by: None };
        let loaded = load_text(text, &[], &machine).map_err(|errors| errors.to_string())?;
        assert!(loaded.1.is_empty(), "{:?}", loaded.1);
        Ok(loaded.0)
    }

    fn policy(config: &Config) -> RetentionPolicy {
        super::policy(config, &LimitsOfTenants::same_for_all(config.limits.clone()))
    }

    #[test]
    fn tenants_have_periods_of_their_own() {
        let text = "{compactor: {retention_enabled: true}, limits_config: {retention_period: 48h}}";
        let config = loaded(text).expect("a valid file");
        let tenant = |name| TenantId::new(name).expect("a tenant");
        let mut limits = LimitsOfTenants::same_for_all(config.limits.clone());
        limits.set(tenant("a"), Limits { retention_period_ns: 0, ..config.limits.clone() });
        limits.set(tenant("b"), Limits { max_query_series: 1, ..config.limits.clone() });
        let rules = r#"[{"selector": "{x=\"y\"}", "period": "24h"}]"#;
        let retention_stream = StreamRetention::parse(rules).expect("valid rules");
        limits.set(tenant("c"), Limits { retention_stream, ..config.limits.clone() });
        let policy = super::policy(&config, &limits);
        let labels = Labels::from_pairs([("x", "y")]).expect("valid labels");
        let of = |name| policy.of_stream(&tenant(name), &labels).map(|ns| ns / HOUR_NS);
        assert_eq!((of("a"), of("b"), of("c"), of("d")), (None, Some(48), Some(24), Some(48)));
        assert_eq!(policy.tenants.len(), 2, "b differs in something else");
    }

    const HOUR_NS: i64 = 3_600_000_000_000;

    #[test]
    fn a_file_of_the_reference_gives_its_periods() {
        let text = "
compactor:
  retention_enabled: true
limits_config:
  retention_period: 744h
  retention_stream:
  - selector: '{namespace=\"dev\"}'
    priority: 1
    period: 24h
  - selector: '{container=~\"nginx|api\"}'
    priority: 2
    period: 2d
";
        let config = loaded(text).expect("a valid file");
        let policy = policy(&config);
        let tenant = TenantId::new("any").expect("a tenant");
        let of = |pairs: &[(&str, &str)]| {
            let labels = Labels::from_pairs(pairs.iter().copied()).expect("valid labels");
            policy.of_stream(&tenant, &labels).map(|ns| ns / HOUR_NS)
        };
        assert_eq!(of(&[("namespace", "dev")]), Some(24));
        assert_eq!(of(&[("namespace", "dev"), ("container", "api")]), Some(48));
        assert_eq!(of(&[("namespace", "prod")]), Some(744));
        let text = text.replace("retention_enabled: true", "retention_enabled: false");
        let off = self::policy(&loaded(&text).expect("a valid file"));
        assert!(off.periods.is_none());
    }

    #[test]
    fn nothing_goes_unless_it_is_said() {
        let policy = policy(&loaded("").expect("a valid file"));
        assert!(policy.periods.is_none());
        assert_eq!((policy.disk_max_bytes, policy.disk_max_percent), (None, None));
        let text = "retention: {max_disk_bytes: 3GB, max_disk_percent: 80}";
        let policy = self::policy(&loaded(text).expect("a valid file"));
        assert_eq!((policy.disk_max_bytes, policy.disk_max_percent), (Some(3 << 30), Some(80.0)));
    }

    #[test]
    fn periods_and_selectors_that_cannot_be_are_refused() {
        for (text, expected) in [
            (
                "limits_config: {retention_stream: [{selector: '{a=\"b\"}', period: 23h}]}",
                "limits_config.retention_stream: retention period must be >= 24h was 23h",
            ),
            (
                "limits_config: {retention_period: 1h}",
                "limits_config.retention_period: retention period must be >= 24h was 1h",
            ),
            ("limits_config: {retention_stream: [{selector: 'x', period: 24h}]}", "selector \"x\""),
            (
                "limits_config: {retention_stream: [{selector: '{a=\"b\"}', period: soon}]}",
                "\"soon\" is not a duration",
            ),
            ("limits_config: {retention_stream: [{period: 24h}]}", "missing field `selector`"),
            ("limits_config: {retention_stream: {period: 24h}}", "must be a list"),
            ("retention: {max_disk_percent: 101}", "retention.max_disk_percent: at most 100"),
        ] {
            let error = loaded(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
