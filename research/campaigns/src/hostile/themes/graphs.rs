//! Nodes of graphs: hard ones, trusted ones and strangers, with objects.

use fusee_graph::Rate;
use fusee_simulator::workload::Source;
use toml::Table;

use super::{MILLISECOND, insert, one_in, section, with_jobs};
use crate::blocking::graphs::edges;
use crate::hostile::tree::{names, nanoseconds, task, time};

/// The longest period of a source, nanoseconds.
const LONGEST: u64 = 120 * MILLISECOND;

/// Makes some tasks nodes of one graph or two: hard ones, trusted ones and strangers.
pub(super) fn add(tree: &mut Table, source: &mut Source) {
    let mut tasks = with_jobs(tree);
    tasks.retain(|_| !one_in(source, 4));
    // The order in which they are nodes.
    for place in (1..tasks.len()).rev() {
        tasks.swap(place, source.draw(0, place as u64) as usize);
    }
    let size = if tasks.len() > 3 && one_in(source, 3) { tasks.len().div_ceil(2) } else { tasks.len().min(8) };
    for (number, nodes) in tasks.chunks(size.max(2)).filter(|nodes| nodes.len() > 1).enumerate() {
        graph(tree, source, number, nodes);
    }
}

fn graph(tree: &mut Table, source: &mut Source, number: usize, nodes: &[String]) {
    let is_plain = !one_in(source, 3);
    let (rates, edges) = edges(source, nodes.len(), is_plain);
    let own = |tree: &mut Table, name: &String| task(tree, name).and_then(|one| time(one, "period")).unwrap_or(0);
    let needed = nodes.iter().zip(&rates).map(|(name, rate)| own(tree, name) * rate.jobs / rate.window);
    let period = needed.max().unwrap_or(0).max(MILLISECOND);
    if period > LONGEST {
        return;
    }
    for (place, (name, rate)) in nodes.iter().zip(&rates).enumerate() {
        let own = rate.period(period);
        let deadline = match source.draw(0, 4) {
            0 => own * source.draw(50, 100) / 100,
            1 => own * source.draw(1, 10),
            _ => own,
        };
        let Some(one) = task(tree, name) else { continue };
        one.remove("release");
        if place == 0 {
            insert(one, "period", nanoseconds(period));
        } else {
            for key in ["period", "phase"] {
                one.remove(key);
            }
            if one_in(source, 4) {
                insert(one, "early", one_in(source, 2));
            }
        }
        insert(one, "deadline", nanoseconds(deadline));
        if one_in(source, 2) {
            one.remove("backlog");
        }
    }
    let mut made = Table::new();
    insert(&mut made, "source", nodes[0].clone());
    if one_in(source, 3) {
        insert(&mut made, "latency", nanoseconds(period * source.draw(1, 20)));
    }
    let device = names(tree, "devices").first().cloned();
    let device = device.filter(|_| one_in(source, 2));
    device.iter().for_each(|device| insert(&mut made, "device", device.clone()));
    for (place, edge) in edges.iter().enumerate() {
        let mut one = Table::new();
        insert(&mut one, "from", nodes[edge.from].clone());
        insert(&mut one, "to", nodes[edge.to].clone());
        for (key, value, usual) in [
            ("produces", edge.tokens.produced(), 1),
            ("consumes", edge.tokens.consumed(), 1),
            ("threshold", edge.tokens.threshold(), edge.tokens.consumed()),
            ("initial", edge.tokens.initial(), 0),
        ] {
            if value != usual || one_in(source, 4) {
                insert(&mut one, key, i64::from(value));
            }
        }
        insert(section(&mut made, "edges"), &format!("e{place}"), one);
    }
    for place in 0..source.draw(0, 2) {
        if let Some(object) = object(source, nodes, &rates, device.is_some()) {
            insert(section(&mut made, "objects"), &format!("o{place}"), object);
        }
    }
    insert(section(tree, "graphs"), &format!("g{number}"), made);
}

/// An object that one node writes, and some of those read that run as often.
fn object(source: &mut Source, nodes: &[String], rates: &[Rate], is_on_device: bool) -> Option<Table> {
    let writer = source.draw(0, nodes.len() as u64 - 2) as usize;
    let mut readers = Table::new();
    for reader in writer + 1..nodes.len() {
        if rates[reader] == rates[writer] && !one_in(source, 3) {
            let mut keys = Table::new();
            for key in ["delay", "history"] {
                if one_in(source, 3) {
                    insert(&mut keys, key, source.draw(0, 3) as i64);
                }
            }
            insert(&mut readers, &nodes[reader], keys);
        }
    }
    if readers.is_empty() {
        return None;
    }
    let mut made = Table::new();
    insert(&mut made, "writer", nodes[writer].clone());
    insert(&mut made, "bytes", source.pick(&["1B", "64B", "4KiB", "5000B"]));
    insert(&mut made, "readers", readers);
    if one_in(source, 2) {
        insert(&mut made, "replicas", source.pick(&[1, 2, 4, 8, 64]));
    }
    if one_in(source, 4) {
        insert(&mut made, "overwrite", one_in(source, 2));
    }
    if is_on_device && one_in(source, 2) {
        insert(&mut made, "on_device", true);
    }
    Some(made)
}
