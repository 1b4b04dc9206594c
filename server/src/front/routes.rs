//! The table of routes: one row for each endpoint.
//!
//! A row is everything that the server knows of a route: the name under which its requests are
//! counted, the methods, the paths, its [`Traits`], and its handler. A node of a cluster has the rows
//! that its parts expose. Routing, metrics,
//! compression, the check of web pages of other sites, and the landing page follow from it.
//! An endpoint is added with a handler in its room, a row here, and its place in the reference
//! (`docs/api.md`), which a test looks for.

use http::{Method, StatusCode};
use logsvc_http::{PathParams, Request, Response, Router};
use logsvc_proto::error::ApiError;
use logsvc_proto::push::json::Dialect as JsonDialect;
use logsvc_runtime::Runtime;

use super::Front;
use super::core::errors::error_response;
use super::cross_site::CrossSite;
use super::gate::Right;
use super::ingest::lines::LinesDialect;
use super::operate::{admin, operations, pages, web_page};
use super::{ingest, tail};
use crate::config::targets::{self, Part, Parts};

/// The purpose of a route, by which requests of several routes are treated alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// Takes log entries: large bodies, whose length or encoding the client must tell.
    Push,
    /// The same, with errors as clients of OpenTelemetry read them.
    OtlpPush,
    /// The same, with errors as clients of Elasticsearch read them.
    ElasticPush,
    /// Answers questions of these clients.
    ElasticPage,
    /// Answers with results, which may be compressed and may be Parquet files.
    Query,
    /// Answers with lists and sums, which may be compressed and are never Parquet files.
    Lookup,
    /// Anything else.
    Operate,
}

/// How requests of a route are treated before and after its handler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traits {
    pub(super) class: Class,
    /// Whether the route works before the write-ahead logs are replayed.
    before_ready: bool,
    pub(super) cross_site: CrossSite,
    /// Which accounts it is for.
    pub(super) right: Right,
    /// Whether the handler takes the body while it arrives.
    pub(super) is_streamed: bool,
    /// Whether one of many nodes answers its requests for all.
    pub(super) is_kept_by_one: bool,
    /// Nodes of a cluster with one of these parts have the route; `None`: all nodes have it.
    exposed_by: Option<Parts>,
    /// Links of the landing page: the text behind the path, and the purpose of the page.
    links: &'static [(&'static str, &'static str)],
}

impl Traits {
    const fn of(class: Class) -> Traits {
        Traits {
            class,
            before_ready: false,
            cross_site: CrossSite::Allowed,
            right: Right::Account,
            is_streamed: false,
            is_kept_by_one: false,
            exposed_by: None,
            links: &[],
        }
    }

    const fn before_ready(self) -> Traits {
        Traits { before_ready: true, ..self }
    }

    const fn cross_site(self, cross_site: CrossSite) -> Traits {
        Traits { cross_site, ..self }
    }

    const fn right(self, right: Right) -> Traits {
        Traits { right, ..self }
    }

    const fn streamed(self) -> Traits {
        Traits { is_streamed: true, ..self }
    }

    const fn kept_by_one(self) -> Traits {
        Traits { is_kept_by_one: true, ..self }
    }

    const fn exposed_by(self, parts: &[Part]) -> Traits {
        Traits { exposed_by: Some(targets::parts(parts)), ..self }
    }

    const fn links(self, links: &'static [(&'static str, &'static str)]) -> Traits {
        Traits { links, ..self }
    }
}

const INTAKE: &[Part] = &[Part::Distributor];
const QUERIES: &[Part] = &[Part::Querier, Part::QueryFrontend];

const fn intake(class: Class) -> Traits {
    Traits::of(class).cross_site(CrossSite::Refused).exposed_by(INTAKE)
}

const PUSH: Traits = intake(Class::Push);
const OTLP_PUSH: Traits = intake(Class::OtlpPush);
const ELASTIC_PUSH: Traits = intake(Class::ElasticPush);
const ELASTIC_PAGE: Traits = intake(Class::ElasticPage).cross_site(CrossSite::OnlyGet);
const QUERY: Traits = Traits::of(Class::Query).exposed_by(QUERIES);
const LOOKUP: Traits = Traits::of(Class::Lookup).exposed_by(QUERIES);
/// A tail stays open, and its frames are not kept from the page that opened it.
const TAIL: Traits =
    Traits::of(Class::Operate).cross_site(CrossSite::Refused).exposed_by(&[Part::Querier]);
