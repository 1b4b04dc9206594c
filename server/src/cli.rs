//! The command line: a few flags of its own and one flag for each setting, and the
//! subcommands, of which [`stored`] has those that look at what is stored.
//!
//! Long flags may be written with one dash, as programs in Go take them.

#[cfg(test)]
mod documentation;
mod stored;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::config::table::{SETTINGS, Setting};
use crate::config::{Config, GivenFlag, IgnoredKey, flag_alias, flag_reason};
use crate::probe;
use crate::transfer::{Destination, ExportFormat, ExportOptions, ImportOptions, Login};
use crate::version;
pub(crate) use stored::{CheckOptions, InspectOptions, StoreSettings};

/// The parsed command line.
#[derive(Debug)]
pub(crate) struct Cli {
    /// The YAML file.
    pub(crate) config_file: Option<PathBuf>,
    /// Whether variables of the environment in the file are replaced.
    pub(crate) expands_env: bool,
    /// Only check the settings.
    pub(crate) verify_config: bool,
    /// Print the settings to the standard error before the start.
    pub(crate) print_config: bool,
    /// Print what can be started, and exit.
    pub(crate) list_targets: bool,
    /// Settings that were given as flags, in the order of the table.
    pub(crate) flags: Vec<GivenFlag>,
    /// Flags that only the reference has.
    pub(crate) ignored_flags: Vec<IgnoredKey>,
    /// The tool to run instead of serving.
    pub(crate) tool: Option<Tool>,
}

/// Something other than to serve.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Tool {
    /// Verify the store in a data folder, or a bucket.
    Check(CheckOptions),
    /// Print what a file, a bucket or an object holds, or tell which of them hold a text.
    Inspect(InspectOptions),
    /// Have a running server make a backup.
    Backup {
        /// Where it is.
        server: String,
        /// The name of the backup, if not the time.
        name: Option<String>,
    },
    /// Make a data folder out of a backup.
    Restore {
        /// The folder of the backup.
        from: PathBuf,
        /// The data folder to be.
        to: PathBuf,
    },
    /// Write the entries of a log query into a file.
    Export(ExportOptions),
    /// Send the entries of files to a server.
    Import(ImportOptions),
    /// Ask a running server whether it is alive.
    Health {
        /// Where it listens.
        address: SocketAddr,
        /// What is asked for.
        path: String,
    },
}

const CONFIG_FILE: &str = "config.file";
const EXPAND_ENV: &str = "config.expand-env";
const VERIFY_CONFIG: &str = "verify-config";
const PRINT_CONFIG: &str = "print-config-stderr";
const LIST_TARGETS: &str = "list-targets";

const CHECK: &str = "check";
const INSPECT: &str = "inspect";
const DATA_DIR: &str = "data-dir";
const HEALTH: &str = "health";
const ADDRESS: &str = "address";
const BACKUP: &str = "backup";
const SERVER: &str = "server";
const NAME: &str = "name";
const RESTORE: &str = "restore";
const EXPORT: &str = "export";
const IMPORT: &str = "import";
const TENANT: &str = "tenant";
const USER: &str = "user";
const PASSWORD_FILE: &str = "password-file";
const TOKEN_FILE: &str = "token-file";
const QUERY: &str = "query";
const START: &str = "start";
const END: &str = "end";
const OUTPUT: &str = "output";
const FORMAT: &str = "format";
const NDJSON: &str = "ndjson";
const PARQUET: &str = "parquet";
const FILES: &str = "files";
const FROM: &str = "from";
const PATH: &str = "path";

const ABOUT: &str = "A log store that speaks the HTTP interface and the query language of Loki.\n\n\
    Without any flag it listens on port 3100 and keeps its data in ./data.";

const AFTER: &str = "-h shows the common settings, --help shows all. Each can also stand in the \
    YAML file that --config.file names; a flag beats the file.";

