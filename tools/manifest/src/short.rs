//! Short forms: keys that stand for whole tables. Each is replaced by these before names are resolved, so the rest of the crate
//! knows none of them.
//!
//! - `like` of a task: the keys that another task writes.
//! - A device without `driver`: its driver, and the interrupt, the notification, the region and the engines that belong to it.
//! - `end` of the system: the task that ends it.
//!
//! A written table or key is kept. A made table is in the order of the file where the key is that it stands for, the task `end`
//! after all others; its mistakes are reported there.
//!
//! Not here: graphs and copies of tasks, which the resolver replaces later.

use std::collections::BTreeSet;
use std::ops::Range;

use fusee_accel_contract::{Contexts, CopyEngines, space};
use fusee_kernel_core::limits;
use toml::Spanned;

use crate::error::Reason;
use crate::layout::PAGE;
use crate::quantity::{Bytes, Time};
use crate::read::Mistake;
use crate::resolve::object_of;
use crate::schema::{self, Class, End, EndTask, File, Line, Named};

/// The program and the reservation of a driver that a device brings.
const DRIVER: &str = "gpu-driver/gpu-driver";
const DRIVER_PERIOD: Time = Time(10_000_000);
const DRIVER_BUDGET: Time = Time(2_000_000);
/// The firmware of such a device.
const FIRMWARE: &str = "engine-core";
/// The engine of a device that names none.
const ENGINE: &str = "ee";
/// The first line that a device may raise which is played by software.
const FIRST_LINE: u32 = 112;
/// The task that ends a system, and its reservation unless another is written.
const END: &str = "end";
const END_PERIOD: Time = Time(10_000_000);
const END_BUDGET: Time = Time(1_000_000);

/// Replaces all short forms of `file`.
pub(crate) fn expand(file: &mut File) -> Result<(), Vec<Mistake>> {
    let mut mistakes = likes(&mut file.tasks);
    for index in 0..file.devices.0.len() {
        if file.devices.0[index].1.driver.is_none() && file.devices.0[index].1.device.is_none() {
            let name = file.devices.0[index].0.clone();
            Own { index, name, engines: BTreeSet::new() }.expand(file, &mut mistakes);
        } else {
            mistakes.extend(only_with_own_driver(&file.devices.0[index]));
        }
    }
    if let Some(end) = file.system.end.take() {
        if file.tasks.get(END).is_some() {
            mistakes.push((end.span(), Reason::DefinedTwice { kind: "task", name: END.to_owned() }));
        } else {
            file.tasks.0.push(end_task(&end));
        }
    }
    if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
}

//--- Tasks like others

/// Gives each task with the key `like` the keys of the other task.
fn likes(tasks: &mut Named<schema::Task>) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let mut done = BTreeSet::new();
    for index in 0..tasks.0.len() {
        // The tasks from this one to the first that is complete, each like the next one.
        let mut chain = vec![index];
        while let Some(like) = chain.last().and_then(|last| tasks.0[*last].1.like.clone()) {
            let Some(next) = tasks.0.iter().position(|(name, _)| name.get_ref() == like.get_ref()) else {
                let choices = tasks.0.iter().map(|(name, _)| name.get_ref().clone()).collect();
                let name = like.get_ref().clone();
                mistakes.push((like.span(), Reason::Unknown { kind: "task", name, choices }));
                break;
            };
            if chain.contains(&next) {
                let task = tasks.0[next].0.get_ref().clone();
                // Each task of the circle finds it.
                if !mistakes.iter().any(|(_, reason)| matches!(reason, Reason::LikeItself { .. })) {
                    mistakes.push((like.span(), Reason::LikeItself { task }));
                }
                break;
            }
            chain.push(next);
            if done.contains(&next) {
                break;
            }
        }
        for pair in chain.windows(2).rev() {
            if done.insert(pair[0]) {
                let other = tasks.0[pair[1]].1.clone();
                take(&mut tasks.0[pair[0]].1, other);
            }
        }
    }
    for (_, task) in &mut tasks.0 {
        task.like = None;
    }
    mistakes
}

macro_rules! take {
    ($task:ident, $other:ident: $($key:ident)+; $($table:ident)+; $($not:ident)+) => {
        $($task.$key = $task.$key.take().or($other.$key);)+
        $(merge(&mut $task.$table, $other.$table);)+
        // All keys, and no others.
        const _: fn(&schema::Task) = |schema::Task { $($key: _,)+ $($table: _,)+ $($not: _),+ }| ();
    };
}