/// Shows something of the node at any time.
const SHOW: Traits = Traits::of(Class::Operate).before_ready();
/// The same of the node as a whole.
const SHOW_NODE: Traits = SHOW.right(Right::WholeNode);
/// Needs the shards, and changes nothing.
const ASK: Traits = Traits::of(Class::Operate);
/// The same of rules, which all nodes have in common.
const ASK_RULES: Traits = ASK.kept_by_one().exposed_by(&[Part::Ruler]);
/// The same of requests for deletion.
const ASK_DELETIONS: Traits = ASK.kept_by_one().exposed_by(COMPACTOR);
const COMPACTOR: &[Part] = &[Part::Compactor];
const INGESTER: &[Part] = &[Part::Ingester];
/// Changes something, whatever the method.
const CHANGE: Traits = Traits::of(Class::Operate).cross_site(CrossSite::Refused);
/// The same of the node as a whole.
const CHANGE_NODE: Traits = CHANGE.right(Right::WholeNode);
/// The same of the entries that it stores.
const FLUSH_NODE: Traits = CHANGE_NODE.exposed_by(INGESTER);

const GET: &[Method] = &[Method::GET];
const POST: &[Method] = &[Method::POST];
const GET_POST: &[Method] = &[Method::GET, Method::POST];
const GET_PUT: &[Method] = &[Method::GET, Method::PUT];
const POST_PUT: &[Method] = &[Method::POST, Method::PUT];
const GET_POST_PUT: &[Method] = &[Method::GET, Method::POST, Method::PUT];
const GET_POST_PUT_DELETE: &[Method] = &[Method::GET, Method::POST, Method::PUT, Method::DELETE];
const GET_POST_DELETE: &[Method] = &[Method::GET, Method::POST, Method::DELETE];
const GET_DELETE: &[Method] = &[Method::GET, Method::DELETE];
/// Every method.
const ANY: &[Method] = &[];

/// What a client may do besides: [`router`] adds HEAD to every route with GET, but to those that
/// change something whatever the method, and every path answers OPTIONS.
const HEAD: &[Method] = &[Method::HEAD];

/// Paths below this prefix are there below [`OWN_PREFIX`], too.
const LOKI_PREFIX: &str = "/loki/api/v1/";
const OWN_PREFIX: &str = "/logsvc/api/v1/";

/// A row of the table.
pub(super) struct Row {
    route: Route,
    /// Under which its requests are counted.
    pub(super) metric_name: &'static str,
    /// None stands for every method.
    methods: &'static [Method],
    /// `{name}` stands for one segment, which the handler gets.
    paths: &'static [&'static str],
    pub(super) traits: Traits,
}

macro_rules! routes {
    (
        |$front:ident, $request:ident, $path:ident|
        $($route:ident $metric_name:literal $methods:ident [$($pattern:literal),+] ($traits:expr)
            => $answer:expr;)+
    ) => {
        /// The endpoint that a path leads to.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(super) enum Route {
            $($route,)+
        }

        /// All routes, by [`Route`].
        static ROWS: &[Row] = &[$(Row {
            route: Route::$route,
            metric_name: $metric_name,
            methods: $methods,
            paths: &[$($pattern),+],
            traits: $traits,
        },)+];

        /// Under which the requests of all routes are counted.
        pub(crate) static METRIC_NAMES: &[&str] = &[$($metric_name,)+];

        /// Answers a request. `path` has the segments that the route leaves open.
        pub(super) async fn answer<R: Runtime>(
            route: Route,
            $front: &Front<R>,
            $request: Request,
            $path: &PathParams<'_, '_>,
        ) -> Result<Response, ApiError> {
            match route {
                $(Route::$route => $answer,)+
            }
        }
    };
}