/// Reads the command line; the first argument is the program's name. The error is
/// clap's, also for `--help` and `--version`.
pub(crate) fn parse(args: impl Iterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let (args, ignored_flags) = without_foreign(with_two_dashes(args));
    let mut matches = command().try_get_matches_from(args)?;
    let flags = SETTINGS
        .iter()
        .filter_map(|setting| {
            let given = matches.remove_many::<String>(setting.path)?;
            Some((setting, given.collect::<Vec<String>>().join(",")))
        })
        .collect();
    let tool = match matches.remove_subcommand() {
        Some((name, mut matches)) if name == CHECK => {
            Some(Tool::Check(stored::check_options(&mut matches)))
        }
        Some((name, mut matches)) if name == HEALTH => {
            let address = matches.remove_one(ADDRESS);
            let path = matches.remove_one(PATH);
            address.zip(path).map(|(address, path)| Tool::Health { address, path })
        }
        Some((name, mut matches)) if name == BACKUP => {
            let server = matches.remove_one(SERVER);
            server.map(|server| Tool::Backup { server, name: matches.remove_one(NAME) })
        }
        Some((name, mut matches)) if name == RESTORE => {
            let (from, to) = (matches.remove_one(FROM), matches.remove_one(DATA_DIR));
            from.zip(to).map(|(from, to)| Tool::Restore { from, to })
        }
        Some((name, mut matches)) if name == EXPORT => {
            export_options(&mut matches).map(Tool::Export)
        }
        Some((name, mut matches)) if name == IMPORT => {
            let files = matches.remove_many(FILES).map(Iterator::collect);
            destination(&mut matches)
                .zip(files)
                .map(|(to, files)| Tool::Import(ImportOptions { to, files }))
        }
        Some((_, mut matches)) => Some(Tool::Inspect(stored::inspect_options(&mut matches))),
        None => None,
    };
    Ok(Cli {
        tool,
        config_file: matches.remove_one(CONFIG_FILE),
        expands_env: matches.remove_one(EXPAND_ENV).unwrap_or(false),
        verify_config: matches.get_flag(VERIFY_CONFIG),
        print_config: matches.get_flag(PRINT_CONFIG),
        list_targets: matches.get_flag(LIST_TARGETS),
        flags,
        ignored_flags,
    })
}

/// Gives flags of the reference the names that they have here, and takes out those that
/// mean nothing here, with their values: whatever follows and is no flag.
fn without_foreign(args: impl Iterator<Item = OsString>) -> (Vec<OsString>, Vec<IgnoredKey>) {
    let mut kept = Vec::new();
    let mut ignored = Vec::new();
    let mut args = args.peekable();
    while let Some(arg) = args.next() {
        if arg == "--" {
            kept.push(arg);
            break;
        }
        let flag = arg.to_str().and_then(|text| text.strip_prefix("--"));
        let (name, value) = match flag.map(|flag| flag.split_once('=').ok_or(flag)) {
            Some(Ok((name, value))) => (name, Some(value)),
            Some(Err(name)) => (name, None),
            None => ("", None),
        };
        if let Some(ours) = flag_alias(name) {
            let value = value.map(|value| format!("={value}")).unwrap_or_default();
            kept.push(format!("--{ours}{value}").into());
            continue;
        }
        let is_own = SETTINGS.iter().any(|setting| setting.flag == name);
        match flag_reason(name).filter(|_| !is_own) {
            Some(reason) => {
                ignored.push(IgnoredKey { path: format!("--{name}"), reason });
                let is_flag = |next: &OsString| next.as_encoded_bytes().starts_with(b"-");
                if value.is_none() {
                    args.next_if(|next| !is_flag(next));
                }
            }
            None => kept.push(arg),
        }
    }
    kept.extend(args);
    (kept, ignored)
}

