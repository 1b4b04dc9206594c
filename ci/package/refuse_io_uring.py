"""Runs a program that the kernel refuses io_uring, as container runtimes do by default.

usage: refuse_io_uring.py ERRNO PROGRAM ARGUMENT...
"""

import ctypes
import os
import struct
import sys

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
LOAD, AT_LEAST, ABOVE, RETURN = 0x20, 0x35, 0x25, 0x06
# io_uring_setup, io_uring_enter and io_uring_register have these numbers on every architecture.
FIRST, LAST = 425, 427


class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


def main():
    refusal = REFUSE | int(sys.argv[1])
    instructions = [
        (LOAD, 0, 0, 0),
        (AT_LEAST, 0, 2, FIRST),
        (ABOVE, 1, 0, LAST),
        (RETURN, 0, 0, refusal),
        (RETURN, 0, 0, ALLOW),
    ]
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    memory = ctypes.create_string_buffer(code, len(code))
    program = Filter(len(instructions), ctypes.addressof(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        sys.exit(f"no_new_privs: {os.strerror(ctypes.get_errno())}")
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        sys.exit(f"seccomp: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[2], sys.argv[2:])


main()