routes! {
    |front, request, path|

    Push "loki_api_v1_push" POST ["/loki/api/v1/push"] (PUSH)
        => front.ingest.push(request, JsonDialect::V1).await;
    LegacyPush "api_prom_push" POST ["/api/prom/push"] (PUSH)
        => front.ingest.push(request, JsonDialect::Legacy).await;
    OtlpLogs "otlp_v1_logs" POST ["/otlp/v1/logs"] (OTLP_PUSH)
        => front.ingest.push_otlp(request).await;
    JournalUpload "upload" POST ["/upload", "/journald/upload", "/insert/journald/upload"]
        (PUSH.streamed())
        => front.ingest.upload_journal(request).await;
    Lines "loki_api_v1_lines" POST ["/loki/api/v1/lines"] (PUSH)
        => front.ingest.push_lines(request, LinesDialect::Own).await;
    Import "loki_api_v1_import" POST ["/loki/api/v1/import"] (PUSH.streamed())
        => front.ingest.import(request).await;
    JsonLine "insert_jsonline" POST ["/insert/jsonline"] (PUSH)
        => front.ingest.push_lines(request, LinesDialect::JsonLine).await;
    ElasticBulk "elasticsearch_bulk" POST_PUT
        ["/elasticsearch/_bulk", "/insert/elasticsearch/_bulk", "/_bulk"] (ELASTIC_PUSH)
        => front.ingest.push_bulk(request, "").await;
    ElasticIndexBulk "elasticsearch_index_bulk" POST_PUT
        ["/elasticsearch/{index}/_bulk", "/insert/elasticsearch/{index}/_bulk"] (ELASTIC_PUSH)
        => front.ingest.push_bulk(request, segment(path, "index")).await;
    ElasticPage "elasticsearch" GET
        ["/elasticsearch", "/elasticsearch/", "/insert/elasticsearch", "/insert/elasticsearch/",
         "/elasticsearch/_license", "/insert/elasticsearch/_license",
         "/elasticsearch/_xpack", "/insert/elasticsearch/_xpack",
         "/elasticsearch/_nodes/http", "/insert/elasticsearch/_nodes/http",
         "/elasticsearch/_cluster/health", "/insert/elasticsearch/_cluster/health"]
        (ELASTIC_PAGE)
        => Ok(front.ingest.elastic_page(&request));
    ElasticIndex "elasticsearch_index" GET_PUT
        ["/elasticsearch/{index}", "/insert/elasticsearch/{index}"] (ELASTIC_PAGE)
        => Ok(front.ingest.elastic_index(&request, segment(path, "index")));
    ElasticTable "elasticsearch_cat" GET
        ["/elasticsearch/_cat/{table}", "/insert/elasticsearch/_cat/{table}"] (ELASTIC_PAGE)
        => Ok(front.ingest.elastic_table(&request, segment(path, "table")));
    ElasticSetup "elasticsearch_setup" GET_POST_PUT
        ["/elasticsearch/_index_template/{name}", "/insert/elasticsearch/_index_template/{name}",
         "/elasticsearch/_template/{name}", "/insert/elasticsearch/_template/{name}",
         "/elasticsearch/_component_template/{name}",
         "/insert/elasticsearch/_component_template/{name}",
         "/elasticsearch/_ilm/policy/{name}", "/insert/elasticsearch/_ilm/policy/{name}",
         "/elasticsearch/_ingest/pipeline/{name}", "/insert/elasticsearch/_ingest/pipeline/{name}",
         "/elasticsearch/_data_stream/{name}", "/insert/elasticsearch/_data_stream/{name}"]
        (ELASTIC_PAGE)
        => Ok(front.ingest.elastic_page(&request));

    Query "loki_api_v1_query" GET_POST ["/loki/api/v1/query"] (QUERY)
        => front.querier.query(request).await;
    QueryRange "loki_api_v1_query_range" GET_POST ["/loki/api/v1/query_range"] (QUERY)
        => front.querier.query_range(request).await;
    Context "loki_api_v1_context" GET_POST ["/loki/api/v1/context"] (QUERY)
        => front.querier.context(request).await;
    Export "loki_api_v1_export" GET_POST ["/loki/api/v1/export"] (QUERY)
        => front.querier.export(request).await;
    LegacyQuery "api_prom_query" GET_POST ["/api/prom/query"] (QUERY)
        => front.querier.legacy_query(request).await;

    Labels "loki_api_v1_labels" GET_POST
        ["/loki/api/v1/labels", "/loki/api/v1/label", "/api/prom/label"] (LOOKUP)
        => front.explorer.label_names(request).await;
    LabelValues "loki_api_v1_label_name_values" GET_POST
        ["/loki/api/v1/label/{name}/values", "/api/prom/label/{name}/values"] (LOOKUP)
        => front.explorer.label_values(request, segment(path, "name")).await;
    Series "loki_api_v1_series" GET_POST ["/loki/api/v1/series", "/api/prom/series"] (LOOKUP)
        => front.explorer.series(request).await;
    IndexStats "loki_api_v1_index_stats" GET_POST ["/loki/api/v1/index/stats"] (LOOKUP)
        => front.explorer.index_stats(request).await;
    IndexShards "loki_api_v1_index_shards" GET_POST ["/loki/api/v1/index/shards"] (LOOKUP)
        => front.explorer.index_shards(request).await;
    Volume "loki_api_v1_index_volume" GET_POST ["/loki/api/v1/index/volume"] (QUERY)
        => front.explorer.volume(request).await;
    VolumeRange "loki_api_v1_index_volume_range" GET_POST
        ["/loki/api/v1/index/volume_range"] (QUERY)
        => front.explorer.volume_range(request).await;
    DetectedFields "loki_api_v1_detected_fields" GET_POST
        ["/loki/api/v1/detected_fields"] (LOOKUP)
        => front.explorer.detected_fields(request).await;
    DetectedFieldValues "loki_api_v1_detected_field_name_values" GET_POST
        ["/loki/api/v1/detected_field/{name}/values"] (LOOKUP)
        => front.explorer.detected_field_values(request, segment(path, "name")).await;
    DetectedLabels "loki_api_v1_detected_labels" GET_POST
        ["/loki/api/v1/detected_labels"] (LOOKUP)
        => front.explorer.detected_labels(request).await;
    Patterns "loki_api_v1_patterns" GET_POST ["/loki/api/v1/patterns"] (LOOKUP)
        => front.explorer.patterns(request).await;

    Tail "loki_api_v1_tail" GET_POST ["/loki/api/v1/tail"] (TAIL)
        => front.tails.tail(&request, tail::Dialect::V1).await;
    LegacyTail "api_prom_tail" GET_POST ["/api/prom/tail"] (TAIL)
        => front.tails.tail(&request, tail::Dialect::Legacy).await;

    FormatQuery "loki_api_v1_format_query" GET_POST ["/loki/api/v1/format_query"] (SHOW)
        => front.querier.format_query(&request).await;

    Landing "root" GET ["/"] (SHOW)
        => Ok(pages::landing(&request, links(front.core.config().parts())));
    // The page asks for what it shows like every other client; its files tell nothing.
    WebPage "ui" GET ["/ui/", "/ui/{name}", "/ui"]
        (SHOW.exposed_by(QUERIES).links(&[("", "logs, for people")]))
        => web_page::answer(&request, path.get("name"));
    Ready "ready" GET ["/ready", "/-/ready"]
        (SHOW.right(Right::Open).links(&[("", "whether the node takes requests")]))
        => front.operator.ready().await;
    Health "health" GET ["/health", "/-/healthy"]
        (SHOW.right(Right::Open).links(&[("", "whether the process lives")]))
        => Ok(operations::alive());
    Reload "reload" POST ["/-/reload"] (CHANGE_NODE)
        => front.operator.reload().await;
    Services "services" GET ["/services"] (SHOW_NODE.links(&[("", "states of its parts")]))
        => Ok(front.operator.services_page());
    Config "config" GET ["/config"]
        (SHOW_NODE.links(&[("", "settings"), ("?mode=diff", "settings that differ from the defaults")]))
        => front.operator.config_page(&request);
    TenantLimits "config_tenant_v1_limits" GET ["/config/tenant/v1/limits"]
        (SHOW.links(&[("", "limits of the tenant")]))
        => front.operator.tenant_limits(&request);
    LogLevel "log_level" GET_POST ["/log_level"]
        (SHOW_NODE.cross_site(CrossSite::OnlyGet).links(&[("", "the log level")]))
        => admin::log_level(&request);
    Metrics "metrics" ANY ["/metrics"] (SHOW_NODE.links(&[("", "metrics")]))
        => Ok(front.operator.exposition(&request.head).await);
    Refusals "loki_api_v1_refusals" GET ["/loki/api/v1/refusals"] (SHOW)
        => front.operator.refusals(&request);
    // Every node shows them, whatever its parts: an operator asks any node who has which part.
    Ring "ring" GET_POST
        ["/ring", "/distributor/ring", "/compactor/ring", "/scheduler/ring", "/ruler/ring",
         "/pattern/ring", "/indexgateway/ring"]
        (SHOW_NODE.cross_site(CrossSite::OnlyGet).links(&[("", "shards, or who owns them")]))
        => front.operator.ring_page(&request).await;
    BuildInfo "loki_api_v1_status_buildinfo" GET ["/loki/api/v1/status/buildinfo"]
        (SHOW.links(&[("", "version")]))
        => Ok(operations::build_info());
    Memberlist "memberlist" ANY ["/memberlist"]
        (SHOW_NODE.cross_site(CrossSite::OnlyGet).links(&[("", "nodes")]))
        => front.operator.memberlist(&request).await;
    DrilldownLimits "loki_api_v1_drilldown_limits" GET ["/loki/api/v1/drilldown-limits"] (SHOW)
        => front.operator.drilldown_limits(&request);

    Rules "loki_api_v1_rules" GET
        ["/loki/api/v1/rules", "/api/prom/rules", "/api/mtx/rules"] (ASK_RULES)
        => front.ruling.list_groups(request, None).await;
    RulesOfNamespace "loki_api_v1_rules_namespace" GET_POST_DELETE
        ["/loki/api/v1/rules/{namespace}", "/api/prom/rules/{namespace}",
         "/api/mtx/rules/{namespace}"]
        (ASK_RULES.cross_site(CrossSite::OnlyGet))
        => front.ruling.namespace(request, segment(path, "namespace")).await;
    RuleGroup "loki_api_v1_rules_namespace_groupname" GET_DELETE
        ["/loki/api/v1/rules/{namespace}/{group}", "/api/prom/rules/{namespace}/{group}",
         "/api/mtx/rules/{namespace}/{group}"]
        (ASK_RULES.cross_site(CrossSite::OnlyGet))
        => front.ruling.group(request, segment(path, "namespace"), segment(path, "group")).await;
    ListRules "prometheus_api_v1_rules" GET
        ["/prometheus/api/v1/rules", "/mtx/api/v1/rules"] (ASK_RULES)
        => front.ruling.list_rules(request).await;
    ListAlerts "prometheus_api_v1_alerts" GET
        ["/prometheus/api/v1/alerts", "/mtx/api/v1/alerts"] (ASK_RULES)
        => front.ruling.list_alerts(request).await;
    Delete "loki_api_v1_delete" GET_POST_PUT_DELETE ["/loki/api/v1/delete"]
        (ASK_DELETIONS.cross_site(CrossSite::OnlyGet))
        => front.deleter.delete(request).await;
    CacheGeneration "loki_api_v1_cache_generation_numbers" GET
        ["/loki/api/v1/cache/generation_numbers"] (ASK_DELETIONS)
        => front.deleter.cache_generation(request).await;
    IncreaseCacheGeneration "loki_api_v1_cache_generation_numbers_increase" POST
        ["/loki/api/v1/cache/generation_numbers/increase"] (CHANGE.kept_by_one().exposed_by(COMPACTOR))
        => front.operator.increase_cache_generation(&request);
    Flush "flush" GET_POST ["/flush"] (FLUSH_NODE)
        => front.operator.flush().await;
    FlushTenant "flush_tenant" POST ["/flush/tenant"] (CHANGE.exposed_by(INGESTER))
        => front.operator.flush_tenant(&request).await;
    Backup "loki_api_v1_backup" GET_POST_DELETE ["/loki/api/v1/backup"]
        (ASK.cross_site(CrossSite::OnlyGet).right(Right::WholeNode)
         .exposed_by(INGESTER))
        => front.operator.backup(&request).await;
    PrepareShutdown "ingester_prepare_shutdown" GET_POST_DELETE ["/ingester/prepare_shutdown"]
        (ASK.cross_site(CrossSite::OnlyGet).right(Right::WholeNode)
         .exposed_by(INGESTER))
        => front.operator.prepare_shutdown(&request).await;
    Shutdown "ingester_shutdown" GET_POST ["/ingester/shutdown"] (FLUSH_NODE)
        => front.operator.shut_down(&request, true).await;
    FlushShutdown "ingester_flush_shutdown" GET_POST ["/ingester/flush_shutdown"] (FLUSH_NODE)
        => front.operator.shut_down(&request, false).await;
}

