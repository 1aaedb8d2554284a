//! All checks of this repository, as cases of a runner: `cargo test -p systems NAME` runs those whose names contain `NAME`.

fn main() -> std::process::ExitCode {
    systems::main()
}
