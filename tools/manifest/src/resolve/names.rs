//! Names that a manifest gives: to the system, to all kinds of things in it, and to the objects of tasks.
//!
//! They become names of files, columns of tables and words in a terminal, so they have letters, digits, `-` and `_`, in parts with a point
//! between them.
//!
//! Not here: the length of names, which the records of the image determine.

use toml::Spanned;

use crate::error::Reason;
use crate::read::Mistake;
use crate::schema::{File, Named};

/// Names of the file that are none.
pub(crate) fn bad(file: &File) -> Vec<Mistake> {
    let bad = all(file).into_iter().filter(|name| !name.get_ref().split('.').all(is_part));
    bad.map(|name| (name.span(), Reason::BadName(name.get_ref().clone()))).collect()
}

fn is_part(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

fn keys<T>(table: &Named<T>) -> impl Iterator<Item = &Spanned<String>> {
    table.0.iter().map(|(name, _)| name)
}

/// All names of the file.
fn all(file: &File) -> Vec<&Spanned<String>> {
    let mut names = vec![&file.system.name];
    names.extend(keys(&file.clusters).chain(keys(&file.tasks)).chain(keys(&file.endpoints)));
    names.extend(keys(&file.notifications).chain(keys(&file.interrupts)).chain(keys(&file.regions)));
    names.extend(
        keys(&file.board.devices).chain(keys(&file.devices)).chain(keys(&file.engines)).chain(keys(&file.groups)),
    );
    names.extend(keys(&file.pools).chain(keys(&file.graphs)));
    let parts = file.graphs.0.iter().map(|(_, graph)| keys(&graph.edges).chain(keys(&graph.objects)));
    names.extend(parts.flatten());
    names.extend(file.buses.0.iter().flat_map(|(name, bus)| std::iter::once(name).chain(keys(&bus.frames))));
    names.extend(file.tasks.0.iter().flat_map(|(_, task)| keys(&task.parameters).chain(keys(&task.handles))));
    names
}
