//! Jobs on one of two GPUs: how long they take, and the objects they hold.

use fusee_abi::trace::{Event, Record};
use fusee_manifest::Manifest;
use fusee_simulator::gpu_job::{GpuHandles, GpuTask};
use fusee_simulator::{Options, Program, simulate_with};
use fusee_views::metrics::Metrics;

use super::common::{self, Device, LIMIT, MS};

/// A task on two GPUs with a token each, and one that has the first token from the second job of the other on.
fn manifest() -> Manifest {
    let mut text =
        "[system]\nname = \"two\"\nboard = \"virt\"\ncpus = 1\nstart = \"10ms\"\ndistance = [[100, 100], [100, 100]]\n\
        [pools.gpus]\nreplicas = 2\nlimit = \"r2dglp\"\n\
        [tasks.worker]\nbinary = \"apps/gpusync\"\nperiod = \"50ms\"\nbudget = \"20ms\"\n\
        [tasks.worker.handles]\ngpus = \"pool gpus: acquire\"\n"
            .to_owned();
    for gpu in 0..2 {
        for engine in ["ee", "in", "out"] {
            text += &format!("\"{engine}.{gpu}\" = \"engine {engine}{gpu}: acquire\"\n");
        }
    }
    text += "[tasks.other]\nscript = [\"acquire gpus\", \"sleep 1s\"]\nperiod = \"2s\"\nphase = \"40ms\"\nbudget = \"20ms\"\n\
        [tasks.other.handles]\ngpus = \"pool gpus: acquire\"\n";
    text += &common::end("190ms", "class = \"service\"\nperiod = \"10ms\"\nbudget = \"1ms\"");
    for gpu in 0..2 {
        let name = format!("gpu{gpu}");
        let names = ["ee", "in", "out"].map(|engine| format!("{engine}{gpu}"));
        let (compute, copy) = ("pool = \"gpus\"", "pool = \"gpus\"\ngroup = \"copies\"");
        let device = Device {
            name: &name,
            line: 112 + gpu,
            cluster: None,
            driver: "period = \"10ms\"\nbudget = \"2ms\"",
            handles: &format!("tables = \"region tables{gpu}: read write physical\""),
            engines: &[(&names[0], compute), (&names[1], copy), (&names[2], copy)],
            ..Device::GPU
        };
        text += &format!("{}[regions.tables{gpu}]\nbytes = \"32KiB\"\n", device.text());
    }
    common::parse(&text)
}

fn worker(manifest: &Manifest, moments: Vec<u64>) -> GpuTask {
    let system = &manifest.system;
    let handle = |name: &str| common::handle(manifest, 0, name).filter(|handle| *handle != 0).expect("a handle");
    let user = |engine: &str| {
        let engine = system.engines.iter().position(|one| one.0 == engine).expect("an engine") as u32;
        system.engine_users.iter().position(|user| user.engine == engine && user.task == 0).expect("a use")
    };
    let gpus = (0..2).map(|gpu| GpuHandles {
        engines: ["ee", "in", "out"]
            .map(|engine| (handle(&format!("{engine}.{gpu}")), user(&format!("{engine}{gpu}")))),
        done: handle(&format!("gpu_done.gpu{gpu}")),
    });
    GpuTask {
        pool: (handle("gpus"), 1),
        gpus: gpus.collect(),
        compute: MS / 2,
        kernel: 2 * MS,
        copy: MS,
        chunk: MS,
        moves: vec![vec![0, 3 * MS], vec![3 * MS, 0]],
        pieces: 3,
        moments,
        factor: 2,
    }
}

/// Response times of the worker's jobs, and the trace.
fn run(moments: Vec<u64>) -> (Vec<i64>, Vec<Record>) {
    let manifest = manifest();
    let programs = vec![(0, Program::Gpus(worker(&manifest, moments)))];
    let report =
        simulate_with(&manifest, &Options { programs, ..Options::default() }, LIMIT).expect("all invariants hold");
    assert_eq!((report.exit, report.late_completions), (Some(0), 0));
    let mut metrics = Metrics::new(&manifest.system);
    report.records.iter().for_each(|record| metrics.observe(record));
    let responses = metrics.tasks[0].lateness.iter().map(|lateness| lateness + 50 * MS as i64).collect();
    (responses, report.records)
}

#[test]
fn a_job_takes_its_operations_and_that_which_changes_the_gpu_takes_the_move_too() {
    let (responses, _) = run(Vec::new());
    // Half a millisecond, in, two kernels, out, half a millisecond.
    let plain = 7 * MS as i64;
    assert_eq!(responses, [plain, plain + 3 * MS as i64, plain, plain]);
}

#[test]
fn a_move_holds_the_engine_out_of_the_old_gpu_and_the_one_into_the_new_at_once() {
    let (_, records) = run(Vec::new());
    // In the trace engines are numbered from one, in the order of the manifest: ee0, in0, out0, ee1, in1.
    let of = |event: Event, engine: u32| -> Vec<u64> {
        let is_it = |record: &&Record| record.event == event as u8 && record.thread == 1 && record.object == engine;
        records.iter().filter(is_it).map(|record| record.time).collect()
    };
    let granted = of(Event::EngineGrant, 3).into_iter().filter(|time| of(Event::EngineGrant, 5).contains(time));
    let granted: Vec<u64> = granted.collect();
    // At the second release, after half a millisecond.
    assert_eq!(granted, [60 * MS + MS / 2]);
    for engine in [3, 5] {
        assert!(of(Event::EngineRelease, engine).contains(&(granted[0] + 3 * MS)), "three chunks in one hold");
    }
}

#[test]
fn the_first_job_after_a_moment_is_longer() {
    // The third is released at 110 ms.
    let (responses, _) = run(vec![70 * MS, 110 * MS]);
    let plain = 7 * MS as i64;
    assert_eq!(responses, [plain, plain + 3 * MS as i64, 2 * plain, plain]);
}