/// A segment of a path that its route leaves open.
fn segment<'p>(path: &PathParams<'_, 'p>, name: &str) -> &'p str {
    path.get(name).unwrap_or_default()
}

impl Route {
    pub(super) fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// An error as the clients of the route expect it.
    pub(super) fn error_response(self, error: &ApiError) -> Response {
        match self.row().traits.class {
            // The tenant check comes before everything that knows of OpenTelemetry.
            Class::OtlpPush if error.status != StatusCode::UNAUTHORIZED => {
                ingest::otlp::error_response(error)
            }
            Class::ElasticPush | Class::ElasticPage => ingest::elastic_pages::error_response(error),
            Class::Query | Class::Lookup => error_response(error).compressible(),
            Class::Push | Class::OtlpPush | Class::Operate => error_response(error),
        }
    }
}

impl Row {
    /// Whether requests carry log entries.
    pub(super) fn is_push(&self) -> bool {
        matches!(self.traits.class, Class::Push | Class::OtlpPush | Class::ElasticPush)
    }

    /// Whether its handler tells itself what it refuses.
    pub(super) fn tells_itself(&self) -> bool {
        self.is_push()
            || matches!(
                self.route,
                Route::Query | Route::QueryRange | Route::Export | Route::LegacyQuery
            )
    }

