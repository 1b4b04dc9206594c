//! The tools that look at what is stored: in a data folder, or in a bucket that the settings of the
//! server name.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::{CHECK, CONFIG_FILE, DATA_DIR, EXPAND_ENV, INSPECT, config_args, setting_arg};
use crate::config::GivenFlag;
use crate::config::table::{SETTINGS, Setting};

const BUCKET: &str = "bucket";
const SEGMENT: &str = "segment";
const FIND: &str = "find";

/// Flags of settings with this beginning name the bucket.
const BUCKET_FLAGS: &str = "storage.bucket";

/// Settings as the server takes them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct StoreSettings {
    /// The YAML file.
    pub(crate) config_file: Option<PathBuf>,
    /// Whether variables of the environment in the file are replaced.
    pub(crate) expands_env: bool,
    /// Paths of settings that were given as flags, with their values.
    flags: Vec<(&'static str, String)>,
}

impl StoreSettings {
    /// Whether nothing was said.
    pub(crate) fn are_empty(&self) -> bool {
        self.config_file.is_none() && self.flags.is_empty()
    }

    /// The settings that were given as flags.
    pub(crate) fn flags(&self) -> Vec<GivenFlag> {
        let of = |path: &str| SETTINGS.iter().find(|setting| setting.path == path);
        let flags = self.flags.iter();
        flags.filter_map(|(path, value)| Some((of(path)?, value.clone()))).collect()
    }
}

/// What is to be verified.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct CheckOptions {
    /// The data folder, if not that of the settings.
    pub(crate) data_dir: Option<PathBuf>,
    /// Whether the bucket alone is looked at.
    pub(crate) is_of_bucket: bool,
    /// Where the bucket is.
    pub(crate) settings: StoreSettings,
}

/// What is to be printed, or searched.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct InspectOptions {
    /// A file, a folder, or the name of an object.
    pub(crate) what: Option<PathBuf>,
    /// The text that is looked for, as bytes.
    pub(crate) text: Option<OsString>,
    /// Whether the bucket is looked at.
    pub(crate) is_of_bucket: bool,
    /// Where the bucket is.
    pub(crate) settings: StoreSettings,
}

fn bucket_settings() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(|setting| setting.flag.starts_with(BUCKET_FLAGS))
}

/// The arguments that say where the bucket is.
fn store_args() -> impl Iterator<Item = Arg> {
    config_args().into_iter().chain(bucket_settings().map(setting_arg))
}

fn store_settings(matches: &mut ArgMatches) -> StoreSettings {
    let flags = bucket_settings()
        .filter_map(|setting| Some((setting.path, matches.remove_one::<String>(setting.path)?)));
    StoreSettings {
        flags: flags.collect(),
        config_file: matches.remove_one(CONFIG_FILE),
        expands_env: matches.remove_one(EXPAND_ENV).unwrap_or(false),
    }
}

pub(super) fn check_options(matches: &mut ArgMatches) -> CheckOptions {
    CheckOptions {
        data_dir: matches.remove_one(DATA_DIR),
        is_of_bucket: matches.get_flag(BUCKET),
        settings: store_settings(matches),
    }
}

pub(super) fn inspect_options(matches: &mut ArgMatches) -> InspectOptions {
    InspectOptions {
        what: matches.remove_one(SEGMENT),
        text: matches.remove_one(FIND),
        is_of_bucket: matches.get_flag(BUCKET),
        settings: store_settings(matches),
    }
}

pub(super) fn check_command() -> Command {
    let data_dir = Arg::new(DATA_DIR)
        .long(DATA_DIR)
        .value_name("FOLDER")
        .value_parser(clap::value_parser!(PathBuf))
        .help("The data folder of a server that is stopped [default: that of the file, or ./data]");
    let bucket = Arg::new(BUCKET)
        .long(BUCKET)
        .action(ArgAction::SetTrue)
        .conflicts_with(DATA_DIR)
        .help("Verify the bucket alone; a server may run with it");
    Command::new(CHECK)
        .about("Verify every checksum of a stopped store or of a bucket and explain what is found")
        .after_help(
            "If a bucket is named, segments of the data folder that are in the bucket only are \
             verified there. Exits with 0 if nothing is damaged, 1 if something is, 2 if it cannot \
             tell.",
        )
        .arg(data_dir)
        .arg(bucket)
        .args(store_args())
}

pub(super) fn inspect_command() -> Command {
    let segment = Arg::new(SEGMENT)
        .value_name("FILE")
        .required_unless_present(BUCKET)
        .value_parser(clap::value_parser!(PathBuf))
        .help(
            "A .seg file, or deletes/REQUESTS; with --find a data folder or any file; with --bucket \
             the name of an object",
        );
    let find = Arg::new(FIND)
        .long(FIND)
        .value_name("TEXT")
        .value_parser(clap::value_parser!(OsString))
        .help(
            "Print which files or objects hold the text, in lines, metadata, labels or bytes, and \
             how often",
        );
    let bucket = Arg::new(BUCKET)
        .long(BUCKET)
        .action(ArgAction::SetTrue)
        .help("Look into the bucket: at all of it, or at one object");
    let of_bucket = store_args().map(|arg| arg.requires(BUCKET));
    Command::new(INSPECT)
        .about(
            "Print what a segment, the record of delete requests or a bucket holds, or find a text",
        )
        .after_help(
            "--find decodes every segment, changes nothing, and may run beside the server. It \
             exits with 0 if no file and no object holds the text, the record of delete requests \
             apart, 1 if one does, 2 if it cannot tell.",
        )
        .arg(find)
        .arg(segment)
        .arg(bucket)
        .args(of_bucket)
}
