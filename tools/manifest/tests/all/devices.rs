#![allow(missing_docs)]
//! Tokens of several devices, in the analysis: a job works on the device that its token is for.

use std::fmt::Write;
use std::path::Path;

use fusee_manifest::Manifest;
use fusee_manifest::admission::Study;
use fusee_sched_analysis::Overheads;

/// Four tasks on four CPUs, two tokens for each of two devices, and one kernel a job, of 4 ms on either device.
fn system(pool: &str) -> String {
    let mut text = format!(
        "[system]\nname = \"g\"\nboard = \"virt\"\ncpus = 4\nstart = \"1ms\"\npolicy = \"FL\"\nadmission = \"warn\"\n\
         distance = [[100, 100], [100, 100]]\n[pools.gpu]\nreplicas = 4\nlimit = \"r2dglp\"\n{pool}\n"
    );
    for task in 0..4 {
        let _ = write!(
            text,
            "[tasks.t{task}]\nbinary = \"apps/product\"\nperiod = \"100ms\"\nbudget = \"30ms\"\nwcet = \"1ms\"\n\
             uses.gpu = {{ cpu = \"100us\" }}\nuses.ee0 = {{ operation = \"4ms\", within = \"gpu\" }}\n\
             uses.ee1 = {{ operation = \"4ms\", within = \"gpu\" }}\n\
             handles = {{ ee0 = \"engine ee0: acquire\", ee1 = \"engine ee1: acquire\", gpu = \"pool gpu: acquire\" }}\n"
        );
    }
    for device in 0..2 {
        let _ = write!(
            text,
            "[tasks.d{device}]\nbinary = \"gpu-driver/gpu-driver\"\nclass = \"service\"\nperiod = \"10ms\"\nbudget = \"5ms\"\n\
             [tasks.d{device}.handles]\nline = \"interrupt gpu{device}: acknowledge\"\nevent = \"notification ev{device}: wait\"\n\
             tables = \"region tables{device}: read write physical\"\n\
             [engines.ee{device}]\ndevice = \"gpu{device}\"\nindex = 0\norder = \"fifo\"\ninterrupt = \"gpu{device}\"\npool = \"gpu\"\n\
             [devices.gpu{device}]\ndriver = \"d{device}\"\nfirmware = \"engine-core\"\nmemory = \"64KiB\"\n\
             [interrupts.gpu{device}]\nline = {}\nnotification = \"ev{device}\"\nedge = true\n[notifications.ev{device}]\n\
             [regions.tables{device}]\nbytes = 65536\n",
            112 + device
        );
    }
    text
}

/// Blocking and operations of each task, microseconds.
fn waits(text: &str) -> Vec<(u64, u64)> {
    let manifest = Manifest::parse(Path::new("m.toml"), text).unwrap_or_else(|error| panic!("{error}"));
    let (_, blocked) = Study::new(&manifest.system, 0).unwrap().analyse(&Overheads::default()).unwrap();
    blocked.iter().map(|one| (one.blocking.0 / 1_000, one.operations.0 / 1_000)).collect()
}

#[test]
fn one_of_two_tokens_of_a_device_waits_for_the_other_and_for_one_kernel() {
    assert_eq!(waits(&system("devices = [\"gpu0\", \"gpu1\"]")), [(4_000, 4_000); 4]);
}

/// If nothing says to which device the tokens belong, all four may work on the same device, and a job on both.
#[test]
fn tokens_of_no_device_may_all_be_used_at_one() {
    assert_eq!(waits(&system("")), [(24_000, 8_000); 4]);
}

#[test]
fn a_kernel_that_is_longer_on_one_device_counts_there() {
    let text = system("devices = [\"gpu0\", \"gpu1\"]").replacen(
        "uses.ee1 = { operation = \"4ms\"",
        "uses.ee1 = { operation = \"9ms\"",
        1,
    );
    assert_eq!(waits(&text), [(4_000, 9_000), (9_000, 4_000), (9_000, 4_000), (9_000, 4_000)]);
}