    /// Whether the route works before the write-ahead logs are replayed.
    pub(super) fn is_before_ready(&self) -> bool {
        self.traits.before_ready
    }

    /// Whether nodes of a cluster with these parts have the route.
    fn is_exposed_by(&self, parts: Parts) -> bool {
        self.traits.exposed_by.is_none_or(|exposing| exposing.meets(parts))
    }

    /// Whether HEAD is answered as GET without its body.
    fn has_head(&self) -> bool {
        self.methods.contains(&Method::GET) && self.traits.cross_site != CrossSite::Refused
    }

    /// All paths: the ones of the row, and their twins under [`OWN_PREFIX`].
    fn all_paths(&self) -> impl Iterator<Item = String> {
        let own = |path: &str| Some(format!("{OWN_PREFIX}{}", path.strip_prefix(LOKI_PREFIX)?));
        self.paths.iter().flat_map(move |path| [Some((*path).to_owned()), own(path)]).flatten()
    }
}

/// Finds the routes of a node with these parts by method and path.
pub(super) fn router(parts: Parts) -> Router<Route> {
    let mut router = Router::new();
    for row in ROWS.iter().filter(|row| row.is_exposed_by(parts)) {
        for path in row.all_paths() {
            match row.methods {
                [] => router.add_any_method(&path, row.route),
                methods if row.has_head() => {
                    router.add(&[methods, HEAD].concat(), &path, row.route);
                }
                methods => router.add(methods, &path, row.route),
            }
        }
    }
    router
}

