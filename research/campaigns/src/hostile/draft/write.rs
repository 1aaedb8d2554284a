//! Drafts as manifests.

use std::fmt::Write;

use super::{Class, Draft, Has, Lock, MICROSECOND, Of, Place, START, TaskDraft};

const ENGINES: [&str; 3] = ["ee", "ce_in", "ce_out"];

impl Draft {
    /// The system as a manifest.
    pub(in crate::hostile) fn text(&self) -> String {
        let mut out = String::with_capacity(4_096);
        let cpus: u64 = self.clusters.iter().map(|(size, _)| size).sum();
        let _ = write!(
            out,
            "# {}\n[system]\nname = \"hostile\"\nboard = \"virt\"\ncpus = {cpus}\nstart = \"{}us\"\n",
            self.title,
            START / MICROSECOND
        );
        let mut next = 0;
        for (index, (size, policy)) in self.clusters.iter().enumerate() {
            let members: Vec<String> = (next..next + size).map(|cpu| cpu.to_string()).collect();
            next += size;
            let _ = write!(out, "\n[clusters.c{index}]\ncpus = [{}]\npolicy = \"{policy}\"\n", members.join(", "));
        }
        for (index, task) in self.tasks.iter().enumerate() {
            self.write_task(&mut out, index, task);
        }
        for (index, door) in self.endpoints.iter().enumerate() {
            let _ = write!(out, "\n[endpoints.e{index}]\nserver = \"t{}\"\n", door.server);
            if let Some((most, period)) = door.service {
                let _ = writeln!(out, "service_max = \"{most}ns\"");
                let _ = period.map(|period| writeln!(out, "service_period = \"{period}ns\""));
            }
        }
        for (index, service) in self.services.iter().enumerate() {
            let _ = write!(
                out,
                "\n[tasks.server{index}]\nbinary = \"apps/server\"\ncluster = \"c{}\"\nhandles.s{index} = \"endpoint s{index}: \
                 receive\"\n",
                service.cluster
            );
            self.write_calls(&mut out, &service.calls, true);
            let _ = write!(
                out,
                "\n[endpoints.s{index}]\nserver = \"server{index}\"\nservice_max = \"{}ns\"\n",
                service.most
            );
            let _ = service.period.map(|period| writeln!(out, "service_period = \"{period}ns\""));
        }
        for (index, bound) in self.notifications.iter().enumerate() {
            let _ = write!(out, "\n[notifications.n{index}]\n");
            let _ = bound.map(|task| writeln!(out, "bound = \"t{task}\""));
        }
        for (index, lock) in self.locks.iter().enumerate() {
            if !self.is_used(Of::Lock(index)) {
                continue;
            }
            let _ = write!(
                out,
                "\n[engines.{}]\norder = \"{}\"\n",
                self.lock_name(index),
                if lock.fifo { "fifo" } else { "priority" }
            );
            if lock.grouped {
                let kind = lock.device.map_or_else(String::new, |place| format!("d{}", place.device));
                let _ = writeln!(out, "group = \"g{}{kind}\"", lock.cluster);
            }
            if let Some(Place { device, number, watchdog }) = lock.device {
                let gpu = device_name(device);
                let _ = write!(out, "device = \"{gpu}\"\nindex = {number}\ninterrupt = \"{gpu}\"\n");
                let _ = watchdog.map(|span| writeln!(out, "watchdog = \"{span}ns\""));
                if self.keyed && (device, number) == (0, 0) && !lock.grouped {
                    out.push_str("arbiter = \"device\"\n");
                }
            }
        }
        for (index, pool) in self.pools.iter().enumerate() {
            if !self.is_used(Of::Pool(index)) {
                continue;
            }
            let _ = write!(out, "\n[pools.p{index}]\nreplicas = {}\nadvice = \"{}\"\n", pool.replicas, pool.advice);
            let _ = match pool.cluster {
                None => writeln!(out, "limit = \"ck-omlp\""),
                Some(of) if pool.limit == 0 => writeln!(out, "cluster = \"c{of}\"\nlimit = \"unlimited\""),
                Some(of) => writeln!(out, "cluster = \"c{of}\"\nlimit = {}", pool.limit),
            };
            let _ = pool.watchdog.map(|span| writeln!(out, "watchdog = \"{span}ns\""));
        }
        for device in 0..self.devices {
            let is_of = |lock: &Lock| lock.device.is_some_and(|place| place.device == device);
            let mut locks = self.locks.iter().enumerate();
            if locks.any(|(index, lock)| is_of(lock) && self.is_used(Of::Lock(index))) {
                write_device(&mut out, device, self.keyed && device == 0);
            }
        }
        out
    }

