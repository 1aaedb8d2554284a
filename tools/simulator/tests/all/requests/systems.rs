//! Systems and programs of random shapes.

use super::*;

impl Task {
    pub(super) fn covers_engines(&self) -> bool {
        self.overrun.0 && matches!(self.class, Class::Periodic)
    }
}

impl System {
    pub(super) fn has_two_clusters(&self) -> bool {
        self.first_cluster < self.cpus
    }

    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        let mut line = |text: std::fmt::Arguments<'_>| writeln!(out, "{text}").expect("a string takes everything");
        let (cpus, first, managed) = (self.cpus, self.first_cluster, self.managed);
        line(format_args!("[system]\nname = \"random\"\nboard = \"virt\"\ncpus = {cpus}"));
        line(format_args!("start = \"1ms\"\nmanaged = {managed}\nadmission = \"warn\""));
        line(format_args!("[clusters.a]\ncpus = {:?}", (0..first).collect::<Vec<_>>()));
        if self.has_two_clusters() {
            line(format_args!("[clusters.b]\ncpus = {:?}", (first..cpus).collect::<Vec<_>>()));
        }
        for (index, task) in self.tasks.iter().enumerate() {
            self.write_task(&mut out, index, task);
        }
        let mut line = |text: std::fmt::Arguments<'_>| writeln!(out, "{text}").expect("a string takes everything");
        if !self.stops.is_empty() {
            line(format_args!("[tasks.supervisor]\nscript = [\"burn 1us\"]\ncluster = \"a\"\nclass = \"service\""));
            line(format_args!("period = \"10ms\"\nbudget = \"1ms\"\n[tasks.supervisor.handles]"));
            let victims = (0..self.tasks.len()).map(|index| format!("t{index}"));
            for victim in victims.chain(OTHERS.map(String::from)) {
                line(format_args!("{victim} = \"task {victim}: stop\""));
            }
        }
        if !self.agains.is_empty() {
            line(format_args!("[supervisor]\ntask = \"supervisor\"\ndies = \"go-on\""));
        }
        for other in 0..2 {
            line(format_args!("[endpoints.s{other}]\nserver = \"t{}\"\n[notifications.n{other}]", self.servers[other]));
            if let Some(bound) = self.bound[other] {
                line(format_args!("bound = \"t{bound}\""));
            }
        }
        self.write_device(&mut out);
        let mut line = |text: std::fmt::Arguments<'_>| writeln!(out, "{text}").expect("a string takes everything");
        if self.watchdog.is_some() {
            line(format_args!("[tasks.gpu.parameters]"));
            for index in 0..self.tasks.len() {
                line(format_args!("\"inject.t{index}\" = {}", self.wrong[index]));
            }
        }
        let keys = "cluster = \"a\"\nperiod = \"1s\"\ndeadline = \"120us\"\nbudget = \"120us\"";
        line(format_args!("{}", common::end(END, &format!("{keys}\nsuspends = \"{END}\""))));
        out
    }

    pub(super) fn write_task(&self, out: &mut String, index: usize, task: &Task) {
        let mut line = |text: std::fmt::Arguments<'_>| writeln!(out, "{text}").expect("a string takes everything");
        let cluster = if task.second_cluster && self.has_two_clusters() { "b" } else { "a" };
        line(format_args!("[tasks.t{index}]\nscript = [\"burn 1us\"]\ncluster = \"{cluster}\""));
        let period = task.period * 1_000;
        // Advice makes paths long.
        let (budget, deadline) = ((period * task.budget / 20).max(120), (period * task.deadline / 10).max(120));
        match task.class {
            Class::Periodic => {
                line(format_args!("period = \"{period}us\"\nbudget = \"{budget}us\"\ndeadline = \"{deadline}us\""));
                let (covers, overrun) = (if task.covers_engines() { "cpu+engines" } else { "cpu" }, task.overrun.1);
                let overrun = ["throttle", "signal", "early-release"][overrun];
                line(format_args!(
                    "budget_covers = \"{covers}\"\noverrun = \"{overrun}\"\nphase = \"{}ms\"",
                    task.phase
                ));
            }
            Class::Background => line(format_args!("class = \"background\"")),
            Class::Passive => {}
        }
        if !self.agains.is_empty() {
            line(format_args!("restart = \"always\""));
        }
        line(format_args!("[tasks.t{index}.handles]"));
        let mut used = Vec::new();
        for server in 0..2 {
            let receive = if self.servers[server] == index { " receive" } else { "" };
            line(format_args!("s{server} = \"endpoint s{server}: call send{receive}\""));
        }
        line(format_args!("n0 = \"notification n0: signal wait\"\nn1 = \"notification n1: signal wait\""));
        // Engines are used from one cluster: the manifest refuses anything else.
        if cluster == "a" {
            line(format_args!("e0 = \"engine e0: acquire\"\ne1 = \"engine e1: acquire\""));
            // Tokens are for those with a budget,
            if !matches!(task.class, Class::Passive) {
                line(format_args!("p0 = \"pool p0: acquire\""));
                used.push("p0");
            }
            if !self.crossing && !matches!(task.class, Class::Passive) {
                line(format_args!("p1 = \"pool p1: acquire\""));
                used.push("p1");
            }
        }
        // and across clusters for jobs.
        if self.crossing && matches!(task.class, Class::Periodic) {
            line(format_args!("p1 = \"pool p1: acquire\""));
            used.push("p1");
        }
        line(format_args!("sporadic = \"task sporadic: release_job credit\"\npage = \"region page: read map\""));
        if !self.stops.is_empty() {
            line(format_args!("victim = \"task t{}: stop\"", (index + 1) % self.tasks.len()));
        }
        // Said, not kept.
        for pool in used {
            line(format_args!("[tasks.t{index}.uses.{pool}]\ncpu = \"{}us\"", 100 * (index + 1)));
        }
    }

    /// The device with its two engines, and its pools.
    pub(super) fn write_device(&self, out: &mut String) {
        let mut line = |text: std::fmt::Arguments<'_>| writeln!(out, "{text}").expect("a string takes everything");
        let order = if self.cpus.is_multiple_of(2) { "priority" } else { "fifo" };
        let mut keys = format!("order = \"{order}\"\n");
        if self.grouped {
            keys += "group = \"both\"\n";
        }
        if let Some((hold, reset)) = self.watchdog {
            keys += &format!("watchdog = \"{hold}us\"\nreset_bound = \"{reset}us\"\n");
        }
        let again = if self.agains.is_empty() { "" } else { "\nrestart = \"always\"" };
        let driver = format!("period = \"5ms\"\nbudget = \"1ms\"{again}");
        let engines = [("e0", keys.as_str()), ("e1", &keys)];
        let device = Device { cluster: Some("a"), driver: &driver, engines: &engines, ..Device::GPU };
        let limit = ["\"unlimited\"", "\"r2dglp\"", "1"][self.tasks.len() % 3];
        let shortest = ["requests", "lengths"][self.tasks.len() / 3 % 2];
        let keys = format!("advice = \"{}\"\nshortest = \"{shortest}\"", ADVICE[self.servers[0] % 3]);
        for (pool, replicas) in [(0, 2), (1, 1)] {
            if pool == 1 && self.crossing {
                line(format_args!("[pools.p1]\nreplicas = 1\nlimit = \"ck-omlp\"\n{keys}"));
                continue;
            }
            line(format_args!("[pools.p{pool}]\ncluster = \"a\"\nreplicas = {replicas}\nlimit = {limit}\n{keys}"));
        }
        line(format_args!("{REST}{}", device.text()));
    }

    pub(super) fn programs(&self, manifest: &Manifest) -> Vec<(usize, Program)> {
        let program = |index: usize, task: &Task| {
            let handle = |object: usize| common::handle(manifest, index, OBJECTS[object]).unwrap_or(0);
            let wished = task.requests.iter().map(|wish| match *wish {
                Wish::Burn(span) => Request::Burn(span),
                // It would never be ended.
                Wish::Submit(engine, ENDLESS) if self.watchdog.is_none() => Request::Submit(engine, MS),
                Wish::Submit(engine, span) => Request::Submit(engine, span),
                // The same.
                Wish::Ring(..) if self.watchdog.is_none() => Request::Burn(US),
                Wish::Ring(engine, change, kicks) => Request::Ring(engine, change, kicks),
                Wish::Both(first, until) => {
                    let (first, words, number) = (handle(first), [handle(9 - first), 0], Call::AcquireGroup as u64);
                    Request::Call { number, first, second: 0, words, until, reply: Reply::Nobody }
                }
                Wish::Call { call, object, second, until, reply } => {
                    Request::Call { number: call as u64, first: handle(object), second, words: [0; 2], until, reply }
                }
                Wish::Wild { number, first, second, until, token } => {
                    Request::Call { number, first, second, words: [0; 2], until, reply: Reply::Token(token) }
                }
            });
            // Only jobs share a pool with other clusters.
            let number = if self.crossing { Call::NextJob as u64 } else { Call::Null as u64 };
            let (until, reply) = (Until::Never, Reply::Nobody);
            let begins = Request::Call { number, first: 0, second: 0, words: [0; 2], until, reply };
            let requests = [begins].into_iter().chain(wished).chain([Request::Burn(task.burn)]).collect();
            (index, Program::Requests { requests, again_from: Some(0) })
        };
        let mut programs: Vec<_> = self.tasks.iter().enumerate().map(|(index, task)| program(index, task)).collect();
        if !self.stops.is_empty() {
            programs.push((self.tasks.len(), self.supervisor(manifest)));
        }
        programs
    }

    /// Its index is that after the tasks'.
    pub(super) fn supervisor(&self, manifest: &Manifest) -> Program {
        let call = |call: Call, first, until| {
            let (number, reply) = (call as u64, Reply::Nobody);
            Request::Call { number, first, second: 0, words: [0; 2], until, reply }
        };
        let agains = self.agains.iter().map(Some).chain(std::iter::repeat(None));
        let requests = self.stops.iter().zip(agains).flat_map(|((span, victim), again)| {
            // The tasks first, the others behind them.
            let victim = victim % (self.tasks.len() + OTHERS.len());
            let name = victim.checked_sub(self.tasks.len()).map_or(format!("t{victim}"), |other| OTHERS[other].into());
            let handle = common::handle(manifest, self.tasks.len(), &name).unwrap_or(0);
            let mut requests =
                vec![call(Call::SleepUntil, 0, Until::After(*span)), call(Call::Stop, handle, Until::Never)];
            let of = |what: &str| common::handle(manifest, self.tasks.len(), &format!("{what}.{name}"));
            if let (Some((after, waits)), Some(task), Some(starts)) = (again, of("task"), of("starts")) {
                requests.push(call(Call::SleepUntil, 0, Until::After(*after)));
                requests.push(call(Call::Restart, task, Until::Never));
                requests.extend(waits.map(|span| call(Call::Wait, starts, Until::After(span))));
                requests.push(call(Call::ReadFault, task, Until::Never));
            }
            requests
        });
        Program::Requests { requests: requests.collect(), again_from: None }
    }
}

const REST: &str = r#"
[tasks.sporadic]
script = ["burn 500us"]
cluster = "a"
release = "sporadic"
period = "4ms"
budget = "1ms"

[regions.page]
bytes = "128KiB"
"#;
