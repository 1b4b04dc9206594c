//! The ends of a process, and refusals to start one. Each test runs itself again as a child process
//! and looks at how that ends.

use std::future::pending;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};

use logsvc_runtime::monoio_backend::{self, MonoioDriver, MonoioRuntime};
use logsvc_runtime::{
    CoreId, FORCED_EXIT_CODE, Latch, LaunchOptions, Runtime, glommio_backend, handle_signals,
};

const CHILD: &str = "LOGSVC_RUNTIME_TEST_CHILD";

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Starts this binary again, for one test only.
fn start_child(test: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn run_child(test: &str) -> (Output, String) {
    let output = start_child(test).wait_with_output().unwrap();
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    (output, String::from_utf8_lossy(&text).into_owned())
}

fn launch<F, Fut>(cores: u16, main: F)
where
    F: Fn(MonoioRuntime) -> Fut + Send + Sync + Clone + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let options = LaunchOptions::with_cores(cores);
    monoio_backend::launch(&options, MonoioDriver::Auto, main).unwrap();
}

#[test]
fn a_panic_on_one_core_stops_the_process() {
    if is_child() {
        launch(2, |runtime| async move {
            if runtime.core() == CoreId(1) {
                panic!("the second core has had enough");
            }
            pending::<()>().await;
        });
        unreachable!("the first core never returns");
    }
    let (output, text) = run_child("a_panic_on_one_core_stops_the_process");
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
    assert!(text.contains("core-1") && text.contains("has had enough"), "{text}");
}

#[test]
fn a_panic_in_a_task_stops_the_process() {
    if is_child() {
        launch(1, |runtime| async move {
            drop(runtime.spawn(async { panic!("a detached task") }));
            pending::<()>().await;
        });
    }
    let (output, text) = run_child("a_panic_in_a_task_stops_the_process");
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
}

#[test]
fn a_panic_on_a_side_thread_stops_the_process() {
    if is_child() {
        launch(1, |runtime| async move {
            runtime.offload(|| panic!("a job")).await;
        });
    }
    let (output, text) = run_child("a_panic_on_a_side_thread_stops_the_process");
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
    assert!(text.contains("side-work"), "{text}");
}

fn send(child: &Child, signal: i32) {
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: a call with plain integers; the child has not been waited for, so
    // its number is still its own.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// Reads the child's output up to a line that ends in `text`.
fn wait_for(output: &mut impl BufRead, text: &str) {
    let mut line = String::new();
    while !line.trim_end().ends_with(text) {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the child ended before {text:?}");
    }
}

/// Waits for the latch, and if `stubborn` never ends after that.
fn run_until_signal(stubborn: bool) {
    let latch = Latch::new();
    handle_signals(latch.clone(), || ()).unwrap();
    launch(2, move |runtime| {
        let latch = latch.clone();
        async move {
            if runtime.core() == CoreId(0) {
                println!("ready");
            }
            latch.wait().await;
            if stubborn {
                if runtime.core() == CoreId(0) {
                    println!("told");
                    // Longer than two signals are one wish.
                    let later = runtime.now().after(std::time::Duration::from_millis(1100));
                    runtime.sleep_until(later).await;
                    println!("still here");
                }
                pending::<()>().await;
            }
        }
    });
}

#[test]
fn a_signal_stops_in_good_order() {
    if is_child() {
        return run_until_signal(false);
    }
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let mut child = start_child("a_signal_stops_in_good_order");
        let mut output = BufReader::new(child.stdout.take().unwrap());
        wait_for(&mut output, "ready");
        send(&child, signal);
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{rest}");
    }
}

#[test]
fn a_second_signal_stops_at_once() {
    if is_child() {
        return run_until_signal(true);
    }
    let mut child = start_child("a_second_signal_stops_at_once");
    let mut output = BufReader::new(child.stdout.take().unwrap());
    wait_for(&mut output, "ready");
    send(&child, libc::SIGTERM);
    wait_for(&mut output, "told");
    // GNU timeout and process groups send the same wish twice at once.
    send(&child, libc::SIGINT);
    for harmless in [libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2] {
        send(&child, harmless);
    }
    wait_for(&mut output, "still here");
    send(&child, libc::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(FORCED_EXIT_CODE));
}

/// Lets this thread and all threads that it starts get EPERM from `io_uring_setup`, as container
/// profiles do.
fn forbid_io_uring() {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let mut program = [
        // The number of the system call.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter {
            code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
            jt: 0,
            jf: 1,
            k: u32::try_from(libc::SYS_io_uring_setup).unwrap(),
        },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: plain integers; `filter` and the program it points to outlive the
    // calls, and the kernel copies them.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter, 0, 0), 0);
    }
}

#[test]
fn refused_io_uring_falls_back_or_is_explained() {
    if is_child() {
        forbid_io_uring();
        let options = LaunchOptions::with_cores(2);
        launch(2, |runtime| async move {
            assert_eq!(runtime.driver_name(), "monoio/epoll");
        });
        let error = monoio_backend::launch(&options, MonoioDriver::IoUring, |_| async {
            unreachable!("there is no ring");
        });
        assert!(error.unwrap_err().to_string().contains("io_uring"));
        let error = glommio_backend::launch(&options, |_| async {
            unreachable!("there is no ring");
        });
        let text = error.unwrap_err().to_string();
        assert!(text.contains("io_uring") && text.contains("seccomp"), "{text}");
        println!("refused well");
        return;
    }
    let (output, text) = run_child("refused_io_uring_falls_back_or_is_explained");
    assert!(output.status.success() && text.contains("refused well"), "{text}");
}

#[test]
fn a_small_memlock_limit_is_explained() {
    if is_child() {
        let limit = libc::rlimit { rlim_cur: 64 << 10, rlim_max: 64 << 10 };
        // SAFETY: `limit` is readable and lives through the call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) }, 0);
        let options = LaunchOptions::with_cores(2);
        let error = glommio_backend::launch(&options, |_| async {
            unreachable!("the limit is below what glommio takes");
        });
        let text = error.unwrap_err().to_string();
        assert!(text.contains("memlock"), "{text}");
        // With or without a ring, monoio runs.
        launch(2, |_| async {});
        println!("refused well");
        return;
    }
    let (output, text) = run_child("a_small_memlock_limit_is_explained");
    assert!(output.status.success() && text.contains("refused well"), "{text}");
}
