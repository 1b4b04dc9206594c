//! Asking the kernel for io_uring before a backend does.
//!
//! glommio ends the process when it meets an old kernel or a refusal, and monoio
//! says only that it did not work. Here the reason is an error.

use std::io;

use io_uring::{IoUring, Probe, opcode};

/// The operations that glommio and monoio ask the kernel for.
const NEEDED: [u8; 24] = [
    opcode::Nop::CODE,
    opcode::Readv::CODE,
    opcode::Writev::CODE,
    opcode::Fsync::CODE,
    opcode::ReadFixed::CODE,
    opcode::WriteFixed::CODE,
    opcode::PollAdd::CODE,
    opcode::PollRemove::CODE,
    opcode::SendMsg::CODE,
    opcode::RecvMsg::CODE,
    opcode::Timeout::CODE,
    opcode::TimeoutRemove::CODE,
    opcode::Accept::CODE,
    opcode::AsyncCancel::CODE,
    opcode::LinkTimeout::CODE,
    opcode::Connect::CODE,
    opcode::Fallocate::CODE,
    opcode::OpenAt::CODE,
    opcode::Close::CODE,
    opcode::Statx::CODE,
    opcode::Read::CODE,
    opcode::Write::CODE,
    opcode::Send::CODE,
    opcode::Recv::CODE,
];

/// Whether this thread may have a ring with all operations that are needed.
pub(crate) fn probe_ring() -> io::Result<()> {
    let ring = IoUring::new(4)?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    match NEEDED.iter().find(|code| !probe.is_supported(**code)) {
        None => Ok(()),
        Some(code) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("the kernel has no io_uring operation {code}"),
        )),
    }
}

/// Adds advice for the user to the error of a ring that the system refused.
pub(crate) fn explain_refused_ring(error: &io::Error) -> io::Error {
    let advice = match error.raw_os_error() {
        Some(libc::ENOMEM) => "raise the memlock limit (ulimit -l, LimitMEMLOCK=) to 8 MiB",
        Some(libc::EPERM | libc::EACCES) => {
            "allow the io_uring system calls (seccomp profile, sysctl kernel.io_uring_disabled)"
        }
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit of open files (ulimit -n)",
        _ => {
            "it needs Linux 5.11 or later, the io_uring system calls allowed, and a memlock limit \
             (ulimit -l, LimitMEMLOCK=) of at least 512 KiB, better 8 MiB"
        }
    };
    let text = format!("io_uring cannot be used: {error}; {advice}; monoio can do with epoll");
    io::Error::new(error.kind(), text)
}
