//! Answers of name servers out of arbitrary bytes.

/// Fuzz target: answers to look-ups of services. Whatever comes, the records are sorted and have
/// names of hosts.
pub fn srv_answers(data: &[u8]) {
    logsvc_runtime::fuzz::srv_answer(data);
}
