//! Programs of others, which read our cards.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Output};
use std::sync::Mutex;

/// The program, or `None` and a line that says how to get it, if it is not here.
pub fn found(program: &str, package: &str, test: &str) -> Option<Command> {
    // Administrators' programs are not in every path.
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    if std::env::split_paths(&path).any(|folder| folder.join(program).is_file()) {
        let mut command = Command::new(program);
        command.env("PATH", path);
        return Some(command);
    }
    // Not by a macro: its output is not shown for a test that passes.
    let line = format!("skip   {test}: no {program} here; apt-get install {package}\n");
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID.lock().unwrap().insert(line.clone()) {
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    None
}

/// The output of the program. It must succeed.
pub fn output(command: &mut Command) -> Vec<u8> {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(status.success(), "{command:?}: {status}\n{}{}", text(&stdout), text(&stderr));
    stdout
}
