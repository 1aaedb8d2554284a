//! `fusee completions`: the completion of commands and options in a shell.
//!
//! Not here: options of commands that other programs carry out (`passed`). A shell completes the names of these commands, and file names behind them.

use anyhow::Result;
use clap::{Args, Command};
use clap_complete::Shell;
use fusee_host::words;

/// The name of the command in a shell.
const NAME: &str = "fusee";

/// The shell.
#[derive(Args)]
pub struct CompletionsArguments {
    /// The shell that reads the script.
    shell: Shell,
}

/// Prints the script for a shell.
///
/// # Errors
/// The standard output cannot be written to.
pub fn completions(arguments: &CompletionsArguments, command: Command) -> Result<bool> {
    words::print(&script(arguments.shell, command));
    Ok(true)
}

/// The script that completes `command` in a shell.
fn script(shell: Shell, command: Command) -> String {
    // Names of functions of the script are made of the command's own name, too.
    let mut command = command.name(NAME);
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut command, NAME, &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Arguments;
    use clap::CommandFactory;

    /// The words that bash offers after these.
    fn offered(script: &str, words: &[&str]) -> Option<Vec<String>> {
        let (last, words) = (words.last()?, words.join(" "));
        let text = format!(
            "{script}\nCOMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _{NAME} {NAME} '{last}' ''; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let output = std::process::Command::new("bash").args(["--norc", "-c", &text]).output();
        let output = match output {
            Ok(output) => output,
            // A host without bash completes nothing in it.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) => panic!("{error}"),
        };
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect())
    }

    #[test]
    fn a_shell_completes_commands_and_their_options() {
        let bash = script(Shell::Bash, Arguments::command());
        if let Some(words) = offered(&bash, &["fusee", "ana"]) {
            assert_eq!(words, ["analyze"]);
            assert_eq!(offered(&bash, &["fusee", "run", "--obs"]).unwrap_or_default(), ["--observed"]);
            assert_eq!(offered(&bash, &["fusee", "fly"]).unwrap_or_default(), [""; 0]);
        }
        let commands: Vec<String> =
            Arguments::command().get_subcommands().map(|one| one.get_name().to_owned()).collect();
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell, Arguments::command());
            let missing: Vec<&String> = commands.iter().filter(|name| !script.contains(name.as_str())).collect();
            assert!(missing.is_empty() && script.contains("observed"), "{shell}: {missing:?}");
        }
    }
}