/// The arguments that say where the file with the settings is.
fn config_args() -> [Arg; 2] {
    let file = Arg::new(CONFIG_FILE)
        .long(CONFIG_FILE)
        .value_name("FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .help("YAML file with settings; of several with commas between them the first that exists");
    let expand = Arg::new(EXPAND_ENV)
        .long(EXPAND_ENV)
        .value_name("true|false")
        .value_parser(clap::value_parser!(bool))
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true")
        .help("Replace ${VAR} and ${VAR:-default} in the file by variables of the environment");
    [file, expand]
}

fn command() -> Command {
    let verify = Arg::new(VERIFY_CONFIG)
        .long(VERIFY_CONFIG)
        .action(ArgAction::SetTrue)
        .help("Check the settings, say whether they are valid, and exit");
    let print = Arg::new(PRINT_CONFIG)
        .long(PRINT_CONFIG)
        .action(ArgAction::SetTrue)
        .help("Print the settings as YAML to the standard error before the start");
    let targets = Arg::new(LIST_TARGETS)
        .long(LIST_TARGETS)
        .action(ArgAction::SetTrue)
        .help("List the names that --target may have, and exit");
    Command::new("logsvc")
        .version(version::LINE)
        .about(ABOUT)
        .after_help(AFTER)
        .args(config_args())
        .arg(verify)
        .arg(print)
        .arg(targets)
        .args(setting_args())
        .args_conflicts_with_subcommands(true)
        .subcommand(stored::check_command())
        .subcommand(stored::inspect_command())
        .subcommand(health_command())
        .subcommand(backup_command())
        .subcommand(restore_command())
        .subcommand(export_command())
        .subcommand(import_command())
}

fn health_command() -> Command {
    let address = Arg::new(ADDRESS)
        .long(ADDRESS)
        .value_name("ADDRESS:PORT")
        .value_parser(clap::value_parser!(SocketAddr))
        .default_value("127.0.0.1:3100")
        .help("Where the server listens");
    let path = Arg::new(PATH)
        .long(PATH)
        .value_name("PATH")
        .default_value(probe::ALIVE)
        .help("What to ask for; /ready tells whether the server takes requests");
    Command::new(HEALTH)
        .about("Ask a running server whether it is alive, for health checks")
        .after_help("Exits with 0 if it is, and with 1 if not.")
        .arg(address)
        .arg(path)
}

fn backup_command() -> Command {
    let server = Arg::new(SERVER)
        .long(SERVER)
        .value_name("URL")
        .default_value("http://127.0.0.1:3100")
        .help("The running server; http:// alone, so on its own machine or through a proxy");
    let name = Arg::new(NAME)
        .long(NAME)
        .value_name("NAME")
        .help("The name of the backup [default: the time, such as 20261126T133825Z]");
    Command::new(BACKUP)
        .about("Have a running server make a backup, in the folder backups of its data folder")
        .after_help("Prints the folder. Exits with 0 if the backup is complete, and with 1 if not.")
        .arg(server)
        .arg(name)
}

fn restore_command() -> Command {
    let from = Arg::new(FROM)
        .long(FROM)
        .value_name("FOLDER")
        .required(true)
        .value_parser(clap::value_parser!(PathBuf))
        .help("The folder of the backup");
    let data_dir = Arg::new(DATA_DIR)
        .long(DATA_DIR)
        .value_name("FOLDER")
        .required(true)
        .value_parser(clap::value_parser!(PathBuf))
        .help("The data folder to be: empty, or not there yet");
    Command::new(RESTORE)
        .about("Make a data folder out of a backup, and verify it")
        .after_help(
            "Exits with 0 if it is restored and nothing is damaged, 1 if something is, 2 if it \
             cannot be restored.",
        )
        .arg(from)
        .arg(data_dir)
}

/// The server that an export or an import is of, and the account.
fn destination_args() -> [Arg; 5] {
    let flag =
        |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    let file = |name, value| flag(name, value).value_parser(clap::value_parser!(PathBuf));
    [
        flag(ADDRESS, "URL")
            .default_value("http://127.0.0.1:3100")
            .help("The running server; http:// alone, so on its own machine or through a proxy"),
        flag(TENANT, "TENANT").help("The tenant, where the server has several"),
        flag(USER, "USER")
            .requires(PASSWORD_FILE)
            .help("The account, where the server asks for one"),
        file(PASSWORD_FILE, "FILE").requires(USER).help("A file with the password of the account"),
        file(TOKEN_FILE, "FILE")
            .conflicts_with(USER)
            .help("A file with a bearer token, instead of an account"),
    ]
}

fn destination(matches: &mut ArgMatches) -> Option<Destination> {
    let user: Option<String> = matches.remove_one(USER);
    let password: Option<PathBuf> = matches.remove_one(PASSWORD_FILE);
    let token: Option<PathBuf> = matches.remove_one(TOKEN_FILE);
    let login = match (user.zip(password), token) {
        (Some((user, file)), _) => Some(Login::Password { user, file }),
        (None, token) => token.map(Login::Token),
    };
    let tenant = matches.remove_one(TENANT);
    matches.remove_one(ADDRESS).map(|address| Destination { address, tenant, login })
}

fn export_options(matches: &mut ArgMatches) -> Option<ExportOptions> {
    Some(ExportOptions {
        from: destination(matches)?,
        query: matches.remove_one(QUERY)?,
        start: matches.remove_one(START)?,
        end: matches.remove_one(END)?,
        format: match matches.remove_one::<String>(FORMAT)?.as_str() {
            PARQUET => ExportFormat::Parquet,
            _ => ExportFormat::Lines,
        },
        output: matches.remove_one(OUTPUT)?,
    })
}

fn export_command() -> Command {
    let flag = |name: &'static str, value: &'static str| {
        Arg::new(name).long(name).value_name(value).required(true)
    };
    Command::new(EXPORT)
        .about("Write all entries of a log query into a file of JSON lines, or into Parquet files")
        .after_help(
            "The same command goes on where it ended: its place is in OUTPUT.state until the file \
             is complete. Exits with 0 if it is, and with 2 if not.",
        )
        .args(destination_args())
        .arg(flag(QUERY, "QUERY").help("The log query, for example {app=\"shop\"}"))
        .arg(flag(START, "TIME").help("From this time on: RFC 3339, or seconds or ns since 1970"))
        .arg(flag(END, "TIME").help("Up to this time, which is not in it"))
        .arg(
            Arg::new(FORMAT)
                .long(FORMAT)
                .value_name("FORMAT")
                .value_parser([NDJSON, PARQUET])
                .default_value(NDJSON)
                .help("The form of the file; Parquet comes in parts: x.0001.parquet and so on"),
        )
        .arg(
            flag(OUTPUT, "FILE")
                .value_parser(clap::value_parser!(PathBuf))
                .help("The file, which must not be there yet; - stands for standard output"),
        )
}

fn import_command() -> Command {
    let files = Arg::new(FILES)
        .value_name("FILE")
        .required(true)
        .num_args(1..)
        .value_parser(clap::value_parser!(PathBuf))
        .help(
            "Files that an export has written, lines also as .gz and .zst; - stands for standard \
             input",
        );
    Command::new(IMPORT)
        .about("Send the entries of files to a running server, whatever their age")
        .after_help(
            "The same command goes on where it ended: its place is in FILE.import-state until the \
             file is sent. Exits with 0 if all entries are stored, with 1 if the server has refused \
             some, and with 2 if it could not send all.",
        )
        .args(destination_args())
        .arg(files)
}

/// One flag for each row of the table.
fn setting_args() -> impl Iterator<Item = Arg> {
    SETTINGS.iter().map(setting_arg)
}

fn setting_arg(setting: &'static Setting) -> Arg {
    let notation = setting.field(&mut Config::default()).notation();
    let default = setting.default_value();
    let arg = Arg::new(setting.path)
        .long(setting.flag)
        .hide_short_help(!setting.common)
        .help(format!("{} [default: {default}]", setting.help));
    if notation == "true|false" {
        // `--auth.enabled` alone switches it on; a value needs the equals sign.
        arg.value_name(notation).num_args(0..=1).require_equals(true).default_missing_value("true")
    } else if notation == "list" {
        // As in Go, one flag with two values is the same as two flags.
        arg.value_name(notation).action(ArgAction::Append)
    } else {
        arg.value_name(notation)
    }
}

/// Gives long flags their second dash. Arguments behind `--` are left alone, and so are arguments
/// that do not begin like a name, for example negative numbers.
fn with_two_dashes(args: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let mut flags_ended = false;
    args.map(move |arg| {
        flags_ended |= arg == "--";
        match arg.as_encoded_bytes() {
            [b'-', letter, _, ..] if letter.is_ascii_alphabetic() && !flags_ended => {
                let mut long = OsString::from("-");
                long.push(&arg);
                long
            }
            _ => arg,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::error::ErrorKind;

    fn parse_line(line: &str) -> Result<Cli, clap::Error> {
        let args = line.split_whitespace().map(OsString::from);
        parse(std::iter::once(OsString::from("logsvc")).chain(args))
    }

    fn flags_of(line: &str) -> Vec<(&'static str, String)> {
        let cli = parse_line(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        cli.flags.into_iter().map(|(setting, value)| (setting.path, value)).collect()
    }

    #[test]
    fn clap_accepts_the_table() {
        command().debug_assert();
    }

    #[test]
    fn long_flags_take_one_dash_or_two() {
        for line in [
            "-config.file=a.yaml -server.http-listen-port=4 -verify-config",
            "-config.file a.yaml -server.http-listen-port 4 --verify-config",
            "--config.file=a.yaml --server.http-listen-port=4 --verify-config",
            "--config.file a.yaml --server.http-listen-port 4 --verify-config",
        ] {
            let cli = parse_line(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(cli.config_file, Some(PathBuf::from("a.yaml")), "{line}");
            assert!(cli.verify_config, "{line}");
            assert_eq!(flags_of(line), [("server.http_listen_port", "4".to_owned())], "{line}");
        }
    }

    #[test]
    fn switches_need_no_value() {
        for (line, value) in [
            ("-auth.enabled", "true"),
            ("--auth.enabled", "true"),
            ("--auth.enabled=true", "true"),
            ("-auth.enabled=false", "false"),
        ] {
            assert_eq!(flags_of(line), [("auth_enabled", value.to_owned())], "{line}");
        }
    }

    #[test]
    fn help_and_version_are_known_in_all_spellings() {
        for line in ["-h", "-help", "--help"] {
            let error = parse_line(line).expect_err(line);
            assert_eq!(error.kind(), ErrorKind::DisplayHelp, "{line}");
        }
        for line in ["-V", "-version", "--version"] {
            let error = parse_line(line).expect_err(line);
            assert_eq!(error.kind(), ErrorKind::DisplayVersion, "{line}");
            assert_eq!(error.to_string(), format!("logsvc {}\n", version::LINE));
        }
    }

    #[test]
    fn the_short_help_leaves_out_what_is_rarely_needed() {
        let short = parse_line("-h").expect_err("help").to_string();
        let long = parse_line("--help").expect_err("help").to_string();
        assert!(short.contains("--data-dir") && !short.contains("--limits.max-line-size"));
        for setting in SETTINGS {
            assert!(long.contains(&format!("--{}", setting.flag)), "{}", setting.flag);
        }
    }

    #[test]
    fn tools_have_arguments_of_their_own() {
        let tool = |line: &str| parse_line(line).unwrap_or_else(|e| panic!("{line}: {e}")).tool;
        assert_eq!(tool("--cores=1"), None);
        assert_eq!(tool("check"), Some(Tool::Check(CheckOptions::default())));
        for line in ["check --data-dir /x", "check -data-dir=/x"] {
            let data_dir = Some(PathBuf::from("/x"));
            let expected = CheckOptions { data_dir, ..CheckOptions::default() };
            assert_eq!(tool(line), Some(Tool::Check(expected)), "{line}");
        }
        let Some(Tool::Check(check)) = tool("check -bucket -storage.bucket s3://b -config.file=f")
        else {
            panic!("it checks");
        };
        assert!(check.is_of_bucket && !check.settings.are_empty());
        assert_eq!(check.settings.config_file, Some(PathBuf::from("f")));
        let flags = check.settings.flags();
        let flags: Vec<_> = flags.iter().map(|(setting, value)| (setting.path, &**value)).collect();
        assert_eq!(flags, [("storage.bucket", "s3://b")]);
        let inspect = |what: Option<&str>, text: Option<&str>, is_of_bucket| {
            let (what, text) = (what.map(PathBuf::from), text.map(OsString::from));
            let settings = StoreSettings::default();
            Some(Tool::Inspect(InspectOptions { what, text, is_of_bucket, settings }))
        };
        assert_eq!(tool("inspect a.seg"), inspect(Some("a.seg"), None, false));
        assert_eq!(tool("inspect --find x data"), inspect(Some("data"), Some("x"), false));
        assert_eq!(tool("inspect --bucket"), inspect(None, None, true));
        assert_eq!(tool("inspect --bucket cluster"), inspect(Some("cluster"), None, true));
        assert_eq!(tool("inspect --find x --bucket"), inspect(None, Some("x"), true));
        let health = |address: &str, path: &str| {
            let address = address.parse().expect("an address");
            Some(Tool::Health { address, path: path.to_owned() })
        };
        assert_eq!(tool("health"), health("127.0.0.1:3100", probe::ALIVE));
        assert_eq!(tool("health -address [::1]:1 --path=/ready"), health("[::1]:1", "/ready"));
        let backup = |server: &str, name: Option<&str>| {
            Some(Tool::Backup { server: server.to_owned(), name: name.map(str::to_owned) })
        };
        assert_eq!(tool("backup"), backup("http://127.0.0.1:3100", None));
        assert_eq!(tool("backup -server=http://h:1 --name x"), backup("http://h:1", Some("x")));
        let to = |tenant: Option<&str>, login| Destination {
            address: "http://127.0.0.1:3100".to_owned(),
            tenant: tenant.map(str::to_owned),
            login,
        };
        let export = ExportOptions {
            from: to(None, Some(Login::Token(PathBuf::from("t")))),
            query: "{}".to_owned(),
            start: "-1".to_owned(),
            end: "2".to_owned(),
            format: ExportFormat::Lines,
            output: PathBuf::from("-"),
        };
        let line = "export --query={} --start=-1 -end 2 --output=- --token-file t";
        assert_eq!(tool(line), Some(Tool::Export(export)));
        let login = Login::Password { user: "u".to_owned(), file: PathBuf::from("f") };
        let files = ["-", "b.gz"].map(PathBuf::from).to_vec();
        let import = ImportOptions { to: to(Some("x"), Some(login)), files };
        let line = "import -tenant x --user u --password-file f - b.gz";
        assert_eq!(tool(line), Some(Tool::Import(import)));
        let (from, to) = (PathBuf::from("a"), PathBuf::from("b"));
        assert_eq!(tool("restore --from a -data-dir=b"), Some(Tool::Restore { from, to }));
        for line in [
            "backup x",
            "backup --name",
            "restore --from a",
            "restore --data-dir b",
            "health --address=localhost",
            "export --query {} --start 1 --end 2",
            "export --query {} --start 1 --end 2 --output x y",
            "export --query {} --start 1 --end 2 --output x --user u",
            "export --query {} --start 1 --end 2 --output x --password-file f",
            "export --query {} --start 1 --end 2 --output x --format csv",
            "import",
            "import x --user u --password-file f --token-file t",
            "health x",
            "inspect",
            "inspect --find x",
            "check x",
            "--cores=1 check",
            "check --cores=1",
            "check --bucket --data-dir x",
            "check --storage.cache-max-bytes=1",
            "inspect --storage.bucket=s3://b x",
            "inspect a b",
        ] {
            assert!(parse_line(line).is_err(), "{line}");
        }
    }

    #[test]
    fn flags_of_the_reference_are_renamed_or_ignored() {
        let line = "-target=all -validation.reject-old-samples=false -kafka.address a:1 \
                    -boltdb.shipper.compactor.shared-store=filesystem -log-config-reverse-order \
                    -querier.query-timeout 5m --cores=1 -print-config-stderr -store.retention=48h";
        let cli = parse_line(line).unwrap_or_else(|error| panic!("{error}"));
        let ignored: Vec<_> = cli.ignored_flags.iter().map(|flag| flag.path.as_str()).collect();
        let expected = [
            "--kafka.address",
            "--boltdb.shipper.compactor.shared-store",
            "--log-config-reverse-order",
        ];
        assert_eq!(ignored, expected);
        assert!(cli.print_config && !cli.list_targets);
        let mut flags = flags_of(line);
        flags.sort_unstable();
        let own = |path, value: &str| (path, value.to_owned());
        let expected = [
            own("cores", "1"),
            own("limits_config.query_timeout", "5m"),
            own("limits_config.reject_old_samples", "false"),
            own("limits_config.retention_period", "48h"),
            own("target", "all"),
        ];
        assert_eq!(flags, expected);
        // Arguments behind the end of flags are no flags.
        assert!(parse_line("-- --kafka.address=a").is_err());
    }

    #[test]
    fn flags_of_lists_may_be_repeated() {
        let flags = flags_of("-memberlist.join=a -memberlist.join b:1,c --memberlist.nodename=n");
        let own = |path, value: &str| (path, value.to_owned());
        let expected =
            [own("memberlist.join_members", "a,b:1,c"), own("memberlist.node_name", "n")];
        let found: Vec<_> = expected.iter().filter(|pair| flags.contains(pair)).collect();
        assert_eq!(found.len(), flags.len(), "{flags:?}");
    }

    #[test]
    fn mistakes_are_explained() {
        let error = parse_line("-server.http-listen-prt=1").expect_err("a typo").to_string();
        assert!(error.contains("server.http-listen-port"), "{error}");
        for line in ["stray", "--cores", "--cores 1 --cores 2", "-- --cores=1"] {
            assert!(parse_line(line).is_err(), "{line}");
        }
    }
}
