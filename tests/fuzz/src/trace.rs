//! Bytes from a serial line, and all views of the records in them.
//!
//! The first byte says whether the string is frames as they come, or records, which are framed first: few strings have the right checksum.

use std::path::Path;
use std::sync::OnceLock;

use fusee_abi::trace::Record;
use fusee_exports::{litmus, perfetto};
use fusee_frames::{CPUS, FRAME_BYTES, Header, encode};
use fusee_manifest::trace::{Trace, describe};
use fusee_manifest::{Manifest, Resolved};
use fusee_views::explain;
use fusee_views::stream::Stream;

use crate::bytes::Bytes;

/// Bytes of the string that make a record.
const RECORD: usize = 12;

/// Reads `data`, and shows it.
///
/// # Panics
/// Something does not hold.
pub fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let trace = match bytes.byte() % 3 {
        0 => match Stream::read(bytes.0) {
            Ok(stream) => stream.trace(),
            Err(_) => return,
        },
        1 => {
            let line = frames(&mut bytes);
            let Ok(stream) = Stream::read(&line) else { return };
            stream.trace()
        }
        _ => match Trace::from_rings(bytes.0, 2) {
            Ok(trace) => trace,
            Err(_) => return,
        },
    };
    show(&trace);
}

/// Records as frames, some of them left out or spoilt.
fn frames(bytes: &mut Bytes<'_>) -> Vec<u8> {
    let mut line = Vec::new();
    let (mut number, mut time) = ([0_u64; CPUS], 0);
    while !bytes.0.is_empty() {
        let how = bytes.byte();
        let cpu = how % 3;
        let mut records = Vec::new();
        for _ in 0..1 + how / 16 {
            let mut of = Bytes(bytes.take(RECORD));
            number[usize::from(cpu)] += 1 + u64::from(of.byte() == 255);
            time += of.number(2);
            records.push(Record {
                time,
                number: number[usize::from(cpu)],
                event: of.byte() % 40,
                cpu,
                thread: of.number(1) as u16 % 8,
                job: of.number(1) as u32,
                object: of.number(2) as u32,
                value: of.number(4) as u32,
            });
        }
        let first = records.first().map_or(0, |record| record.number.saturating_sub(1));
        let header = Header { cpu, first, cpus: 3, written: number };
        let mut frame = [0; FRAME_BYTES];
        let Some(length) = encode(&header, &records, &mut frame) else { continue };
        if how & 8 != 0 {
            let at = usize::from(bytes.byte()) % length;
            frame[at] ^= bytes.byte();
        }
        line.extend_from_slice(&frame[..length]);
    }
    line
}

fn show(trace: &Trace) {
    let system = system();
    for record in &trace.records {
        assert!(!describe(record, system).is_empty());
    }
    let _ = (trace.logs().count(), trace.messages(), trace.ledgers(), trace.exit_code(), trace.has_schedule());
    let _ = trace.with_ledgers(&trace.counted_ledgers(system));
    let _ = fusee_manifest::trace::canonical(trace, system, fusee_manifest::trace::Places::default());
    let _ = explain::explain(trace, system, &[]);
    let _ = perfetto::perfetto(trace, system);
    let written = litmus::write(&litmus::records(trace, system));
    assert!(litmus::read(&written).is_ok(), "what was written is not read");
}

fn system() -> &'static Resolved {
    static SYSTEM: OnceLock<Resolved> = OnceLock::new();
    SYSTEM.get_or_init(|| {
        let text = include_str!("../systems/calls.toml");
        Manifest::parse(Path::new("calls.toml"), text).unwrap_or_else(|error| panic!("{error}")).system
    })
}