    fn write_calls(&self, out: &mut String, calls: &[(usize, u64)], are_said: bool) {
        for (service, times) in calls {
            let _ = writeln!(out, "handles.s{service} = \"endpoint s{service}: call\"");
            if are_said {
                let _ = writeln!(out, "uses.s{service} = {{ times = {times} }}");
            }
        }
    }

    fn is_used(&self, of: Of) -> bool {
        self.tasks.iter().any(|task| task.uses.iter().any(|one| one.of == of))
    }

    fn lock_name(&self, index: usize) -> String {
        match self.locks[index].device {
            Some(Place { device: 0, number, .. }) => ENGINES[number].to_owned(),
            Some(Place { device, number, .. }) => format!("{}{device}", ENGINES[number]),
            None => format!("m{index}"),
        }
    }

    fn name(&self, of: Of) -> String {
        match of {
            Of::Lock(index) => self.lock_name(index),
            Of::Pool(index) => format!("p{index}"),
        }
    }

    /// The task called `name` as it is if it does anything.
    pub(in crate::hostile) fn as_attacker(&self, name: &str) -> Option<String> {
        let index = name.strip_prefix('t')?.parse::<usize>().ok()?;
        let mut task = self.tasks.get(index)?.clone();
        task.wanted = false;
        task.calls.clear();
        let mut out = String::new();
        self.write_task(&mut out, index, &task);
        Some(out)
    }

    fn write_task(&self, out: &mut String, index: usize, task: &TaskDraft) {
        let _ = write!(out, "\n[tasks.t{index}]\ncluster = \"c{}\"\n", task.cluster);
        match task.class {
            Class::RealTime => {
                let _ = write!(
                    out,
                    "period = \"{}ns\"\nbudget = \"{}ns\"\ndeadline = \"{}ns\"\nwcet = \"{}ns\"\nphase = \"{}ns\"\nbacklog = {}\n",
                    task.period, task.budget, task.deadline, task.expects, task.phase, task.backlog
                );
                if self.clusters[task.cluster].1 == "FP" {
                    let _ = writeln!(out, "priority = {}", task.priority);
                }
                if task.sporadic {
                    out.push_str("release = \"sporadic\"\n");
                }
                if task.wanted {
                    out.push_str(if task.trusted { "trusted = true\n" } else { "hard = true\n" });
                    if task.sleeps > 0 {
                        let _ = writeln!(out, "suspends = \"{}ns\"", task.sleeps);
                    }
                } else {
                    let overrun = ["throttle", "signal", "early-release"][task.overrun];
                    let _ = writeln!(out, "overrun = \"{overrun}\"");
                    if task.early {
                        out.push_str("early_release = true\n");
                    }
                    if task.covers {
                        out.push_str("budget_covers = \"cpu+engines\"\n");
                    }
                }
            }
            Class::Service => {
                let _ = writeln!(
                    out,
                    "class = \"service\"\nperiod = \"{}ns\"\nbudget = \"{}ns\"",
                    task.period, task.budget
                );
            }
            Class::Background(true) => {
                let _ = writeln!(
                    out,
                    "class = \"background\"\nperiod = \"{}ns\"\nbudget = \"{}ns\"",
                    task.period, task.budget
                );
            }
            Class::Background(false) => out.push_str("class = \"background\"\n"),
            Class::Passive => {}
        }
        let inside = |bit: u32| if !task.wanted && task.may_inside >> bit & 1 != 0 { " inside" } else { "" };
        let [doors, events, locks] = [0, 1, 2].map(inside);
        let _ = match task.wanted {
            true => writeln!(out, "script = [{}]", self.script(task)),
            false => writeln!(out, "binary = \"apps/anything\"\nsleeps_inside = {}", !inside(3).is_empty()),
        };
        for has in &task.handles {
            let _ = match *has {
                Has::Endpoint(door) => {
                    let receives = if self.endpoints[door].server == index { " receive" } else { "" };
                    writeln!(out, "handles.e{door} = \"endpoint e{door}: call send{receives} grant{doors}\"")
                }
                Has::Notification(event) => {
                    writeln!(out, "handles.n{event} = \"notification n{event}: signal wait grant{events}\"")
                }
                Has::Task(other, rights) => writeln!(out, "handles.t{other} = \"task t{other}: {rights}\""),
            };
        }
        self.write_calls(out, &task.calls, task.class == Class::RealTime);
        for one in &task.uses {
            let name = self.name(one.of);
            let kind = if matches!(one.of, Of::Pool(_)) { "pool" } else { "engine" };
            let _ = writeln!(out, "handles.{name} = \"{kind} {name}: acquire{locks}\"");
            if one.silent {
                continue;
            }
            let mut keys = format!("cpu = \"{}ns\"", one.cpu);
            if kind == "engine" && one.times > 1 {
                let _ = write!(keys, ", times = {}", one.times);
            }
            if one.operation > 0 {
                let _ = write!(keys, ", operation = \"{}ns\"", one.operation);
            }
            let _ = writeln!(out, "uses.{name} = {{ {keys} }}");
        }
    }

