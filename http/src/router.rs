//! A table of routes: exact paths and patterns with `{name}` segments.
//!
//! Matching works on the decoded path, so an encoded slash separates segments.
//! A path that is not clean (doubled slashes, dot segments) is never matched; it
//! gives the clean path to redirect to.

use std::collections::BTreeMap;

use http::Method;

/// The target of a path and method.
#[derive(Debug, PartialEq, Eq)]
pub enum Match<'r, 'p, T> {
    /// A route, with the values of its pattern's names in order.
    Found(&'r T, PathParams<'r, 'p>),
    /// The path is known, but not with this method. [`Router::methods`] tells the others.
    MethodNotAllowed,
    /// No route has this path.
    NotFound,
    /// The path is not clean; this one is.
    Redirect(String),
}

/// Values of a pattern's names.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PathParams<'r, 'p> {
    pairs: Vec<(&'r str, &'p str)>,
}

impl<'p> PathParams<'_, 'p> {
    /// The value of a name of the pattern.
    pub fn get(&self, name: &str) -> Option<&'p str> {
        self.pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }
}

struct Route<T> {
    methods: Option<Vec<Method>>,
    target: T,
}

impl<T> Route<T> {
    fn allows(&self, method: &Method) -> bool {
        self.methods.as_ref().is_none_or(|methods| methods.contains(method))
    }
}

/// A table of routes.
pub struct Router<T> {
    exact: BTreeMap<String, Vec<Route<T>>>,
    patterns: Vec<(String, Route<T>)>,
}

impl<T> Default for Router<T> {
    fn default() -> Router<T> {
        Router { exact: BTreeMap::new(), patterns: Vec::new() }
    }
}

impl<T> Router<T> {
    /// An empty table.
    pub fn new() -> Router<T> {
        Router::default()
    }

    /// Adds a route for some methods. `{name}` stands for one non-empty segment.
    /// Routes added earlier win over later ones; exact paths win over patterns.
    pub fn add(&mut self, methods: &[Method], path: &str, target: T) {
        self.insert(path, Route { methods: Some(methods.to_vec()), target });
    }

    /// Adds a route for all methods.
    pub fn add_any_method(&mut self, path: &str, target: T) {
        self.insert(path, Route { methods: None, target });
    }

    /// All paths and patterns, in no particular order; some more than once.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let patterns = self.patterns.iter().map(|(pattern, _)| pattern.as_str());
        self.exact.keys().map(String::as_str).chain(patterns)
    }

    fn insert(&mut self, path: &str, route: Route<T>) {
        if path.contains('{') {
            self.patterns.push((path.to_owned(), route));
        } else {
            self.exact.entry(path.to_owned()).or_default().push(route);
        }
    }

    /// Looks up a decoded path.
    pub fn find<'r, 'p>(&'r self, method: &Method, path: &'p str) -> Match<'r, 'p, T> {
        if let Some(routes) = self.exact.get(path) {
            return match routes.iter().find(|route| route.allows(method)) {
                Some(route) => Match::Found(&route.target, PathParams::default()),
                None => Match::MethodNotAllowed,
            };
        }
        let mut known = false;
        for (pattern, route) in &self.patterns {
            if let Some(params) = match_pattern(pattern, path) {
                if route.allows(method) {
                    return Match::Found(&route.target, params);
                }
                known = true;
            }
        }
        if known {
            return Match::MethodNotAllowed;
        }
        match clean_path(path) {
            Some(clean) => Match::Redirect(clean),
            None => Match::NotFound,
        }
    }
}

impl<T> Router<T> {
    /// The methods of a decoded path, each once, in the order in which they were added. Routes for
    /// all methods say nothing here.
    pub fn methods(&self, path: &str) -> Vec<&Method> {
        let exact = self.exact.get(path).into_iter().flatten();
        let patterns = self.patterns.iter().filter(|(pattern, _)| {
            !self.exact.contains_key(path) && match_pattern(pattern, path).is_some()
        });
        let routes = exact.chain(patterns.map(|(_, route)| route));
        let mut methods = Vec::new();
        for method in routes.filter_map(|route| route.methods.as_ref()).flatten() {
            if !methods.contains(&method) {
                methods.push(method);
            }
        }
        methods
    }
}

