//! Random systems with pools that have tokens of several devices: a job works on the one that its token is for.

use std::fmt::Write;

use fusee_simulator::workload::Source;

const MICROSECOND: u64 = 1_000;

/// The manifest of the system with this number, and the longest period in it.
pub(super) fn draw(seed: u64, number: u64) -> (String, u64) {
    let mut source = Source::new(seed, number);
    let (devices, cpus) = (source.draw(2, 3), source.draw(1, 4));
    let tokens = source.draw(1, 2);
    let policy = source.pick(&["EDF", "FL", "RM"]);
    let advice = source.pick(&["none", "random", "affinity"]);
    let order = source.pick(&["fifo", "fifo", "priority"]);
    let replicas = tokens * devices;
    let limit = source.pick(&[0, cpus.div_ceil(replicas), 2]);
    let limit = if limit == 0 { "\"unlimited\"".to_owned() } else { limit.max(cpus.div_ceil(replicas)).to_string() };
    let names: Vec<String> = (0..devices).map(|device| format!("\"gpu{device}\"")).collect();
    let row = format!("[{}]", vec!["100"; devices as usize].join(", "));
    let mut text = format!(
        "[system]\nname = \"d\"\nboard = \"virt\"\ncpus = {cpus}\nstart = \"1ms\"\npolicy = \"{policy}\"\nadmission = \"warn\"\n\
         distance = [{}]\n\n[pools.gpu]\nreplicas = {replicas}\nlimit = {limit}\nadvice = \"{advice}\"\ndevices = [{}]\n",
        vec![row; devices as usize].join(", "),
        names.join(", ")
    );
    let count = source.draw(2, 5);
    let mut longest = 0;
    for task in 0..count {
        let (before, section) = (source.draw(10, 200) * MICROSECOND, source.draw(10, 100) * MICROSECOND);
        let (mut script, mut uses, mut handles) = (String::new(), String::new(), String::new());
        let mut most = 0;
        for device in 0..devices {
            let (cpu, operation) = (source.draw(5, 50) * MICROSECOND, source.draw(50, 2_000) * MICROSECOND);
            let times = source.draw(1, 2);
            most = times * (cpu + operation).max(most);
            for _ in 0..times {
                let _ = write!(
                    script,
                    ", \"acquire ee{device}\", \"burn {cpu}ns\", \"submit ee{device} {operation}ns gpu_done.gpu{device}\", \"release ee{device}\""
                );
            }
            let _ = writeln!(
                uses,
                "uses.ee{device} = {{ times = {times}, cpu = \"{cpu}ns\", operation = \"{operation}ns\", within = \"gpu\" }}"
            );
            let _ = write!(handles, "ee{device} = \"engine ee{device}: acquire\", ");
        }
        let budget = 3_000 * MICROSECOND;
        let computed = before + section + 2 * devices * 50 * MICROSECOND;
        let period = (budget + (1 + count) * most) * source.draw(1, 4) + source.draw(0, 1_000_000);
        longest = longest.max(period);
        let _ = write!(
            text,
            "\n[tasks.t{task}]\nbinary = \"apps/product\"\nmodel = [\"burn {before}ns\", \"acquire gpu\", \"burn {section}ns\"{script}, \"release gpu\"]\n\
             period = \"{period}ns\"\nbudget = \"{budget}ns\"\nwcet = \"{computed}ns\"\nbacklog = 255\n\
             uses.gpu = {{ cpu = \"{section}ns\" }}\n{uses}handles = {{ {handles}gpu = \"pool gpu: acquire\" }}\n"
        );
    }
    for device in 0..devices {
        let _ = write!(
            text,
            "\n[tasks.d{device}]\nbinary = \"gpu-driver/gpu-driver\"\nclass = \"service\"\nperiod = \"10ms\"\nbudget = \"5ms\"\n\
             [tasks.d{device}.handles]\nline = \"interrupt gpu{device}: acknowledge\"\nevent = \"notification ev{device}: wait\"\n\
             tables = \"region tables{device}: read write physical\"\n\
             [engines.ee{device}]\ndevice = \"gpu{device}\"\nindex = 0\norder = \"{order}\"\ninterrupt = \"gpu{device}\"\npool = \"gpu\"\n\
             [devices.gpu{device}]\ndriver = \"d{device}\"\nfirmware = \"engine-core\"\nmemory = \"64KiB\"\n\
             [interrupts.gpu{device}]\nline = {}\nnotification = \"ev{device}\"\nedge = true\n[notifications.ev{device}]\n\
             [regions.tables{device}]\nbytes = 65536\n",
            112 + device
        );
    }
    (text, longest)
}
