//! The line in `main`: where it may stand, what it costs who leaves it out, and who else can say
//! what the supervisor is told.

use std::{
    fs,
    io::Write as _,
    net::{TcpListener, TcpStream},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Command, Output, Stdio},
};

use crate::{
    calls::cases,
    victim::{self, ARGUMENTS_FIRST, Home, LATE, WITH, WITHOUT},
};

cases! {
    a_command_does_not_find_the_environment_of_the_program
    late_and_twice_is_good_too
    a_program_that_does_not_come_to_the_line_is_told
    the_argument_means_nothing_to_others
    without_proc_commands_run_without_a_supervisor
    a_command_has_no_terminal
}

const SECRET: &str = "sesame-in-the-environment";

async fn a_command_does_not_find_the_environment_of_the_program() {
    let home = Home::new();
    let parent = "tr '\\0' '\\n' < /proc/$PPID/environ";
    // The brackets: the words of the search are not found in the search.
    let search = "grep -ls 'sesame[-]in' /proc/[0-9]*/environ | wc -l";
    for user in victim::users() {
        let run = |way: &str, command: &str, hidden: bool| {
            let mut program = home.program(way, command);
            program.env("SOME_KEY", SECRET).args(hidden.then_some("hidden"));
            victim::as_user(&mut program, user);
            home.output(&mut program)
        };
        let with = run(WITH, parent, false);
        assert!(with.starts_with("exit status: 0\n") && !with.contains(SECRET), "{with}");
        let without = run(WITHOUT, parent, false);
        assert!(without.contains(SECRET), "the way in is there: {without}");
        assert!(!run(WITH, "env", false).contains(SECRET));
        for way in [WITH, WITHOUT] {
            // What is not hidden is found by a search, and the documentation says so.
            assert!(run(way, search, false).contains("stdout:\n1\n"), "{way} {user:?}");
            let hidden = run(way, &format!("{search}; {parent}"), true);
            let is_root = user.is_none() && victim::is_root();
            assert_eq!(hidden.contains("stdout:\n0\n"), !is_root, "{way} {user:?}: {hidden}");
            assert_eq!(hidden.contains(SECRET), is_root && way == WITHOUT, "{hidden}");
        }
    }
}

async fn late_and_twice_is_good_too() {
    let home = Home::new();
    let said = home.output(&mut home.program(LATE, "echo $((6 * 7)); cat /proc/$PPID/cmdline"));
    assert!(said.starts_with("exit status: 0\nstdout:\n42\nharness-supervisor"), "{said}");
    let said = home.output(&mut home.program(LATE, "kill -9 $$"));
    assert!(said.starts_with("signal: 9 (SIGKILL)\n"), "{said}");
}

async fn a_program_that_does_not_come_to_the_line_is_told() {
    let home = Home::new();
    let said = home.output(&mut home.program(ARGUMENTS_FIRST, "touch ran"));
    let expected = "the command was not started: its supervisor, this program started again, did \
                    not begin (exit status: 7); the program must call \
                    `harness::toolbox::supervise` in the first line of `main`\n\
                    stdout: (nothing)\nstderr:\nunknown option --harness-";
    assert!(said.starts_with(expected), "{said}");
    assert!(!home.path("ran").exists());
}

/// Only a socket gives orders, and nothing that comes through one is a panic.
async fn the_argument_means_nothing_to_others() {
    const ARGUMENT: &str = "--harness-supervises-a-command";
    let home = Home::new();
    let with_argument = |stdin: Stdio| -> Output {
        let mut program = Command::new(home.program(WITH, "").get_program());
        program.arg(ARGUMENT).stdin(stdin).output().unwrap()
    };
    let file = home.path("file");
    fs::write(&file, "x\0y\0").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut stdins =
        vec![Stdio::null(), fs::File::open(&file).unwrap().into(), OwnedFd::from(tcp).into()];
    let touched = home.path("touched");
    let command = format!("touch {}", touched.display());
    let command = [b"/nowhere\0", command.as_bytes(), b"\0"].concat();
    let length = u32::try_from(command.len()).unwrap().to_le_bytes();
    let broken: [&[u8]; 5] = [b"", b"\xff\xff\xff\xff", b"\x04\0\0\0abcd", b"\x02\0\0\0a", &length];
    for bytes in broken {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(bytes).unwrap();
        drop(ours);
        stdins.push(OwnedFd::from(theirs).into());
    }
    for stdin in stdins {
        let output = with_argument(stdin);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(
            errors.starts_with("harness-supervisor: ") && !errors.contains("panicked"),
            "{errors}"
        );
        assert!(errors.contains("is only for this program itself"), "{errors}");
    }
    // An order of somebody else is what a shell would do for it too, and where that fails it ends.
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.write_all(&[&length[..], &command].concat()).unwrap();
    let output = with_argument(OwnedFd::from(theirs).into());
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
    assert!(!touched.exists());
    // With another argument beside it, it is no supervisor.
    let mut program = home.program(WITH, ARGUMENT);
    let said = home.output(program.arg("more"));
    assert!(said.starts_with("exit status: ") && said.contains("bash: "), "{said}");
}

/// Only who may unmount it can try.
async fn without_proc_commands_run_without_a_supervisor() {
    let home = Home::new();
    let program = home.program(WITHOUT, "echo $((6 * 7)); sleep 1000 & timeout 9 true; exit 3");
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", "umount -l /proc && exec \"$@\"", "sh"]);
    let output = unshare.arg(program.get_program()).args(program.get_args()).output();
    let output = match output {
        Ok(output) if output.status.success() => output,
        other => return println!("not tried, since /proc cannot be unmounted here: {other:?}"),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "exit status: 3\nstdout:\n42\nstderr: (nothing)\n");
}

/// A session has a terminal only from its leader, and this one's leader is the supervisor.
async fn a_command_has_no_terminal() {
    let home = Home::new();
    let session = "read -r _ _ _ _ _ session _ < /proc/$$/stat; [ $session = $PPID ] || exit 3";
    let command = format!("{session}; echo free > /dev/tty");
    let said = home.output(&mut home.program(WITH, &command));
    assert!(said.starts_with("exit status: 1\n"), "{said}");
    assert!(said.contains("/dev/tty: No such device or address"), "{said}");
}
