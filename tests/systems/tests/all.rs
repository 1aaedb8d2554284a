//! All checks of this repository, as cases of a runner: `cargo test -p systems NAME` runs those with names that contain `NAME`.

fn main() -> std::process::ExitCode {
    systems::main()
}