    /// Steps of a task that is as it declares: it computes all it may, in parts, and holds its locks for as long as it declares.
    fn script(&self, task: &TaskDraft) -> String {
        let uses = &task.uses;
        let mut steps = Vec::new();
        let mut left = task.computes;
        let parts = uses.iter().map(|one| one.times).sum::<u64>() + 1;
        let between = left.saturating_sub(uses.iter().map(|one| one.times * one.cpu).sum::<u64>()) / parts;
        let calls =
            task.calls.iter().flat_map(|(service, times)| (0..*times).map(move |_| format!("call s{service} 0ns")));
        let mut inside: Vec<String> = if task.inside { calls.collect() } else { Vec::new() };
        inside.extend((task.inside && task.sleeps > 0).then(|| format!("sleep {}ns", task.sleeps)));
        let waits_inside = !inside.is_empty() && uses.iter().any(|one| one.times > 0);
        for one in uses {
            let name = self.name(one.of);
            for _ in 0..one.times {
                let hold = one.cpu.min(left.saturating_sub(between)) / 2;
                if hold == 0 {
                    break;
                }
                left -= between + 2 * hold;
                let _ = [format!("burn {between}ns"), format!("acquire {name}"), format!("burn {hold}ns")]
                    .map(|step| steps.push(step));
                if one.operation > 0 {
                    steps.push(format!("submit {name} {}ns gpu_done", one.operation));
                }
                steps.append(&mut inside);
                steps.push(format!("burn {hold}ns"));
                steps.push(format!("release {name}"));
            }
        }
        // None of these, if they are among the steps already.
        let waits_inside = waits_inside && inside.is_empty();
        let calls = task.calls.iter().filter(|_| !waits_inside);
        for (service, times) in calls {
            for _ in 0..*times {
                let part = left / 4;
                left -= part;
                steps.extend([format!("burn {part}ns"), format!("call s{service} 0ns")]);
            }
        }
        if task.sleeps > 0 && !waits_inside {
            steps.push(format!("burn {}ns", left / 2));
            steps.push(format!("sleep {}ns", task.sleeps));
            left -= left / 2;
        }
        steps.push(format!("burn {left}ns"));
        let quoted: Vec<String> = steps.into_iter().map(|step| format!("\"{step}\"")).collect();
        quoted.join(", ")
    }
}

fn device_name(device: usize) -> String {
    if device == 0 { "gpu".to_owned() } else { format!("gpu{device}") }
}

/// A device, its driver, and the driver's regions and lines.
fn write_device(out: &mut String, device: usize, is_keyed: bool) {
    let gpu = device_name(device);
    let line = 112 + device;
    let sms = if is_keyed { "sms = 4\n" } else { "" };
    let _ = write!(
        out,
        "
[tasks.{gpu}]
binary = \"gpu-driver/gpu-driver\"
cluster = \"c0\"
class = \"service\"
period = \"10ms\"
budget = \"5ms\"

[tasks.{gpu}.handles]
line = \"interrupt {gpu}: acknowledge\"
event = \"notification {gpu}_event: wait\"
tables = \"region {gpu}_tables: read write physical\"

[notifications.{gpu}_event]

[interrupts.{gpu}]
line = {line}
notification = \"{gpu}_event\"
cluster = \"c0\"
edge = true

[devices.{gpu}]
driver = \"{gpu}\"
firmware = \"engine-core\"
memory = \"64KiB\"
{sms}
[regions.{gpu}_tables]
bytes = \"64KiB\"
"
    );
}
