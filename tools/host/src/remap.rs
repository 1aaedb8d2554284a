//! Names of sources in programs: the bytes of an image do not depend on the machine that builds it.
//!
//! Programs name the sources of their panics. The compiler is told to name these without the places of this machine; debug information, which is in no
//! image, keeps the places, so debuggers find the sources.
//!
//! Not here: other reasons for which programs differ. Cargo names a crate outside the workspace by its place, and that name orders code: a project with a
//! dependency by `path` has the same image in another folder only if both folders of the dependency have the same name.

use std::path::PathBuf;

use crate::project::Project;

/// Flags that keep places of this machine out of programs, which name the sources of their panics: the bytes of an image do not depend on the machine that builds it.
/// A place with a blank in its name stays, as flags are separated by blanks.
#[must_use]
pub fn nameless(project: &Project, fusee: &Project) -> Vec<String> {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from).or(home);
    let mut places: Vec<(PathBuf, &str)> = Vec::new();
    if let Some(cargo) = cargo {
        let registries = std::fs::read_dir(cargo.join("registry/src")).into_iter().flatten().flatten();
        places.extend(registries.map(|registry| (registry.path(), "")));
        places.push((cargo.join("git/checkouts"), ""));
    }
    places.push((fusee.root.clone(), FUSEE));
    if !project.is(fusee) {
        places.push((project.root.clone(), ""));
    }
    remaps(places)
}

/// The name of Fusee's folder in the messages of panics.
const FUSEE: &str = "fusee";

/// The flags for these places, each with its name in messages. Of two places that hold a source the inner one, which stands later, has its name.
fn remaps(mut places: Vec<(PathBuf, &str)>) -> Vec<String> {
    places.sort();
    places.dedup_by(|one, other| one.0 == other.0);
    let flags = places.iter().map(|(place, name)| format!("--remap-path-prefix={}={name}", place.display()));
    let scope = "--remap-path-scope=macro".to_owned();
    std::iter::once(scope).chain(flags.filter(|flag| !flag.contains(char::is_whitespace))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_places_the_inner_one_has_its_name() {
        let places = |all: &[(&str, &'static str)]| {
            remaps(all.iter().map(|(place, name)| (PathBuf::from(place), *name)).collect())
        };
        assert_eq!(
            places(&[("/fusee/x", ""), ("/a b", ""), ("/fusee", "fusee"), ("/fusee", "fusee")]),
            ["--remap-path-scope=macro", "--remap-path-prefix=/fusee=fusee", "--remap-path-prefix=/fusee/x="]
        );
    }
}
