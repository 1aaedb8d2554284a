//! A project outside the repository with GPU kernels of its own: made as the page `docs/own-kernels.md` says, run, changed, run again.

use anyhow::{Context, Result, ensure};

use crate::own_project::own;
use fusee_host::project::Project;

/// Name of the check, as `cargo xtask test` has it.
pub const CHECK: &str = "GPU kernels of a project outside the repository";

/// # Errors
/// A step that could not be tried.
pub fn check(fusee: &Project) -> Result<Vec<String>> {
    let folder = fusee.target.join("outside-kernels/vision");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let made = own(&fusee.root, &["new", &folder.display().to_string()])?;
    ensure!(made.status == 0, "`cargo xtask new` failed: {}", made.all());
    let examples = fusee.root.join("docs/examples");
    let read = |file: &str| std::fs::read_to_string(examples.join(file)).with_context(|| file.to_owned());
    let write = |file: &str, text: String| {
        let path = folder.join(file);
        std::fs::create_dir_all(path.parent().context("a file in a folder")?)?;
        std::fs::write(&path, text).with_context(|| path.display().to_string())
    };
    let path = |part: &str| toml::Value::from(fusee.root.join(part).display().to_string()).to_string();
    write(
        "my-kernels/Cargo.toml",
        format!(
            "[package]\nname = \"my-kernels\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nfusee-compute = {{ path = {} }}\n\n\
             [dev-dependencies]\nfusee-device-model = {{ path = {}, features = [\"std\"] }}\n",
            path("accel/compute"),
            path("qemu/device-model")
        ),
    )?;
    let kernels = read("picture-kernels/src/lib.rs")?;
    write("my-kernels/src/lib.rs", kernels.clone())?;
    write("src/bin/pictures.rs", read("pictures.rs")?)?;
    write("pictures.toml", read("pictures.toml")?)?;
    let workspace = std::fs::read_to_string(folder.join("Cargo.toml"))?;
    let workspace = workspace.replace("[workspace]\n", "[workspace]\nmembers = [\"my-kernels\"]\n");
    let fusee_at = workspace.lines().find(|line| line.starts_with("fusee = { path = ") && line.ends_with(" }"));
    let fusee_at = fusee_at.with_context(|| format!("a new project depends on the crate otherwise: {workspace}"))?;
    let with_gpu = format!(
        "{}, features = [\"gpu\"] }}\nmy-kernels = {{ path = \"my-kernels\" }}",
        fusee_at.trim_end_matches(" }")
    );
    write("Cargo.toml", workspace.replace(fusee_at, &with_gpu))?;

    let run = || own(&folder, &["--no-install", "run", "--manifest", "pictures.toml"]);
    let mut problems = Vec::new();
    let mut expect = |what: &str, words: &str| -> Result<()> {
        let ran = run()?;
        if ran.status != 0 || !ran.all().contains(words) {
            problems.push(format!("{what}: ended with {}, and does not say {words:?}:\n{}", ran.status, ran.all()));
        }
        Ok(())
    };
    expect("as it is", &line(MEDIAN))?;
    // Its author changes a kernel: task and engine have the new one.
    let minimum = kernels.replace("*pixel = nine[4];", "*pixel = nine[0];");
    ensure!(minimum != kernels, "the median of the example is written otherwise");
    write("my-kernels/src/lib.rs", minimum)?;
    expect("changed", &line(MINIMUM))?;
    if problems.is_empty() {
        // Half a gigabyte, which is not looked at.
        std::fs::remove_dir_all(fusee.target.join("outside-kernels"))?;
    }
    Ok(problems)
}

const MINIMUM: usize = 0;
const MEDIAN: usize = 4;

/// The output of the first job, if each pixel becomes the one in this place among itself and its neighbours by value.
fn line(place: usize) -> String {
    let (width, height) = (64_usize, 48_usize);
    let pixel = |x: usize, y: usize| match ((y * width + x) * 31 + 1) % 17 {
        0 => 255,
        _ => 2 * x + y,
    };
    let smooth = |x: usize, y: usize| {
        let near = |at: usize, by: usize, end: usize| (at + by).saturating_sub(1).min(end - 1);
        let mut nine: Vec<usize> = (0..9).map(|by| pixel(near(x, by % 3, width), near(y, by / 3, height))).collect();
        nine.sort_unstable();
        nine[place]
    };
    let dark = (0..width * height).filter(|at| smooth(at % width, at / width) < 64).count();
    format!("{0} of {0} pixels, 256 of 256 counters; {dark} are dark", width * height)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn the_manifest_of_the_page_is_one() {
        let root = fusee_host::system::root().unwrap();
        let path = Path::new("docs/examples/pictures.toml");
        let text = std::fs::read_to_string(root.join(path)).unwrap();
        let system = fusee_manifest::Manifest::parse(path, &text).unwrap().system;
        assert_eq!(system.devices[0].firmware.as_deref(), Some("engine-core+my-kernels"));
    }
}