fn match_pattern<'r, 'p>(pattern: &'r str, path: &'p str) -> Option<PathParams<'r, 'p>> {
    let mut params = PathParams::default();
    let mut segments = path.split('/');
    for part in pattern.split('/') {
        let segment = segments.next()?;
        match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some(_) if matches!(segment, "" | "." | "..") => return None,
            Some(name) => params.pairs.push((name, segment)),
            None if part == segment => {}
            None => return None,
        }
    }
    segments.next().is_none().then_some(params)
}

/// The path without doubled slashes and dot segments, `None` if it is clean
/// already. A slash at the end stays.
pub fn clean_path(path: &str) -> Option<String> {
    let rest = path.strip_prefix('/')?;
    let needs_cleaning = |segment: &str| matches!(segment, "." | "..");
    if !path.contains("//") && !rest.split('/').any(needs_cleaning) {
        return None;
    }
    let mut kept: Vec<&str> = Vec::new();
    for segment in rest.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                kept.pop();
            }
            _ => kept.push(segment),
        }
    }
    let mut clean = String::with_capacity(path.len());
    for segment in &kept {
        clean.push('/');
        clean.push_str(segment);
    }
    if kept.is_empty() || rest.ends_with('/') {
        clean.push('/');
    }
    Some(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router() -> Router<u32> {
        let mut router = Router::new();
        router.add(&[Method::GET, Method::POST], "/api/labels", 1);
        router.add(&[Method::GET], "/api/label/{name}/values", 2);
        router.add(&[Method::DELETE], "/api/label/{name}/values", 3);
        router.add(&[Method::GET], "/api/label/fixed/values", 4);
        router.add_any_method("/metrics", 5);
        router
    }

    fn found<'r, T>(found: &Match<'r, '_, T>) -> Option<&'r T> {
        match found {
            Match::Found(target, _) => Some(target),
            _ => None,
        }
    }

    #[test]
    fn routes_are_found_by_path_and_method() {
        let router = router();
        assert_eq!(found(&router.find(&Method::POST, "/api/labels")), Some(&1));
        assert_eq!(found(&router.find(&Method::DELETE, "/metrics")), Some(&5));
        assert_eq!(found(&router.find(&Method::GET, "/api/label/fixed/values")), Some(&4));
        assert_eq!(router.find(&Method::HEAD, "/api/labels"), Match::MethodNotAllowed);
        assert!(router.methods("/api/labels").contains(&&Method::GET));
        assert!(router.methods("/nothing/of/the/kind").is_empty());
        assert_eq!(router.find(&Method::PUT, "/api/label/x/values"), Match::MethodNotAllowed);
        assert_eq!(router.find(&Method::GET, "/API/labels"), Match::NotFound);
        assert_eq!(router.find(&Method::GET, "/api/labels/"), Match::NotFound);
        assert_eq!(router.find(&Method::GET, "/api/label/a/b/values"), Match::NotFound);
        assert_eq!(router.find(&Method::OPTIONS, "*"), Match::NotFound);
    }

    #[test]
    fn patterns_give_their_values() {
        let router = router();
        let Match::Found(target, params) = router.find(&Method::DELETE, "/api/label/ä b/values")
        else {
            panic!("the pattern does not match");
        };
        assert_eq!((*target, params.get("name"), params.get("other")), (3, Some("ä b"), None));
    }

    #[test]
    fn unclean_paths_are_redirected() {
        for (path, clean) in [
            ("//api/labels", "/api/labels"),
            ("/api/label//values", "/api/label/values"),
            ("/api/./labels/", "/api/labels/"),
            ("/api/x/../labels", "/api/labels"),
            ("/api/label/../values", "/api/values"),
            ("/../../", "/"),
            ("//", "/"),
        ] {
            let expected = Match::Redirect(clean.to_owned());
            assert_eq!(router().find(&Method::GET, path), expected, "{path}");
        }
    }
}