/// Takes each key of `other` that `task` does not write.
fn take(task: &mut schema::Task, other: schema::Task) {
    // A task has one program.
    if !has_program(task) {
        (task.binary, task.elf, task.script) = (other.binary, other.elf, other.script);
        task.model = task.model.take().or(other.model);
    }
    take! {
        task, other:
        cluster class release period deadline budget wcet priority overrun budget_covers backlog suspends trusted sleeps_inside
        early_release early phase hard stack restart dormant;
        parameters handles uses shares;
        like copies is_released_by_tokens binary elf script model
    }
}

fn has_program(task: &schema::Task) -> bool {
    task.binary.is_some() || task.elf.is_some() || task.script.is_some()
}

/// Puts the entries of `other` before those of `own`; an entry that both have is that of `own`, at the place of the other.
fn merge<T>(own: &mut Named<T>, other: Named<T>) {
    let mut merged = Vec::new();
    for (name, value) in other.0 {
        let written = own.0.iter().position(|(key, _)| key.get_ref() == name.get_ref());
        merged.push(written.map_or((name, value), |at| own.0.remove(at)));
    }
    merged.append(&mut own.0);
    own.0 = merged;
}

//--- Devices with drivers of their own

/// A handle: its name in the task, and its text.
type Handle = (Spanned<String>, Spanned<String>);

/// A device with a driver of its own.
struct Own {
    /// The place of the device among the devices.
    index: usize,
    name: Spanned<String>,
    engines: BTreeSet<String>,
}

/// The mistakes of keys that only a device with a driver of its own has.
fn only_with_own_driver((name, device): &(Spanned<String>, schema::Device)) -> Vec<Mistake> {
    let engines = device.engines.as_ref().map(|all| ("engines", all.first()));
    let buffers = device.buffers.as_ref().map(|all| ("buffers", all.0.first().map(|(client, _)| client)));
    let mistake = |(what, first): (&'static str, Option<&Spanned<String>>)| {
        let needs = "a driver of its own: leave `driver` and `device` out";
        (first.unwrap_or(name).span(), Reason::Needs { what, of: name.get_ref().clone(), needs })
    };
    engines.into_iter().chain(buffers).map(mistake).collect()
}

impl Own {
    fn expand(&mut self, file: &mut File, mistakes: &mut Vec<Mistake>) {
        self.add_device_keys(file);
        let line = self.written_object(file, "line").unwrap_or_else(|| self.name.get_ref().clone());
        self.add_engines(file, &line);
        let clients = self.clients(file);
        let buffers = self.buffers(file, &clients, mistakes);
        let cluster = clients.iter().find_map(|(task, _)| file.tasks.0[*task].1.cluster.clone());
        let event = self.add_interrupt(file, &line, cluster.as_ref());
        let tables = self.add_tables(file);
        let handles = [
            ("line", format!("interrupt {line}: acknowledge")),
            ("event", format!("notification {event}: wait")),
            ("tables", format!("region {tables}: read write physical")),
        ];
        let handles = handles.into_iter().map(|(entry, text)| (self.here(entry.to_owned()), self.here(text)));
        self.add_driver(file, cluster, handles.chain(buffers).collect());
    }

    /// A value that is written nowhere, at the place of the device.
    fn here<T>(&self, value: T) -> Spanned<T> {
        Spanned::new(self.name.span(), value)
    }

    fn called(&self, what: &str) -> String {
        format!("{}_{what}", self.name.get_ref())
    }

    fn add_device_keys(&self, file: &mut File) {
        let has_engines = file.engines.0.iter().any(|(_, engine)| self.is_own(engine));
        let device = &mut file.devices.0[self.index].1;
        device.driver = Some(self.name.clone());
        device.firmware.get_or_insert_with(|| self.here(FIRMWARE.to_owned()));
        if !has_engines {
            device.engines.get_or_insert_with(|| vec![self.here(ENGINE.to_owned())]);
        }
        let named = device.engines.as_deref().unwrap_or_default();
        let place = named.last().map_or(self.name.span(), Spanned::span);
        // With memory, copy engines that nobody names are there, too.
        let copies = match named.len().saturating_sub(1) {
            0 if device.memory.is_some() => CopyEngines::Two.engines() - 1,
            copies => copies,
        };
        device.copy_engines.get_or_insert(Spanned::new(place, copies));
    }