/// Links to pages of a node with these parts that can be looked at with a browser, each with its
/// purpose.
pub(super) fn links(parts: Parts) -> impl Iterator<Item = (String, &'static str)> {
    ROWS.iter().filter(move |row| row.is_exposed_by(parts)).flat_map(|row| {
        let links = row.traits.links.iter();
        links.map(|(more, purpose)| (format!("{}{more}", row.paths[0]), *purpose))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use http::HeaderMap;
    use http::header::{HOST, HeaderValue, ORIGIN};
    use logsvc_http::Match;

    use super::super::cross_site;
    use super::*;

    #[test]
    fn every_path_is_in_the_api_reference() {
        let reference = include_str!("../../../docs/api.md");
        let paths = ROWS.iter().flat_map(|row| row.paths);
        let missing: Vec<&&str> =
            paths.filter(|path| !reference.contains(&format!("{path}`"))).collect();
        assert_eq!(missing, [&""; 0]);
        assert!(router(targets::ALL).paths().count() > 50);
    }

    #[test]
    fn every_row_has_its_place_and_a_name_of_its_own() {
        for (place, row) in ROWS.iter().enumerate() {
            assert_eq!(row.route as usize, place, "{:?}", row.route);
            assert_eq!(row.metric_name, METRIC_NAMES[place]);
            assert!(!row.metric_name.is_empty() && row.metric_name != "other");
        }
        let names: BTreeSet<&str> = METRIC_NAMES.iter().copied().collect();
        assert_eq!(names.len(), ROWS.len());
    }

    #[test]
    fn every_path_leads_to_its_row_with_its_methods_only() {
        let router = router(targets::ALL);
        for row in ROWS {
            for path in row.all_paths() {
                let path = path.replace(['{', '}'], "");
                for method in [Method::GET, Method::POST, Method::DELETE, Method::PUT] {
                    let is_found = match router.find(&method, &path) {
                        Match::Found(&route, _) => {
                            assert_eq!(route, row.route, "{path}");
                            true
                        }
                        found => {
                            assert_eq!(found, Match::MethodNotAllowed, "{path}");
                            false
                        }
                    };
                    let is_wanted = row.methods.is_empty() || row.methods.contains(&method);
                    assert_eq!(is_found, is_wanted, "{method} {path}");
                }
            }
        }
    }

    #[test]
    fn looking_is_free_for_pages_of_other_sites() {
        let mut evil = HeaderMap::new();
        evil.append(HOST, HeaderValue::from_static("h"));
        evil.append(ORIGIN, HeaderValue::from_static("http://evil.example"));
        for (route, method, refused) in [
            (Route::Push, Method::POST, true),
            (Route::Flush, Method::GET, true),
            (Route::Shutdown, Method::GET, true),
            (Route::LogLevel, Method::POST, true),
            (Route::LogLevel, Method::GET, false),
            (Route::PrepareShutdown, Method::DELETE, true),
            (Route::PrepareShutdown, Method::GET, false),
            (Route::Delete, Method::POST, true),
            (Route::Delete, Method::PUT, true),
            (Route::Delete, Method::DELETE, true),
            (Route::Delete, Method::GET, false),
            (Route::Tail, Method::GET, true),
            (Route::Ring, Method::POST, true),
            (Route::Memberlist, Method::POST, true),
            (Route::Memberlist, Method::GET, false),
            (Route::Query, Method::POST, false),
            (Route::Ready, Method::GET, false),
        ] {
            let guarded = cross_site::check(route.row().traits.cross_site, &method, &evil, &[]);
            let status = guarded.err().map(|error| error.status.as_u16());
            assert_eq!(status, refused.then_some(403), "{route:?} {method}");
        }
    }

    /// The table of the contract: what exposes a path of each group, besides `all`.
    #[test]
    fn nodes_of_a_cluster_have_the_paths_of_their_parts() {
        let groups: [(&str, &str, &[&str]); 6] = [
            (
                "distributor write",
                "POST",
                &["/loki/api/v1/push", "/otlp/v1/logs", "/api/prom/push", "/elasticsearch/_bulk"],
            ),
            (
                "querier query-frontend read",
                "GET",
                &[
                    "/loki/api/v1/query",
                    "/logsvc/api/v1/query_range",
                    "/loki/api/v1/labels",
                    "/loki/api/v1/label/a/values",
                    "/loki/api/v1/series",
                    "/loki/api/v1/index/stats",
                    "/loki/api/v1/index/volume",
                    "/loki/api/v1/patterns",
                    "/loki/api/v1/detected_fields",
                    "/api/prom/query",
                    "/ui/",
                ],
            ),
            ("querier read", "GET", &["/loki/api/v1/tail", "/api/prom/tail"]),
            (
                "ingester write",
                "POST",
                &["/flush", "/flush/tenant", "/ingester/shutdown", "/ingester/prepare_shutdown"],
            ),
            (
                "ruler backend",
                "GET",
                &["/loki/api/v1/rules", "/api/prom/rules/a/b", "/prometheus/api/v1/alerts"],
            ),
            (
                "compactor backend",
                "GET",
                &["/loki/api/v1/delete", "/loki/api/v1/cache/generation_numbers"],
            ),
        ];
        let always = [
            "/",
            "/ready",
            "/health",
            "/metrics",
            "/config",
            "/services",
            "/log_level",
            "/ring",
            "/memberlist",
            "/loki/api/v1/status/buildinfo",
            "/loki/api/v1/format_query",
        ];
        for target in targets::names() {
            let router = router(targets::of(target, false));
            for (exposing, method, paths) in groups {
                let method = Method::from_bytes(method.as_bytes()).expect("a method");
                let expected = target == "all" || exposing.split(' ').any(|name| name == target);
                for path in paths {
                    let is_found = router.find(&method, path) != Match::NotFound;
                    assert_eq!(is_found, expected, "{target} {path}");
                }
            }
            for path in always {
                let is_found = matches!(router.find(&Method::GET, path), Match::Found(..));
                assert!(is_found, "{target} {path}");
            }
        }
    }

    #[test]
    fn links_lead_to_what_the_node_has() {
        let shows = |parts| links(parts).any(|(path, _)| path == "/ui/");
        assert!(shows(targets::ALL) && !shows(targets::of("write", false)));
    }
}
