//! Reads the examples out of the reference.

/// A step of the test, in the order of the document.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    /// An empty server is started with these flags; examples that follow use it.
    Server(Vec<String>),
    /// A file that flags of servers may name: its name and its content.
    File(String, String),
    /// The server gets queries that take all places and fill the queue.
    Busy,
    Example(Example),
}

#[derive(Debug, PartialEq)]
pub(crate) struct Example {
    /// Where the request begins in the document, from 1.
    pub(crate) line: usize,
    pub(crate) request: Request,
    pub(crate) answer: Answer,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) params: Vec<(String, String)>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<String>,
}

impl Request {
    /// Whether the parameters go into the body.
    pub(crate) fn is_form(&self) -> bool {
        let form = ("Content-Type", "application/x-www-form-urlencoded");
        self.headers.iter().any(|(name, value)| (name.as_str(), value.as_str()) == form)
    }
}

#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Empty if the answer has none.
    pub(crate) content_type: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn is_upgrade(&self) -> bool {
        self.status == 101
    }
}

/// The mark of a request that needs a server of its own.
const SERVER: &str = "<!-- server:";

/// The mark of requests that find a full queue.
const BUSY: &str = "<!-- busy -->";

/// The steps of a document; an error names the line that does not follow the notation.
pub(crate) fn parse(text: &str) -> Result<Vec<Step>, String> {
    let (mut steps, mut waiting): (Vec<Step>, Option<(usize, Request)>) = (Vec::new(), None);
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let here = index + 1;
        if let Some(flags) = line.strip_prefix(SERVER) {
            let flags = flags.strip_suffix("-->").ok_or(format!("line {here}: no -->"))?;
            steps.push(Step::Server(flags.split_whitespace().map(str::to_owned).collect()));
        } else if line == BUSY {
            steps.push(Step::Busy);
        } else if let Some(kind) = line.strip_prefix("```") {
            let block: Vec<&str> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
            if kind == "yaml"
                && let Some(name) = block.first().and_then(|line| line.strip_prefix("# "))
            {
                steps.push(Step::File(name.to_owned(), block.join("\n")));
            }
            if kind != "http" {
                continue;
            }
            let first = block.first().copied().unwrap_or_default();
            if first.starts_with(|first: char| first.is_ascii_uppercase()) {
                if waiting.is_some() {
                    return Err(format!("line {here}: the request before has no answer"));
                }
                waiting = Some((here, request(&block).ok_or(format!("line {here}: a request"))?));
            } else {
                let answer = answer(&block).ok_or(format!("line {here}: an answer"))?;
                let (line, request) =
                    waiting.take().ok_or(format!("line {here}: nobody has asked"))?;
                steps.push(Step::Example(Example { line, request, answer }));
            }
        }
    }
    match waiting {
        Some((line, _)) => Err(format!("line {line}: the request has no answer")),
        None => Ok(steps),
    }
}

/// `METHOD path`, then headers and indented parameters, an empty line, a body.
fn request(block: &[&str]) -> Option<Request> {
    let (method, path) = block[0].split_once(' ')?;
    let empty = block.iter().position(|line| line.is_empty());
    let (mut params, mut headers) = (Vec::new(), Vec::new());
    for line in &block[1..empty.unwrap_or(block.len())] {
        match line.strip_prefix(' ') {
            Some(param) => params.push(pair(param.trim_start(), "=")?),
            None => headers.push(pair(line, ": ")?),
        }
    }
    let body = empty.map(|empty| block[empty + 1..].join("\n"));
    Some(Request { method: method.to_owned(), path: path.to_owned(), params, headers, body })
}

/// `status content type`, headers in the form `Name: value`, the body.
fn answer(block: &[&str]) -> Option<Answer> {
    let (status, content_type) = block.first()?.split_once(' ').unwrap_or((block[0], ""));
    let is_header = |line: &&&str| {
        line.split_once(": ").is_some_and(|(name, _)| {
            let mut letters = name.chars();
            letters.next().is_some_and(|first| first.is_ascii_uppercase())
                && letters.all(|letter| letter.is_ascii_alphabetic() || letter == '-')
        })
    };
    let is_empty = content_type.is_empty();
    // A body of text may look like a header, so headers stand in answers without one.
    let headers: Vec<_> = if is_empty {
        block[1..]
            .iter()
            .take_while(is_header)
            .map(|line| pair(line, ": "))
            .collect::<Option<_>>()?
    } else {
        Vec::new()
    };
    Some(Answer {
        status: status.parse().ok()?,
        content_type: content_type.to_owned(),
        body: block[1 + headers.len()..].join("\n"),
        headers,
    })
}

fn pair(text: &str, separator: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once(separator)?;
    Some((name.to_owned(), value.to_owned()))
}

#[test]
fn the_notation_is_read() {
    let text = "<!-- server: --a=b --c -->\n\n```http\nPOST /x\nA-B: c\n  q={a=\"b\"}\n\nbody\nmore\n\
                ```\n\n```http\n400 text/plain\nNo: header\n```\n```http\nGET /y\n```\n```http\n301\n\
                Location: /z\n```\n```sh\ncurl\n```\n";
    let pair = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    let steps = parse(text).expect("the notation");
    assert_eq!(steps.len(), 3);
    assert_eq!(steps[0], Step::Server(vec!["--a=b".into(), "--c".into()]));
    let request = Request {
        method: "POST".into(),
        path: "/x".into(),
        params: pair("q", "{a=\"b\"}"),
        headers: pair("A-B", "c"),
        body: Some("body\nmore".into()),
    };
    let answer = Answer {
        status: 400,
        content_type: "text/plain".into(),
        headers: vec![],
        body: "No: header".into(),
    };
    assert_eq!(steps[1], Step::Example(Example { line: 3, request, answer }));
    let Step::Example(redirected) = &steps[2] else { panic!("{:?}", steps[2]) };
    assert_eq!(redirected.answer.headers, pair("Location", "/z"));
    assert_eq!(redirected.answer.content_type, "");
    for wrong in ["```http\nGET /x\n```\n", "```http\n200\n```\n", "```http\nGET\n```\n"] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}