    fn is_own(&self, engine: &schema::Engine) -> bool {
        engine.device.as_ref().is_some_and(|device| device.get_ref() == self.name.get_ref())
    }

    /// The object of a handle that the driver's table writes.
    fn written_object(&self, file: &File, handle: &str) -> Option<String> {
        let text = file.tasks.get(self.name.get_ref())?.handles.get(handle)?;
        object_of(text.get_ref()).map(|(_, object)| object.to_owned())
    }

    fn add_engines(&mut self, file: &mut File, line: &str) {
        let named = file.devices.0[self.index].1.engines.take().unwrap_or_default();
        let fill = |engine: &mut schema::Engine, index: Option<Spanned<usize>>| {
            engine.device.get_or_insert_with(|| self.name.clone());
            engine.index = engine.index.take().or(index);
            engine.interrupt.get_or_insert_with(|| self.here(line.to_owned()));
        };
        for (index, name) in named.into_iter().enumerate() {
            let index = Some(Spanned::new(name.span(), index));
            match file.engines.0.iter_mut().find(|(key, _)| *key.get_ref() == *name.get_ref()) {
                // The engine of another device stays that.
                Some((_, engine)) if engine.device.is_some() && !self.is_own(engine) => {}
                Some((_, engine)) => fill(engine, index),
                None => {
                    let mut engine = schema::Engine::default();
                    fill(&mut engine, index);
                    file.engines.insert(name, engine);
                }
            }
        }
        for (_, engine) in file.engines.0.iter_mut().filter(|(_, engine)| self.is_own(engine)) {
            fill(engine, None);
        }
        let own = file.engines.0.iter().filter(|(_, engine)| self.is_own(engine));
        self.engines = own.map(|(name, _)| name.get_ref().clone()).collect();
    }

    /// The tasks with a handle to one of its engines, each with its name, or those of its copies.
    fn clients(&self, file: &File) -> Vec<(usize, Vec<String>)> {
        let uses = |task: &schema::Task| {
            let mut objects = task.handles.0.iter().filter_map(|(_, text)| object_of(text.get_ref()));
            objects.any(|(kind, object)| kind == "engine" && self.engines.contains(object))
        };
        let all = file.tasks.0.iter().enumerate().filter(|(_, (_, task))| uses(task));
        let names = |name: &Spanned<String>, task: &schema::Task| match &task.copies {
            None => vec![name.get_ref().clone()],
            // One more than fits is enough to be refused for it.
            Some(copies) => (1..=(*copies.get_ref()).min(limits::THREADS as u32 + 1))
                .map(|number| format!("{}{number}", name.get_ref()))
                .collect(),
        };
        all.map(|(index, (name, task))| (index, names(name, task))).collect()
    }

    /// The driver's handles to the regions of clients: those that `buffers` names, or each that is a client's handle `buffer`.
    fn buffers(&self, file: &mut File, clients: &[(usize, Vec<String>)], mistakes: &mut Vec<Mistake>) -> Vec<Handle> {
        let handle = |client: &str, region: &str, place: Range<usize>| {
            let spanned = |text| Spanned::new(place.clone(), text);
            (spanned(format!("buffer.{client}")), spanned(format!("region {region}: physical")))
        };
        if let Some(written) = file.devices.0[self.index].1.buffers.take() {
            let known: Vec<&String> = clients.iter().flat_map(|(_, names)| names).collect();
            let strangers = written.0.iter().filter(|(client, _)| !known.contains(&client.get_ref()));
            let unknown = |client: &Spanned<String>| {
                let (name, choices) = (client.get_ref().clone(), known.iter().map(|name| (*name).clone()).collect());
                (client.span(), Reason::Unknown { kind: "client of this device", name, choices })
            };
            mistakes.extend(strangers.map(|(client, _)| unknown(client)));
            let of = |(client, region): &(Spanned<String>, Spanned<String>)| {
                handle(client.get_ref(), region.get_ref(), region.span())
            };
            return written.0.iter().map(of).collect();
        }
        let of_client = |(task, names): &(usize, Vec<String>)| {
            let text = file.tasks.0[*task].1.handles.get("buffer")?;
            let (_, region) = object_of(text.get_ref()).filter(|(kind, _)| *kind == "region")?;
            Some(names.iter().map(|name| handle(name, region, text.span())).collect::<Vec<_>>())
        };
        clients.iter().filter_map(of_client).flatten().collect()
    }

