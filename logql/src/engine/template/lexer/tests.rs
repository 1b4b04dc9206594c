use super::*;

/// The tokens, with their texts for kinds that carry a text.
fn tokens(text: &str) -> String {
    let mut lexer = Lexer::new(text.as_bytes());
    let mut out = Vec::new();
    loop {
        let token = lexer.next();
        if matches!(token.kind, Kind::Error) {
            out.push(format!("Error({} at line {})", token.message, token.line));
            break;
        }
        if token.kind == Kind::Eof {
            break;
        }
        let text = String::from_utf8_lossy(token.text);
        out.push(format!("{:?}({text})@{}", token.kind, token.position));
    }
    out.join(" ")
}

#[test]
fn text_actions_and_comments() {
    assert_eq!(tokens("a}}b"), "Text(a}}b)@0");
    assert_eq!(tokens("a{{/* x */}}b"), "Text(a)@0 Text(b)@12");
    assert_eq!(tokens("a {{- /* x */ -}} b"), "Text(a)@0 Text(b)@18");
    assert_eq!(
        tokens("x {{- .a -}} y"),
        "Text(x)@0 LeftDelim({{)@2 Field(.a)@6 RightDelim(}})@10 Text(y)@13"
    );
    assert_eq!(
        tokens("{{$x:=1|f .}}"),
        "LeftDelim({{)@0 Variable($x)@2 Declare(:=)@4 Number(1)@6 Pipe(|)@7 Identifier(f)@8 Space( )@9 Dot(.)@10 RightDelim(}})@11"
    );
    assert_eq!(tokens("{{-1}}"), "LeftDelim({{)@0 Number(-1)@2 RightDelim(}})@4");
    assert_eq!(
        tokens("{{.5 `a\nb` 'x' \"}}\"}}"),
        "LeftDelim({{)@0 Number(.5)@2 Space( )@4 RawString(`a\nb`)@5 Space( )@10 CharConstant('x')@11 Space( )@14 String(\"}}\")@15 RightDelim(}})@19"
    );
}

#[test]
fn errors_name_what_is_wrong() {
    for (text, message) in [
        ("{{ .a ", "unclosed action at line 1"),
        ("\n{{ .a\n", "unclosed action at line 3"),
        ("{{ (.a }}", "unclosed left paren at line 1"),
        ("{{ (.a -}}", "unclosed left paren at line 1"),
        ("{{ .a) }}", "unexpected right paren at line 1"),
        ("{{ .a-b }}", "bad character U+002D '-' at line 1"),
        ("{{ a\u{1} }}", "bad character U+0001 at line 1"),
        ("{{ \u{2603} }}", "unrecognized character in action: U+2603 '\u{2603}' at line 1"),
        ("{{ \"a }}", "unterminated quoted string at line 1"),
        ("{{ 'a }}", "unterminated character constant at line 1"),
        ("{{ `a }}", "unterminated raw quoted string at line 1"),
        ("{{ 3k }}", "bad number syntax: \"3k\" at line 1"),
        ("{{ :a }}", "expected := at line 1"),
        ("{{/* a }}", "unclosed comment at line 1"),
        ("{{/* a */ }}", "comment ends before closing delimiter at line 1"),
    ] {
        let tokens = tokens(text);
        assert!(tokens.ends_with(&format!("Error({message})")), "{text}: {tokens}");
    }
}
