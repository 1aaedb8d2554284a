//! CAN buses: frames of tasks that keep their word, of strangers and of other nodes. The kernel knows nothing of them.

use fusee_simulator::workload::Source;
use toml::Table;

use super::{MICROSECOND, MILLISECOND, insert, one_in, section, with_jobs};
use crate::hostile::tree::{is, nanoseconds, task, time};

/// Lengths that frames of CAN FD alone have.
const LONG: [i64; 4] = [12, 20, 48, 64];

/// Adds a bus or two.
pub(super) fn add(tree: &mut Table, source: &mut Source) {
    let tasks = with_jobs(tree);
    for number in 0..source.draw(1, 2) {
        let mut bus = Table::new();
        insert(&mut bus, "bit_rate", source.pick(&[125_000_i64, 250_000, 500_000, 1_000_000]));
        if one_in(source, 3) {
            insert(&mut bus, "data_rate", source.pick(&[1_000_000_i64, 2_000_000, 8_000_000]));
        }
        if one_in(source, 3) {
            insert(&mut bus, "fault_interval", nanoseconds(source.draw(5, 100) * MILLISECOND));
        }
        let mut frames = Table::new();
        for place in 0..source.draw(1, 6) {
            let sender = any_of(tree, &tasks, source);
            insert(&mut frames, &format!("f{place}"), frame(tree, &tasks, sender, source));
        }
        insert(&mut bus, "frames", frames);
        insert(section(tree, "buses"), &format!("b{number}"), bus);
    }
}

/// A frame of the task `sender`, if there is one.
fn frame(tree: &mut Table, tasks: &[String], sender: Option<String>, source: &mut Source) -> Table {
    let mut one = Table::new();
    let is_extended = one_in(source, 3);
    let identifier = source.draw(0, if is_extended { (1 << 29) - 1 } else { (1 << 11) - 1 });
    insert(&mut one, "identifier", identifier as i64);
    if is_extended || one_in(source, 4) {
        insert(&mut one, "extended", is_extended);
    }
    let is_fd = one_in(source, 3);
    let short = source.draw(0, 8) as i64;
    let long = source.pick(&LONG);
    insert(&mut one, "bytes", if is_fd { source.pick(&[short, long]) } else { short });
    if is_fd || one_in(source, 4) {
        insert(&mut one, "fd", is_fd);
    }
    let least = sender.as_ref().and_then(|name| time(task(tree, name)?, "period"));
    let period = least.unwrap_or(source.draw(1, 50) * MILLISECOND) * source.draw(1, 3);
    if sender.is_none() || one_in(source, 3) {
        insert(&mut one, "period", nanoseconds(period));
    }
    if one_in(source, 3) {
        insert(&mut one, "jitter", nanoseconds(source.draw(0, 5_000) * MICROSECOND));
    }
    if one_in(source, 2) {
        insert(&mut one, "deadline", nanoseconds(period * source.draw(1, 8) / 2));
    }
    sender.into_iter().for_each(|name| insert(&mut one, "sender", name));
    if let Some(reader) = any_of(tree, tasks, source) {
        insert(&mut one, "to", reader);
    }
    one
}

/// A task, seldom one that keeps no word; or none.
fn any_of(tree: &mut Table, tasks: &[String], source: &mut Source) -> Option<String> {
    let name = tasks.get(source.draw(0, tasks.len() as u64) as usize)?.clone();
    let is_relied_on = task(tree, &name).is_some_and(|one| is(one, "hard") || is(one, "trusted"));
    (is_relied_on || one_in(source, 8)).then_some(name)
}
