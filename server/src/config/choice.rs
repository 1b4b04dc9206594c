//! Settings that take one of a few words.

use logsvc_runtime::monoio_backend::MonoioDriver;

/// A setting that takes one of a few words.
pub(crate) trait Choice {
    /// All words, joined by bars.
    fn words(&self) -> &'static str;
    /// The word that is set.
    fn word(&self) -> &'static str;
    /// Sets a word; false if it is none of them.
    fn choose(&mut self, word: &str) -> bool;

    /// Why a word cannot be set.
    fn fault(&self, word: &str) -> String {
        format!("{word:?} is none of: {}", self.words().replace('|', ", "))
    }
}

/// Gives the variants of an enum their words.
macro_rules! choice {
    ($type:ty { $first:ident = $first_word:literal, $($variant:ident = $word:literal,)* }) => {
        impl Choice for $type {
            fn words(&self) -> &'static str {
                concat!($first_word $(, "|", $word)*)
            }

            fn word(&self) -> &'static str {
                match self {
                    Self::$first => $first_word,
                    $(Self::$variant => $word,)*
                }
            }

            fn choose(&mut self, word: &str) -> bool {
                *self = match word {
                    $first_word => Self::$first,
                    $($word => Self::$variant,)*
                    _ => return false,
                };
                true
            }
        }
    };
}

/// What the rate of a tenant's pushes means on nodes among others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RateStrategy {
    /// All nodes together let so much in.
    Global,
    /// Each node does.
    Local,
}

choice!(RateStrategy {
    Global = "global",
    Local = "local",
});

/// Which backend runs the cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RuntimeChoice {
    /// io_uring, or epoll where the kernel refuses io_uring.
    Monoio,
    /// io_uring only.
    Glommio,
}

choice!(RuntimeChoice {
    Monoio = "monoio",
    Glommio = "glommio",
});

choice!(MonoioDriver {
    Auto = "auto",
    IoUring = "io_uring",
    Epoll = "epoll",
});

/// How severe a log line must be at least.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LogLevel {
    /// Everything that helps to find a fault.
    Debug,
    /// Events that an operator wants to know of.
    Info,
    /// Events that an operator should look into.
    Warn,
    /// Failures.
    Error,
}

choice!(LogLevel {
    Debug = "debug",
    Info = "info",
    Warn = "warn",
    Error = "error",
});

/// How log lines are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

choice!(LogFormat {
    Text = "text",
    Json = "json",
});