    /// Adds the interrupt and its notification, unless they are written. Returns the name of the notification.
    fn add_interrupt(&self, file: &mut File, line: &str, cluster: Option<&Spanned<String>>) -> String {
        let written = self.written_object(file, "event");
        if let Some(interrupt) = file.interrupts.get(line) {
            return written.unwrap_or_else(|| interrupt.notification.get_ref().clone());
        }
        let event = written.unwrap_or_else(|| self.called("event"));
        if line != self.name.get_ref() {
            // It is missing, and the handle that names it is in the wrong.
            return event;
        }
        let taken = |number: u32| {
            let mut lines = file.interrupts.0.iter().map(|(_, other)| other.line.get_ref());
            lines.any(|other| matches!(other, Line::Number(other) if *other == number))
        };
        let number = (FIRST_LINE..).find(|number| !taken(*number)).unwrap_or(FIRST_LINE);
        let interrupt = schema::Interrupt {
            line: self.here(Line::Number(number)),
            notification: self.here(event.clone()),
            bits: None,
            cluster: cluster.cloned(),
            cpu: None,
            edge: true,
        };
        file.interrupts.insert(self.name.clone(), interrupt);
        if event == self.called("event") && file.notifications.get(&event).is_none() {
            file.notifications.insert(self.here(event.clone()), schema::Notification::default());
        }
        event
    }

    /// Adds the region of the device's tables, unless it is written. Returns its name.
    fn add_tables(&self, file: &mut File) -> String {
        if let Some(tables) = self.written_object(file, "tables") {
            return tables;
        }
        let tables = self.called("tables");
        if file.regions.get(&tables).is_none() {
            let contexts = file.devices.0[self.index].1.contexts.as_ref();
            let contexts = contexts.and_then(|number| Contexts::new(*number.get_ref())).unwrap_or_default();
            // Where there are ways, clients may have memory on all devices.
            let others = if file.system.distance.is_some() { file.devices.0.len() } else { 0 };
            let bytes = space::tables_bytes(contexts, others, 0).next_multiple_of(PAGE);
            let bytes = Some(self.here(Bytes(bytes)));
            file.regions.insert(self.here(tables.clone()), schema::Region { bytes, ..schema::Region::default() });
        }
        tables
    }

    fn add_driver(&self, file: &mut File, cluster: Option<Spanned<String>>, handles: Vec<Handle>) {
        if file.tasks.get(self.name.get_ref()).is_none() {
            file.tasks.insert(self.name.clone(), schema::Task::default());
        }
        let Some((_, task)) = file.tasks.0.iter_mut().find(|(name, _)| name.get_ref() == self.name.get_ref()) else {
            return;
        };
        if !has_program(task) {
            task.binary = Some(self.here(DRIVER.to_owned()));
        }
        if task.period.is_none() {
            task.class.get_or_insert_with(|| self.here(Class::Service));
        }
        task.period.get_or_insert_with(|| self.here(DRIVER_PERIOD));
        task.budget.get_or_insert_with(|| self.here(DRIVER_BUDGET));
        task.cluster = task.cluster.take().or(cluster);
        merge(&mut task.handles, Named(handles));
    }
}

//--- The end

/// The task that ends the system.
fn end_task(end: &Spanned<End>) -> (Spanned<String>, schema::Task) {
    let place = end.span();
    let End(EndTask { after, cluster, period, deadline, budget, suspends }) = end.get_ref().clone();
    let text = |text: String| Spanned::new(place.clone(), text);
    let here = |time: Time| Spanned::new(place.clone(), time);
    let task = schema::Task {
        script: Some(vec![text(format!("sleep {}", after.compact())), text("shutdown".to_owned())]),
        class: period.is_none().then(|| Spanned::new(place.clone(), Class::Service)),
        period: period.or_else(|| Some(here(END_PERIOD))),
        budget: budget.or_else(|| Some(here(END_BUDGET))),
        handles: Named(vec![(text("system".to_owned()), text("system: shutdown".to_owned()))]),
        cluster,
        deadline,
        suspends,
        ..schema::Task::default()
    };
    (text(END.to_owned()), task)
}
