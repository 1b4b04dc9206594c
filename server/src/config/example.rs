//! A file with every setting, made from their table: the configuration file of the packages.
//!
//! Sections are there without a value, which keeps all defaults. A setting is a comment that says
//! its default: whoever removes the one sign before a key has the setting.

use std::fmt::Write;

use super::Config;
use super::print::scalar;
use super::table::{SETTINGS, Setting};

/// The data folder of the packages.
pub(super) const DATA_DIR: &str = "/var/lib/logsvc";

/// Longest line of a comment, in characters.
const WIDTH: usize = 96;

const INTRODUCTION: &str = "\
# Settings of logsvc. All of them are here, with their defaults.
#
# To change one, remove the # before its key, and change the value. `logsvc --verify-config
# --config.file=FILE` checks a file. Most settings need a restart; the limits of single tenants
# are in a file of their own (runtime_config.file), which the server reads again by itself.
#
# The package never replaces this file once it is edited.
";

/// The text of the file.
pub(super) fn yaml() -> String {
    let mut tree = Tree::default();
    for setting in SETTINGS {
        tree.insert(setting.path, setting);
    }
    let mut out = INTRODUCTION.to_owned();
    tree.print(0, &mut out);
    out
}

/// The same text with every setting in force.
pub(super) fn without_signs(text: &str) -> String {
    let lines = text.lines().map(|line| match line.trim_start().strip_prefix('#') {
        Some(rest) if rest.starts_with(|first: char| first.is_ascii_alphabetic()) => {
            format!("{}{rest}\n", &line[..line.len() - rest.len() - 1])
        }
        _ => format!("{line}\n"),
    });
    lines.collect()
}

/// Keys in the order of their first appearance in the table; settings of a section before its
/// sections.
#[derive(Default)]
struct Tree {
    settings: Vec<(&'static str, &'static Setting)>,
    sections: Vec<(&'static str, Tree)>,
}

impl Tree {
    fn insert(&mut self, path: &'static str, setting: &'static Setting) {
        let Some((name, rest)) = path.split_once('.') else {
            self.settings.push((path, setting));
            return;
        };
        let known = self.sections.iter().position(|(section, _)| *section == name);
        let place = known.unwrap_or_else(|| {
            self.sections.push((name, Tree::default()));
            self.sections.len() - 1
        });
        self.sections[place].1.insert(rest, setting);
    }

    fn print(&self, depth: usize, out: &mut String) {
        let indent = "  ".repeat(depth);
        for (key, setting) in &self.settings {
            out.push('\n');
            let notation = setting.field(&mut Config::default()).notation();
            let help = format!("{} Value: {}.", setting.help, notation.replace('|', ", "));
            for line in wrapped(&help, WIDTH - indent.len() - 2) {
                writeln!(out, "{indent}# {line}").expect("a String takes all");
            }
            if setting.path == "data_dir" {
                writeln!(out, "{indent}{key}: {DATA_DIR}").expect("a String takes all");
                continue;
            }
            let default = scalar(&setting.field(&mut Config::default()));
            writeln!(out, "{indent}#{key}: {default}").expect("a String takes all");
        }
        for (key, section) in &self.sections {
            writeln!(out, "\n{indent}{key}:").expect("a String takes all");
            section.print(depth + 1, out);
        }
    }
}

/// The words of a text in lines of at most `width` characters, if words are not longer.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
